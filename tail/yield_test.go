package tail

import (
	"errors"
	"os"
	"sync"
	"testing"

	"kusto-agent/internal/format"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

// takes returns a worker that begins a turn of a reader of a tailer that was halted.
func (t *Tailer) takes(r *reader) *worker {
	wk := &worker{t: t, scanners: make(map[*input]*format.Scanner)}
	t.locked(func() {
		r.life = tracker.File{}
		r.wake()
		r.own()
		wk.job = t.jobOf(r)
		t.turns.tracker.Apply(&r.life, tracker.Taken{})
	})
	return wk
}

// TestScanAfterTheReader: a file that its reader leaves to the next scan is not being read any more
// when that scan is asked for: one that came before would pass it over.
func TestScanAfterTheReader(t *testing.T) {
	t.Parallel()
	f := func(what, name string, was, is []byte, turn func(*worker, *reader) (tracker.Outcome, error)) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in().Paths = []string{w.path("*")}
			must(t, os.WriteFile(w.path(name), was, 0o644))
			w.start()
			w.decided()
			tailer := w.tailer
			w.halt() // nobody else has turns now
			tailer.turns.tracker = tracker.Tracker{}
			must(t, os.WriteFile(w.path(name), is, 0o644))
			asked := func() bool {
				select {
				case <-tailer.scans.wanted:
					return true
				default:
					return false
				}
			}
			r := tailer.all()[0]
			wk := tailer.takes(r)
			asked()
			next, err := turn(wk, r)
			must(t, err)
			if asked() {
				t.Error("a scan is asked for while the file is being read")
			}
			tailer.put(r, next, false, "")
			if len(tailer.all()) > 0 || !asked() {
				t.Error("it is still being read, or no scan comes")
			}
		})
	}
	line, more := []byte("a line\n"), []byte("a line\nand more\n")
	f("its input does not read it any more", "a.log", line, line, func(wk *worker, r *reader) (tracker.Outcome, error) { return wk.closeUnwanted(r), nil })
	f("it was compressed anew", "a.log.gz", packedBytes(".gz", line), packedBytes(".gz", more), (*worker).turn)
	f("it was empty and is compressed", "a.log", nil, packedBytes(".gz", more), (*worker).turn)
}

// TestRenamedInATurn: a scan may find a file under another name while a worker compares what is new
// in it, which was empty before.
func TestRenamedInATurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, os.WriteFile(w.path("a.log"), nil, 0o644))
	w.start()
	w.look()
	tailer := w.tailer
	w.halt() // nobody else has turns now
	tailer.turns.tracker = tracker.Tracker{}
	must(t, os.WriteFile(w.path("a.log"), []byte("a line\n"), 0o644))
	st, err := inode.At(w.path("a.log"))
	must(t, err)
	w.rename("a.log", "b.log")
	r := tailer.all()[0]
	wk := tailer.takes(r)
	var scan sync.WaitGroup
	tailer.size = func(size int64) int64 {
		tailer.size = nil
		scan.Go(func() {
			tailer.scans.no++
			tailer.find.seen(r, w.path("b.log"), w.path("a.log"), st)
			if err := os.Mkdir(w.path("seen"), 0o755); err != nil {
				panic(err) // the turn waits for it
			}
		})
		for err := os.ErrNotExist; errors.Is(err, os.ErrNotExist); _, err = os.Lstat(w.path("seen")) { // a channel would hide a race
		}
		return size
	}
	next, err := wk.turn(r)
	must(t, err)
	scan.Wait()
	tailer.put(r, next, false, "")
	if got := tailer.all(); len(got) != 1 || got[0].path() != w.path("b.log") {
		t.Errorf("%d files are read", len(got))
	}
	tailer.closeFiles()
}
