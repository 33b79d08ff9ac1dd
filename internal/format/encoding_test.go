package format

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"kusto-agent/internal/record"
)

// utf16Text is text as UTF-16, big or little end first.
func utf16Text(text string, big bool) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			b = binary.BigEndian.AppendUint16(b, u)
		} else {
			b = binary.LittleEndian.AppendUint16(b, u)
		}
	}
	return string(b)
}

// latin1Text is text, of characters up to 255, as ISO 8859-1.
func latin1Text(text string) string {
	var b []byte
	for _, r := range text {
		b = append(b, byte(r))
	}
	return string(b)
}

func TestEncodings(t *testing.T) {
	f := func(o Options, file string, want ...string) {
		t.Helper()
		o.Validate = true
		shapes(t, o, file).want(want...)
	}
	const odd = "a\u0A0D\u0D0A\u0A00b\u000D" // units that have the byte of a newline, and a CR of its own
	for _, big := range []bool{false, true} {
		e := UTF16LE
		if big {
			e = UTF16BE
		}
		u := func(s string) string { return utf16Text(s, big) }
		f(Options{Format: record.TXT, Encoding: e}, u("\uFEFFone\r\ntwo\n\nthr€e 😀"), "one", "two", "thr€e 😀")
		f(Options{Format: record.TXT, Encoding: e}, u(odd+"x\nb\uFEFF\n"), odd+"x", "b\uFEFF")
		f(Options{Format: record.TXT, Encoding: e}, u("a\nb")+"\x41", "a", "b\uFFFD")
		f(Options{Format: record.TXT, Encoding: e}, u("a")+u("😀")[:2]+u("b\n")+u("😀")[2:]+u("\n")+u("😀")[:2], "a\uFFFDb", "\uFFFD", "\uFFFD")
		f(Options{Format: record.CSV, Encoding: e}, u("a,\"b\n😀\"\r\nc,d\n"), "a,\"b", "😀\"\r", "c,d")
		f(Options{Format: record.JSON, Encoding: e}, u("{\"a\":\"ü\"}\nbad\n{}"), `{"a":"ü"}`, "<malformed 8>", "{}")
		f(Options{Format: record.MultiJSON, Encoding: e}, u("\uFEFF[{\"a\":\"ü\"},\n  {\"b\":\n1}]"), `{"a":"ü"}`, `{"b":`, "1}")
		f(Options{Format: record.JSON, Encoding: e, Parse: ParseLogfmt}, u("a=ü\nb=\"😀 \\n\"\n"), `{"a":"ü"}`, `{"b":"😀 \n"}`)
		f(Options{Format: record.JSON, Encoding: e, Parse: ParseText, MaxRecord: 40}, u(strings.Repeat("x", 41)+"\ny\n"), "<too_long 84>", `{"message":"y"}`)
	}
	l := latin1Text
	f(Options{Format: record.TXT, Encoding: Latin1}, l("Grüße\nÿ\u0085\r\n"), "Grüße", "ÿ\u0085")
	f(Options{Format: record.JSON, Encoding: Latin1}, l("{\"a\":\"ü\"}\n{\"a\":ü}\n"), `{"a":"ü"}`, "<malformed 8>")
	f(Options{Format: record.SCsv, Encoding: Latin1}, l("ä;\"ö\nü\"\nß;a\nx\n"), "ä;\"ö", "ü\"", "ß;a", "x")
	f(Options{Format: record.JSON, Encoding: Latin1, Parse: ParseText}, l("ï»¿ÿ\n"), `{"message":"ï»¿ÿ"}`)
}

// Fields tell offsets in the file, whatever its encoding.
func TestOffsetsOfEncodings(t *testing.T) {
	fields := newFields(t, "o", "{offset}")
	f := func(o Options, file string, want ...string) {
		t.Helper()
		o.Validate, o.Fields = true, fields
		shapes(t, o, file).want(want...)
	}
	f(Options{Format: record.JSON, Encoding: UTF16LE}, utf16Text("\uFEFF{\"a\":\"😀\"}\n\n{}\n", false), `{"a":"😀","o":2}`, `{"o":26}`)
	f(Options{Format: record.JSON, Encoding: Latin1, Parse: ParseText}, latin1Text("ü\n\nö\n"), `{"message":"ü","o":0}`, `{"message":"ö","o":3}`)
	const line = "2026-03-01T12:00:00Z "
	f(Options{Format: record.JSON, Parse: ParseCRI}, line+"stdout P a\n"+line+"stderr F b\n"+line+"stdout F c\n",
		`{"time":"2026-03-01T12:00:00Z","stream":"stdout","message":"ac","o":0}`, `{"time":"2026-03-01T12:00:00Z","stream":"stderr","message":"b","o":32}`)
	f(Options{Format: record.JSON, Parse: ParseLogfmt}, "o=1\n", `{"o":"1"}`) // the record's own wins
}

// TestDecode: what decodes to UTF-8 tells by itself how long it was.
func TestDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		raw := make([]byte, r.IntN(60))
		for i := range raw {
			raw[i] = byte(r.IntN(256))
			if r.IntN(3) == 0 {
				raw[i] = byte(0xD8 + r.IntN(8))
			} else if i%2 == r.IntN(2) {
				raw[i] = 0
			}
		}
		text := appendLatin1(nil, raw)
		if latin1Text(string(text)) != string(raw) || Latin1.sourceLen(text) != len(raw) {
			t.Fatalf("% x is %q", raw, text)
		}
		for _, big := range []bool{false, true} {
			var units []uint16
			for i := 0; i+1 < len(raw); i += 2 {
				units = append(units, uint16(unitOf(raw[i:], big)))
			}
			want := string(utf16.Decode(units))
			if len(raw)%2 == 1 {
				want += "\uFFFD"
			}
			got, _ := appendUTF16(nil, raw, big, true)
			if string(got) != want || min(UTF16LE.sourceLen(got), len(raw)) != len(raw) {
				t.Fatalf("% x is %q, want %q", raw, got, want)
			}
			if held, _ := appendUTF16(nil, raw, big, false); !strings.HasPrefix(want, string(held)) || len(raw)-UTF16LE.sourceLen(held) > 3 {
				t.Fatalf("% x begins with %q", raw, held)
			}
		}
	}
}

func TestMark(t *testing.T) {
	f := func(head, want string) {
		t.Helper()
		got := ""
		if e, ok := Mark([]byte(head)); ok {
			got = e.String()
		}
		if got != want {
			t.Errorf("%q is %q, want %q", head, got, want)
		}
	}
	f("\xff\xfea\x00", "utf-16le")
	f("\xfe\xff", "utf-16be")
	f("\xef\xbb\xbf", "utf-8")
	f("\xff", "")
	f("", "")
}
