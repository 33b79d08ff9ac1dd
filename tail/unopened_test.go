package tail

import (
	"os"
	"testing"

	"kusto-agent/tail/internal/finder"

	"golang.org/x/sys/unix"
)

// shutOut has nobody open a file until end is called: a lease of a file server does the same.
func (w *world) shutOut(name string) (end func()) {
	w.t.Helper()
	f, err := os.OpenFile(w.path(name), os.O_RDWR, 0)
	must(w.t, err)
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		w.t.Skipf("the file system gives no lease: %v", err)
	}
	return func() { must(w.t, f.Close()) }
}

// notOpenedAtOnce is a world in which a scan could not open a.old, of which an event told that it was
// a.log, until end is called.
func notOpenedAtOnce(t *testing.T) (w *world, end func()) {
	t.Helper()
	w = newWorld(t)
	w.start()
	w.look()
	w.appendTo("a.old", "one\n")
	end = w.shutOut("a.old")
	listener{w.tailer}.Heard([]finder.Event{{What: finder.Renamed, From: w.path("a.log"), Path: w.path("a.old")}})
	w.look()
	return w, end
}

// TestNotOpenedAtOnce: a file that no pattern matches and that cannot be opened is opened by a later
// scan: no scan finds it by itself.
func TestNotOpenedAtOnce(t *testing.T) {
	t.Run("renamed before it was found", func(t *testing.T) {
		t.Parallel()
		w, end := notOpenedAtOnce(t)
		w.expect("in")
		if w.boxed.logged("file cannot be read, will retry", "a.old") != 1 {
			t.Error("it is not told")
		}
		end()
		w.look()
		w.expect("in", "one")
	})
	t.Run("renamed while the agent was stopped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.appendTo("a.log", "one\n")
		w.start()
		w.expect("in", "one")
		w.shut()
		w.appendTo("a.log", "two\n")
		w.rename("a.log", "a.old")
		end := w.shutOut("a.old")
		w.start()
		w.expect("in")
		end()
		w.look()
		w.expect("in", "two")
	})
	t.Run("rotated after another while the agent was stopped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.appendTo("a.log", "one\n")
		w.start()
		w.expect("in", "one")
		w.shut()
		w.rename("a.log", "a.log.2")
		w.appendTo("a.log", "two\n")
		w.rename("a.log", "a.log.1")
		w.appendTo("a.log", "three\n")
		end := w.shutOut("a.log.1")
		w.start()
		w.expect("in", "three")
		if w.boxed.logged("file cannot be read, will retry", "a.log.1") != 1 {
			t.Error("it is not told")
		}
		end()
		w.look()
		w.expect("in", "two")
	})
	t.Run("replaced since", func(t *testing.T) {
		t.Parallel()
		w, end := notOpenedAtOnce(t)
		end()
		w.appendTo("new", "of nobody\n")
		w.rename("new", "a.old")
		w.look()
		w.expect("in")
	})
}
