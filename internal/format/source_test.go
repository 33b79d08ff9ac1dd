package format

import (
	"bytes"
	"testing"

	"kusto-agent/internal/record"
)

// What was sent of a record, and its length in the file, give its bytes there.
func TestSource(t *testing.T) {
	f := func(format record.Format, source, sent string) {
		t.Helper()
		rec := []byte(sent)
		if got := newScanner(t, Options{Format: format}).Source(rec, len(source)); string(got) != source {
			t.Errorf("%s %q comes back as %q, want %q", format, sent, got, source)
		}
		if string(rec) != sent {
			t.Errorf("%q was changed to %q", sent, rec)
		}
	}
	f(record.TXT, "a\n", "a\n")
	f(record.TXT, "a\r\n", "a\n")
	f(record.TXT, "a", "a\n")
	f(record.CSV, "\"a\n\",b", "\"a\n\",b\n")
	f(record.CSV, "a\r\n", "a\r\n")
	f(record.JSON, "{}\r\n", "{}\r\n")
	f(record.JSON, "{}", "{}\n")
	for _, end := range []struct{ source, sent string }{{"\n", "\n"}, {"\r\n", "\n"}, {"", "\n"}} {
		g := func(before, added, after string) {
			t.Helper()
			f(record.MultiJSON, before+after+end.source, before+added+after+end.sent)
			if end.source != "\r\n" {
				f(record.JSON, before+after+end.source, before+added+after+end.sent)
			}
		}
		g("{", `"a":1`, "}")
		g("{ ", `"a":1,"b":"},"`, "}")
		g(`{"a":1`, `,"b":2`, "}")
		g(`{"a":",","x":[1,{"y":2}]`, `,",":","`, "} ")
		g(`{'a':'}' /*,}*/ `, `,"b":2`, "}//}")
		g(`{"":""`, `,"":""`, "}")
		g(`{"a":1,`, `,"b":2`, "}") // not sound, as it may pass without a check
	}
	f(record.JSON, "nonsense", "nonsense\n")
}

// What does not fit together does no harm.
func TestSourceOfNonsense(t *testing.T) {
	for _, rec := range []string{"", "{", "}", "{}\n", "[1]\n", `{"a":1}` + "\n"} {
		for length := range len(rec) + 5 {
			newScanner(t, Options{Format: record.JSON}).Source([]byte(rec), length)
		}
	}
}

func TestBorder(t *testing.T) {
	f := func(format record.Format, file, want string) {
		t.Helper()
		s := newScanner(t, Options{Format: format})
		if err := s.Prepare(bytes.NewReader([]byte(file))); err != nil {
			t.Fatal(err)
		}
		if got, unit := s.Border(); string(got) != want || unit != 1 {
			t.Errorf("%s: border %q of unit %d, want %q", format, got, unit, want)
		}
	}
	f(record.TXT, "x", "\n")
	f(record.MultiJSON, "x", "\n")
	file := string(avroFile(t, "null", 1))
	f(record.Avro, file, file[len(file)-16:])
	f(record.Avro, "Obj", "")
}
