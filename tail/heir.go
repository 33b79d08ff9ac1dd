package tail

import (
	"regexp"
	"slices"
	"time"

	"kusto-agent/internal/format"
)

// The heir of a reader is that of the file that came to the same path after its own. It
// begins to read when the older one has come to its end, so that it knows whether a
// message is open there. Which file that is, is known when a scan that saw both is
// over, and, before anything is lent, another one.

// joint is what a reader has to do with those of the files of the same path. Guarded
// by Tailer.mu, but for what ends it.
type joint struct {
	home  string    // the path where its file was written; empty: it is nobody's heir
	seeks uint64    // >0: it waits for that scan, and then for the file before it
	asks  *reader   // whom it waits for
	heir  *reader   // who waits for this one to come to its end
	asked time.Time // since then
	sure  uint64    // the scan that has found all files between the two
	lent  *loan     // by this one
	carry *loan     // to this one

	// Owned by the worker that has its turn.
	carrying  *loan   // carry, as of this turn
	knows     *reader // heir, as of this turn
	undecided bool    // the heir is to wait on
}

// shortAnswer is how long a file that still grows is waited for before its end is
// believed: a runtime may write to the next file first.
const shortAnswer = 250 * time.Millisecond

// carries reports whether a message may be in two files.
func (in *input) carries() bool {
	return in.parse.Container() && in.encoding == format.UTF8
}

var rotatedName = regexp.MustCompile(`\.[0-9][0-9-]*$`)

// homeOf is the path where a file was written that was first seen at a path, as far
// as the name tells: runtimes put a number or a time behind it.
func homeOf(path string) string { return rotatedName.ReplaceAllString(path, "") }

// settleAt notes whose path a file has or had. The caller holds mu.
func (t *Tailer) settleAt(r *reader) {
	if !r.in.carries() {
		return
	}
	r.home = homeOf(r.info.First)
	r.in.homes[r.home] = append(r.in.homes[r.home], r)
	if r.offset == 0 {
		r.seeks = max(t.scanNo, 1)
	}
}

// unsettle ends what a reader has to do with others. The caller holds mu.
func (t *Tailer) unsettle(r *reader) {
	if r.home == "" {
		return
	}
	left := slices.DeleteFunc(r.in.homes[r.home], func(o *reader) bool { return o == r })
	if len(left) == 0 {
		delete(r.in.homes, r.home)
	} else {
		r.in.homes[r.home] = left
	}
	t.endLoans(r)
	if h := r.heir; h != nil {
		r.heir = nil
		t.readyLocked(h)
	}
}

// wait is what a turn leads to that waits for another reader. It is woken; and it
// asks again by itself, but for a run --once.
func (t *Tailer) wait() after {
	if t.o.Once {
		return parked
	}
	return idle
}

// seek has a reader that begins to read wait until the file before it has come to
// its end.
func (t *Tailer) seek(r *reader) (wait bool) {
	if !r.in.carries() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.carry != r.carrying:
		return true // it was lent since this turn began, and the next one has it
	case r.seeks == 0:
		return false
	case r.offset > 0 || r.rest || r.size == 0 && t.o.Once:
	case r.size == 0:
		return false // it may come to hold something
	case t.scans < r.seeks:
		return true // what is before it may not be known yet
	default:
		if o := r.in.predecessor(r); o != nil {
			t.ask(o, r)
			return true
		}
	}
	t.unask(r)
	r.seeks = 0
	t.readyKin(r)
	return false
}

// ask has a reader tell its heir when it comes to its end. The caller holds mu.
func (t *Tailer) ask(o, heir *reader) {
	if heir.asks != o {
		t.unask(heir) // another was found meanwhile
	}
	if heir.asks = o; o.heir != heir {
		o.heir, o.asked, o.sure = heir, time.Now(), t.scanNo+1
		t.rescanSoon()
	}
	t.readyLocked(o)
}

// unask ends what ask began. The caller holds mu.
func (t *Tailer) unask(heir *reader) {
	o := heir.asks
	if heir.asks = nil; o == nil {
		return
	}
	if o.heir == heir {
		o.heir = nil
	}
	if o.lent != nil && o.lent.to == heir {
		t.cancel(o.lent)
	}
}

// predecessor is the reader of the file that was where a file is before it. The
// caller holds Tailer.mu.
func (in *input) predecessor(r *reader) (of *reader) {
	for i, o := range in.homes[r.home] {
		if o != r && isOlder(o, r, i < slices.Index(in.homes[r.home], r)) && (of == nil || isOlder(of, o, true)) {
			of = o
		}
	}
	if of == nil || of.shown.offset == of.shown.size {
		return of
	}
	for _, k := range in.known { // one that was read to its end may lie between
		if b := k.info.Birth; k.reader == nil && of.info.Birth < b && b < r.info.Birth && homeOf(k.info.First) == r.home {
			return nil
		}
	}
	return of
}

// isOlder reports whether a file was made before another. Where clocks do not tell,
// it is the one that was moved away, or that was found first. The caller holds
// Tailer.mu.
func isOlder(a, b *reader, found bool) bool {
	switch left := a.hasLeft(); {
	case a.info.Birth != b.info.Birth:
		return a.info.Birth < b.info.Birth
	case left != b.hasLeft():
		return left
	}
	return found
}

// readyKin gives a turn to readers of a run --once that wait for what one decides.
// The caller holds mu.
func (t *Tailer) readyKin(r *reader) {
	if !t.o.Once {
		return
	}
	for _, o := range r.in.homes[r.home] {
		if o != r {
			t.readyLocked(o)
		}
	}
}

// readySeekers gives a turn to readers that wait for the end of a scan. The caller
// holds mu.
func (t *Tailer) readySeekers() {
	for _, in := range t.inputs {
		if !in.carries() {
			continue
		}
		for _, r := range in.readers {
			if r.seeks > 0 || t.o.Once {
				t.readyLocked(r)
			}
		}
	}
}

// hasLeft reports whether another file can be where this one was written. The
// caller holds Tailer.mu.
func (r *reader) hasLeft() bool { return r.gone || r.path != r.home }

// answer tells the heir of a reader that this one has come to its end. The caller
// holds mu.
func (t *Tailer) answer(r *reader, next after) {
	done := r.lent != nil || next == idle && !r.undecided || next == parked && r.offset == r.size
	if done && r.heir == r.knows { // it was asked before this turn
		t.release(r)
	}
}

// release has the heir of a reader go on. The caller holds mu.
func (t *Tailer) release(r *reader) {
	if h := r.heir; h != nil {
		r.heir, h.seeks = nil, 0
		t.readyLocked(h)
	}
}
