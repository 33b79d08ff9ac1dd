package setup

import (
	"context"
	"errors"
	"fmt"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/schema"
	"kusto-agent/internal/telemetry"
)

// execute prints the commands of all plans, one database after the other, and runs them, except
// with s.DryRun. The last command for a database makes all streaming nodes read the schema again. It
// stops at the first error. failed says that an input has no plan: of its table nothing is said.
func (s *Setup) execute(ctx context.Context, failed bool) error {
	databases := s.databases()
	for _, plans := range databases {
		fmt.Fprintf(s.Out, "// database %s of %s\n", telemetry.Printable(plans[0].Route.Database), plans[0].in.ClusterURL)
		for _, p := range plans {
			for _, st := range p.Steps {
				if err := s.do(ctx, p, st.Text); err != nil {
					return err
				}
			}
		}
		if err := s.do(ctx, plans[0], schema.ClearCache); err != nil {
			return err
		}
		if s.DryRun {
			s.further(plans)
		}
	}
	switch {
	case len(databases) > 0 || len(s.plans) == 0:
	case failed:
		console.Say("nothing to do for the other inputs: their tables, mappings and policies are there")
	default:
		console.Say("nothing to do: tables, mappings and policies are there")
	}
	return nil
}

// databases returns the plans that have commands to run, grouped by their database, in the order of
// the first plan of each.
func (s *Setup) databases() (all [][]*inputPlan) {
	at := make(map[database]int)
	for _, p := range s.plans {
		if len(p.Steps) == 0 {
			continue
		}
		if _, known := at[p.database()]; !known {
			at[p.database()] = len(all)
			all = append(all, nil)
		}
		all[at[p.database()]] = append(all[at[p.database()]], p)
	}
	return all
}

// do prints a command for a plan and runs it, except with s.DryRun. For the command that clears the schema
// cache, it notes whether all nodes have done so. Errors have exit codes.
func (s *Setup) do(ctx context.Context, p *inputPlan, text string) error {
	fmt.Fprintln(s.Out, text)
	if s.DryRun {
		return nil
	}
	if err := s.Out.Flush(); err != nil {
		return err
	}
	if text == schema.ClearCache {
		s.cleared[p.database()] = !s.clear(ctx, p)
		return ctx.Err()
	}
	err := s.conns[p.in.Cluster].Query(ctx, &query.Query{Call: query.Mgmt, Database: p.Route.Database, Text: text}, &query.Collector{})
	if e, ok := errors.AsType[*kusto.Error](err); ok && e.Status == 403 {
		console.Say("the identity of the agent may not run this; an administrator has to run the commands that this prints: kusto-agent setup --dry-run --config %s", config.Quoted(s.Path))
	}
	return endpoint.Failure(err)
}

// further tells the user of a dry run the commands that a real run would add for these plans:
// grants for the identity of the agent, if it may not write to a table yet.
func (s *Setup) further(plans []*inputPlan) {
	if len(s.Grants) > 0 {
		return
	}
	done := make(map[string]bool)
	for _, p := range plans {
		if who := s.own(p); who != "" && !done[schema.GrantIngestor(p.in.Table, who)] {
			done[schema.GrantIngestor(p.in.Table, who)] = true
			console.Say("where the identity of the agent may not write there yet: %s", schema.GrantIngestor(p.in.Table, who))
		}
	}
}

// own returns the identity of the agent in the form of Kusto commands, by the configuration of the
// cluster of p; "" if the configuration does not name it.
func (s *Setup) own(p *inputPlan) string {
	a := s.conns[p.in.Cluster].Cluster.Auth
	if a.ClientID == "" || a.Tenant == "" || a.Method == "none" {
		return ""
	}
	return "aadapp=" + a.ClientID + ";" + a.Tenant
}
