package spool

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"kusto-agent/internal/durable"
)

// settle is how long nothing of a segment must have ended before its rest is
// copied: a route that is being sent empties its segments by itself.
const settle = 10 * time.Second

// isSparse reports whether compaction is worthwhile: the segment is not being written, nobody reads
// it, it can be read, and less than half of its bytes are of payloads that have not ended. Needs the
// spool's mu.
func (g *segment) isSparse() bool {
	return !g.open && !g.stuck && !g.lost && g.live > 0 && g.pins == 0 && 2*g.bytes < g.size
}

// compactDue returns when the next segment is to be compacted; zero if none is. Needs mu.
func (s *Spool) compactDue() (due time.Time) {
	for _, g := range s.segments {
		if at := g.calm.Add(settle); g.isSparse() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	return due
}

// move is one payload that a compaction has copied: where it was and where it is now.
type move struct {
	from placed
	sh   *share // where to
	slot slot
}

// compact copies the waiting payloads of neighbouring segments that are mostly empty to one new
// segment, which replaces them. It returns false if there are none, or after an error: then they
// stay in use. pressed says that the spool is short of room: then segments of which payloads ended
// just now count too.
func (w *writer) compact(pressed bool) bool {
	run := w.sparse(pressed)
	if len(run) == 0 {
		return false
	}
	h, moves, err := w.copyRest(run)
	s := w.s
	done := err == nil && w.swap(run, h, moves)
	switch {
	case err != nil:
		w.log.Warn("spool compaction failed: the segments stay in use with all their payloads", "file", run[0].name, "segments", len(run), "err", err)
	case !done: // its payloads are all in the old segments as well
		_ = w.disk(func() error {
			return errors.Join(s.o.FS.Remove(s.path(h.name+suffixOfIndex)), s.o.FS.Remove(s.path(h.name)))
		})
	}
	for _, g := range run {
		s.unpin(g)
	}
	if done {
		s.segmentsChanged()
	}
	return done
}

// sparse returns the oldest run of neighbouring segments that hold few waiting payloads and whose
// copies fit together into one segment, within max_size and min_free; nil if there is none. pressed
// says that space is short: then segments of which a payload ended just now are taken too. sparse pins
// the segments; the caller must unpin each.
func (w *writer) sparse(pressed bool) (run []*segment) {
	room := min(w.s.segmentSize(), w.reserve()-w.shortOfQuota(0), -w.shortOfDisk(0))
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, g := range s.segments {
		if g.live == 0 {
			continue
		}
		// Frames, index entries, and an estimate for the rest of the index.
		cost := g.bytes + int64(g.live)*(slotSize+1) + g.aside/8
		if !g.isSparse() || !pressed && now.Before(g.calm.Add(settle)) || cost > room {
			if len(run) > 0 {
				break
			}
			continue
		}
		room -= cost
		run = append(run, g)
	}
	for _, g := range run {
		g.pins++
	}
	return run
}

// copyRest copies the payloads of the segments in run that have not ended to a new segment h, seals and
// syncs it and writes its index. moves says what was copied to where. The copies are used only from
// swap on. After an error nothing of the new segment is left, if the disk lets it be removed.
func (w *writer) copyRest(run []*segment) (h *segment, moves []move, err error) {
	s := w.s
	first := w.record
	if w.out != nil {
		first = w.out.NextRecord()
	}
	h = s.newNumber()
	room := int64(0)
	s.mu.Lock() // payloads end meanwhile
	h.place, h.base, h.agreed = run[0].place, run[0].base, true
	for _, g := range run {
		h.agreed = h.agreed && g.agreed
		room += g.bytes
		h.base = min(h.base, g.base)
	}
	s.mu.Unlock()
	out, err := w.create(h, first, room)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range run {
		if err = w.copySegment(g, h, out, &moves); err != nil {
			break
		}
	}
	if err == nil {
		err = w.seal(out)
	}
	if err != nil { // its payloads are all in the old segments as well
		_ = w.disk(func() error { return errors.Join(out.Close(), s.o.FS.Remove(s.path(h.name))) })
		return nil, nil, err
	}
	h.size = out.Size()
	if err := s.writeIndex(h, h.size, out.NextRecord()); err != nil {
		w.log.Warn("index of a spool segment could not be written; the next start reads the whole segment instead", "file", h.name, "err", err)
	}
	w.record = max(w.record, out.NextRecord())
	return h, moves, nil
}

// copySegment appends the payloads of segment g that have not ended to out, the file of the new
// segment h, and adds them to h and to moves. After an error h is not used. If g cannot be read, it
// is left out of later compactions.
func (w *writer) copySegment(g, h *segment, out *durable.Segment, moves *[]move) error {
	s := w.s
	var all []placed
	var f durable.File
	err := w.disk(func() (err error) {
		if all, err = s.all(g); err == nil {
			f, err = s.o.FS.Open(s.path(g.name), 0)
		}
		return err
	})
	if err != nil {
		return w.stick(g, err)
	}
	defer f.Close()
	for _, at := range all {
		s.mu.Lock()
		over := g.ended.has(at.ord) || g.moved.has(at.ord)
		s.mu.Unlock()
		if over {
			continue
		}
		e := at.slot
		var broken error
		err := w.disk(func() error {
			b := make([]byte, e.length())
			n, err := f.ReadAt(b, e.offset())
			meta, body, ok := cut(b[:n])
			p, _, bad := decodeMeta(meta)
			if !ok || body == nil || bad != nil || p.ID != e.id {
				broken = cmp.Or(err, durable.ErrDamaged)
				return broken
			}
			to := out.Size()
			if err := out.Append(durable.Frame{Type: typePayload, Records: uint32(p.Records), Meta: meta, Body: body}); err != nil {
				return err
			}
			e.put(to, out.Size()-to)
			return nil
		})
		if broken != nil {
			return w.stick(g, broken)
		}
		if err != nil {
			return err
		}
		s.mu.Lock() // tables of g may grow where its index is read anew
		h.adopt(g, &e)
		s.mu.Unlock()
		sh := h.add(at.sh.to, e)
		*moves = append(*moves, move{at, sh, sh.slots[len(sh.slots)-1]})
	}
	return nil
}

// stick excludes a segment from compaction because something in it cannot be read. Next
// deals with the damage when it comes to that payload. It returns err, for the caller to return.
func (w *writer) stick(g *segment, err error) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	g.stuck = true
	return err
}

// adopt changes an index entry that was copied from segment g, so that its numbers refer to the
// tables of segment h.
func (h *segment) adopt(g *segment, e *slot) {
	e.when = uint32(min(max(g.when(e)-h.base, 0)/int64(tick), 1<<32-1))
	if e.input&mixed == 0 {
		e.input = h.input(g.inputs[e.input])
		return
	}
	h.mixes = append(h.mixes, g.mixes[e.input&^mixed])
	e.input = mixed | uint32(len(h.mixes)-1)
}

// swap makes the copies in h count in place of the originals in the segments run, whose files can
// then be removed; moves has what was copied from where to where.
// It returns false and changes nothing if Held or another walk goes through the segments, which would pass
// the copies by, or if one of the segments was given up since.
func (w *writer) swap(run []*segment, h *segment, moves []move) bool {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.walks > 0 || slices.ContainsFunc(run, func(g *segment) bool { return g.lost }) {
		return false
	}
	before := h.bytes
	for i := range moves {
		m := &moves[i]
		g := m.from.sh.g
		// One that ended meanwhile lies in h as well: the journal is to know how it
		// ended until h goes.
		over := g.ended.has(m.from.ord)
		g.moved.set(m.from.ord, g.n)
		s.copies[m.slot.id]++ // it lies in g until that is removed, which may be after h
		if over {
			h.end(m.sh, &m.slot)
			m.sh.waiting--
			continue
		}
		if t := s.out[m.slot.id]; t != nil && t.sh.g == g && t.ord == m.from.ord {
			t.sh, t.slot = m.sh, m.slot
			if m.sh.waiting--; t.given {
				h.given++
			}
		}
	}
	freed := int64(0)
	for _, g := range run {
		freed += g.disk()
		for _, sh := range g.order {
			if l := s.lanes[sh.to]; l != nil {
				l.fresh -= sh.waiting
			}
			sh.waiting, sh.live, sh.sums = 0, 0, nil
		}
		g.live, g.bytes, g.given = 0, 0, 0
	}
	for _, sh := range h.order {
		l := s.lane(sh.to)
		l.fresh += sh.waiting
		l.shares = slices.DeleteFunc(l.shares, func(old *share) bool {
			if old.waiting == 0 {
				old.drop()
			}
			return old.waiting == 0
		})
		slices.SortFunc(l.back, order) // some have another segment now
		if sh.waiting > 0 {
			sh.listed = true
			l.shares = append(l.shares, sh)
			slices.SortStableFunc(l.shares, func(a, b *share) int { return cmp.Compare(a.g.place, b.g.place) })
		}
		s.tidyLane(sh.to, l)
	}
	h.calm = time.Now()
	s.segments = append(s.segments, h)
	slices.SortStableFunc(s.segments, func(a, b *segment) int { return cmp.Compare(a.place, b.place) })
	w.log.Info("spool compacted: segments whose payloads were mostly sent already were merged into one", "file", h.name, "segments", len(run), "bytes", before, "freed", freed-h.disk())
	return true
}

// home returns the segment in which a payload that was given out lies now. A compaction
// may move it at any time.
func (s *Spool) home(t *taken) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.sh.g
}
