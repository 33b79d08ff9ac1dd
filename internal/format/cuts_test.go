package format

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"kusto-agent/internal/record"
)

// event is what becomes of one range of a file.
type event struct {
	start, end int
	reason     record.Reason // empty: sent
	body       string        // as sent
	group      int
}

// reading replays a file through a scanner and collects what becomes of it.
type reading struct {
	t       *testing.T
	o       Options
	s       *Scanner
	file    string
	events  []event
	blank   int
	header  int
	invalid int
	nuls    int
}

func read(t *testing.T, o Options, file string) *reading {
	s := newScanner(t, o)
	s.SetStamp(stamp)
	return &reading{t: t, o: o, s: s, file: file}
}

// whole scans all of the file in one piece.
func (r *reading) whole() *reading {
	var c Chunk
	for at := 0; at < len(r.file); {
		at += r.scan(at, len(r.file), 0, &c)
		if c.Consumed == 0 {
			r.t.Fatalf("no progress at %d of %q", at, r.file)
		}
	}
	return r
}

// cut scans the file as it grows, in windows and up to limits of any size.
func (r *reading) cut(rnd *rand.Rand) *reading {
	var c Chunk
	for at, end := 0, 0; at < len(r.file); {
		r.scan(at, end, rnd.IntN(4), &c)
		at += c.Consumed
		switch {
		case c.Long:
			at, end = r.skipLong(at, &c, rnd)
		case c.Consumed == 0:
			if end-at >= r.o.MaxRecord {
				r.t.Fatalf("%d bytes at %d of %q are not enough", end-at, at, r.file)
			}
			end = min(len(r.file), end+1+rnd.IntN(2+len(r.file)/3))
			end = min(end, at+2*r.o.MaxRecord+1)
		case rnd.IntN(3) == 0:
			end = at + rnd.IntN(end-at+1)
		}
	}
	return r
}

// skipLong is the long-record mode of a caller.
func (r *reading) skipLong(start int, c *Chunk, rnd *rand.Rand) (int, int) {
	at, end := start+c.Skip, start+c.Skip
	for {
		n, done := r.s.SkipLong([]byte(r.file[at:end]), c.Indent, end == len(r.file))
		if at += n; done {
			r.events = append(r.events, event{start: start, end: at, reason: c.Reason})
			return at, at
		}
		end = min(len(r.file), end+1+rnd.IntN(5))
	}
}

// scan is one call of Scan, and all that must be true after any call.
func (r *reading) scan(at, end, limit int, c *Chunk) int {
	source := r.file[at:end]
	data := buffer(source)
	r.s.Scan(data, int64(at), end == len(r.file), limit, c)
	t := r.t
	if string(data[c.Consumed:]) != source[c.Consumed:] {
		t.Fatalf("%q: what was not consumed became %q", source, data[c.Consumed:])
	}
	if limit > 0 && c.Records > limit {
		t.Fatalf("%q: %d records, the limit is %d", source, c.Records, limit)
	}
	r.records(at, source, c)
	for _, j := range c.Rejected {
		if want := source[j.Start:min(j.End, j.Start+r.o.MaxRecord)]; string(j.Data) != want {
			t.Fatalf("%q: rejected %q, want %q", source, j.Data, want)
		}
		if !utf8.ValidString(j.Message) {
			t.Fatalf("%q: message %q", source, j.Message)
		}
		r.events = append(r.events, event{start: at + j.Start, end: at + j.End, reason: j.Reason})
	}
	r.filtered(at, source, c)
	r.blank, r.header, r.invalid, r.nuls = r.blank+c.Blank, r.header+c.Header, r.invalid+c.InvalidUTF8, r.nuls+c.NULs
	slices.SortFunc(r.events, func(a, b event) int { return a.start - b.start })
	return c.Consumed
}

// records takes the body of a chunk apart again.
func (r *reading) records(at int, source string, c *Chunk) {
	t, body, lens := r.t, c.Body, decodeLens(c.Lens)
	if c.Lens != nil && len(lens) != c.Records {
		t.Fatalf("%q: %d lengths for %d records", source, len(lens), c.Records)
	}
	if n := r.s.Count(body); n != c.Records {
		t.Fatalf("%q: Count(%q) = %d, want %d", source, body, n, c.Records)
	}
	i := 0
	for _, p := range c.Pieces {
		pos := p.Start
		for range p.Records {
			n := r.s.Split(body, 1)
			length := n
			if c.Lens != nil {
				length = lens[i]
			}
			r.events = append(r.events, event{at + pos, at + pos + length, "", string(body[:n]), c.Group})
			r.unchanged(source[pos:pos+length], body[:n])
			pos, body, i = pos+length, body[n:], i+1
		}
		if pos != p.End {
			t.Fatalf("%q: a piece %+v ends at %d", source, p, pos)
		}
	}
	if i != c.Records || len(body) > 0 {
		t.Fatalf("%q: the pieces have %d of %d records, %q is left", source, i, c.Records, body)
	}
	r.again(at, source, c)
}

// again makes the body once more from its pieces alone, with no check.
func (r *reading) again(at int, source string, c *Chunk) {
	s := newScanner(r.t, Options{Format: r.o.Format, MaxRecord: math.MaxInt32, Fields: r.o.Fields})
	s.SetStamp(stamp)
	var body []byte
	for _, p := range c.Pieces {
		var part Chunk
		pos := at + p.Start
		for data := buffer(source[p.Start:p.End]); len(data) > 0; data = data[part.Consumed:] {
			if s.Scan(data, int64(pos), true, 0, &part); part.Consumed == 0 {
				r.t.Fatalf("%q: nothing in %q", source, data)
			}
			pos += part.Consumed
			body = append(body, part.Body...)
		}
	}
	if string(body) != string(c.Body) {
		r.t.Fatalf("%q: %q was sent, and from its pieces comes %q", source, c.Body, body)
	}
}

// unchanged says how the bytes of a record may differ from those of its file.
func (r *reading) unchanged(source string, body []byte) {
	if undone := r.s.Source(body, len(source)); string(undone) != source {
		r.t.Fatalf("%q was sent as %q, which comes back as %q", source, body, undone)
	}
	sent := string(body)
	if r.o.Fields != nil {
		r.added(source, sent)
		return
	}
	want := strings.TrimSuffix(source, "\n")
	if r.o.Format == record.TXT || r.o.Format == record.MultiJSON {
		want = strings.TrimSuffix(want, "\r")
	}
	if want += "\n"; sent != want {
		r.t.Fatalf("%q was sent as %q", source, sent)
	}
}

// added checks that a record begins and ends as it does in its file, and has
// nothing but members between.
func (r *reading) added(source, sent string) {
	start := 0
	for start < len(source) && start < len(sent) && source[start] == sent[start] {
		start++
	}
	end := strings.TrimSuffix(source[start:], "\n")
	if r.o.Format == record.MultiJSON && source[len(source)-1] == '\n' {
		end = strings.TrimSuffix(end, "\r")
	}
	if !strings.HasSuffix(sent, end+"\n") {
		r.t.Fatalf("%q was sent as %q", source, sent)
	}
}

// filtered checks that what was consumed and is neither sent nor rejected is a
// byte order mark, a header, and as many blank lines as were counted.
func (r *reading) filtered(at int, source string, c *Chunk) {
	accounted := make([]bool, c.Consumed)
	mark := func(start, end int) {
		for i := start; i < end; i++ {
			accounted[i] = true
		}
	}
	for _, p := range c.Pieces {
		mark(p.Start, p.End)
	}
	for _, j := range c.Rejected {
		mark(j.Start, j.End)
	}
	var gap []byte
	for i, ok := range accounted {
		if !ok {
			gap = append(gap, source[i])
		}
	}
	if n := bytes.Count(gap, []byte{0}); n != c.NULs && c.Header == 0 {
		r.t.Fatalf("%q: %d NULs, want %d", source, c.NULs, n)
	}
	if c.NULs > 0 && source[c.NULsAt] != 0 {
		r.t.Fatalf("%q: no NUL at %d", source, c.NULsAt)
	}
	if c.Header > 0 && bytes.IndexByte(gap, 0) >= 0 {
		return // a header can hold NULs, and then look like nothing without them
	}
	torn := len(bytes.FieldsFunc(gap, func(c rune) bool { return c != 0 })) // a line can end at NULs too
	gap = bytes.ReplaceAll(gap, []byte{0}, nil)
	if c.BOM > 0 && at == 0 {
		gap = bytes.TrimPrefix(gap, []byte("\xEF\xBB\xBF"))
	}
	if c.Header > 0 {
		if at > 0 || c.Header > 1 || !r.o.SkipHeader {
			r.t.Fatalf("%q at %d: %d headers", source, at, c.Header)
		}
		blank := 0
		for line := range bytes.Lines(gap) {
			if string(line) != "\n" && string(line) != "\r\n" {
				break
			}
			blank += len(line)
		}
		gap = append(gap[:blank:blank], gap[blank+r.headerLen(gap[blank:]):]...)
	}
	if r.o.Format == record.MultiJSON {
		if len(bytes.Trim(gap, " \t\r\n[],")) > 0 {
			r.t.Fatalf("%q: filtered %q", source, gap)
		}
		return
	}
	if n := len(c.Pieces); r.o.Format == record.TXT && n > 0 && source[c.Pieces[n-1].End-1] != '\n' {
		behind := source[c.Pieces[n-1].End:c.Consumed] // begins with a line end that has lost its LF
		gap = gap[:len(gap)-(len(behind)-len(strings.TrimLeft(behind, "\r")))]
	}
	lines := bytes.Count(gap, []byte{'\n'})
	if len(gap) > 0 && gap[len(gap)-1] != '\n' {
		lines++
	}
	space := "\r\n"
	if r.o.Format == record.JSON {
		space = " \t\r\n"
	}
	if c.Blank < lines || c.Blank > lines+torn || len(bytes.Trim(gap, space)) > 0 {
		r.t.Fatalf("%q: %d blank lines, filtered %q", source, c.Blank, gap)
	}
}

func (r *reading) headerLen(gap []byte) int {
	in := csv.NewReader(bytes.NewReader(gap))
	in.Comma, in.LazyQuotes = rune(r.s.spec.Delimiter), true
	if _, err := in.Read(); err != nil && !errors.Is(err, io.EOF) {
		r.t.Fatalf("a header of %q: %v", gap, err)
	}
	return int(in.InputOffset())
}

// oracle sets what was found beside what the standard library finds.
func (r *reading) oracle() {
	for _, e := range r.events {
		if e.reason == "" && !r.o.Validate && !r.o.Wary {
			continue
		}
		switch {
		case e.reason == record.TooLong:
		case r.o.Format == record.JSON:
			rec := r.file[e.start:e.end]
			over := strings.Contains(strings.TrimRight(rec, "\r\n"), "\n") // several lines are no record, also where they would be one in MultiJSON
			if e.reason != "" && !over && soundJSON([]byte(rec)) {
				r.t.Fatalf("%q was rejected", rec)
			}
			if e.reason == "" && !soundJSON([]byte(rec)) && !strings.ContainsAny(rec, "'/") {
				r.t.Fatalf("%q was sent", rec)
			}
		case r.s.spec.Delimiter != 0:
			r.csvOracle(e)
		}
	}
}

func (r *reading) csvOracle(e event) {
	in := func(s string) *csv.Reader {
		c := csv.NewReader(strings.NewReader(s))
		c.Comma, c.FieldsPerRecord = rune(r.s.spec.Delimiter), -1
		c.LazyQuotes = false
		return c
	}
	if e.reason == "" {
		c := in(e.body)
		rec, err := c.Read()
		if err != nil || len(rec) != e.group || int(c.InputOffset()) != len(e.body) {
			r.t.Fatalf("%q was sent with %d fields: %q, %v", e.body, e.group, rec, err)
		}
		return
	}
	// Without Validate a stray quote passes, so that a record is rejected for
	// less here than there: one more reason cannot make it sound.
	c := in(r.file[e.start:])
	if _, err := c.Read(); err == nil && int(c.InputOffset()) <= r.o.MaxRecord {
		if ends := r.file[e.start+int(c.InputOffset())-1] == '\n'; ends || int(c.InputOffset()) < r.o.MaxRecord {
			r.t.Fatalf("%q of %q was rejected", r.file[e.start:e.end], r.file[e.start:])
		}
	}
}

// tiles checks that the events do not overlap, and that what is rejected never
// takes more than its own line.
func (r *reading) tiles() {
	at := 0
	for _, e := range r.events {
		if e.start < at || e.end <= e.start || e.end > len(r.file) {
			r.t.Fatalf("%q: %+v after %d", r.file, e, at)
		}
		if line := r.file[e.start:e.end]; e.reason != "" && !r.o.Wary && strings.Contains(line[:len(line)-1], "\n") {
			r.t.Fatalf("%q: more than a line was rejected: %q", r.file, line)
		}
		at = e.end
	}
}

// any options a number can choose.
func anyOptions(n uint16) Options {
	formats := []record.Format{record.CSV, record.JSON, record.TXT, record.PSV, record.CSV, record.SOHsv, record.TSV, record.SCsv}
	o := Options{
		Format:    formats[n%8],
		Validate:  n>>3&1 == 0,
		MaxRecord: []int{4, 7, 16, 40, 1 << 20, 1 << 20, 1 << 20, 100}[n>>5&7],
	}
	o.SkipHeader = n>>4&1 == 1 && o.Format != record.TXT && o.Format != record.JSON
	o.Wary = n>>4&1 == 1 && o.Format == record.JSON
	return o
}

// FuzzCuts: for any file and any way of cutting it into reads the same records
// come out, and they are those the standard library finds.
func FuzzCuts(f *testing.F) {
	for n, s := range []string{
		"a,b\nc,d\n", "\"a\nb\",c\n\n\r\nd,e", "{\"a\":1}\n\n{\"b\":\"c\"}\r\nx\n {}", "a\r\nb\n\r\n\xff\r", "\xEF\xBB\xBF\nh|i\na|b\n\"c|\n",
		"\"a\"b,c\n\"d,e\nf,\"g\"\n", "a;\"b\"\"\n\";c\r\n1;2;3\n1;2\n", "x\"y,z\n,\n\"\"\n", "h\n\"\n\"\n\"\r\n", "a long line that is longer than most limits are, and one more\nb\n",
		"{'a':1}//b\n{/**/}\n[]\n", "\r\r\n\"a\"\r\r\n\"\r\n", "\xEF\xBB\xEF\xBB\xBF\n",
		"\x00\x00a,b\n\x00\x00\n\x00\"c\n\x00\",d\x00\x00", "\x00{}\n\x00", "a\r\x00", "\x00\x00\x00\x00\x00\x00h\n\x00a\x00b\n",
	} {
		for o := range uint16(8) {
			f.Add([]byte(s), uint64(n), uint16(n)+o*37)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, options uint16) {
		if len(in) > 4096 {
			return
		}
		o, file := anyOptions(options), string(in)
		whole := read(t, o, file).whole()
		whole.tiles()
		whole.oracle()
		cut := read(t, o, file).cut(rand.New(rand.NewPCG(seed, 0)))
		if got, want := fmt.Sprint(cut.events), fmt.Sprint(whole.events); got != want {
			t.Fatalf("%+v %q\n  cut %s\nwhole %s", o, file, got, want)
		}
		if cut.blank != whole.blank || cut.header != whole.header || cut.invalid != whole.invalid || cut.nuls != whole.nuls {
			t.Fatalf("%+v %q\n  cut: blank %d header %d invalid %d NULs %d\nwhole: blank %d header %d invalid %d NULs %d", o, file,
				cut.blank, cut.header, cut.invalid, cut.nuls, whole.blank, whole.header, whole.invalid, whole.nuls)
		}
	})
}

// FuzzDelimited: what encoding/csv reads without an error comes out record by
// record, with nothing rejected.
func FuzzDelimited(f *testing.F) {
	for _, s := range []string{"a,b\nc,d\n", "\"a\n\"\"b\",c\n\nd\r\n", "a\rb,\"c\"\r\n\"\"", "\r\r\n,\n", "\"\r\n\"\r"} {
		for d := range 5 {
			f.Add([]byte(s), uint8(d))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, delimiter uint8) {
		spec := table[delimiter%5]
		c := csv.NewReader(bytes.NewReader(in))
		c.Comma, c.FieldsPerRecord = rune(spec.Delimiter), -1
		records, err := c.ReadAll()
		if err != nil || bytes.HasPrefix(in, []byte("\xEF\xBB\xBF")) || bytes.IndexByte(in, 0) >= 0 {
			return
		}
		r := read(t, Options{Format: spec.Format, Validate: true, MaxRecord: 1 << 20}, string(in)).whole()
		if len(r.events) != len(records) {
			t.Fatalf("%q: %d records, want %q", in, len(r.events), records)
		}
		for i, e := range r.events {
			if e.reason != "" || e.group != len(records[i]) {
				t.Fatalf("%q: %+v, want %q", in, e, records[i])
			}
		}
	})
}
