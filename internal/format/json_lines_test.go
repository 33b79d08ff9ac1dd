package format

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// TestSoundLines: nearly all lines of the logs that the benchmarks have are
// recognised without a search for their end: the benchmarks would not tell.
func TestSoundLines(t *testing.T) {
	for _, k := range corpora() {
		if k.format != record.JSON {
			continue
		}
		for _, end := range []string{"\n", "\r\n", "\n\n", "\r\n \t\r\n"} {
			s := newScanner(t, Options{Format: record.JSON, Validate: true})
			text := bytes.ReplaceAll(k.text[:bytes.LastIndexByte(k.text[:1<<20], '\n')+1], []byte("\n"), []byte(end))
			s.quickJSON([]byte("{}"), 2)
			s.borders.begin(0)
			took, lines := 0, 0
			for at := 0; at < len(text); {
				n, _ := s.soundObject(text, at)
				line := firstLine(text[at:])
				switch {
				case n > 0 && n != line:
					t.Fatalf("%s: %d bytes of %q", k.name, n, text[at:at+line])
				case n > 0:
					took++
				case s.blank(text[at : at+line]):
					lines--
				}
				lines++
				at += line
			}
			if took < lines-1 {
				t.Errorf("%s, lines that end with %q: %d of %d", k.name, end, took, lines)
			}
		}
	}
}

// scanAlike fails the test unless both scanners find the same in a text.
func scanAlike(t *testing.T, one, two *Scanner, text []byte) {
	t.Helper()
	one.step = 0
	var c, d Chunk
	for at := 0; at < len(text); at += c.Consumed {
		a, b := buffer(string(text[at:])), buffer(string(text[at:]))
		one.Scan(a, int64(at), true, 0, &c)
		two.Scan(b, int64(at), true, 0, &d)
		rejected := slices.EqualFunc(c.Rejected, d.Rejected, func(a, b Reject) bool {
			return a.Start == b.Start && a.End == b.End && a.Message == b.Message && bytes.Equal(a.Data, b.Data)
		})
		if !rejected || c.Consumed != d.Consumed || c.Consumed == 0 || c.Blank != d.Blank || c.InvalidUTF8 != d.InvalidUTF8 || c.NULs != d.NULs || c.Group != d.Group ||
			!bytes.Equal(c.Body, d.Body) || !bytes.Equal(c.Lens, d.Lens) || !slices.Equal(c.Pieces, d.Pieces) {
			t.Fatalf("%q:\n got %s, %d\nwant %s, %d", text[at:], tell(&c, a), c.InvalidUTF8, tell(&d, b), d.InvalidUTF8)
		}
	}
}

// scannersOf returns two scanners, of which the second one looks at each record by itself.
func scannersOf(t testing.TB, o Options) (ahead, alone *Scanner) {
	ahead, alone = newScanner(t, o), newScanner(t, o)
	alone.runs = false
	return ahead, alone
}

// amongOthers returns a text in which b stands four times, each time between a record of another
// length, which padded has a verb for, and a short one.
func amongOthers(b []byte, pad int, padded, short string) (text []byte) {
	for n := range 4 {
		text = fmt.Appendf(text, padded, strings.Repeat("p", (pad+n*301)%1500))
		text = append(append(text, b...), short...)
	}
	return text
}

// FuzzSoundLines: among other lines a record is what it is by itself, whatever
// was known of it from the lines before.
func FuzzSoundLines(f *testing.F) {
	for n, s := range []string{
		`{"a":1}`, `{}`, `{"a":[{},[],"\u00e4\\",-0.5e+10,true,false,null]}`, ` {"ä":"☃", "b" : {"c":[1,2,{"d":0}]} } `, "{\"a\":\"b\",\"c\": \"d\"}\r\n\r\n\n{\"\xff\":0}\r",
		`{"a":"b`, `{"a":"b\`, `{"a":"b\x"}`, "{\"a\x01\":1}", "{\"a\":\t1}", "\n{\"a\":\n\"b\"}\n \n\r\n", "\x00{}\n\"\n\\\n{'a':1}//\"", strings.Repeat(`{"a":"`+strings.Repeat("x", 900)+"\"}\n", 9),
	} {
		f.Add([]byte(s), uint16(n*67))
	}
	ahead, alone := scannersOf(f, Options{Format: record.JSON, Validate: true, MaxRecord: 1 << 20})
	f.Fuzz(func(t *testing.T, b []byte, pad uint16) {
		if len(b) > 1<<12 {
			return
		}
		text := amongOthers(b, int(pad), "{\"pad\":%q}\n", "\n{\"ok\":[true]}\n")
		text = append(text, strings.Repeat("{}\n", quickRoom)...)
		scanAlike(t, ahead, alone, text)
		// Each line that is taken is sound to the standard library.
		ahead.step = leastStep
		ahead.borders.begin(0)
		for at := 0; at < len(text); at += firstLine(text[at:]) {
			n, beyond := ahead.soundObject(text, at)
			line := text[at : at+firstLine(text[at:])]
			if n > 0 && (n != len(line) || !soundJSON(line) || !beyond && bytes.ContainsFunc(line, func(c rune) bool { return c > 127 })) {
				t.Fatalf("%q was taken for %d bytes, beyond ASCII %t", line, n, beyond)
			}
			if n == 0 {
				ahead.step = max(ahead.step, leastStep)
			}
		}
	})
}
