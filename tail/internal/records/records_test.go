package records

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/recent"
	"kusto-agent/tail/internal/settings"
	"kusto-agent/tail/internal/tap"
	"kusto-agent/tail/internal/tracker"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// desk is all that a reader of one file is connected to.
type desk struct {
	t       *testing.T
	r       *Reader
	file    File
	most    int  // bytes of a read
	over    bool // nobody writes to the file any more
	handed  strings.Builder
	covers  []record.Extent // of what was handed over
	before  []record.Extent // in front of that
	refused []record.Rejected
	skipped []record.Span
	events  []string
}

func newDesk(t *testing.T, content string, change func(*settings.InputConfig)) *desk {
	t.Helper()
	c := settings.DefaultInputConfig()
	c.Name, c.Format, c.MaxRecordSize = "in", record.TXT, 64
	if change != nil {
		change(&c)
	}
	in, err := settings.Compile(settings.Input{InputConfig: c, MaxSize: 1 << 20})
	must(t, err)
	path := filepath.Join(t.TempDir(), "a.log")
	must(t, os.WriteFile(path, []byte(content), 0o600))
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	d := &desk{t: t, most: 1 << 20}
	d.r = New(&Ports{
		Sink: sink{d}, Quarantine: d, Books: books{}, Contents: books{}, Logger: slog.New(slog.DiscardHandler), Taps: new(tap.Taps), Recent: new(recent.Ring),
		Skip: func(_ record.File, s record.Span, _ record.Mark) { d.skipped = append(d.skipped, s) },
	})
	d.file = File{Reading: &Reading{File: record.File{Input: "in"}, Size: int64(len(content))}, In: in, Path: path, Src: f, Plain: f, Owner: d}
	return d
}

// turns reads until a turn leads to something else than another, and returns to what.
func (d *desk) turns() tracker.Outcome {
	d.t.Helper()
	for range 10_000 {
		next, err := tracker.More, error(nil)
		if d.file.Long.At > 0 {
			next, err = d.r.PassLong(&d.file, d.over)
		} else {
			next, err = d.r.Read(&d.file, d.over)
		}
		must(d.t, err)
		if next != tracker.More {
			return next
		}
	}
	d.t.Fatal("it reads for ever")
	return 0
}

func (d *desk) Register() error        { d.events = append(d.events, "register"); return nil }
func (d *desk) AtEnd() tracker.Outcome { return tracker.Idle }
func (d *desk) Changed(string) (tracker.Outcome, error) {
	d.events = append(d.events, "changed")
	return tracker.Idle, nil
}
func (d *desk) Shrunk() (tracker.Outcome, error) {
	d.events = append(d.events, "shrunk")
	return tracker.Idle, nil
}
func (d *desk) GiveUpRest() (tracker.Outcome, error) { return tracker.Idle, nil }
func (d *desk) IsOver() bool                         { return d.over }
func (d *desk) MayGrow() bool                        { return !d.over }
func (d *desk) TimedOut() bool                       { return false }
func (d *desk) HasGrown() bool                       { return false }
func (d *desk) Take()                                { d.events, d.file.Carried = append(d.events, "take"), Carried{} }
func (d *desk) GiveBack(*Apart) {
	d.events, d.file.Carried = append(d.events, "give back"), Carried{}
	d.file.ForgetRecord()
}
func (d *desk) Put(recs []record.Rejected) error {
	for _, r := range recs {
		r.Data = bytes.Clone(r.Data)
		d.refused = append(d.refused, r)
	}
	return nil
}

func (d *desk) Lease(int) (Lease, error) { return room{d}, nil }

// sink says how much may be read.
type sink struct{ *desk }

func (s sink) Lease(record.Route, int, func()) (Lease, error) { panic("the owner leases") }
func (s sink) Most(record.Route) int                          { return s.most }

type books struct{}

func (books) Read(string, int, int64)            {}
func (books) Filtered(string, string, int)       {}
func (books) Changed(string, string, int)        {}
func (books) Rejected(record.Lot, record.Reason) {}
func (books) InvalidUTF8(string, int)            {}
func (books) Unparsed(string, int)               {}
func (books) NULs(string, int64)                 {}

// room is for one read.
type room struct{ of *desk }

func (room) Block() []byte { return nil }
func (room) Done()         {}

func (l room) Seal(*record.Chunk) { l.of.t.Error("a block was sealed that was not lent") }

func (l room) Append(c *record.Chunk) {
	l.of.handed.Write(c.Body)
	l.of.covers, l.of.before = append(l.of.covers, c.Cover), append(l.of.before, c.Before...)
}

// TestEveryByteHasItsFate: of random lines, some too long and some behind NULs, all are handed over in order but
// those in quarantine, whatever a read may take; the offset moves over nothing else.
func TestEveryByteHasItsFate(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var content, want strings.Builder
		var refused, skipped []record.Span
		at := func() int64 { return int64(content.Len()) }
		for range 1 + rnd.IntN(12) {
			start := at()
			switch line := strings.Repeat("x", 1+rnd.IntN(40)) + "\n"; rnd.IntN(6) {
			case 0:
				content.WriteString(strings.Repeat("y", 65+rnd.IntN(300)) + "\n")
				refused = append(refused, record.Span{Start: start, End: at()})
			case 1:
				content.WriteString(strings.Repeat("\x00", 1+rnd.IntN(200)) + line)
				skipped = append(skipped, record.Span{Start: start, End: at() - int64(len(line))})
				want.WriteString(line)
			default:
				content.WriteString(line)
				want.WriteString(line)
			}
		}
		whole := content.Len()
		rest := strings.Repeat("z", rnd.IntN(30))
		d := newDesk(t, content.String()+rest, nil)
		d.most = 1 + rnd.IntN(500)
		next := d.turns()
		if next != tracker.Idle || d.file.Offset() != int64(whole) || d.handed.String() != want.String() {
			t.Fatalf("seed %d: %v at %d of %d, handed over %q, want %q", seed, next, d.file.Offset(), whole, d.handed.String(), want.String())
		}
		for i, r := range d.refused {
			if i >= len(refused) || r.Offset != refused[i].Start || r.Length != refused[i].Len() {
				t.Fatalf("seed %d: refused %d bytes at %d, want %v", seed, r.Length, r.Offset, refused)
			}
		}
		all := slices.Clone(d.skipped)
		for _, c := range d.covers {
			all = append(all, c.Span)
		}
		slices.SortFunc(all, func(a, b record.Span) int { return int(a.Start - b.Start) })
		end := int64(0)
		for _, s := range all {
			if s.Start != end {
				t.Fatalf("seed %d: nothing has the bytes from %d to %d; NULs at %v", seed, end, s.Start, skipped)
			}
			end = s.End
		}
		if end != int64(whole) || len(d.refused) != len(refused) {
			t.Fatalf("seed %d: the ranges end at %d of %d, %d refused of %d", seed, end, whole, len(d.refused), len(refused))
		}
		d.over = true // the rest is the last record
		if d.turns(); strings.TrimSuffix(d.handed.String(), "\n") != strings.TrimSuffix(want.String()+rest, "\n") {
			t.Fatalf("seed %d: at the end %q", seed, d.handed.String())
		}
	}
}

// TestChangedBefore: bytes before the offset that have changed, or are no longer there, are for the owner.
func TestChangedBefore(t *testing.T) {
	f := func(now, want string) {
		t.Helper()
		d := newDesk(t, "one\ntwo\nthree\n", nil)
		mark, err := fingerprint.MarkAt(d.file.Src, 8)
		must(t, err)
		d.file.Advance(8, mark)
		must(t, os.WriteFile(d.file.Path, []byte(now), 0o600))
		_, err = d.r.Read(&d.file, false)
		must(t, err)
		if d.handed.Len() > 0 || !slices.Contains(d.events, want) {
			t.Errorf("%q: %v, handed over %q", now, d.events, d.handed.String())
		}
	}
	f("ONE\nTWO\nTHREE\n", "changed")
	f("one\n", "shrunk")
}

// TestCarried: a message that begins in the file before is handed over as one with what continues it here, and given
// back where nothing does.
func TestCarried(t *testing.T) {
	line := func(tag, text string) string { return "2026-03-01T12:00:00.5Z stdout " + tag + " " + text + "\n" }
	f := func(content, want string, events ...string) {
		t.Helper()
		d := newDesk(t, content, func(c *settings.InputConfig) { c.Format, c.Parse, c.MaxRecordSize = record.JSON, "cri", 1<<10 })
		begun := line("P", "one ")
		before := record.Extent{File: record.File{Input: "in", ID: record.FileID(1)}, Span: record.Span{Start: 5, End: 5 + int64(len(begun))}}
		d.file.Carried = Carried{Data: []byte(begun), Extents: []record.Extent{before}}
		d.turns()
		if got := d.handed.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("handed over %q, want %q in it", got, want)
		}
		if taken := slices.Contains(events, "take"); taken != slices.Equal(d.before, []record.Extent{before}) {
			t.Errorf("it begins in %v", d.before)
		}
		if got := slices.DeleteFunc(d.events, func(e string) bool { return e == "register" }); !slices.Equal(got, events) {
			t.Errorf("%v, want %v", got, events)
		}
	}
	f(line("F", "two"), "one two", "take")
	f(line("P", "two "), "")
	f("no line of the runtime\n", "", "give back")
}
