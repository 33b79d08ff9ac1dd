package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"kusto-agent/internal/console"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/schema"
	"kusto-agent/internal/units"
)

// A probe is a request to store nothing: the service refuses an empty body, but
// only after it found the table and the mapping.

// How long to wait between two probes.
const (
	firstPause = 500 * time.Millisecond
	mostPause  = 10 * time.Second
)

// await waits until the service takes records for the input of a plan, for at most s.Wait. It sends
// requests that store nothing. If one is refused since a node has not seen a change yet, it clears
// the schema cache, once. If the identity may not ingest, it grants it that right, if the
// configuration names the identity and --grant is not given. With s.ProbeRecord it then sends one
// record.
func (s *Setup) await(ctx context.Context, p *inputPlan) error {
	ctx, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()
	stale := len(p.Steps) > 0 && !s.cleared[p.database()] // nodes may know an older schema
	mayGrant, granted := s.own(p) != "", len(s.Grants) > 0
	var last *kusto.Error
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		if stale {
			stale = s.clear(ctx, p)
			s.cleared[p.database()] = !stale
		}
		a := s.conns[p.in.Cluster].Ingest(ctx, p.probe(nil))
		seen := a.Verdict == kusto.Accepted || a.Verdict == kusto.BadData
		forbidden := a.Status == http.StatusForbidden
		switch {
		case seen && !stale:
			console.Say("%s: the service takes its records", p.in.Name)
			if s.ProbeRecord {
				return s.sendRecord(ctx, p)
			}
			return nil
		case seen: // this node knows the table, but not all nodes have cleared their cache
		case forbidden && !granted && mayGrant:
			for _, text := range []string{schema.GrantIngestor(p.in.Table, s.own(p)), schema.ClearCache} {
				if err := s.do(ctx, p, text); err != nil {
					return err
				}
			}
			granted, stale = true, !s.cleared[p.database()]
			continue
		case a.Verdict == kusto.Hold && (isStale(a.Err) || forbidden && granted):
			stale = !s.cleared[p.database()] // unless all nodes cleared their cache before
		case a.Verdict == kusto.Hold, a.Verdict == kusto.Auth, a.Verdict == kusto.TooLarge:
			return endpoint.Failure(a.Err)
		}
		if !seen && ctx.Err() == nil {
			last = a.Err
			console.Say("%s: not seen yet: %v", p.in.Name, last)
		}
		if err := rest(ctx, pause); err != nil {
			return s.gaveUp(p, err, last)
		}
	}
}

// gaveUp returns the error of a wait that ended before the service took records. err is the end of
// the context, and last the last refusal; nil if there was none. The time limit is reported to the
// user.
func (s *Setup) gaveUp(p *inputPlan, err error, last *kusto.Error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return exit.With(exit.Failed, errors.New("stopped"))
	}
	console.Say("%s: the service did not see the changes within %v; run setup again to continue", p.in.Name, units.Duration(s.Wait))
	if last == nil {
		return exit.Silently(exit.Failed)
	}
	return endpoint.Failure(last)
}

// rest waits for d. If ctx ends first, it returns the error of ctx.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isStale reports whether a refusal may come from a node that has not seen a change of the schema
// yet: table, mapping or policy is not found.
func isStale(e *kusto.Error) bool {
	return slices.ContainsFunc([]string{"EntityNotFound", "NotExist", "PolicyNotEnabled"}, func(code string) bool { return strings.Contains(e.Code, code) })
}

// probe returns an ingest request for the route of the plan. With a nil body it stores nothing, but
// the service still checks table, mapping and role.
func (p *inputPlan) probe(body []byte) *kusto.Ingest {
	return &kusto.Ingest{
		Database: p.in.Database, Table: p.in.Table, Format: string(p.in.Format), Mapping: p.in.Mapping,
		Body: body, RequestID: "kusto-agent.setup;" + uuid.NewString(),
	}
}

// clear makes all streaming nodes read the schema of the database again. It returns true if some
// have not done so yet. If the identity may not do this, it returns false, and s.noClear is set:
// the nodes then need up to 5 minutes by themselves.
func (s *Setup) clear(ctx context.Context, p *inputPlan) (left bool) {
	if s.noClear {
		return false
	}
	var got query.Collector
	err := s.conns[p.in.Cluster].Query(ctx, &query.Query{Call: query.Mgmt, Database: p.Route.Database, Text: schema.ClearCache}, &got)
	var e *kusto.Error
	switch {
	case errors.As(err, &e) && e.Status == http.StatusForbidden:
		s.noClear = true
		console.Say("%s: the schema cache of the streaming nodes could not be cleared, so the change takes up to 5 minutes: %v", p.in.Name, err)
		return false
	case err != nil:
		console.Say("%s: %v", p.in.Name, err)
		return true
	}
	nodes, slow := 0, 0
	got.Each(func(row map[string]string) {
		if nodes++; row["Status"] != "Succeeded" {
			slow++
		}
	})
	if slow > 0 {
		console.Say("%s: %d of %s have not looked at the schema yet", p.in.Name, slow, units.Counted(nodes, "node"))
	}
	return slow > 0
}

// sendRecord stores the first record of the sample and waits until the number of rows of the table
// grows. The agent will store this record a second time. It does nothing if the sample has no
// single record.
func (s *Setup) sendRecord(ctx context.Context, p *inputPlan) error {
	conn := s.conns[p.in.Cluster]
	if p.Sample == nil || p.Sample.First == nil {
		console.Say("%s: %s has no single records that could be sent", p.in.Name, p.in.Format)
		return nil
	}
	count := func() (n int64, err error) {
		var got query.Collector
		err = conn.Query(ctx, &query.Query{Call: query.QueryV2, Database: p.in.Database, Text: kusto.EntityName(p.in.Table) + " | count", ReadOnly: true}, &got)
		got.Each(func(row map[string]string) { n, _ = strconv.ParseInt(row["Count"], 10, 64) })
		return n, endpoint.Failure(err)
	}
	before, err := count()
	if err != nil {
		return err
	}
	if a := conn.Ingest(ctx, p.probe(p.Sample.First)); a.Verdict != kusto.Accepted {
		return endpoint.Failure(a.Err)
	}
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		now, err := count()
		if err != nil {
			return err
		}
		if now > before {
			console.Say("%s: its first record is stored and can be queried; the agent will store it a second time", p.in.Name)
			return nil
		}
		if err := rest(ctx, pause); err != nil {
			return exit.With(exit.Failed, fmt.Errorf("%s: a record was accepted, and is not seen within %v", p.in.Name, s.Wait))
		}
	}
}
