package sender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

// world is everything around a sender, scripted: how the service answers, and
// what the journal, quarantine and the books were told.
type world struct {
	t    *testing.T
	s    *Sender
	logs logged

	mu     sync.Mutex
	answer func(in *kusto.Ingest) kusto.Answer
	asked  []string // "table/attempt", in order
	most   int      // requests under way at once
	now    int
	events []string // begin, end, split
	over   func()   // called where the journal is told of an end out of the spool; nil: nothing is
	kept   []record.Rejected
	keep   error // what quarantine answers
	fits   int   // how many records it takes at a time; 0: any number
	woken  []record.Route

	spool *spool.Spool
	disk  *faultfs.FS
	full  atomic.Bool            // the disk has no space
	stop  func(meanwhile func()) // ends Run
}

func plenty(string) (int64, error) { return 1 << 50, nil }

func (w *world) Ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer {
	w.mu.Lock()
	w.asked = append(w.asked, in.Table+"/"+in.RequestID[strings.LastIndexByte(in.RequestID, ';')+1:])
	w.now++
	w.most = max(w.most, w.now)
	answer := w.answer
	w.mu.Unlock()
	a := answer(in)
	w.mu.Lock()
	w.now--
	w.mu.Unlock()
	return a
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf(format, args...))
}

func (w *world) Begin(p *record.Payload) error {
	w.note("begin %d", p.Attempt)
	return nil
}

func (w *world) End(_ record.BatchID, o record.Outcome) error {
	w.note("end %v", o)
	return nil
}

func (w *world) Replay(_ record.BatchID, attempt int) error {
	w.note("replay %d", attempt)
	return nil
}

func (w *world) Answered(_ record.BatchID, attempt int) error {
	w.note("answered %d", attempt)
	return nil
}

func (w *world) Unknown(_ record.BatchID, attempt int) error {
	w.note("unknown %d", attempt)
	return nil
}

func (w *world) EndReplay(_ record.BatchID, o record.Outcome) error {
	w.note("replay ends %v", o)
	w.mu.Lock()
	over := w.over
	w.mu.Unlock()
	if over != nil {
		over()
	}
	return nil
}

func (w *world) Split(record.BatchID, []*record.Payload) error {
	w.note("split")
	return nil
}

func (w *world) Put(recs []record.Rejected) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fits > 0 && len(recs) > w.fits {
		return errors.New("quarantine has no room for so many")
	}
	if w.keep == nil {
		w.kept = append(w.kept, recs...)
	}
	return w.keep
}

// halves splits bodies of one byte a record.
type halves struct{ released *atomic.Int64 }

func (h halves) Split(p *record.Payload) ([]*record.Payload, error) {
	if p.Route.Table == "Whole" {
		return nil, record.ErrWhole
	}
	k := len(p.Body) / 2
	return []*record.Payload{numbered(p.Route.Table, string(p.Body[:k])), numbered(p.Route.Table, string(p.Body[k:]))}, nil
}

func (h halves) Records(p *record.Payload) (recs []record.Rejected, err error) {
	for _, b := range p.Body {
		r := record.Rejected{Data: []byte{b}}
		if r.Redacted = strings.HasPrefix(p.Route.Table, "Redacted"); p.Route.Table == "RedactedAnew" {
			r.Withhold()
		}
		recs = append(recs, r)
	}
	return recs, nil
}

func (h halves) Adopt(*record.Payload)   { h.released.Add(-1) }
func (h halves) Reserve(bool) bool       { return true }
func (h halves) Unreserve()              {}
func (h halves) Release(*record.Payload) { h.released.Add(1) }

type deaf struct{}

func (deaf) Accepted(record.Lot)                   {}
func (deaf) Quarantined(record.Lot, record.Reason) {}
func (deaf) Spooled(string, int)                   {}
func (deaf) Unspooled(string, int)                 {}
func (deaf) Request(string, string, time.Duration) {}
func (deaf) EndToEnd(record.Route, time.Duration)  {}
func (deaf) Retry()                                {}
func (deaf) Unknown(int)                           {}

const here = "http://127.0.0.1"

func route(table string) record.Route {
	return record.Route{Cluster: here, Database: "Db", Table: table, Format: record.TXT}
}

func payload(table, body string) *record.Payload {
	return &record.Payload{
		Route: route(table), Body: []byte(body), RawBytes: len(body), Records: len(body),
		Pieces: []record.Piece{{File: record.File{Input: "in"}, Records: len(body)}},
	}
}

var released atomic.Int64

// in runs f in a bubble with a sender that has no spool and whose service answers
// as told.
func in(t *testing.T, answer func(in *kusto.Ingest) kusto.Answer, f func(w *world)) {
	t.Helper()
	within(t, answer, spool.Config{}, f)
}

func within(t *testing.T, answer func(in *kusto.Ingest) kusto.Answer, cfg spool.Config, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		released.Store(0)
		w := &world{t: t, answer: answer, disk: faultfs.New("/state")}
		w.disk.Judge = func(op faultfs.Op) faultfs.Verdict {
			if w.full.Load() && op.Kind != "remove" {
				return faultfs.Verdict{Err: faultfs.NoSpace}
			}
			return faultfs.Verdict{}
		}
		var err error
		if w.spool, _, err = spool.Open("/state/spool", cfg, spool.Options{FS: w.disk, Free: plenty, SegmentSize: 64 << 10}); err != nil {
			t.Fatal(err)
		}
		defer w.spool.Close()
		w.s = New(Options{
			Config: Config{Concurrency: 8, Retry: Retry{
				Initial: units.Duration(500 * time.Millisecond), Max: units.Duration(30 * time.Second), Patience: units.Duration(10 * time.Second)}},
			Clusters: []Cluster{{Name: "default", URL: here, Ingester: w}},
			Batches:  w, Replays: w, Quarantine: w, Divider: halves{&released}, Memory: halves{&released}, Books: deaf{}, Metrics: deaf{},
			Spill: w.spool, Backlog: w.spool, Stock: w.spool, Durable: func(p *record.Payload) bool { return p.Route.Table == "Durable" },
			Wake:   func(r record.Route) { w.mu.Lock(); w.woken = append(w.woken, r); w.mu.Unlock() },
			Logger: slog.New(slog.NewTextHandler(&w.logs, nil)),
		})
		w.start()
		f(w)
		w.stop(func() {})
		w.s.Keep()
	})
}

func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { w.s.Run(ctx); close(done) }() // ended and awaited by stop
	w.stop = func(meanwhile func()) {
		cancel()
		meanwhile()
		<-done
	}
}

func ok(*kusto.Ingest) kusto.Answer { return kusto.Answer{Verdict: kusto.Accepted, Status: 200} }

func refusal(v kusto.Verdict, status int, code string) kusto.Answer {
	return kusto.Answer{Verdict: v, Status: status, Wrote: true, Err: &kusto.Error{Status: status, Code: code, Message: code}}
}

// first answers the first n requests with a, and takes the rest.
func first(n int, a kusto.Answer) func(*kusto.Ingest) kusto.Answer {
	var asked atomic.Int64
	return func(in *kusto.Ingest) kusto.Answer {
		if asked.Add(1) <= int64(n) {
			return a
		}
		return ok(in)
	}
}

func (w *world) wait() {
	w.t.Helper()
	if err := w.s.Drain(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) did() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.events, ", ")
}

func TestAnAcceptedPayloadEndsAfterItsBegin(t *testing.T) {
	in(t, ok, func(w *world) {
		w.s.Put(payload("T", "abc"))
		w.wait()
		if got := w.did(); got != "begin 1, end accepted" {
			t.Error(got)
		}
		if n := released.Load(); n != 1 {
			t.Errorf("released %d payloads, want 1", n)
		}
	})
}

// The journal knows of a request before that is made: a kill at any later moment finds it
// begun.
func TestABeginIsWrittenBeforeItsRequest(t *testing.T) {
	in(t, nil, func(w *world) {
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer { w.note("asked"); return ok(in) }
		w.mu.Unlock()
		w.s.Put(payload("T", "abc"))
		w.wait()
		if got := w.did(); got != "begin 1, asked, end accepted" {
			t.Error(got)
		}
	})
}

// An outcome that nobody knows is in the journal before the payload is asked for again: an
// audit names it.
func TestAnUnknownOutcomeIsWrittenDown(t *testing.T) {
	in(t, first(1, refusal(kusto.Unknown, 502, "")), func(w *world) {
		w.s.Put(payload("T", "abc"))
		w.wait()
		if got := w.did(); got != "begin 1, unknown 1, begin 2, end accepted" {
			t.Error(got)
		}
	})
}

func TestWhatIsTriedAgainKeepsItsBodyAndCountsItsAttempts(t *testing.T) {
	for _, a := range []kusto.Answer{
		refusal(kusto.NotSent, 0, ""), refusal(kusto.Retry, 503, "ServiceUnavailable"),
		refusal(kusto.Unknown, 502, ""), refusal(kusto.Throttled, 429, "Throttling"), refusal(kusto.Auth, 401, ""),
	} {
		in(t, first(1, a), func(w *world) {
			w.s.Put(payload("T", "abc"))
			w.wait()
			want := "begin 1, begin 2, end accepted"
			if a.Verdict == kusto.Unknown { // it may be stored twice: the history knows
				want = "begin 1, unknown 1, begin 2, end accepted"
			}
			if got := w.did(); got != want {
				t.Errorf("%v: %s", a.Verdict, got)
			}
		})
	}
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	a := refusal(kusto.Throttled, 429, "Throttling")
	a.RetryAfter = time.Minute
	in(t, first(1, a), func(w *world) {
		began := time.Now()
		w.s.Put(payload("T", "abc"))
		for w.s.Progress().Left > 0 {
			pass(time.Second)
		}
		if d := time.Since(began); d < time.Minute || d > 70*time.Second {
			t.Errorf("accepted after %v, want a minute", d)
		}
	})
}

func TestThrottlingLowersConcurrencyAndSuccessRaisesIt(t *testing.T) {
	var slow = func(in *kusto.Ingest) kusto.Answer { time.Sleep(time.Second); return ok(in) }
	in(t, nil, func(w *world) {
		throttle := 8
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			w.mu.Lock()
			throttle--
			busy := throttle >= 0
			w.mu.Unlock()
			time.Sleep(time.Second)
			if busy {
				return refusal(kusto.Throttled, 429, "Throttling")
			}
			return ok(in)
		}
		for range 8 {
			w.s.Put(payload("T", "a"))
		}
		pass(1500 * time.Millisecond)
		if _, c := w.s.Status(); c[0].Concurrency != 4 {
			t.Errorf("eight refusals at one time left a concurrency of %d, want 4", c[0].Concurrency)
		}
		w.wait()
		w.mu.Lock()
		w.answer = slow
		w.mu.Unlock()
		for range 60 {
			w.s.Put(payload("T", "a"))
		}
		w.wait()
		if _, c := w.s.Status(); c[0].Concurrency != 8 {
			t.Errorf("concurrency is %d after recovery, want 8", c[0].Concurrency)
		}
	})
}

func TestARouteOnHoldIsProbedAndOthersFlow(t *testing.T) {
	in(t, nil, func(w *world) {
		denied := true
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			w.mu.Lock()
			defer w.mu.Unlock()
			if in.Table == "Bad" && denied {
				return refusal(kusto.Hold, 400, "BadRequest_EntityNotFound")
			}
			return ok(in)
		}
		for range 3 {
			w.s.Put(payload("Bad", "a"))
			w.s.Put(payload("Good", "a"))
		}
		pass(35 * time.Second)
		bad, good := 0, 0
		for _, a := range w.asked {
			if strings.HasPrefix(a, "Bad/") {
				bad++
			} else {
				good++
			}
		}
		if good != 3 || bad < 4 || bad > 6 {
			t.Errorf("%d requests for the good route, want 3; %d for the held one in 35 s, want about one in ten", good, bad)
		}
		if n, served := w.s.Credit(route("Bad")); n != 2 || served {
			t.Errorf("credit of a held route is %d, %v", n, served)
		}
		if n := strings.Count(w.logs.String(), "route is held"); n != 1 {
			t.Errorf("the hold was told %d times, want once", n)
		}
		w.mu.Lock()
		denied = false
		w.mu.Unlock()
		for w.s.Progress().Left > 0 {
			pass(time.Second)
		}
		if len(w.woken) != 1 || w.woken[0] != route("Bad") {
			t.Errorf("woke %v, want the held route", w.woken)
		}
	})
}

func TestAClusterIsDownAfterPatienceAndAskedOneAtATime(t *testing.T) {
	in(t, func(*kusto.Ingest) kusto.Answer { return refusal(kusto.NotSent, 0, "") }, func(w *world) {
		for _, table := range []string{"A", "B", "C"} {
			w.s.Put(payload(table, "a"))
			w.s.Put(payload(table, "b"))
		}
		pass(9 * time.Second)
		if p := w.s.Progress(); p.Stuck || p.Down {
			t.Error("down before patience was over")
		}
		pass(2 * time.Second)
		p := w.s.Progress()
		if !p.Stuck || !p.Down || p.Refused || p.Left != 6 {
			t.Errorf("after patience: %+v", p)
		}
		w.wait() // does not hang: nothing can move
		w.mu.Lock()
		before, now := len(w.asked), w.now
		w.most = now
		w.mu.Unlock()
		pass(10 * time.Minute)
		if n := len(w.asked) - before; n < 15 || n > 80 || w.most > 1 {
			t.Errorf("%d probes in ten minutes, %d at once", n, w.most)
		}
		w.mu.Lock()
		w.answer = ok
		w.mu.Unlock()
		for w.s.Progress().Left > 0 {
			pass(time.Second)
		}
		if len(w.woken) < 3 {
			t.Errorf("woke %v, want all three routes", w.woken)
		}
	})
}

func TestAHangingRequestCountsAgainstPatience(t *testing.T) {
	in(t, func(in *kusto.Ingest) kusto.Answer { time.Sleep(time.Minute); return ok(in) }, func(w *world) {
		w.s.Put(payload("T", "a"))
		pass(11 * time.Second)
		if _, served := w.s.Credit(route("T")); served {
			t.Error("served, though nothing was accepted for longer than patience")
		}
		pass(time.Minute)
		if _, served := w.s.Credit(route("T")); !served {
			t.Error("not served after an acceptance")
		}
	})
}

func TestAnIdleRouteIsNeverDown(t *testing.T) {
	in(t, ok, func(w *world) {
		w.s.Put(payload("T", "a"))
		w.wait()
		pass(time.Hour)
		if _, served := w.s.Credit(route("T")); !served {
			t.Error("an idle route is down")
		}
	})
}

func TestWaitingForTheRateLimitIsNoFailure(t *testing.T) {
	in(t, ok, func(w *world) {
		w.s.limiter = rate.NewLimiter(1, 100) // nothing is sent yet
		w.s.limiter.AllowN(time.Now(), 100)
		w.s.Put(payload("T", strings.Repeat("a", 60)))
		pass(30 * time.Second)
		if _, served := w.s.Credit(route("T")); !served || w.s.Progress().Left != 1 {
			t.Error("a route that waits for send.rate_limit is down, or was not made to wait")
		}
		pass(31 * time.Second)
		if w.s.Progress().Left != 0 {
			t.Error("60 bytes at one a second are not sent after a minute")
		}
	})
}

func TestAForbiddenRouteAndARefusedTokenAreRefused(t *testing.T) {
	for _, a := range []kusto.Answer{refusal(kusto.Hold, 403, "Forbidden"), refusal(kusto.Auth, 401, ""), {Verdict: kusto.Auth, Err: &kusto.Error{NoToken: true, Status: 400, Code: "AADSTS7000215"}}, {Verdict: kusto.Auth, Err: &kusto.Error{NoToken: true, Message: "no file"}}} {
		in(t, func(*kusto.Ingest) kusto.Answer { return a }, func(w *world) {
			w.s.Put(payload("T", "a"))
			w.wait()
			if p := w.s.Progress(); !p.Refused || p.Down || !p.Stuck {
				t.Errorf("%v %d: %+v", a.Verdict, a.Status, p)
			}
		})
	}
}

func TestAnAuthorityOutOfReachIsNoRefusal(t *testing.T) {
	in(t, func(*kusto.Ingest) kusto.Answer {
		return kusto.Answer{Verdict: kusto.Auth, Err: &kusto.Error{NoToken: true, Status: 503}}
	}, func(w *world) {
		w.s.Put(payload("T", "a"))
		pass(11 * time.Second)
		if p := w.s.Progress(); p.Refused || !p.Down || !p.Stuck {
			t.Errorf("%+v", p)
		}
	})
}

// An authority that is out of reach for a moment costs a route no more than its
// schedule of retries.
func TestAnAuthorityOutOfReachIsAskedOnTheRetrySchedule(t *testing.T) {
	var asked atomic.Int32
	in(t, func(in *kusto.Ingest) kusto.Answer {
		if asked.Add(1) <= 3 {
			return kusto.Answer{Verdict: kusto.Auth, RetryAfter: time.Second, Err: &kusto.Error{NoToken: true, Status: 503, RetryAfter: time.Second}}
		}
		return ok(in)
	}, func(w *world) {
		w.s.Put(payload("T", "a"))
		pass(8 * time.Second)
		if p := w.s.Progress(); asked.Load() != 4 || p.Left != 0 || p.Refused {
			t.Errorf("asked %d times: %+v", asked.Load(), p)
		}
	})
}

func TestOnlyTheRecordAtFaultGoesToQuarantine(t *testing.T) {
	var mu sync.Mutex
	var stored []byte
	judge := func(in *kusto.Ingest) kusto.Answer {
		if bytes.ContainsAny(in.Body, "xy") {
			return refusal(kusto.BadData, 400, "BadRequest_InvalidBlob")
		}
		mu.Lock()
		defer mu.Unlock()
		stored = append(stored, in.Body...)
		return ok(in)
	}
	in(t, judge, func(w *world) {
		w.s.Put(payload("T", "abcxefghyjklm"))
		w.wait()
		var kept []byte
		for _, r := range w.kept {
			kept = append(kept, r.Data...)
			if r.Code != "BadRequest_InvalidBlob" || r.Reason != record.Refused {
				t.Errorf("kept with %q, %q", r.Code, r.Reason)
			}
		}
		if slices.Sort(kept); string(kept) != "xy" || len(stored) != 11 {
			t.Errorf("kept %q, stored %q", kept, stored)
		}
		if n := strings.Count(w.did(), "end quarantined"); n != 2 {
			t.Errorf("%d payloads ended in quarantine, want 2", n)
		}
	})
}

// logged is what was logged, for any goroutine.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestRefusedRecordsAreToldByTheMinute: a table that refuses everything does not fill the log, and what
// was refused is told in full.
func TestRefusedRecordsAreToldByTheMinute(t *testing.T) {
	in(t, func(*kusto.Ingest) kusto.Answer { return refusal(kusto.BadData, 400, "BadRequest_InvalidBlob") }, func(w *world) {
		told := func(what string, want ...string) {
			t.Helper()
			var got []string
			for line := range strings.Lines(w.logs.String()) {
				if strings.Contains(line, "records were refused and are in quarantine") {
					_, rest, _ := strings.Cut(line, "records=")
					n, _, _ := strings.Cut(rest, " ")
					got = append(got, n)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: told of %v, want %v", what, got, want)
			}
		}
		w.s.Put(payload("T", "abcdefgh"))
		time.Sleep(time.Second)
		told("at once", "1")
		time.Sleep(repeatEvery)
		told("a minute later", "1", "7")
		time.Sleep(2 * repeatEvery)
		w.s.Put(payload("T", "ijk"))
		time.Sleep(time.Second)
		told("after a pause", "1", "7", "1")
		w.s.Keep()
		told("at the end", "1", "7", "1", "2")
	})
}

// TestNoMessageOfWithheldRecords: where a record has lost its bytes, the service's message
// about them, which may quote them, is kept neither in quarantine nor in the log.
func TestNoMessageOfWithheldRecords(t *testing.T) {
	for table, quoted := range map[string]bool{"T": true, "Redacted": true, "RedactedAnew": false} {
		in(t, func(*kusto.Ingest) kusto.Answer {
			a := refusal(kusto.BadData, 400, "BadRequest_InvalidBlob")
			a.Err.Message = "cannot parse SECRET"
			return a
		}, func(w *world) {
			w.s.Put(payload(table, "x"))
			w.wait()
			if len(w.kept) != 1 {
				t.Fatalf("%s: kept %d records", table, len(w.kept))
			}
			r := w.kept[0]
			if r.Code != "BadRequest_InvalidBlob" || strings.Contains(r.Message, "SECRET") != quoted || strings.Contains(r.Message, "withheld") == quoted {
				t.Errorf("%s: kept with %q, %q", table, r.Code, r.Message)
			}
			if got := w.logs.String(); strings.Contains(got, "SECRET") != quoted || !strings.Contains(got, "BadRequest_InvalidBlob") {
				t.Errorf("%s: logged\n%s", table, got)
			}
		})
	}
}

func TestTooLargeIsHalvedUntilItFits(t *testing.T) {
	judge := func(in *kusto.Ingest) kusto.Answer {
		if len(in.Body) > 3 {
			return refusal(kusto.TooLarge, 413, "KustoRequestPayloadTooLargeException")
		}
		return ok(in)
	}
	in(t, judge, func(w *world) {
		w.s.Put(payload("T", "abcdefgh"))
		w.wait()
		if n := strings.Count(w.did(), "end accepted"); n != 4 || len(w.kept) != 0 {
			t.Errorf("%d payloads accepted, want 4; %d kept", n, len(w.kept))
		}
	})
}

// TestASizeIsRefusedOnce counts the requests for payloads that are all too large: the
// first shows it, and the others are halved before they are asked for, those too that are
// to be in the spool first. The journal has the split of a payload behind its begin.
func TestASizeIsRefusedOnce(t *testing.T) {
	for _, table := range []string{"T", "Durable"} {
		t.Run(table, func(t *testing.T) {
			refused := 0
			within(t, func(in *kusto.Ingest) kusto.Answer {
				if len(in.Body) > 50_000 {
					refused++
					return refusal(kusto.TooLarge, 413, "KustoRequestPayloadTooLargeException")
				}
				return ok(in)
			}, spool.Config{MaxSize: 1 << 30}, func(w *world) {
				w.s.Put(numbered(table, strings.Repeat("x", 64<<10)))
				w.wait()
				if n := len(w.asked); n != 3 || refused != 1 || w.s.Largest(route(table)) != 32<<10 {
					t.Errorf("%d requests, %d refused, the largest is %d; want 3, 1 and half", n, refused, w.s.Largest(route(table)))
				}
				w.mu.Lock()
				w.events = nil
				w.mu.Unlock()
				for range 50 {
					w.s.Put(numbered(table, strings.Repeat("x", 64<<10)))
					w.wait()
				}
				if n := len(w.asked); n != 103 || refused != 1 {
					t.Errorf("%d requests, %d refused; want 2 more for each of 50, and no more refused", n, refused)
				}
				if did := w.did(); table == "T" && !strings.HasPrefix(did, "begin 0, split, begin 1, ") {
					t.Errorf("the journal was told %.100s", did)
				}
				if s := w.spool.Stats(); s.Frames != 0 {
					t.Errorf("%d payloads are left in the spool", s.Frames)
				}
			})
		})
	}
}

func TestAFullQuarantineHoldsTheRoute(t *testing.T) {
	in(t, func(in *kusto.Ingest) kusto.Answer {
		if string(in.Body) == "x" {
			return refusal(kusto.BadData, 400, "BadRequest_InvalidBlob")
		}
		return ok(in)
	}, func(w *world) {
		w.keep = errors.New("quarantine is full")
		w.s.Put(payload("T", "x"))
		pass(time.Second)
		routes, _ := w.s.Status()
		if routes[0].State != "held" || routes[0].Hold.Code != "quarantine" {
			t.Errorf("state %q, hold %+v", routes[0].State, routes[0].Hold)
		}
		pass(time.Hour)
		if n := len(w.asked); n != 1 {
			t.Errorf("the service was asked %d times for what only this machine lacks", n)
		}
		if strings.Contains(w.logs.String(), "is down") {
			t.Errorf("it is told as down:\n%s", w.logs.String())
		}
		w.mu.Lock()
		w.keep = nil
		w.mu.Unlock()
		began := time.Now()
		for w.s.Progress().Left > 0 {
			pass(time.Second)
		}
		if d := time.Since(began); len(w.kept) != 1 || d > 15*time.Second {
			t.Errorf("kept %d records after %v, want 1 soon", len(w.kept), d)
		}
	})
}

// A payload that is refused as a whole is kept in parts where it does not fit at
// once.
func TestQuarantineTakesPartsOfARefusedPayload(t *testing.T) {
	in(t, func(*kusto.Ingest) kusto.Answer {
		return kusto.Answer{Verdict: kusto.BadData, Status: 400, Wrote: true, Err: &kusto.Error{Status: 400}}
	}, func(w *world) {
		w.fits = 2
		w.s.Put(payload("T", "xxxxx"))
		w.wait()
		if len(w.kept) != 5 {
			t.Errorf("kept %d records, want all", len(w.kept))
		}
	})
}

// What cannot be taken apart waits for room in quarantine.
func TestAWholeBlockWaitsForQuarantine(t *testing.T) {
	in(t, func(*kusto.Ingest) kusto.Answer { return refusal(kusto.BadData, 400, "BadRequest_InvalidBlob") }, func(w *world) {
		w.fits = 2
		w.s.Put(payload("Whole", "xxxxx"))
		pass(time.Minute)
		if routes, _ := w.s.Status(); routes[0].State != "held" || len(w.asked) != 1 {
			t.Errorf("%+v, asked %d times", routes[0], len(w.asked))
		}
		w.mu.Lock()
		w.fits = 5
		w.mu.Unlock()
		for w.s.Progress().Left > 0 {
			pass(time.Second)
		}
		if len(w.kept) != 5 {
			t.Errorf("kept %d records, want all", len(w.kept))
		}
	})
}

// An answer to a request that began before the route was accepted again says
// nothing of it any more.
func TestALateRefusalHoldsNothing(t *testing.T) {
	for _, late := range []kusto.Answer{refusal(kusto.Hold, 403, "Forbidden"), refusal(kusto.Retry, 503, "ServiceUnavailable")} {
		in(t, nil, func(w *world) {
			n := 0
			w.answer = func(in *kusto.Ingest) kusto.Answer {
				w.mu.Lock()
				n++
				first := n == 1
				w.mu.Unlock()
				if first {
					time.Sleep(5 * time.Second)
					return late
				}
				return ok(in)
			}
			w.s.Put(payload("T", "a"))
			synctest.Wait()
			w.s.Put(payload("T", "b"))
			w.wait()
			if n != 3 || strings.Contains(w.logs.String(), "level=ERROR") || strings.Contains(w.logs.String(), "request failed") {
				t.Errorf("%v: asked %d times, told\n%s", late.Verdict, n, w.logs.String())
			}
		})
	}
}

// What is the matter with a cluster is told once, not once for each route, and
// what is held is not told to be down as well.
func TestOneComplaintForManyRoutes(t *testing.T) {
	f := func(a kusto.Answer, want ...string) {
		t.Helper()
		in(t, func(*kusto.Ingest) kusto.Answer { return a }, func(w *world) {
			for n := range 50 {
				w.s.Put(payload(fmt.Sprint("T", n), "a"))
			}
			pass(10 * time.Minute)
			var got []string
			for line := range strings.Lines(w.logs.String()) {
				_, msg, _ := strings.Cut(line, "msg=\"")
				msg, _, _ = strings.Cut(msg, "\"")
				got = append(got, msg)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: told %q, want %q", a.Verdict, got, want)
			}
		})
	}
	f(refusal(kusto.NotSent, 0, ""), "request failed, will retry", "cluster is down, probing with backoff")
	f(refusal(kusto.Auth, 401, "Unauthorized"), "cluster is held: without a valid token nothing is sent to it, its records are kept")
}

func TestStoppingLeavesBegunWhatHasNoAnswer(t *testing.T) {
	in(t, func(*kusto.Ingest) kusto.Answer { return refusal(kusto.NotSent, 0, "") }, func(w *world) {
		w.s.Put(payload("T", "a"))
		pass(time.Second)
		if strings.Contains(w.did(), "end") || released.Load() != 0 {
			t.Errorf("%s, released %d", w.did(), released.Load())
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	in(t, func(in *kusto.Ingest) kusto.Answer { time.Sleep(time.Second); return ok(in) }, func(w *world) {
		for i := range 40 {
			w.s.Put(payload(fmt.Sprint("T", i%5), "a"))
		}
		w.wait()
		if w.most != 8 {
			t.Errorf("%d requests at once, want 8", w.most)
		}
	})
}

// pass lets time go by in the bubble, where nothing waits for a real clock, and
// then whatever can happen without more of it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
