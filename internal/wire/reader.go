package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"kusto-agent/internal/record"
)

// Reader takes the words that a Writer appended from the front of B, in the same
// order. After the first thing that does not fit, Bad is set and all values are
// zero. Nothing is returned that keeps B alive but what Take and Bytes return.
type Reader struct {
	B   []byte
	Bad bool

	// Words are the strings read so far, where there is a map: of those that come again
	// there is one copy. It is for whoever reads millions of entries that name few things.
	Words map[string]string

	files []record.File // of the payload read last
	last  []int64
}

// maxWords bounds what Words holds, for what is read may be anybody's.
const maxWords = 1 << 16

// Fail sets Bad: what was read makes no sense to the caller.
func (r *Reader) Fail() { r.B, r.Bad = nil, true }

// Uint reads an unsigned varint. If there is none at the front of the data, it returns 0 and sets
// Bad.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Int reads a zigzag varint. If there is none at the front of the data, it returns 0 and sets Bad.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Take returns the next n bytes: a part of r.B, not a copy. If fewer are left it returns nil and
// sets Bad.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.B)) {
		r.Fail()
		return nil
	}
	v := r.B[:n]
	r.B = r.B[n:]
	return v
}

// Count reads the number of entries of a list that follows. size is the least number of bytes of an
// entry: for a number of entries that cannot fit in the rest of the data, Count returns 0 and sets
// Bad. So the caller can allocate the list, whatever a damaged file says.
func (r *Reader) Count(size int) int {
	n := r.Uint()
	if n > uint64(len(r.B)/size) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Fixed reads a number of eight bytes, little-endian. At the end of the data it returns 0 and sets
// Bad.
func (r *Reader) Fixed() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Small reads an unsigned varint that must not exceed limit. If it does, or if there is none, it
// returns 0 and sets Bad.
func (r *Reader) Small(limit uint64) int {
	v := r.Uint()
	if v > limit {
		r.Fail()
		return 0
	}
	return int(v)
}

// Bytes reads bytes with their length, which are not copied.
func (r *Reader) Bytes() []byte { return r.Take(r.Uint()) }

// String reads a string that its length precedes. If r.Words is not nil, equal strings share one
// copy, which is kept there; the map is emptied when it is full. At the end of the data it returns
// "" and sets Bad.
func (r *Reader) String() string {
	b := r.Bytes()
	if r.Words == nil {
		return string(b)
	}
	if s, known := r.Words[string(b)]; known {
		return s
	}
	s := string(b)
	if len(r.Words) >= maxWords {
		clear(r.Words)
	}
	r.Words[s] = s
	return s
}

// Byte reads one byte. At the end of the data it returns 0 and sets Bad.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Bool reads one byte.
func (r *Reader) Bool() bool { return r.Byte() != 0 }

// ID reads a batch id.
func (r *Reader) ID() (id record.BatchID) { copy(id[:], r.Take(16)); return id }

// File reads what identifies one generation of a file (what it holds until it is truncated or
// rewritten): the input, the id of the file and the number of the generation. Bad says afterwards
// if it was damaged.
func (r *Reader) File() (f record.File) {
	f.Input = r.String()
	f.ID = record.FileID(r.Fixed())
	f.Generation = uint32(r.Small(math.MaxUint32))
	return f
}

// Span reads a range of byte offsets, which is stored as the distance of its start from last, and
// its length. Writer.Span wrote it with the same last. A range below 0 or with a negative length
// sets Bad.
func (r *Reader) Span(last int64) record.Span {
	s := record.Span{Start: last + r.Int()}
	s.End = s.Start + r.Int()
	if s.Start < 0 || s.End < s.Start {
		r.Fail()
	}
	return s
}

// Payload reads a payload without its Body and Lens. hadLens says that the payload that was written
// had a Lens. If r.Bad is set afterwards, the result is of no use.
func (r *Reader) Payload() (p record.Payload, hadLens bool) {
	hadLens = r.PayloadInto(&p)
	return p, hadLens
}

// PayloadInto reads a payload, without Body and Lens, into p, whose Cover and Pieces it reuses to
// save allocations. hadLens says that the payload that was written had a Lens. If r.Bad is set
// afterwards, p is of no use.
func (r *Reader) PayloadInto(p *record.Payload) (hadLens bool) {
	*p = record.Payload{Cover: p.Cover[:0], Pieces: p.Pieces[:0]}
	p.ID, p.Replaces, p.Attempt = r.ID(), r.ID(), r.Small(math.MaxInt32)
	p.Route = record.Route{Cluster: r.String(), Database: r.String(), Table: r.String(),
		Format: record.Format(r.String()), Mapping: r.String()}
	p.Records, p.Gzip, hadLens, p.RawBytes = int(r.Int()), r.Bool(), r.Bool(), int(r.Int())
	p.CRC, p.Shaping = uint32(r.Small(math.MaxUint32)), r.Fixed()
	if r.Bool() {
		p.ReadAt = time.Unix(0, r.Int())
	}
	r.ranges(p)
	return hadLens
}

// ranges reads the ranges of a payload into p: first a table of the files, then the extents of
// Cover and the pieces, which name a file by its index in the table. Each range is relative to the
// end of the previous one of the same file. It stops when r.Bad is set.
func (r *Reader) ranges(p *record.Payload) {
	n := r.Count(10)
	r.files, r.last = slices.Grow(r.files[:0], n)[:n], slices.Grow(r.last[:0], n)[:n]
	for i := range r.files {
		r.files[i] = r.File()
	}
	clear(r.last)
	for n := r.Count(11); n > 0 && !r.Bad; n-- { // an extent takes 11 bytes at least
		f, s := r.place()
		p.Cover = append(p.Cover, record.Extent{File: f, Span: s, Mark: record.Mark(r.Fixed())})
	}
	clear(r.last)
	for n := r.Count(4); n > 0 && !r.Bad; n-- { // a piece takes 4 bytes at least
		f, s := r.place()
		p.Pieces = append(p.Pieces, record.Piece{File: f, Span: s, Records: int(r.Int())})
	}
}

// place reads the file of a range, by its index in the table, and the range. An index out of the
// table sets Bad.
func (r *Reader) place() (f record.File, s record.Span) {
	i := r.Uint()
	if i >= uint64(len(r.files)) {
		r.Fail()
		return f, s
	}
	s = r.Span(r.last[i])
	r.last[i] = s.End
	return r.files[i], s
}
