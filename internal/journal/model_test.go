package journal

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// Ranges added in any order leave what a map of single bytes leaves, and the
// position is the end of its unbroken prefix, with the mark of that place.
func TestPositionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 60
		var safe [size + 1]bool
		f := &file{}
		for range rapid.IntRange(1, 40).Draw(t, "ranges") {
			start := rapid.Int64Range(0, size).Draw(t, "start")
			end := rapid.Int64Range(start, size).Draw(t, "end")
			before := f.position
			advanced := f.safe(record.Span{Start: start, End: end}, markAt(end))
			for i := start; i < end; i++ {
				safe[i] = true
			}
			want := int64(0)
			for safe[want] {
				want++
			}
			if f.position != want || advanced != (want != before) {
				t.Fatalf("position %d, advanced %v, want %d after %d", f.position, advanced, want, before)
			}
			if want > 0 && f.mark != markAt(want) {
				t.Fatalf("mark of another place than %d", want)
			}
			checkAhead(t, f, safe[:])
		}
	})
}

// A mark that is known is not lost to one that is not.
func TestKnownMarkStays(t *testing.T) {
	s := spans(nil).add(safeSpan{record.Span{Start: 5, End: 9}, 7}).add(safeSpan{record.Span{Start: 3, End: 9}, 0})
	if len(s) != 1 || s[0] != (safeSpan{record.Span{Start: 3, End: 9}, 7}) {
		t.Errorf("%v, want one range with the mark that is known", s)
	}
}

func checkAhead(t *rapid.T, f *file, safe []bool) {
	last := f.position
	got := make([]bool, len(safe))
	for i := range f.position {
		got[i] = true
	}
	for _, a := range f.ahead() {
		if a.Start <= last || a.Len() <= 0 || a.mark != markAt(a.End) {
			t.Fatalf("ahead %v behind %d: touching, empty or with a wrong mark", f.ahead(), last)
		}
		for i := a.Start; i < a.End; i++ {
			got[i] = true
		}
		last = a.End
	}
	if !reflect.DeepEqual(got, safe) {
		t.Fatalf("safe %v, want %v", got, safe)
	}
}

func genSpan(t *rapid.T) record.Span {
	start := rapid.Int64Range(0, 1<<40).Draw(t, "start")
	return record.Span{Start: start, End: start + rapid.Int64Range(0, 1<<30).Draw(t, "len")}
}

func genFile(t *rapid.T) record.File {
	return record.File{Input: rapid.StringN(0, 5, -1).Draw(t, "input"), ID: record.FileID(rapid.Uint64().Draw(t, "id")), Generation: rapid.Uint32().Draw(t, "generation")}
}

func genPayload(t *rapid.T) Begun {
	var b Begun
	copy(b.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
	b.Attempt, b.Records = rapid.IntRange(0, 99).Draw(t, "attempt"), rapid.Int().Draw(t, "records")
	b.Route.Table, b.Route.Mapping = rapid.String().Draw(t, "table"), rapid.String().Draw(t, "mapping")
	b.CRC, b.Shaping, b.Gzip, b.HadLens = rapid.Uint32().Draw(t, "crc"), rapid.Uint64().Draw(t, "shaping"), rapid.Bool().Draw(t, "gzip"), rapid.Bool().Draw(t, "lens")
	files := []record.File{genFile(t), genFile(t)}
	for range rapid.IntRange(0, 4).Draw(t, "covers") {
		b.Cover = append(b.Cover, record.Extent{File: rapid.SampledFrom(files).Draw(t, "file"), Span: genSpan(t), Mark: record.Mark(rapid.Uint64().Draw(t, "mark"))})
	}
	for range rapid.IntRange(0, 9).Draw(t, "pieces") {
		b.Pieces = append(b.Pieces, record.Piece{File: rapid.SampledFrom(files).Draw(t, "file"), Span: genSpan(t), Records: rapid.IntRange(0, 1<<30).Draw(t, "n")})
	}
	return b
}

func decodeBytes(kind Kind, meta []byte) (*Entry, error) {
	return decode(&durable.Found{Frame: durable.Frame{Type: uint8(kind), Meta: meta}})
}

// What is written is read again, whatever it is, and written the same.
func TestEntriesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genPayload(t)
		for _, e := range []*Entry{
			{Kind: Begin, Payload: &b.Payload, HadLens: b.HadLens},
			{Kind: Split, Batch: b.ID, Children: []Begun{b, genPayload(t)}},
			{Kind: Skip, File: genFile(t), Span: genSpan(t), Mark: 5},
			{Kind: Replay, Batch: b.ID, Attempt: rapid.IntRange(0, 1<<30).Draw(t, "replay")},
			{Kind: ReplayEnd, Batch: b.ID, Outcome: record.Quarantined},
			{Kind: FileSeen, File: genFile(t), Info: record.FileInfo{Path: rapid.String().Draw(t, "path"), Birth: -1, Inode: 1 << 63, Real: rapid.String().Draw(t, "real"), Dated: rapid.Int64().Draw(t, "dated"), Doubted: rapid.Int64().Draw(t, "doubted"), Seen: rapid.Int64().Draw(t, "seen")}.Facts()},
		} {
			e.At = e.At.AddDate(2020, 0, 0)
			meta := encode(e)
			got, err := decodeBytes(e.Kind, meta)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(encode(got), meta) {
				t.Fatalf("%+v came back as %+v", e, got)
			}
			switch e.Kind {
			case Begin:
				if !reflect.DeepEqual(*got.Payload, b.Payload) || got.HadLens != b.HadLens {
					t.Fatalf("%+v came back as %+v", b, got.Payload)
				}
			case Split:
				if !reflect.DeepEqual(got.Children, e.Children) {
					t.Fatalf("%+v came back as %+v", e.Children, got.Children)
				}
			}
			if e.Kind == FileSeen && e.Info.Info().Seen == 0 {
				continue // members of this version are left out at its end
			}
			if _, err := decodeBytes(e.Kind, append(meta, 1, 2, 3)); err != nil {
				t.Fatalf("with fields of a later version behind it: %v", err)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	p := payload(1, file1(1), 0, 10)
	for _, e := range []*Entry{
		{Kind: Begin, Payload: p}, {Kind: Split, Children: []Begun{{Payload: *p}}}, {Kind: Snapshot, Count: 3, BootID: "x"},
		{Kind: FileSeen, File: file1(2), Info: record.FileInfo{Path: "/x", Handle: "\x01"}.Facts()}, {Kind: End, Outcome: record.Spooled},
	} {
		f.Add(uint8(e.Kind), encode(e))
	}
	f.Fuzz(func(t *testing.T, kind uint8, meta []byte) {
		e, err := decodeBytes(Kind(kind), meta)
		if err == nil && e != nil {
			newState().apply(e)
		}
	})
}
