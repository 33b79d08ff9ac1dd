package format

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"kusto-agent/internal/record"
)

// behind is what may follow a record in memory: nothing of it may count.
var behind = []string{
	"", "\n", "}", "\"}", "}}}}]]]]\n", strings.Repeat(" ", 200), strings.Repeat("0", 200), strings.Repeat("\\", 200),
	strings.Repeat("\"", 200), strings.Repeat("\\x", 50), strings.Repeat("]", 200), strings.Repeat("\":\"", 70), "x" + strings.Repeat("\":\"", 70), strings.Repeat(":", 200), "rue}" + strings.Repeat("\n", 100),
	"\":1}" + strings.Repeat("x", 100), ",\"a\":1}" + strings.Repeat("x", 100), "1.5e3}" + strings.Repeat("\xff", 100),
}

// quick is what quickJSON says of a record, whatever is behind it.
func quick(t testing.TB, s *Scanner, rec []byte) (ok, beyond bool) {
	for i, b := range behind {
		now, bytes := s.quickJSON(slices.Concat(rec, []byte(b)), len(rec))
		if i > 0 && now != ok {
			t.Fatalf("%q: %t, before %q %t", rec, ok, b, now)
		}
		ok, beyond = now, beyond || bytes
		if ok && !bytes && slices.ContainsFunc(rec, func(c byte) bool { return c >= utf8.RuneSelf }) {
			t.Fatalf("%q is told to be ASCII", rec)
		}
	}
	return ok, beyond
}

// TestQuickJSON has each record at every place that a block of 64 bytes can
// begin in it.
func TestQuickJSON(t *testing.T) {
	s := newScanner(t, Options{Format: record.JSON, Validate: true})
	f := func(in string, want bool) {
		t.Helper()
		for n := range 130 {
			at := strings.IndexByte(in, '{') + 1
			rec := strings.Repeat(" ", n) + in
			if n > 10 && at > 0 && want && in[at] != '}' {
				rec = in[:at] + `"` + strings.Repeat("x", n-10) + `":[],` + in[at:]
			}
			if got, _ := quick(t, s, []byte(rec)); got != want || want && !soundJSON([]byte(rec)) {
				t.Errorf("%q: %t, want %t", rec, got, want)
			}
		}
	}
	f(`{}`, true)
	f("{}\r\n", true)
	f("{} \t\r\n", true)
	f(`{"a":"b","c":{"d":["e",{"f":"g"},[],{}]},"h":true,"i":false,"j":null}`, true)
	f(`{ "a" : "b" , "c" : [ 1 , 2 ] , "d" : { } , "e" : [ ] , "f":  "g",  "h": 3 }`, true)
	f(`{"a":0,"b":-0,"c":12345678,"d":1234567890123456789012345.5,"e":-1.25E+10,"f":1e5,"g":0.000e-0}`, true)
	f(`{"a\"":"\\","\\\"":"\\\\\"","b":"\b\f\n\r\t\/\u00e4\uD83d\\u"}`, true)
	f(`{"":"","":["",""]}`, true)
	f("{\"ä☃\":\"\U0001F600\xff\x80\x7f\xdc\xa2\x82\x9f\"}", true)

	f("", false)
	f("{", false)
	f(`[]`, false)
	f(`"a"`, false)
	f(`{}}`, false)
	f(`{}{}`, false)
	f(`{"a":"b"`, false)
	f(`{"a":"b}`, false)
	f(`{"a":"b\"}`, false)
	f(`{"a":1`, false)
	f(`{"a"}`, false)
	f(`{"a":}`, false)
	f(`{"a":1,}`, false)
	f(`{"a":[1,]}`, false)
	f(`{"a":[1}`, false)
	f(`{"a":{"b":1]}`, false)
	f(`{"a":1 2}`, false)
	f(`{"a" 1}`, false)
	f(`{"a"::1}`, false)
	f(`{,"a":1}`, false)
	f(`{a:1}`, false)
	f(`{"a":"b""c":1}`, false)
	f(`{"a":"b"c}`, false)
	f(`{"a"x:"b"}`, false)
	f(`{1:2}`, false)
	for _, v := range []string{"01", "-01", "-", "+1", "1.", ".5", "1.e5", "1e", "1e+", "1.2.3", "0x1", "1a", "tru", "truth", "nul", "fals", "NaN", "'b'", "/**/1", "\xff", "\\", "\x00"} {
		f(`{"a":`+v+`}`, false)
		f(`{"a":[`+v+`]}`, false)
	}
	f(`{"a":"\x"}`, false)
	f(`{"a":"\u12G4"}`, false)
	f(`{"a":"\u123"}`, false)
	f(`{\"a":1}`, false)
	f(`{\"a\":1}`, false)
	f(`{"a":\"b"}`, false)
	f(`{"a"\:"b"}`, false)
	f("{\"a\":\"b\x01\"}", false)
	f("{\"a\":\"b\nc\"}", false)
	f("{\"a\":\"b\x01}", false)
	f("{\"a\":[\"b\x01,\"c\"]}", false)
	f(`{"a":`+strings.Repeat("[", 100), false)
	s = newScanner(t, s.opt) // nothing is left of records before
	f(`{"a`, false)
	f(`{"a":"b`, false)
	f("{\"a\x1f\":1}", false)
	f("{\"a\":\"\\\n\"}", false)
	f("{\"a\n:\n1}", false)
	f("{\n\"a\n:1}", false)

	f("{\t\"a\":1\t,\r\"b\":[ \t],\"c\":\t\"d\",\"e\": \t{}\r}", true)

	// Sound, but not for the quick way.
	f("{\n\"a\":1}", false)
	f("{\"a\":\"b\",\n\"c\":1}", false)
	f("{\"a\"\t:1}", false)

	multi := newScanner(t, Options{Format: record.MultiJSON})
	s = multi
	f("{\n\"a\":1}", true)
	if ok, _ := quick(t, multi, []byte("{\n}\n")); !ok {
		t.Error("an empty object over two lines was refused")
	}
	f("{\r\n  \"a\": \"b\",\r\n  \"c\": [\r\n    1,\r\n    {}\r\n  ]\r\n}\r\n", true)
	for n := range 40 {
		for _, indent := range []string{strings.Repeat(" ", n), strings.Repeat("\t", n), strings.Repeat("\t", n%20) + strings.Repeat(" ", n/2), "\n" + strings.Repeat(" ", n)} {
			for at := 0; at < 65; at += 3 {
				line := func(end string) string {
					return `{"` + strings.Repeat("x", at) + `":"",` + "\n" + indent + end
				}
				if ok, _ := quick(t, multi, []byte(line(`"b": 1}`))); !ok {
					t.Fatalf("%q was refused", line(`"b": 1}`))
				}
				for _, end := range []string{`x"b":1}`, "\x00\"b\":1}", `}`, `,"b":1}`, "", `1}`, `"`, "\\\"b\":1}"} {
					if ok, _ := quick(t, multi, []byte(line(end))); ok {
						t.Fatalf("%q was taken", line(end))
					}
				}
			}
		}
	}
	for _, end := range []string{"x", "\x00", "\x1f", "\\", "\xff", "'"} {
		f("{\"a\":\"b\",\n"+end+"\"c\":1}", false)
		f("{\"a\":\"b\",\n "+end+" \"c\":1}", false)
		f("{\"a\":\"b\",\n\t"+end+"\t\"c\":1}", false)
		f("{\n"+end+"\"a\":1}", false)
		f("{\"a\":1\n"+end+"}", false)
	}
	f("{\"a\":\"\n\"}", false)
	f("{\"a\n\":1}", false)
	f("{\"a\":1,\n}", false)
	f("{\"a\":\n}", false)
	f("{\"a\":\n,\"b\":1}", false)
	f("{\"a\":\n\x00 1}", false)
	f("{\"a\":\n\t{\n\t\t\"b\":\n\t\t\"c\",\n\t\t\"d\": \n -1}}", true)
	s = newScanner(t, Options{Format: record.JSON, Validate: true})

	nested := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}" }
	if ok, _ := quick(t, s, []byte(nested(MaxDepth))); !ok {
		t.Error("containers as deep as may be were refused")
	}
	if ok, _ := quick(t, s, []byte(nested(MaxDepth+1))); ok {
		t.Error("containers deeper than may be were taken")
	}
	longest := []byte(`{"a":"` + strings.Repeat("x", quickMost-8) + `"}`)
	if ok, _ := quick(t, s, longest); !ok || len(longest) != quickMost {
		t.Errorf("a record of %d bytes was refused", len(longest))
	}
	if ok, _ := quick(t, s, append(longest, ' ')); ok {
		t.Error("a longer record was taken")
	}
}

// TestQuickCorpora: the quick way takes every record of the logs that the
// benchmarks have: they would not tell.
func TestQuickCorpora(t *testing.T) {
	s := newScanner(t, Options{Format: record.JSON, Validate: true})
	for _, k := range corpora() {
		for line := range bytes.Lines(k.text) {
			if k.format != record.JSON {
				break
			}
			if ok, _ := s.quickJSON(line, len(line)); !ok {
				t.Fatalf("%s: %q was refused", k.name, line)
			}
		}
	}
}

// FuzzQuickJSON: what the quick way takes is sound as the standard library sees
// it, and so is what it does not take only where that has white space that it is
// not for, or is long. What is behind a record makes no difference.
func FuzzQuickJSON(f *testing.F) {
	addJSON(f)
	s, err := New(Options{Format: record.JSON, Validate: true, MaxRecord: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	multi := newScanner(f, Options{Format: record.MultiJSON})
	checkOf := func(t *testing.T, s *Scanner, b []byte, not string) {
		ok, _ := quick(t, s, b)
		if sound := soundJSON(b); ok && !sound {
			t.Fatalf("%q was taken", b)
		} else if sound && !ok && len(b) <= quickMost && !bytes.ContainsAny(bytes.TrimRight(b, "\t\r\n "), not) {
			t.Fatalf("%q was refused", b)
		}
	}
	check := func(t *testing.T, b []byte) { checkOf(t, s, b, "\t\r\n") }
	f.Fuzz(func(t *testing.T, b []byte) {
		check(t, b)
		var whole, part bytes.Buffer
		if json.Compact(&whole, b) != nil {
			return
		}
		check(t, whole.Bytes())
		json.Indent(&part, b, "", "  ")
		check(t, bytes.ReplaceAll(part.Bytes(), []byte("\n"), []byte(" ")))
		for _, indent := range []string{"  ", "\t", " \t"} {
			part.Reset()
			json.Indent(&part, b, indent, indent)
			checkOf(t, multi, part.Bytes(), "")
			for n := 0; n < part.Len(); n += 1 + part.Len()/64 {
				broken := bytes.Clone(part.Bytes())
				broken[n] ^= 1 << (n % 8)
				checkOf(t, multi, broken, "\t\r\n")
			}
		}
		// A name in front moves the record over the borders of blocks, and what
		// was sound cut off or with one byte changed seldom still is.
		for n := 1; n < 70 && soundJSON(whole.Bytes()) && whole.Len() > 2; n += 1 + whole.Len()/64 {
			moved := slices.Concat([]byte(`{"`+strings.Repeat("m", n)+`":0,`), whole.Bytes()[1:])
			check(t, moved)
			check(t, moved[:len(moved)-n%len(moved)])
			moved[n*7%len(moved)] ^= 1 << (n % 8)
			check(t, moved)
		}
	})
}
