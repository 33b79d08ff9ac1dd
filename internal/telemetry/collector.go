package telemetry

import (
	"cmp"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
)

// put sends a value of a metric of the catalog, with its labels in their order.
type put func(metric string, v float64, labels ...string)

// collector computes the metrics that are looked up rather than counted. Each scrape takes one
// status, and with it one snapshot of the ledger, so that the books balance in every scrape.
type collector struct{ server *Server }

// Describe sends nothing: the metrics of a scrape follow from the status.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector: it takes one status of the agent and sends all metrics
// that follow from it.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.server.brief()
	put := func(metric string, v float64, labels ...string) {
		m := described()[metric]
		out <- prometheus.MustNewConstMetric(m.Desc, m.kind, v, labels...)
	}
	states := map[string]int{}
	for _, in := range s.Inputs {
		collectBooks(put, in.Name, in.Books)
		if in.Table != "" { // an input that a reload removed has only its books
			put("input_info", 1, in.Name, in.Cluster, in.Database, in.Table, in.Format, in.Mapping)
		}
		put("file_lag_bytes", float64(in.LagBytes), in.Name)
		put("pinned_deleted_bytes", float64(in.Pinned), in.Name)
		for state, n := range in.Files {
			states[state] += n
		}
	}
	for state, n := range states {
		put("files", float64(n), state)
	}
	put("known_files_bytes", float64(s.KnownBytes))
	for _, t := range s.Tables {
		for _, end := range []struct {
			outcome string
			ledger.Sum
		}{{OutcomeAccepted, t.Accepted}, {"quarantined", t.Quarantined}, {"dropped", t.Dropped}} {
			put("table_records_total", float64(end.Records), t.Database, t.Table, end.outcome)
			put("table_bytes_total", float64(end.Bytes), t.Database, t.Table, end.outcome)
		}
	}
	collectRoutes(s.Routes, put)
	collectBlocked(s, put)
	if at := firstExpiry(s.Clusters); !at.IsZero() {
		put("token_expires_seconds", time.Until(at).Seconds())
	}
	put("quarantine_bytes", float64(s.Quarantine.Bytes))
	put("quarantine_healthy", oneIf(s.Quarantine.Error == ""))
	put("quarantine_dropped_records_total", float64(s.Quarantine.Dropped))
	if s.Spool != nil {
		put("spool_bytes", float64(s.Spool.Bytes))
		put("spool_oldest_seconds", secondsSince(s.Spool.Oldest))
		put("spool_healthy", oneIf(s.Spool.Error == ""))
	}
	put("config_last_reload_successful", oneIf(s.Config.Error == ""))
	put("watch_healthy", oneIf(s.Watch.Error == ""))
	put("state_disk_healthy", oneIf(s.Journal.Error == ""))
	put("log_lines_dropped_total", float64(c.server.opts.Log.Dropped()))
	put("build_info", 1, s.Version, runtime.Version())
}

// collectRoutes sends the metrics of how many routes are in each state, and how many of each table
// are held, by error code. A table has a route for each format and mapping.
func collectRoutes(routes []Route, put put) {
	held := map[[3]string]int{}
	for _, r := range routes {
		if r.State == Held {
			hold := cmp.Or(r.Hold, &Hold{})
			held[[3]string{r.Database, r.Table, hold.Code}]++
		}
	}
	for state, n := range routeStates(routes) {
		put("routes", float64(n), state)
	}
	for h, n := range held {
		put("routes_held", float64(n), h[0], h[1], h[2])
	}
}

// collectBlocked sends for how many seconds routes have been down or held, and in how many seconds
// they are tried next. If the cluster of a route is down or held itself, its times count. Of
// several routes of a table it takes the longest time and the earliest attempt.
func collectBlocked(s *Status, put put) {
	clusters := make(map[string]*Hold)
	for _, c := range s.Clusters {
		if c.State == Down || c.State == Held {
			clusters[c.Name] = c.Hold
		}
	}
	blocked := make(map[[3]string]float64)
	next := make(map[[2]string]float64)
	for _, r := range s.Routes {
		h := r.Hold
		if of := clusters[r.Cluster]; of != nil {
			h = of
		}
		if h == nil || r.State != Down && r.State != Held {
			continue
		}
		key, table := [3]string{r.Database, r.Table, cmp.Or(h.Code, "none")}, [2]string{r.Database, r.Table}
		blocked[key] = max(blocked[key], secondsSince(h.Since))
		wait := max(0, time.Until(h.NextTry).Seconds())
		if was, known := next[table]; !known || wait < was {
			next[table] = wait
		}
	}
	for k, seconds := range blocked {
		put("route_blocked_seconds", seconds, k[0], k[1], k[2])
	}
	for k, seconds := range next {
		put("route_next_try_seconds", seconds, k[0], k[1])
	}
}

// collectBooks sends the accounts of one input. Accounts that are kept by reason show the known
// reasons from the start, so that the first record of one is an increase.
func collectBooks(put put, input string, b ledger.Books) {
	put("records_read_total", float64(b.Read), input)
	put("bytes_read_total", float64(b.ReadBytes), input)
	put("records_restored_total", float64(b.Restored), input)
	put("records_accepted_total", float64(b.Accepted), input)
	put("records_pending", float64(b.Pending), input)
	put("records_spooled", float64(b.Spooled), input)
	byReason := func(metric string, count map[string]uint64, known ...string) {
		for _, reason := range known {
			put(metric, float64(count[reason]), input, reason)
			delete(count, reason) // the map belongs to this status alone
		}
		for reason, n := range count {
			put(metric, float64(n), input, reason)
		}
	}
	byReason("records_quarantined_total", b.Quarantined,
		string(record.TooLong), string(record.Malformed), string(record.Refused), string(record.Grown))
	byReason("records_dropped_total", b.Dropped, ledger.SpoolFull, ledger.SpoolAge, ledger.SourceGone)
	byReason("records_filtered_total", b.Filtered, ledger.Header, ledger.Blank, ledger.Unmatched)
	byReason("records_changed_total", b.Changed)
}

// firstExpiry returns when the first of the access tokens for the clusters expires; the zero time
// if no cluster has a token.
func firstExpiry(clusters []Cluster) (first time.Time) {
	for _, c := range clusters {
		if !c.TokenExpires.IsZero() && (first.IsZero() || c.TokenExpires.Before(first)) {
			first = c.TokenExpires
		}
	}
	return first
}

// secondsSince returns how many seconds have passed since t; 0 if t is zero, which means not known.
func secondsSince(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return time.Since(t).Seconds()
}

// oneIf returns 1 for true and 0 for false.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
