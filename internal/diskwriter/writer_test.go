package diskwriter

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/record"
)

var errDisk = errors.New("disk failed")

// told notes what a Writer reports.
type told []string

func (l *told) options() Options {
	return Options{
		Stall: 5 * time.Second, FirstRetry: time.Second, LastRetry: 3 * time.Second,
		OnFail:    func(err error) { *l = append(*l, "fail: "+err.Error()) },
		OnRecover: func(elapsed time.Duration) { *l = append(*l, "well after "+elapsed.String()) },
	}
}

func (l *told) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(*l, want) {
		t.Errorf("reported %q, want %q", *l, want)
	}
}

// store is the least that uses Run: it counts its turns.
type store struct {
	w     *Writer
	turns atomic.Int32
	due   []time.Time // what is due after each turn, and then nothing
	last  error
}

func (s *store) run() {
	s.w.Run(func() (bool, error) { s.turns.Add(1); return s.w.Closed(), s.last }, func() (at time.Time) {
		if len(s.due) > 0 {
			at, s.due = s.due[0], s.due[1:]
		}
		return at
	})
}

// TestErrorsAreReportedOnce: the first of a row of errors is reported, and the first
// success after it; the waits between tries grow up to their bound.
func TestErrorsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l told
		w := New(l.options())
		for _, wait := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			w.Report(errDisk)
			if w.TakeRetry() {
				t.Fatal("tried again at once")
			}
			if got := time.Until(w.RetryAt()); got != wait {
				t.Fatalf("tried again after %v, want %v", got, wait)
			}
			time.Sleep(wait)
			if !w.TakeRetry() || w.TakeRetry() || !w.RetryAt().IsZero() {
				t.Fatal("not tried again once")
			}
		}
		if since, err := w.Trouble(); !errors.Is(err, errDisk) || time.Since(since) != 9*time.Second || !errors.Is(w.Err(), errDisk) {
			t.Errorf("trouble %v for %v", err, time.Since(since))
		}
		w.Report(nil)
		w.Report(nil)
		if since, err := w.Trouble(); err != nil || !since.IsZero() {
			t.Errorf("trouble %v since %v", err, since)
		}
		w.Report(errDisk)
		if got := time.Until(w.RetryAt()); got != time.Second {
			t.Errorf("tried again after %v", got)
		}
		l.want(t, "fail: disk failed", "well after 9s", "fail: disk failed")
	})
}

// TestNewsAreReported: IsNews decides on an error after another.
func TestNewsAreReported(t *testing.T) {
	var l told
	o := l.options()
	o.IsNews = func(was, err error) bool { return was.Error() != err.Error() }
	w := New(o)
	w.Report(errDisk)
	w.Report(errDisk)
	w.Report(errors.New("disk full"))
	l.want(t, "fail: disk failed", "fail: disk full")
}

// TestRetryBy: the earlier time counts.
func TestRetryBy(t *testing.T) {
	w := New(Options{})
	early := time.Now()
	w.RetryBy(early.Add(time.Hour))
	w.RetryBy(early)
	w.RetryBy(early.Add(time.Minute))
	if !w.RetryAt().Equal(early) {
		t.Errorf("retry at %v, want %v", w.RetryAt(), early)
	}
}

// TestStallIsReportedOnce: nobody asks, nothing is reported; then once, and when the call
// ends, with the time it took.
func TestStallIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l told
		w := New(l.options())
		answer := make(chan error)
		ended := make(chan error)
		go func() { ended <- w.Call(func() error { return <-answer }) }() // ends with the answer
		time.Sleep(5*time.Second - time.Nanosecond)
		if w.Stalls() {
			t.Error("stalls before its time")
		}
		time.Sleep(time.Nanosecond)
		if since, err := w.Trouble(); !errors.Is(err, record.ErrStalled) || time.Since(since) != 5*time.Second || !w.Stalls() {
			t.Errorf("trouble %v for %v", err, time.Since(since))
		}
		time.Sleep(time.Second)
		answer <- errDisk
		if err := <-ended; !errors.Is(err, errDisk) || w.Stalls() {
			t.Errorf("call returned %v, stalls %v", err, w.Stalls())
		}
		w.GiveUp() // nothing is under way
		l.want(t, "fail: "+record.ErrStalled.Error(), "well after 6s")
	})
}

// TestAStallIsNoRecovery: a call that took too long while writes fail is over, and nothing is well
// before a write succeeds.
func TestAStallIsNoRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l told
		w := New(l.options())
		w.Report(errDisk)
		_ = w.Call(func() error {
			time.Sleep(6 * time.Second)
			if !w.Stalls() {
				t.Error("does not stall")
			}
			return errDisk
		})
		w.Report(errDisk)
		l.want(t, "fail: disk failed", "fail: "+record.ErrStalled.Error())
		w.Report(nil)
		l.want(t, "fail: disk failed", "fail: "+record.ErrStalled.Error(), "well after 6s")
	})
}

// TestRunTurns: a turn for each Wake, for each time that is due, and a last one.
func TestRunTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soon := time.Now().Add(time.Minute)
		s := &store{w: New((&told{}).options()), due: []time.Time{soon, soon}, last: errDisk}
		go s.run() // ends with Close
		synctest.Wait()
		if s.turns.Load() != 0 {
			t.Fatalf("%d turns before anything was to be done", s.turns.Load())
		}
		s.w.Wake()
		synctest.Wait()
		if s.turns.Load() != 1 {
			t.Fatalf("%d turns after Wake", s.turns.Load())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.turns.Load() != 2 {
			t.Fatalf("%d turns after the time that was due", s.turns.Load())
		}
		if err := s.w.Close(); !errors.Is(err, errDisk) || s.turns.Load() != 3 {
			t.Errorf("Close returns %v after %d turns", err, s.turns.Load())
		}
		if err := s.w.Close(); err != nil {
			t.Errorf("second Close returns %v", err)
		}
	})
}

// TestAWakeDuringATurnIsKept: what is queued while a turn is under way has another one.
func TestAWakeDuringATurnIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New((&told{}).options())
		w.Wake()
		turns := 0
		w.Run(func() (bool, error) {
			turns++
			if turns == 1 {
				w.Wake()
			}
			return turns == 2, nil
		}, func() time.Time { return time.Time{} })
		if turns != 2 {
			t.Errorf("%d turns, want 2", turns)
		}
	})
}

// TestCloseDoesNotWaitForADiskThatHangs: Close waits for what is left of the limit, of the
// writer's own call and of those beside it.
func TestCloseDoesNotWaitForADiskThatHangs(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := New((&told{}).options())
			watch := NewWatch(5*time.Second, func() {}, func(time.Duration) {})
			release := make(chan struct{})
			hang := func() error { <-release; return nil }
			go w.Run(func() (bool, error) { // ends after the disk answers
				if beside {
					return true, watch.Call(hang)
				}
				return true, w.Call(hang)
			}, func() time.Time { return time.Time{} })
			w.Wake()
			time.Sleep(3 * time.Second)
			began := time.Now()
			if err := w.Close(watch); !errors.Is(err, record.ErrStalled) || time.Since(began) != 2*time.Second {
				t.Errorf("beside %v: Close returns %v after %v", beside, err, time.Since(began))
			}
			close(release)
		})
	}
}

// TestDoWaitsItsTime: a write that has begun goes on without its caller; one that has not
// is never made; and no two run at the same time.
func TestDoWaitsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l told
		w := New(l.options())
		release := make(chan struct{})
		var settled []error
		settle := func(err error) { settled = append(settled, err) }
		began := time.Now()
		err := w.Do(5*time.Second, func() error { <-release; return errDisk }, settle)
		if !errors.Is(err, record.ErrStalled) || time.Since(began) != 5*time.Second {
			t.Errorf("Do returns %v after %v", err, time.Since(began))
		}
		w.GiveUp()
		err = w.Do(time.Second, func() error { t.Error("ran beside the other"); return nil }, settle)
		if !errors.Is(err, record.ErrStalled) || time.Since(began) != 6*time.Second {
			t.Errorf("Do behind it returns %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Take(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Take returns %v", err)
		}
		close(release)
		synctest.Wait()
		if len(settled) != 1 || !errors.Is(settled[0], errDisk) {
			t.Errorf("settled %v", settled)
		}
		if err := w.Do(time.Second, func() error { return nil }, settle); err != nil || len(settled) != 2 {
			t.Errorf("Do returns %v, settled %v", err, settled)
		}
		if err := w.Take(t.Context()); err != nil {
			t.Error(err)
		}
		w.Give()
		l.want(t, "fail: "+record.ErrStalled.Error(), "well after 6s")
	})
}

// TestWaitTakesWhatIsThere: a value that has come counts, also when the time is over: after a pause
// of the whole process both are there at once.
func TestWaitTakesWhatIsThere(t *testing.T) {
	for range 1000 {
		c := make(chan int, 1)
		c <- 7
		if got, ok := Wait(c, -time.Second); !ok || got != 7 {
			t.Fatalf("got %d, %v", got, ok)
		}
	}
}
