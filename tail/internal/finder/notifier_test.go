package finder

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestHandsOver: fsnotify is heard until much is written in a second; for a second both are, and then the other one.
func TestHandsOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x, err := newNotifier()
	must(t, err)
	defer x.close()
	must(t, x.add(dir))
	start := time.Now()
	watched := []string{dir}
	f := func(after time.Duration, writes int, quiet, busy bool) {
		t.Helper()
		x.writes += writes
		x.handOver(start.Add(after), slices.Values(watched))
		if x.quiet != nil != quiet || x.busy != nil != busy {
			t.Errorf("after %v: fsnotify is heard: %v, the other: %v", after, x.quiet != nil, x.busy != nil)
		}
	}
	f(0, muchWritten-1, true, false)
	f(time.Second/2, 1, true, false) // this second is not over
	f(time.Second, muchWritten-2, true, false)
	f(2*time.Second, muchWritten-1, true, false)
	watched = append(watched, filepath.Join(dir, "gone")) // fsnotify tells so in a moment
	f(3*time.Second, muchWritten, true, false)
	watched = watched[:1]
	f(3500*time.Millisecond, muchWritten, true, false)
	f(4*time.Second, 0, true, true)
	must(t, x.add(dir))
	f(4500*time.Millisecond, 0, true, true)
	f(5*time.Second, 0, false, true)
	f(9*time.Second, muchWritten, false, true)
	must(t, os.WriteFile(filepath.Join(dir, "a.log"), nil, 0o644))
	heard := 0
	must(t, x.read(func(e raw) {
		if e.path == filepath.Join(dir, "a.log") {
			heard++
		}
	}))
	x.remove(dir)
	must(t, os.WriteFile(filepath.Join(dir, "b.log"), nil, 0o644))
	must(t, x.read(func(e raw) { heard += 10 }))
	if heard != 1 {
		t.Errorf("heard %d", heard)
	}
}

// TestStaysWithFsnotify: a folder that the other instance may not watch is heard by fsnotify as before.
func TestStaysWithFsnotify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.log")
	must(t, os.WriteFile(file, nil, 0o644))
	x, err := newNotifier()
	must(t, err)
	defer x.close()
	must(t, x.add(dir))
	start := time.Now()
	for n := range 3 {
		x.writes = muchWritten
		x.handOver(start.Add(time.Duration(n)*time.Second), slices.Values([]string{dir, filepath.Join(file, "refused")}))
		if x.quiet == nil || x.busy != nil || !x.refused {
			t.Errorf("second %d: fsnotify is heard: %v, the other: %v, no more is tried: %v", n, x.quiet != nil, x.busy != nil, x.refused)
		}
	}
}

// TestHeardWhileMuchIsWritten: a file is written to until the watcher hears by the other instance. Then it tells what it
// did before: new files, renames with both names, writes, and folders that are watched since.
func TestHeardWhileMuchIsWritten(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	path := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"a", "b", "c"} {
		must(t, os.Mkdir(path(dir), 0o755))
	}
	w, e := listen(t, path("a"), path("b"))
	w.SetPause(time.Millisecond)
	f, err := os.Create(path("a/busy.log"))
	must(t, err)
	defer f.Close()
	over := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.fs.quiet == nil
	}
	for deadline := time.Now().Add(patience); !over(); {
		if time.Now().After(deadline) {
			t.Fatal("fsnotify is heard for ever")
		}
		_, err := f.WriteString("line\n")
		must(t, err)
		e.await(t, "written "+path("a/busy.log"))
	}
	must(t, os.WriteFile(path("a/new.log"), nil, 0o644))
	e.await(t, "appeared "+path("a/new.log"))
	must(t, os.Rename(path("a/new.log"), path("b/new.log")))
	e.await(t, "renamed "+path("a/new.log")+" "+path("b/new.log"))
	update(w, path("b"), path("c"))
	must(t, os.WriteFile(path("c/x.log"), nil, 0o644))
	e.await(t, "appeared "+path("c/x.log"))
	must(t, os.WriteFile(path("b/new.log"), []byte("line\n"), 0o644))
	e.await(t, "written "+path("b/new.log"))
}

// handing returns a watcher of folders whose both instances are heard, for as long as over is not called, and starts
// nothing. Before they are, change is called.
func handing(t *testing.T, change func(), folders ...string) (w *Watcher, e ears, over func()) {
	t.Helper()
	e = make(ears, 10_000)
	w = NewWatcher(e, slog.New(slog.DiscardHandler))
	update(w, folders...)
	change()
	late := time.Now().Add(time.Hour)
	f := func() { w.fs.handOver(late, slices.Values(folders)) }
	w.fs.writes = muchWritten
	f()
	return w, e, func() { late = late.Add(time.Hour); f() }
}

// TestRenamesAreToldOnce: while both are heard a rename is told once. Told twice, one file would be followed by the names
// of another that was renamed after it.
func TestRenamesAreToldOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	w, e, _ := handing(t, func() {
		must(t, os.WriteFile(path("a.log"), nil, 0o644))
		must(t, os.WriteFile(path("a.log.1"), nil, 0o644))
	}, dir)
	must(t, os.Rename(path("a.log.1"), path("a.log.2")))
	must(t, os.Rename(path("a.log"), path("a.log.1")))
	must(t, os.WriteFile(path("end"), nil, 0o644))
	run(t, w)
	var renames []Rename
	for ends := 0; ends < 2; {
		var from, to string
		switch got := e.next(t); {
		case got == "appeared "+path("end"):
			ends++
		case strings.HasPrefix(got, "renamed "):
			_, err := fmt.Sscanf(got, "renamed %s %s", &from, &to)
			must(t, err)
			renames = append(renames, Rename{from, to})
		}
	}
	var o Origins
	got := o.Follow(renames, time.Now(), func(p string) bool { return p == path("a.log") })
	if len(got) != 1 || got[path("a.log.1")] != path("a.log") {
		t.Errorf("renames %v: followed are %v", renames, got)
	}
}

// TestLossWhileBothAreHeard: fsnotify's word that events were lost is heard while a file is written to all the time, so
// that Loop goes from rest to rest.
func TestLossWhileBothAreHeard(t *testing.T) {
	t.Parallel()
	w, _, _ := handing(t, func() {}, t.TempDir())
	defer w.Close()
	w.fs.failed <- fsnotify.ErrEventOverflow
	w.hearGathered()
	if why, _ := w.Ill(); why == "" {
		t.Error("nobody knows that events were lost")
	}
}

// TestLinkLedElsewhereAtHandOver: a link leads to a folder that is watched by another path, and that is not known yet.
func TestLinkLedElsewhereAtHandOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(path("run1"), 0o755))
	must(t, os.Mkdir(path("run2"), 0o755))
	must(t, os.Symlink("run1", path("the.current")))
	w, e, over := handing(t, func() {
		must(t, os.Symlink("run2", path("new")))
		must(t, os.Rename(path("new"), path("the.current")))
	}, path("run2"), path("the.current"))
	over()
	run(t, w)
	e.probe(t, path("run2"), path("run2"))
	e.probe(t, path("run2"), path("the.current"))
}

type hears func([]Event)

func (f hears) Heard(all []Event) { f(all) }

// TestDeafWhileInstancesChange: folders are looked at then, which may take long, by the goroutine that hears.
func TestDeafWhileInstancesChange(t *testing.T) {
	t.Parallel()
	var w *Watcher
	told, deaf := 0, false
	w = NewWatcher(hears(func(all []Event) { told, deaf = told+len(all), w.deaf.Load() }), slog.New(slog.DiscardHandler))
	defer w.Close()
	update(w, t.TempDir())
	w.hear(Event{What: Changed})
	w.fs.writes = muchWritten
	w.hearGathered()
	if w.fs.busy == nil || told != 1 || !deaf || w.deaf.Load() {
		t.Errorf("both are heard: %v, told %d, files counted as covered then: %v, and now: %v", w.fs.busy != nil, told, !deaf, !w.deaf.Load())
	}
}

// TestErrorsDoNotWait: fsnotify gets rid of errors though nobody hears them, since it holds a lock meanwhile that who
// changes the watches may wait for.
func TestErrorsDoNotWait(t *testing.T) {
	t.Parallel()
	x, err := newNotifier()
	must(t, err)
	for range 2 * mostErrors {
		x.quiet.Errors <- fsnotify.ErrEventOverflow
	}
	x.close()
	if len(x.failed) != mostErrors {
		t.Errorf("%d errors wait to be heard", len(x.failed))
	}
}
