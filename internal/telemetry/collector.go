package telemetry

import (
	"cmp"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
)

// account is an account of the ledger as a metric of each input.
type account struct {
	*prometheus.Desc
	kind  prometheus.ValueType
	value func(ledger.Books) uint64
}

// reasons is an account that is kept by reason. The known reasons are shown
// from the start, so that the first record of one is an increase.
type reasons struct {
	*prometheus.Desc
	known []string
	value func(ledger.Books) map[string]uint64
}

var accounts = []account{
	{desc("records_read_total"),
		prometheus.CounterValue, func(b ledger.Books) uint64 { return b.Read }},
	{desc("bytes_read_total"),
		prometheus.CounterValue, func(b ledger.Books) uint64 { return b.ReadBytes }},
	{desc("records_restored_total"),
		prometheus.CounterValue, func(b ledger.Books) uint64 { return b.Restored }},
	{desc("records_accepted_total"),
		prometheus.CounterValue, func(b ledger.Books) uint64 { return b.Accepted }},
	{desc("records_pending"),
		prometheus.GaugeValue, func(b ledger.Books) uint64 { return b.Pending }},
	{desc("records_spooled"),
		prometheus.GaugeValue, func(b ledger.Books) uint64 { return b.Spooled }},
}

var reasonAccounts = []reasons{
	{desc("records_quarantined_total"),
		[]string{string(record.TooLong), string(record.Malformed), string(record.Refused), string(record.Grown)},
		func(b ledger.Books) map[string]uint64 { return b.Quarantined }},
	{desc("records_dropped_total"),
		[]string{ledger.SpoolFull, ledger.SpoolAge, ledger.SourceGone},
		func(b ledger.Books) map[string]uint64 { return b.Dropped }},
	{desc("records_filtered_total"),
		[]string{ledger.Header, ledger.Blank, ledger.Unmatched},
		func(b ledger.Books) map[string]uint64 { return b.Filtered }},
	{desc("records_changed_total"), nil,
		func(b ledger.Books) map[string]uint64 { return b.Changed }},
}

var (
	inputInfo      = desc("input_info")
	tableRecords   = desc("table_records_total")
	tableBytes     = desc("table_bytes_total")
	fileLag        = desc("file_lag_bytes")
	pinnedDeleted  = desc("pinned_deleted_bytes")
	filesByState   = desc("files")
	knownBytes     = desc("known_files_bytes")
	routesByState  = desc("routes")
	routesHeld     = desc("routes_held")
	routeBlocked   = desc("route_blocked_seconds")
	routeNextTry   = desc("route_next_try_seconds")
	tokenExpires   = desc("token_expires_seconds")
	reloadGood     = desc("config_last_reload_successful")
	watchUp        = desc("watch_healthy")
	stateDisk      = desc("state_disk_healthy")
	quarantined    = desc("quarantine_bytes")
	quarantineUp   = desc("quarantine_healthy")
	quarantineLost = desc("quarantine_dropped_records_total")
	spoolBytes     = desc("spool_bytes")
	spoolHealthy   = desc("spool_healthy")
	spoolOldest    = desc("spool_oldest_seconds")
	buildInfo      = desc("build_info")
)

// collector computes the metrics that are looked up rather than counted. Each scrape takes one status,
// and with it one snapshot of the ledger, so that the books balance in every scrape.
type collector struct{ status func() *Status }

// Describe sends nothing: the metrics of a scrape follow from the status.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector: it takes one status of the agent and sends all metrics that
// follow from it.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	states := map[string]int{}
	for _, in := range s.Inputs {
		collectBooks(out, in.Name, in.Books)
		if in.Table != "" { // else a reload took it away
			gauge(inputInfo, 1, in.Name, in.Cluster, in.Database, in.Table, in.Format, in.Mapping)
		}
		gauge(fileLag, float64(in.LagBytes), in.Name)
		gauge(pinnedDeleted, float64(in.Pinned), in.Name)
		for state, n := range in.Files {
			states[state] += n
		}
	}
	for state, n := range states {
		gauge(filesByState, float64(n), state)
	}
	gauge(knownBytes, float64(s.KnownBytes))
	for _, t := range s.Tables {
		for _, end := range []struct {
			outcome string
			ledger.Sum
		}{{OutcomeAccepted, t.Accepted}, {"quarantined", t.Quarantined}, {"dropped", t.Dropped}} {
			count := func(d *prometheus.Desc, n uint64) {
				out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), t.Database, t.Table, end.outcome)
			}
			count(tableRecords, end.Records)
			count(tableBytes, end.Bytes)
		}
	}
	collectRoutes(s.Routes, gauge)
	collectBlocked(s, gauge)
	if at := firstExpiry(s.Clusters); !at.IsZero() {
		gauge(tokenExpires, time.Until(at).Seconds())
	}
	gauge(quarantined, float64(s.Quarantine.Bytes))
	gauge(quarantineUp, oneIf(s.Quarantine.Error == ""))
	out <- prometheus.MustNewConstMetric(quarantineLost, prometheus.CounterValue, float64(s.Quarantine.Dropped))
	if s.Spool != nil {
		gauge(spoolBytes, float64(s.Spool.Bytes))
		gauge(spoolOldest, secondsSince(s.Spool.Oldest))
		gauge(spoolHealthy, oneIf(s.Spool.Error == ""))
	}
	gauge(reloadGood, oneIf(s.Config.Error == ""))
	gauge(watchUp, oneIf(s.Watch.Error == ""))
	gauge(stateDisk, oneIf(s.Journal.Error == ""))
	gauge(buildInfo, 1, s.Version, runtime.Version())
}

// collectRoutes sends how many routes are in each state, and which are held. Routes of the same table
// with different formats or mappings are added up.
func collectRoutes(routes []Route, gauge func(*prometheus.Desc, float64, ...string)) {
	states := map[string]int{Up: 0, Retrying: 0, Down: 0, Held: 0}
	held := map[[3]string]int{}
	for _, r := range routes {
		states[r.State]++
		if r.State == Held {
			held[[3]string{r.Database, r.Table, code(r.Hold)}]++
		}
	}
	for state, n := range states {
		gauge(routesByState, float64(n), state)
	}
	for h, n := range held {
		gauge(routesHeld, float64(n), h[0], h[1], h[2])
	}
}

// collectBlocked sends since when routes do not deliver, and when they are tried next. Of several
// routes of a table it takes the longest time and the earliest attempt.
func collectBlocked(s *Status, gauge func(*prometheus.Desc, float64, ...string)) {
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
		gauge(routeBlocked, seconds, k[0], k[1], k[2])
	}
	for k, seconds := range next {
		gauge(routeNextTry, seconds, k[0], k[1])
	}
}

// code returns the error code of a hold; "" for nil.
func code(h *Hold) string {
	if h == nil {
		return ""
	}
	return h.Code
}

// collectBooks sends the accounts of one input. Accounts with reasons show all known reasons, also
// those that are 0.
func collectBooks(out chan<- prometheus.Metric, input string, b ledger.Books) {
	for _, a := range accounts {
		out <- prometheus.MustNewConstMetric(a.Desc, a.kind, float64(a.value(b)), input)
	}
	for _, a := range reasonAccounts {
		count := a.value(b)
		for _, reason := range a.known {
			out <- prometheus.MustNewConstMetric(a.Desc, prometheus.CounterValue, float64(count[reason]), input, reason)
			delete(count, reason) // the snapshot is ours
		}
		for reason, n := range count {
			out <- prometheus.MustNewConstMetric(a.Desc, prometheus.CounterValue, float64(n), input, reason)
		}
	}
}

// firstExpiry returns when the first of the tokens expires; zero if there is none.
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
