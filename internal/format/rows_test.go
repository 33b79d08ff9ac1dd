package format

import (
	"bytes"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

func TestQuotedRow(t *testing.T) {
	long := strings.Repeat("x", 61)
	f := func(line string, fields int, want bool) {
		t.Helper()
		for _, behind := range []string{"", "\"a\",b\n", strings.Repeat("\"", 70)} {
			var r rows
			r.begin(0, 0)
			n, got, _ := r.row([]byte(line+behind), 0, ',')
			if (n == len(line)) != want || want && got != fields {
				t.Errorf("%q before %q: %d bytes, %d, want %d, %t", line, behind, n, got, fields, want)
			}
		}
	}
	f("\"a\"\n", 1, true)
	f("\"a\"\r\n", 1, true)
	f("\"a,\"\"\",,b,\"\"\n", 4, true)
	f("\"\"\"\"\n", 1, true)
	f(",\""+long+"\",\""+long+"\"\"\",\"\"\n", 4, true)
	for n := range 70 {
		pad := strings.Repeat("x", n)
		f(pad+",\"\",\"a,b\"\n", 3, true)
		f(pad+"\"\",\"a\"\n", 2, n == 0)
		f(pad+",\"a\"b\n", 2, false)
		f(pad+",\"a\n", 2, false)
		f(pad+",\"a\"\r\r\n", 2, false)
	}
}

// FuzzQuotedRow: the fast way and the thorough one see the same.
func FuzzQuotedRow(f *testing.F) {
	for _, s := range []string{"\"a\"\n", "\"a,\"\"\",,b,\"\"\r\n", "a\"b\"\n", strings.Repeat("\"abc\",", 20) + "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := firstLine(b)
		if n == 0 || b[n-1] != '\n' {
			return
		}
		var rows rows
		rows.begin(0, 0)
		n, fields, beyond := rows.row(b, 0, ',')
		r := walkRow(b, []byte{','})
		want := r.end == rowWhole && !r.stray && r.n <= leastTear && b[0] != 0 && strings.TrimSuffix(string(b[:r.n-1]), "\r") != ""
		if n > 0 != want || n > 0 && (n != r.n || fields != r.fields) {
			t.Fatalf("%q: %d bytes, %d fields, want %+v", b, n, fields, r)
		}
		if n > 0 && !beyond && strings.ContainsFunc(string(b[:n]), func(c rune) bool { return c > 127 }) {
			t.Fatalf("%q is told to be ASCII", b[:n])
		}
	})
}

// TestSoundRows: all rows of the logs that the benchmarks have are recognised together with those
// around them: the benchmarks would not tell.
func TestSoundRows(t *testing.T) {
	for _, k := range corpora() {
		if k.format != record.CSV {
			continue
		}
		for _, end := range []string{"\n", "\r\n"} {
			text := bytes.ReplaceAll(k.text[:bytes.LastIndexByte(k.text[:1<<20], '\n')+1], []byte("\n"), []byte(end))
			r := rows{next: -1}
			begun, base := 0, -1
			for at := 0; at < len(text); {
				n, fields, _ := r.row(text, at, ',')
				if w := walkRow(text[at:], []byte{','}); n != w.n || fields != w.fields {
					t.Fatalf("%s: %d bytes, %d fields of %q", k.name, n, fields, text[at:at+w.n])
				}
				if r.base != base {
					begun, base = begun+1, r.base
				}
				at += n
			}
			if most := len(text)/(mostStep-leastTear) + 1; begun > most {
				t.Errorf("%s, lines that end with %q: began %d times, not %d at most", k.name, end, begun, most)
			}
		}
	}
}

// TestManyRows: rows of a few bytes, of which there are more in one go than their ends have room, are
// recognised in one go all the same.
func TestManyRows(t *testing.T) {
	for _, row := range []string{",\n", "a\n", "\"\"\n", "a,b\r\n", "\"\",\"\"\r\n", "\"\n\"\n"} {
		text := bytes.Repeat([]byte(row), 3*mostStep/len(row))
		r := rows{next: -1}
		want := walkRow(text, []byte{','})
		for at := 0; at < len(text); at += len(row) {
			n, fields, _ := r.row(text, at, ',')
			if n != want.n || fields != want.fields {
				t.Fatalf("%q at %d: %d bytes, %d fields, want %d, %d", row, at, n, fields, want.n, want.fields)
			}
		}
	}
}

// FuzzSoundRows: among other rows a record is what it is by itself, whatever was known of it from
// the rows before.
func FuzzSoundRows(f *testing.F) {
	for n, s := range []string{
		"a,b,c", "\"a\",\"b\"\"\",\"\"", "\"a,b\nc\",d,e", "\"a\nb", "a\"b,c,\"d\"", "\"a\"b,c", "\n\r\n\n,,", "\"a\",\"b\",\"c\"\r\n\"a\"\r\r", "\x00a,b,c\n\x00", "a,b," + strings.Repeat("\x00", leastTear) + "c,d,e",
		"\"ä\",☃,\xff", strings.Repeat("\"a\",", 2000) + "b", strings.Repeat("\n", 4000), "\"" + strings.Repeat("\n", 4000) + "\",b,c",
	} {
		f.Add([]byte(s), uint16(n*67))
	}
	ahead, alone := scannersOf(f, Options{Format: record.CSV, Validate: true, MaxRecord: 1 << 14})
	f.Fuzz(func(t *testing.T, b []byte, pad uint16) {
		if len(b) > 1<<14 {
			return
		}
		scanAlike(t, ahead, alone, amongOthers(b, int(pad), "\"pad\",%q,3\n", "\n\"o,k\",2,3\n"))
	})
}
