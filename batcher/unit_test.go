package batcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
)

// reshaped is a payload whose records come in units of the same lines: as many
// records as each number says, of 10 bytes of a file a unit.
func reshaped(units ...int) *record.Payload {
	f := record.File{Input: "in", ID: 1}
	p := &record.Payload{Route: record.Route{Table: "t", Format: record.JSON}, Shaping: record.Reshaped, ReadAt: time.Unix(1, 0), ID: record.BatchID{1}}
	var body strings.Builder
	for _, n := range units {
		for i := range n {
			fmt.Fprintf(&body, "{\"n\":%d}\n", p.Records+i)
			length := uint64(0)
			if i == n-1 {
				length = 10
			}
			p.Lens = binary.AppendUvarint(p.Lens, length)
		}
		p.Records += n
	}
	span := record.Span{Start: 1000, End: 1000 + 10*int64(len(units))}
	p.Pieces = []record.Piece{{File: f, Span: span, Records: p.Records}}
	p.Cover = []record.Extent{{File: f, Span: span, Mark: 1}}
	p.Body, p.RawBytes, p.CRC = []byte(body.String()), body.Len(), Checksum([]byte(body.String()))
	return p
}

// Records of the same lines are never parted, and the others are.
func TestSplitUnits(t *testing.T) {
	b := New(Options{Routes: map[record.Route]Limits{}, Memory: 1 << 30})
	f := func(units []int, want string) {
		t.Helper()
		var got []string
		var split func(p *record.Payload)
		split = func(p *record.Payload) {
			halves, err := []*record.Payload(nil), record.ErrWhole
			if p.Records > 1 {
				halves, err = b.Split(p)
			}
			if err != nil && !errors.Is(err, record.ErrWhole) {
				t.Fatal(err)
			}
			for _, h := range halves {
				if h.Pieces[0].Span != h.Cover[0].Span || h.Records != h.Pieces[0].Records {
					t.Errorf("pieces %v, cover %v, %d records", h.Pieces, h.Cover, h.Records)
				}
				if h.Cover[0].End < 1000+10*int64(len(units)) && h.Cover[0].Mark != 0 {
					t.Error("a mark of bytes that nobody saw")
				}
				split(h)
			}
			if len(halves) > 0 {
				return
			}
			recs, err := Records(p)
			if err != nil || len(recs) != 1 {
				t.Fatalf("%v, %v", recs, err)
			}
			raw, err := Raw(p)
			if err != nil || string(recs[0].Data) != string(raw) {
				t.Errorf("data %q of %q, %v", recs[0].Data, raw, err)
			}
			got = append(got, fmt.Sprintf("%d:%d", p.Records, recs[0].Offset))
		}
		p := reshaped(units...)
		recs, err := Records(p)
		if err != nil || len(recs) != len(units) {
			t.Fatalf("%d records, %v", len(recs), err)
		}
		split(p)
		if strings.Join(got, " ") != want {
			t.Errorf("units of %v are parted as %q, want %q", units, got, want)
		}
	}
	f([]int{1, 1, 1}, "1:1000 1:1010 1:1020")
	f([]int{5}, "5:1000")
	f([]int{1, 5}, "1:1000 5:1010")
	f([]int{5, 1}, "5:1000 1:1010")
	f([]int{2, 1, 7, 1, 3}, "2:1000 1:1010 7:1020 1:1030 3:1040")
}
