package spool

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/record"
)

// errBody marks a payload whose body is damaged and all else is sound.
var errBody = errors.New("body of spooled payload damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// own is a payload that shares nothing with the buffer it was read from.
func own(p *record.Payload) *record.Payload {
	p.Lens = slices.Clone(p.Lens)
	return p
}

// scan reads the metas of a segment and calls fn with each payload that belongs
// to it, whether it has ended or not, no lock held. What fn gets is good until it
// returns; see own. Frames that cannot be read are passed over. The file must
// stay: see segment.pins.
func (s *Spool) scan(g *segment, fn func(e *entry, p *record.Payload)) error {
	s.mu.Lock()
	ids := g.ids // only ever appended to
	s.mu.Unlock()
	next := 0
	_, err := durable.ReadSegment(s.o.FS, s.path(g.name), kind, major, false, func(f *durable.Found) error {
		if f.Type != typePayload {
			return nil
		}
		p, spooled, err := decodeMeta(f.Meta)
		if err != nil {
			return nil
		}
		ord := slices.Index(ids[next:], p.ID)
		if ord < 0 {
			return nil // written by a Put that failed, or just now
		}
		e := newEntry(p, spooled)
		e.ord, e.at, e.size = next+ord, f.Offset, f.Size
		next = e.ord + 1
		fn(&e, p)
		return nil
	})
	return err
}

// lasts tells an error of reading that another try would meet again, from one
// that time or a person can mend.
func lasts(err error) bool {
	return errors.Is(err, durable.ErrDamaged) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EUCLEAN)
}

// load reads the index of a segment that was pinned for it and ends the pin.
// Payloads that are not found any more are told of as lost.
func (s *Spool) load(g *segment) error {
	index, err := patiently(s, func() ([]entry, error) {
		index := []entry{}
		err := s.scan(g, func(e *entry, _ *record.Payload) { index = append(index, *e) })
		return index, err
	})
	s.mu.Lock()
	g.pins--
	if g.index != nil { // another reader was faster
		s.mu.Unlock()
		return nil
	}
	if err != nil && !lasts(err) {
		s.mu.Unlock()
		return err
	}
	g.index = slices.DeleteFunc(index, func(e entry) bool { return g.fate[e.ord] != 0 })
	for _, sh := range g.routes {
		sh.cursor = 0
	}
	s.touch(g)
	s.boundIndexes()
	ids, lost := g.lose(g.index, s.takenOf(g))
	g.damaged = g.damaged || lost != nil
	s.mu.Unlock()
	if lost != nil {
		s.o.Logger.Error("spooled payloads are gone or unreadable", "file", g.name, "batches", len(ids), "records", lost.Records, "err", err)
		s.o.OnLost(ids, lost)
		s.poke()
	}
	return nil
}

// maxIndexed is how many payloads are in the indexes of segments that are not
// being written, where there is more than one of these.
const maxIndexed = 64 << 10

// touch notes that the index of a segment is in use. Needs mu.
func (s *Spool) touch(g *segment) {
	s.turns++
	g.used = s.turns
}

// boundIndexes lets the indexes go that were not used for the longest time. They
// are read again when they are needed. Needs mu.
func (s *Spool) boundIndexes() {
	total := 0
	var loaded []*segment
	for _, g := range s.segments[:max(len(s.segments)-1, 0)] { // the last one may be being written
		if g.index != nil {
			loaded = append(loaded, g)
			total += len(g.index)
		}
	}
	slices.SortFunc(loaded, func(a, b *segment) int { return cmp.Compare(a.used, b.used) })
	for len(loaded) > 1 && total > maxIndexed {
		total -= len(loaded[0].index)
		loaded[0].index = nil
		loaded = loaded[1:]
	}
}

// patiently makes a call that reads from the disk, and goes on without it where it
// takes longer than Options.Stall. Until that has ended no other one is made.
func patiently[T any](s *Spool, call func() (T, error)) (got T, err error) {
	s.mu.Lock()
	hung := s.hung > 0
	s.mu.Unlock()
	if hung {
		return got, record.ErrStalled
	}
	type answer struct {
		got T
		err error
	}
	done := make(chan answer, 1)
	go func() { // started here, ends when the disk answers; waited for until Stall
		got, err := call()
		done <- answer{got, err}
	}()
	timer := time.NewTimer(s.o.Stall)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.got, a.err
	case <-timer.C:
	}
	if s.hangers(1) == 1 {
		s.o.Logger.Error("spool cannot be read: its disk does not answer; what lies there waits", "folder", s.dir, "fix", "see to that disk")
	}
	go func() { // started here, ends when the disk answers; nobody waits for it
		<-done
		if s.hangers(-1) == 0 {
			s.o.Logger.Info("spool can be read again")
		}
	}()
	return got, record.ErrStalled
}

// hangers counts the readers that wait for a disk that does not answer.
func (s *Spool) hangers(more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung += more
	return s.hung
}

// readPatiently reads a payload that is given out.
func (s *Spool) readPatiently(t *taken) (*record.Payload, error) {
	e := t.entry
	return patiently(s, func() (*record.Payload, error) { return s.read(t.seg, &e) })
}

// read returns a payload with its body. With errBody it is without, and with
// another error there is none.
func (s *Spool) read(g *segment, e *entry) (*record.Payload, error) {
	f, err := s.o.FS.Open(s.path(g.name), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFrame(f, e.at, e.size, e.id)
}

// readFrame reads the payload of the given id from its frame, of which the
// place is known. The frame is laid out as package durable says.
func readFrame(f io.ReaderAt, at, size int64, id record.BatchID) (*record.Payload, error) {
	b := make([]byte, size)
	n, err := f.ReadAt(b, at)
	if int64(n) < size && err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read spooled payload: %w", err)
	}
	meta, body, ok := cut(b[:n])
	if !ok {
		return nil, fmt.Errorf("read spooled payload: %w", durable.ErrDamaged)
	}
	p, _, err := decodeMeta(meta)
	if err != nil || p.ID != id {
		return nil, fmt.Errorf("read spooled payload: %w", errors.Join(err, durable.ErrDamaged))
	}
	own(p)
	if body == nil {
		return p, errBody
	}
	p.Body = body
	return p, nil
}

// cut takes meta and body out of a frame. It is not ok where the meta is
// damaged; the body is nil where that is.
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

// checked returns n bytes at off if the checksum behind them is theirs.
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
