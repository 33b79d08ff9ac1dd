// Package diskwriter promises that nobody waits longer than Options.Stall for a disk that
// fails or does not answer, and that its failure is reported once when it begins and once
// when it ends.
//
// The journal, the spool and quarantine write through it. Each keeps its own queue and its
// own form of files; the Writer holds what they have in common: the goroutine that writes,
// the time that the call under way takes, the last error, when the disk is tried again
// after an error, and a Close that ends although the disk hangs.
//
// A store has one of two forms. With Run, a goroutine of the store takes what waits in the
// store's queue, many entries at a time, and the Writer wakes it. With Do, each caller's
// write runs after the write before it, and the caller leaves when its time is up.
package diskwriter

import (
	"context"
	"sync"
	"time"

	"kusto-agent/internal/record"
)

// Options say how long a Writer waits, and who hears of trouble.
type Options struct {
	// Stall is how long a caller waits for the disk.
	Stall time.Duration
	// FirstRetry and LastRetry bound when the disk is tried again after an error: after
	// the first error FirstRetry, then twice as long after each error in a row, at most
	// LastRetry.
	FirstRetry, LastRetry time.Duration
	// OnFail is called with the error of the first write that fails, and with
	// record.ErrStalled when a call to the disk takes longer than Stall; OnRecover when
	// writes succeed again, with the time since, or when that call has ended and the last
	// write had not failed. Neither may use the Writer.
	OnFail    func(err error)
	OnRecover func(elapsed time.Duration)
	// IsNews says whether an error after another one is reported too. Without it no error
	// is, until a write succeeded.
	IsNews func(was, err error) bool
}

// Writer is the part of a store that waits for its disk. It is safe for concurrent use.
type Writer struct {
	*Watch // of the calls of the store's goroutine, or of Do

	o    Options
	wake chan struct{} // one token: the store has something to write
	turn chan struct{} // one token: who has it may write; for Do
	done chan struct{} // closed when Run has returned

	mu      sync.Mutex
	err     error         // of the last write; nil: it succeeded
	failing time.Time     // since when writes fail; zero: they do not
	retry   time.Time     // when to try again; zero: nothing is to be tried
	backoff time.Duration // how long the last wait for that was
	closed  bool
	last    error // of the last turn of Run
}

// New returns a Writer, whose disk counts as good. A store that uses Run starts it as a goroutine of
// its own.
func New(o Options) *Writer {
	w := &Writer{o: o, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1), done: make(chan struct{})}
	w.Watch = NewWatch(o.Stall, func() { o.OnFail(record.ErrStalled) }, func(elapsed time.Duration) {
		if w.Err() == nil { // otherwise Report calls OnRecover, when a write succeeds
			o.OnRecover(elapsed)
		}
	})
	w.turn <- struct{}{}
	return w
}

// Run calls turn after each Wake and at the time that due returns, until turn returns
// true. due is asked after each turn; zero: there is nothing to do before the next Wake.
// turn has to return true once it finds the Writer closed: its error is then that of Close.
func (w *Writer) Run(turn func() (last bool, err error), due func() time.Time) {
	defer close(w.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if at := due(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-w.wake:
		case <-timer.C:
		}
		if last, err := turn(); last {
			w.mu.Lock()
			w.last = err
			w.mu.Unlock()
			return
		}
	}
}

// Wake has Run call turn soon, once for all calls of Wake before that. It does not block.
func (w *Writer) Wake() {
	select {
	case w.wake <- struct{}{}:
	default: // there is a token: the next turn sees what was queued
	}
}

// Closed reports whether Close was called. A store calls it while it holds the lock of its queue:
// in turn, before it empties the queue, and before it adds an entry to the queue. Then the last turn
// finds all entries.
func (w *Writer) Closed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// Close has Run make its last turn, and returns the error of that turn. It waits for at most
// Stall; the time that calls to the disk under way have taken so far counts, those of the Writer
// and of the watches in beside. After that it returns record.ErrStalled. A second Close does nothing.
func (w *Writer) Close(beside ...*Watch) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	wait := w.left()
	for _, b := range beside {
		wait = min(wait, b.left())
	}
	w.Wake()
	if _, ok := Wait(w.done, wait); !ok {
		return record.ErrStalled
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Wait receives a value from c and returns it with true; a closed c gives the zero value. It returns
// false if nothing came for as long as limit. A value that is there counts also when limit is over.
func Wait[T any](c <-chan T, limit time.Duration) (got T, ok bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case got = <-c:
		return got, true
	case <-timer.C:
	}
	select { // if both were there, the first select took either
	case got = <-c:
		return got, true
	default:
		return got, false
	}
}

// Report notes how a write ended, nil for success. After an error it sets the time of the next try.
// It calls OnFail with the first error, and with a later one that IsNews accepts, and OnRecover with
// the first success after an error.
func (w *Writer) Report(err error) {
	w.mu.Lock()
	was, failing := w.err, w.failing
	if w.err = err; err == nil {
		w.failing, w.retry, w.backoff = time.Time{}, time.Time{}, 0
	} else {
		if was == nil {
			w.failing = time.Now()
		}
		w.backoff = min(max(2*w.backoff, w.o.FirstRetry), w.o.LastRetry)
		w.retry = time.Now().Add(w.backoff)
	}
	w.mu.Unlock()
	switch {
	case err == nil && was != nil:
		w.o.OnRecover(time.Since(failing))
	case err != nil && (was == nil || w.o.IsNews != nil && w.o.IsNews(was, err)):
		w.o.OnFail(err)
	}
}

// Err returns the error of the last write that was reported; nil: it succeeded.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Trouble returns why nothing can be written now, and since when: record.ErrStalled if the call to
// the disk under way takes too long, else the error of the last write. nil: no trouble is known.
func (w *Writer) Trouble() (since time.Time, err error) {
	if began := w.since(); w.Stalls() {
		return began, record.ErrStalled
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failing, w.err
}

// RetryAt returns when to try again after an error; the zero time: nothing is to be tried.
func (w *Writer) RetryAt() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retry
}

// RetryBy sets the time of the next try to at, unless one is due earlier. It need not follow an error.
func (w *Writer) RetryBy(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retry.IsZero() || at.Before(w.retry) {
		w.retry = at
	}
}

// TakeRetry reports whether the time of the next try has come. If so, it clears that time, so that it
// returns true only once after an error.
func (w *Writer) TakeRetry() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retry.IsZero() || time.Now().Before(w.retry) {
		return false
	}
	w.retry = time.Time{}
	return true
}

// Take waits until no write of Do is under way, and keeps others from writing until the caller calls
// Give. The error is that of ctx, if ctx ends first; then there is nothing to give.
func (w *Writer) Take(ctx context.Context) error {
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Give returns the turn of Take.
func (w *Writer) Give() { w.turn <- struct{}{} }

// Do waits until the writes before it have ended, runs write on a goroutine of its own, and then
// calls settle there with the error of write. No other write runs meanwhile. Do returns that error,
// or record.ErrStalled after limit: then a write that has begun goes on without its caller, and one
// that has not is never made.
func (w *Writer) Do(limit time.Duration, write func() error, settle func(error)) error {
	began := time.Now()
	if _, ok := Wait(w.turn, limit); !ok {
		return record.ErrStalled
	}
	w.begin()
	done := make(chan error, 1)
	go func() { // started here, ends when the disk answers; waited for until limit
		err := write()
		w.end()
		settle(err)
		w.Give()
		done <- err
	}()
	if err, ok := Wait(done, limit-time.Since(began)); ok {
		return err
	}
	return record.ErrStalled
}
