package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"kusto-agent/emulator"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing/iotest"
	"time"
)

// compare holds what was stored against what was written.
func (m *model) compare() {
	m.t.Helper()
	count := map[string]int{}
	for row := range m.server.All("Logs", "T", 0) {
		count[string(row.Raw)]++
		if r := m.records[string(row.Raw)]; r == nil || r.broken {
			m.t.Errorf("row that was never written: %.200q", row.Raw)
		}
	}
	for _, q := range m.quarantined() {
		text := strings.TrimSuffix(fmt.Sprint(q["data"]), "\n")
		if r := m.records[text]; r == nil || !r.broken {
			m.t.Errorf("in quarantine: %v", q)
		}
		count[text]++
	}
	lost := 0
	for text, r := range m.records {
		switch {
		case count[text] > 0:
		case r.must:
			m.missing = append(m.missing, text)
			m.t.Errorf("lost: %.50s, written to %s", text, r.place)
		default:
			lost++
		}
	}
	m.compareBatches()
	m.wantUniqueRequests()
	m.note("%d records, %d lost as they may be", len(m.records), lost)
}

// compareBatches looks for what was stored twice: in two batches, or by two requests
// of one batch without a reason.
func (m *model) compareBatches() {
	m.t.Helper()
	batches := map[string][]string{}            // of a record
	requests := map[string][]emulator.Request{} // of a batch, those that stored
	came := map[string]time.Duration{}          // a batch, since the beginning
	for _, r := range m.server.Requests() {
		if !r.Stored {
			continue
		}
		batch := batchOf(r)
		if requests[batch] = append(requests[batch], r); len(requests[batch]) > 1 {
			continue
		}
		for _, text := range m.brought.of(r.ClientRequestID) {
			batches[text] = append(batches[text], batch)
			came[batch] = m.brought.when(r.ClientRequestID).Sub(m.began)
		}
	}
	replaced := map[string]bool{} // batches that carry on with the ranges of another
	for _, p := range m.runs {
		for _, e := range slices.Concat(p.entries(sentInPart), p.entries(sentOther), p.entries(sentAnew)) {
			for _, id := range strings.Fields(e.text("replaced_by")) {
				replaced[id] = true
			}
		}
	}
	for text, in := range batches {
		in = slices.DeleteFunc(in, func(batch string) bool { return replaced[batch] })
		if r := m.records[text]; r != nil && len(in) > 1 && !r.double {
			var when []time.Duration
			for _, batch := range in {
				when = append(when, came[batch].Round(time.Millisecond))
			}
			m.t.Errorf("stored by %d batches %v at %v: %.50s, written to %s", len(in), in, when, text, r.place)
		}
	}
	for batch, all := range requests {
		reasons := 0
		for _, p := range m.runs {
			reasons += len(p.entries(sentAgain, batch)) + len(p.entries(unknownAtStop, batch))
		}
		for _, r := range all[:len(all)-1] {
			if m.unanswered(r) {
				reasons++
			}
		}
		if len(all)-1 > reasons {
			m.t.Errorf("batch %s was stored %d times, and %d of them have a reason", batch, len(all), reasons)
		}
	}
}

// What the agent says of a batch whose ranges go under a new id.
const (
	sentOther  = "batch of an earlier run has another body now, it is sent under a new id"
	sentAnew   = "batch of an earlier run was read with other settings than its input has now; its ranges are read again and may be stored twice"
	sentInPart = "batch of an earlier run can be read again only in part, that part is sent under a new id and may be stored twice"
)

// unanswered says whether the agent may not have heard of a request's success.
func (m *model) unanswered(r emulator.Request) bool {
	_, cut := m.gate.cut.Load(r.ClientRequestID)
	return cut || r.Status == 0 || strings.Contains(r.Fault, "reset") || m.hangs // and the agent did not wait
}

// brought remembers which lines each request brought.
type brought struct {
	next http.Handler

	mu    sync.Mutex
	lines map[string][]string // by request id
	times map[string]time.Time
}

func (b *brought) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	again := io.Reader(bytes.NewReader(body))
	if err != nil {
		again = io.MultiReader(again, iotest.ErrReader(err))
	}
	r.Body = io.NopCloser(again)
	text := body
	if r.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			text, _ = io.ReadAll(z)
		}
	}
	b.mu.Lock()
	b.lines[r.Header.Get("x-ms-client-request-id")] = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	b.times[r.Header.Get("x-ms-client-request-id")] = time.Now()
	b.mu.Unlock()
	b.next.ServeHTTP(w, r)
}

func (b *brought) of(id string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines[id]
}

// when a request came.
func (b *brought) when(id string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times[id]
}
