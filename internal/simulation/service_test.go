package simulation

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// service is a cluster as one process reaches it.
type service struct {
	p   *process
	url string
}

func refusal(v kusto.Verdict, status int, code string) kusto.Answer {
	return kusto.Answer{Verdict: v, Status: status, Wrote: status != 0, Err: &kusto.Error{Status: status, Code: code, Message: code}}
}

// sleep returns false where the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Ingest answers one request by the faults of now, the seed and what is in the body.
func (s service) Ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer {
	p, w := s.p, s.p.w
	body := bytes.Clone(in.Body)
	var id, attempt string
	if parts := strings.Split(in.RequestID, ";"); len(parts) == 3 {
		id, attempt = parts[1], parts[2]
	}
	var n int
	fmt.Sscan(attempt, &n)
	rnd := w.draw(string(body[1:]), n<<8+p.n)
	w.mu.Lock()
	takes := time.Duration(1+rnd.IntN(200)) * time.Millisecond
	if w.slow[s.url] {
		takes = time.Duration(1+rnd.IntN(40)) * time.Second
	}
	w.mu.Unlock()
	if !sleep(ctx, takes/2) || p.toAsk.Add(-1) == 0 && p.die("before the service stores") {
		return refusal(kusto.NotSent, 0, "")
	}
	w.mu.Lock()
	ans := w.answer(s.url, in.Table, body, rnd.IntN(100))
	stored := ans.Verdict == kusto.Accepted || ans.Verdict == kusto.Unknown && ans.Status == 0 && rnd.IntN(2) == 0
	if p.dead.Load() {
		stored = false
	}
	var at []int
	if stored {
		at = w.store(body, in.Table, store{id: batchID(id), attempt: n, at: time.Now(), run: p.n})
	}
	w.mu.Unlock()
	w.note("request %s attempt %d of %s: %v %d, stored %v, %s", id, n, in.Table, ans.Verdict, ans.Status, stored, firstLine(body))
	if ans.Verdict == kusto.Unknown && ans.Err.Code == "timeout" {
		takes = 2 * time.Minute
	}
	if p.toStored.Add(-1) == 0 {
		p.die("after the service has judged")
	}
	if !sleep(ctx, takes/2) && ans.Verdict != kusto.Accepted {
		return kusto.Answer{Verdict: kusto.Unknown, Wrote: true, Err: &kusto.Error{}}
	} else if ctx.Err() != nil && rnd.IntN(2) == 0 { // the answer is lost
		return kusto.Answer{Verdict: kusto.Unknown, Wrote: true, Err: &kusto.Error{}}
	}
	if stored && !p.dead.Load() {
		w.mu.Lock()
		w.deliver(body, at, ans.Verdict == kusto.Accepted)
		w.mu.Unlock()
		if ans.Verdict == kusto.Accepted {
			p.acceptances.Add(int64(len(at)))
		}
	}
	return ans
}

func firstLine(b []byte) string {
	first, _, _ := bytes.Cut(b, []byte("\n"))
	return string(bytes.TrimRight(first, "."))
}

// answer is what the service says of a request. Needs mu.
func (w *world) answer(url, table string, body []byte, chance int) kusto.Answer {
	what := kinds(body)
	if w.cured {
		what = strings.Trim(what, "prtfy")
		if strings.Contains(what, "b") {
			what = "b"
		} else {
			what = ""
		}
	}
	accepted := kusto.Answer{Verdict: kusto.Accepted, Status: 200}
	switch {
	case w.away[url]:
		return kusto.Answer{Verdict: kusto.Auth, Err: &kusto.Error{NoToken: true, Status: 503}}
	case w.down[url] && chance < 50:
		return refusal(kusto.NotSent, 0, "")
	case w.down[url]:
		return refusal(kusto.Retry, 503, "ServiceUnavailable")
	case w.denied[url]:
		a := refusal(kusto.Auth, 401, "Unauthorized")
		a.Wrote = !w.early[url]
		return a
	case w.throttled[table] > 0 && chance < 80:
		a := refusal(kusto.Throttled, 429, "TooManyRequests")
		a.RetryAfter = w.throttled[table]
		return a
	case w.held[table]:
		return refusal(kusto.Hold, 404, "TableNotFound")
	case what != "":
		w.poison(body)
		switch what[0] {
		case 'p':
			return refusal(kusto.Retry, 500, "InternalError")
		case 'r':
			return kusto.Answer{Verdict: kusto.Unknown, Status: 502, Wrote: true, Err: &kusto.Error{Code: "reset"}}
		case 't':
			return kusto.Answer{Verdict: kusto.Unknown, Wrote: true, Err: &kusto.Error{Code: "timeout"}}
		case 'f':
			return refusal(kusto.Hold, 403, "Forbidden")
		case 'y':
			return refusal(kusto.Unknown, 502, "page")
		}
		return refusal(kusto.BadData, 400, "BadRequest")
	case chance < w.flaky:
		return kusto.Answer{Verdict: kusto.Unknown, Wrote: true, Err: &kusto.Error{Code: "reset"}}
	}
	return accepted
}

// poison notes which records share a body with one that is refused. Needs mu.
func (w *world) poison(body []byte) {
	for l := range bytes.Lines(body) {
		if is := w.lines[string(bytes.TrimSuffix(l[1:], []byte("\n")))]; is != nil {
			is.poisoned = true
		}
	}
}

// store has the service store a body, and returns which store of each record that is.
// Needs mu.
func (w *world) store(body []byte, table string, s store) (at []int) {
	for l := range bytes.Lines(body) {
		is := w.lines[string(bytes.TrimSuffix(l[1:], []byte("\n")))]
		if is == nil {
			w.failed("the service got %q, which nobody wrote", l)
			continue
		}
		if in := is.text[:1]; table != in+string(l[:1]) {
			w.failed("%q reached table %s in the shape %q", is.text, table, l[:1])
		}
		is.stores = append(is.stores, s)
		at = append(at, len(is.stores)-1)
	}
	return at
}

// deliver notes that a process knows how a request ended, which it tells its journal now
// and not when the service stored the records. Needs mu.
func (w *world) deliver(body []byte, at []int, accepted bool) {
	i := 0
	for l := range bytes.Lines(body) {
		if is := w.lines[string(bytes.TrimSuffix(l[1:], []byte("\n")))]; is != nil {
			st := &is.stores[at[i]]
			st.at, st.delivered, st.answered = time.Now(), accepted, true
			i++
		}
	}
}

// quarantine keeps refused records.
type quarantine struct{ p *process }

func (q quarantine) Put(recs []record.Rejected) error {
	w := q.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full || q.p.dead.Load() {
		return errFull
	}
	for _, r := range recs {
		if l := w.lines[string(bytes.TrimSuffix(r.Data[1:], []byte("\n")))]; l != nil {
			l.kept = true
		} else {
			w.failed("quarantine got %q, which nobody wrote", r.Data)
		}
	}
	return nil
}
