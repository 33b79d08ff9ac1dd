package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"kusto-agent/internal/record"
)

func TestMultiJSON(t *testing.T) {
	f := scanned(t, Options{Format: record.MultiJSON, Validate: true, MaxRecord: 32}, false)
	f("", "")
	f("{}\n{\"a\":1}\n", `2 "{}\n{\"a\":1}\n"`)
	f("{}\r\n{}\n", `2 "{}\n{}\n" · lens [4 3]`)
	f("{}{}{}\n", `3 "{}\n{}\n{}\n" · lens [2 2 3]`)
	f("{}\n{} {}\n", `3 "{}\n{}\n{}\n" · lens [3 2 3]`)
	f("{\n \"a\": [\n  {}\n ]\n}\n{\n}\n", `2 "{\n \"a\": [\n  {}\n ]\n}\n{\n}\n"`)
	f("[{\"a\":1},{\"a\":2}]\n", `2 "{\"a\":1}\n{\"a\":2}\n" · lens [7 7]`)
	f("[\n  {\n    \"a\": {}\n  },\n  {}\n]\n[]", `2 "{\n    \"a\": {}\n  }\n{}\n" · lens [17 3]`)
	f("[[{}], [], ,,]{}\n", `2 "{}\n{}\n" · lens [2 3]`)
	f("\xEF\xBB\xBF[{}]\n", `1 "{}\n" · lens [2] · bom 3`)
	f("{'a':/*}*/'}'}//}\n{}\n", `2 "{'a':/*}*/'}'}\n{}\n" · lens [14 3] · reject "//}\n" malformed column 1: unexpected '/' where an object must begin`)
	f("{ // note }\n}\n{}\n", `2 "{ // note }\n}\n{}\n"`)

	f("{}", `rest "{}"`)
	f("{}\r", `rest "{}\r"`)
	f("{}\n{\"a\":", `1 "{}\n" · rest "{\"a\":"`)
	f("{}\n{'a", `1 "{}\n" · rest "{'a"`)
	f("{}\n{/", `1 "{}\n" · rest "{/"`)
	f("{}\n{/*'", `1 "{}\n" · rest "{/*'"`)
	f("{}\n \t", `1 "{}\n" · rest " \t"`)
	f("{},\n  ", `1 "{}\n" · lens [2] · rest "  "`)
	f("{}\n1", `1 "{}\n" · rest "1"`)
	f("{}\n}", `1 "{}\n" · rest "}"`)

	f = scanned(t, Options{Format: record.MultiJSON, Validate: true, MaxRecord: 32}, true)
	f("{}", `1 "{}\n" · lens [2]`)
	f("{}\r", `1 "{}\n" · lens [2]`)
	f("{} \t", `1 "{}\n" · lens [2]`)
	f("{}\n{\"a\":1}", `2 "{}\n{\"a\":1}\n" · lens [3 7]`)
	f("{}\n{\"a\":", `1 "{}\n" · reject "{\"a\":" malformed column 6: the record ends where a value must begin`)
	f("{/*", `reject "{/*" malformed column 4: the record ends in a comment`)
	f("1", `reject "1" malformed column 1: unexpected '1' where an object must begin`)
	f("\"a", `reject "\"a" malformed column 1: unexpected '"' where an object must begin`)
	f("[\"a\"", `reject "\"a\"" malformed column 1: unexpected '"' where an object must begin`)
}

// A bad record is rejected alone.
func TestMultiJSONIsolates(t *testing.T) {
	f := scanned(t, Options{Format: record.MultiJSON, Validate: true, MaxRecord: 64}, true)
	f(`[{"a":1},{"b":01},{"c":3}]`, `2 "{\"a\":1}\n{\"c\":3}\n" · lens [7 7] · reject "{\"b\":01}" malformed column 7: unexpected '1' where a comma or an end must follow a value`)
	f(`[{"a":[1},{}]`, `1 "{}\n" · lens [2] · reject "{\"a\":[1}" malformed column 8: unexpected '}' where a comma or an end must follow a value`)
	f("{\"a\":\"}\"x}\n{}\n", `1 "{}\n" · reject "{\"a\":\"}\"x}\n" malformed column 9: unexpected 'x' where a comma or an end must follow a value`)
	f("{\"a\":1\n{\"b\":2}\n", `1 "{\"b\":2}\n" · reject "{\"a\":1\n" malformed line 2, column 1: unexpected '{' where a comma or an end must follow a value`)
	f("{\"a\":\"1}\n{\"b\":2}\n", `1 "{\"b\":2}\n" · reject "{\"a\":\"1}\n" malformed column 9: unexpected '\n' in a string`)
	f("{\"a\":1}}\n{}\n", `2 "{\"a\":1}\n{}\n" · lens [7 3] · reject "}\n" malformed column 1: unexpected '}' where an object must begin`)
	f("[\n  {\"a\":\n    [\n      {\"n\": \"\n    ]\n  },\n  {}\n]\n", `1 "{}\n" · reject "  {\"a\":\n    [\n      {\"n\": \"\n    ]\n  },\n" malformed line 3, column 14: unexpected '\n' in a string`)
	f("[ {\n  \"a\" : \"1\n}, {\n  \"a\" : 2\n} ]", `1 "{\n  \"a\" : 2\n}\n" · lens [13] · reject " {\n  \"a\" : \"1\n}" malformed line 2, column 11: unexpected '\n' in a string`)
	f("[\n  {\"a\":1}\n, {\"a\":2\n, {\"a\":3}\n]", `2 "{\"a\":1}\n{\"a\":3}\n" · reject " {\"a\":2\n" malformed line 2, column 3: unexpected '{' where a name must begin`)
	f("{\n\"a\":\n  {},,\n[\n{}\n", `1 "{}\n" · reject "{\n\"a\":\n  {},,\n" malformed line 3, column 6: unexpected ',' where a name must begin`)
	f(`[1,{},null,{},"a"]`, `2 "{}\n{}\n" · lens [2 2] · reject "1" malformed column 1: unexpected '1' where an object must begin · `+
		`reject "null" malformed column 1: unexpected 'n' where an object must begin · reject "\"a\"" malformed column 1: unexpected '"' where an object must begin`)
	f("time {\"a\":1}\n{}\n", `1 "{}\n" · reject "time {\"a\":1}\n" malformed column 1: unexpected 't' where an object must begin`)
	f("{\"a\":\"\xff\"}{}\n", `2 "{\"a\":\"\xff\"}\n{}\n" · lens [9 3] · notutf8 1`)
	f("{'a':'\xff'}{}\n", `2 "{'a':'\xff'}\n{}\n" · lens [9 3] · notutf8 1`)

	f = scanned(t, Options{Format: record.MultiJSON, MaxRecord: 64}, true)
	f("{\"a\":\"\xff\"}\n{x}\n", `1 "{\"a\":\"\xff\"}\n" · reject "{x}\n" malformed column 2: unexpected 'x' where a name must begin · notutf8 1`)
}

func TestMultiJSONTooLong(t *testing.T) {
	f := scanned(t, Options{Format: record.MultiJSON, Validate: true, MaxRecord: 16}, false)
	f("{\"a\":\"12345678\"}", `rest "{\"a\":\"12345678\"}" · long`)
	f("{\"a\":\"12345678\"}\n{}\n", `1 "{}\n" · reject "{\"a\":\"12345678\"}" too_long longer than 16 bytes`)
	f("{\"a\":\"1234567\"}\n{}\n", `2 "{\"a\":\"1234567\"}\n{}\n"`)
	f("{\"a\":\"1234567\"}\r\n{}\n", `2 "{\"a\":\"1234567\"}\n{}\n" · lens [15 3]`)
	f("{\"a\":[1,2,3,4,5,\n {},\n{},\n[{}\n", `2 "{}\n{}\n" · lens [2 3] · reject "{\"a\":[1,2,3,4,5," too_long longer than 16 bytes`)
	f("  {\"a\":[1,2,3,4,5,\n   {},\n\t\t{}\n", `1 "{}\n" · reject "  {\"a\":[1,2,3,4," too_long longer than 16 bytes`)
	f("{\"a\":[1,2,3,4,5,6,\n  ", `rest "{\"a\":[1,2,3,4,5,6,\n  " · long`)
	f("{\"a\":/*34567890123456\n}\n", `rest "{\"a\":/*34567890123456\n}\n" · long`)
	f("{\"a\":x345678901234567\n{}\n", `1 "{}\n" · reject "{\"a\":x3456789012" malformed column 6: unexpected 'x' in or instead of a value`)
	f("123456789012345678\n{}\n", `1 "{}\n" · reject "1234567890123456" too_long longer than 16 bytes`)
	f("                    {}\n", `1 "{}\n"`)
}

func TestSkipLong(t *testing.T) {
	f := func(format record.Format, in string, indent int, last bool, want int, wantDone bool) {
		t.Helper()
		s := newScanner(t, Options{Format: format})
		if n, done := s.SkipLong([]byte(in), indent, last); n != want || done != wantDone {
			t.Errorf("%s SkipLong(%q, %d, %t) = %d, %t, want %d, %t", format, in, indent, last, n, done, want, wantDone)
		}
	}
	f(record.JSON, "abc", 0, false, 3, false)
	f(record.JSON, "abc", 0, true, 3, true)
	f(record.JSON, "a\nb\n", 0, false, 2, true)
	f(record.MultiJSON, "a\nb\n{", 0, false, 4, true)
	f(record.MultiJSON, "a\nb\n", 0, false, 3, false)
	f(record.MultiJSON, "a\nb\n", 0, true, 4, true)
	f(record.MultiJSON, "{\n  [", 1, false, 5, false)
	f(record.MultiJSON, "{\n  [", 2, false, 2, true)
	f(record.MultiJSON, "{\n  ", 2, false, 1, false)
	f(record.MultiJSON, "{\n   ", 2, false, 5, false)
}

func TestMultiJSONMaxBody(t *testing.T) {
	s, data := newScanner(t, Options{Format: record.MultiJSON, MaxBody: 6}), buffer("{}{}{}{}")
	var c Chunk
	s.Scan(data, 0, true, 0, &c)
	if got, want := tell(&c, data), `2 "{}\n{}\n" · lens [2 2] · rest "{}{}"`; got != want || !c.Copied {
		t.Errorf("%s, want %s", got, want)
	}
}

// multiOptions are any options of MultiJSON a number can choose.
func multiOptions(n uint8) Options {
	return Options{
		Format:    record.MultiJSON,
		Validate:  n&1 == 0,
		MaxRecord: []int{4, 7, 16, 40, 100, 1 << 20, 1 << 20, 1 << 20}[n>>1&7],
		Wary:      n>>4&1 == 1,
	}
}

// objects returns the objects of a sequence of JSON values, each alone or in
// arrays; ok is false where it is none, or has anything else at top level.
func objects(b []byte) (raw []string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	for {
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return raw, err == io.EOF
		}
		switch v[0] {
		case '{':
			raw = append(raw, string(v))
		case '[':
			var elements []json.RawMessage
			if json.Unmarshal(v, &elements) != nil {
				return nil, false
			}
			for _, e := range elements {
				if e[0] != '{' {
					return nil, false
				}
				raw = append(raw, string(e))
			}
		default:
			return nil, false
		}
	}
}

// FuzzMultiCuts: for any file and any way of cutting it into reads the same
// records come out, and where the standard library reads it they are its.
func FuzzMultiCuts(f *testing.F) {
	for n, s := range []string{
		"{}\n{\"a\":1}\r\n[{},{}]\n", "[\n  {\n    \"a\": [\n      {}\n    ]\n  },\n  {}\n]\n", "{\"a\":1\n{\"b\":\"x}\n{}}\n", "{}{}1 null\"a\",{}x{}\n{}",
		"{'a':1}//b\n{/**/}\n[]\n{/*", "  {\"a\":[1,2,3,4,5,6,7,8,9,10],\n {}\n   {}\n  {}\n", "{\"a\":\"\xff\"}{\"\u00e4\":1}\r\n\r", "\xEF\xBB\xBF[{}]", "{\"a\":\"b\\\"\\u12\n{}\n",
		"{\"a\":{},\n\n\t{\"b\":01}]\n\t\n {'\n'}\n", "}\n}}{}:\n[{\"a\":1,{\"b\":2},{\"c\":3}]",
	} {
		for o := range uint8(8) {
			f.Add([]byte(s), uint64(n), o*2+uint8(n&1))
			f.Add([]byte(s), uint64(n), o*2+16)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, options uint8) {
		if len(in) > 4096 {
			return
		}
		o, file := multiOptions(options), string(in)
		whole := read(t, o, file).whole()
		at := 0
		for _, e := range whole.events {
			if e.start < at || e.end <= e.start || e.end > len(file) {
				t.Fatalf("%q: %+v after %d", file, e, at)
			}
			at = e.end
			if e.reason == "" && o.Validate && !soundJSON([]byte(e.body)) && !strings.ContainsAny(e.body, "'/") {
				t.Fatalf("%q was sent", e.body)
			}
		}
		if want, ok := objects(in); ok && o.MaxRecord > 1<<10 && utf8.Valid(in) && len(in) < MaxDepth {
			if got := sent(whole); got != fmt.Sprint(want) {
				t.Fatalf("%q\n got %s\nwant %s", in, got, want)
			}
		}
		cut := read(t, o, file).cut(rand.New(rand.NewPCG(seed, 0)))
		if got, want := fmt.Sprint(cut.events), fmt.Sprint(whole.events); got != want || cut.invalid != whole.invalid {
			t.Fatalf("%+v %q\n  cut %s\nwhole %s", o, file, got, want)
		}
	})
}

// TestSoundValues: nearly all objects of the logs that the benchmarks have are recognised without
// a walk through each, in the layouts that programs write: the benchmarks would not tell.
func TestSoundValues(t *testing.T) {
	for _, k := range corpora() {
		if k.format != record.MultiJSON {
			continue
		}
		text := k.text[:1<<20]
		for _, end := range []string{"\n", "\r\n"} {
			s := newScanner(t, Options{Format: record.MultiJSON})
			text := bytes.ReplaceAll(text, []byte("\n"), []byte(end))
			s.step = leastStep
			took, missed := 0, 0
			for at := 0; at < len(text); {
				var c cut
				s.soundValue(&c, text, at)
				switch {
				case c.n > 0:
					at += c.n
					took++
				case text[at+c.lead] == '{':
					missed++
					fallthrough
				default:
					at += c.lead + 1
				}
			}
			if took < 2000 || missed > 20 { // objects in the last one, which is cut off
				t.Errorf("%s, lines that end with %q: %d, and %d not", k.name, end, took, missed)
			}
		}
	}
}

// FuzzSoundValues: among others an object is what it is by itself, whatever was known of it from
// those before.
func FuzzSoundValues(f *testing.F) {
	for n, s := range []string{
		`{"a":1}`, "{\n  \"a\": \"b\",\n  \"c\": [\n    1,\n    {}\n  ]\n}", "{\n\t\"a\": \"b\",\n\t\"c\": \"d\"\n}\r\n", "[{\"a\":1},\n  {\"b\":\"\u00e4\"}]{}\x00{}", `{"a":"b`, `{"a":"b\`, `{"a":"b\x"}`, "{\"a\n\":1}",
		"{\"a\":\t1}", "}{'a':1}//\"\n\"{\"\\{", "{\"a\":{\"b\":{}}\n{\"\xff\":0}", strings.Repeat("  {\"a\":\""+strings.Repeat("x", 900)+"\"},\n", 4), strings.Repeat(" ", 70) + "{}\r",
	} {
		for o := range uint8(8) {
			f.Add([]byte(s), uint16(n*67), o*2+o/4)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, pad uint16, options uint8) {
		if len(b) > 1<<12 {
			return
		}
		ahead, alone := scannersOf(t, multiOptions(options))
		for _, around := range [][2]string{{"{\"pad\":%q}\n", "\n{\"ok\":[true]}\n"}, {" {\n  \"pad\": %q,\n  \"a\": 1\n },\n", ",\n {\n  \"ok\": [\n   true\n  ]\n },\n"}} {
			text := amongOthers(b, int(pad), around[0], around[1])
			text = append(text, strings.Repeat("{}\n", quickRoom)...)
			scanAlike(t, ahead, alone, text)
			// Each object that is taken is sound to the standard library, wherever one is looked for.
			ahead.step = leastStep
			ahead.borders.begin(0)
			for at := range text {
				n, beyond := ahead.soundObject(text, at)
				taken := text[at : at+n]
				if n > 0 && (!soundJSON(taken) || !bytes.HasSuffix(bytes.TrimRight(taken, "\r\n"), []byte("}")) || !beyond && bytes.ContainsFunc(taken, func(c rune) bool { return c > 127 })) {
					t.Fatalf("%q was taken, beyond ASCII %t", taken, beyond)
				}
				ahead.step = max(ahead.step, leastStep)
			}
		}
	})
}

// sent tells the objects of a reading; anything rejected is told too.
func sent(r *reading) string {
	raw := []string{}
	for _, e := range r.events {
		raw = append(raw, strings.TrimSuffix(e.body, "\n")+string(e.reason))
	}
	return fmt.Sprint(raw)
}

// TestMultiNeighbours: in the layouts that programs write, a string that is not closed
// costs its own record.
func TestMultiNeighbours(t *testing.T) {
	for name, of := range map[string]struct{ first, between, last string }{
		"indented":          {"[\n", ",\n", "\n]\n"},
		"one after another": {"", "\n", "\n"},
		"brace and comma":   {"[ ", ", ", " ]"},
		"leading comma":     {"[\n", "\n, ", "\n]\n"},
	} {
		var file, want strings.Builder
		file.WriteString(of.first)
		for n := range 100 {
			if n > 0 {
				file.WriteString(of.between)
			}
			object := fmt.Sprintf("{\n  \"n\" : %d,\n  \"of\" : { \"a\" : [ {\n    \"b\" : 1\n  }, {\n    \"c\" : 2\n  } ] },\n  \"m\" : \"x\"\n}", n)
			if n%7 == 3 {
				object = strings.Replace(object, "\"x\"", "\"x", 1)
			} else {
				want.WriteString(object + "\n")
			}
			file.WriteString(object)
		}
		file.WriteString(of.last)
		var got strings.Builder
		for _, e := range read(t, Options{Format: record.MultiJSON, Validate: true, MaxRecord: 1 << 20}, file.String()).whole().events {
			got.WriteString(e.body)
		}
		if got.String() != want.String() {
			t.Errorf("%s: %d of %d bytes are sent", name, got.Len(), want.Len())
		}
	}
}

// FuzzMultiNeighbours: whatever is written on a line, the records on the lines
// before and behind it are delivered. In an indented array that holds for a
// line with one object: of a second one nobody knows how far its line is
// indented.
func FuzzMultiNeighbours(f *testing.F) {
	for _, s := range []string{`{"a":1`, `{"a":`, `{"a":"x}`, `{'`, `{/*`, `[[`, `]]},`, `null,`, `{"a":[{},`, `"`, `{//`, `{"a":1}}`} {
		f.Add(s, 0)
		f.Add("  "+s, 2)
	}
	f.Fuzz(func(t *testing.T, line string, indent int) {
		blanks := strings.Repeat(" ", indent&7)
		body := strings.TrimLeft(line, " \t")
		if strings.ContainsRune(line, '\n') || body == "" || len(line)-len(body) < len(blanks) {
			return
		}
		if len(blanks) > 0 && strings.LastIndexByte(body, '{') > 0 {
			return
		}
		good := func(n int) string { return fmt.Sprintf("{%q: %d}", "good", n) }
		file := "[\n" + blanks + good(1) + ",\n" + line + "\n" + blanks + good(2) + ",\n" + blanks + good(3) + "\n]\n"
		found := 0
		for _, e := range read(t, multiOptions(14), file).whole().events {
			for n := range 3 {
				if e.body == good(n+1)+"\n" {
					found++
				}
			}
		}
		if found < 3 {
			t.Fatalf("%q: %d of 3 records were delivered", file, found)
		}
	})
}

func TestMultiJSONAllocatesNothing(t *testing.T) {
	for _, in := range []string{"{\"a\":[1,\"b\"]}\n", "[{\"a\":1},\n  {'b':2}, {}]\r\n"} {
		s, data := newScanner(t, Options{Format: record.MultiJSON, Validate: true}), buffer(strings.Repeat(in, 100))
		var c Chunk
		scratch := bytes.Clone(data)
		if n := testing.AllocsPerRun(10, func() {
			copy(scratch, data)
			s.Scan(scratch, 1, true, 0, &c)
		}); n > 0 || c.Records < 100 {
			t.Errorf("%q: %v allocations for %d records", in, n, c.Records)
		}
	}
}
