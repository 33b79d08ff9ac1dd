package batcher

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// avroHeader is that of a container file with a schema and a marker.
func avroHeader(marker string) []byte {
	b := []byte("Obj\x01")
	b = binary.AppendVarint(b, 1)
	for _, text := range []string{"avro.schema", `"long"`} {
		b = append(binary.AppendVarint(b, int64(len(text))), text...)
	}
	return append(append(b, 0), marker...)
}

// avroBlock has records of one byte each.
func avroBlock(records int, marker string) []byte {
	b := binary.AppendVarint(nil, int64(records))
	b = binary.AppendVarint(b, int64(records))
	return append(append(b, bytes.Repeat([]byte{2}, records)...), marker...)
}

const marker = "0123456789abcdef"

// placeholder stands where the id of a payload belongs.
var placeholder = record.BatchID{0: 0xee, 15: 0xee}

// scanned reads a file of records with a scanner, as tail does, and makes one
// payload of it.
func scanned(t *rapid.T, f record.Format, fields *format.Fields) (p *record.Payload, raw []byte, file []byte, blocks []int) {
	switch f {
	case record.Avro:
		file = avroHeader(marker)
		for range rapid.IntRange(1, 12).Draw(t, "blocks") {
			n := rapid.SampledFrom([]int{1, 2, 7, 300}).Draw(t, "records")
			blocks = append(blocks, n)
			file = append(file, avroBlock(n, marker)...)
		}
	default:
		between := []string{"\n", "\r\n"}
		if f == record.MultiJSON {
			between = []string{"\n", "\r\n", "", ",\n  ", "][", "\n\n"}
		}
		for range rapid.IntRange(1, 40).Draw(t, "objects") {
			object := rapid.SampledFrom([]string{"{}", `{"a":","}`, `{"b":{"b":1}}`, `{"b":1}`, `{'o':1}`, `{"\"":1, "c":[]}`}).Draw(t, "object")
			file = append(file, object+rapid.SampledFrom(between).Draw(t, "between")...)
		}
		file = bytes.TrimRight(file, rapid.SampledFrom([]string{"", "\n", "\r\n"}).Draw(t, "end"))
	}
	s, err := format.New(format.Options{Format: f, Validate: true, MaxRecord: 1 << 20, Fields: fields})
	if err != nil {
		t.Fatal(err)
	}
	s.SetStamp(format.Stamp{Batch: placeholder})
	p = &record.Payload{ID: record.BatchID{1}, Route: record.Route{Table: "t", Format: f}, Shaping: 6, ReadAt: time.Unix(1, 0)}
	id, blk := record.File{Input: "in", ID: 1}, &block{}
	var c format.Chunk
	for at := 0; at < len(file); at += c.Consumed {
		s.Scan(append(make([]byte, 0, len(file)+1), file[at:]...), int64(at), true, rapid.IntRange(0, 9).Draw(t, "limit"), &c)
		if c.Consumed == 0 || len(c.Rejected) > 0 {
			t.Fatalf("%q at %d: rejected %v", file, at, c.Rejected)
		}
		if c.Records == 0 {
			continue
		}
		out := &record.Chunk{Cover: record.Extent{File: id, Span: record.Span{Start: int64(at), End: int64(at + c.Consumed)}}, Lens: c.Lens, Records: c.Records}
		for _, piece := range c.Pieces {
			out.Pieces = append(out.Pieces, record.Piece{File: id, Span: record.Span{Start: int64(at + piece.Start), End: int64(at + piece.End)}, Records: piece.Records})
		}
		if len(raw) == 0 {
			raw = append(raw, c.Prefix...)
		}
		raw = append(raw, c.Body...)
		blk.note(out)
	}
	p.Cover, p.Pieces, p.Records, p.Lens = blk.cover, blk.pieces, blk.records, blk.lens
	restamp(raw, placeholder, p.ID)
	return p, raw, file, blocks
}

// anyFields are fields, and how often the id of the batch is in a record.
func anyFields(t *rapid.T) (*format.Fields, func(source []byte) int) {
	values := rapid.SampledFrom([]map[string]string{
		{"b": "{batch}", "o": "{offset}"}, {"id": "x{batch}", "id2": "{batch}"}, {"o": ""}, {"\"": "{offset}", "a": "b"},
	}).Draw(t, "fields")
	fields, err := format.NewFields(values)
	if err != nil {
		t.Fatal(err)
	}
	return fields, func(source []byte) int {
		switch {
		case values["id"] != "":
			return 2
		case values["b"] != "" && !bytes.Contains(source, []byte(`{"b":`)):
			return 1
		}
		return 0
	}
}

// apart splits a payload until nothing can be split, and returns what is left.
func apart(t *rapid.T, b *Batcher, p *record.Payload) []*record.Payload {
	if p.Records == 1 {
		return []*record.Payload{p}
	}
	halves, err := b.Split(p)
	if errors.Is(err, record.ErrWhole) {
		return []*record.Payload{p}
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Release(p)
	return append(apart(t, b, halves[0]), apart(t, b, halves[1])...)
}

// TestSplitFields: each record of a payload with fields is found in its file as
// it is there, however far the payload was divided, and bears the id of the
// payload it is in.
func TestSplitFields(t *testing.T) {
	b := New(Options{Routes: map[record.Route]Limits{}, Memory: 1 << 30})
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]record.Format{record.JSON, record.MultiJSON}).Draw(t, "format")
		fields, ids := anyFields(t)
		p, raw, file, _ := scanned(t, f, fields)
		b.Pack(p, raw)
		records := p.Records
		for _, one := range apart(t, b, p) {
			recs, err := Records(one)
			if err != nil {
				t.Fatal(err)
			}
			stamps := 0
			for _, r := range recs {
				stamps += ids(r.Data)
				if want := string(file[r.Offset : r.Offset+r.Length]); string(r.Data) != want {
					t.Fatalf("record at %d is %q, want %q", r.Offset, r.Data, want)
				}
			}
			body, err := Raw(one)
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Count(body, []byte(one.ID.String())); got != stamps {
				t.Fatalf("%q has the id %v %d times, want %d", body, one.ID, got, stamps)
			}
			for _, other := range []record.BatchID{placeholder, {1}} {
				if one.ID != other && bytes.Contains(body, []byte(other.String())) {
					t.Fatalf("%q has the id of another", body)
				}
			}
			records -= one.Records
			b.Release(one)
		}
		if records != 0 || b.used() != 0 {
			t.Fatalf("%d records are missing, %d bytes are held", records, b.used())
		}
	})
}

// TestSplitAvro: a payload is divided between its blocks, each part has the
// header, and the parts hold each block once.
func TestSplitAvro(t *testing.T) {
	b := New(Options{Routes: map[record.Route]Limits{}, Memory: 1 << 30})
	rapid.Check(t, func(t *rapid.T) {
		p, raw, file, blocks := scanned(t, record.Avro, nil)
		b.Pack(p, raw)
		header := avroHeader(marker)
		var got []int
		for _, one := range apart(t, b, p) {
			body, err := Raw(one)
			if err != nil {
				t.Fatal(err)
			}
			recs, err := Records(one)
			if err != nil {
				t.Fatal(err)
			}
			if len(recs) != 1 || string(recs[0].Data) != string(file[recs[0].Offset:recs[0].Offset+recs[0].Length]) {
				t.Fatalf("%d blocks in what cannot be divided: %q", len(recs), body)
			}
			if string(body) != string(header)+string(recs[0].Data) || string(recs[0].Data) != string(avroBlock(one.Records, marker)) {
				t.Fatalf("body is %q", body)
			}
			got = append(got, one.Records)
			b.Release(one)
		}
		if !slices.Equal(got, blocks) || b.used() != 0 {
			t.Fatalf("blocks of %v records, want %v; %d bytes are held", got, blocks, b.used())
		}
	})
}

// A payload made again under another id bears that id.
func TestPackReplaces(t *testing.T) {
	b := New(Options{Routes: map[record.Route]Limits{}, Memory: 1 << 30})
	old, id := record.BatchID{1}, record.BatchID{2}
	body := `{"b":"` + old.String() + `"}` + "\n"
	f := func(lens []byte, want string) {
		t.Helper()
		p := &record.Payload{ID: id, Replaces: old, Lens: lens}
		b.Pack(p, []byte(body))
		if got, err := Raw(p); err != nil || string(got) != want || p.CRC != Checksum([]byte(want)) || p.RawBytes != len(want) {
			t.Errorf("body is %q, %v; want %q", got, err, want)
		}
		b.Release(p)
	}
	f([]byte{3}, strings.Replace(body, old.String(), id.String(), 1))
	f(nil, body) // nothing was added to it: the text is the record's own
}

// keeper keeps the payloads it is given, with their bodies taken out.
type keeper struct {
	mu   sync.Mutex
	made []*record.Payload
	raw  [][]byte
	b    *Batcher
}

func (k *keeper) Credit(record.Route) (int, bool) { return 1000, true }
func (k *keeper) Largest(record.Route) int        { return 0 }

func (k *keeper) Put(p *record.Payload) {
	raw, err := Raw(p)
	if err != nil {
		panic(err)
	}
	k.mu.Lock()
	k.made, k.raw = append(k.made, p), append(k.raw, raw)
	k.mu.Unlock()
	k.b.Release(p)
}

// TestPrefix: what is joined has the prefix once, never that of another, is no
// longer with it than a payload may be, and what it holds is given back.
func TestPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1000
		route := record.Route{Table: "t", Format: record.Avro}
		k := &keeper{}
		k.b = New(Options{Routes: map[record.Route]Limits{route: {MaxBytes: most, MaxWait: time.Hour}}, Memory: 1 << 20, Next: k})
		go k.b.Run() // ended by Close, awaited by Wait
		random := rand.New(rand.NewPCG(1, 2))
		var want [2]int
		var at int64
		for range 500 {
			which := random.IntN(2)
			prefix := avroHeader(strings.Repeat(string(rune('A'+which)), 16))
			body := avroBlock(random.IntN(200)+1, string(prefix[len(prefix)-16:]))
			full := random.IntN(4) == 0
			size := len(body)
			if full {
				size = most
			}
			l, err := k.b.Lease(route, size, func() {})
			if err != nil || l == nil {
				synctest.Wait()
				continue
			}
			span := record.Span{Start: at, End: at + int64(len(body))}
			c := &record.Chunk{Route: route, Group: 7, Prefix: prefix, Body: body, Records: 1, ReadAt: time.Now(), Cover: record.Extent{Span: span}, Pieces: []record.Piece{{Span: span, Records: 1}}}
			if at = span.End; full {
				block := l.Block()[record.MarkLen:]
				c.Body = block[:copy(block, body)]
				l.Seal(c)
			} else {
				l.Append(c)
			}
			clear(prefix) // the scanner uses it again
			l.Done()
			want[which] += len(body)
		}
		k.b.Close()
		synctest.Wait()
		var got [2]int
		for i, raw := range k.raw {
			which := 0
			header := avroHeader(strings.Repeat("A", 16))
			if !bytes.HasPrefix(raw, header) {
				which, header = 1, avroHeader(strings.Repeat("B", 16))
			}
			rest, found := bytes.CutPrefix(raw, header)
			if !found || bytes.Contains(rest, []byte("Obj")) || bytes.Contains(rest, []byte(strings.Repeat(string(rune('B'-which)), 16))) {
				t.Fatalf("payload %d: %q", i, raw)
			}
			if p := k.made[i]; len(raw) > most || p.RawBytes != len(raw) || p.CRC != Checksum(raw) {
				t.Fatalf("payload of %d bytes says %d", len(raw), p.RawBytes)
			}
			got[which] += len(rest)
		}
		if got != want || k.b.used() != 0 {
			t.Errorf("%v bytes in payloads, want %v; %d bytes are held", got, want, k.b.used())
		}
		if len(k.raw) < 20 || fmt.Sprint(want) == "[0 0]" {
			t.Errorf("%d payloads", len(k.raw))
		}
	})
}
