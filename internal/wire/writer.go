// Package wire promises one binary form of the shared words for every store: what
// a Writer wrote any Reader reads back the same, and no bytes, however damaged,
// make a Reader panic or allocate more than a small multiple of their own length.
//
// Numbers are unsigned varints, zigzag varints where they may be negative, eight
// little-endian bytes where they are random; strings come with their length.
// The form of each word never changes: a store that needs another one raises
// the version it writes before its words.
package wire

import (
	"encoding/binary"

	"kusto-agent/internal/record"
)

// Writer appends words to B. The zero value is ready for use.
type Writer struct{ B []byte }

// Uint appends an unsigned varint.
func (w *Writer) Uint(v uint64) { w.B = binary.AppendUvarint(w.B, v) }

// Int appends a zigzag varint.
func (w *Writer) Int(v int64) { w.B = binary.AppendVarint(w.B, v) }

// Fixed appends eight bytes, for numbers that are as random as a hash.
func (w *Writer) Fixed(v uint64) { w.B = binary.LittleEndian.AppendUint64(w.B, v) }

// Bytes appends v with its length.
func (w *Writer) Bytes(v []byte) { w.Uint(uint64(len(v))); w.B = append(w.B, v...) }

// String appends v with its length.
func (w *Writer) String(v string) { w.Uint(uint64(len(v))); w.B = append(w.B, v...) }

// Byte appends one byte as it is.
func (w *Writer) Byte(v byte) { w.B = append(w.B, v) }

// Bool appends one byte: 1 for true, 0 for false.
func (w *Writer) Bool(v bool) {
	if v {
		w.Byte(1)
	} else {
		w.Byte(0)
	}
}

// ID appends the sixteen bytes of a batch id.
func (w *Writer) ID(id record.BatchID) { w.B = append(w.B, id[:]...) }

// File appends what identifies one generation of a file (what it holds until it is truncated or
// rewritten): the input, the id of the file and the number of the generation.
func (w *Writer) File(f record.File) {
	w.String(f.Input)
	w.Fixed(uint64(f.ID))
	w.Uint(uint64(f.Generation))
}

// Span appends a range as the distance of its start from last and its length. last is the end of
// the range before, so that the distance mostly is 0 and takes one byte.
func (w *Writer) Span(s record.Span, last int64) {
	w.Int(s.Start - last)
	w.Int(s.Len())
}

// Payload appends everything of p but Body and Lens; hadLens says whether the payload has a Lens,
// as Reader.Payload will return it. The ranges come last and are small: a piece takes about six
// bytes.
func (w *Writer) Payload(p *record.Payload, hadLens bool) {
	w.ID(p.ID)
	w.ID(p.Replaces)
	w.Uint(uint64(p.Attempt))
	for _, s := range []string{p.Route.Cluster, p.Route.Database, p.Route.Table, string(p.Route.Format), p.Route.Mapping} {
		w.String(s)
	}
	w.Int(int64(p.Records))
	w.Bool(p.Gzip)
	w.Bool(hadLens)
	w.Int(int64(p.RawBytes))
	w.Uint(uint64(p.CRC))
	w.Fixed(p.Shaping)
	w.Bool(!p.ReadAt.IsZero())
	if !p.ReadAt.IsZero() {
		w.Int(p.ReadAt.UnixNano())
	}
	w.ranges(p)
}

// ranges appends the ranges of a payload: first a table of the files, then the extents of Cover and
// the pieces, which name a file by its index in the table. Each range is relative to the end of the
// previous one of the same file, at first to 0.
func (w *Writer) ranges(p *record.Payload) {
	files, index := filesOf(p)
	w.Uint(uint64(len(files)))
	for _, f := range files {
		w.File(f)
	}
	last := make([]int64, len(files))
	w.Uint(uint64(len(p.Cover)))
	for _, c := range p.Cover {
		w.place(index[c.File], c.Span, last)
		w.Fixed(uint64(c.Mark))
	}
	clear(last)
	w.Uint(uint64(len(p.Pieces)))
	for _, c := range p.Pieces {
		w.place(index[c.File], c.Span, last)
		w.Int(int64(c.Records))
	}
}

// place appends the index of the file of a range, and the range.
func (w *Writer) place(file int, s record.Span, last []int64) {
	w.Uint(uint64(file))
	w.Span(s, last[file])
	last[file] = s.End
}

// filesOf returns the files that the ranges of a payload are in, each once, and the index of each
// in that list.
func filesOf(p *record.Payload) (files []record.File, index map[record.File]int) {
	index = map[record.File]int{}
	add := func(f record.File) {
		if _, known := index[f]; !known {
			index[f] = len(files)
			files = append(files, f)
		}
	}
	for _, c := range p.Cover {
		add(c.File)
	}
	for _, c := range p.Pieces {
		add(c.File)
	}
	return files, index
}
