package tail

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/tracker"
)

// TestScanAfterTheReader: a file that its reader leaves to the next scan is not being read any more
// when that scan is asked for: one that came before would pass it over.
func TestScanAfterTheReader(t *testing.T) {
	t.Parallel()
	f := func(what, name string, was, is []byte, turn func(*worker, *reader) (tracker.Outcome, error)) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in().Paths, w.in().RotateQuiet = []string{w.path("*")}, 0 // a compressed file is looked through at once
			must(t, os.WriteFile(w.path(name), was, 0o644))
			tailer := w.stepped()
			tailer.scan()
			tailer.survey()
			tailer.turnAll()
			must(t, os.WriteFile(w.path(name), is, 0o644))
			r := tailer.all()[0]
			wk := tailer.begin(r)
			tailer.isScanWanted()
			next, err := turn(wk, r)
			must(t, err)
			if tailer.isScanWanted() {
				t.Error("a scan is asked for while the file is being read")
			}
			tailer.end(wk, next)
			if len(tailer.all()) > 0 || !tailer.isScanWanted() {
				t.Error("it is still being read, or no scan comes")
			}
		})
	}
	line, more := []byte("a line\n"), []byte("a line\nand more\n")
	f("its input does not read it any more", "a.log", line, line, func(wk *worker, r *reader) (tracker.Outcome, error) { return wk.closeUnwanted(r), nil })
	f("it was compressed anew", "a.log.gz", packedBytes(".gz", line), packedBytes(".gz", more), (*worker).turn)
	f("it was empty and is compressed", "a.log", nil, packedBytes(".gz", more), (*worker).turn)
}

// TestAwayForAScan: a name that a scan does not find is not gone: it may have been renamed under its eyes.
func TestAwayForAScan(t *testing.T) {
	w := newWorld(t)
	w.in().Paths = []string{w.path("*.log")}
	tailer := w.steppedOver("a.log", "one\n")
	w.rename("a.log", "hidden")
	tailer.isScanWanted()
	tailer.scan()
	if !tailer.isScanWanted() {
		t.Error("no other scan is asked for")
	}
	w.rename("hidden", "b.log")
	tailer.scan()
	tailer.turnAll()
	w.appendTo("b.log", "two\n")
	tailer.scan()
	tailer.turnAll()
	if got := w.boxed.take("in"); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("records are %q", got)
	}
	if n := w.boxed.logged("was moved away or deleted"); n > 0 || w.boxed.counter("rotations") != 1 {
		t.Errorf("it is logged %d times as moved away, and counted as rotated %d times", n, w.boxed.counter("rotations"))
	}
}

// renamedInATurn has a scan find a file under another name while its reader compares what is new in it,
// which was empty before. during is called by the turn, with the rest of that scan.
func renamedInATurn(t *testing.T, during func(scan func())) {
	w := newWorld(t)
	w.in().Compressed = "never"
	must(t, os.WriteFile(w.path("a.log"), nil, 0o644))
	tailer := w.stepped()
	tailer.scan()
	tailer.turnAll()
	must(t, os.WriteFile(w.path("a.log"), []byte("a line\n"), 0o644))
	w.rename("a.log", "b.log.gz") // so named when its turn begins, it would not be read
	r := tailer.all()[0]
	wk := tailer.begin(r)
	tailer.scanWithout()
	tailer.size = func(size int64) int64 {
		tailer.size = nil
		during(func() { tailer.find.meet(tailer.inputs()[0], w.path("b.log.gz"), "") })
		return size
	}
	next, err := wk.turn(r)
	must(t, err)
	tailer.end(wk, next)
	if got := w.boxed.take("in"); !slices.Equal(got, []string{"a line"}) {
		t.Errorf("records of the turn are %q", got)
	}
	if got := tailer.all(); len(got) != 1 || got[0].path() != w.path("b.log.gz") {
		t.Errorf("%d files are read", len(got))
	}
	tailer.turnAll()
	if all := w.remembered(); len(all) != 1 || all[0].Info.Info().Path != w.path("b.log.gz") {
		t.Errorf("the journal knows %+v", all)
	}
}

// TestRenamedInATurn: a turn goes by the name that its file had when it began, and the journal has the new
// name after the next.
func TestRenamedInATurn(t *testing.T) {
	t.Parallel()
	renamedInATurn(t, func(scan func()) { scan() })
}

// hooked calls before at the first entry that the journal has to store at once.
type hooked struct {
	Positions
	before func()
}

func (h *hooked) Register(f record.File, info record.Facts) error {
	if before := h.before; before != nil {
		h.before = nil
		before()
	}
	return h.Positions.Register(f, info)
}

// TestCopyFoundDuringATruncation: a scan that finds the copy of a truncated file while the turn that has seen the
// truncation goes on is the last to tell the journal where the copied content is.
func TestCopyFoundDuringATruncation(t *testing.T) {
	w := newWorld(t)
	w.in().Paths = []string{w.path("*.log*")}
	text := strings.Repeat("a line of the file\n", 1000)
	must(t, os.WriteFile(w.path("a.log"), []byte(text), 0o644))
	tailer := w.stepped()
	tailer.scan()
	tailer.turnAll()
	must(t, os.WriteFile(w.path("a.log.1"), []byte(text+"one more\n"), 0o644))
	must(t, os.WriteFile(w.path("a.log"), []byte("new\n"), 0o644))
	r := tailer.readerAt(w.path("a.log"))
	wk := tailer.begin(r)
	tailer.o.Positions = &hooked{tailer.o.Positions, tailer.scan}
	next, err := wk.turn(r)
	must(t, err)
	tailer.end(wk, next)
	if tailer.readerAt(w.path("a.log.1")).k.generation != 0 {
		t.Fatal("the copy was not recognised")
	}
	for _, s := range w.remembered() {
		if path := s.Info.Info().Path; s.File.Generation == 0 && path != w.path("a.log.1") {
			t.Errorf("the journal has what was copied at %s", path)
		}
	}
}

// TestRewrittenBeforeAnAcceptedRange: a file of which the journal knows a range beyond the offset, and that was
// truncated and filled again before the offset moved, is read as its next generation: as the old one its new
// content would count as read, and the next run would not find it there.
func TestRewrittenBeforeAnAcceptedRange(t *testing.T) {
	w := newWorld(t)
	must(t, os.WriteFile(w.path("a.log"), bytes.Repeat([]byte("a line of a file that is truncated\n"), 20), 0o644))
	tailer := w.stepped()
	tailer.scan()
	r := tailer.readerAt(w.path("a.log"))
	tailer.locked(func() {
		r.wake()
		r.Skips = []record.Extent{{File: r.File, Span: record.Span{Start: 350, End: 385}}}
	})
	must(t, os.WriteFile(w.path("a.log"), []byte("the first line after that\nand the second\n"), 0o644))
	tailer.turnAll()
	if r.k.generation != 1 || r.k.position == 0 {
		t.Errorf("its generation is %d, read up to %d", r.k.generation, r.k.position)
	}
}

// TestCopiedInItsFirstTurn: a file that was empty when it was found is known by how it begins before any of
// it is read: a copy that is found in the turn that reads it first is none of its own.
func TestCopiedInItsFirstTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := []byte(strings.Repeat("a line\n", 300))
	must(t, os.WriteFile(w.path("a.log"), nil, 0o644))
	tailer := w.stepped()
	tailer.scan()
	tailer.turnAll()
	must(t, os.WriteFile(w.path("a.log"), text, 0o644))
	w.taker.leasing = sync.OnceFunc(func() {
		must(t, os.WriteFile(w.path("b.log"), text, 0o644))
		tailer.scan()
	})
	tailer.ready(tailer.readerAt(w.path("a.log")))
	tailer.turnAll()
	must(t, os.Truncate(w.path("a.log"), 0))
	for range 3 {
		tailer.scan()
		tailer.turnAll()
	}
	if n := len(w.boxed.take("in")); n != 300 {
		t.Errorf("%d records were read of 300", n)
	}
}
