package tail

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/settings"
)

// utf16be is text as UTF-16, the high byte first.
func utf16be(text string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		b = binary.BigEndian.AppendUint16(b, u)
	}
	return string(b)
}

// anyText is lines of text of all kinds.
func anyText(r *rand.Rand) string {
	lines := []string{"1 one", "2 two", " indented", "\tat x", "Caused by: y", "", "a=1 b=\"c d\" offset=7", "€uro ü 😀", "quote \" and \\", strings.Repeat("long ", 60)}
	var b strings.Builder
	for range r.IntN(150) + 1 {
		b.WriteString(lines[r.IntN(len(lines))] + []string{"\n", "\n", "\r\n"}[r.IntN(3)])
	}
	return b.String()
}

func criLine(stream, tag, text string) string {
	return "2026-03-01T12:00:00.5Z " + stream + " " + tag + " " + text + "\n"
}

// anyLog is a log of two streams, with parts that have no end and lines that are
// none.
func anyLog(r *rand.Rand) string {
	var b strings.Builder
	for n := range r.IntN(150) + 1 {
		b.WriteString(criLine([]string{"stdout", "stderr"}[r.IntN(2)], []string{"P", "F", "F"}[r.IntN(3)], fmt.Sprint("n", n)))
		if r.IntN(20) == 0 {
			b.WriteString("nonsense\n")
		}
	}
	return b.String()
}

// parseWorld is a world whose input parses lines.
func parseWorld(t *testing.T, how string, m *Multiline) *world {
	w := newWorld(t)
	in := w.in()
	in.Format, in.Parse, in.Multiline = record.JSON, how, m
	return w
}

func message(text string) string {
	b, _ := json.Marshal(map[string]string{"message": text})
	return string(b)
}

func criMessage(stream, text string, more ...string) string {
	return `{"time":"2026-03-01T12:00:00.5Z","stream":"` + stream + `","message":"` + text + `"` + strings.Join(more, "") + "}"
}

const isPartial = `,"partial":true`

// events are lines that begin with a digit and those behind them.
func events(wait time.Duration) *Multiline {
	return &Multiline{Start: `^\d`, MaxLines: 500, MaxWait: units.Duration(wait)}
}

// An event is held until another begins or its file is rotated away.
func TestEventIsHeld(t *testing.T) {
	w := parseWorld(t, "text", events(time.Hour))
	w.start()
	w.appendTo("a.log", "1 a\n b\n")
	w.look()
	w.expect("in")
	w.appendTo("a.log", " c\n2 d")
	w.expect("in")
	w.shut()
	w.start()
	w.appendTo("a.log", "e\n f\n")
	w.expect("in", message("1 a\n b\n c"))
	must(t, os.Rename(w.path("a.log"), w.path("a.old")))
	w.appendTo("a.log", " g\n3 h\n")
	w.expect("in", message("2 de\n f"), message(" g"))
}

// An event ends where its file was quiet, and what comes later is another one,
// also when both are made again.
func TestEventEndsInQuiet(t *testing.T) {
	w := parseWorld(t, "text", events(1))
	w.batch = true
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	w.appendTo("a.log", "1 a\n b\n")
	w.look()
	w.appendTo("a.log", " c\n d")
	w.look()
	w.appendTo("a.log", "\n")
	w.look()
	w.taker.mu.Lock()
	made := slices.Clone(w.taker.unsent)
	w.taker.mu.Unlock()
	for _, p := range made {
		must(t, w.j.Begin(p))
	}
	w.kill()
	w.start() // makes them again, and compares
	w.expect("in", message("1 a\n b"), message(" c"), message(" d"))
}

// A run that ends takes what is there for whole.
func TestEventsOnce(t *testing.T) {
	w := parseWorld(t, "text", events(time.Hour))
	w.once = true
	w.appendTo("a.log", "1 a\n b\n2 c\n d")
	w.start()
	<-w.stopped
	w.taker.flush()
	if got, want := w.boxed.take("in"), []string{message("1 a\n b"), message("2 c\n d")}; !slices.Equal(got, want) {
		t.Errorf("records are %q, want %q", got, want)
	}
}

// An event that is longer than any may be costs itself, however much it is.
func TestLongEvent(t *testing.T) {
	w := parseWorld(t, "text", events(time.Hour))
	w.in().MaxRecordSize = 1000
	w.start()
	long := "2 long\n" + strings.Repeat(" and more\n", 300_000)
	w.appendTo("a.log", "1 a\n", long, "3 b\n4 c\n")
	w.expect("in", message("1 a"), message("3 b"))
	if n := len(w.boxed.refused); n != 1 || w.boxed.refused[0].Length != int64(len(long)) || w.boxed.refused[0].Reason != record.TooLong {
		t.Errorf("refused %d: %.300v", n, w.boxed.refused)
	}
}

// Parts of messages are joined over reads and restarts, each stream by itself.
func TestMessagesAreJoined(t *testing.T) {
	w := parseWorld(t, "cri", nil)
	w.in().RotateQuiet = units.Duration(time.Hour)
	w.start()
	w.appendTo("a.log", criLine("stdout", "P", "a"))
	w.look()
	w.appendTo("a.log", criLine("stderr", "F", "x"), criLine("stderr", "P", "y"))
	w.look()
	w.expect("in")
	w.shut()
	w.start()
	w.appendTo("a.log", criLine("stdout", "F", "b"))
	w.look()
	w.expect("in")
	w.appendTo("a.log", criLine("stderr", "F", "z"))
	w.expect("in", criMessage("stdout", "ab"), criMessage("stderr", "x"), criMessage("stderr", "yz"))
}

// A part whose other half is in the next file, or does not come, is sent as one;
// and it holds back the other stream no longer than it is waited for.
func TestPartsThatCannotBeJoined(t *testing.T) {
	w := parseWorld(t, "cri", nil)
	w.start()
	w.appendTo("a.log", criLine("stdout", "P", "a"), criLine("stderr", "F", "x"))
	w.expect("in", criMessage("stdout", "a", isPartial), criMessage("stderr", "x"))
	w.appendTo("a.log", criLine("stdout", "F", "b"))
	w.expect("in", criMessage("stdout", "b"))
	w.shut()

	w = parseWorld(t, "cri", nil)
	w.start()
	w.appendTo("a.log", criLine("stdout", "F", "x"), criLine("stdout", "P", "a"))
	w.look()
	must(t, os.Rename(w.path("a.log"), w.path("a.old")))
	w.appendTo("b.log", criLine("stdout", "F", "b"))
	w.expect("in", criMessage("stdout", "x"), criMessage("stdout", "a", isPartial), criMessage("stdout", "b"))
}

// The rest of a message is joined although its file was renamed meanwhile.
func TestMessageOverARename(t *testing.T) {
	w := parseWorld(t, "cri", nil)
	w.in().RotateQuiet = units.Duration(time.Hour)
	w.start()
	w.appendTo("a.log", criLine("stdout", "F", "x"), criLine("stdout", "P", "a"))
	w.look()
	must(t, os.Rename(w.path("a.log"), w.path("a.old")))
	w.appendTo("a.log", "")
	w.look()
	w.appendTo("a.old", criLine("stderr", "F", "y"), criLine("stdout", "F", "b"))
	w.look()
	w.appendTo("a.log", criLine("stdout", "F", "new"))
	w.expect("in", criMessage("stdout", "x"), criMessage("stdout", "ab"), criMessage("stderr", "y"), criMessage("stdout", "new"))
}

// In UTF-16 the last line end is one that begins a unit.
func TestStartAtEndOfUTF16(t *testing.T) {
	w := newWorld(t)
	w.in().Encoding, w.in().StartAt = "utf-16be", "end"
	w.appendTo("a.log", utf16be("old\nand "+"\u4100\u0A42 not")) // of these two 00 0A is no newline
	w.start()
	w.look()
	w.appendTo("a.log", utf16be(" new\nnext\n"))
	w.expect("in", "and \u4100\u0A42 not new", "next")
}

// A byte order mark that contradicts the input is told once.
func TestForeignMark(t *testing.T) {
	f := func(encoding, text, want string) {
		t.Helper()
		w := newWorld(t)
		w.in().Encoding = encoding
		w.start()
		w.appendTo("a.log", text)
		w.look()
		w.appendTo("a.log", text)
		w.look()
		if n := w.boxed.logged("byte order mark of the file", "a.log", want); (n == 1) != (want != "") && n <= 1 {
			t.Errorf("%s %q: told %d times of %q", encoding, text, n, want)
		}
		w.shut()
	}
	f("utf-8", "\xff\xfea\x00\n\x00", "encoding: utf-16le")
	f("utf-8", "\xfe\xff\x00a\x00\n", "encoding: utf-16be")
	f("latin1", "\xef\xbb\xbfa\n", "encoding: utf-8")
	f("utf-16le", "\xfe\xff\x00a\x00\n", "encoding: utf-16be")
	f("utf-16le", "\xff\xfea\x00\n\x00", "")
	f("utf-8", "\xef\xbb\xbfa\n", "")
}

// Restore gives refused records the bytes of their file, and leaves them where
// there are none.
func TestRestore(t *testing.T) {
	w := parseWorld(t, "text", nil)
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	w.appendTo("a.log", "one\r\n\ntwo\n")
	w.look()
	w.taker.mu.Lock()
	p := w.taker.unsent[0]
	w.taker.mu.Unlock()
	recs := []record.Rejected{
		{File: p.Cover[0].File, Offset: 0, Length: 5, Data: []byte("x")},
		{File: p.Cover[0].File, Offset: 6, Length: 4, Data: []byte("y")},
	}
	must(t, w.tailer.Restore(p, recs))
	if string(recs[0].Data) != "one\r\n" || string(recs[1].Data) != "two\n" {
		t.Errorf("data %q, %q", recs[0].Data, recs[1].Data)
	}
	must(t, os.WriteFile(w.path("a.log"), []byte("other\nlines\n"), 0o644))
	recs[0].Data = []byte("x")
	if err := w.tailer.Restore(p, recs); err == nil || string(recs[0].Data) != "x" {
		t.Errorf("of a file that changed: %v, data %q", err, recs[0].Data)
	}
}

// A message that is longer than any may be goes to quarantine with all its
// parts, as one record; what other streams wrote between them is sent, also when
// the run ends in the middle of it.
func TestLongMessage(t *testing.T) {
	w := parseWorld(t, "cri", nil)
	w.in().MaxRecordSize = 1000
	w.in().RotateQuiet = units.Duration(time.Hour)
	w.start()
	w.appendTo("a.log", criLine("stdout", "F", "first"))
	var own int
	var want []string
	for n := range 400 {
		part := criLine("stdout", "P", strings.Repeat("x", n%50))
		own += len(part)
		w.appendTo("a.log", part)
		if n%7 == 0 {
			w.appendTo("a.log", criLine("stderr", "P", "e"), criLine("stderr", "F", fmt.Sprint(n)))
			want = append(want, criMessage("stderr", fmt.Sprint("e", n)))
		}
	}
	w.look()
	w.expect("in", criMessage("stdout", "first"))
	w.shut()
	w.start()
	end := criLine("stdout", "F", "end")
	w.appendTo("a.log", end, criLine("stdout", "F", "last"))
	w.expect("in", append(want, criMessage("stdout", "last"))...)
	if n := len(w.boxed.refused); n != 1 {
		t.Fatalf("%d refused: %.300v", n, w.boxed.refused)
	}
	r := w.boxed.refused[0]
	if first := int64(len(criLine("stdout", "F", "first"))); r.Offset != first || r.Length != int64(own+len(end)) || r.Reason != record.TooLong || r.Truncated || !strings.HasSuffix(string(r.Data), end) || strings.Contains(string(r.Data), "stderr") {
		t.Errorf("refused %.300v", r)
	}
	w.shut()
	w.start()
	w.look()
	w.expect("in")
}

// Of a message of any length only the head is kept, and it is waited for as long
// as it goes on.
func TestEndlessMessage(t *testing.T) {
	w := parseWorld(t, "cri", nil)
	w.in().MaxRecordSize = 1000
	w.start()
	long := strings.Repeat(criLine("stdout", "P", strings.Repeat("x", 500)), 3000)
	w.appendTo("a.log", long[:1_000_000], long[1_000_000:], criLine("stderr", "F", "e"))
	w.expect("in", criMessage("stderr", "e")) // when no part came any more
	w.appendTo("a.log", criLine("stdout", "F", "rest"))
	w.expect("in", criMessage("stdout", "rest"))
	if n := len(w.boxed.refused); n != 1 {
		t.Fatalf("%d refused: %.300v", n, w.boxed.refused)
	}
	if r := w.boxed.refused[0]; r.Length != int64(len(long)) || !r.Truncated || len(r.Data) != settings.KeptHead {
		t.Errorf("refused %d bytes, %d kept", r.Length, len(r.Data))
	}
}
