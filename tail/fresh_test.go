package tail

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFreshNames: where the next scan takes its time, a new name is looked at by itself,
// also in a folder that is new, and no file of a new input is taken for an old one.
func TestFreshNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths = []string{w.path("**/*.log")}
	w.prepare() // nobody else looks
	tailer, stopped := w.tailer, make(chan struct{})
	close(stopped)
	w.stop, w.giveUp, w.stopped = func() {}, func() {}, stopped
	t.Cleanup(func() {
		tailer.watch.Close()
		tailer.closeFiles()
	})
	tailer.rescan()
	in := tailer.inputs[0]
	reads := func(path string) bool {
		tailer.mu.Lock()
		defer tailer.mu.Unlock()
		return len(tailer.byPath[w.path(path)]) > 0
	}
	f := func(slow, isNew bool, name, path string, want bool) {
		t.Helper()
		tailer.setSlow(slow)
		in.isNew = isNew
		tailer.freshName(w.path(name))
		tailer.meetFresh()
		if got := reads(path); got != want {
			t.Errorf("%s, slow %v, new %v: it is read: %v", path, slow, isNew, got)
		}
	}
	write := func(path string) {
		must(t, os.MkdirAll(filepath.Dir(w.path(path)), 0o755))
		must(t, os.WriteFile(w.path(path), []byte("one\n"), 0o644))
	}
	write("a.log")
	f(false, false, "a.log", "a.log", false)
	f(true, true, "a.log", "a.log", false)
	f(true, false, "a.log", "a.log", true)
	write("d/e/b.log")
	f(true, false, "d", "d/e/b.log", true)
	if !tailer.watch.Covers(w.path("d/e/b.log")) || !tailer.watch.Covers(w.path("d/c.log")) {
		t.Error("a new folder is not watched")
	}
	write("f.txt")
	f(true, false, "f.txt", "f.txt", false)
}
