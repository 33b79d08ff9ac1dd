package cursor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/holes"
)

// Ranges that need no reading are passed over only if the file still holds what it
// held when they were read.
func TestSkipsOfAnotherContent(t *testing.T) {
	const was = "what was there before the file was rewritten, and more\n"
	mark := func(text string, at int64) record.Mark {
		m, err := fingerprint.MarkAt(strings.NewReader(text), at)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	f := func(name, now string, offset int64, want error) {
		t.Run(name, func(t *testing.T) {
			c := At(offset, mark(was, offset))
			c.Skips = []record.Extent{{Span: record.Span{Start: offset, End: 40}}}
			head, err := fingerprint.HeadOf(strings.NewReader(was), int64(len(was)))
			if err != nil {
				t.Fatal(err)
			}
			f := strings.NewReader(now)
			if err := c.SkipDone(f, func() (bool, error) { return c.IsRewritten(f, head) }); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			if want == nil && (c.Offset() != 40 || c.Mark() != mark(now, 40)) || want != nil && c.Offset() != offset {
				t.Errorf("offset %d", c.Offset())
			}
		})
	}
	other := strings.ReplaceAll(was, "a", "o") + was
	f("same", was, 0, nil)
	f("grown", was+was, 20, nil)
	f("short at the start", "w", 0, ErrChanged)
	f("short", was[:30], 20, ErrChanged)
	f("other at the start", other, 0, ErrChanged)
	f("other", other, 20, ErrChanged)
}

// A cursor that moves forgets what was found out about the record that it leaves, and about NULs that
// begin before the place to which it moves.
func TestAdvanceForgets(t *testing.T) {
	c := At(10, 1)
	c.NoteStuck(30, time.Unix(1, 0))
	c.NoteStuck(40, time.Unix(2, 0))
	if c.OpenSince != time.Unix(1, 0) || !c.IsOpen(40) || c.IsOpen(41) {
		t.Errorf("a record without an end: %+v", c)
	}
	c.Long = Long{At: 35}
	c.NULs = holes.Stretch{From: 40, At: 50}
	if c.IsOpen(40) || c.End(50) != 40 || c.End(60) != 60 || c.End(30) != 30 {
		t.Errorf("a long record before NULs: %+v", c)
	}
	c.Advance(40, 2)
	if c.Offset() != 40 || c.Mark() != 2 || c.Stuck != 0 || !c.OpenSince.IsZero() || c.Long.At != 0 || c.End(50) != 40 {
		t.Errorf("moved to the NULs: %+v", c)
	}
	if c.Advance(41, 3); c.NULs != (holes.Stretch{}) {
		t.Errorf("moved into the NULs: %+v", c)
	}
}

// Lines of a long message that follow on each other are one range.
func TestPartsAreJoined(t *testing.T) {
	var p Parts
	p.Add([]format.Piece{{Start: 0, End: 5}, {Start: 5, End: 9}, {Start: 12, End: 20}}, 100)
	p.Add([]format.Piece{{Start: 0, End: 1}}, 120)
	want := []record.Span{{Start: 100, End: 109}, {Start: 112, End: 121}}
	if !slices.Equal(p.Runs, want) || p.Bytes() != 18 {
		t.Errorf("%v of %d bytes, want %v", p.Runs, p.Bytes(), want)
	}
}

// The last end of a block is found wherever it lies.
func TestLastEnd(t *testing.T) {
	f := func(text string, size int, border string, want int64) {
		t.Helper()
		if got, err := LastEnd(strings.NewReader(text), int64(size), []byte(border), 1); err != nil || got != want {
			t.Errorf("%d bytes: got %d, %v; want %d", size, got, err, want)
		}
	}
	f("a\nb\nc", 5, "\n", 4)
	f("a\nb\nc", 3, "\n", 2)
	f("abc", 3, "\n", 0)
	f("", 0, "\n", 0)
	f("abc", 3, "", 0)
	f("\n", 1, "\n", 1)
	const window = 64 << 10
	marker := strings.Repeat("A", 16)
	for _, behind := range []int{0, 1, window - 17, window - 16, window - 15, window - 8, window - 1, window, window + 1, 3*window - 5} {
		text := "some" + marker + strings.Repeat("A", 15) + strings.Repeat("x", behind)
		f(text, len(text), marker, 4+16+15)
		text = "some" + marker + strings.Repeat("x", behind)
		f(text, len(text), marker, 20)
		f(text, 19, marker, 0)
	}
}
