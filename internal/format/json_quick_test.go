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

	// Sound, but not for the quick way.
	f("{\n\"a\":1}", false)
	f("{\"a\":\t1}", false)

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
// it, and so is what it does not take only where that has other white space
// than spaces or is long. What is behind a record makes no difference.
func FuzzQuickJSON(f *testing.F) {
	addJSON(f)
	s, err := New(Options{Format: record.JSON, Validate: true, MaxRecord: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	check := func(t *testing.T, b []byte) {
		ok, _ := quick(t, s, b)
		if sound := soundJSON(b); ok && !sound {
			t.Fatalf("%q was taken", b)
		} else if sound && !ok && len(b) <= quickMost && !bytes.ContainsAny(bytes.TrimRight(b, "\t\r\n "), "\t\r\n") {
			t.Fatalf("%q was refused", b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		check(t, b)
		var whole, part bytes.Buffer
		if json.Compact(&whole, b) != nil {
			return
		}
		check(t, whole.Bytes())
		json.Indent(&part, b, "", "  ")
		check(t, bytes.ReplaceAll(part.Bytes(), []byte("\n"), []byte(" ")))
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
