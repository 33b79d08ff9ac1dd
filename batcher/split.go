package batcher

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"kusto-agent/format"
	"kusto-agent/record"
)

// fallback serves a route that is no longer configured but has payloads left.
var fallback = Limits{MaxBytes: 4e6, MaxWait: time.Second, Gzip: true, Level: 1}

// Pack gives p the body raw, which is what its pieces hold after shaping, and
// counts it as sealed: Release must follow. It is for payloads that do not
// come from reading: rebuilt ones, and the halves of a refused one.
func (b *Batcher) Pack(p *record.Payload, raw []byte) {
	b.Fill(p, raw)
	b.Adopt(p)
}

// Fill gives p the body raw like Pack, and does not count it.
func (b *Batcher) Fill(p *record.Payload, raw []byte) {
	b.mu.Lock()
	limits := b.lane(p.Route).Limits
	b.mu.Unlock()
	b.pack(p, raw, limits)
}

// Adopt counts a payload as sealed whose body is there already: Release must
// follow.
func (b *Batcher) Adopt(p *record.Payload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lane(p.Route).held++
	b.memory.used += int64(cap(p.Body))
}

// lane finds or makes what is known of a route. The caller holds mu.
func (b *Batcher) lane(r record.Route) *lane {
	ln := b.lanes[r]
	if ln == nil {
		ln = &lane{Limits: fallback}
		b.lanes[r] = ln
	}
	return ln
}

// Split makes two payloads of one that has at least two records, each with half
// of them and the cover that belongs to them. The parent is left as it is;
// Release it.
func (b *Batcher) Split(p *record.Payload) ([]*record.Payload, error) {
	if p.Records < 2 {
		return nil, fmt.Errorf("split batch %v: it has %d records", p.ID, p.Records)
	}
	raw, err := Raw(p)
	if err != nil {
		return nil, err
	}
	w, err := walk(p, raw)
	if err != nil {
		return nil, err
	}
	for w.n < p.Records/2 {
		if _, err := w.next(); err != nil {
			return nil, err
		}
	}
	left, right := w.cut()
	for _, h := range []*half{left, right} {
		h.ID = record.BatchID(uuid.New())
		h.Route, h.Shaping, h.ReadAt = p.Route, p.Shaping, p.ReadAt
		b.Pack(&h.Payload, h.raw)
	}
	return []*record.Payload{&left.Payload, &right.Payload}, nil
}

// Record is one record of a payload and where it came from.
type Record struct {
	File   record.File
	Offset int64  // of its first byte in the file
	Length int64  // in the file, its line end included
	Data   []byte // as in the file
}

// source undoes the shaping of a record that had length bytes in its file: a
// newline was added, or the CR before it taken away.
func source(data []byte, length int64) []byte {
	switch n := int64(len(data)); {
	case length < n:
		return data[:length]
	case length > n:
		return append(bytes.TrimSuffix(bytes.Clone(data), []byte("\n")), "\r\n"...)
	}
	return data
}

// Records takes a payload apart.
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

	n     int // records passed
	at    int // offset in raw
	lens  int // offset in p.Lens
	piece int // index of the piece at hand
	src   int64
	taken int // records of that piece passed

	before []byte // of the file, up to src: as much as a mark covers, or since a gap
}

func walk(p *record.Payload, raw []byte) (*walker, error) {
	if len(p.Pieces) == 0 {
		return nil, fmt.Errorf("batch %v has no pieces", p.ID)
	}
	s, err := format.New(format.Options{Format: p.Route.Format, MaxRecord: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	return &walker{p: p, raw: raw, scan: s, src: p.Pieces[0].Start}, nil
}

// next passes one record.
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
		return Record{}, fmt.Errorf("batch %v: body ends after %d of %d records", w.p.ID, w.n, w.p.Records)
	}
	length := int64(size)
	if w.p.Lens != nil {
		v, k := binary.Uvarint(w.p.Lens[w.lens:])
		if k <= 0 {
			return Record{}, fmt.Errorf("batch %v: record %d has no length", w.p.ID, w.n)
		}
		length, w.lens = int64(v), w.lens+k
	}
	r := Record{File: w.p.Pieces[w.piece].File, Offset: w.src, Length: length, Data: source(w.raw[w.at:w.at+size], length)}
	w.before = append(w.before, r.Data...)
	w.before = w.before[max(0, len(w.before)-record.MarkLen):]
	w.at += size
	w.src += length
	w.n++
	w.taken++
	return r, nil
}

// mark is that of the place behind the last record passed; 0 where the bytes
// before it are not all at hand.
func (w *walker) mark() record.Mark {
	if int64(len(w.before)) < min(w.src, record.MarkLen) {
		return 0
	}
	return record.Mark(max(xxhash.Sum64(w.before), 1))
}

// half is one side of a split, before its body is compressed.
type half struct {
	record.Payload
	raw []byte
}

// cut divides the payload behind the last record passed.
func (w *walker) cut() (left, right *half) {
	p, here := w.p, w.p.Pieces[w.piece]
	left, right = &half{raw: w.raw[:w.at]}, &half{raw: w.raw[w.at:]}
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

// divide splits a cover where, in each file, the first of the right pieces
// begins. What has no piece on the right stays left.
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
