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

// NewWatch returns a watch for calls that should take no longer than limit. onStall is
// called when somebody first notices that a call takes longer, and onAnswer when that
// call ends, with the time it took. Both are called with the watch locked and must not
// use it.
func NewWatch(limit time.Duration, onStall func(), onAnswer func(elapsed time.Duration)) *Watch {
	return &Watch{limit: limit, onStall: onStall, onAnswer: onAnswer}
}

// Call makes a call to the disk, and returns its error however long it takes.
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

// end notes that the call has ended, and reports that if its stall was reported.
func (w *Watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reported {
		w.reported = false
		w.onAnswer(time.Since(w.began))
	}
	w.began = time.Time{}
}

// Stalls says whether the call under way takes longer than the limit, and reports it the
// first time.
func (w *Watch) Stalls() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() || !w.reported && time.Since(w.began) < w.limit {
		return false
	}
	w.report()
	return true
}

// GiveUp reports the call under way as stalled for a caller that waited for it as long
// as it may. It does nothing if no call is under way.
func (w *Watch) GiveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.began.IsZero() {
		w.report()
	}
}

// report needs mu.
func (w *Watch) report() {
	if !w.reported {
		w.reported = true
		w.onStall()
	}
}

// since is when the call under way began; zero: none is.
func (w *Watch) since() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began
}

// left is how much of the limit the call under way has left; all of it without a call.
func (w *Watch) left() time.Duration {
	if began := w.since(); !began.IsZero() {
		return w.limit - time.Since(began)
	}
	return w.limit
}
