package spool

import (
	"cmp"
	"iter"
	"slices"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// Held goes through the payloads that wait in the spool, at a start. It calls fn with each
// payload that has not ended and was not handed to the sender, oldest first in each segment.
//
//   - fn gets the payload without its Body, and owns it. sound is false if the body does not
//     match its checksum: its write was interrupted, so nobody relied on it, or the disk lost
//     it. fn returns false if the payload is not to be sent from the spool, because the journal
//     knows that it has ended.
//   - ids limits what fn gets; nil means all payloads. Otherwise, in a segment whose index the
//     journal vouches for (Options.Vouches), fn gets only the payloads with these ids, those
//     that are not sound, those that replace another one, and perhaps some more. The others keep
//     waiting.
//   - over, if it is not nil, is asked before fn about each payload that replaces no other one.
//     If it returns true, the payload has ended, and fn does not get it.
//   - passed counts, by input, the records of payloads that keep waiting and that fn did not
//     get.
//   - lost counts, by input, the records of payloads that cannot be read, except those that
//     replace another one.
//   - err is a failed read. Damage is no error: a payload that is in an index and cannot be read
//     is added to the Recovery that Open returned. If an index cannot be read, Next reports
//     later what is gone.
//
// Held reads from the disk what it needs and keeps none of it, so that a full spool costs no
// memory.
func (s *Spool) Held(ids iter.Seq[record.BatchID], over func(id record.BatchID) bool, fn func(p *record.Payload, sound bool) bool) (passed, lost map[string]int, err error) {
	w := walk{s: s, all: ids == nil, over: over, fn: fn, passed: map[string]int{}, lost: map[string]int{}}
	if ids != nil {
		w.asked = bloomOf(ids)
	}
	err = s.each(w.segment)
	return w.passed, w.lost, err
}

// Which calls fn with each of the ids whose payload waits in the spool and is not given out, and
// perhaps with the ids of some other waiting payloads. It reads only indexes. The error is one of
// reading; damage is no error.
func (s *Spool) Which(ids iter.Seq[record.BatchID], fn func(id record.BatchID)) error {
	asked := bloomOf(ids)
	return s.each(func(g *segment) error {
		found, _, err := s.match(g, asked)
		if err != nil {
			return passable(err) // Next reports payloads that cannot be read when it comes to them
		}
		for _, at := range found {
			if s.waits(at) {
				fn(at.id)
			}
		}
		return nil
	})
}

// each calls fn with every segment until fn returns an error, which it returns. Until it returns, none
// of these is removed and no compaction moves a payload to a segment that fn may have passed. A segment
// of which nothing waits any more is left out: it may be under removal, with its index closed.
func (s *Spool) each(fn func(g *segment) error) (err error) {
	s.mu.Lock()
	s.walks++
	segments := slices.DeleteFunc(slices.Clone(s.segments), func(g *segment) bool { return g.live == 0 })
	for _, g := range segments {
		g.pins++
	}
	s.mu.Unlock()
	for _, g := range segments {
		if err == nil {
			err = fn(g)
		}
		s.unpin(g)
	}
	s.mu.Lock()
	s.walks--
	s.mu.Unlock()
	s.disk.Wake()
	return err
}

// walk is one call of Held: its arguments, and the counts that Held returns.
type walk struct {
	s      *Spool
	all    bool
	asked  *bloom // nil: nobody
	over   func(id record.BatchID) bool
	fn     func(p *record.Payload, sound bool) bool
	passed map[string]int
	lost   map[string]int
}

// sends asks the caller of Held whether a payload is to be sent from the spool.
func (w *walk) sends(e *slot, p *record.Payload) bool { return w.fn(p, !e.isUnsound()) }

// isOver asks the caller of Held, by the id alone, whether a payload is not to be sent. It is false
// for a payload that replaces another.
func (w *walk) isOver(e *slot) bool { return w.over != nil && e.size&part == 0 && w.over(e.id) }

// segment passes the payloads of one segment to the walk (a call of Held): from the index alone if
// the journal vouches for it (it knows all payloads of the segment), else from the frames.
func (w *walk) segment(g *segment) error {
	if w.s.isVouched(g) && !w.all {
		known, err := w.few(g)
		if known || err != nil {
			return err
		}
	}
	return w.whole(g)
}

// few handles a segment for whose index the journal vouches (it knows all payloads of the segment).
// It reads only the payloads that the caller of Held asked for, and those that the index marks as
// damaged or as a replacement of another payload; it counts the records of all others as passed.
// known is false if the index cannot be read.
func (w *walk) few(g *segment) (known bool, err error) {
	s := w.s
	s.mu.Lock()
	marked, passed := g.index != nil && g.index.Marked > 0, s.restOf(g)
	s.mu.Unlock()
	if marked || w.asked != nil {
		found, others, err := s.match(g, w.asked)
		if err != nil {
			return false, passable(err)
		}
		if err := w.meet(g, found, passed); err != nil {
			return false, err
		}
		s.setOldest(found, others)
	}
	for input, n := range passed {
		w.passed[input] += n
	}
	return true, nil
}

// meet calls the function of Held with each of the payloads found in segment g that waits. It ends
// those for which it returns false, those that Held's over says have ended, and those that cannot be
// read. It subtracts the records of all of them, whatever the answer, from passed.
func (w *walk) meet(g *segment, found []placed, passed map[string]int) error {
	s := w.s
	var f durable.File
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	for i := range found {
		at := found[i]
		if !s.waits(at) {
			continue
		}
		s.mu.Lock()
		g.counts(&at.slot, func(input string, n int) { passed[input] -= n })
		s.mu.Unlock()
		if w.isOver(&at.slot) {
			s.endWaiting(at)
			continue
		}
		var p *record.Payload
		var err error
		if f == nil {
			f, err = s.o.FS.Open(s.path(g.name), 0)
		}
		if err == nil {
			p, err = readFrame(f, at.offset(), at.length(), at.id, false)
		}
		switch {
		case err != nil && !lasts(err):
			return err
		case err != nil:
			w.missing(at)
		case !w.sends(&at.slot, p):
			s.endWaiting(at)
		}
	}
	return nil
}

// whole calls the function of Held with each payload of a segment that waits, and ends those for which
// it returns false. It also ends those whose frame cannot be found, and adds them to
// the Recovery. In that case the segment does not count as agreed (known to the journal), so that the
// next start reads it again. A permanent read error is no error here: Next reports these payloads.
func (w *walk) whole(g *segment) error {
	s := w.s
	all, err := s.all(g)
	if err != nil {
		return passable(err) // Next reports payloads that cannot be read when it comes to them
	}
	var met bits
	err = s.scanSlots(g, all, func(at placed, p *record.Payload) {
		met.set(at.ord, g.n)
		if s.waits(at) && (w.isOver(&at.slot) || !w.sends(&at.slot, own(p))) {
			s.endWaiting(at)
		}
	})
	if err := passable(err); err != nil {
		return err
	}
	agreed := true
	for i := range all {
		if at := all[i]; !met.has(at.ord) && s.waits(at) {
			w.missing(at)
			agreed = false // the journal may not know it, and a later start may be able to read it
		}
	}
	s.refresh(all)
	s.mu.Lock()
	g.agreed = agreed
	s.mu.Unlock()
	return nil
}

// missing ends a payload whose frame cannot be read, if it still waits, and adds what its index entry
// says to the Recovery. Its records count as lost, unless the payload replaces another.
func (w *walk) missing(at placed) {
	s := w.s
	if !s.endWaiting(at) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at.sh.g.damaged = true
	s.rec.miss(at.sh, &at.slot)
	if at.size&part == 0 {
		at.sh.g.counts(&at.slot, func(input string, n int) { w.lost[input] += n })
	}
}

// isVouched reports whether the journal vouches for the index of the segment: Options.Vouches accepts
// its token, which means that the journal still knows all payloads of the segment. The answer true
// is kept.
func (s *Spool) isVouched(g *segment) bool {
	s.mu.Lock()
	token, known := g.token, g.vouched
	s.mu.Unlock()
	if known || token == ([24]byte{}) || s.o.Vouches == nil || !s.o.Vouches(token) {
		return known
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.vouched, g.agreed = true, true
	return true
}

// restOf counts, by input, the records of the payloads in a segment that have not ended, without
// those that the caller of Next has. Needs mu.
func (s *Spool) restOf(g *segment) map[string]int {
	n := map[string]int{}
	for _, sh := range g.order {
		for _, c := range sh.sums {
			n[c.input] += c.records
		}
	}
	if g.given > 0 {
		for _, t := range s.outOf(g) {
			if t.given {
				g.counts(&t.slot, func(input string, records int) { n[input] -= records })
			}
		}
	}
	return n
}

// match reads the index of a segment. found has the entries that are marked (damaged, or a
// replacement) or whose id may be in asked, in the order of the frames, including those of
// payloads that have ended. others has, for each route of the segment, when the oldest of the
// other payloads that have not ended came. The error is errIndex (not usable) or one of the disk.
func (s *Spool) match(g *segment, asked *bloom) (found []placed, others map[*share]int64, err error) {
	s.mu.Lock()
	ended, moved := slices.Clone(g.ended), slices.Clone(g.moved)
	s.mu.Unlock()
	others = map[*share]int64{}
	last, oldest := (*share)(nil), int64(0) // of the entry before, to save look-ups in the map
	err = s.eachSlot(g, func(sh *share, e *slot) {
		switch {
		case e.isMarked() || asked != nil && asked.has(&e.id):
			found = append(found, placed{sh, *e})
		case ended.has(e.ord) || moved.has(e.ord):
		case sh != last || g.when(e) < oldest:
			last, oldest = sh, g.when(e)
			if was, known := others[sh]; known {
				oldest = min(was, oldest)
			}
			others[sh] = oldest
		}
	})
	slices.SortFunc(found, func(a, b placed) int { return cmp.Compare(a.ord, b.ord) })
	return found, others, err
}

// refresh updates the time of the oldest waiting payload of each share (the payloads of a route in
// the segment). all are the index entries of the whole segment.
func (s *Spool) refresh(all []placed) { s.setOldest(all, map[*share]int64{}) }

// setOldest stores when the oldest payload of each share (the payloads of a route in one segment)
// came: the earlier of what oldest has for the share and of the payloads in some that still wait. It
// changes oldest.
func (s *Spool) setOldest(some []placed, oldest map[*share]int64) {
	for i := range some {
		if at := &some[i]; s.waits(*at) {
			if was, known := oldest[at.sh]; !known || at.sh.g.when(&at.slot) < was {
				oldest[at.sh] = at.sh.g.when(&at.slot)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for sh, at := range oldest {
		sh.oldest = at
	}
}

// waits reports whether a payload is still to be given out by Next: it has not ended, nobody has it,
// and it was not copied to another segment. One that was returned waits again.
func (s *Spool) waits(at placed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := at.sh.g
	if s.isOut(g, &at.slot) {
		return !s.out[at.id].given
	}
	return !g.lost && !g.ended.has(at.ord) && !g.moved.has(at.ord)
}

// unpin ends a pin: the segment's files can be removed again once nobody else has pinned it. It wakes
// the writer if all its payloads have ended.
func (s *Spool) unpin(g *segment) {
	s.mu.Lock()
	g.pins--
	dead := g.dead()
	s.mu.Unlock()
	if dead {
		s.disk.Wake()
	}
}
