package tail

import (
	"os"
	"testing"

	"kusto-agent/internal/format"
	"kusto-agent/tail/internal/tracker"
)

// TestScanAfterTheReader: a file that its reader leaves to the next scan is not being read any more
// when that scan is asked for: one that came before would pass it over.
func TestScanAfterTheReader(t *testing.T) {
	t.Parallel()
	f := func(what, name string, was, is []byte, turn func(*worker, *reader) (after, error)) {
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
			wk := &worker{t: tailer, scanners: make(map[*input]*format.Scanner)}
			tailer.locked(func() {
				r.life = tracker.File{}
				r.wake()
				r.own()
				wk.job = tailer.jobOf(r)
				tailer.turns.tracker.Apply(&r.life, tracker.Taken{})
			})
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
	f("its input does not read it any more", "a.log", line, line, func(wk *worker, r *reader) (after, error) { return wk.leave(r), nil })
	f("it was compressed anew", "a.log.gz", packedBytes(".gz", line), packedBytes(".gz", more), (*worker).turn)
	f("it was empty and is compressed", "a.log", nil, packedBytes(".gz", more), (*worker).turn)
}
