package spool

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unique"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// Recovery is what Open found. The payloads that wait are told by Held.
type Recovery struct {
	// Frames is how many payloads wait.
	Frames int
	// Agent is whom the folder belongs to.
	Agent [16]byte
	// Lost says that there are, or were before, segments of which not all could be
	// read: payloads may be missing of which not even the ids are known. It stays
	// until people have emptied the folder damaged.
	Lost bool
	// Torn says that something was left out that looks like a write under way, on which
	// nobody relied. It looks the same where the last frames of a segment were damaged:
	// whoever knows what a Put returned nil for is to look for it. The segment stays as it
	// is, and the next start finds the same, until the first Next or Put: then whoever
	// opened the spool has looked, and BeforeUnlink makes durable what came of it.
	Torn bool
	// Segments are the numbers of all segments of which something is there: themselves,
	// whatever can be read of them, their index, or one of both in the folder damaged.
	Segments []uint64
	// Missing are payloads that the spool knows of and that cannot be read: without
	// Cover, and Pieces that say no more than how many records of which input they
	// have. Lost is set with them. Held may find more.
	Missing []*record.Payload
	// Problems are sentences for people: what was unreadable.
	Problems []string
}

// miss adds a payload to Missing that is in the index and cannot be read.
func (r *Recovery) miss(sh *share, e *slot) {
	r.Lost = true
	r.Missing = append(r.Missing, sh.unreadable(e))
}

// recovery gathers what is in the folder before anything of it is changed.
type recovery struct {
	s       *Spool
	out     *Recovery
	own     [16]byte // the id of a spool that an earlier version wrote
	files   listing
	broken  []*segment         // nothing in them can be told
	orphans []string           // indexes without their segment
	content map[*segment]int64 // where what was written ends, of those whose slots are in memory
	doubted map[*segment]bool  // of these, those whose end may have been cut or damaged
	excess  map[*segment]int64 // the same of those that are longer than their index says
}

// readFolder reads the segments and indexes in the folder at a start, keeps one copy of each payload,
// and fills the spool with what waits. After an error, which is one of reading or says that the
// folder belongs to something else, nothing on the disk is changed.
func (s *Spool) readFolder() (*Recovery, error) {
	files, err := listSegments(s.o.FS, s.dir)
	if err != nil {
		return nil, err
	}
	r := &recovery{s: s, out: &Recovery{}, files: files, content: map[*segment]int64{}, doubted: map[*segment]bool{}, excess: map[*segment]int64{}}
	aside, err := listSegments(s.o.FS, s.path(damagedDir))
	if err != nil {
		return nil, err
	}
	s.next = 1
	r.out.Segments = slices.Concat(files.numbers, aside.numbers)
	slices.Sort(r.out.Segments)
	r.out.Segments = slices.Compact(r.out.Segments)
	for _, g := range aside.segments { // a new segment of this number, moved there, would replace it
		s.next = max(s.next, g.seq+1)
	}
	r.out.Lost = len(aside.segments) > 0 || len(aside.indexes) > 0
	for _, g := range files.segments {
		if err := r.header(g); err != nil {
			return nil, err
		}
	}
	for _, g := range s.segments {
		if err := r.segment(g); err != nil {
			return nil, err
		}
		if err := r.short(g); err != nil {
			return nil, err
		}
	}
	if err := r.orphaned(); err != nil {
		return nil, err
	}
	if err := r.dedupe(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.segments, func(a, b *segment) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.seq, b.seq)) })
	if s.w.agent == ([16]byte{}) {
		_, _ = rand.Read(s.w.agent[:]) // never fails
	}
	r.tidy()
	r.out.Agent = s.w.agent
	for _, g := range s.segments {
		r.out.Frames += g.live
		for _, sh := range g.order {
			if sh.waiting > 0 {
				s.list(sh)
				s.lane(sh.to).fresh += sh.waiting
			}
		}
	}
	return r.out, nil
}

// segment reads the first part of a segment's index (its tables, not the entries of the payloads)
// or, if there is no usable index, the segment itself.
func (r *recovery) segment(g *segment) error {
	if r.files.indexes[g.name] != nil {
		if known, err := r.indexed(g); known || err != nil {
			return err
		}
	}
	return r.reread(g)
}

// reread reads the frames of a segment because its index, if it has one, cannot be used.
func (r *recovery) reread(g *segment) error {
	if r.files.indexes[g.name] != nil {
		r.s.o.Logger.Warn("index of a spool segment cannot be used; the agent reads the whole segment instead", "file", g.name)
	}
	return r.survey(g)
}

// indexed fills in g from the header and the tables of its index, which stays open. It returns false
// and no error if the index cannot be used; an error is one of reading.
func (r *recovery) indexed(g *segment) (known bool, err error) {
	s := r.s
	h := newSegment(g.name, g.seq)
	x, err := openIndex(s.o.FS, s.path(g.name+suffixOfIndex), h)
	if err != nil {
		return false, passable(err)
	}
	h.size, h.aside, h.index = g.size, x.bytes, x
	*g = *h
	for _, sh := range g.order {
		sh.g = g
	}
	return true, nil
}

// slots calls fn with the index entry (slot) of every payload of a segment. If the index turns
// out to be unreadable, slots reads the segment itself, and returns again: the caller has to
// start over with this segment.
func (r *recovery) slots(g *segment, fn func(sh *share, e *slot)) (again bool, err error) {
	x := g.index
	if err = r.s.eachSlot(g, fn); err == nil || passable(err) != nil {
		return false, err
	}
	x.f.Close()
	delete(r.excess, g)
	h := newSegment(g.name, g.seq)
	h.size = g.size
	*g = *h
	return true, r.reread(g)
}

// short compares the size of a segment with its index. If the segment was cut, it ends the payloads
// beyond the end and reports them as missing. If it is longer than the index says, it notes where to
// cut it.
func (r *recovery) short(g *segment) error {
	x := g.index
	switch {
	case x == nil:
		return nil
	case g.size > x.End:
		r.excess[g] = x.End
	}
	r.s.w.record = max(r.s.w.record, x.Record)
	if g.size >= x.End {
		return nil
	}
	gone, cut := 0, 0
	var missing []*record.Payload
	if _, err := r.slots(g, func(sh *share, e *slot) {
		if e.offset()+e.length() > g.size {
			gone, cut = gone+1, cut+int(e.records)
			g.end(sh, e)
			sh.waiting--
			missing = append(missing, sh.unreadable(e))
		}
	}); err != nil || g.index == nil { // no index: it turned out to be unreadable, and slots read the segment
		return err
	}
	g.damaged, r.out.Lost = true, true
	r.out.Missing = append(r.out.Missing, missing...)
	r.problem("spool segment %s: missing at its end: %s, and with them %s of %s", g.name, units.Counted(x.End-g.size, "byte"), units.Counted(gone, "payload"), units.Counted(cut, "record"))
	return nil
}

// orphaned reports the payloads of indexes whose segment is missing or unreadable as missing. The
// error is one of reading; an index that cannot be used is none.
func (r *recovery) orphaned() error {
	s := r.s
	for _, g := range s.segments {
		delete(r.files.indexes, g.name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.files.indexes)) {
		g := r.files.indexes[name]
		s.next = max(s.next, g.seq+1)
		r.orphans = append(r.orphans, name+suffixOfIndex)
		r.out.Lost = true
		x, err := openIndex(s.o.FS, s.path(name+suffixOfIndex), g)
		if err == nil {
			g.index = x
			err = s.eachSlot(g, r.out.miss)
			x.f.Close()
		}
		if err := passable(err); err != nil {
			return err
		}
		r.problem("spool segment %s is gone or unreadable, and %s with it", name, units.Counted(g.n, "payload"))
	}
	return nil
}

// problem adds a sentence for people to the report.
func (r *recovery) problem(format string, args ...any) {
	r.out.Problems = append(r.out.Problems, fmt.Sprintf(format, args...))
}

// header reads the header of a segment and adds the segment to those of the spool. It returns an error if the segment belongs to another agent
// or another store, was renamed or cannot be read. A damaged header is reported and is no error.
func (r *recovery) header(g *segment) error {
	w := &r.s.w
	h, size, err := durable.ReadHeader(r.s.o.FS, r.s.path(g.name), kind, major)
	g.size, g.place = size, g.seq
	r.s.next = max(r.s.next, g.seq+1)
	switch {
	case errors.Is(err, durable.ErrDamaged) && h.Kind != [4]byte{}: // a sound header of another store
		return fmt.Errorf("segment %q is of kind %q: %w", g.name, h.Kind, ErrForeign)
	case errors.Is(err, durable.ErrDamaged), brokenDisk(err):
		r.broken, r.out.Lost = append(r.broken, g), true
		r.problem("spool segment %s: header damaged, nothing of it readable; it is kept in the folder %s", g.name, damagedDir)
		return nil
	case err != nil:
		return err
	case h.Seq != g.seq:
		return fmt.Errorf("segment %q says it is number %d: it was renamed", g.name, h.Seq)
	case h.Minor == 0: // of an early version, which put an id of the spool into Agent
		if r.own != [16]byte{} && h.Agent != r.own {
			return fmt.Errorf("segment %q belongs to another agent than those before it: %w", g.name, ErrForeign)
		}
		r.own = h.Agent
	case w.agent != [16]byte{} && h.Agent != w.agent:
		return fmt.Errorf("segment %q belongs to another agent: %w", g.name, ErrForeign)
	default:
		w.agent = h.Agent
	}
	w.record = max(w.record, h.FirstRecord)
	r.s.segments = append(r.s.segments, g)
	return nil
}

// survey reads the metas of all payloads of a segment that has no usable index, adds them to the
// segment, and reports damage. A segment without a seal, the frame at a clean end, may have been cut,
// which is reported, and its last bodies are checked. The error is one of reading, or
// durable.ErrVersion.
func (r *recovery) survey(g *segment) error {
	sealed := false
	rep, err := durable.ReadSegment(r.s.o.FS, r.s.path(g.name), kind, major, false, func(f *durable.Found) error {
		r.s.w.record = max(r.s.w.record, f.Record+uint64(f.Records))
		switch f.Type {
		case typePayload:
			return r.payload(g, f)
		case typeSeal:
			sealed = true
		default:
			if f.Flags&durable.Optional == 0 {
				return fmt.Errorf("frame has type %d, and this program knows up to %d: %w", f.Type, typeSeal, durable.ErrVersion)
			}
		}
		return nil
	})
	switch {
	case brokenDisk(err):
		g.damaged, r.out.Lost = true, true
		r.problem("spool segment %s: %v; the bytes after that are not readable", g.name, err)
		if rep == nil {
			return nil
		}
	case err != nil:
		return err
	}
	r.bad(g, rep)
	if !sealed {
		if room := int64(rep.Header.Room) << 10; g.size < room {
			r.out.Lost, r.doubted[g] = true, true
			r.problem("spool segment %s: it ends %d bytes before the space that was allocated for it; what was written there is gone", g.name, room-g.size)
		}
		return r.tail(g, rep)
	}
	return nil
}

// payload adds the payload of frame f to the segment g. A malformed meta is reported and is no error.
func (r *recovery) payload(g *segment, f *durable.Found) error {
	p, spooled, err := decodeMeta(f.Meta)
	if errors.Is(err, errMalformed) {
		g.damaged, r.out.Lost = true, true
		r.problem("spool segment %s: payload of %s at offset %d: %v", g.name, units.Counted(f.Records, "record"), f.Offset, err)
		return nil
	}
	if err != nil {
		return err
	}
	e := g.newSlot(p, spooled.UnixNano())
	e.put(f.Offset, f.Size)
	g.add(unique.Make(p.Route), e)
	return nil
}

// bad reports the ranges of segment g in which no frame (a stored payload) can be read: an
// unfinished write, which nobody relied on, or damage, which lost payloads. rep is what the scan of
// the segment found. bad also notes where the content of the segment ends.
func (r *recovery) bad(g *segment, rep *durable.Report) {
	end, torn := rep.End, len(rep.Bad) > 0 // torn: all of the ranges are of unfinished writes
	for _, b := range rep.Bad {
		end = max(end, b.Offset+b.Length)
		if b.Torn {
			r.out.Torn, r.doubted[g] = true, true
			r.problem("spool segment %s: %s of an unfinished write at offset %d left out", g.name, units.Counted(b.Length, "byte"), b.Offset)
			continue
		}
		torn = false
		g.damaged, r.out.Lost = true, true
		r.problem("spool segment %s: %s damaged at offset %d", g.name, units.Counted(b.Length, "byte"), b.Offset)
	}
	if rep.Lost > 0 && !torn { // if torn, they are the records of the unfinished write
		g.damaged, r.out.Lost = true, true
		r.problem("spool segment %s: %s lost with them", g.name, units.Counted(rep.Lost, "record"))
	}
	r.content[g] = min(end, g.size)
}

// tail reads the bodies that were written after the last known sync of a segment, and
// marks those that are damaged as unsound: a crash may have interrupted their write. rep is what the
// scan of the segment found. The error is one of reading, not of damage.
func (r *recovery) tail(g *segment, rep *durable.Report) error {
	var failed error
	all, _ := r.s.all(g) // in memory
	err := r.s.scanSlots(g, all, func(at placed, _ *record.Payload) {
		if failed != nil || at.offset() < rep.Synced {
			return
		}
		switch _, err := r.s.read(g, &at.slot); {
		case err == nil:
		case errors.Is(err, errBody), lasts(err):
			sh := at.sh
			i, _ := slices.BinarySearchFunc(sh.slots, at.ord, func(e slot, ord uint32) int { return cmp.Compare(e.ord, ord) })
			sh.slots[i].size |= unsound
		default:
			failed = err
		}
	})
	return errors.Join(passable(err), failed) // what is passable survey has reported
}

// dedupe finds payloads of which several copies are in the folder, and ends all but one of them. A
// first pass through a Bloom filter finds ids that may be there twice, a second one their copies. An
// index that turns out to be unreadable is replaced by the segment itself, and the pass repeated.
func (r *recovery) dedupe() error {
	n := 0
	for _, g := range r.s.segments {
		n += g.n
	}
	maybe, few := map[record.BatchID][]placed{}, newBloom(n/64) // few has the ids in maybe, for a faster look
	seen := &crowd{b: newBloom(n), maybe: func(id *record.BatchID) {
		maybe[*id] = nil
		few.add(id)
	}}
	note := func(_ *share, e *slot) { seen.add(&e.id) }
	for _, g := range r.s.segments {
		again, err := r.slots(g, note)
		if again && err == nil { // ids of it that were added before seem to be there twice: no harm
			_, err = r.slots(g, note)
		}
		if err != nil {
			return err
		}
	}
	seen.flush()
	for i := 0; i < len(r.s.segments) && len(maybe) > 0; i++ {
		again, err := r.slots(r.s.segments[i], func(sh *share, e *slot) {
			if !few.has(&e.id) {
				return
			}
			if copies, asked := maybe[e.id]; asked {
				maybe[e.id] = append(copies, placed{sh, *e})
			}
		})
		if err != nil {
			return err
		}
		if again { // an index went bad since the first look: what was taken of it is void
			for id := range maybe {
				maybe[id] = nil
			}
			i = -1
		}
	}
	r.settle(maybe)
	return nil
}

// settle ends all but one of the copies of each payload: it keeps a sound copy before an
// unsound one, and the newer of two sound ones. all has the copies that were found for each id.
func (r *recovery) settle(all map[record.BatchID][]placed) {
	for id, copies := range all {
		if len(copies) < 2 {
			continue
		}
		r.s.copies[id] = len(copies) - 1
		slices.SortFunc(copies, func(a, b placed) int { // the copy to keep comes last
			return cmp.Or(cmp.Compare(b.size&unsound, a.size&unsound), cmp.Compare(a.sh.g.place, b.sh.g.place), cmp.Compare(a.sh.g.seq, b.sh.g.seq), cmp.Compare(a.ord, b.ord))
		})
		for i := range copies[:len(copies)-1] {
			c := &copies[i]
			if !c.sh.g.ended.has(c.ord) {
				c.sh.g.end(c.sh, &c.slot)
				c.sh.waiting--
			}
		}
	}
}

// tidy puts the folder of the spool in order at the end of a start. It moves unreadable segments,
// and indexes without a segment, to the folder damaged; it removes temporary files; and it cuts
// frames of failed writes off the ends of segments. A segment that was read frame by frame and
// still has payloads gets an index. If the end of such a segment may have been cut or damaged, it
// gets its index later, from settleDoubts. Errors do no harm here: the next start tries again.
func (r *recovery) tidy() {
	s := r.s
	for _, g := range r.broken {
		if err := durable.Move(s.o.FS, s.path(g.name), s.path(damagedDir)); err != nil {
			s.o.Logger.Warn("damaged spool segment could not be moved to the folder damaged/; it stays where it is", "file", g.name, "err", err)
		}
	}
	defer s.weigh()
	for _, name := range r.files.temp {
		_ = s.o.FS.Remove(s.path(name))
	}
	for _, name := range r.orphans {
		if err := durable.Move(s.o.FS, s.path(name), s.path(damagedDir)); err != nil {
			s.o.Logger.Warn("a spool segment is missing, and its index could not be moved to the folder damaged/; the index stays and is not used", "file", name, "err", err)
		}
	}
	for g, end := range r.excess { // frames of a failed write: a scan without the index must not take them for valid ones
		_ = s.w.trim(g, end)
	}
	for _, g := range s.segments {
		end, surveyed := r.content[g]
		switch {
		case !surveyed || g.damaged:
		case r.doubted[g]:
			g.doubted = true
			s.w.doubted = append(s.w.doubted, doubted{g, end, s.w.record})
		case g.live > 0:
			s.closeEnd(g, end, s.w.record)
		}
	}
}

// closeEnd writes the index of a segment that was read by its frames, and frees the space
// after the offset end, where its content ends. record is the id of the next record. The index comes
// first: a segment without an index that is shorter than the space it had allocated counts as cut.
func (s *Spool) closeEnd(g *segment, end int64, record uint64) {
	if s.writeIndex(g, end, record) == nil && end < g.size {
		_ = s.w.trim(g, end)
	}
}

// doubted is a segment whose end may have been cut or damaged. It gets no index at first, since with
// one nothing of that would show at the next start.
type doubted struct {
	g      *segment
	end    int64
	record uint64
}

// settleDoubts finishes the segments whose ends were doubtful at the start, once the spool
// is in use and the journal has synced what came of them. On a full disk it frees the
// space after their ends even if that sync fails.
func (w *writer) settleDoubts() {
	w.s.mu.Lock()
	used := w.s.used
	w.s.mu.Unlock()
	if len(w.doubted) == 0 || !used {
		return
	}
	if err := w.s.o.BeforeUnlink(); err != nil {
		for _, d := range w.doubted {
			if noSpace(err) && d.end < d.g.size {
				_ = w.trim(d.g, d.end)
			}
		}
		w.lookAgain()
		return
	}
	for _, d := range w.doubted {
		w.s.mu.Lock()
		keep := d.g.live > 0 && !d.g.damaged && !d.g.lost
		d.g.doubted = false
		w.s.mu.Unlock()
		if keep {
			w.s.closeEnd(d.g, d.end, d.record)
		}
	}
	w.doubted = nil
}
