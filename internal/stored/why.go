package stored

import (
	"path/filepath"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
)

// EndedIn reads the journal in a state folder, and returns a function that reports whether a batch
// has ended there: accepted, quarantined or dropped. The spool may still hold the payload of such a
// batch until its segment is removed.
func EndedIn(stateDir string) (func(record.BatchID) bool, error) {
	past, err := journal.Look(filepath.Join(stateDir, "journal"))
	if err != nil {
		return nil, err
	}
	return past.IsOver, nil
}

// Waits returns a function that says why payloads for a route wait, from the status of a running
// agent. The function returns "" if that is not known, and always if s is nil, which means that no
// agent runs.
func Waits(s *telemetry.Status) func(record.Route) string {
	if s == nil {
		return func(record.Route) string { return "" }
	}
	urls, known := make(map[string]string), make(map[string]bool)
	for _, c := range s.Clusters {
		urls[c.Name], known[c.URL] = c.URL, true
	}
	return func(to record.Route) string {
		if !known[to.Cluster] {
			return "no input sends to its cluster; if the URL was wrong: kusto-agent spool replay --cluster " + to.Cluster
		}
		for _, r := range s.Routes {
			if r.Database != to.Database || r.Table != to.Table || r.Format != string(to.Format) || r.Mapping != to.Mapping || urls[r.Cluster] != "" && urls[r.Cluster] != to.Cluster {
				continue
			}
			text := "its route is " + r.State
			if r.Hold == nil {
				return text
			}
			for _, more := range [][2]string{{": ", r.Hold.Code}, {": ", r.Hold.Message}, {"; ", r.Hold.Fix}} {
				if more[1] != "" {
					text += more[0] + more[1]
				}
			}
			return text
		}
		return ""
	}
}
