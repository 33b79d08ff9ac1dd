package batcher

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"kusto-agent/internal/record"
)

// original is one file and its records as they are there, with what lies between
// them and is not sent.
type original struct {
	file record.File
	data []byte
}

// made is a payload with what it was made of.
type made struct {
	*record.Payload
	files   map[record.File]*original
	records []Record // in the order of the body
	raw     []byte
}

var texts = map[record.Format][]string{
	record.JSON:  {`{}`, `{"a":"\n"}`, `{"a":1,"b":"xy"}`},
	record.TXT:   {`x`, `some words`, `"`, `a,b`},
	record.CSV:   {`a,b`, `"quoted` + "\n" + `line",b`, `"two "" quotes",`, `,`},
	record.TSV:   {"a\tb", "\"quoted\nline\"\tb"},
	record.SCsv:  {"a;b", "\"quoted\nline\";b"},
	record.SOHsv: {"a\x01b", "\"quoted\nline\"\x01b"},
	record.PSV:   {"a|b", "\"quoted\nline\"|b"},
}

// drawPayload makes a payload of records of up to three files, some with gaps
// between them, for text with line ends that shaping changes.
func drawPayload(t *rapid.T) made {
	formats := []record.Format{record.JSON, record.TXT, record.CSV, record.TSV, record.SCsv, record.SOHsv, record.PSV}
	f := rapid.SampledFrom(formats).Draw(t, "format")
	shaped := f == record.TXT && rapid.Bool().Draw(t, "shaped")
	m := made{files: make(map[record.File]*original)}
	p := &record.Payload{Route: record.Route{Table: "t", Format: f}, Gzip: true, Shaping: 6, ReadAt: time.Unix(1, 0), ID: record.BatchID{1}}
	blk := &block{}
	for range rapid.IntRange(1, 40).Draw(t, "runs") {
		id := record.File{Input: "in", ID: record.FileID(rapid.IntRange(1, 3).Draw(t, "file"))}
		src := m.files[id]
		if src == nil {
			src = &original{file: id}
			m.files[id] = src
		}
		c := &record.Chunk{Cover: record.Extent{File: id, Span: record.Span{Start: int64(len(src.data))}}, ReadAt: p.ReadAt}
		for range rapid.IntRange(1, 5).Draw(t, "records") {
			if rapid.IntRange(0, 3).Draw(t, "gap") == 0 {
				src.data = append(src.data, "\n\n"...)
			}
			text := rapid.SampledFrom(texts[f]).Draw(t, "text")
			end := "\n"
			if shaped {
				end = rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
			}
			rec := Record{File: id, Offset: int64(len(src.data)), Length: int64(len(text) + len(end)), Data: []byte(text + end)}
			src.data = append(src.data, rec.Data...)
			m.records = append(m.records, rec)
			c.Body = append(append(c.Body, text...), '\n')
			if shaped {
				c.Lens = binary.AppendUvarint(c.Lens, uint64(rec.Length))
			}
			if n := len(c.Pieces); n > 0 && c.Pieces[n-1].End == rec.Offset {
				c.Pieces[n-1].End = int64(len(src.data))
				c.Pieces[n-1].Records++
			} else {
				c.Pieces = append(c.Pieces, record.Piece{File: id, Span: record.Span{Start: rec.Offset, End: int64(len(src.data))}, Records: 1})
			}
			c.Records++
		}
		c.Cover.End, c.Cover.Mark = int64(len(src.data)), markOf(src.data)
		m.raw = append(m.raw, c.Body...)
		blk.note(c)
	}
	p.Cover, p.Pieces, p.Records, p.Lens = blk.cover, blk.pieces, blk.records, blk.lens
	m.Payload = p
	return m
}

// TestRecords: each record of a payload is found where it is in its file.
func TestRecords(t *testing.T) {
	b := New(Options{Routes: map[record.Route]Limits{}, Memory: 1 << 30})
	rapid.Check(t, func(t *rapid.T) {
		m := drawPayload(t)
		b.Pack(m.Payload, m.raw)
		got, err := Records(m.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(m.records) {
			t.Fatalf("records are\n%v; want\n%v", got, m.records)
		}
		b.Release(m.Payload)
		if b.used() != 0 {
			t.Fatalf("%d bytes are held", b.used())
		}
	})
}

// TestSplit: the halves of a payload hold its records in order, their covers
// part its cover without a gap or an overlap, and each half is sound by itself.
func TestSplit(t *testing.T) {
	b := New(Options{Routes: map[record.Route]Limits{}, Memory: 1 << 30})
	rapid.Check(t, func(t *rapid.T) {
		m := drawPayload(t)
		b.Pack(m.Payload, m.raw)
		left := []*record.Payload{m.Payload}
		var singles []Record
		for len(left) > 0 {
			p := left[0]
			left = left[1:]
			if p.Records == 1 {
				if _, err := b.Split(p); err == nil {
					t.Fatal("a payload of one record was split")
				}
				recs, err := Records(p)
				if err != nil {
					t.Fatal(err)
				}
				singles = append(singles, recs...)
				b.Release(p)
				continue
			}
			halves, err := b.Split(p)
			if err != nil {
				t.Fatal(err)
			}
			checkHalves(t, p, halves)
			checkMarks(t, m, halves)
			b.Release(p)
			left = append(halves, left...)
		}
		if fmt.Sprint(singles) != fmt.Sprint(m.records) {
			t.Fatalf("records are\n%v; want\n%v", singles, m.records)
		}
		if b.used() != 0 {
			t.Fatalf("%d bytes are held", b.used())
		}
	})
}

func checkHalves(t *rapid.T, p *record.Payload, halves []*record.Payload) {
	whole, err := Raw(p)
	if err != nil {
		t.Fatal(err)
	}
	var joined []byte
	records := 0
	bytes := make(map[record.File]int64)
	ends := make(map[record.File]int64)
	for _, h := range halves {
		raw, err := Raw(h)
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, raw...)
		records += h.Records
		inPieces := 0
		for _, piece := range h.Pieces {
			inPieces += piece.Records
			if piece.Len() <= 0 || piece.Records <= 0 {
				t.Fatalf("empty piece %v", piece)
			}
			if !covered(piece, h.Cover) {
				t.Fatalf("piece %v is not covered by %v", piece, h.Cover)
			}
		}
		if inPieces != h.Records || h.Records == 0 {
			t.Fatalf("%d records, %d in pieces", h.Records, inPieces)
		}
		for _, x := range h.Cover {
			if x.Len() <= 0 || x.Start < ends[x.File] {
				t.Fatalf("cover %v is empty or overlaps", x)
			}
			ends[x.File] = x.End
			bytes[x.File] += x.Len()
		}
		if h.ID == p.ID || h.ID == (record.BatchID{}) || h.Route != p.Route || h.Shaping != p.Shaping || !h.ReadAt.Equal(p.ReadAt) {
			t.Fatalf("half is %+v", h)
		}
	}
	for _, x := range p.Cover {
		bytes[x.File] -= x.Len()
	}
	for f, n := range bytes {
		if n != 0 {
			t.Fatalf("cover of %v differs by %d bytes", f, n)
		}
	}
	if string(joined) != string(whole) || records != p.Records || halves[0].Records != p.Records/2 {
		t.Fatalf("halves of %d and %d records hold %q; want %q", halves[0].Records, halves[1].Records, joined, whole)
	}
}

func markOf(b []byte) record.Mark {
	return record.Mark(xxhash.Sum64(b[max(0, len(b)-record.MarkLen):]))
}

// checkMarks: a mark is right or not known, and it is known where one file was
// split within a range.
func checkMarks(t *rapid.T, m made, halves []*record.Payload) {
	for i, h := range halves {
		last := h.Pieces[len(h.Pieces)-1]
		for _, x := range h.Cover {
			data := m.files[x.File].data
			want := markOf(data[:x.End])
			if x.Mark != want && x.Mark != 0 {
				t.Fatalf("mark of %v is wrong", x)
			}
			if i == 0 && x.Mark == 0 && x.File == last.File && x.End == last.End && last.Len() >= min(x.End, record.MarkLen) {
				t.Fatalf("mark of %v is not known", x)
			}
		}
	}
}

func covered(p record.Piece, cover []record.Extent) bool {
	for _, x := range cover {
		if x.File == p.File && x.Start <= p.Start && p.End <= x.End {
			return true
		}
	}
	return false
}
