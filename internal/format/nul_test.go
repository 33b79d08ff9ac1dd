package format

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

func TestNULs(t *testing.T) {
	nuls := strings.Repeat("\x00", 20)
	f := scanned(t, Options{Format: record.TXT, MaxRecord: 8}, false)
	f(nuls+"a\n", `1 "a\n" · NULs 20`)
	f("a\n"+nuls+"b\x00c\n", `2 "a\nb\x00c\n" · NULs 20 · from 2`)
	f("a\n\x00\x00\n\x00b\n", `2 "a\nb\n" · blank 1 · NULs 3 · from 2`)
	f(nuls, `NULs 20`)
	f("ab"+nuls, `rest "ab`+strings.Repeat(`\x00`, 20)+`" · long`)
	f = scanned(t, Options{Format: record.TXT, MaxRecord: 30}, true)
	f("a\nb"+nuls, `2 "a\nb\n" · lens [2 1] · NULs 20 · from 3`)
	f("a\r"+nuls, `1 "a\n" · lens [1] · NULs 20 · from 2`)
	f("a\x00\r\x00\r", `1 "a\n" · lens [1] · blank 2 · NULs 2 · from 1`)
	f = scanned(t, Options{Format: record.JSON, Validate: true, MaxRecord: 40}, true)
	f(nuls+"{}\n"+nuls+"{} "+nuls, `2 "{}\n{} \n" · lens [3 3] · NULs 60`)
	f("{\x00}\n{}\n", `1 "{}\n" · reject "{\x00}\n" malformed column 2: unexpected '\x00' where a name must begin`)
	f = scanned(t, Options{Format: record.MultiJSON, Validate: true, MaxRecord: 40}, true)
	f(nuls+"{}"+nuls+"\n {}"+nuls, `2 "{}\n{}\n" · lens [2 2] · NULs 60`)
	f = scanned(t, Options{Format: record.CSV, Validate: true, MaxRecord: 40, SkipHeader: true}, true)
	f("h\n"+nuls+"\"a\x00\",b\n\"c\",d"+nuls, `2 "\"a\x00\",b\n\"c\",d\n" · group 2 · lens [7 5] · header 1 · NULs 40 · from 2`)
	f(nuls+"h\n", `1 "h\n" · NULs 20`)
	f = scanned(t, Options{Format: record.JSON, Parse: ParseText, MaxRecord: 80, Multiline: events(t)}, true)
	f("1 a\n b\n"+nuls+"x\n2 c\n d"+nuls, `3 "{\"message\":\"1 a\\n b\"}\n{\"message\":\"x\"}\n{\"message\":\"2 c\\n d\"}\n" · lens [7 2 6] · NULs 40 · from 7`)
	f = scanned(t, Options{Format: record.TXT, MaxRecord: 40, Encoding: UTF16LE}, true)
	f(nuls+"a\x00\n\x00"+nuls+"b\x00\x00\x00", `2 "a\nb\n" · lens [4 2] · NULs 42`)
}

func TestTornLines(t *testing.T) {
	file := "a\nb" + strings.Repeat("\x00", 5000) + "c\nd" + strings.Repeat("\x00", 4095) + "e\n\"f" + strings.Repeat("\x00", 4096) + "g"
	for _, format := range []record.Format{record.TXT, record.CSV} {
		o := Options{Format: format, MaxRecord: 6000}
		whole := read(t, o, file).whole()
		want := 6 // in CSV the quote is never closed
		if len(whole.events) != want || whole.nuls != 5000+4096 {
			t.Errorf("%s: %d records, want %d; %d NULs", format, len(whole.events), want, whole.nuls)
		}
		for seed := range uint64(20) {
			cut := read(t, o, file).cut(rand.New(rand.NewPCG(seed, 0)))
			if fmt.Sprint(cut.events) != fmt.Sprint(whole.events) || cut.nuls != whole.nuls {
				t.Errorf("%s: in parts %d records and %d NULs", format, len(cut.events), cut.nuls)
			}
		}
	}
}

// TestTornRecords: the bytes behind a line that NUL bytes have torn are another record also where a
// record may have several lines, wherever reads end.
func TestTornRecords(t *testing.T) {
	for _, maxRecord := range []int{4200, 6000, 1 << 20} {
		f := func(o Options, in string, want ...string) {
			t.Helper()
			o.Validate, o.MaxRecord = true, maxRecord
			shapes(t, o, strings.ReplaceAll(in, "#", strings.Repeat("\x00", 4096))).want(want...)
		}
		o := Options{Format: record.JSON, Parse: ParseText, Multiline: events(t)}
		f(o, "1 a\n b#2 c\n d\n", `{"message":"1 a\n b"}`, `{"message":"2 c\n d"}`)
		f(o, "1 a\n b#c\n d\n2 #", `{"message":"1 a\n b"}`, `{"message":"c\n d"}`, `{"message":"2 "}`)
		o = Options{Format: record.JSON, Parse: ParseCRI}
		line := func(tag, text string) string { return "2026-03-01T12:00:00Z stdout " + tag + " " + text }
		sent := func(text, more string) string {
			return `{"time":"2026-03-01T12:00:00Z","stream":"stdout","message":"` + text + `"` + more + `}`
		}
		f(o, line("P", "a\n")+line("F", "b#")+line("F", "c\n"), sent("ab", ""), sent("c", ""))
		f(o, line("P", "a\n")+line("P", "b#")+line("F", "c\n"), sent("ab", `,"partial":true`), sent("c", ""))
		f(o, line("P", "a\n")+"##"+line("F", "c\n"), sent("a", `,"partial":true`), sent("c", ""))
		f(o, line("P", "a\n")+"x"+strings.Repeat("\x00", 4095), sent("a", `,"partial":true`), "<malformed 1>")
		g := func(o Options, in string, want ...string) {
			t.Helper()
			o.Validate, o.MaxRecord = true, maxRecord
			in = strings.ReplaceAll(in, "#", strings.Repeat("\x00", 4096))
			whole := read(t, o, in).whole()
			var got []string
			for _, e := range whole.events {
				if got = append(got, strings.TrimSuffix(e.body, "\n")); e.reason != "" {
					got[len(got)-1] = fmt.Sprintf("<%s %d>", e.reason, e.end-e.start)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			for seed := range uint64(20) {
				cut := read(t, o, in).cut(rand.New(rand.NewPCG(seed, 0)))
				if fmt.Sprint(cut.events) != fmt.Sprint(whole.events) || cut.nuls != whole.nuls {
					t.Errorf("in parts %v, %d NULs, want %v, %d", cut.events, cut.nuls, whole.events, whole.nuls)
				}
			}
		}
		g(Options{Format: record.CSV}, "1,\"a\nb#2,\"\nc\"\n3,4\n", "<malformed 5>", "b", "2,\"\nc\"", "3,4")
		o = Options{Format: record.MultiJSON}
		g(o, `{"a":"b#{"c":1}`+"\n"+`{"d":2}`+"\n", "<malformed 7>", `{"c":1}`, `{"d":2}`)
		g(o, `[{"a":#{"c":1},`+"\n"+` {"d":#`+"\n", "<malformed 5>", `{"c":1}`, "<malformed 6>")
	}
}

// TestTornParts: NUL bytes end a message also while it is skipped.
func TestTornParts(t *testing.T) {
	const at = "2026-03-01T12:00:00Z "
	in := strings.Repeat(at+"stdout P "+strings.Repeat("a", 1000)+"\n", 8) + at + "stdout P b" + strings.Repeat("\x00", 4096) + at + "stdout F c\n"
	shapes(t, Options{Format: record.JSON, Parse: ParseCRI, Validate: true, MaxRecord: 6000}, in).want(
		fmt.Sprintf("<too_long %d>", strings.IndexByte(in, 0)), `{"time":"2026-03-01T12:00:00Z","stream":"stdout","message":"c"}`)
	in = at + "stdout P " + strings.Repeat("a", 200) + "\n" // what follows makes it too long, if it is not NUL bytes alone
	shapes(t, Options{Format: record.JSON, Parse: ParseCRI, Validate: true, MaxRecord: 4200}, in+"x"+strings.Repeat("\x00", 4000)).want(
		fmt.Sprintf("<too_long %d>", len(in)), "<malformed 1>")
}

func events(t *testing.T) *Multiline {
	m, err := NewMultiline(`^\d`, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTextLen(t *testing.T) {
	f := func(data string, at int64, e Encoding, want int) {
		t.Helper()
		if got := TextLen([]byte(data), at, e); got != want {
			t.Errorf("%q at %d in %v: %d, want %d", data, at, e, got, want)
		}
	}
	f("", 0, UTF8, 0)
	f("\x00\x00", 1, UTF8, 0)
	f("a\n\x00\x00", 1, UTF8, 2)
	f("a\x00\n\x00\x00\x00", 0, UTF16LE, 4)
	f("a\x00\n\x00", 0, UTF16LE, 4)
	f("\x01\x00\x00\x00", 2, UTF16BE, 2)
	f("\x00a\x00\n\x00\x00\x00", 0, UTF16BE, 4)
	f("a\x00\x00", 1, UTF16LE, 1)
}
