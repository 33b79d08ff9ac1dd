package finder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/tail/internal/inode"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds how long a test waits for an event of the kernel. It decides nothing
// but when a failure is told.
const patience = time.Minute

// ears hand on what a watcher tells.
type ears chan string

func (e ears) Heard(all []Event) {
	for _, x := range all {
		switch x.What {
		case Written:
			e <- "written " + x.Path
		case Appeared:
			e <- "appeared " + x.Path
		case Renamed:
			e <- "renamed " + x.From + " " + x.Path
		case Changed:
			e <- "changed"
		}
	}
}

// listen watches folders until the test ends.
func listen(t *testing.T, folders ...string) (*Watcher, ears) {
	t.Helper()
	e := make(ears, 10_000)
	w := NewWatcher(e, slog.New(slog.DiscardHandler))
	update(w, folders...)
	run(t, w)
	return w, e
}

// run has a watcher hear until the test ends.
func run(t *testing.T, w *Watcher) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	// Ended by stop, awaited below.
	go func() {
		defer close(done)
		w.Loop(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		w.Close()
	})
}

func update(w *Watcher, folders ...string) (added bool) {
	wanted := make(map[string]bool)
	for _, dir := range folders {
		wanted[dir] = true
	}
	return w.Update(wanted)
}

// watchedPaths are the paths by which folders are watched, in order.
func (w *Watcher) watchedPaths() []string {
	return slices.Sorted(maps.Values(w.now.Load().on))
}

// await waits until a watcher tells of something.
func (e ears) await(t *testing.T, want string) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case got := <-e:
			if got == want {
				return
			}
		case <-late.C:
			t.Fatalf("waited in vain for %q", want)
		}
	}
}

// next is what a watcher tells next.
func (e ears) next(t *testing.T) string {
	t.Helper()
	select {
	case got := <-e:
		return got
	case <-time.After(patience):
		t.Fatal("waited in vain")
		return ""
	}
}

// probe makes files in a folder until events tell of one by the path of another: the
// watch may still be on its way. It counts nothing that came before.
func (e ears) probe(t *testing.T, in, told string) {
	t.Helper()
	late := time.After(patience)
	for n := 0; ; n++ {
		name := fmt.Sprintf("probe.%s.%d", filepath.Base(t.Name()), n)
		must(t, os.WriteFile(filepath.Join(in, name), nil, 0o644))
		again := time.After(10 * time.Millisecond)
		for waits := true; waits; {
			select {
			case got := <-e:
				if strings.HasPrefix(got, "appeared "+filepath.Join(told, "probe.")) {
					return
				}
			case <-again:
				waits = false
			case <-late:
				t.Fatalf("nothing is heard of %s as %s", in, told)
			}
		}
	}
}

// TestFollows: what a path leads to becomes another folder, no scan comes, and the
// folder that is there by then is heard.
func TestFollows(t *testing.T) {
	t.Parallel()
	f := func(name string, wanted []string, make, change func(path func(string) string), now string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := func(name string) string { return filepath.Join(dir, name) }
			make(path)
			var all []string
			for _, name := range wanted {
				all = append(all, path(name))
			}
			_, e := listen(t, all...)
			e.probe(t, all[0], all[0])
			change(path)
			e.probe(t, path(now), all[0])
		})
	}
	dirs := func(names ...string) func(func(string) string) {
		return func(path func(string) string) {
			for _, name := range names {
				must(t, os.MkdirAll(path(name), 0o755))
			}
		}
	}
	link := func(path func(string) string, to, name string) {
		must(t, os.Symlink(to, path(name+".new")))
		must(t, os.Rename(path(name+".new"), path(name)))
	}
	f("a link is led elsewhere", []string{"current"}, func(path func(string) string) {
		dirs("run1", "run2")(path)
		link(path, "run1", "current")
	}, func(path func(string) string) { link(path, "run2", "current") }, "run2")
	f("a link far above", []string{"app/log/today"}, func(path func(string) string) {
		dirs("v1/log/today", "v2/log/today", "links")(path)
		link(path, "../v1", "links/now")
		link(path, "links/now", "app")
	}, func(path func(string) string) { link(path, "../v2", "links/now") }, "v2/log/today")
	f("the folder is replaced", []string{"app"}, dirs("app"), func(path func(string) string) {
		must(t, os.Rename(path("app"), path("app.old")))
		must(t, os.Mkdir(path("app"), 0o755))
	}, "app")
	f("the folder above is replaced", []string{"app/log"}, dirs("app/log"), func(path func(string) string) {
		must(t, os.Rename(path("app"), path("app.old")))
		must(t, os.MkdirAll(path("app/log"), 0o755))
	}, "app/log")
	f("two above", []string{"a/b/c/d"}, dirs("a/b/c/d"), func(path func(string) string) {
		must(t, os.Rename(path("a/b"), path("b.old")))
		must(t, os.MkdirAll(path("a/b/c/d"), 0o755))
	}, "a/b/c/d")
	f("folders that are watched change names", []string{"x", "y"}, dirs("x", "y"), func(path func(string) string) {
		must(t, os.Rename(path("x"), path("z")))
		must(t, os.Rename(path("y"), path("x")))
		must(t, os.Rename(path("z"), path("y")))
	}, "x")
}

// TestWatchedUnderAnotherName: a folder is heard by another path once the one that it was watched by is gone.
func TestWatchedUnderAnotherName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"app", "app.old", "run"} {
		must(t, os.Mkdir(path(name), 0o755))
	}
	must(t, os.Symlink("run", path("current")))
	_, e := listen(t, dir, path("app"), path("app.old"), path("run"), path("current"))
	must(t, os.Remove(path("current")))
	e.probe(t, path("run"), path("run"))
	must(t, os.Remove(path("app.old")))
	must(t, os.WriteFile(path("removed"), nil, 0o644))
	e.await(t, "appeared "+path("removed"))
	must(t, os.Rename(path("app"), path("app.old")))
	e.probe(t, path("app.old"), path("app.old"))
	must(t, os.WriteFile(path("end"), nil, 0o644))
	e.await(t, "appeared "+path("end"))
	e.probe(t, path("app.old"), path("app.old"))
}

// TestTwoPaths: of a folder to which two paths lead events tell by both.
func TestTwoPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run, current := filepath.Join(dir, "run"), filepath.Join(dir, "current")
	must(t, os.Mkdir(run, 0o755))
	must(t, os.Symlink("run", current))
	w, e := listen(t, run, current)
	must(t, os.WriteFile(filepath.Join(run, "a.log"), []byte("x"), 0o644))
	seen := make(map[string]bool)
	for !seen[run] || !seen[current] {
		select {
		case got := <-e:
			if path, ok := strings.CutPrefix(got, "written "); ok {
				seen[filepath.Dir(path)] = true
			}
		case <-time.After(patience):
			t.Fatalf("heard by %v", seen)
		}
	}
	if !w.Covers(filepath.Join(run, "a")) || !w.Covers(filepath.Join(current, "a")) || !w.Healthy() {
		t.Error("one of the paths is not covered")
	}
	if update(w, current); len(w.watchedPaths()) != 1 || !w.Covers(filepath.Join(current, "a")) || w.Covers(filepath.Join(run, "a")) {
		t.Errorf("watched are %v", w.watchedPaths())
	}
	e.probe(t, run, current)
}

// TestAlso: a folder that is new is heard from the moment that it was named.
func TestAlso(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	app, log := filepath.Join(dir, "app"), filepath.Join(dir, "app", "log")
	must(t, os.MkdirAll(log, 0o755))
	w, e := listen(t, app)
	w.Also(map[string]bool{log: true})
	must(t, os.WriteFile(filepath.Join(log, "a"), nil, 0o644))
	e.await(t, "appeared "+filepath.Join(log, "a"))
	must(t, os.WriteFile(filepath.Join(app, "b"), nil, 0o644))
	e.await(t, "appeared "+filepath.Join(app, "b"))
}

// TestDuringUpdate: while the watches are being updated, files whose watch stays are covered and
// heard of; one whose watch was ended, or is only being set, is not covered, so that it is polled.
func TestDuringUpdate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"stays", "goes", "comes"} {
		must(t, os.Mkdir(path(name), 0o755))
	}
	w, e := listen(t, path("stays"), path("goes"))
	covered := func(when string, stays, goes, comes bool) {
		t.Helper()
		for name, want := range map[string]bool{"stays": stays, "goes": goes, "comes": comes} {
			if got := w.Covers(filepath.Join(path(name), "a.log")); got != want {
				t.Errorf("%s: a file in %q is covered: %v", when, name, got)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	covered("before", true, true, false)
	v := *w.now.Load()
	v.wanted = map[string]bool{path("stays"): true, path("comes"): true}
	w.publish(v)
	if w.Healthy() {
		t.Error("a folder that has no watch yet is taken for watched")
	}
	if added, ill := w.follow(&v); !added || ill != nil {
		t.Fatalf("added %v, ill %v", added, ill)
	}
	covered("the watches are set", true, false, false)
	must(t, os.WriteFile(filepath.Join(path("stays"), "a.log"), []byte("line\n"), 0o644))
	e.await(t, "appeared "+filepath.Join(path("stays"), "a.log"))
	e.await(t, "written "+filepath.Join(path("stays"), "a.log"))
	w.publish(v)
	covered("after", true, false, true)
	if !w.Healthy() {
		t.Error("not all folders are watched")
	}
}

// TestWhileNobodyHears: what was heard is told before the goroutine that hears waits for an update of the
// watches, and no file is covered until it hears again.
func TestWhileNobodyHears(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, app := filepath.Join(dir, "a.log"), filepath.Join(dir, "app")
	w, e := listen(t, dir, app)
	if !w.Covers(file) {
		t.Fatal("a file in a watched folder is not covered")
	}
	w.mu.Lock()
	unlock := sync.OnceFunc(w.mu.Unlock)
	defer unlock()
	must(t, os.Mkdir(app, 0o755))
	e.await(t, "appeared "+app)
	if w.Covers(file) {
		t.Error("a file is covered though nobody hears of it")
	}
	unlock()
	e.await(t, "changed")
	if !w.Covers(file) || !w.Covers(filepath.Join(app, "a.log")) {
		t.Error("a file is not covered after the update")
	}
}

// TestWatchLostInOverflow: among the events that the kernel dropped was the one that says that a watch has ended.
func TestWatchLostInOverflow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, e, over := handing(t, func() {}, dir)
	over()
	_, err := unix.InotifyRmWatch(w.fs.busy.fd, uint32(w.fs.busy.wds[dir]))
	must(t, err)
	_, err = unix.Read(w.fs.busy.fd, w.fs.busy.buf[:])
	must(t, err)
	w.overflow(errOverflow)
	run(t, w)
	e.probe(t, dir, dir)
}

// TestSick: why events do not tell of everything is logged once, and its end once, which only all
// folders of a scan can show, and no sooner than events have been heard for a while.
func TestSick(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := NewWatcher(make(ears, 10), slog.New(slog.NewTextHandler(&log, nil)))
		logged := func(when string, want int) {
			t.Helper()
			if got := strings.Count(log.String(), "\n"); got != want {
				t.Errorf("%s: %d lines logged, want %d:\n%s", when, got, want, log.String())
			}
			log.Reset()
		}
		logged("new", 0)
		w.overflow(errors.New("overflow"))
		logged("events are lost", 1)
		w.overflow(errors.New("overflow"))
		logged("once more", 0)
		if why, fix := w.Ill(); why == "" || fix == "" || w.Healthy() {
			t.Errorf("ill: %q, fix %q, healthy %v", why, fix, w.Healthy())
		}
		update(w)
		logged("a scan soon after", 0)
		time.Sleep(scanHeard)
		w.Also(map[string]bool{dir: true})
		defer w.Close()
		logged("some folders", 0)
		update(w, dir)
		logged("a scan", 1)
		update(w, dir)
		logged("another scan", 0)

		v := *w.now.Load()
		v.ill = &illness{"refused", "raise it", errors.New("no space")}
		w.publish(v)
		logged("a watch is refused", 1)
		w.Also(map[string]bool{other: true})
		w.refresh(dir, false)
		logged("some folders are not refused", 0)
		update(w, dir, other)
		logged("no folder of a scan is refused", 1)
		if why, _ := w.Ill(); why != "" || !w.Healthy() {
			t.Errorf("ill: %q, healthy %v", why, w.Healthy())
		}
	})
}

// TestStaleRename: an event of a folder that is no longer at the path says nothing of
// the names at the path.
func TestStaleRename(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "new"), 0o755))
	w := NewWatcher(make(ears, 10), slog.New(slog.DiscardHandler))
	defer w.Close()
	app := filepath.Join(dir, "app")
	must(t, os.Mkdir(app, 0o755))
	update(w, app)
	if !w.isCurrent(app) {
		t.Error("a folder that is there is not current")
	}
	must(t, os.Rename(app, app+".old"))
	if w.isCurrent(app) {
		t.Error("a folder that is gone is current")
	}
	must(t, os.Rename(filepath.Join(dir, "new"), app))
	if w.isCurrent(app) {
		t.Error("another folder is taken for the one that is watched")
	}
}

// TestRests: events that gather while the watcher rests are heard, each of them.
func TestRests(t *testing.T) {
	dir := t.TempDir()
	w, e := listen(t, dir)
	e.probe(t, dir, dir)
	w.SetPause(time.Millisecond)
	for range 20 {
		for n := range 50 {
			f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(n)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			must(t, err)
			_, err = f.WriteString("line\n")
			must(t, err)
			must(t, f.Close())
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "last"), []byte("line\n"), 0o644))
	told := make(map[string]bool)
	late := time.NewTimer(patience)
	defer late.Stop()
	for len(told) < 50 || !told["last"] {
		select {
		case got := <-e:
			if path, ok := strings.CutPrefix(got, "written "+dir+"/"); ok && !strings.HasPrefix(path, "probe.") {
				told[path] = true
			}
		case <-late.C:
			t.Fatalf("%d files are heard of", len(told))
		}
	}
}

// TestNewsWhileWritten: a link is led elsewhere while a file is written to all the time, and the folder that
// is there by then is heard.
func TestNewsWhileWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"busy", "run1", "run2"} {
		must(t, os.Mkdir(path(name), 0o755))
	}
	must(t, os.Symlink("run1", path("current")))
	w, e := listen(t, path("busy"), path("current"))
	e.probe(t, path("current"), path("current"))
	w.SetPause(20 * time.Millisecond)
	stop, ended := make(chan struct{}), make(chan error)
	// Ended by stop, awaited below.
	go func() {
		f, err := os.Create(path("busy/a.log"))
		for err == nil {
			select {
			case <-stop:
				ended <- f.Close()
				return
			case <-time.After(time.Millisecond):
				_, err = f.WriteString("line\n")
			}
		}
		ended <- err
	}()
	e.await(t, "written "+path("busy/a.log"))
	must(t, os.Symlink("run2", path("new")))
	must(t, os.Rename(path("new"), path("current")))
	e.probe(t, path("run2"), path("current"))
	close(stop)
	must(t, <-ended)
}

// TestFirstWrite: a write after none is heard of before the rest, and the end of the watcher
// ends the rest.
func TestFirstWrite(t *testing.T) {
	dir := t.TempDir()
	w, e := listen(t, dir)
	e.probe(t, dir, dir)
	w.SetPause(time.Hour)
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("line\n"), 0o644))
	e.await(t, "written "+filepath.Join(dir, "a"))
}

// TestPlan: what is watched, what the paths lead to, and what is to be done.
func TestPlan(t *testing.T) {
	a, b := inode.Node{Ino: 1}, inode.Node{Ino: 2}
	f := func(name string, on map[inode.Node]string, at map[string]inode.Node, remove []inode.Node, add map[inode.Node]string, also map[string][]string) {
		t.Helper()
		gotRemove, gotAdd, gotAlso := plan(on, at)
		slices.SortFunc(gotRemove, func(a, b inode.Node) int { return int(a.Ino) - int(b.Ino) })
		if !slices.Equal(gotRemove, remove) || !maps.Equal(gotAdd, add) || !reflect.DeepEqual(gotAlso, also) {
			t.Errorf("%s: remove %v, add %v, also %v; want %v, %v, %v", name, gotRemove, gotAdd, gotAlso, remove, add, also)
		}
	}
	f("nothing", nil, nil, nil, nil, nil)
	f("a new one", nil, map[string]inode.Node{"/x": a}, nil, map[inode.Node]string{a: "/x"}, nil)
	f("as it was", map[inode.Node]string{a: "/x"}, map[string]inode.Node{"/x": a}, nil, nil, nil)
	f("no longer wanted", map[inode.Node]string{a: "/x"}, nil, []inode.Node{a}, nil, nil)
	f("replaced", map[inode.Node]string{a: "/x"}, map[string]inode.Node{"/x": b}, []inode.Node{a}, map[inode.Node]string{b: "/x"}, nil)
	f("replaced, and wanted under its new name", map[inode.Node]string{a: "/x"}, map[string]inode.Node{"/x": b, "/x.old": a}, []inode.Node{a}, map[inode.Node]string{a: "/x.old", b: "/x"}, nil)
	f("exchanged", map[inode.Node]string{a: "/x", b: "/y"}, map[string]inode.Node{"/x": b, "/y": a}, []inode.Node{a, b}, map[inode.Node]string{a: "/y", b: "/x"}, nil)
	f("two paths", nil, map[string]inode.Node{"/y": a, "/x": a}, nil, map[inode.Node]string{a: "/x"}, map[string][]string{"/x": {"/y"}})
	f("a second path", map[inode.Node]string{a: "/y"}, map[string]inode.Node{"/y": a, "/x": a}, nil, nil, map[string][]string{"/y": {"/x"}})
}

// TestResolve: the names on the way to a folder, and where each is looked up.
func TestResolve(t *testing.T) {
	links := map[string]string{"/a/current": "run1", "/a/far": "/b/../c", "/c": "a/current/d", "/loop": "loop"}
	f := func(path string, want ...string) {
		t.Helper()
		var got []string
		r := resolver{met: make(map[string]bool), readlink: func(path string) (string, error) {
			if to, ok := links[path]; ok {
				return to, nil
			}
			return "", errors.New("no link")
		}, visit: func(dir, name string) { got = append(got, dir+" "+name) }}
		r.resolve(path)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	f("/x/y", "/ x", "/x y")
	f("/a/current/log", "/ a", "/a current", "/a run1", "/a/run1 log")
	f("/a/far", "/ a", "/a far", "/ c", "/ a", "/a current", "/a run1", "/a/run1 d")
	f("/loop", slices.Repeat([]string{"/ loop"}, mostHops+1)...)
	f("/")
}
