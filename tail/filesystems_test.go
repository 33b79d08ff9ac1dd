package tail

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The same files on other file systems, which give out inode numbers, birth times
// and handles in other ways. Only root can mount them.

// mounted mounts a file system on a folder of its own until the end of the test.
func mounted(t testing.TB, kind, source, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	mountAt(t, dir, kind, source, options, 0)
	return dir
}

func mountAt(t testing.TB, dir, kind, source, options string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(source, dir, kind, flags, options); err != nil {
		t.Skipf("the kernel refuses to mount %s: %v", kind, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // a test may have done so
}

// image mounts a new file system from a file.
func image(t testing.TB, kind string, mkfs ...string) (dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the kernel refuses to mount: only root may")
	}
	path := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Truncate(path, 512<<20))
	tool := func(name string, args ...string) string {
		for _, dir := range []string{"", "/usr/sbin/", "/sbin/"} {
			if full, err := exec.LookPath(dir + name); err == nil {
				name = full
				break
			}
		}
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Skipf("the kernel refuses %s: %v: %s", name, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	tool(mkfs[0], append(mkfs[1:], path)...)
	device := tool("losetup", "--find", "--show", path)
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
	return mounted(t, kind, device, "")
}

// overlaid mounts an overlay, and returns the folder that lies below it too.
func overlaid(t testing.TB, lower, upper string) (dir string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(upper, "upper"), 0o755))
	must(t, os.MkdirAll(filepath.Join(upper, "work"), 0o755))
	return mounted(t, "overlay", "overlay", fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%[2]s/work", lower, upper))
}

// TestFileSystems runs every script on every file system.
func TestFileSystems(t *testing.T) {
	if os.Getenv("KUSTO_AGENT_LONG") == "" {
		t.Skip("long form: set KUSTO_AGENT_LONG=1")
	}
	names, err := filepath.Glob("testdata/*.txt")
	must(t, err)
	f := func(name string, mount func(t testing.TB) string) {
		t.Run(name, func(t *testing.T) {
			base := mount(t)
			for _, name := range names {
				text, err := os.ReadFile(name)
				must(t, err)
				for _, v := range variants(string(text)) {
					if v.batch {
						continue // what is behind the tailer is the same everywhere
					}
					t.Run(strings.TrimSuffix(filepath.Base(name), ".txt")+"/"+v.name, func(t *testing.T) {
						t.Parallel()
						dir, err := os.MkdirTemp(base, "")
						must(t, err)
						v.script(newWorldIn(t, dir)).run(string(text))
					})
				}
			}
		})
	}
	f("tmpfs", func(t testing.TB) string { return mounted(t, "tmpfs", "tmpfs", "") })
	f("ext4", func(t testing.TB) string { return image(t, "ext4", "mkfs.ext4", "-q", "-F") })
	f("ext4 without birth times", func(t testing.TB) string { return image(t, "ext4", "mkfs.ext4", "-q", "-F", "-I", "128") })
	f("xfs", func(t testing.TB) string { return image(t, "xfs", "mkfs.xfs", "-q") })
	f("overlayfs", func(t testing.TB) string { return overlaid(t, t.TempDir(), t.TempDir()) })
}

// TestCopyUp: the first write to a file of a lower layer makes another file of
// it, in which the same reader goes on; also where it was written to while nobody
// looked.
func TestCopyUp(t *testing.T) {
	f := func(name string, lower func(t testing.TB) string, watch string) {
		t.Run(name+"/"+watch, func(t *testing.T) {
			t.Parallel()
			below := lower(t)
			for _, file := range []string{"a.log", "b.log"} {
				must(t, os.WriteFile(filepath.Join(below, file), []byte(strings.Repeat("a line of some length\n", 100)), 0o644))
			}
			w := newWorldIn(t, overlaid(t, below, t.TempDir()))
			w.in().Watch = watch
			s := newScript(w)
			s.run("start")
			w.await("200 records", func() bool { return w.boxed.count("in") >= 200 })
			w.boxed.take("in")
			s.run(`
				append a.log one
				expect one
				append a.log two
				expect two
				files a.log b.log
				stop
				append b.log three
				start
				expect three
				kill
				append a.log four
				append b.log five
				start
				expect four five
			`)
		})
	}
	same := func(t testing.TB) string { return t.TempDir() }
	other := func(t testing.TB) string { return mounted(t, "tmpfs", "tmpfs", "") }
	f("one file system", same, "auto")
	f("one file system", same, "poll")
	f("two file systems", other, "auto")
	f("two file systems", other, "poll")
}

// TestBindMount: a file that is reached by two mounts has one reader.
func TestBindMount(t *testing.T) {
	w := newWorld(t)
	w.in().Paths = []string{w.path("d/*.log"), w.path("e/*.log")}
	s := newScript(w)
	s.run("mkdir d\nmkdir e\nappend d/a.log one")
	mountAt(t, w.path("e"), "bind", w.path("d"), "", unix.MS_BIND)
	s.run(`
		start
		expect one
		append e/a.log two
		append e/b.log three
		expect two three
		files d/a.log d/b.log
		mv d/a.log d/c.log
		append d/a.log four
		expect four
		kill
		append e/a.log five
		start
		expect five
	`)
	w.halt()
}

// TestUnmounted: a file system that is taken away and comes back is the same, and
// nothing in it is read again.
func TestUnmounted(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	w := newWorldIn(t, base)
	w.in().Paths = []string{w.path("d/*.log")}
	s := newScript(w)
	s.run("mkdir d")
	from := image(t, "ext4", "mkfs.ext4", "-q", "-F")
	bind := func() { mountAt(t, w.path("d"), "bind", from, "", unix.MS_BIND) }
	bind()
	s.run("append d/a.log x1..x9\nstart\nexpect x1..x9")
	must(t, unix.Unmount(w.path("d"), unix.MNT_DETACH))
	s.run("look\nreleased\nlook")
	bind()
	s.run("append d/a.log y\nlook\nexpect y\nstop")
	must(t, unix.Unmount(w.path("d"), unix.MNT_DETACH))
	s.run("start\nlook\nlook")
	bind()
	s.run("append d/a.log z\nlook\nexpect z")
	w.halt()
}
