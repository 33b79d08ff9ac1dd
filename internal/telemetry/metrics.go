package telemetry

import (
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
	requests   *prometheus.CounterVec
	duration   prometheus.Histogram
	endToEnd   *prometheus.HistogramVec
	raw, gzip  prometheus.Counter
	gzipFaults prometheus.Counter
	retries    prometheus.Counter
	unknown    prometheus.Counter
	doubtful   prometheus.Counter
	rotations  *prometheus.CounterVec
	truncated  *prometheus.CounterVec
	unreadLost *prometheus.CounterVec
	abandoned  *prometheus.CounterVec
	invalid    *prometheus.CounterVec
	unparsed   *prometheus.CounterVec
	nuls       *prometheus.CounterVec

	delayed  atomic.Uint64 // payloads whose EndToEnd was observed
	delaySum atomic.Int64  // of them all, in nanoseconds
}

const namespace = "kusto_agent"

// newMetrics registers the metrics that are counted, with names and help texts from the catalog.
func newMetrics(reg prometheus.Registerer) *Metrics {
	only := func(name string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: entryOf(name).fullHelp()})
		reg.MustRegister(c)
		return c
	}
	each := func(name string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: entryOf(name).fullHelp()}, entryOf(name).labels)
		reg.MustRegister(c)
		return c
	}
	m := &Metrics{
		requests: each("requests_total"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "request_duration_seconds",
			Help:    entryOf("request_duration_seconds").fullHelp(),
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		endToEnd: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "end_to_end_seconds",
			Help:    entryOf("end_to_end_seconds").fullHelp(),
			Buckets: []float64{.05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200},
		}, entryOf("end_to_end_seconds").labels),
		raw:        only("batch_raw_bytes_total"),
		gzip:       only("batch_gzip_bytes_total"),
		gzipFaults: only("gzip_encoder_faults_total"),
		retries:    only("retries_total"),
		unknown:    only("unknown_outcomes_total"),
		doubtful:   only("unknown_records_total"),
		rotations:  each("tail_rotations_total"),
		truncated:  each("tail_truncations_total"),
		invalid:    each("records_invalid_utf8_total"),
		unparsed:   each("records_unparsed_total"),
		nuls:       each("tail_nul_bytes_total"),
		abandoned:  each("tail_abandoned_bytes_total"),
		unreadLost: each("tail_truncated_unread_bytes_total"),
	}
	reg.MustRegister(m.duration, m.endToEnd)
	// Present from the start, so that the first failure is an increase.
	m.requests.WithLabelValues(OutcomeAccepted, "200")
	m.requests.WithLabelValues(OutcomeUnknown, NoCode)
	m.requests.WithLabelValues(OutcomeNotSent, NoCode)
	return m
}

// Request counts one ingest request: its outcome, the HTTP status of its answer or NoCode, and how
// long it took. The time of a request that was not sent is left out of the histogram, since it does
// not depend on the service.
func (m *Metrics) Request(outcome, code string, d time.Duration) {
	m.requests.WithLabelValues(outcome, code).Inc()
	if outcome != OutcomeNotSent {
		m.duration.Observe(d.Seconds())
	}
}

// EndToEnd observes the time from reading the oldest record of an accepted
// payload to its acceptance.
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
	m.raw.Add(float64(raw))
	m.gzip.Add(float64(gzip))
}

// GzipFault counts that the gzip encoder was switched off.
func (m *Metrics) GzipFault() { m.gzipFaults.Inc() }

// Retry counts a request that is another try of a payload.
func (m *Metrics) Retry() { m.retries.Inc() }

// Unknown counts a request whose outcome is unknown, and the records in it.
func (m *Metrics) Unknown(records int) {
	m.unknown.Inc()
	m.doubtful.Add(float64(records))
}

// Rotation counts a file of the input that was rotated away.
func (m *Metrics) Rotation(input string) { m.rotations.WithLabelValues(input).Inc() }

// Truncation counts a file of the input that was truncated or rewritten in
// place, and how many of its bytes are known to be gone unread.
func (m *Metrics) Truncation(input string, unread int64) {
	m.truncated.WithLabelValues(input).Inc()
	m.unreadLost.WithLabelValues(input).Add(float64(unread))
}

// Abandoned counts the bytes of a deleted file that are given up unread.
func (m *Metrics) Abandoned(input string, bytes int64) {
	m.abandoned.WithLabelValues(input).Add(float64(bytes))
}

// InvalidUTF8 counts records that passed though they are not valid UTF-8.
func (m *Metrics) InvalidUTF8(input string, records int) {
	m.invalid.WithLabelValues(input).Add(float64(records))
}

// Unparsed counts records that are not as parse says, and are sent as they are.
func (m *Metrics) Unparsed(input string, records int) {
	m.unparsed.WithLabelValues(input).Add(float64(records))
}

// NULs counts bytes between records that nobody wrote, and that are left out.
func (m *Metrics) NULs(input string, bytes int64) {
	m.nuls.WithLabelValues(input).Add(float64(bytes))
}

// Input makes the counters of an input exist at zero, before anything has happened to it.
func (m *Metrics) Input(input string) {
	m.rotations.WithLabelValues(input)
	m.truncated.WithLabelValues(input)
	m.unreadLost.WithLabelValues(input)
	m.abandoned.WithLabelValues(input)
	m.invalid.WithLabelValues(input)
	m.unparsed.WithLabelValues(input)
	m.nuls.WithLabelValues(input)
}
