package sender

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

var roomy = spool.Config{MaxSize: units.GiB}

var counted atomic.Int64

// numbered is a payload with an id of its own.
func numbered(table, body string) *record.Payload {
	p := payload(table, body)
	p.ID[0] = 1
	n := counted.Add(1)
	p.ID[14], p.ID[15] = byte(n>>8), byte(n)
	return p
}

// refusing answers as told while it refuses, and takes the rest.
type refusing struct {
	on     atomic.Bool
	answer kusto.Answer
	stored []string // the bodies that were taken, in order
}

func (r *refusing) ask(w *world) func(in *kusto.Ingest) kusto.Answer {
	return func(in *kusto.Ingest) kusto.Answer {
		if r.on.Load() {
			return r.answer
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		r.stored = append(r.stored, string(in.Body))
		return ok(in)
	}
}

// got is what was taken so far.
func (r *refusing) got(w *world) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(r.stored)
}

// outage is a service that is down from the start.
func outage(w *world) *refusing {
	r := &refusing{answer: refusal(kusto.NotSent, 0, "")}
	r.on.Store(true)
	w.answer = r.ask(w)
	return r
}

// untilEmpty waits until nothing is in hand or in the spool.
func (w *world) untilEmpty() {
	w.t.Helper()
	for range 10_000 {
		if p := w.s.Progress(); p.Left+p.Spooled == 0 {
			synctest.Wait()
			return
		}
		pass(time.Second)
	}
	w.t.Fatalf("not empty: %+v", w.s.Progress())
}

// A service that is well leaves the disk of the spool alone, and so does one that
// throttles and takes some.
func TestTheSpoolIsUntouchedWhileTheServiceTakesSome(t *testing.T) {
	within(t, ok, roomy, func(w *world) {
		before := w.disk.Ops()
		n := 0
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			w.mu.Lock()
			n++
			busy := n%3 == 0
			w.mu.Unlock()
			time.Sleep(time.Second)
			if busy {
				return refusal(kusto.Throttled, 429, "Throttling")
			}
			return ok(in)
		}
		for range 20 {
			w.s.Put(numbered("T", "abc"))
		}
		for w.s.Progress().Left > 0 {
			pass(time.Second)
		}
		if n := w.disk.Ops() - before; n != 0 {
			t.Errorf("%d operations of the disk", n)
		}
	})
}

func TestAnOutageIsSpentInTheSpool(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		r := outage(w)
		var want []string
		for n := range 10 {
			body := fmt.Sprint(n)
			want = append(want, body)
			w.s.Put(numbered("T", body))
		}
		pass(11 * time.Second)
		p := w.s.Progress()
		if p.Left > 1 || p.Spooled < 9 || !p.Down || !p.Stuck {
			t.Errorf("after patience: %+v", p)
		}
		for n := 10; n < 20; n++ { // reading goes on
			if credit, _ := w.s.Credit(route("T")); credit < 1 {
				t.Fatal("no credit while there is room in the spool")
			}
			body := fmt.Sprint(n)
			want = append(want, body)
			w.s.Put(numbered("T", body))
			pass(time.Second)
		}
		w.mu.Lock()
		before := len(w.asked)
		w.most = w.now
		w.mu.Unlock()
		pass(10 * time.Minute)
		if n := len(w.asked) - before; n < 15 || n > 80 || w.most > 1 {
			t.Errorf("%d probes in ten minutes, %d at once", n, w.most)
		}
		if n := released.Load(); n < 19 {
			t.Errorf("%d of 20 payloads are out of memory", n)
		}
		r.on.Store(false)
		w.untilEmpty()
		if got := w.did(); strings.Count(got, "end spooled") != 20 || strings.Count(got, "replay ends accepted") != 20 {
			t.Error(got)
		}
		got := r.got(w)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		if n := released.Load(); n != 20 {
			t.Errorf("released %d, want each payload once", n)
		}
		if st := w.spool.Stats(); st.Frames != 0 {
			t.Errorf("left in the spool: %+v", st)
		}
	})
}

// The probe of a held route does not keep what another route has in the spool.
func TestAHeldRouteDoesNotStopTheReplayOfOthers(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		r := outage(w)
		for range 5 {
			w.s.Put(numbered("Bad", "b"))
			w.s.Put(numbered("Good", "g"))
		}
		pass(30 * time.Second)
		back := r.ask(w)
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			if in.Table == "Bad" {
				return refusal(kusto.Hold, 400, "BadRequest_EntityNotFound")
			}
			return back(in)
		}
		w.mu.Unlock()
		r.on.Store(false)
		pass(2 * time.Minute)
		if p := w.s.Progress(); len(r.got(w)) != 5 || p.Left+p.Spooled != 5 {
			t.Errorf("stored %v, %+v, want all that is good and no more", r.got(w), p)
		}
		w.mu.Lock()
		w.answer = back
		w.mu.Unlock()
		w.untilEmpty()
		if len(r.got(w)) != 10 {
			t.Errorf("stored %v, want all", r.got(w))
		}
	})
}

func TestADurablePayloadIsInTheSpoolBeforeItIsPosted(t *testing.T) {
	within(t, ok, roomy, func(w *world) {
		w.s.Put(numbered("Durable", "abc"))
		w.untilEmpty()
		if got := w.did(); got != "begin 0, end spooled, replay 1, replay ends accepted" {
			t.Error(got)
		}
	})
	// Where the disk does not let it, it is delivered all the same.
	within(t, ok, roomy, func(w *world) {
		w.full.Store(true)
		w.s.Put(numbered("Durable", "abc"))
		w.wait()
		if got := w.did(); got != "begin 0, begin 1, end accepted, replay ends accepted" {
			t.Error(got)
		}
	})
}

// A payload that fails while others of its route are taken rests in the spool
// after three attempts and patience, and is tried again from there.
func TestAPayloadThatFailsAloneIsSpooledAlone(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		var healed atomic.Bool
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			if string(in.Body) == "bad" && !healed.Load() {
				return refusal(kusto.Retry, 503, "ServiceUnavailable")
			}
			return ok(in)
		}
		w.s.Put(numbered("T", "bad"))
		for range 60 {
			w.s.Put(numbered("T", "good"))
			pass(time.Second)
		}
		if got := w.did(); strings.Count(got, "end spooled") != 1 {
			t.Error(got)
		}
		if p := w.s.Progress(); p.Left+p.Spooled != 1 || p.Down {
			t.Errorf("%+v, want one that is tried again", p)
		}
		pass(time.Minute) // nothing else is accepted: a run --once is at its end
		if p := w.s.Progress(); !p.Stuck || !p.Down || p.Refused {
			t.Errorf("%+v, want stuck", p)
		}
		healed.Store(true)
		w.untilEmpty()
	})
}

func TestARefusedPayloadOutOfTheSpoolIsHalvedThere(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		r := outage(w)
		w.s.Put(numbered("T", "aabaaaab"))
		pass(30 * time.Second)
		back := r.ask(w)
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			if !r.on.Load() && bytes.ContainsRune(in.Body, 'b') {
				return refusal(kusto.BadData, 400, "BadRequest_MalformedData")
			}
			return back(in)
		}
		w.mu.Unlock()
		r.on.Store(false)
		w.untilEmpty()
		if got := strings.Join(r.got(w), ""); len(w.kept) != 2 || got != "aaaaaa" {
			t.Errorf("stored %q and kept %d, want all that is good and two", got, len(w.kept))
		}
		got := w.did()
		if strings.Count(got, "replay ends split") == 0 || strings.Count(got, "replay ends quarantined") != 2 || strings.Contains(got, ", split") {
			t.Error(got)
		}
		if st := w.spool.Stats(); st.Frames != 0 {
			t.Errorf("left in the spool: %+v", st)
		}
	})
}

// The journal knows how a payload ended before the spool lets go of it: a kill between
// leaves a frame that is not sent again.
func TestTheEndIsInTheJournalBeforeTheSpool(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		r := outage(w)
		w.s.Put(numbered("T", "abc"))
		pass(30 * time.Second)
		ends := 0
		w.mu.Lock()
		w.over = func() {
			if ends++; w.spool.Stats().Frames != 1 {
				t.Errorf("when the journal is told, the spool has %+v", w.spool.Stats())
			}
		}
		w.mu.Unlock()
		r.on.Store(false)
		w.untilEmpty()
		if ends != 1 {
			t.Errorf("the journal was told of %d ends", ends)
		}
	})
}

// A spool that cannot take the halves leaves the refused payload where it is.
func TestHalvesWaitForRoom(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		r := outage(w)
		w.s.Put(numbered("T", "ab"))
		pass(30 * time.Second)
		w.full.Store(true)
		back := r.ask(w)
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			if !r.on.Load() && bytes.ContainsRune(in.Body, 'b') {
				return refusal(kusto.BadData, 400, "BadRequest_MalformedData")
			}
			return back(in)
		}
		w.mu.Unlock()
		r.on.Store(false)
		pass(2 * time.Minute)
		if len(r.got(w))+len(w.kept) > 0 || w.spool.Stats().Frames != 1 {
			t.Errorf("stored %v, kept %v", r.got(w), w.kept)
		}
		w.full.Store(false)
		w.untilEmpty()
		if len(r.got(w)) != 1 || len(w.kept) != 1 {
			t.Errorf("stored %v, kept %v, want one each", r.got(w), w.kept)
		}
	})
}

// What the spool has no room for stays in memory, and goes there when there is.
func TestAFullSpoolKeepsTwo(t *testing.T) {
	within(t, nil, spool.Config{MaxSize: 1}, func(w *world) {
		r := outage(w)
		w.s.Put(numbered("T", "a"))
		w.s.Put(numbered("T", "b"))
		pass(time.Minute)
		if p := w.s.Progress(); p.Left != 2 || p.Spooled != 0 || !p.Stuck {
			t.Errorf("%+v, want both in hand", p)
		}
		if n, served := w.s.Credit(route("T")); n != 2 || served {
			t.Errorf("credit %d, %v", n, served)
		}
		r.on.Store(false)
		w.untilEmpty()
		if len(r.got(w)) != 2 {
			t.Errorf("stored %v", r.got(w))
		}
	})
}

// What came out of a full spool goes back while the service is down: in hand it would
// keep the oldest from being dropped for what is new.
func TestAFullSpoolGetsItsOwnBack(t *testing.T) {
	within(t, nil, spool.Config{MaxSize: 192 << 10, WhenFull: "drop_oldest"}, func(w *world) {
		r := outage(w)
		large := func() *record.Payload { return numbered("T", strings.Repeat("a", 32<<10)) }
		for range 10 {
			w.s.Put(large())
			pass(10 * time.Second)
		}
		cfg := w.s.o.Config
		cfg.Concurrency, cfg.Retry.Patience = 32, units.Duration(10*time.Minute)
		w.s.Reload(cfg, []Cluster{w.s.clustersNow()})
		// The service takes one and goes again while many are under way out of the
		// spool.
		hang, taken := make(chan struct{}), false
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			w.mu.Lock()
			first := !taken
			taken = true
			w.mu.Unlock()
			if first {
				return ok(in)
			}
			<-hang
			return r.ask(w)(in)
		}
		w.mu.Unlock()
		pass(time.Minute)
		var err error
		for range 6 { // what was accepted has left some room
			if err = w.spool.Put(large()); err != nil {
				break
			}
			w.s.Expect(route("T"))
			pass(time.Second) // it is under way too
		}
		if !errors.Is(err, spool.ErrFull) {
			t.Errorf("put: %v", err)
		}
		close(hang)
		pass(time.Minute)
		if p := w.s.Progress(); p.Left > 1 || w.spool.Health() != nil {
			t.Errorf("%+v, the spool is %v", p, w.spool.Health())
		}
		r.on.Store(false)
		w.untilEmpty()
	})
}

// What is in hand at the stop is in the spool, and the next run delivers it.
func TestKeepAtTheStop(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		hang := make(chan struct{})
		w.answer = func(*kusto.Ingest) kusto.Answer {
			<-hang
			return refusal(kusto.Unknown, 0, "")
		}
		for range 12 { // eight are under way
			w.s.Put(numbered("T", "a"))
		}
		synctest.Wait()
		w.stop(func() { close(hang) })
		if kept, left := w.s.Keep(); kept != 12 || left != 0 {
			t.Errorf("kept %d and left %d, want all kept", kept, left)
		}
		if n := strings.Count(w.logs.String(), "outcome of a batch is unknown"); n != 8 {
			t.Errorf("%d are named as unknown, want those that were under way:\n%s", n, w.logs.String())
		}
		if n := released.Load(); n != 12 {
			t.Errorf("released %d", n)
		}
		w.answer = ok
		w.start()
		w.untilEmpty()
		if got := w.did(); strings.Count(got, "replay 2") != 8 || strings.Count(got, "replay 1") != 4 || strings.Count(got, "replay ends accepted") != 12 {
			t.Error(got)
		}
	})
}

// New payloads and those out of the spool take turns.
func TestReplayTakesTurns(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		r := outage(w)
		for range 50 {
			w.s.Put(numbered("T", "old"))
		}
		pass(time.Minute)
		slow := r.ask(w)
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer { time.Sleep(time.Second); return slow(in) }
		w.mu.Unlock()
		r.on.Store(false)
		for len(r.got(w)) < 8 { // it is up again
			pass(time.Second)
		}
		from := len(r.got(w))
		for range 40 {
			w.s.Put(numbered("T", "new"))
		}
		for len(r.got(w)) < from+40 {
			pass(time.Second)
		}
		fresh := 0
		for _, b := range r.got(w)[from : from+40] {
			if b == "new" {
				fresh++
			}
		}
		if fresh < 15 || fresh > 25 {
			t.Errorf("%d of 40 were new, want about half", fresh)
		}
		w.untilEmpty()
	})
}

// eager gives a payload out before its Put has returned.
type eager struct {
	*spool.Spool
	out chan struct{} // gets a token when Next gave one out
}

func (e eager) Put(p *record.Payload) error {
	err := e.Spool.Put(p)
	<-e.out
	return err
}

func (e eager) Next(r record.Route) (*record.Payload, record.BatchID) {
	p, frame := e.Spool.Next(r)
	if p != nil {
		select {
		case e.out <- struct{}{}:
		default: // no Put waits
		}
	}
	return p, frame
}

// tally counts what rests in the spool.
type tally struct {
	deaf
	spooled atomic.Int64
	least   atomic.Int64
}

func (b *tally) Spooled(_ string, n int) { b.spooled.Add(int64(n)) }

func (b *tally) Unspooled(_ string, n int) {
	if left := b.spooled.Add(int64(-n)); left < b.least.Load() {
		b.least.Store(left)
	}
}

// A payload that the spool gives out at once has been counted there before.
func TestWhatIsGivenOutWasCounted(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		synctest.Wait()
		books := &tally{}
		e := eager{w.spool, make(chan struct{})}
		w.s.o.Books, w.s.o.Spill, w.s.o.Backlog = books, e, e
		r := outage(w)
		p := numbered("T", "abc")
		p.Pieces = []record.Piece{{File: record.File{Input: "app"}, Records: 1}}
		w.s.Put(p)
		pass(15 * time.Second)
		w.s.Put(numbered("T", "abc")) // stays in hand, is probed and goes back: then p is asked for
		pass(time.Minute)
		r.on.Store(false)
		w.untilEmpty()
		if books.least.Load() < 0 || books.spooled.Load() != 0 {
			t.Errorf("at least %d, in the end %d records in the spool", books.least.Load(), books.spooled.Load())
		}
	})
}

// scarce is memory that is short while it is told so.
type scarce struct {
	halves
	short           atomic.Bool
	refused, beyond atomic.Int64
	reserved        atomic.Int64
}

func (m *scarce) Reserve(must bool) bool {
	if m.short.Load() && !must {
		m.refused.Add(1)
		return false
	}
	if m.short.Load() {
		m.beyond.Add(1)
	}
	m.reserved.Add(1)
	return true
}

func (m *scarce) Unreserve() { m.reserved.Add(-1) }

// While memory is short one payload at a time comes back out of the spool, and it
// comes; afterwards several.
func TestReplayWithLittleMemory(t *testing.T) {
	within(t, nil, roomy, func(w *world) {
		memory := &scarce{halves: halves{&released}}
		w.s.o.Memory = memory
		r := outage(w)
		for i := range 20 {
			w.s.Put(numbered("T", fmt.Sprint("body ", i)))
		}
		pass(time.Minute)
		if p := w.s.Progress(); p.Spooled < 18 {
			t.Fatalf("%+v", p)
		}
		memory.short.Store(true)
		var inHand, most atomic.Int64
		w.answer = func(in *kusto.Ingest) kusto.Answer {
			most.Store(max(most.Load(), inHand.Add(1)))
			defer inHand.Add(-1)
			time.Sleep(100 * time.Millisecond)
			return r.ask(w)(in)
		}
		r.on.Store(false)
		w.untilEmpty()
		if n := len(r.got(w)); n != 20 || most.Load() != 1 || memory.refused.Load() == 0 || memory.beyond.Load() == 0 {
			t.Errorf("%d were taken, %d at a time; %d refused, %d beyond", n, most.Load(), memory.refused.Load(), memory.beyond.Load())
		}
		if n := memory.reserved.Load(); n != 0 {
			t.Errorf("%d stay reserved", n)
		}
	})
}
