package tail

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/archive"
)

// gatedJournal takes no file before its gate is open.
type gatedJournal struct {
	positions
	gate chan struct{}
}

func (j gatedJournal) Register(f record.File, info record.Facts) error {
	<-j.gate
	return j.positions.Register(f, info)
}

// A file that was found and has not had its turn when the agent stops is known: it is
// found again by its node under a name that no pattern matches.
func TestFoundAndStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := make(chan struct{})
	w.journalFor = func(p positions) memory { return gatedJournal{p, gate} }
	var want []string
	const files = 200 // more than there are workers
	for i := range files {
		want = append(want, fmt.Sprintf("line of %d", i))
		w.appendTo(fmt.Sprintf("%d.log", i), want[i]+"\n")
	}
	w.start()
	w.await("a scan", func() bool { return w.tailer.scans.done.Load() > 0 })
	w.stop()
	w.await("the stop", func() bool { return w.tailer.turns.drained != nil })
	close(gate) // who has a turn ends it, and there are no others
	w.shut()
	for i := range files {
		w.rename(fmt.Sprintf("%d.log", i), fmt.Sprintf("%d.old", i))
	}
	w.journalFor = nil
	w.start()
	w.expect("in", want...)
}

// A file that was found is known after a kill too, before a turn has looked at it.
func TestFoundAndKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := make(chan struct{})
	w.journalFor = func(p positions) memory { return gatedJournal{p, gate} }
	w.start()
	w.taker.set(func() { w.taker.full = true })
	var want []string
	const files = 200 // more than there are workers
	for i := range files {
		want = append(want, fmt.Sprintf("line of %d", i))
		w.appendTo(fmt.Sprintf("%d.log", i), want[i]+"\n")
	}
	w.await("readers", func() bool { return w.tailer.inputs()[0].readers.Len() == files })
	close(gate)
	must(t, w.j.Sync()) // the tailer does not wait until the files it found are in the journal
	w.kill()
	for i := range files {
		w.rename(fmt.Sprintf("%d.log", i), fmt.Sprintf("%d.old", i))
	}
	w.journalFor = nil
	w.start()
	w.expect("in", want...)
}

// doubted starts a tailer that has read the lines of a.log, and for which b.log may be a copy of that
// with one more line.
func (w *world) doubted() (lines []string) {
	w.t.Helper()
	for i := range 50 {
		lines = append(lines, fmt.Sprintf("a line that both files have, number %d", i))
	}
	text := strings.Join(lines, "\n") + "\n"
	w.appendTo("a.log", text)
	w.start()
	w.expect("in", lines...)
	w.appendTo("b.log", text+"one more\n")
	w.look()
	w.await("a doubt", func() bool { return len(w.tailer.inputs()[0].suspect) == 1 })
	return lines
}

// A file that may be a copy of another is known after a kill, also under a name that no pattern
// matches, and is read no later than rotate_quiet after it was first seen by the first run.
func TestDoubtedAndKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().RotateQuiet = units.Duration(time.Hour)
	lines := w.doubted()
	must(t, w.j.Sync()) // an inspection may have found it after look
	w.kill()
	w.rename("b.log", "b.old")
	w.in().RotateQuiet = units.Duration(time.Millisecond)
	w.start()
	w.expect("in", append(lines, "one more")...)
	if known := w.remembered(); len(known) != 2 {
		t.Errorf("%d files are known, want 2: %+v", len(known), known)
	}
}

// earlier is a journal that was written before the clock was set back by an hour.
type earlier struct{ positions }

func (j earlier) Files(input string) iter.Seq[State] {
	return func(yield func(State) bool) {
		for s := range j.positions.Files(input) {
			if info := s.Info.Info(); info.Doubted != 0 {
				info.Doubted += time.Hour.Nanoseconds()
				s.Info = info.Facts()
			}
			if !yield(s) {
				return
			}
		}
	}
}

// A clock that was set back does not have a file wait that may be a copy.
func TestDoubtedAndClockSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().RotateQuiet = units.Duration(time.Hour)
	lines := w.doubted()
	w.shut()
	w.in().RotateQuiet = units.Duration(time.Millisecond)
	w.journalFor = func(p positions) memory { return earlier{p} }
	w.start()
	w.expect("in", append(lines, "one more")...)
}

// A file that may be a copy and that there was no descriptor to hold open is read too when it is
// rotated to a name that no pattern matches before that is decided.
func TestDoubtedWithoutDescriptorAndRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().RotateQuiet, w.open = units.Duration(time.Hour), 0
	w.doubted()
	w.rename("b.log", "b.old")
	w.look()
	must(t, os.Truncate(w.path("a.log"), 0)) // so that it is decided
	w.look()
	w.expect("in", "one more")
	if w.boxed.logged("file is gone before it was certain that it was a copy of a file that was read; if it was none, its bytes are lost", "b.log") > 0 {
		t.Error("it counts as gone")
	}
}

// Compressed files that wait for a place to unpack in are known too, also after a kill.
func TestPackedAndKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths[0] = w.path("*.gz")
	s := newScript(w)
	var want []string
	const files = 2*archive.MostUnpacking + 1
	for i := range files {
		name := fmt.Sprintf("%d.log", i)
		want = append(want, fmt.Sprintf("line of %d", i))
		must(t, s.write(os.O_APPEND, name, want[i]+"\n"))
		must(t, s.pack(name, ".gz"))
	}
	w.start()
	w.taker.set(func() { w.taker.full = true })
	w.look()
	w.await("readers", func() bool { return w.tailer.inputs()[0].readers.Len() == files })
	w.look()
	w.kill()
	for i := range files {
		w.rename(fmt.Sprintf("%d.log.gz", i), fmt.Sprintf("%d.old", i))
	}
	w.start()
	w.expect("in", want...)
}
