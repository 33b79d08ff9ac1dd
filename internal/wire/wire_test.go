package wire

import (
	"reflect"
	"testing"
	"time"

	"kusto-agent/internal/record"
)

func sample() *record.Payload {
	f, g := record.File{Input: "app", ID: 7, Generation: 2}, record.File{Input: "sys", ID: 1 << 63}
	return &record.Payload{
		ID: record.BatchID{1, 2, 3}, Replaces: record.BatchID{4}, Attempt: 3, Records: 40, RawBytes: 4000, CRC: 1 << 31, Gzip: true, Shaping: 1 << 60,
		Route:  record.Route{Cluster: "https://c", Database: "d", Table: "t", Format: record.JSON, Mapping: "m"},
		Cover:  []record.Extent{{File: f, Span: record.Span{Start: 10, End: 90}, Mark: 5}, {File: g, Span: record.Span{End: 1 << 40}}},
		Pieces: []record.Piece{{File: f, Span: record.Span{Start: 20, End: 30}, Records: 1}, {File: f, Span: record.Span{Start: 30, End: 90}, Records: 39}},
		ReadAt: time.Unix(100, 200),
	}
}

func TestPayload(t *testing.T) {
	for _, want := range []*record.Payload{sample(), {ID: record.BatchID{9}}} {
		for _, lens := range []bool{true, false} {
			w := &Writer{}
			w.Payload(want, lens)
			w.String("behind")
			r := &Reader{B: w.B}
			got, hadLens := r.Payload()
			if !reflect.DeepEqual(&got, want) || hadLens != lens || r.String() != "behind" || r.Bad {
				t.Errorf("%+v, lens %v, came back as %+v, lens %v", want, lens, got, hadLens)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	w := &Writer{}
	w.Payload(sample(), true)
	f.Add(w.B)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &Reader{B: b}
		p, _ := r.Payload()
		if n := len(p.Cover) + len(p.Pieces); n > len(b) {
			t.Errorf("%d ranges out of %d bytes", n, len(b))
		}
	})
}
