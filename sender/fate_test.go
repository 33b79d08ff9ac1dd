package sender

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// poisoned answers a for bodies that contain "poison" and down for all others
// while there is an outage; it counts what it accepted.
type poisoned struct {
	w        *world
	answer   kusto.Answer
	slow     time.Duration // what a poisonous request takes
	down     atomic.Bool
	accepted atomic.Int64
	asked    atomic.Int64 // poisonous requests
}

func poison(w *world, a kusto.Answer) *poisoned {
	p := &poisoned{w: w, answer: a}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = p.serve
	return p
}

func (p *poisoned) serve(in *kusto.Ingest) kusto.Answer {
	if p.down.Load() {
		return refusal(kusto.NotSent, 0, "")
	}
	if strings.Contains(string(in.Body), "poison") {
		p.asked.Add(1)
		time.Sleep(p.slow)
		return p.answer
	}
	p.accepted.Add(1)
	return ok(in)
}

// poisons are the answers that a single body may get for ever.
var poisons = map[string]kusto.Answer{
	"500":        refusal(kusto.Retry, 500, "InternalError"),
	"proxy page": refusal(kusto.Unknown, 502, ""),
	"reset":      refusal(kusto.Unknown, 0, ""),
	"not sent":   refusal(kusto.NotSent, 0, ""),
	"403":        refusal(kusto.Hold, 403, "Forbidden"),
}

// A payload that never gets a good answer does not keep a quiet route from
// delivering: fresh payloads arrive less often than patience.
func TestPoisonDoesNotStopAQuietRoute(t *testing.T) {
	for name, answer := range poisons {
		t.Run(name, func(t *testing.T) {
			within(t, nil, roomy, func(w *world) {
				p := poison(w, answer)
				w.s.Put(numbered("T", "poison"))
				const n = 240
				for range n {
					w.s.Put(numbered("T", "good"))
					pass(15 * time.Second)
				}
				pass(2 * time.Minute)
				if got := p.accepted.Load(); got != n {
					t.Errorf("%d of %d good payloads accepted, poison asked %d times", got, n, p.asked.Load())
				}
				if st := w.s.Progress(); st.Left+st.Spooled != 1 {
					t.Errorf("%+v, want the poisonous payload alone", st)
				}
				if asked := p.asked.Load(); asked < 60 {
					t.Errorf("poison asked %d times in an hour, want at least every retry.max", asked)
				}
			})
		})
	}
}

// A poisonous payload at the head of the spool does not keep a route down after
// an outage.
func TestPoisonDoesNotKeepARouteDownAfterAnOutage(t *testing.T) {
	for name, answer := range poisons {
		t.Run(name, func(t *testing.T) {
			within(t, nil, roomy, func(w *world) {
				p := poison(w, answer)
				p.down.Store(true)
				w.s.Put(numbered("T", "poison"))
				const n = 120
				for i := range n {
					w.s.Put(numbered("T", "good"))
					pass(time.Second)
					if i == 30 {
						p.down.Store(false)
					}
				}
				pass(2 * time.Minute)
				if got := p.accepted.Load(); got != n {
					t.Errorf("%d of %d good payloads accepted, poison asked %d times", got, n, p.asked.Load())
				}
			})
		})
	}
}

// More poisonous payloads than the cluster has concurrent requests: what is
// old and sound still leaves the spool.
func TestPoisonDoesNotHoldSlotsOfTheReplay(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		p := poison(w, refusal(kusto.Retry, 500, "InternalError"))
		p.down.Store(true)
		for i := range 100 {
			body := "good"
			if i%2 == 0 {
				body = "poison"
			}
			w.s.Put(numbered("T", body))
		}
		pass(30 * time.Second)
		p.down.Store(false)
		for range 180 {
			w.s.Put(numbered("T", "fresh"))
			pass(time.Second)
		}
		if got := p.accepted.Load(); got < 50+175 {
			t.Errorf("%d of 230 sound payloads accepted", got)
		}
	})
}

// Fifty payloads whose requests all time out leave the others nine tenths of
// the rate they have without them, also after an outage.
func TestPoisonThatTimesOutLeavesTheRate(t *testing.T) {
	if testing.Short() {
		t.Skip("half an hour of its time in which fifty payloads are divided")
	}
	rate := func(poisons int, outage bool) (n int64) {
		within(t, nil, roomy, func(w *world) {
			p := poison(w, refusal(kusto.Unknown, 0, ""))
			p.slow = 5 * time.Second
			slow := p.serve
			w.mu.Lock()
			w.answer = func(in *kusto.Ingest) kusto.Answer { time.Sleep(200 * time.Millisecond); return slow(in) }
			w.mu.Unlock()
			for range poisons {
				w.s.Put(numbered("T", "poison"))
			}
			feed := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); {
					credit, _ := w.s.Credit(route("T"))
					for n := credit + poisons - w.s.Progress().Left; n > 0; n-- {
						w.s.Put(numbered("T", "good"))
					}
					pass(200 * time.Millisecond)
				}
			}
			feed(8 * time.Minute) // by now each was tried and told from the others
			if outage {
				p.down.Store(true)
				feed(30 * time.Second)
				p.down.Store(false)
				feed(4 * time.Minute)
			}
			before := p.accepted.Load()
			feed(2 * time.Minute)
			n = p.accepted.Load() - before
		})
		return n
	}
	without := rate(0, false)
	for _, outage := range []bool{false, true} {
		with := rate(50, outage)
		t.Logf("outage %v: %d beside fifty that time out, %d without", outage, with, without)
		if float64(with) < 0.9*float64(without) {
			t.Errorf("outage %v: %d accepted beside fifty that time out, %d without them", outage, with, without)
		}
	}
}

// A service that refuses one request in three at random is used: payloads that
// failed among others that did not are not kept to the few slots of suspects for
// long. What is left unused is their waits, which count for the credit of the route.
func TestAFlakyServiceIsUsedFully(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		var n, accepted atomic.Int64
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			time.Sleep(100 * time.Millisecond)
			if i := n.Add(1); i*2654435761%1000 < 333 {
				return refusal(kusto.Retry, 503, "ServiceUnavailable")
			}
			accepted.Add(1)
			return ok(in)
		}
		for range 600 {
			credit, _ := w.s.Credit(route("T"))
			for n := credit - w.s.Progress().Left; n > 0; n-- {
				w.s.Put(numbered("T", "a"))
			}
			pass(100 * time.Millisecond)
		}
		if share := float64(accepted.Load()) / (600 * 8 * 2 / 3); share < 0.55 {
			t.Errorf("%d accepted of %d requests in a minute, %.0f%% of what could be", accepted.Load(), n.Load(), share*100)
		}
	})
}

// A payload that takes long to fail, on a route that is busy, is told and rests
// in the spool.
func TestAPayloadThatFailsSlowlyIsSpooledAndTold(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		p := poison(w, refusal(kusto.Unknown, 0, "timeout"))
		p.slow = time.Minute
		w.s.Put(numbered("T", "poison"))
		for range 600 {
			w.s.Put(numbered("T", "good"))
			pass(time.Second)
		}
		if n := w.spool.Stats().Frames; n != 1 {
			t.Errorf("%d payloads in the spool, want the one that fails", n)
		}
		if told := strings.Count(w.logs.String(), "keeps failing while others"); told != 1 {
			t.Errorf("told %d times, want once:\n%s", told, w.logs.String())
		}
		routes, _ := w.s.Status()
		if routes[0].State != "up" || routes[0].FailingAlone != 1 {
			t.Errorf("%+v, want a route that is up and one payload that fails alone", routes[0])
		}
	})
}

// books keeps what the journal was told, by batch.
type entries struct {
	*world
	mu   sync.Mutex
	ends map[record.BatchID][]string
}

func (e *entries) End(id record.BatchID, o record.Outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends[id] = append(e.ends[id], "end "+o.String())
	return nil
}

func (e *entries) EndReplay(id record.BatchID, o record.Outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends[id] = append(e.ends[id], "replay ends "+o.String())
	return nil
}

func (e *entries) of(p *record.Payload) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.ends[p.ID], ", ")
}

// A payload whose Put failed may be in the spool all the same: its end is told
// of both.
func TestAFailedPutIsEndedInTheSpoolToo(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		w.disk.Judge = func(op faultfs.Op) faultfs.Verdict {
			if op.Kind == "sync" {
				return faultfs.Verdict{Err: errors.New("input/output error")}
			}
			return faultfs.Verdict{}
		}
		e := &entries{world: w, ends: map[record.BatchID][]string{}}
		synctest.Wait()
		setJournal(w.s, e)
		w.mu.Lock()
		w.answer = ok
		w.mu.Unlock()
		p := numbered("Durable", "abc")
		w.s.Put(p)
		pass(time.Minute)
		if got := e.of(p); got != "end accepted, replay ends accepted" {
			t.Errorf("the journal was told %q", got)
		}
	})
}

// A request for a spooled payload that the stop broke off is named, though the
// spool is full.
func TestABrokenOffReplayIsNamedWithAFullSpool(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		r := outage(w)
		w.s.Put(numbered("T", "a"))
		pass(30 * time.Second)
		hang := make(chan struct{})
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer { <-hang; return refusal(kusto.Unknown, 0, "") }
		w.mu.Unlock()
		r.on.Store(false)
		pass(time.Minute)
		w.full.Store(true)
		if err := w.spool.Put(numbered("T", strings.Repeat("x", 100<<10))); err == nil {
			t.Fatal("the disk has room")
		}
		w.stop(func() { close(hang) })
		w.s.Keep()
		if n := strings.Count(w.logs.String(), "outcome of a batch is unknown"); n != 1 {
			t.Errorf("named %d times:\n%s", n, w.logs.String())
		}
		w.full.Store(false)
		if n := w.spool.Waiting(route("T")); n != 1 {
			t.Errorf("%d payloads are back in the spool", n)
		}
		w.start()
	})
}

// TestOnlyAnAnswerIsToldAsOne: the journal hears that a spooled payload was not stored if an answer
// says so, and not if none came that can be trusted, or one was accepted.
func TestOnlyAnAnswerIsToldAsOne(t *testing.T) {
	for verdict, told := range map[kusto.Verdict]bool{kusto.Retry: true, kusto.NotSent: true, kusto.Throttled: true, kusto.Hold: true, kusto.Unknown: false} {
		within(t, nil, roomy, func(w *world) {
			r := outage(w)
			w.s.Put(numbered("T", "a"))
			pass(30 * time.Second)
			before := w.did()
			w.mu.Lock()
			w.answer = func(in *kusto.Ingest) kusto.Answer { return refusal(verdict, 0, "") }
			w.mu.Unlock()
			r.on.Store(false)
			pass(10 * time.Minute)
			said := strings.TrimPrefix(w.did(), before)
			if !strings.Contains(said, "replay ") || strings.Contains(said, "answered ") != told {
				t.Errorf("%v: %s", verdict, said)
			}
			w.mu.Lock()
			w.answer = ok
			w.mu.Unlock()
			w.untilEmpty()
		})
	}
}

// Payloads of a cluster that nobody configured are kept and never sent.
func TestAPayloadForAnUnknownClusterIsKept(t *testing.T) {
	within(t, ok, roomy, func(w *world) {
		p := numbered("T", "a")
		p.Route.Cluster = "http://elsewhere"
		w.s.Expect(p.Route)
		w.s.Put(p)
		if n, served := w.s.Credit(p.Route); n != 2 || served {
			t.Errorf("credit %d, %v", n, served)
		}
		pass(time.Minute)
		if len(w.requests()) != 0 || w.spool.Waiting(p.Route) != 1 {
			t.Errorf("asked %v, %d in the spool", w.requests(), w.spool.Waiting(p.Route))
		}
	})
}

// Fresh payloads that are spooled before they are posted leave the replay its
// turns.
func TestDurablePayloadsLeaveTheReplayItsTurns(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		r := outage(w)
		for range 100 {
			w.s.Put(numbered("Durable", "old"))
		}
		pass(time.Minute)
		back := r.ask(w)
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer { time.Sleep(100 * time.Millisecond); return back(in) }
		w.mu.Unlock()
		r.on.Store(false)
		for len(r.got(w)) < 8 {
			for w.s.Progress().Left < 16 {
				w.s.Put(numbered("Durable", "new"))
			}
			pass(100 * time.Millisecond)
		}
		from := len(r.got(w))
		for len(r.got(w)) < from+100 {
			for w.s.Progress().Left < 24 {
				w.s.Put(numbered("Durable", "new"))
			}
			pass(100 * time.Millisecond)
		}
		old := strings.Count(strings.Join(r.got(w)[from:from+100], " "), "old")
		if old < 40 || old > 60 {
			t.Errorf("%d of 100 came out of the spool, want two fifths at least", old)
		}
	})
}

// A reload that lifts the rate limit frees what waits for it.
func TestLiftingTheRateLimitFreesWhatWaits(t *testing.T) {
	in(t, ok, func(w *world) {
		cfg := w.s.o.Config
		limited := cfg
		limited.RateLimit = 1000
		w.s.Reload(limited, []Cluster{w.s.clustersNow()})
		for range 8 {
			p := numbered("T", "a")
			p.RawBytes = 4_000_000
			w.s.Put(p)
		}
		pass(time.Minute)
		if n := len(w.requests()); n != 0 {
			t.Fatalf("%d requests at 1 kB/s within a minute", n)
		}
		w.s.Reload(cfg, []Cluster{w.s.clustersNow()})
		pass(time.Millisecond)
		if n := len(w.requests()); n != 8 {
			t.Errorf("%d of 8 requests are made after the limit is lifted", n)
		}
	})
}

// Retry-After of one route holds that route alone, and for a minute at most.
func TestRetryAfterHoldsItsRouteAlone(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		busy := refusal(kusto.Throttled, 429, "Throttling")
		busy.RetryAfter = 5 * time.Minute
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			if in.Table == "Busy" {
				return busy
			}
			return ok(in)
		}
		for range 600 {
			w.s.Put(numbered("Busy", "a"))
			w.s.Put(numbered("Other", "a"))
			pass(time.Second)
		}
		asked := map[string]int{}
		for _, a := range w.requests() {
			table, _, _ := strings.Cut(a, "/")
			asked[table]++
		}
		if asked["Other"] != 600 || asked["Busy"] < 9 || asked["Busy"] > 20 {
			t.Errorf("asked %v in ten minutes, want every payload of Other and one of Busy a minute", asked)
		}
		if n := w.spool.Waiting(route("Other")); n != 0 {
			t.Errorf("%d payloads of Other are in the spool", n)
		}
		if n := strings.Count(w.logs.String(), "Retry-After"); n != 1 {
			t.Errorf("the long Retry-After is told %d times, want once:\n%s", n, w.logs.String())
		}
	})
}

// Throttling by routes that differ is the cluster's.
func TestThrottlingOfTwoRoutesPausesTheCluster(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		busy := refusal(kusto.Throttled, 429, "Throttling")
		busy.RetryAfter = 8 * time.Second
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			if in.Table != "Other" {
				return busy
			}
			return ok(in)
		}
		w.s.Put(numbered("A", "a"))
		w.s.Put(numbered("B", "a"))
		pass(time.Second)
		w.s.Put(numbered("Other", "a"))
		pass(5 * time.Second)
		if n := len(w.requests()); n != 2 {
			t.Errorf("asked %v, want nothing while the cluster is to be left alone", w.requests())
		}
		pass(3 * time.Second)
		if got := strings.Join(w.requests(), " "); !strings.Contains(got, "Other/1") {
			t.Errorf("asked %s, want Other after the pause", got)
		}
	})
}

// A 401 that came before the body was read gets one fresh token.
func TestAnEarly401GetsAFreshToken(t *testing.T) {
	early := refusal(kusto.Auth, 401, "Unauthorized")
	early.Wrote = false
	in(t, first(1, early), func(w *world) {
		w.s.Put(payload("T", "abc"))
		synctest.Wait()
		if got := w.did(); got != "begin 1, begin 2, end accepted" {
			t.Error(got)
		}
	})
}

// An authority that gives no token now is asked on the retry schedule, one that
// refuses the credentials half a minute later at the earliest.
func TestTokensAreAskedForOnTheirSchedules(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		var away atomic.Bool
		away.Store(true)
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			if away.Load() {
				return kusto.Answer{Verdict: kusto.Auth, Err: &kusto.Error{NoToken: true, Status: 503}}
			}
			return ok(in)
		}
		for range 60 {
			w.s.Put(numbered("T", "a"))
			pass(5 * time.Second)
		}
		away.Store(false)
		pass(30*time.Second + time.Millisecond)
		if p := w.s.Progress(); p.Left+p.Spooled > 20 || p.Down {
			t.Errorf("half a minute after the authority is back: %+v", p)
		}
		pass(30 * time.Second) // those that were probed last wait longest
		if p := w.s.Progress(); p.Left+p.Spooled > 0 {
			t.Errorf("a minute after the authority is back: %+v", p)
		}
	})
	in(t, func(*kusto.Ingest) kusto.Answer {
		return kusto.Answer{Verdict: kusto.Auth, Err: &kusto.Error{NoToken: true, Status: 400, Code: "AADSTS7000215"}}
	}, func(w *world) {
		w.s.Put(payload("T", "a"))
		pass(29 * time.Second)
		if n := len(w.requests()); n != 1 {
			t.Errorf("asked %d times within half a minute of a refusal", n)
		}
		pass(time.Minute)
		if n := len(w.requests()); n < 2 {
			t.Error("not asked again after a refusal")
		}
	})
}

// stuck is a journal whose Begin takes its time.
type stuck struct {
	*world
	takes time.Duration
}

func (j stuck) Begin(p *record.Payload) error { time.Sleep(j.takes); return j.world.Begin(p) }

// Waiting for the journal says nothing of the service.
func TestAStalledJournalIsNoOutage(t *testing.T) {
	in(t, ok, func(w *world) {
		synctest.Wait()
		setJournal(w.s, stuck{w, 15 * time.Second})
		for range 3 {
			w.s.Put(payload("T", "a"))
			pass(16 * time.Second)
		}
		if n := len(w.requests()); n != 3 || strings.Contains(w.logs.String(), "down") {
			t.Errorf("asked %d times, told\n%s", n, w.logs.String())
		}
	})
}

// In an outage in which requests hang, reading does not wait for a probe to end: a
// payload that is in hand as a probe leaves the credit of its route as it is.
func TestReadingDoesNotWaitForAProbe(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		w.answer = func(*kusto.Ingest) kusto.Answer {
			time.Sleep(time.Minute)
			return refusal(kusto.Unknown, 0, "")
		}
		w.s.Put(numbered("T", "a"))
		pass(2 * time.Minute)
		const n = 300
		held, put := func() int { return int(counted.Load()) - int(released.Load()) }, 0
		base := held() // of other tests
		for range n {
			credit, _ := w.s.Credit(route("T"))
			for ; held()-base < credit-1 && put < n; put++ {
				w.s.Put(numbered("T", "b"))
			}
			pass(time.Second)
		}
		if put < n {
			t.Errorf("%d of %d payloads are taken in five minutes, the others wait for requests that hang", put, n)
		}
	})
}

// requests are those made so far.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}
