package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"kusto-agent/internal/record"
)

// shaping replays a file whose records are parsed or decoded, and checks what
// must be true after any call.
type shaping struct {
	t      testing.TB
	o      Options
	s      *Scanner
	file   string
	all    []outcome
	counts [6]int // blank, byte order marks, not UTF-8, headers, misfits, unmatched
}

// outcome is what became of a range: sent as lines, or rejected.
type outcome struct {
	start, end int
	reason     record.Reason
	body       string
}

func shapes(t testing.TB, o Options, file string) *shaping {
	s := newScanner(t, o)
	s.SetStamp(stamp)
	return &shaping{t: t, o: s.opt, s: s, file: file}
}

// whole scans the file in one piece, to its end.
func (p *shaping) whole() *shaping {
	p.wholeFrom(0)
	return p
}

func (p *shaping) wholeFrom(at int) {
	var c Chunk
	for at < len(p.file) {
		p.scan(at, len(p.file), 0, &c)
		if at += c.Consumed; c.Parts {
			at = p.parts(at, &c, nil)
		} else if c.Consumed == 0 {
			p.t.Fatalf("%+v: no progress at %d of %q", p.o, at, p.file)
		}
	}
}

// cut scans the file as it grows.
func (p *shaping) cut(rnd *rand.Rand) *shaping {
	p.cutFrom(0, rnd)
	return p
}

func (p *shaping) cutFrom(at int, rnd *rand.Rand) {
	var c Chunk
	enough := p.o.MaxRecord * p.o.Encoding.unit()
	for p.o.Room(enough) < p.o.MaxRecord {
		enough++
	}
	for end := at; at < len(p.file); {
		p.scan(at, end, rnd.IntN(4), &c)
		switch at += c.Consumed; {
		case c.Parts:
			at = p.parts(at, &c, rnd)
			end = at
		case c.Long:
			at = p.skip(at, &c, rnd)
			end = at
		case c.Consumed == 0:
			if end-at >= enough {
				p.t.Fatalf("%+v: %d bytes at %d of %q are not enough", p.o, end-at, at, p.file)
			}
			end = min(len(p.file), end+1+rnd.IntN(2+len(p.file)/3), at+enough)
		case rnd.IntN(3) == 0:
			end = at + rnd.IntN(end-at+1)
		}
	}
}

// parts passes a message in parts, at once or as the file grows, and then scans
// what lies between its lines.
func (p *shaping) parts(start int, c *Chunk, rnd *rand.Rand) (end int) {
	stream := bytes.Clone(c.Stream)
	var own []Piece
	at := start + c.Skip
	own = append(own, Piece{Start: start, End: at})
	for done, more := false, 0; !done; {
		if end = len(p.file); rnd != nil {
			more += 1 + rnd.IntN(1+len(p.file)/4)
			end = min(end, at+more)
		}
		pieces, n, ended := p.s.SkipParts([]byte(p.file[at:end]), stream, end == len(p.file))
		for _, o := range pieces {
			if o.Start += at; own[len(own)-1].End == o.Start {
				own[len(own)-1].End = at + o.End
			} else {
				own = append(own, Piece{Start: o.Start, End: at + o.End})
			}
		}
		if at, done = at+n, ended; n > 0 {
			more = 0
		}
	}
	file := p.file
	for i, o := range own {
		p.all = append(p.all, outcome{start: o.Start, end: o.End, reason: record.TooLong})
		if i == 0 {
			continue
		}
		p.file = file[:o.Start] // what is between is read as if nothing followed
		if between := own[i-1].End; rnd == nil {
			p.wholeFrom(between)
		} else {
			p.cutFrom(between, rnd)
		}
	}
	p.file = file
	slices.SortFunc(p.all, func(a, b outcome) int { return a.start - b.start })
	return own[len(own)-1].End
}

func (p *shaping) skip(start int, c *Chunk, rnd *rand.Rand) int {
	at, end := start+c.Skip, start+c.Skip
	for {
		n, done := p.s.SkipLong([]byte(p.file[at:end]), c.Indent, end == len(p.file))
		if at += n; done {
			p.all = append(p.all, outcome{start: start, end: at, reason: c.Reason})
			return at
		}
		end = min(len(p.file), end+1+rnd.IntN(1+len(p.file)/4))
	}
}

func (p *shaping) scan(at, end, limit int, c *Chunk) {
	t, source := p.t, p.file[at:end]
	data := buffer(source)
	p.s.Scan(data, int64(at), end == len(p.file), limit, c)
	if string(data[c.Consumed:]) != source[c.Consumed:] {
		t.Fatalf("%q: what was not consumed became %q", source, data[c.Consumed:])
	}
	lens, body, i := decodeLens(c.Lens), c.Body, 0
	if c.Records > 0 && (!c.Copied || p.o.Parse != ParseNone && c.Lens == nil) || c.Lens != nil && len(lens) != c.Records {
		t.Fatalf("%q: copied %t, lengths %v of %d records", source, c.Copied, lens, c.Records)
	}
	covered := make([]bool, c.Consumed)
	cover := func(from, to int) {
		for j := from; j < to; j++ {
			if covered[j] {
				t.Fatalf("%q: byte %d is in two records", source, j)
			}
			covered[j] = true
		}
	}
	for _, piece := range c.Pieces {
		cover(piece.Start, piece.End)
		pos, first := piece.Start, body
		for n := 0; n < piece.Records; i++ {
			size, length, records := p.s.Split(body, 1), 0, 1
			if length = size; c.Lens != nil {
				for length = lens[i]; length == 0; length = lens[i] {
					i++
					size += p.s.Split(body[size:], 1)
					records++
				}
			}
			p.all = append(p.all, outcome{at + pos, at + pos + length, "", string(body[:size])})
			pos, body, n = pos+length, body[size:], n+records
		}
		if pos != piece.End {
			t.Fatalf("%q: piece %+v ends at %d", source, piece, pos)
		}
		p.again(at+piece.Start, source[piece.Start:piece.End], string(first[:len(first)-len(body)]))
	}
	for _, j := range c.Rejected {
		cover(j.Start, j.End)
		if !strings.HasPrefix(source[j.Start:j.End], string(j.Data)) || len(j.Data) < min(j.End-j.Start, p.o.MaxRecord) || !utf8.ValidString(j.Message) {
			t.Fatalf("%q: rejected %q, %q", source, j.Data, j.Message)
		}
		p.all = append(p.all, outcome{start: at + j.Start, end: at + j.End, reason: j.Reason})
	}
	var rest []byte
	for j, in := range covered {
		if !in {
			rest = append(rest, source[j])
		}
	}
	if c.BOM == 0 && c.Blank == 0 && c.Header == 0 && c.NULs == 0 && c.Unmatched == 0 && len(rest) > 0 && p.o.Format != record.MultiJSON {
		t.Fatalf("%q: nothing became of %q", source, rest)
	}
	p.counts[3] += c.Header
	if rest = bytes.Trim(rest, "\x00\xEF\xBB\xBF\xFF\xFE \t\r\n[],"); len(rest) > 0 && c.Header == 0 && c.Unmatched == 0 {
		t.Fatalf("%q: filtered %q", source, rest)
	}
	p.counts[0], p.counts[1], p.counts[2] = p.counts[0]+c.Blank, p.counts[1]+c.BOM, p.counts[2]+c.InvalidUTF8
	p.counts[4], p.counts[5] = p.counts[4]+c.Misfits, p.counts[5]+c.Unmatched
	slices.SortFunc(p.all, func(a, b outcome) int { return a.start - b.start })
}

// again makes the records of a piece once more, from it alone and unchecked.
func (p *shaping) again(at int, source, want string) {
	o := p.o
	o.Validate, o.MaxBody, o.SkipHeader = false, 0, false
	s := newScanner(p.t, o)
	s.SetStamp(stamp)
	var got []byte
	var c Chunk
	for data := buffer(source); len(data) > 0; data = data[c.Consumed:] {
		if s.Scan(data, int64(at), true, 0, &c); c.Consumed == 0 {
			p.t.Fatalf("%q: nothing in %q", source, data)
		}
		at += c.Consumed
		got = append(got, c.Body...)
	}
	if string(got) != want {
		p.t.Fatalf("%+v: %q was sent, and from %q comes %q", p.o, want, source, got)
	}
}

// lines are the records that were sent, and in angles why others were not.
func (p *shaping) lines() (all []string) {
	for _, o := range p.all {
		if o.reason != "" {
			all = append(all, fmt.Sprintf("<%s %d>", o.reason, o.end-o.start))
		}
		for line := range strings.Lines(o.body) {
			all = append(all, strings.TrimSuffix(line, "\n"))
		}
	}
	return all
}

// want compares what comes of a file, read at once and in parts.
func (p *shaping) want(want ...string) {
	p.t.Helper()
	p.whole()
	if got := p.lines(); !slices.Equal(got, want) {
		p.t.Errorf("%q becomes\n%s\nwant\n%s", p.file, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for seed := range uint64(20) {
		p.same(shapes(p.t, p.o, p.file).cut(rand.New(rand.NewPCG(seed, 1))))
	}
	if p.o.Parse != ParseNone {
		p.sound()
	}
}

func (p *shaping) same(cut *shaping) {
	p.t.Helper()
	if got, want := fmt.Sprintf("%v %v", cut.all, cut.counts), fmt.Sprintf("%v %v", p.all, p.counts); got != want {
		p.t.Fatalf("%+v %q\n  cut %s\nwhole %s", p.o, p.file, got, want)
	}
}

// sound checks that what was sent is JSON.
func (p *shaping) sound() {
	for _, o := range p.all {
		for line := range strings.Lines(o.body) {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil || !soundJSON([]byte(line)) {
				p.t.Fatalf("%q was sent for %q: %v", line, p.file[o.start:o.end], err)
			}
		}
	}
}

func parsed(t *testing.T, how Parse, m *Multiline, file string) *shaping {
	return shapes(t, Options{Format: record.JSON, Validate: true, Parse: how, Multiline: m}, file)
}

func TestParseText(t *testing.T) {
	f := func(in string, want ...string) {
		t.Helper()
		parsed(t, ParseText, nil, in).want(want...)
	}
	f("one\ntwo\r\nthree", `{"message":"one"}`, `{"message":"two"}`, `{"message":"three"}`)
	f("\n\r\n \n", `{"message":" "}`)
	f("\xEF\xBB\xBFa\n\xEF\xBB\xBFb\r\r", `{"message":"a"}`, "{\"message\":\"\uFEFFb\"}")
	f("{\"a\":\"\\n\"}\n", `{"message":"{\"a\":\"\\n\"}"}`)
	f("\x1f\x00\t\b\x7f/\r.\n", `{"message":"\u001f\u0000\t\u0008`+"\x7f"+`/\r."}`)
	f("äö\xff€\n", "{\"message\":\"äö\uFFFD€\"}")
	f("0123456789\"abcdefgh\\ijklmnopqrstuvwxyz\n", `{"message":"0123456789\"abcdefgh\\ijklmnopqrstuvwxyz"}`)
}

func TestParseLogfmt(t *testing.T) {
	f := func(in string, want string) {
		t.Helper()
		parsed(t, ParseLogfmt, nil, in+"\n").want(want)
	}
	f(`ts=2026-03-01T00:00:00Z level=info n=12 ok`, `{"ts":"2026-03-01T00:00:00Z","level":"info","n":"12","ok":true}`)
	f(`msg="a b \"c\" \\ \n \u00e9 \x \'" e= q=""`, `{"msg":"a b \"c\" \\ \n \u00e9 \\x \\'","e":"","q":""}`)
	f("a=\"x\ty\"\tb=2 ", `{"a":"x\ty","b":"2"}`)
	f(`a=1 a=2 a=3 a_2=4`, `{"a":"1","a_2":"2","a_3":"3","a_2_2":"4"}`)
	f(`a=b=c x=y"z`, `{"a":"b=c","x":"y\"z"}`)
	f(`only words here`, `{"message":"only words here"}`)
	f(`a=1 =2`, `{"message":"a=1 =2"}`)
	f(`a="open`, `{"message":"a=\"open"}`)
	f(`a="x"y`, `{"message":"a=\"x\"y"}`)
	f(`a"b=1`, `{"message":"a\"b=1"}`)
	f(`a="\`, `{"message":"a=\"\\"}`)
	f("é=\xff", "{\"é\":\"\uFFFD\"}")
	f("a\\b=c", `{"a\\b":"c"}`)
}

// A line may have any number of keys, also all of them the same.
func TestParseLogfmtManyKeys(t *testing.T) {
	var line strings.Builder
	const n = 20000
	for i := range n {
		fmt.Fprintf(&line, "k=%d j%d=x ", i, i)
	}
	p := parsed(t, ParseLogfmt, nil, line.String()+"\n").whole()
	var v map[string]any
	if err := json.Unmarshal([]byte(p.all[0].body), &v); err != nil {
		t.Fatal(err)
	}
	if len(v) != 2*n {
		t.Errorf("%d members, want %d", len(v), 2*n)
	}
	for i := range n {
		if name := fmt.Sprintf("k_%d", i+1); i > 0 && v[name] != fmt.Sprint(i) {
			t.Fatalf("%s is %v", name, v[name])
		}
	}
}

func docker(log, stream, time string) string {
	text, _ := json.Marshal(log)
	return fmt.Sprintf(`{"log":%s,"stream":%q,"time":%q}`+"\n", text, stream, time)
}

func TestParseDocker(t *testing.T) {
	f := func(in string, want ...string) {
		t.Helper()
		parsed(t, ParseDocker, nil, in).want(want...)
	}
	const t1, t2, t3 = "2026-03-01T12:00:00.123456789Z", "2026-03-01T12:00:01Z", "2026-03-01T12:00:02+01:00"
	msg := func(time, stream, text string) string {
		return fmt.Sprintf(`{"time":%q,"stream":%q,"message":%s}`, time, stream, text)
	}
	part := func(s string) string { return strings.TrimSuffix(s, "}") + `,"partial":true}` }
	f(docker("hello <b>\n", "stdout", t1), msg(t1, "stdout", `"hello \u003cb\u003e"`))
	f(docker("\n", "stderr", t1)+docker("a\\n\n", "stderr", t2)+docker("cr\r\n", "stderr", t2), msg(t1, "stderr", `""`), msg(t2, "stderr", `"a\\n"`), msg(t2, "stderr", `"cr"`))
	f(docker("one ", "stdout", t1)+docker("two ", "stdout", t2)+docker("three\n", "stdout", t3), msg(t1, "stdout", `"one two three"`))
	f(docker("o1 ", "stdout", t1)+docker("e1\n", "stderr", t2)+docker("e2 ", "stderr", t2)+docker("o2\n", "stdout", t3)+docker("e3\n", "stderr", t3)+docker("x\n", "stdout", t3),
		msg(t1, "stdout", `"o1 o2"`), msg(t2, "stderr", `"e1"`), msg(t2, "stderr", `"e2 e3"`), msg(t3, "stdout", `"x"`))
	f(docker("never ", "stdout", t1), part(msg(t1, "stdout", `"never "`)))
	f(docker(`a\n`, "stdout", t1)+docker("b\n", "stdout", t1), msg(t1, "stdout", `"a\\nb"`)) // a backslash and an n end no line
	f(`{"log":"x\u000d\u000A","stream":"stdout","attrs":{"tag":["a","}"]},"time":"`+t1+`"}`, strings.TrimSuffix(msg(t1, "stdout", `"x"`), "}")+`,"attrs":{"tag":["a","}"]}}`)
	f(docker("a ", "stdout", t1)+"garbage\n"+docker("b\n", "stdout", t2), part(msg(t1, "stdout", `"a "`)), "<malformed 8>", msg(t2, "stdout", `"b"`))
	f(`{"log":1}`+"\n", "<malformed 10>")
	f(`{"stream":"stdout"}`+"\n", "<malformed 20>")
	f(`{"log":"a\n","log":"b\n"}`+"\n", "<malformed 26>")
	f(`{"log":"a\n","message":"b"}`+"\n", "<malformed 28>")
	f("{\"log\":\"\xff\\n\"}\n", "<malformed 14>")
	f(` { "log" : "a\n" , "n" : -1.5e3 } `+"\r\n\n", `{"message":"a","n" : -1.5e3}`)
}

func TestParseCRI(t *testing.T) {
	f := func(in string, want ...string) {
		t.Helper()
		parsed(t, ParseCRI, nil, in).want(want...)
	}
	const t1 = "2026-03-01T12:00:00.123456789+01:00"
	msg := func(stream, text string) string {
		return fmt.Sprintf(`{"time":%q,"stream":%q,"message":%s}`, t1, stream, text)
	}
	part := func(s string) string { return strings.TrimSuffix(s, "}") + `,"partial":true}` }
	f(t1+" stdout F hello \"you\"\n", msg("stdout", `"hello \"you\""`))
	f(t1+" stderr F \n"+t1+" stderr F\n"+t1+" stderr F:x  a \r\n", msg("stderr", `""`), msg("stderr", `""`), msg("stderr", `" a "`))
	f(t1+" stdout P one \n"+t1+" stderr F err\n"+t1+" stdout P two \n"+t1+" stdout F three\n", msg("stdout", `"one two three"`), msg("stderr", `"err"`))
	f(t1+" stdout P \xc3\n"+t1+" stdout F \xa4\n", msg("stdout", `"ä"`)) // a character in two parts
	f(t1+" stdout P \xc3\n", part(msg("stdout", "\"\uFFFD\"")))
	f(t1+" stdout P a\r\n"+t1+" stdout F b", msg("stdout", `"a\rb"`))
	f("nonsense\n"+t1+" stdin F x\n"+t1+" stdout X x\n", "<malformed 9>", "<malformed 46>", "<malformed 47>")
	p := shapes(t, Options{Format: record.JSON, Parse: ParseCRI}, "nonsense \"\n"+t1+" stdout P x\nmore\n")
	p.want(`{"message":"nonsense \""}`, part(msg("stdout", `"x"`)), `{"message":"more"}`)
}

// A message that is longer than a record may be is rejected with all its parts,
// and costs the other stream nothing.
func TestLongMessages(t *testing.T) {
	const t1 = "2026-03-01T12:00:00Z"
	line := func(stream, tag, text string) string { return t1 + " " + stream + " " + tag + " " + text + "\n" }
	msg := func(stream, text string) string {
		return fmt.Sprintf(`{"time":%q,"stream":%q,"message":%q}`, t1, stream, text)
	}
	f := func(file string, want ...string) {
		t.Helper()
		for _, e := range []Encoding{UTF8, UTF16BE} {
			o := Options{Format: record.JSON, Validate: true, Parse: ParseCRI, MaxRecord: 100, Encoding: e}
			text := file
			if e != UTF8 {
				text = utf16Text(file, true)
			}
			shapes(t, o, text).whole().parsedAs(t, len(text)/len(file), want...)
			for seed := range uint64(20) {
				shapes(t, o, text).cut(rand.New(rand.NewPCG(seed, 3))).parsedAs(t, len(text)/len(file), want...)
			}
		}
	}
	o, e := line("stdout", "P", "ab"), line("stderr", "F", "e") // 33 and 32 bytes
	f(o+o+line("stdout", "F", "c")+e, msg("stdout", "ababc"), msg("stderr", "e"))
	f(o+o+line("stdout", "F", "cdef")+e, "<too_long 101>", msg("stderr", "e"))
	f(strings.Repeat(o, 50)+line("stdout", "F", "c")+o+line("stdout", "F", "d"), "<too_long 1682>", msg("stdout", "abd"))
	f(o+e+o+e+e+o+line("stdout", "F", "c")+e,
		"<too_long 33>", msg("stderr", "e"), "<too_long 33>", msg("stderr", "e"), msg("stderr", "e"), "<too_long 65>", msg("stderr", "e"))
	// Its end does not come, or not before another line.
	f(o+o+o+o, "<too_long 132>")
	f(o+o+o+"nonsense\n"+o, "<too_long 99>", "<malformed 9>", strings.TrimSuffix(msg("stdout", "ab"), "}")+`,"partial":true}`)
	f(o+o+strings.Repeat("x", 200)+"\n"+e, "<too_long 66>", "<too_long 201>", msg("stderr", "e"))
	// Both streams are too long; of one whose parts lie between those of another nothing can be joined.
	p := line("stderr", "P", "xy")
	f(o+p+o+p+p+p+p+o+line("stdout", "F", "c")+line("stderr", "F", "z"),
		"<too_long 33>", strings.TrimSuffix(msg("stderr", "xy"), "}")+`,"partial":true}`, "<too_long 33>", "<too_long 132>", "<too_long 65>", msg("stderr", "z"))
	// Short messages that overlap without end are parted.
	f(o+p+line("stdout", "F", "c")+line("stderr", "F", "z"), msg("stdout", "abc"), strings.TrimSuffix(msg("stderr", "xy"), "}")+`,"partial":true}`, msg("stderr", "z"))
}

// Docker's streams can have any name, or none.
func TestLongMessagesOfDocker(t *testing.T) {
	part := `{"log":"part ","stream":"x"}` + "\n"
	other := `{"log":"other\n"}` + "\n"
	o := Options{Format: record.JSON, Validate: true, Parse: ParseDocker, MaxRecord: 60}
	shapes(t, o, part+other+strings.Repeat(part, 3)+`{"log":"end\n","stream":"x"}`+"\n"+other).
		want("<too_long 29>", `{"message":"other"}`, "<too_long 116>", `{"message":"other"}`)
	bare := `{"log":"part "}` + "\n"
	shapes(t, o, strings.Repeat(bare, 5)+part).want("<too_long 80>", `{"stream":"x","message":"part ","partial":true}`)
}

// parsedAs compares what became of a file; a character of it has so many bytes.
func (p *shaping) parsedAs(t *testing.T, unit int, want ...string) {
	t.Helper()
	got := p.lines()
	for i, line := range got {
		var reason string
		var n int
		if _, err := fmt.Sscanf(line, "<%s %d>", &reason, &n); err == nil {
			got[i] = fmt.Sprintf("<%s %d>", reason, n/unit)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q becomes\n%s\nwant\n%s", p.file, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What is quiet is whole, but for a line whose end is missing.
func TestQuiet(t *testing.T) {
	f := func(o Options, file string, want string, rest string) {
		t.Helper()
		o.Format, o.Validate = record.JSON, true
		s := newScanner(t, o)
		var c Chunk
		s.Scan([]byte(file), 1, false, 0, &c)
		if c.Consumed > 0 {
			t.Errorf("%q is not waited for: %q", file, c.Body)
		}
		s.SetQuiet(true)
		s.Scan([]byte(file), 1, false, 0, &c)
		if string(c.Body) != want || file[c.Consumed:] != rest {
			t.Errorf("%q becomes %q, %q is left; want %q, %q", file, c.Body, file[c.Consumed:], want, rest)
		}
	}
	m := multiline(t, `^\d`, "", 500)
	f(Options{Parse: ParseText, Multiline: m}, "1 a\n b\n", `{"message":"1 a\n b"}`+"\n", "")
	f(Options{Parse: ParseText, Multiline: m}, "1 a\n b\n c", `{"message":"1 a\n b"}`+"\n", " c")
	f(Options{Parse: ParseText, Multiline: m}, "1 a", "", "1 a")
	f(Options{Parse: ParseText, Multiline: m, Encoding: UTF16LE}, utf16Text("1 a\n b\n c", false), `{"message":"1 a\n b"}`+"\n", utf16Text(" c", false))
	const line = "2026-03-01T12:00:00Z stdout P a\n"
	const object = `{"time":"2026-03-01T12:00:00Z","stream":"stdout","message":"a","partial":true}` + "\n"
	f(Options{Parse: ParseCRI}, line, object, "")
	f(Options{Parse: ParseCRI}, line+"2026", object, "2026")
}

func multiline(t testing.TB, start, preset string, most int) *Multiline {
	t.Helper()
	m, err := NewMultiline(start, preset, most)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMultiline(t *testing.T) {
	var m *Multiline
	f := func(in string, want ...string) {
		t.Helper()
		p := parsed(t, ParseText, m, in)
		for i, w := range want {
			text, _ := json.Marshal(w)
			want[i] = `{"message":` + string(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`\u003c`), []byte("<")), []byte(`\u003e`), []byte(">"))) + "}"
		}
		p.want(want...)
	}
	m = multiline(t, `^\d{4}-`, "", 4)
	f("first\nlines\n2026-1\n2026-2\n more\n\nand more\r\n2026-3\r\na\r\nb", "first\nlines", "2026-1", "2026-2\n more\n\nand more", "2026-3\na\nb")
	f("\n\n2026-1\na\nb\nc\nd\ne\n", "2026-1\na\nb\nc", "d\ne")
	f("2026-1\n\n\n", "2026-1\n\n")

	m = multiline(t, "", "java", 500)
	f("INFO ok\nERROR java.lang.E: x\n\tat a.b(C.java:1)\n    ... 2 more\nCaused by: java.io.F\n\tat d\n\tSuppressed: g\nSuppressed: h\nINFO ok\n",
		"INFO ok", "ERROR java.lang.E: x\n\tat a.b(C.java:1)\n    ... 2 more\nCaused by: java.io.F\n\tat d\n\tSuppressed: g\nSuppressed: h", "INFO ok")

	m = multiline(t, "", "python", 500)
	const trace = "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    f()\nValueError: bad"
	f("INFO a\n"+trace+"\nINFO b\n", "INFO a", trace, "INFO b")
	f(trace+"\n"+trace+"\n", trace, trace)
	chain := trace + "\n\nDuring handling of the above exception, another exception occurred:\n\n" + trace
	f(chain+"\nINFO b\nDuring handling of the above exception\n", chain, "INFO b", "During handling of the above exception")

	m = multiline(t, "", "go", 500)
	const dump = "panic: boom [recovered]\n\tpanic: boom\n[signal SIGSEGV: segmentation violation]\n\ngoroutine 1 [running]:\npanic({0x45a0c0, 0x48d1a8})\n\t/go/src/runtime/panic.go:785 +0x132\nmain.(*T).f(0xc000010000, {0x1, 0x2})\n\t/x/main.go:5 +0x1d\n" +
		"main.main()\n\t/x/main.go:9 +0x20\n\ngoroutine 7 [select]:\nruntime.gopark(...)\ncreated by main.main in goroutine 1\n\t/x/main.go:8\nrax    0x0\nexit status 2"
	f("2026/03/01 start\n"+dump+"\n2026/03/01 done (ok)\n", "2026/03/01 start", dump, "2026/03/01 done (ok)")
	f("fatal error: all asleep\nruntime stack:\nx.y()\npanic: again\n", "fatal error: all asleep\nruntime stack:\nx.y()", "panic: again")
}

// An event that is longer than a record may be is rejected to its end.
func TestLongEvents(t *testing.T) {
	f := func(in string, want ...string) {
		t.Helper()
		o := Options{Format: record.JSON, Validate: true, Parse: ParseText, Multiline: multiline(t, `^\d`, "", 3), MaxRecord: 10}
		shapes(t, o, in).want(want...)
	}
	f("1 2345678\n2\n", `{"message":"1 2345678"}`, `{"message":"2"}`)
	f("1 23456789\n2\n", "<too_long 11>", `{"message":"2"}`)
	f("1 a\n bcd\n ef\n gh\n2\n", "<too_long 17>", `{"message":"2"}`)
	f("1 a\nbc\nd\nef\n2\n", `{"message":"1 a\nbc\nd"}`, `{"message":"ef"}`, `{"message":"2"}`)
	f("1 a\n bcdefghijklmnopq\n r\n\n\nstuvwxyzabcdefg", "<too_long 42>")
}

func TestBadMultilines(t *testing.T) {
	f := func(start, preset string, most int, want string) {
		t.Helper()
		if _, err := NewMultiline(start, preset, most); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q %q: %v, want %q", start, preset, err, want)
		}
	}
	f("(", "", 1, "missing closing )")
	f("", "", 1, "neither")
	f("a", "java", 1, "one of them")
	f("", "perl", 1, "want go, java, python")
	f("a", "", 0, "at least 1")
}

// TestBadOptions: what makes no sense together is refused.
func TestBadShapes(t *testing.T) {
	f := func(o Options) {
		t.Helper()
		if o.MaxRecord = 100; true {
			if _, err := New(o); err == nil {
				t.Errorf("%+v is taken", o)
			}
		}
	}
	f(Options{Format: record.TXT, Parse: ParseText})
	f(Options{Format: record.Avro, Encoding: Latin1})
	f(Options{Format: record.JSON, Parse: ParseCRI, Multiline: multiline(t, "a", "", 1)})
}

// What parsing makes longer than a body may be is rejected, alone.
func TestParseGrown(t *testing.T) {
	o := Options{Format: record.JSON, Validate: true, Parse: ParseText, MaxRecord: 40, MaxBody: 64}
	shapes(t, o, "a\n"+strings.Repeat("\x01", 30)+"\nb\nc\nd\ne\n").want(`{"message":"a"}`, "<grown 31>", `{"message":"b"}`, `{"message":"c"}`, `{"message":"d"}`, `{"message":"e"}`)
}

// anyShape are the options that a number chooses.
func anyShape(t testing.TB, n uint32) Options {
	pick := func(of int) int { i := int(n % uint32(of)); n /= uint32(of); return i }
	o := Options{Format: record.JSON, Parse: Parse(pick(5)), Encoding: Encoding(pick(4)), Validate: pick(4) > 0}
	o.MaxRecord = []int{1 << 20, 1 << 12, 150, 40, 12}[pick(5)]
	if pick(3) == 0 {
		o.Fields = fieldSets(t)[0]
	}
	if o.Parse == ParseText {
		o.Multiline = []*Multiline{nil, multiline(t, `^\d`, "", 3), multiline(t, `a`, "", 500), multiline(t, "", "java", 500), multiline(t, "", "python", 500), multiline(t, "", "go", 4)}[pick(6)]
	}
	if o.Parse == ParseNone {
		o.Format = []record.Format{record.JSON, record.TXT, record.CSV, record.MultiJSON, record.PSV}[pick(5)]
		if o.Format != record.JSON && o.Format != record.MultiJSON {
			o.Fields = nil
			o.SkipHeader = o.Format != record.TXT && pick(2) == 0
		}
		o.Encoding = max(o.Encoding, UTF16LE)
	}
	return o
}

// FuzzShapes: for any file, encoding and way of parsing, and any way of cutting
// it into reads, the same records come out, every byte is accounted for, what is
// sent is JSON, and can be made again from its ranges.
func FuzzShapes(f *testing.F) {
	const t1 = "2026-03-01T12:00:00Z"
	for n, s := range []string{
		"1 a\n b\n\nCaused by: x\r\n2 c\n\xff\x00\n", "a=1 b=\"x \\\" y\" c a=2\nmsg\n", docker("a", "stdout", t1) + docker("b\n", "stderr", t1) + docker("c\n", "stdout", t1) + "{}\n",
		t1 + " stdout P a\n" + t1 + " stderr P b\n" + t1 + " stdout F c\n" + t1 + " stderr F d\nnone\n", "\xff\xfea\x00\n\x00=\xd8\x00\xdc\n\x00", "\xfe\xff\x00{\x00}\x00\n\xd8",
		"Traceback (most recent call last):\n  File\nValueError\n\nDuring handling of the above exception\nTraceback (most recent call last):\nx\n",
		"panic: x\n\ngoroutine 1 [running]:\nmain.f()\n\t/x\nok\n", "{\"a\":\"ü\"}\n[{},\n{}]\n\"a\",\"b\nc\"\n",
	} {
		for o := range uint32(20) {
			f.Add([]byte(s), uint64(n), o+20*uint32(n))
		}
	}
	for n, s := range []string{ // each format as it is, in each encoding, with any limit
		"{\"ok\":1}\n{\"long\":\"" + strings.Repeat("x", 200) + "\"}\n{\"ok\":2}\n[{}, {\"a\":\n1}]", "a,\"b\nc\"\n\"d" + strings.Repeat("e\n", 100) + "f,g\n",
	} {
		for o := range uint32(4 * 5 * 5) {
			at := 5*(o%4) + 20 + 80*(o/4%5) + 400 + 1200*(o/20)
			f.Add([]byte(s), uint64(n), at)
			f.Add([]byte(utf16Text(s, false)), uint64(n), at)
			f.Add([]byte(utf16Text(s, true)), uint64(n), at)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, options uint32) {
		if len(in) > 4096 {
			return
		}
		o, file := anyShape(t, options), string(in)
		whole := shapes(t, o, file).whole()
		at := 0
		for _, e := range whole.all {
			if e.start < at || e.end <= e.start || e.end > len(file) {
				t.Fatalf("%q: %+v behind %d", file, e, at)
			}
			at = e.end
		}
		if o.Parse != ParseNone {
			whole.sound()
		}
		if o.Parse == ParseText && o.Encoding == UTF8 && o.Fields == nil {
			whole.messages()
		}
		whole.same(shapes(t, o, file).cut(rand.New(rand.NewPCG(seed, 0))))
	})
}

// messages checks that a reader of what was sent gets the text of the file.
func (p *shaping) messages() {
	for _, o := range p.all {
		if o.reason != "" {
			continue
		}
		var m struct{ Message string }
		if err := json.Unmarshal([]byte(o.body), &m); err != nil {
			p.t.Fatal(err)
		}
		text := p.file[o.start:o.end]
		want := strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		if !strings.HasSuffix(text, "\n") {
			want = strings.TrimRight(text, "\r")
		}
		if p.o.Multiline != nil {
			want = strings.ReplaceAll(want, "\r\n", "\n")
		}
		if want = string([]rune(want)); m.Message != want {
			p.t.Fatalf("%q was sent for %q", m.Message, text)
		}
	}
}
