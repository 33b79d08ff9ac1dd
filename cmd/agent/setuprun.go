package main

import (
	"context"
	"errors"
	"fmt"
	"kusto-agent/kusto"
	"kusto-agent/telemetry"
)

const clearCache = ".clear database cache streamingingestion schema"

// execute prints the commands, and runs them.
func (s *setup) execute(ctx context.Context) error {
	var at tableKey
	touched := false
	for _, p := range s.plans {
		for _, st := range p.steps {
			if here := (tableKey{st.cluster, st.database, ""}); here != at {
				at = here
				fmt.Fprintf(s.out, "// database %s of %s\n", telemetry.Printable(st.database), p.in.ClusterURL)
			}
			touched = true
			if err := s.do(ctx, p, st.text); err != nil {
				return err
			}
		}
	}
	if !touched {
		say("nothing to do: tables, mappings and policies are there")
		return nil
	}
	if s.dryRun {
		s.further()
	}
	return nil
}

// do prints a command and runs it.
func (s *setup) do(ctx context.Context, p *planner, text string) error {
	fmt.Fprintln(s.out, text)
	if s.dryRun {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	err := s.conns[p.key.cluster].Query(ctx, &kusto.Query{Call: kusto.Mgmt, Database: p.key.database, Text: text}, &kusto.Collector{})
	var e *kusto.Error
	if errors.As(err, &e) && e.Status == 403 {
		say("the identity of the agent may not run this; have somebody run what this prints: kusto-agent setup --dry-run --config %s", quotedWord(s.config))
	}
	return serviceError(err)
}

// further prints what follows the commands where they are run by hand.
func (s *setup) further() {
	done := make(map[tableKey]bool)
	for _, p := range s.plans {
		database := tableKey{p.key.cluster, p.key.database, ""}
		if len(p.steps) == 0 || done[database] {
			continue
		}
		done[database] = true
		fmt.Fprintln(s.out, clearCache)
	}
	if len(s.grantees) > 0 {
		return
	}
	for _, p := range s.plans {
		if who := s.own(p); who != "" && len(p.steps) > 0 && !done[p.key] {
			done[p.key] = true
			fmt.Fprintln(s.out, "// where the identity of the agent may not write there yet:")
			fmt.Fprintln(s.out, "// "+grantIngestor(p.in.Table, who))
		}
	}
}

// own is the principal that the agent is by its configuration; empty: that is not
// written there.
func (s *setup) own(p *planner) string {
	a := s.conns[p.key.cluster].cluster.Auth
	if a.ClientID == "" || a.Tenant == "" || a.Method == "none" {
		return ""
	}
	return "aadapp=" + a.ClientID + ";" + a.Tenant
}
