package spool

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"kusto-agent/internal/record"
)

// lane is what the spool has to give to a route. Guarded by Spool.mu.
//
// A payload is fresh until Next gives it out for the first time. From then on it has an entry in
// Spool.out, a taken, until it ends: it is given while somebody has it, and back when it was returned.
// It ends once, with a bit in segment.ended. A payload that a compaction has copied has a bit in
// segment.moved of the old segment, and only the copy counts.
type lane struct {
	shares []*share // in the order of their places; those before the first that waits are gone
	fresh  int      // payloads never given out
	back   queue    // payloads that were returned
}

// taken is a payload that Next has given out and that has not ended; it may have been returned since.
type taken struct {
	id record.BatchID // that of its slot; it stays the same and needs no lock
	slot
	sh      *share
	payload *record.Payload // as it was given out; nil: it was not read yet
	given   bool            // and not returned
	until   time.Time       // of one that was returned: not to be given out before; zero: at any time
}

// queue are returned payloads in order: first those that may be given out, then the others, by when
// they may be.
type queue []*taken

// order compares two returned payloads by their places in a queue. Those that may be given out come in
// the order of their segments, and within a segment in that in which they were written.
func order(a, b *taken) int {
	g, h := a.sh.g, b.sh.g
	return cmp.Or(a.until.Compare(b.until), cmp.Compare(g.place, h.place), cmp.Compare(g.seq, h.seq), cmp.Compare(a.ord, b.ord))
}

func (q *queue) put(t *taken) {
	i, _ := slices.BinarySearchFunc(*q, t, order)
	*q = slices.Insert(*q, i, t)
}

// take removes t, if it is in the queue.
func (q *queue) take(t *taken) {
	i, found := slices.BinarySearchFunc(*q, t, order)
	switch {
	case found && i == 0: // at no cost, since most are taken from there
		(*q)[0] = nil
		*q = (*q)[1:]
	case found:
		*q = slices.Delete(*q, i, i+1)
	}
}

// top returns the payload at the head of the queue, which stays in it; nil if the queue is empty.
func (q queue) top() *taken {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

// lane returns the lane of a route: all payloads that the spool has to give out for it. It makes
// an empty lane if there is none. Needs mu.
func (s *Spool) lane(to route) *lane {
	l := s.lanes[to]
	if l == nil {
		l = &lane{}
		s.lanes[to] = l
	}
	return l
}

// list appends a share (the payloads of a route in one segment) to the lane of its route, unless
// it is there already. Needs mu.
func (s *Spool) list(sh *share) {
	l := s.lane(sh.to)
	if !sh.listed {
		sh.listed = true
		l.shares = append(l.shares, sh)
	}
}

// head returns the share (the payloads of the route in one segment) with the oldest payload that
// was never given out; nil if there is none. It removes shares without such payloads that come
// before it. Needs mu.
func (l *lane) head() *share {
	for len(l.shares) > 0 && l.shares[0].waiting == 0 {
		l.shares[0].drop()
		l.shares = l.shares[1:]
	}
	if len(l.shares) == 0 {
		return nil
	}
	return l.shares[0]
}

// drop marks a share as no longer in its lane, and frees the memory of its slots (index entries)
// if the index on disk has them too. Needs mu.
func (sh *share) drop() {
	if sh.listed = false; sh.g.index != nil {
		sh.slots, sh.from = nil, 0
	}
}

// wake has the returned payloads that may be tried again at the time now wait as those that may be
// given out at any time. Needs mu.
func (l *lane) wake(now time.Time) {
	from := sort.Search(len(l.back), func(i int) bool { return !l.back[i].until.IsZero() })
	due := from
	for ; due < len(l.back) && !l.back[due].until.After(now); due++ {
		l.back[due].until = time.Time{}
	}
	if due > from {
		slices.SortFunc(l.back[:due], order)
	}
}

// unback removes t, a payload that was given out and then returned, from its lane (what the spool has
// to give to a route). Needs mu.
func (s *Spool) unback(t *taken) {
	l := s.lane(t.sh.to)
	l.back.take(t)
	s.tidyLane(t.sh.to, l)
}

// tidyLane deletes l, the lane of the route to (what the spool has to give out for it), if it has no
// payloads. Needs mu.
func (s *Spool) tidyLane(to route, l *lane) {
	if l.fresh == 0 && len(l.back) == 0 {
		l.head() // only to remove the shares of the lane, all of which are empty
		delete(s.lanes, to)
	}
}

// pick gives out the oldest payload of a route: one that was returned, or the next one that was
// never given out. t is nil if there is none now. If the index entries of the next payloads are
// not in memory, t is nil and ahead says which they are; the caller calls load with it, and pick again.
// Needs mu.
func (s *Spool) pick(to route) (t *taken, ahead page) {
	l := s.lanes[to]
	if l == nil {
		return nil, ahead
	}
	l.wake(time.Now())
	for {
		sh, back := l.head(), l.back.top()
		switch {
		case back != nil && back.until.IsZero() && (sh == nil || back.sh.g.place <= sh.g.place):
			s.unback(back)
			s.setGiven(back, true)
			return back, ahead
		case sh == nil:
			return nil, ahead
		}
		e := sh.peek()
		if e == nil {
			return nil, s.page(sh)
		}
		if sh.next++; sh.g.ended.has(e.ord) || s.isOut(sh.g, e) { // it ended, or was given out, out of turn
			continue
		}
		return s.give(sh, e, nil), ahead
	}
}

// peek returns the index entry of the next payload of the share (the payloads of a route in one
// segment) to be given out; nil if that entry is not in memory. Needs mu.
func (sh *share) peek() *slot {
	if i := sh.next - sh.from; i >= 0 && i < len(sh.slots) {
		return &sh.slots[i]
	}
	return nil
}

// give marks a payload (with the index entry e, in the share sh) as given out for the first time:
// from now on the caller of Next has it. p is its content, nil if it is not read yet. If another
// copy of the payload was given out before, that copy ends, and the new one replaces it. Needs mu.
func (s *Spool) give(sh *share, e *slot, p *record.Payload) *taken {
	if old := s.out[e.id]; old != nil {
		s.endOut(old)
	}
	t := &taken{id: e.id, slot: *e, sh: sh, payload: p}
	s.out[e.id] = t
	s.setGiven(t, true)
	sh.waiting--
	l := s.lane(sh.to)
	l.fresh--
	s.tidyLane(sh.to, l)
	return t
}

// setGiven marks whether the caller of Next has a payload, and keeps the counts of such
// payloads. Needs mu.
func (s *Spool) setGiven(t *taken, given bool) {
	n := -1
	if given {
		n = 1
	}
	t.given = given
	t.sh.g.given += n
}

// isOut reports whether the payload of index entry e in segment g was given out and has not ended;
// it may have been returned since. It is false if another copy of it was given out. Needs mu.
func (s *Spool) isOut(g *segment, e *slot) bool {
	t := s.out[e.id]
	return t != nil && t.sh.g == g && t.ord == e.ord
}

// endOut ends a payload that was given out at some time, also if it was returned since. It does
// nothing if a newer copy has replaced this one. Needs mu.
func (s *Spool) endOut(t *taken) {
	if s.out[t.id] != t {
		return
	}
	if t.given {
		s.setGiven(t, false)
	} else {
		s.unback(t)
	}
	delete(s.out, t.id)
	s.end(t.sh, &t.slot)
}

// endFresh ends a payload that was never given out, and subtracts it from the counts of its lane. e
// is its index entry, sh its share (the payloads of its route in that segment). Needs mu.
func (s *Spool) endFresh(sh *share, e *slot) {
	sh.waiting--
	l := s.lane(sh.to)
	l.fresh--
	s.tidyLane(sh.to, l)
	s.end(sh, e)
}

// end does what every end of a payload needs: it corrects the counts of the segment and of the
// inputs, and notes the time for compaction. It wakes the writer if the segment can now be removed or
// compacted. e is the payload's index entry, in the share sh. Needs mu.
func (s *Spool) end(sh *share, e *slot) {
	g := sh.g
	was := g.isSparse()
	g.end(sh, e)
	g.calm = time.Now()
	delete(s.attempts, e.id)
	if g.live == 0 || !was && g.isSparse() {
		s.disk.Wake()
	}
}

// outOf returns the payloads of a segment that were given out and have not ended, including those
// that were returned. Needs mu.
func (s *Spool) outOf(g *segment) (out []*taken) {
	for _, t := range s.out {
		if t.sh.g == g {
			out = append(out, t)
		}
	}
	return out
}
