package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/record"
)

// errUnknown marks an entry that this version cannot read and may not skip.
var errUnknown = fmt.Errorf("entry of an unknown type: %w; run that version, or move the journal away to have everything sent again", durable.ErrVersion)

// errMalformed marks an entry whose checksum is right and whose content is not:
// a bug of whoever wrote it.
var errMalformed = errors.New("entry malformed")

// decode reads the entry of a frame. It returns nil for one that this version
// does not know and may skip.
func decode(f *durable.Found) (*Entry, error) {
	if f.Type == 0 || Kind(f.Type) > knownKind || len(f.Meta) == 0 || f.Meta[0] != version {
		if f.Flags&durable.Optional != 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("type %d at offset %d: %w", f.Type, f.Offset, errUnknown)
	}
	e := &Entry{Kind: Kind(f.Type), Number: f.Record}
	r := &decoder{b: f.Meta[1:]}
	e.At = time.Unix(0, r.int())
	r.entry(e)
	if r.bad {
		return nil, fmt.Errorf("%s at offset %d: %w", e.Kind, f.Offset, errMalformed)
	}
	return e, nil
}

// decoder reads what encoder wrote. After the first thing that does not fit,
// bad is set and all values are zero.
type decoder struct {
	b   []byte
	bad bool
}

func (r *decoder) fail() { r.b, r.bad = nil, true }

func (r *decoder) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *decoder) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// take returns the next n bytes of the frame, which are not copied.
func (r *decoder) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// count reads how many things follow that take at least size bytes each, so
// that a wrong count allocates nothing.
func (r *decoder) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *decoder) fixed() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *decoder) small(limit uint64) int {
	v := r.uint()
	if v > limit {
		r.fail()
		return 0
	}
	return int(v)
}

func (r *decoder) string() string          { return string(r.take(r.uint())) }
func (r *decoder) bool() bool              { b := r.take(1); return len(b) == 1 && b[0] != 0 }
func (r *decoder) id() (id record.BatchID) { copy(id[:], r.take(16)); return id }
func (r *decoder) file() (f record.File) {
	f.Input = r.string()
	f.ID = record.FileID(r.fixed())
	f.Generation = uint32(r.small(math.MaxUint32))
	return f
}

func (r *decoder) span(last int64) record.Span {
	s := record.Span{Start: last + r.int()}
	s.End = s.Start + r.int()
	if s.Start < 0 || s.End < s.Start {
		r.fail()
	}
	return s
}

func (r *decoder) entry(e *Entry) {
	switch e.Kind {
	case Snapshot:
		e.Count, e.BootID = r.uint(), r.string()
	case Input:
		e.Input = r.string()
	case FileSeen:
		e.File = r.file()
		r.info(&e.Info)
	case Begin:
		b := r.payload()
		e.Payload, e.HadLens, e.Batch, e.Attempt = &b.Payload, b.HadLens, b.ID, b.Payload.Attempt
	case Attempt:
		e.Batch, e.Attempt = r.id(), r.small(math.MaxInt32)
	case End:
		e.Batch = r.id()
		if b := r.take(1); b != nil {
			e.Outcome = record.Outcome(b[0])
		}
	case Skip:
		e.File, e.Span, e.Mark = r.file(), r.span(0), record.Mark(r.fixed())
	case Position:
		e.File, e.Span.End, e.Mark = r.file(), r.int(), record.Mark(r.fixed())
	case Split:
		e.Batch = r.id()
		for range r.count(32) {
			e.Children = append(e.Children, r.payload())
		}
	case Forget:
		e.File = r.file()
	}
}

func (r *decoder) info(i *record.FileInfo) {
	i.Path, i.First = r.string(), r.string()
	i.Dev, i.Inode, i.Birth = r.uint(), r.uint(), r.int()
	known, handle := r.bool(), r.take(r.uint())
	if known {
		i.Handle = append([]byte{}, handle...)
	}
	i.Size = r.int()
	i.Head = record.Head{Len: r.small(math.MaxInt32), Sum: r.fixed()}
	i.Encoding, i.Done = r.string(), r.bool()
}

func (r *decoder) payload() (p Begun) {
	p.ID, p.Replaces, p.Attempt = r.id(), r.id(), r.small(math.MaxInt32)
	p.Route = record.Route{Cluster: r.string(), Database: r.string(), Table: r.string(),
		Format: record.Format(r.string()), Mapping: r.string()}
	p.Records, p.Gzip, p.HadLens, p.RawBytes = int(r.int()), r.bool(), r.bool(), int(r.int())
	p.CRC, p.Shaping = uint32(r.small(math.MaxUint32)), r.fixed()
	if r.bool() {
		p.ReadAt = time.Unix(0, r.int())
	}
	files := make([]record.File, r.count(10))
	for i := range files {
		files[i] = r.file()
	}
	last := make([]int64, len(files))
	for range r.count(11) {
		i := r.index(files)
		if i < 0 {
			return p
		}
		c := record.Extent{File: files[i], Span: r.span(last[i]), Mark: record.Mark(r.fixed())}
		last[i] = c.End
		p.Cover = append(p.Cover, c)
	}
	clear(last)
	for range r.count(4) {
		i := r.index(files)
		if i < 0 {
			return p
		}
		c := record.Piece{File: files[i], Span: r.span(last[i]), Records: int(r.int())}
		last[i] = c.End
		p.Pieces = append(p.Pieces, c)
	}
	return p
}

// index reads a place in the table of files; -1 where there is none.
func (r *decoder) index(files []record.File) int {
	i := r.uint()
	if i >= uint64(len(files)) {
		r.fail()
		return -1
	}
	return int(i)
}
