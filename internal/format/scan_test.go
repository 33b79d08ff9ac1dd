package format

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

func newScanner(t testing.TB, o Options) *Scanner {
	t.Helper()
	if o.MaxRecord == 0 {
		o.MaxRecord = 1 << 20
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// buffer is in as a caller holds it, with the spare byte for a last newline.
func buffer(in string) []byte { return append(make([]byte, 0, len(in)+1), in...) }

// tell writes a chunk in words.
func tell(c *Chunk, data []byte) string {
	var w []string
	add := func(format string, a ...any) { w = append(w, fmt.Sprintf(format, a...)) }
	if c.Records > 0 {
		add("%d %q", c.Records, c.Body)
	}
	if c.Group > 1 {
		add("group %d", c.Group)
	}
	if c.Lens != nil {
		add("lens %v", c.Lens)
	}
	for _, r := range c.Rejected {
		add("reject %q %s %s", r.Data, r.Reason, r.Message)
	}
	for _, n := range []struct {
		what string
		n    int
	}{{"blank", c.Blank}, {"header", c.Header}, {"bom", c.BOM}, {"NULs", c.NULs}, {"from", c.NULsAt}, {"notutf8", c.InvalidUTF8}} {
		if n.n > 0 {
			add("%s %d", n.what, n.n)
		}
	}
	if rest := data[c.Consumed:]; len(rest) > 0 {
		add("rest %q", rest)
	}
	if c.Long {
		add("long")
	}
	return strings.Join(w, " · ")
}

// scanned returns f(in, want): in is scanned once from the start of a file.
func scanned(t *testing.T, o Options, last bool) func(in, want string) {
	s := newScanner(t, o)
	var c Chunk
	return func(in, want string) {
		t.Helper()
		data := buffer(in)
		s.Scan(data, 0, last, 0, &c)
		if got := tell(&c, data); got != want {
			t.Errorf("%s %q last=%t\n got %s\nwant %s", o.Format, in, last, got, want)
		}
	}
}

func TestTXT(t *testing.T) {
	f := scanned(t, Options{Format: record.TXT, Validate: true, MaxRecord: 8}, false)
	f("", "")
	f("a\nb\n", `2 "a\nb\n"`)
	f("a\nb", `1 "a\n" · rest "b"`)
	f("\n\r\n\n", `blank 3`)
	f("\n a\n\n", `1 " a\n" · blank 2`)
	f("a\r\nb\n", `2 "a\nb\n" · lens [3 2]`)
	f("b\na\r\nb\n", `3 "b\na\nb\n" · lens [2 3 2]`)
	f("a\rb\r\r\n", `1 "a\rb\r\n" · lens [6]`)
	f("\xEF\xBB\xBFa\n\xEF\xBB\xBFb\n", `2 "a\n\ufeffb\n" · bom 3`)
	f("\xEF\xBB", `rest "\xef\xbb"`)
	f("a\x00b\n\xff\n", `2 "a\x00b\n\xff\n" · notutf8 1`)
	f("1234567\nx\n", `2 "1234567\nx\n"`)
	f("12345678\nx\n", `1 "x\n" · reject "12345678" too_long longer than 8 bytes`)
	f("1234567", `rest "1234567"`)
	f("12345678", `rest "12345678" · long`)
	f("x\n123456789", `1 "x\n" · rest "123456789" · long`)

	f = scanned(t, Options{Format: record.TXT, MaxRecord: 8}, true)
	f("a\nb", `2 "a\nb\n" · lens [2 1]`)
	f("a\n\nb", `2 "a\nb\n" · lens [2 1] · blank 1`)
	f("a\r", `1 "a\n" · lens [1]`)
	f("a\r\r", `1 "a\n" · lens [1]`)
	f("\r\r", `blank 1`)
	f("\r", `blank 1`)
	f("\xEF\xBB", `1 "\xef\xbb\n" · lens [2] · notutf8 1`)
	f("1234567", `1 "1234567\n" · lens [7]`)
	f("12345678", `reject "12345678" too_long longer than 8 bytes`)
	f("123456789", `reject "12345678" too_long longer than 8 bytes`)
}

func TestJSONLines(t *testing.T) {
	f := scanned(t, Options{Format: record.JSON, Validate: true, MaxRecord: 32}, false)
	f("{\"a\":1}\n{}\r\n", `2 "{\"a\":1}\n{}\r\n"`)
	f("{}\n \t\r\n\n{}\n", `2 "{}\n{}\n" · blank 2`)
	f("{}\n[1]\n{}\n", `2 "{}\n{}\n" · reject "[1]\n" malformed column 1: unexpected '[' where an object must begin`)
	f("{}{}\n", `reject "{}{}\n" malformed column 3: unexpected '{' behind the object`)
	f("{'a':1} // note\n", `1 "{'a':1} // note\n"`)
	f("{\"\xff\":1}\n{}\n", `2 "{\"\xff\":1}\n{}\n" · notutf8 1`)
	f("{\"a\":\xff}\n", `reject "{\"a\":\xff}\n" malformed column 6: unexpected byte 0xff in or instead of a value`)
	f("\xEF\xBB\xBF{}\n", `1 "{}\n" · bom 3`)
	f("{", `rest "{"`)

	f = scanned(t, Options{Format: record.JSON, Validate: true, MaxRecord: 32}, true)
	f("{}", `1 "{}\n" · lens [2]`)
	f("{}\n{", `1 "{}\n" · reject "{" malformed column 2: the record ends where a name must begin`)

	f = scanned(t, Options{Format: record.JSON, MaxRecord: 32}, false)
	f("{}\nnonsense\n \n\xff\n", `3 "{}\nnonsense\n\xff\n" · blank 1 · notutf8 1`)
}

func TestDelimited(t *testing.T) {
	f := scanned(t, Options{Format: record.CSV, Validate: true, MaxRecord: 24}, false)
	f("a,b\nc,d\r\n", `2 "a,b\nc,d\r\n" · group 2`)
	f("a,b\nc\nd,e\n", `1 "a,b\n" · group 2 · rest "c\nd,e\n"`)
	f("\na,b\n\r\nc,d\n", `2 "a,b\nc,d\n" · group 2 · blank 2`)
	f("\"a\nb\",c\nd,e\n", `2 "\"a\nb\",c\nd,e\n" · group 2`)
	f("\"a\"\"b\",\"\"\n", `1 "\"a\"\"b\",\"\"\n" · group 2`)
	f("\"a,b\n\n\"\r\n", `1 "\"a,b\n\n\"\r\n"`)
	f("\"a\n", `rest "\"a\n"`)
	f("\"a\"", `rest "\"a\""`)
	f("\"a\"\r", `rest "\"a\"\r"`)
	f("a\rb,\rc\n", `1 "a\rb,\rc\n" · group 2`)
	f("\xff,b\n", `1 "\xff,b\n" · group 2 · notutf8 1`)
	f("a\"b,c\nd,e\n", `1 "d,e\n" · group 2 · reject "a\"b,c\n" malformed column 2: unexpected '"' in a field that does not begin with a quote`)
	f("\"a\"b,c\nd,e\n", `1 "d,e\n" · group 2 · reject "\"a\"b,c\n" malformed column 4: unexpected 'b' behind a closing quote`)
	f("\"a, b\nc,\"d\"\n", `1 "c,\"d\"\n" · group 2 · reject "\"a, b\n" malformed line 2, column 4: unexpected 'd' behind a closing quote`)
	f("\"a\nb\",c\"d\ne,f\n", `1 "e,f\n" · group 2 · reject "\"a\n" malformed line 2, column 5: unexpected '"' in a field that does not begin with a quote · `+
		`reject "b\",c\"d\n" malformed column 2: unexpected '"' in a field that does not begin with a quote`)
	f("\"a\n345678901234567890123\nx\n", `2 "345678901234567890123\nx\n" · reject "\"a\n" malformed column 1: the quote that opens here is not closed within max_record_size`)
	f("\"a\n\",67890123456789012345\nx\n", `1 "x\n" · reject "\"a\n" too_long over several lines and longer than 24 bytes · `+
		`reject "\",67890123456789012345\n" malformed column 1: the quote that opens here is not closed within max_record_size`)

	f = scanned(t, Options{Format: record.CSV, Validate: true, MaxRecord: 24}, true)
	f("a,\"b\"", `1 "a,\"b\"\n" · group 2 · lens [5]`)
	f("a,\"b\"\r", `1 "a,\"b\"\r\n" · group 2 · lens [6]`)
	f("\"a\nb\",c\nd,e", `2 "\"a\nb\",c\nd,e\n" · group 2 · lens [8 3]`)
	f("\"a,b\nc,d\n", `1 "c,d\n" · group 2 · reject "\"a,b\n" malformed column 1: the quote that opens here is never closed`)
	f("\"a,b", `reject "\"a,b" malformed column 1: the quote that opens here is never closed`)

	f = scanned(t, Options{Format: record.CSV, MaxRecord: 24}, false)
	f("a,b\nc\n\"d\n\",e\n", `3 "a,b\nc\n\"d\n\",e\n"`)
	f("a\"b,c\n", `1 "a\"b,c\n"`)
	f("\"a\"b\nc\n", `1 "c\n" · reject "\"a\"b\n" malformed column 4: unexpected 'b' behind a closing quote`)
}

func TestDelimiters(t *testing.T) {
	for format, d := range map[record.Format]string{
		record.CSV: ",", record.TSV: "\t", record.SCsv: ";", record.SOHsv: "\x01", record.PSV: "|",
	} {
		f := scanned(t, Options{Format: format, Validate: true}, false)
		row := "a" + d + "\"" + d + "\n\"" + d + "c\n"
		f(row+"1"+d+"2"+d+"3\n", fmt.Sprintf("2 %q · group 3", row+"1"+d+"2"+d+"3\n"))
	}
}

func TestHeader(t *testing.T) {
	o := Options{Format: record.CSV, Validate: true, SkipHeader: true, MaxRecord: 12}
	f := scanned(t, o, false)
	f("h,i,j\na,b\n", `1 "a,b\n" · group 2 · header 1`)
	f("\xEF\xBB\xBF\n\nh\na\n", `1 "a\n" · blank 2 · header 1 · bom 3`)
	f("\"h\n\"\na\n", `1 "a\n" · header 1`)
	f("h\"h\na\n", `1 "a\n" · header 1`)
	f("h", `rest "h"`)
	f("\n\nh", `rest "\n\nh"`)
	f("\xEF\xBB\xBF", `rest "\ufeff"`)
	f("12345678901h\na\n", `1 "a\n" · reject "12345678901h" too_long longer than 12 bytes`)
	f("12345678901h", `rest "12345678901h" · long`)
	f("\n\n\n\n\n\n\n\n\n\n\nh\na\n", `2 "h\na\n" · blank 11`)
	f("\n\n\n\n\n\n\n\n\n\n\nh", `blank 11 · rest "h"`)

	f = scanned(t, o, true)
	f("h,i", `header 1`)
	f("\n\n", `blank 2`)

	s, data := newScanner(t, o), buffer("a\nb\n")
	var c Chunk
	s.Scan(data, 1, false, 0, &c)
	if got, want := tell(&c, data), `2 "a\nb\n"`; got != want {
		t.Errorf("in the middle of a file: %s, want %s", got, want)
	}
}

func TestLimit(t *testing.T) {
	s, data := newScanner(t, Options{Format: record.TXT}), buffer("a\n\nb\nc\nd")
	var c Chunk
	s.Scan(data, 0, false, 2, &c)
	if got, want := tell(&c, data), `2 "a\nb\n" · blank 1 · rest "c\nd"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPieces(t *testing.T) {
	s, data := newScanner(t, Options{Format: record.JSON, Validate: true}), buffer("\n{}\n{}\nx\n{\"a\":1}\n\n{}")
	var c Chunk
	s.Scan(data, 0, true, 0, &c)
	if want := []Piece{{1, 7, 2}, {9, 17, 1}, {18, 20, 1}}; !slices.Equal(c.Pieces, want) {
		t.Errorf("pieces %v, want %v", c.Pieces, want)
	}
	if r := c.Rejected[0]; r.Start != 7 || r.End != 9 || string(r.Data) != "x\n" {
		t.Errorf("rejected %+v", r)
	}
}

// A body is cut by pieces and rejected records long before either is too many
// for a journal entry.
func TestTooManyPieces(t *testing.T) {
	f := func(in string, pieces, rejected int) {
		t.Helper()
		s, data := newScanner(t, Options{Format: record.JSON, Validate: true}), buffer(strings.Repeat(in, record.MaxPieces+1))
		var c Chunk
		s.Scan(data, 0, true, 0, &c)
		if len(c.Pieces) != pieces || len(c.Rejected) != rejected {
			t.Errorf("%q: %d pieces, %d rejected", in, len(c.Pieces), len(c.Rejected))
		}
		rest := data[c.Consumed:]
		s.Scan(rest, int64(c.Consumed), true, 0, &c)
		if c.Consumed != len(rest) || c.Records+len(c.Rejected) != 1 {
			t.Errorf("%q: the rest: %s", in, tell(&c, rest))
		}
	}
	f("{}\n\n", record.MaxPieces, 0)
	f("x\n", 0, record.MaxPieces)
}

func TestSplitAndCount(t *testing.T) {
	f := func(format record.Format, body string, ends ...int) {
		t.Helper()
		s := newScanner(t, Options{Format: format})
		if got := s.Count([]byte(body)); got != len(ends) {
			t.Errorf("%s Count(%q) = %d, want %d", format, body, got, len(ends))
		}
		for n, want := range append(ends, len(body)) {
			if got := s.Split([]byte(body), n+1); got != want {
				t.Errorf("%s Split(%q, %d) = %d, want %d", format, body, n+1, got, want)
			}
		}
	}
	f(record.TXT, "")
	f(record.TXT, "a\nb\"\n", 2, 5)
	f(record.JSON, "{}\n{}\n", 3, 6)
	f(record.CSV, "a,b\n\"c\n\",d\nx\"\ne\n", 4, 11, 14, 16)
	f(record.TSV, "\"\t\n\"\n\"\"\"\n\"\n", 5, 11)
}

func TestDataWithoutSpareByte(t *testing.T) {
	s, data := newScanner(t, Options{Format: record.TXT}), []byte("a\nb")
	data = slices.Clip(data)
	var c Chunk
	s.Scan(data, 0, true, 0, &c)
	if got, want := tell(&c, data), `2 "a\nb\n" · lens [2 1]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	f := func(o Options, in string) {
		t.Helper()
		s, data := newScanner(t, o), buffer(strings.Repeat(in, 100))
		scratch := slices.Clone(data)
		var c Chunk
		if n := testing.AllocsPerRun(10, func() {
			copy(scratch, data)
			s.Scan(scratch, 1, false, 0, &c)
		}); n > 0 || c.Records == 0 {
			t.Errorf("%s: %v allocations for %d records", o.Format, n, c.Records)
		}
	}
	f(Options{Format: record.TXT}, "a\n\nb\r\n")
	f(Options{Format: record.JSON, Validate: true}, "{\"a\":[1,\"b\"]}\n\n{'a':1}\n")
	f(Options{Format: record.CSV, Validate: true}, "a,b\n\n\"c\n\",d\n")
}

// decodeLens reads what Lens holds.
func decodeLens(b []byte) (lens []int) {
	for len(b) > 0 {
		v, n := binary.Uvarint(b)
		lens, b = append(lens, int(v)), b[n:]
	}
	return lens
}
