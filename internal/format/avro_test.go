package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/linkedin/goavro/v2"
	"github.com/twmb/avro/ocf"

	"kusto-agent/internal/record"
)

const avroSchema = `{"type":"record","name":"row","fields":[{"name":"n","type":"long"},{"name":"s","type":"string"}]}`

// avroFile writes a container file with blocks of the given numbers of records.
func avroFile(t testing.TB, codec string, blocks ...int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &b, Schema: avroSchema, CompressionName: codec})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, records := range blocks {
		var rows []map[string]any
		for range records {
			n++
			rows = append(rows, map[string]any{"n": n, "s": strings.Repeat("x", n%9)})
		}
		if err := w.Append(rows); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// avroRows reads a container file with a library.
func avroRows(file []byte) (rows []string, err error) {
	r, err := goavro.NewOCFReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	for r.Scan() {
		row, err := r.Read()
		if err != nil {
			return nil, err
		}
		rows = append(rows, fmt.Sprint(row))
	}
	return rows, r.Err()
}

// avroEnds are the offsets where the header and each block of a sound file end.
func avroEnds(t testing.TB, file []byte) (ends []int) {
	t.Helper()
	at, err := headerLen(file)
	if err != nil {
		t.Fatal(err)
	}
	sync := file[at-syncLen : at]
	for ends = append(ends, at); at < len(file); ends = append(ends, at) {
		at += bytes.Index(file[at:], sync) + syncLen
	}
	return ends
}

// avroReading replays a file like reading does, by blocks.
type avroReading struct {
	t        *testing.T
	s        *Scanner
	o        Options
	file     []byte
	events   []event
	payloads [][]byte
	records  int
	filtered int
}

func readAvro(t *testing.T, o Options, file []byte) *avroReading {
	if o.MaxRecord == 0 {
		o.MaxRecord = 1 << 20
	}
	o.Format = record.Avro
	return &avroReading{t: t, s: newScanner(t, o), o: o, file: file}
}

func (r *avroReading) whole() *avroReading {
	var c Chunk
	for at := 0; at < len(r.file); at += c.Consumed {
		if at > 0 && r.s.Prepare(bytes.NewReader(r.file)) != nil {
			r.t.Fatal("a header could not be read")
		}
		r.scan(at, len(r.file), 0, &c)
		if c.Consumed == 0 {
			r.t.Fatalf("no progress at %d of %q", at, r.file)
		}
	}
	return r
}

// cut reads the file as it grows, each time with a scanner that has seen
// nothing of it but its header.
func (r *avroReading) cut(rnd *rand.Rand) *avroReading {
	var c Chunk
	for at, end := 0, 0; at < len(r.file); {
		r.s = newScanner(r.t, r.o)
		if err := r.s.Prepare(bytes.NewReader(r.file[:end])); err != nil {
			r.t.Fatal(err)
		}
		r.scan(at, end, rnd.IntN(4), &c)
		start := at
		at += c.Consumed
		switch {
		case c.Long:
			long := c
			if c.Skip > end-at {
				r.t.Fatalf("skip %d of %d bytes", c.Skip, end-at)
			}
			start, at = at, at+c.Skip
			for done := false; !done; end = min(len(r.file), end+1+rnd.IntN(40)) {
				n := 0
				n, done = r.s.SkipLong(r.file[at:end], c.Indent, end == len(r.file))
				at += n
			}
			r.events = append(r.events, event{start: start, end: at, reason: long.Reason})
			end = max(at, min(end, at))
		case c.Consumed == 0:
			if end-start >= r.o.MaxRecord {
				r.t.Fatalf("%d bytes at %d of %q are not enough", end-start, start, r.file)
			}
			end = min(len(r.file), end+1+rnd.IntN(2+len(r.file)/3), start+2*r.o.MaxRecord+1)
		case rnd.IntN(3) == 0:
			end = at + rnd.IntN(end-at+1)
		}
	}
	return r
}

func (r *avroReading) scan(at, end, limit int, c *Chunk) {
	source := r.file[at:end]
	data := bytes.Clone(source)
	r.s.Scan(data, int64(at), end == len(r.file), limit, c)
	t := r.t
	if !bytes.Equal(data[c.Consumed:], source[c.Consumed:]) {
		t.Fatal("what was not consumed was changed")
	}
	var body []byte
	records, blocks, taken := 0, 0, 0
	for _, p := range c.Pieces {
		part := source[p.Start:p.End]
		if n := r.s.Count(part); n != p.Records {
			t.Fatalf("a piece of %d records counts %d", p.Records, n)
		}
		body, records, taken = append(body, part...), records+p.Records, taken+len(part)
		for pos := p.Start; pos < p.End; blocks++ {
			n := r.s.Split(source[pos:p.End], 1)
			r.events = append(r.events, event{at + pos, at + pos + n, "", string(source[pos : pos+n]), c.Group})
			pos += n
		}
	}
	switch {
	case !bytes.Equal(body, c.Body) || records != c.Records || c.Lens != nil || c.Copied:
		t.Fatalf("%d records, %d in the pieces", c.Records, records)
	case limit > 0 && records > limit && blocks > 1:
		t.Fatalf("%d records in %d blocks, the limit is %d", records, blocks, limit)
	case r.o.MaxBody > 0 && blocks > 0 && len(c.Prefix)+len(body) > r.o.MaxBody:
		t.Fatalf("%d bytes of %d", len(c.Prefix)+len(body), r.o.MaxBody)
	}
	if records > 0 {
		n, err := headerLen(r.file)
		if err != nil || !bytes.Equal(c.Prefix, r.file[:n]) {
			t.Fatalf("prefix %q, %v", c.Prefix, err)
		}
		r.payloads = append(r.payloads, slices.Concat(c.Prefix, c.Body))
	}
	for _, j := range c.Rejected {
		if !bytes.Equal(j.Data, source[j.Start:min(j.End, j.Start+r.o.MaxRecord)]) {
			t.Fatal("other data was rejected")
		}
		r.events = append(r.events, event{start: at + j.Start, end: at + j.End, reason: j.Reason})
		taken += j.End - j.Start
	}
	r.records, r.filtered = r.records+records, r.filtered+c.Consumed-taken
	slices.SortFunc(r.events, func(a, b event) int { return a.start - b.start })
}

func TestAvroPayloads(t *testing.T) {
	for _, codec := range []string{"null", "deflate", "snappy"} {
		file := avroFile(t, codec, 3, 1, 20, 7)
		want, err := avroRows(file)
		if err != nil || len(want) != 31 {
			t.Fatalf("%d rows, %v", len(want), err)
		}
		for seed := range uint64(20) {
			r := readAvro(t, Options{}, file).cut(rand.New(rand.NewPCG(seed, 0)))
			var got []string
			for _, p := range r.payloads {
				rows, err := avroRows(p)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, rows...)
			}
			if !slices.Equal(got, want) || r.records != len(want) {
				t.Fatalf("%s: %d records, rows %v, want %v", codec, r.records, got, want)
			}
		}
	}
}

// Two files have two headers, even of one schema: what is of different groups
// never joins.
func TestAvroGroups(t *testing.T) {
	s := newScanner(t, Options{Format: record.Avro})
	groups := map[int]bool{}
	var c Chunk
	for range 3 {
		s.Scan(avroFile(t, "null", 1), 0, true, 0, &c)
		groups[c.Group] = true
	}
	if len(groups) != 3 || groups[0] {
		t.Errorf("groups %v", groups)
	}
}

func TestAvroRejects(t *testing.T) {
	file := avroFile(t, "null", 2, 3, 4)
	ends := avroEnds(t, file)
	f := func(o Options, change func(b []byte) []byte, records int, want ...string) {
		t.Helper()
		r := readAvro(t, o, nil)
		data := change(bytes.Clone(file))
		var c Chunk
		var got []string
		n := 0
		for at := 0; at < len(data); at += c.Consumed {
			r.s.Scan(data[at:], int64(at), true, 0, &c)
			n += c.Records
			for _, j := range c.Rejected {
				got = append(got, fmt.Sprintf("%s %s", j.Reason, j.Message))
			}
		}
		if n != records || !slices.Equal(got, want) {
			t.Errorf("%d records, rejected %q, want %d, %q", n, got, records, want)
		}
	}
	set := func(at int, with ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], with); return b }
	}
	cut := func(at int) func([]byte) []byte { return func(b []byte) []byte { return b[:at] } }
	huge := binary.AppendVarint([]byte{2}, math.MaxInt64)
	f(Options{}, set(0), 9)
	sync := file[len(file)-16:]
	// A block without a record that its codec made two bytes of.
	f(Options{}, func(b []byte) []byte { return slices.Concat(b[:ends[1]], []byte{0, 4, 3, 0}, sync, b[ends[1]:]) }, 9)
	f(Options{}, cut(ends[1]), 2)
	f(Options{}, cut(ends[1]+5), 2, "malformed the file ends in a block")
	f(Options{}, cut(ends[1]+1), 2, "malformed the file ends in a block")
	f(Options{}, cut(ends[0]-1), 0, "malformed the file ends in its header")
	f(Options{}, set(0, 'o'), 0, "malformed not the header of an Avro file: it does not begin with Obj and 1")
	f(Options{}, set(bytes.Index(file, []byte("avro.schema")), 'A'), 0, "malformed not the header of an Avro file: it has no schema")
	f(Options{}, set(ends[1]-1, file[ends[1]-1]+1), 4, "malformed a block that the sync marker of the file does not end")
	f(Options{}, set(ends[1], 0, 0), 6, "malformed a block that the sync marker of the file does not end")
	f(Options{}, set(ends[1], 1), 6, "malformed not a block: the number of records is out of range")
	f(Options{}, set(ends[1]+1, 1), 6, "malformed not a block: the size is out of range")
	f(Options{}, set(ends[1], huge...), 6, "malformed not a block: the size is out of range")
	f(Options{}, set(ends[1], bytes.Repeat([]byte{0xff}, 11)...), 6, "malformed not a block: a number is longer than 64 bits")
	f(Options{Validate: true}, set(ends[0]+1, byte(2*(ends[2]-ends[0]-2-syncLen))), 7, "malformed a block that the sync marker of the file does not end") // a size that ends at the next marker but one
	f(Options{MaxRecord: ends[2] - ends[1] - 1}, set(0), 0, fmt.Sprintf("too_long the header of the file is longer than %d bytes", ends[2]-ends[1]-1))
	f(Options{MaxBody: ends[0] + ends[2] - ends[1]}, set(0), 5, fmt.Sprintf("too_long a block longer than %d bytes", ends[2]-ends[1]))
}

// A header that says it has more entries than there are bytes costs nothing.
func TestAvroHeaderOfManyEntries(t *testing.T) {
	head := binary.AppendVarint([]byte(magic), math.MaxInt64)
	if _, err := headerLen(append(head, make([]byte, 100)...)); !errors.Is(err, errOpen) {
		t.Error(err)
	}
}

func TestAvroLongBlock(t *testing.T) {
	file := avroFile(t, "null", 1, 100, 2)
	ends := avroEnds(t, file)
	r := readAvro(t, Options{MaxRecord: ends[0] + 10}, file).cut(rand.New(rand.NewPCG(1, 1)))
	want := []event{{start: ends[0], end: ends[1]}, {start: ends[1], end: ends[2], reason: record.TooLong}, {start: ends[2], end: ends[3]}}
	for i, e := range r.events {
		if i >= len(want) || e.start != want[i].start || e.end != want[i].end || e.reason != want[i].reason {
			t.Errorf("event %d: [%d,%d) %s", i, e.start, e.end, e.reason)
		}
	}
	if r.records != 3 || len(r.events) != 3 {
		t.Errorf("%d records", r.records)
	}
}

func TestAvroEmptyBlock(t *testing.T) {
	file := avroFile(t, "null", 1)
	empty := append([]byte{0, 0}, file[len(file)-syncLen:]...)
	r := readAvro(t, Options{}, slices.Concat(file, empty, empty)).whole()
	if r.records != 1 || len(r.events) != 1 || r.filtered != avroEnds(t, file)[0]+2*len(empty) {
		t.Errorf("%d records, %d filtered bytes, %v", r.records, r.filtered, r.events)
	}
}

func TestPrepare(t *testing.T) {
	file := avroFile(t, "null", 1, 1)
	ends := avroEnds(t, file)
	s := newScanner(t, Options{Format: record.Avro})
	var c Chunk
	if err := s.Prepare(bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if s.Scan(bytes.Clone(file[ends[1]:]), int64(ends[1]), true, 0, &c); c.Records != 1 || !bytes.Equal(c.Prefix, file[:ends[0]]) {
		t.Errorf("%d records", c.Records)
	}
	if err := s.Prepare(bytes.NewReader(file[:10])); err != nil {
		t.Fatal(err)
	}
	if s.Scan(bytes.Clone(file[ends[1]:]), int64(ends[1]), true, 0, &c); c.Records != 0 || len(c.Rejected) != 1 {
		t.Errorf("%d records with the header of another file", c.Records)
	}
	if err := s.Prepare(failing{}); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%v", err)
	}
	if err := newScanner(t, Options{Format: record.CSV}).Prepare(failing{}); err != nil {
		t.Errorf("a format without a header: %v", err)
	}
}

func TestPrefixLen(t *testing.T) {
	file := avroFile(t, "null", 2, 5)
	ends := avroEnds(t, file)
	s := newScanner(t, Options{Format: record.Avro})
	if n := s.PrefixLen(file); n != ends[0] {
		t.Errorf("prefix of %d bytes, want %d", n, ends[0])
	}
	body := file[ends[0]:]
	if n, records := s.Split(body, 1), s.Count(body); n != ends[1]-ends[0] || records != 7 || s.PrefixLen(body) != 0 {
		t.Errorf("a first block of %d bytes, %d records", n, records)
	}
	if n := newScanner(t, Options{Format: record.TXT}).PrefixLen(file); n != 0 {
		t.Errorf("a prefix of text: %d", n)
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, iotest.ErrTimeout }

// FuzzAvroDamage: for a file with any damage and any way of cutting it into
// reads the same blocks come out, and all that the damage does not touch are
// among them.
func FuzzAvroDamage(f *testing.F) {
	f.Add(uint64(0), uint16(0), uint16(0), []byte{}, uint16(0))
	f.Add(uint64(1), uint16(400), uint16(3), []byte{}, uint16(0))
	f.Add(uint64(2), uint16(300), uint16(0), []byte("Obj\x01"), uint16(80))
	f.Add(uint64(3), uint16(250), uint16(2), []byte{2, 0xfe, 0xff, 0xff, 0xff, 0x0f}, uint16(120))
	f.Add(uint64(4), uint16(5), uint16(1), []byte{1}, uint16(0))
	f.Fuzz(func(t *testing.T, seed uint64, at, gone uint16, put []byte, limit uint16) {
		if len(put) > 200 {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 7))
		sound := avroFile(t, []string{"null", "deflate", "snappy"}[rnd.IntN(3)], rnd.IntN(9)+1, rnd.IntN(30)+1, rnd.IntN(9)+1, 1)
		ends := avroEnds(t, sound)
		from := int(at) % (len(sound) + 1)
		to := min(from+int(gone), len(sound))
		file := slices.Concat(sound[:from], put, sound[to:])
		o := Options{Format: record.Avro, Validate: true, MaxRecord: 1 << 16, MaxBody: int(limit)}
		if limit > 0 {
			o.MaxRecord = max(int(limit)%700, MinRecord)
		}
		whole := readAvro(t, o, file).whole()
		cut := readAvro(t, o, file).cut(rnd)
		if got, want := fmt.Sprint(cut.events), fmt.Sprint(whole.events); got != want || cut.records != whole.records || cut.filtered != whole.filtered {
			t.Fatalf("%+v %q\n  cut %s\nwhole %s", o, file, got, want)
		}
		if limit > 0 || from < ends[0] {
			return
		}
		sent := map[string]bool{}
		for _, e := range whole.events {
			sent[e.body] = true
		}
		for i := 1; i < len(ends); i++ {
			touched := from < ends[i] && to > ends[i-1]-syncLen // the marker before it is how it is found
			if !touched && !sent[string(sound[ends[i-1]:ends[i]])] {
				t.Fatalf("block %d is not touched by [%d,%d) and was not sent", i, from, to)
			}
		}
	})
}

// countRows is how many records a library finds in a container file that may
// be anything; header tells that it took the header. It is a library that bounds
// what a hostile file can cost: the other one makes room for 2 GB because six
// bytes say so, repeats a record of no bytes two billion times, and recurses
// without end into a schema that contains itself.
func countRows(file []byte) (rows int, header bool, err error) {
	r, err := ocf.NewReader(bytes.NewReader(file), ocf.WithMaxBlockBytes(1<<16), ocf.WithMaxDecompressedBlockBytes(1<<20))
	if err != nil {
		return 0, false, err
	}
	defer r.Close()
	for ; ; rows++ {
		var row any
		if err := r.Decode(&row); errors.Is(err, io.EOF) {
			return rows, true, nil
		} else if err != nil {
			return rows, true, err
		}
	}
}

// FuzzAvroHeader: what a library takes for a header is one, of any data every
// byte is accounted for, and of a file that the library reads every record is
// sent.
func FuzzAvroHeader(f *testing.F) {
	file := avroFile(f, "deflate", 2)
	f.Add(file)
	f.Add(file[:len(file)-3])
	f.Add([]byte("Obj\x01\x00"))
	f.Add([]byte("Obj\x01\xf4\xf4\xf4 \x16avro"))
	f.Add(append([]byte("Obj\x01\x03\x20\x16avro.schema\x0c\"null\"\x00"), make([]byte, 16)...))
	for _, hostile := range hostileAvro() {
		f.Add(hostile)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) == 0 || len(file) > 4096 {
			return
		}
		_, bad := headerLen(file)
		rows, header, err := countRows(file)
		if header && bad != nil {
			t.Fatalf("%q: %v", file, bad)
		}
		at := 0
		r := readAvro(t, Options{}, file).whole()
		for _, e := range r.events {
			if e.start < at {
				t.Fatalf("%q: %v", file, r.events)
			}
			at = e.end
		}
		if err == nil && rows != r.records {
			t.Fatalf("%q: %d records, want %d", file, r.records, rows)
		}
	})
}

// hostileAvro are files whose numbers ask a reader for more than it has.
func hostileAvro() [][]byte {
	const two31 = "\xfe\xff\xff\xff\x0f"
	sync := strings.Repeat("s", syncLen)
	of := func(schema string) string {
		length := binary.AppendVarint(nil, int64(len(schema)))
		return "Obj\x01\x02\x16avro.schema" + string(length) + schema + "\x00" + sync
	}
	itself := `{"type":"record","name":"r","fields":[{"name":"n","type":"r"}]}`
	return [][]byte{
		[]byte("Obj\x01\x04" + two31 + "abc"),                                              // a name of 2 GB
		[]byte("Obj\x01" + two31 + "\x02a\x02b"),                                           // a map of two billion
		[]byte(of(`"null"`) + two31 + "\x02\x00" + sync),                                   // two billion records of no bytes
		[]byte(of(`"null"`) + "\x02" + two31 + "\x00" + sync),                              // a block of 2 GB
		[]byte(of(itself) + "\x02\x02\x00" + sync),                                         // a record within itself
		[]byte(of(`{"type":"array","items":"null"}`) + "\x02\x0c" + two31 + "\x00" + sync), // an array of two billion nulls
	}
}

// A file that lies about its numbers costs no more than its bytes.
func TestHostileAvro(t *testing.T) {
	var c Chunk
	for _, file := range hostileAvro() {
		s := newScanner(t, Options{Format: record.Avro, Validate: true})
		if n := testing.AllocsPerRun(1, func() {
			for at := 0; at < len(file); at += c.Consumed {
				if s.Scan(file[at:], int64(at), true, 0, &c); c.Consumed == 0 {
					t.Fatalf("%q: no progress at %d", file, at)
				}
			}
		}); n > 20 {
			t.Errorf("%q: %v allocations", file, n)
		}
		if cap(c.held)+cap(c.own) > 1<<16 {
			t.Errorf("%q: %d bytes held", file, cap(c.held)+cap(c.own))
		}
	}
}

func TestAvroAllocatesNothing(t *testing.T) {
	file := avroFile(t, "null", slices.Repeat([]int{5}, 200)...)
	s, in := newScanner(t, Options{Format: record.Avro}), bytes.NewReader(file)
	var c Chunk
	if n := testing.AllocsPerRun(10, func() {
		if err := s.Prepare(in); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		s.Scan(file, 0, true, 0, &c)
	}); n > 1 || c.Records != 1000 { // the hash of a header
		t.Errorf("%v allocations for %d records", n, c.Records)
	}
}
