package telemetry

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kusto-agent/internal/record"
)

// How a request ended: the values of the outcome label.
const (
	OutcomeAccepted = "accepted"
	OutcomeRefused  = "refused" // answered with an error, 429 and 5xx with an error body too
	OutcomeUnknown  = "unknown" // the body was sent and no trustworthy answer came
	OutcomeNotSent  = "not_sent"
)

// NoCode is the code of a request that was not answered.
const NoCode = "none"

// Metrics are the measurements that are no accounts of the ledger. The rooms
// reach them through interfaces of their own. All methods are safe for
// concurrent use, never block, and are called per payload, never per record.
type Metrics struct {
	counters map[string]*prometheus.CounterVec // by their names in the catalog
	duration *prometheus.HistogramVec          // without labels
	endToEnd *prometheus.HistogramVec

	delayed  atomic.Uint64 // payloads whose EndToEnd was observed
	delaySum atomic.Int64  // of them all, in nanoseconds
}

const namespace = "kusto_agent"

// roomCounters are the counters of the catalog that the rooms count; others follow from the status.
var roomCounters = []string{
	"requests_total", "batch_raw_bytes_total", "batch_gzip_bytes_total", "gzip_encoder_faults_total", "retries_total",
	"unknown_outcomes_total", "unknown_records_total",
	"tail_rotations_total", "tail_truncations_total", "tail_truncated_unread_bytes_total", "tail_abandoned_bytes_total",
	"tail_vanished_files_total", "tail_nul_bytes_total", "records_invalid_utf8_total", "records_unparsed_total",
}

// newMetrics registers the metrics that the agent counts as things happen, with names and help
// texts from the catalog. The others are computed at each scrape by collector.
func newMetrics(reg prometheus.Registerer) *Metrics {
	histogram := func(name string, buckets ...float64) *prometheus.HistogramVec {
		e := entryOf(name)
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: e.fullHelp(), Buckets: buckets}, e.labels)
	}
	m := &Metrics{
		counters: make(map[string]*prometheus.CounterVec),
		duration: histogram("request_duration_seconds", .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60),
		endToEnd: histogram("end_to_end_seconds", .05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200),
	}
	m.duration.WithLabelValues() // present from the start
	reg.MustRegister(m.duration, m.endToEnd)
	for _, name := range roomCounters {
		e := entryOf(name)
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: e.fullHelp()}, e.labels)
		reg.MustRegister(c)
		m.counters[name] = c
		if len(e.labels) == 0 {
			m.count(name, 0)
		}
	}
	// Present from the start, so that the first failure is an increase.
	m.count("requests_total", 0, OutcomeAccepted, "200")
	m.count("requests_total", 0, OutcomeUnknown, NoCode)
	m.count("requests_total", 0, OutcomeNotSent, NoCode)
	return m
}

// count adds n to a counter, with its labels in their order.
func (m *Metrics) count(name string, n int64, labels ...string) {
	m.counters[name].WithLabelValues(labels...).Add(float64(n))
}

// Request counts one ingest request: its outcome, the HTTP status of its answer or NoCode, and how
// long it took. The time of a request that was not sent is left out of the histogram, since it does
// not depend on the service.
func (m *Metrics) Request(outcome, code string, d time.Duration) {
	m.count("requests_total", 1, outcome, code)
	if outcome != OutcomeNotSent {
		m.duration.WithLabelValues().Observe(d.Seconds())
	}
}

// EndToEnd adds d to the histogram of the route's table: the time from reading the oldest record of
// an accepted payload to its acceptance.
func (m *Metrics) EndToEnd(route record.Route, d time.Duration) {
	m.endToEnd.WithLabelValues(route.Database, route.Table).Observe(d.Seconds())
	m.delaySum.Add(int64(d))
	m.delayed.Add(1)
}

// delays is what EndToEnd has observed.
func (m *Metrics) delays() delays {
	return delays{payloads: m.delayed.Load(), sum: time.Duration(m.delaySum.Load())}
}

// Sealed counts the bytes of a sealed payload before gzip and as it is posted.
func (m *Metrics) Sealed(raw, gzip int) {
	m.count("batch_raw_bytes_total", int64(raw))
	m.count("batch_gzip_bytes_total", int64(gzip))
}

// GzipFault counts that the gzip encoder was switched off.
func (m *Metrics) GzipFault() { m.count("gzip_encoder_faults_total", 1) }

// Retry counts a request that is another try of a payload.
func (m *Metrics) Retry() { m.count("retries_total", 1) }

// Unknown counts a request whose outcome is unknown, and the records in it.
func (m *Metrics) Unknown(records int) {
	m.count("unknown_outcomes_total", 1)
	m.count("unknown_records_total", int64(records))
}

// Rotation counts a file of the input that was rotated away.
func (m *Metrics) Rotation(input string) { m.count("tail_rotations_total", 1, input) }

// Truncation counts a file of the input that was truncated or rewritten in
// place, and how many of its bytes are known to be gone unread.
func (m *Metrics) Truncation(input string, unread int64) {
	m.count("tail_truncations_total", 1, input)
	m.count("tail_truncated_unread_bytes_total", unread, input)
}

// Abandoned counts the bytes of a deleted file that are given up unread.
func (m *Metrics) Abandoned(input string, bytes int64) {
	m.count("tail_abandoned_bytes_total", bytes, input)
}

// Vanished counts a file that was not found again, so that nobody knows whether bytes of it were left unread.
func (m *Metrics) Vanished(input string) { m.count("tail_vanished_files_total", 1, input) }

// InvalidUTF8 counts records that passed though they are not valid UTF-8.
func (m *Metrics) InvalidUTF8(input string, records int) {
	m.count("records_invalid_utf8_total", int64(records), input)
}

// Unparsed counts records that are not as parse says, and are sent as they are.
func (m *Metrics) Unparsed(input string, records int) {
	m.count("records_unparsed_total", int64(records), input)
}

// NULs counts bytes between records that nobody wrote, and that are left out.
func (m *Metrics) NULs(input string, bytes int64) {
	m.count("tail_nul_bytes_total", bytes, input)
}

// Input makes all counters that have only the label input exist at zero for this input, so that the
// first event shows as an increase.
func (m *Metrics) Input(input string) {
	for name := range m.counters {
		if slices.Equal(entryOf(name).labels, byInput) {
			m.count(name, 0, input)
		}
	}
}
