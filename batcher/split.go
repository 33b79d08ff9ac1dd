package batcher

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// fallback serves a route that is no longer configured but has payloads left.
var fallback = Limits{MaxBytes: 4e6, MaxWait: time.Second, Gzip: true, Level: 1}

// Pack compresses raw as the body of p and charges its memory; the caller must call Release later. It
// is for payloads that do not come from a reader: halves of a refused payload and payloads that are
// read again. If p replaces a batch whose id is in a field of its records, the id of p is written over
// it within raw.
func (b *Batcher) Pack(p *record.Payload, raw ...[]byte) {
	b.Fill(p, raw...)
	b.Adopt(p)
}

// Fill compresses raw as the body of p, but does not count the body against the memory limit; Pack and
// Adopt do. If p replaces a batch whose id is in a field of its records, the id of p is written over it
// within raw.
func (b *Batcher) Fill(p *record.Payload, raw ...[]byte) {
	if p.Replaces != (record.BatchID{}) && p.Lens != nil { // records with added fields always have Lens
		for _, part := range raw {
			restamp(part, p.Replaces, p.ID)
		}
	}
	b.mu.Lock()
	limits := b.lane(p.Route).Limits
	b.mu.Unlock()
	b.pack(p, limits, raw...)
}

// Adopt charges the memory of a payload that has its body already, and counts it among those of
// its route; the caller must call Release later.
func (b *Batcher) Adopt(p *record.Payload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ln := b.lane(p.Route)
	ln.held++
	b.take(ln, weight(p))
}

// lane returns the state of a route. If there is none, it makes one with the default limits. The
// caller holds mu.
func (b *Batcher) lane(r record.Route) *lane {
	ln := b.lanes[r]
	if ln == nil {
		ln = &lane{Limits: fallback, route: r}
		spec, _ := format.Of(r.Format)
		ln.Gzip = !spec.Compressed // Avro is compressed inside
		b.lanes[r] = ln
	}
	return ln
}

// Split returns two payloads with half of the records of p each, with ids, pieces and covers of their
// own. It fails with record.ErrWhole if all records are in one block that cannot be divided. If the
// batch id is in a field of the records, each half has its own id there, so that a row names the batch
// that stored it. p is unchanged; the caller must release it.
func (b *Batcher) Split(p *record.Payload) ([]*record.Payload, error) {
	if p.Records < 2 {
		return nil, fmt.Errorf("split batch %v: it has %s", p.ID, units.Counted(p.Records, "record"))
	}
	b.dividing.Lock()
	defer b.dividing.Unlock()
	raw, err := Raw(p)
	if err != nil {
		return nil, err
	}
	w, err := walk(p, raw)
	if err != nil {
		return nil, err
	}
	// To the middle, but not over the last block: the right half must not be empty.
	for more := true; more; more = w.n < p.Records/2 && !w.atLastBlock() {
		if _, err := w.next(); err != nil {
			return nil, err
		}
	}
	if w.at == len(raw) {
		return nil, fmt.Errorf("split batch %v: %w", p.ID, record.ErrWhole)
	}
	left, right := w.cut()
	for _, h := range []*half{left, right} {
		h.ID = record.BatchID(uuid.New())
		h.Route, h.Shaping, h.ReadAt = p.Route, p.Shaping, p.ReadAt
		if p.Lens != nil {
			restamp(h.raw, p.ID, h.ID)
		}
		b.Pack(&h.Payload, raw[:w.prefix], h.raw)
	}
	return []*record.Payload{&left.Payload, &right.Payload}, nil
}

// Record is one record of a payload, or one block of them in Avro, and where it
// came from.
type Record struct {
	File   record.File
	Offset int64  // of its first byte in the file
	Length int64  // in the file, its line end included
	Data   []byte // as in the file; of a payload that is reshaped, as in the body
	Header []byte // of the Avro file that the block is of, else empty
}

// Records returns the records of a payload one by one, each with its range in its file. It fails
// if the body cannot be decompressed, or has fewer records than the payload says.
func Records(p *record.Payload) ([]Record, error) {
	raw, err := Raw(p)
	if err != nil {
		return nil, err
	}
	w, err := walk(p, raw)
	if err != nil {
		return nil, err
	}
	recs := make([]Record, 0, p.Records)
	for w.n < p.Records {
		r, err := w.next()
		if err != nil {
			return nil, err
		}
		recs = append(recs, r)
	}
	return recs, nil
}

// walker goes through a body record by record and keeps the place in the
// pieces in step.
type walker struct {
	p    *record.Payload
	raw  []byte
	scan *format.Scanner

	prefix int // bytes of raw before its first record
	n      int // records passed
	at     int // offset in raw
	lens   int // offset in p.Lens
	piece  int // index of the piece at hand
	src    int64
	taken  int // records of that piece passed

	before []byte // of the file, up to src: as much as a mark covers, or since a gap
}

// walk returns a walker, which goes through the records of a payload, at its first record. raw is
// the body before gzip.
func walk(p *record.Payload, raw []byte) (*walker, error) {
	if len(p.Pieces) == 0 {
		return nil, fmt.Errorf("batch %v has no pieces", p.ID)
	}
	s, err := format.New(format.Options{Format: p.Route.Format, MaxRecord: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	prefix := s.PrefixLen(raw)
	return &walker{p: p, raw: raw, scan: s, prefix: prefix, at: prefix, src: p.Pieces[0].Start}, nil
}

// atLastBlock reports whether the payload cannot be divided after the current record, because
// what is left is one unit: one Avro block, or records that were made of the same lines.
func (w *walker) atLastBlock() bool {
	if rest := w.raw[w.at:]; w.prefix > 0 {
		return w.scan.Split(rest, 1) == len(rest)
	}
	if w.p.Lens == nil { // each record has lines of its own
		return false
	}
	// A length of 0 says that the next record is of the same lines.
	lens := bytes.TrimLeft(w.p.Lens[w.lens:], "\x00")
	_, k := binary.Uvarint(lens)
	return k == len(lens)
}

// next advances over one record and returns it; if records cannot be told apart, over a whole
// Avro block, or over all records that were made of the same lines.
func (w *walker) next() (Record, error) {
	if here := w.p.Pieces[w.piece]; w.src == here.End && w.piece+1 < len(w.p.Pieces) {
		w.piece++
		next := w.p.Pieces[w.piece]
		if next.File != here.File || next.Start != here.End {
			w.before = w.before[:0]
		}
		w.src, w.taken = next.Start, 0
	}
	size := w.scan.Split(w.raw[w.at:], 1)
	if size <= 0 {
		return Record{}, fmt.Errorf("batch %v: body ends after %d of %s", w.p.ID, w.n, units.Counted(w.p.Records, "record"))
	}
	length, records := int64(size), 1
	// Lens has a length in the file for each record; 0: the next record is of the same lines.
	for passed := false; w.p.Lens != nil && !passed; {
		v, k := binary.Uvarint(w.p.Lens[w.lens:])
		if k <= 0 {
			return Record{}, fmt.Errorf("batch %v: record %d has no length", w.p.ID, w.n)
		}
		length, w.lens = int64(v), w.lens+k
		if passed = v > 0; !passed {
			size += w.scan.Split(w.raw[w.at+size:], 1)
			records++
		}
	}
	rec := w.raw[w.at : w.at+size]
	if w.prefix > 0 {
		records = w.scan.Count(rec)
	}
	r := Record{File: w.p.Pieces[w.piece].File, Offset: w.src, Length: length, Data: rec, Header: w.raw[:w.prefix]}
	if w.p.Shaping&record.Reshaped == 0 { // the record in its file can be derived from that in the body
		r.Data = w.scan.Source(rec, int(length))
		w.before = append(w.before, r.Data...)
		w.before = w.before[max(0, len(w.before)-record.MarkLen):]
	}
	w.at += size
	w.src += length
	w.n += records
	w.taken += records
	return r, nil
}

// mark returns the hash of the bytes before the current place in the file, by which that place is
// recognized later; 0: too few of those bytes are in the payload.
func (w *walker) mark() record.Mark {
	if int64(len(w.before)) < min(w.src, record.MarkLen) {
		return 0
	}
	return record.Mark(max(xxhash.Sum64(w.before), 1))
}

// half is one side of a split, before its body is compressed.
type half struct {
	record.Payload
	raw []byte // the body, but for its prefix
}

// cut divides the payload after the current record. Each half gets its part of the body, which
// still has to be compressed, and the records, ranges and lengths that belong to it.
func (w *walker) cut() (left, right *half) {
	p, here := w.p, w.p.Pieces[w.piece]
	left, right = &half{raw: w.raw[w.prefix:w.at]}, &half{raw: w.raw[w.at:]}
	left.Records, right.Records = w.n, p.Records-w.n
	left.Pieces = append(left.Pieces, p.Pieces[:w.piece]...)
	left.Pieces = append(left.Pieces, record.Piece{File: here.File, Span: record.Span{Start: here.Start, End: w.src}, Records: w.taken})
	if w.src < here.End {
		right.Pieces = append(right.Pieces, record.Piece{File: here.File, Span: record.Span{Start: w.src, End: here.End}, Records: here.Records - w.taken})
	}
	right.Pieces = append(right.Pieces, p.Pieces[w.piece+1:]...)
	if p.Lens != nil {
		left.Lens, right.Lens = p.Lens[:w.lens:w.lens], p.Lens[w.lens:]
	}
	left.Cover, right.Cover = divide(p.Cover, right.Pieces)
	for i := range left.Cover {
		if x := &left.Cover[i]; x.File == here.File && x.End == w.src {
			x.Mark = w.mark()
		}
	}
	return left, right
}

// divide splits a cover, the ranges that are done with when a payload is, at the place where, in
// each file, the pieces of the right half begin. Ranges of files without such a piece go to the
// left half (l).
func divide(cover []record.Extent, right []record.Piece) (l, r []record.Extent) {
	first := make(map[record.File]int64)
	for _, p := range right {
		if _, ok := first[p.File]; !ok {
			first[p.File] = p.Start
		}
	}
	for _, x := range cover {
		cut, ok := first[x.File]
		switch {
		case !ok || x.End <= cut:
			l = append(l, x)
		case x.Start >= cut:
			r = append(r, x)
		default:
			l = append(l, record.Extent{File: x.File, Span: record.Span{Start: x.Start, End: cut}})
			r = append(r, record.Extent{File: x.File, Span: record.Span{Start: cut, End: x.End}, Mark: x.Mark})
		}
	}
	return l, r
}
