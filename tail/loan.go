package tail

import (
	"bytes"
	"slices"
	"time"

	"kusto-agent/internal/record"
)

// The log of a container can be rotated between two parts of a message: the first
// are at the end of the old file, the rest is where the next file of the same path
// begins. The reader of the old file lends its open message to that of the new one,
// its heir, which reads it as if it were the beginning of its own file. Until the
// heir takes it, nothing is moved: the old reader stands before it, and goes on by
// itself if it is given back, if its file grows, or if the heir is let go.

// loan is the open message at the end of a file. What is no pointer is never
// changed but for state, which Tailer.mu guards.
type loan struct {
	from, to *reader
	base     *loan // what from has borrowed itself: its message began in yet another file
	data     []byte
	extent   record.Extent // of what lies in the file of from: the end of data
	held     time.Time     // since when the end of the message is waited for
	state    loanState
	apart    *apart // of one that is given back; nil: it is sent as far as it goes
}

type loanState uint8

const (
	lent     loanState = iota
	taken              // it was handed over, with what follows it
	returned           // what follows cannot be joined to it
	void               // it is not to be used any more
)

// apart is of a message that is too long with what is in the next file: the lines
// of both files go to quarantine.
type apart struct {
	stream  []byte
	first   int // bytes of its first line
	message string
}

// endLoans is for a reader whose file holds no more what it did. The caller holds
// mu.
func (t *Tailer) endLoans(r *reader) {
	if r.lent != nil {
		t.cancel(r.lent)
	}
	if r.carry != nil {
		t.giveBack(r.carry, nil)
	}
}

// cancel takes a loan back from an heir, which may ask again. The caller holds mu.
func (t *Tailer) cancel(l *loan) {
	if l.from.lent == l {
		l.from.lent = nil
	}
	if l.state != lent {
		return
	}
	l.state = void
	heir := l.to
	heir.carry, heir.seeks = nil, max(t.scans, 1)
	if next := heir.lent; next != nil && next.base == l {
		t.cancel(next)
	}
	t.readyLocked(heir)
}

// giveBack ends a loan that nothing can be joined to. The caller holds mu.
func (t *Tailer) giveBack(l *loan, a *apart) {
	if l.state != lent {
		return
	}
	l.state, l.apart = returned, a
	l.to.carry = nil
	t.readyLocked(l.from)
}

// take ends a loan that is being handed over. It is false where it was cancelled.
func (t *Tailer) take(l *loan) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.state != lent {
		return false
	}
	for ; l != nil; l = l.base {
		l.state, l.to.carry = taken, nil
		l.from.shown.offset, l.from.shown.mark = l.extent.End, l.extent.Mark
		t.readyLocked(l.from)
	}
	return true
}

// awaitsHeir reports whether the open message at the end of a file is not to be
// sent as it is: it is lent or, in a run --once, may come to be. The caller holds
// mu.
func (t *Tailer) awaitsHeir(r *reader) bool {
	if r.lent != nil || !t.o.Once || r.home == "" || !r.hasLeft() {
		return r.lent != nil
	}
	return t.scans == 0 || slices.ContainsFunc(r.in.homes[r.home], func(h *reader) bool { return h.seeks > 0 && r.in.predecessor(h) == r })
}

func (t *Tailer) isLent(r *reader) bool {
	if !r.in.carries() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.awaitsHeir(r)
}

// reviewLoans acts on what became of what a reader has lent and borrowed.
func (w *worker) reviewLoans(r *reader) {
	if !r.in.carries() {
		return
	}
	t := w.t
	t.mu.Lock()
	defer t.mu.Unlock()
	r.undecided, r.knows = false, r.heir
	if l := r.lent; l != nil {
		switch {
		case l.state == taken:
			r.lent = nil
			r.advance(l.extent.End, l.extent.Mark)
		case l.state == returned:
			r.lent = nil
			r.stuck, r.settled, r.held = 0, 0, time.Now().Add(-r.in.RotateQuiet.D()) // it was waited for
			if l.apart != nil {
				r.passApart(l.apart)
			}
		case r.size > l.extent.End || r.rest:
			t.cancel(l)
			r.stuck = 0
		}
	}
	if r.carry == r.carrying {
		return
	}
	r.stuck, r.settled = 0, 0
	if r.carrying = r.carry; r.carry != nil {
		r.held = r.carry.held
	} else {
		r.held = time.Time{}
	}
}

// lends has the heir of a reader that is at its end take over the message that is
// open there. It reports whether that is waited for.
func (w *worker) lends(r *reader) bool {
	t := w.t
	if !r.in.carries() {
		return false
	}
	t.mu.Lock()
	heir, awaits, left := r.heir, t.awaitsHeir(r), r.hasLeft() && (t.o.Once || t.scans >= r.sure)
	soon := min(shortAnswer, r.in.RotateQuiet.D()/4)
	grows := !t.o.Once && time.Since(r.asked) < soon && time.Since(r.grown) < soon
	t.mu.Unlock()
	held := r.offset < r.size && r.stuck == r.size && r.long.at == 0
	switch {
	case heir == nil || awaits && !t.o.Once:
		return awaits
	case grows || held && !left && !t.o.Once: // there may be a file between the two
		r.undecided = true
		return false
	}
	var l *loan
	if held && left {
		l, _ = w.loanOf(r) // what cannot be read, the next read tells
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case l != nil && r.heir == heir && r.carry == r.carrying:
		l.to, r.lent, heir.carry = heir, l, l
	case !awaits:
		return false
	default:
		t.release(r)
		t.readyLocked(r)
	}
	return true
}

// loanOf makes a loan of what is at the end of a file; nil: those are no whole
// lines.
func (w *worker) loanOf(r *reader) (*loan, error) {
	l := &loan{from: r, base: r.carrying, held: r.held}
	if l.base != nil {
		l.data = bytes.Clone(l.base.data)
	}
	have := len(l.data)
	n := r.size - r.offset
	if int64(have)+n > int64(r.in.options().MaxRecord) {
		return nil, nil
	}
	l.data = append(l.data, make([]byte, n)...)
	if _, err := readFull(r.src(), l.data[have:], r.offset); err != nil {
		return nil, err
	}
	if l.data[len(l.data)-1] != '\n' {
		return nil, nil
	}
	mark, err := markAt(r.src(), r.size)
	if err != nil {
		return nil, err
	}
	l.extent = record.Extent{File: r.file, Span: record.Span{Start: r.offset, End: r.size}, Mark: mark}
	return l, w.register(r) // whoever makes it again looks for the file
}

// before are the extents of a loan, the first of the message first.
func (l *loan) before() (all []record.Extent) {
	if l.base != nil {
		all = l.base.before()
	}
	return append(all, l.extent)
}
