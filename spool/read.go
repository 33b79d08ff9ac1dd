package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"time"
	"unique"

	"kusto-agent/internal/diskwriter"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// errBody marks a payload whose body is damaged and all else is sound.
var errBody = errors.New("body of spooled payload damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// own returns p itself, after it has copied the part of p that lies in the buffer from
// which p was read. The caller may then keep p.
func own(p *record.Payload) *record.Payload {
	p.Lens = slices.Clone(p.Lens)
	return p
}

// scan reads the metas of a segment from the disk, holding no lock, and calls fn with
// each payload that belongs to the segment, whether it has ended or not. To keep a
// payload after fn has returned, fn calls own. Frames that cannot be read are passed
// over. The caller sees to it that the file stays, see segment.pins. If the index cannot
// be read, the error is errIndex or that of the disk.
func (s *Spool) scan(g *segment, fn func(at placed, p *record.Payload)) error {
	all, err := s.all(g)
	if err != nil {
		return err
	}
	return s.scanSlots(g, all, fn)
}

// scanSlots reads the metas of a segment from the disk, holding no lock, and calls fn with each
// payload whose slot is in all. all is in the order of the frames. Frames that cannot be read are
// passed over.
func (s *Spool) scanSlots(g *segment, all []placed, fn func(at placed, p *record.Payload)) error {
	return s.frames(g, func(f *durable.Found, p *record.Payload, _ time.Time) {
		for len(all) > 0 && all[0].offset() < f.Offset {
			all = all[1:]
		}
		if len(all) > 0 && all[0].offset() == f.Offset && all[0].id == p.ID { // others were written by a Put that failed, or just now
			fn(all[0], p)
		}
	})
}

// frames reads the segment file of g and calls fn with each frame of a payload that can be read. fn also
// gets the payload, without its body, and when it came to the spool. Other frames are passed over.
func (s *Spool) frames(g *segment, fn func(f *durable.Found, p *record.Payload, spooled time.Time)) error {
	_, err := durable.ReadSegment(s.o.FS, s.path(g.name), kind, major, false, func(f *durable.Found) error {
		if f.Type == typePayload {
			if p, spooled, err := decodeMeta(f.Meta); err == nil {
				fn(f, p, spooled)
			}
		}
		return nil
	})
	return err
}

// lasts reports whether a read error is permanent (damage, a missing file, a bad sector),
// so that another try would meet it again.
func lasts(err error) bool {
	return errors.Is(err, durable.ErrDamaged) || errors.Is(err, fs.ErrNotExist) || brokenDisk(err)
}

// brokenDisk reports whether err is an error of the medium (EIO, EUCLEAN). Unlike other errors of
// reading, the spool handles it like damage of the file.
func brokenDisk(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EUCLEAN)
}

// passable returns nil for a read error that another try would meet again: it lasts, or says that
// an index cannot be used. Other errors it returns as they are.
func passable(err error) error {
	if errors.Is(err, errIndex) || lasts(err) {
		return nil
	}
	return err
}

// The slots of a route that are read ahead: fewer where there are many routes.
const (
	maxAhead   = 512
	minAhead   = 64
	totalAhead = 128 << 10
)

// page is a part of a share that is to be read from the index of its segment. The segment
// is pinned for it.
type page struct {
	sh    *share
	x     *index // nil: the spool is closed
	at, n int    // its first slot in the share, and how many
}

// page returns which index entries of the share sh are to be read next: from the first that was not
// given out, fewer if many routes wait. It pins the segment, so that its files are not removed; load
// unpins it. Needs mu.
func (s *Spool) page(sh *share) page {
	sh.g.pins++
	n := max(minAhead, min(maxAhead, totalAhead/len(s.lanes)))
	return page{sh: sh, x: sh.g.index, at: sh.next, n: min(sh.n-sh.next, n)}
}

// load reads a page of slots (index entries of payloads) into memory and unpins the segment. It
// returns true if pick can be called again, false if the index cannot be read now.
func (s *Spool) load(p page) bool {
	sh, g, x, at, n := p.sh, p.sh.g, p.x, p.at, p.n
	defer s.unpin(g)
	if x == nil { // the spool is closed
		return false
	}
	slots, err := patiently(s, func() (slots []slot, err error) {
		slots = make([]slot, 0, n)
		err = x.read(g, sh.first+at, n, func(e *slot) { slots = append(slots, *e) })
		return slots, err
	})
	switch {
	case err == nil:
		s.mu.Lock() // used only if the next slot to give out is still among them, and the index is the same
		if sh.next >= at && sh.next <= at+len(slots) && g.index == x {
			sh.slots, sh.from = slots, at
		}
		s.mu.Unlock()
		return true
	case errors.Is(err, errIndex), lasts(err):
		return s.reindex(g, x, err)
	case !errors.Is(err, record.ErrStalled): // patiently has logged a stall
		s.o.Logger.Warn("index of a spool segment could not be read, will retry", "file", g.name, "err", err)
	}
	return false
}

// reindex replaces x, the index of g, which cannot be read (cause), by the slots that it makes from
// the frames of the segment. If the segment is damaged too, nobody can tell which of its payloads
// have ended, and all that wait are reported as lost. It returns false if the disk has to be tried
// again later.
func (s *Spool) reindex(g *segment, x *index, cause error) bool {
	type found struct {
		p                 *record.Payload // without Lens and Cover, which are of no use here
		spooled, at, size int64
	}
	all, err := patiently(s, func() (all []found, err error) {
		err = s.frames(g, func(f *durable.Found, p *record.Payload, spooled time.Time) {
			p.Lens, p.Cover = nil, nil
			all = append(all, found{p, spooled.UnixNano(), f.Offset, f.Size})
		})
		return all, err
	})
	if err != nil && !lasts(err) {
		return false
	}
	s.mu.Lock()
	if g.index != x { // another reader was faster
		s.mu.Unlock()
		return true
	}
	slots := map[route][]slot{}
	for i, f := range all {
		e := g.newSlot(f.p, f.spooled)
		e.ord = uint32(i)
		e.put(f.at, f.size)
		to := unique.Make(f.p.Route)
		slots[to] = append(slots[to], e)
	}
	whole := len(all) == g.n
	for _, sh := range g.order {
		whole = whole && len(slots[sh.to]) == sh.n
	}
	if whole {
		for _, sh := range g.order {
			sh.slots, sh.from = slots[sh.to], 0
		}
		g.index = nil
		x.f.Close()
	}
	s.mu.Unlock()
	if whole {
		s.o.Logger.Warn("index of a spool segment cannot be used; the agent reads the whole segment instead", "file", g.name, "err", cause)
		return true
	}
	s.loseAll(g, cause)
	return true
}

// lose gives up the payloads of segment g whose frames cannot be read, except those that the caller
// of Next has, and reports them with Options.OnLost. there has the frames that can be read, by
// slot.ord. cause is the read error, for the log; it may be nil. If the index cannot be read either,
// all payloads are given up.
func (s *Spool) lose(g *segment, there bits, cause error) {
	all, err := s.all(g)
	s.mu.Lock()
	lost := g.lost
	s.mu.Unlock()
	if err != nil || lost {
		s.loseAll(g, errors.Join(cause, err))
		return
	}
	var ids []record.BatchID
	var gone share
	s.mu.Lock()
	for i := range all {
		at := &all[i]
		if there.has(at.ord) || g.ended.has(at.ord) || g.moved.has(at.ord) {
			continue
		}
		t := s.out[at.id]
		if t != nil && (t.sh.g != g || t.ord != at.ord) {
			t = nil
		}
		if t != nil && t.given { // the caller that has it, or Next, which reads it now, deals with it
			continue
		}
		ids = append(ids, at.id)
		g.counts(&at.slot, gone.sum)
		gone.to = at.sh.to
		if t != nil {
			s.endOut(t)
		} else {
			s.endFresh(at.sh, &at.slot)
		}
	}
	g.damaged = g.damaged || len(ids) > 0
	s.mu.Unlock()
	if len(ids) > 0 {
		s.tellLost(g, ids, &gone, cause)
	}
}

// loseAll gives up all payloads of a segment but those that the caller of Next has, because neither
// its index nor its frames can be read. It reports them with Options.OnLost: their number of
// records by input, but only the ids of those that had been returned.
func (s *Spool) loseAll(g *segment, cause error) {
	var gone share
	var ids []record.BatchID
	s.mu.Lock()
	kept := map[*share][]count{}
	for _, t := range s.outOf(g) {
		if t.given {
			g.counts(&t.slot, func(input string, n int) { kept[t.sh] = append(kept[t.sh], count{input, n}) })
			continue
		}
		ids = append(ids, t.id)
		g.counts(&t.slot, gone.sum)
		gone.to = t.sh.to
		s.endOut(t)
	}
	for _, sh := range g.order { // of the others only the totals are known
		for _, c := range kept[sh] {
			sh.sum(c.input, -c.records)
		}
		for _, c := range sh.sums {
			gone.sum(c.input, c.records)
			gone.to = sh.to
		}
		if sh.sums = kept[sh]; sh.waiting > 0 {
			l := s.lane(sh.to)
			l.fresh -= sh.waiting
			g.live, sh.live, sh.waiting = g.live-sh.waiting, sh.live-sh.waiting, 0
			s.tidyLane(sh.to, l)
		}
	}
	g.damaged, g.lost = true, true
	s.mu.Unlock()
	s.tellLost(g, ids, &gone, cause)
}

// tellLost logs that payloads of a segment are lost, because of cause, and reports them with
// Options.OnLost. lost has the sums of their records and the route of one of them; ids may lack some.
func (s *Spool) tellLost(g *segment, ids []record.BatchID, lost *share, cause error) {
	var to record.Route
	if lost.to != (route{}) {
		to = lost.to.Value()
	}
	what := unreadable(record.BatchID{}, to, slices.DeleteFunc(lost.sums, func(c count) bool { return c.records <= 0 }))
	s.o.Logger.Error("spooled payloads are gone or unreadable; the agent reads their records again from the source files where it can", "file", g.name, "batches", len(ids), "records", what.Records, "err", cause)
	s.o.OnLost(ids, what)
	s.disk.Wake()
}

// patiently calls a function that reads from the disk, and returns record.ErrStalled if it
// takes longer than Options.Stall; the call goes on by itself. While a call hangs, later
// calls return record.ErrStalled at once.
func patiently[T any](s *Spool, call func() (T, error)) (got T, err error) {
	if s.hangers(0) > 0 {
		return got, record.ErrStalled
	}
	done := make(chan error, 1)
	var answer T
	go func() { // started here, ends when the disk answers; waited for until Stall
		var err error
		answer, err = call()
		done <- err
	}()
	if err, ok := diskwriter.Wait(done, s.o.Stall); ok {
		return answer, err
	}
	if s.hangers(1) == 1 {
		s.o.Logger.Error("spool read failed: its disk does not respond, spooled payloads wait", "folder", s.dir, "fix", "check the disk of spool.dir: is it mounted, does dmesg name errors")
	}
	go func() { // started here, ends when the disk answers; nobody waits for it
		<-done
		if s.hangers(-1) == 0 {
			s.o.Logger.Info("spool reads succeed again")
		}
	}()
	return got, record.ErrStalled
}

// hangers adds more, which may be 0, to the number of reads that the disk has not answered in time,
// and returns the new number.
func (s *Spool) hangers(more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung += more
	return s.hung
}

// readPatiently reads the payload t, with its body, from where it lies now (at). If the
// disk does not answer within Options.Stall, the error is record.ErrStalled; otherwise as in read.
func (s *Spool) readPatiently(t *taken) (p *record.Payload, at placed, err error) {
	s.mu.Lock()
	at = placed{t.sh, t.slot}
	s.mu.Unlock()
	p, err = patiently(s, func() (*record.Payload, error) { return s.read(at.sh.g, &at.slot) })
	return p, at, err
}

// read returns the payload of index entry e in segment g, with its body. If only the body is
// damaged, the error is errBody and the payload comes without it; with another error it is nil.
func (s *Spool) read(g *segment, e *slot) (*record.Payload, error) {
	f, err := s.o.FS.Open(s.path(g.name), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFrame(f, e.offset(), e.length(), e.id, true)
}

// readFrame reads the payload with this id from its frame of size bytes at the offset at; its body only
// if body is set. If only the body is damaged, it returns the payload without it and errBody; if more
// is damaged or the id differs, durable.ErrDamaged. The layout of a frame is that of package durable.
func readFrame(f io.ReaderAt, at, size int64, id record.BatchID, body bool) (*record.Payload, error) {
	const most = 1 << 10 // of the bytes that are read at first for a meta, which is seldom longer
	n := size
	if !body {
		n = min(most, size)
	}
	for ; ; n = size {
		b := make([]byte, n)
		got, err := f.ReadAt(b, at)
		if int64(got) < n && err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read spooled payload: %w", err)
		}
		meta, rest, ok := cut(b[:got])
		if !ok && n < size && int64(got) == n { // the meta is longer: read the whole frame
			continue
		}
		if !ok {
			return nil, fmt.Errorf("read spooled payload: %w", durable.ErrDamaged)
		}
		p, _, err := decodeMeta(meta)
		if err != nil || p.ID != id {
			return nil, fmt.Errorf("read spooled payload: %w", errors.Join(err, durable.ErrDamaged))
		}
		own(p)
		if body && rest == nil {
			return p, errBody
		}
		if body {
			p.Body = rest
		}
		return p, nil
	}
}

// cut returns the meta and the body of the frame with the bytes b, both as parts of b. ok is false
// if the meta is damaged; body is nil if the body is damaged. The offsets are those of the frame
// header of package durable.
func cut(b []byte) (meta, body []byte, ok bool) {
	if len(b) < 16 {
		return nil, nil, false
	}
	header := uint64(binary.LittleEndian.Uint16(b[6:]))
	metaLen, bodyLen := uint64(binary.LittleEndian.Uint32(b[8:])), uint64(binary.LittleEndian.Uint32(b[12:]))
	if meta, ok = checked(b, header, metaLen); !ok {
		return nil, nil, false
	}
	body, _ = checked(b, header+metaLen+4, bodyLen)
	return meta, body, true
}

// checked returns the n bytes of b at off, behind which a checksum of them lies. It returns false if
// the checksum differs or b is too short.
func checked(b []byte, off, n uint64) ([]byte, bool) {
	if off+n+4 > uint64(len(b)) {
		return nil, false
	}
	part := b[off : off+n : off+n]
	if crc32.Checksum(part, castagnoli) != binary.LittleEndian.Uint32(b[off+n:]) {
		return nil, false
	}
	return part, true
}
