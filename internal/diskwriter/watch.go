package diskwriter

import (
	"sync"
	"time"
)

// Watch times the call to the disk that is under way, one at a time, and reports once
// that it takes longer than a limit. It is safe for concurrent use.
type Watch struct {
	limit    time.Duration
	onStall  func()
	onAnswer func(elapsed time.Duration)

	mu       sync.Mutex
	began    time.Time // of the call under way; zero: none is
	reported bool      // onStall was called for it
}

// NewWatch returns a watch for calls that should take no longer than limit. onStall is called when
// somebody first asks about a call that takes longer (Stalls, GiveUp), and onAnswer when that
// call ends, with the time it took. Both are called with the watch locked and must not
// use it.
func NewWatch(limit time.Duration, onStall func(), onAnswer func(elapsed time.Duration)) *Watch {
	return &Watch{limit: limit, onStall: onStall, onAnswer: onAnswer}
}

// Call runs call, which uses the disk, and returns its error however long it takes. Meanwhile others
// can ask with Stalls whether it hangs.
func (w *Watch) Call(call func() error) error {
	w.begin()
	err := call()
	w.end()
	return err
}

func (w *Watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = time.Now()
}

// end notes that the call under way has ended. If it was reported as stalled, onAnswer is called.
func (w *Watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reported {
		w.reported = false
		w.onAnswer(time.Since(w.began))
	}
	w.began = time.Time{}
}

// Stalls reports whether the call under way takes longer than the limit, or was given up. The first
// time, onStall is called.
func (w *Watch) Stalls() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() || !w.reported && time.Since(w.began) < w.limit {
		return false
	}
	w.report()
	return true
}

// GiveUp counts the call under way as stalled, though the limit may not be over, for a caller that
// cannot wait longer for it. It does nothing if no call is under way.
func (w *Watch) GiveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.began.IsZero() {
		w.report()
	}
}

// report calls onStall for the call under way, unless it was called for it already. Needs mu.
func (w *Watch) report() {
	if !w.reported {
		w.reported = true
		w.onStall()
	}
}

// since returns when the call under way began; the zero time if none is.
func (w *Watch) since() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began
}

// left returns how much of the limit the call under way has left, negative if it is over; all of it
// if no call is under way.
func (w *Watch) left() time.Duration {
	if began := w.since(); !began.IsZero() {
		return w.limit - time.Since(began)
	}
	return w.limit
}
