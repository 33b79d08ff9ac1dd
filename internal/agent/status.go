package agent

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
	"kusto-agent/internal/version"
	"kusto-agent/sender"
	"kusto-agent/tail"
)

// status collects the state of all parts of the agent, with every file, for the status document.
func (a *Agent) status() telemetry.Status {
	s := a.brief()
	s.Files, s.Idle = fileStatuses(a.tail.Files()), nil
	return s
}

// brief collects the state of all parts of the agent like status, but only counts idle files
// instead of listing them: of many files most are idle.
func (a *Agent) brief() telemetry.Status {
	a.mu.Lock()
	s := telemetry.Status{Version: version.Text(), Started: a.began, State: a.state, Config: a.reload}
	a.mu.Unlock()
	cfg := a.config()
	for i := range cfg.Inputs {
		in := &cfg.Inputs[i]
		s.Inputs = append(s.Inputs, telemetry.Input{
			Name: in.Name, Cluster: in.Cluster, Database: in.Database, Table: in.Table, Format: string(in.Format), Mapping: in.Mapping,
		})
	}
	routes, clusters := a.sender.Status()
	a.addRoutes(&s, routes, a.addClusters(&s, clusters))
	a.addFiles(&s)
	for path, why := range a.tail.Problems() {
		s.Problems = append(s.Problems, record.Spell(path)+": "+record.Spell(why))
	}
	for cluster, n := range a.foreignSpool() {
		s.Problems = append(s.Problems, fmt.Sprintf("spool: it holds %s for %s, which no input sends to; %s", units.Counted(n, "payload"), cluster, replayFix(cluster)))
	}
	slices.Sort(s.Problems)
	s.Watch.Error, s.Watch.Fix = a.tail.Watching()
	s.Spool = a.spoolStatus()
	if err := a.journal.Health(); err != nil {
		s.Journal.Error = err.Error()
	}
	a.addQuarantine(&s)
	return s
}

// addQuarantine adds the state of quarantine to the status: its size and, if it cannot keep
// records, the error with what to do.
func (a *Agent) addQuarantine(s *telemetry.Status) {
	q := a.quarantine.State()
	s.Quarantine = telemetry.Quarantine{Bytes: q.Bytes, MaxBytes: int64(a.config().Quarantine.MaxSize), Dropped: q.Dropped, Since: q.Since}
	if q.Err != nil {
		s.Quarantine.Error, s.Quarantine.Fix = q.Err.Error(), quarantine.Fix(q.Err)
	}
}

// addClusters adds clusters, those that the sender knows, to the status, sorted by name, and returns
// their names by URL.
func (a *Agent) addClusters(s *telemetry.Status, clusters []sender.ClusterStatus) map[string]string {
	names := make(map[string]string)
	for _, c := range clusters {
		names[c.URL] = c.Name
		s.Clusters = append(s.Clusters, telemetry.Cluster{
			Name: c.Name, URL: c.URL, State: c.State, Concurrency: c.Concurrency, InFlight: c.InFlight,
			TokenExpires: a.tokenExpiry(c.URL), Hold: holdOf(c.Hold, c.NextTry),
		})
	}
	slices.SortFunc(s.Clusters, func(a, b telemetry.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return names
}

// addRoutes adds routes, those that the sender knows, to the status, except those that are not
// configured any more and have no payloads left. names has the names of the clusters by their URL.
func (a *Agent) addRoutes(s *telemetry.Status, routes []sender.RouteStatus, names map[string]string) {
	configured := a.config().Routes()
	for _, r := range routes {
		if _, wanted := configured[r.Route]; !wanted && r.Queued+r.InFlight+r.Spooled == 0 {
			continue // a reload removed the route, and no payload is left for it
		}
		out := telemetry.Route{
			Cluster: names[r.Route.Cluster], Database: r.Route.Database, Table: r.Route.Table,
			Format: string(r.Route.Format), Mapping: r.Route.Mapping, State: r.State,
			Queued: r.Queued, InFlight: r.InFlight, Spooled: r.Spooled, FailingAlone: r.FailingAlone, Accepted: r.Accepted, LastAccepted: r.Last,
		}
		out.Hold = holdOf(r.Hold, r.NextTry)
		s.Routes = append(s.Routes, out)
	}
	slices.SortFunc(s.Routes, func(a, b telemetry.Route) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Format, b.Format), cmp.Compare(a.Mapping, b.Mapping))
	})
}

// holdOf returns the reason why a route or cluster is not up, with the time of the next attempt;
// nil if it is up.
func holdOf(h *sender.Hold, next time.Time) *telemetry.Hold {
	if h == nil {
		return nil
	}
	return &telemetry.Hold{Since: h.Since, Code: h.Code, Message: h.Message, Fix: h.Fix, Activity: h.Activity, NextTry: next}
}

// addFiles adds the state of each file that is not idle to the status document, the number of idle
// files by input, and the memory that the state of all files takes.
func (a *Agent) addFiles(s *telemetry.Status) {
	files, idle := a.tail.FilesAtWork()
	s.Files, s.Idle, s.KnownBytes = fileStatuses(files), idle, a.known.Load()
}

// fileStatuses converts the status of files, as fileStatus does.
func fileStatuses(files []tail.FileStatus) (all []telemetry.File) {
	now := time.Now()
	for _, f := range files {
		all = append(all, fileStatus(f, now))
	}
	return all
}
