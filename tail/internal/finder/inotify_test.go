package finder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// instance returns one that watches nothing yet, and is closed when the test ends, and an empty folder.
func instance(t *testing.T) (n *inotify, dir string) {
	t.Helper()
	n, err := newInotify()
	must(t, err)
	t.Cleanup(n.close)
	return n, t.TempDir()
}

// TestGathers: once it was told that there are events, more of them wake nobody until they were read and it is
// armed again. Then none is missing.
func TestGathers(t *testing.T) {
	t.Parallel()
	n, dir := instance(t)
	must(t, n.watch(dir, true))
	write := func(name string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte("line\n"), 0o644)) }
	awake := func() int {
		some, err := unix.EpollWait(n.epoll, make([]unix.EpollEvent, 1), 0)
		must(t, err)
		return some
	}
	write("before")
	if awake() != 0 {
		t.Error("it is woken before it is armed")
	}
	n.arm()
	<-n.ready
	for i := range 3000 { // more than one read has room for
		write(fmt.Sprint(i))
	}
	if awake() != 0 {
		t.Error("each event wakes it")
	}
	wrote := make(map[string]bool)
	hear := func(e raw) {
		if e.has(unix.IN_MODIFY) {
			wrote[filepath.Base(e.path)] = true
		}
	}
	must(t, n.read(hear))
	if !wrote["before"] || len(wrote) != 3001 {
		t.Errorf("%d files are heard of", len(wrote))
	}
	n.arm()
	if awake() != 0 {
		t.Error("it is woken though all was read")
	}
	write("after")
	<-n.ready
	must(t, n.read(hear))
	if !wrote["after"] {
		t.Error("a write is missing after it was armed again")
	}
}

// TestMeanings: what is heard of names and of the folders themselves.
func TestMeanings(t *testing.T) {
	t.Parallel()
	n, top := instance(t)
	path := func(name string) string { return filepath.Join(top, name) }
	heard := func(want ...string) {
		t.Helper()
		var got []string
		must(t, n.read(func(e raw) {
			what := fmt.Sprintf("%x %s", e.mask&^unix.IN_ISDIR, e.path)
			if e.from != "" {
				what += " was " + e.from
			}
			got = append(got, what)
		}))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	is := func(mask uint32, name string) string { return fmt.Sprintf("%x %s", mask, path(name)) }
	for _, dir := range []string{"a", "b", "c"} {
		must(t, os.Mkdir(path(dir), 0o755))
		must(t, n.watch(path(dir), true))
	}
	must(t, os.Mkdir(path("out"), 0o755))
	heard()
	must(t, os.WriteFile(path("a/x"), nil, 0o644))
	must(t, os.Rename(path("a/x"), path("b/y")))
	heard(is(unix.IN_CREATE, "a/x"), is(unix.IN_MOVED_FROM, "a/x"), is(unix.IN_MOVED_TO, "b/y")+" was "+path("a/x"))
	must(t, os.Rename(path("b/y"), path("out/y")))
	must(t, os.Rename(path("out/y"), path("b/z")))
	heard(is(unix.IN_MOVED_FROM, "b/y"), is(unix.IN_MOVED_TO, "b/z"))
	must(t, os.Chmod(path("b/z"), 0o600))
	must(t, os.Remove(path("b/z")))
	heard(is(unix.IN_ATTRIB, "b/z"), is(unix.IN_DELETE, "b/z"))

	must(t, os.Rename(path("a"), path("a.old"))) // its path is another's now
	must(t, os.Mkdir(path("a"), 0o755))
	heard(is(unix.IN_MOVE_SELF, "a"))
	must(t, os.WriteFile(path("a.old/x"), nil, 0o644))
	heard()
	must(t, n.watch(path("a"), true))
	must(t, os.WriteFile(path("a/x"), nil, 0o644))
	heard(is(unix.IN_CREATE, "a/x"))

	must(t, os.Remove(path("b")))
	heard(is(unix.IN_DELETE_SELF, "b"))
	must(t, n.watch(top, true)) // this one tells of the folders in it too
	must(t, os.Remove(path("c")))
	heard(is(unix.IN_DELETE_SELF, "c"), is(unix.IN_DELETE, "c"))
	must(t, n.watch(path("a"), false))
	must(t, os.WriteFile(path("a/y"), nil, 0o644))
	heard()
}

// TestOneFolderAtAPath: a path that leads elsewhere by now, maybe to a folder that is watched by another path, leaves no
// watch behind, and who has the other path is told that its watch has ended.
func TestOneFolderAtAPath(t *testing.T) {
	t.Parallel()
	n, top := instance(t)
	path := func(name string) string { return filepath.Join(top, name) }
	watched := func(want int) {
		t.Helper()
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", n.fd))
		must(t, err)
		if got := strings.Count(string(info), "inotify wd:"); got != want || len(n.paths) != want || len(n.wds) != want {
			t.Errorf("the kernel watches %d, by wd %v, by path %v; want %d", got, n.paths, n.wds, want)
		}
	}
	var heard []string
	read := func() { must(t, n.read(func(e raw) { heard = append(heard, fmt.Sprintf("%x %s", e.mask, e.path)) })) }
	lead := func(to string) {
		must(t, os.Symlink(to, path("new")))
		must(t, os.Rename(path("new"), path("link")))
		must(t, n.watch(path("link"), true))
		read()
	}
	for _, dir := range []string{"a", "b", "c"} {
		must(t, os.Mkdir(path(dir), 0o755))
	}
	must(t, n.watch(path("a"), true))
	lead("b")
	lead("c")
	watched(2)
	must(t, n.watch(path("link"), true))
	watched(2)
	lead("a")
	watched(1)
	if want := fmt.Sprintf("%x %s", unix.IN_DELETE_SELF, path("a")); len(heard) != 1 || heard[0] != want {
		t.Errorf("heard %q, want %q", heard, want)
	}
	must(t, n.watch(path("link"), false))
	watched(0)
}

// TestGoneIsToldByTheFolderItself: the folder above is watched only after one in it is gone, and before that is read.
func TestGoneIsToldByTheFolderItself(t *testing.T) {
	t.Parallel()
	n, dir := instance(t)
	gone := filepath.Join(dir, "a")
	must(t, os.Mkdir(gone, 0o755))
	must(t, n.watch(gone, true))
	must(t, os.Remove(gone))
	must(t, n.watch(dir, true))
	told := false
	must(t, n.read(func(e raw) { told = told || e.has(unix.IN_DELETE_SELF) && e.path == gone }))
	if !told {
		t.Error("nothing tells that the folder is gone")
	}
}
