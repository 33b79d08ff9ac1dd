package trusted

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestVerdict(t *testing.T) {
	const root, agent, other, third = 0, 100, 1000, 1001
	const sticky, open, group, shut = 0o41777, 0o40777, 0o40775, 0o40755
	f := func(owner, folder, mode, follower uint32, mayReadMore bool, want verdict) {
		t.Helper()
		l := link{owner, folder, mode, follower, mayReadMore}
		if got := l.verdict(); got != want {
			t.Errorf("%+v (mode %o): %v, want %v", l, mode, got, want)
		}
	}
	for _, more := range []bool{false, true} {
		f(agent, root, sticky, agent, more, followed)  // its own
		f(root, root, sticky, agent, more, followed)   // of the owner of /tmp
		f(other, other, sticky, agent, more, followed) // of the owner of a shared folder
		f(other, root, sticky, agent, more, refused)
		f(root, other, sticky, agent, more, refused) // as the kernel: root may have been tricked into it
		f(other, other, shut, agent, more, followed) // only its owner may write there
		f(other, root, shut, agent, more, followed)
	}
	f(root, other, sticky, root, true, followed)
	f(other, root, sticky, root, true, refused)
	// The kernel alone has nothing against these: others may exchange the file as well.
	for _, mode := range []uint32{open, group, 0o43775} {
		f(other, root, mode, agent, false, followed)
		f(other, root, mode, agent, true, followedHome)
		f(other, root, mode, root, true, followedHome)
		f(root, root, mode, root, true, followed)
		f(third, third, mode, root, true, followed)
	}
	f(other, root, 0o41775, agent, false, followed) // sticky, and not for all
	f(other, root, 0o41775, agent, true, followedHome)
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(path("a/b"), 0o755))
	must(os.Mkdir(path("tmp"), 0o755))
	must(os.WriteFile(path("a/b/file"), []byte("what is in it"), 0o600))
	for _, l := range [][2]string{
		{"a/b/file", "to-file"}, {"a", "to-folder"}, {"to-folder/b", "to-by-link"}, {path("a/b"), "absolute"}, {"../a/./b//file", "tmp/up"},
		{"loop", "loop"}, {"nowhere", "dangling"}, {"/", "root"}, {"a/b/file/x", "through-file"},
	} {
		must(os.Symlink(l[0], path(l[1])))
	}
	f := func(name string, want error) {
		t.Helper()
		file, err := Open(name)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err != nil {
			return
		}
		defer file.Close()
		if text, err := io.ReadAll(file); err != nil || string(text) != "what is in it" || file.Name() != name {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"a/b/file", "to-file", "to-folder/b/file", "to-by-link/file", "absolute/file", "tmp/up", "tmp/../to-file"} {
		f(path(name), nil)
	}
	f(path("root")+path("a/b/file"), nil)
	f(path("loop"), unix.ELOOP)
	f(path("dangling"), unix.ENOENT)
	f(path("none"), unix.ENOENT)
	f(path("through-file"), unix.ENOTDIR)
	t.Run("relative", func(t *testing.T) {
		t.Chdir(path("tmp"))
		f := func(name string) {
			t.Helper()
			file, err := Open(name)
			if err != nil {
				t.Fatal(err)
			}
			file.Close()
		}
		f("up")
		f("../to-file")
	})
	open, err := os.Open(path("a/b/file"))
	must(err)
	defer open.Close()
	must(os.Remove(path("a/b/file"))) // a link in /proc leads to it all the same
	proc, err := Open(fmt.Sprintf("/proc/self/fd/%d", open.Fd()))
	must(err)
	proc.Close()
	must(os.WriteFile(path("a/b/file"), []byte("what is in it"), 0o600))

	if os.Getuid() != 0 {
		t.Skip("only root can make links of others")
	}
	must(os.Lchown(path("tmp/up"), 65534, 65534))
	must(os.Symlink("../a", path("tmp/folder")))
	must(os.Lchown(path("tmp/folder"), 65534, 65534))
	must(os.Symlink("tmp/folder/b/file", path("by-way"))) // ours, by way of theirs
	for mode, want := range map[os.FileMode]error{0o755: nil, 0o777 | os.ModeSticky: ErrPlanted, 0o777: ErrPlanted, 0o775: ErrPlanted} {
		must(os.Chmod(path("tmp"), mode))
		for _, name := range []string{"tmp/up", "tmp/folder/b/file", "by-way"} {
			f(path(name), want)
		}
		_, err := Open(path("by-way"))
		if want != nil && !strings.Contains(err.Error(), path("tmp/folder")+", which belongs to nobody") {
			t.Errorf("says %v", err)
		}
		if err := Refused(path("tmp/folder")); !errors.Is(err, want) {
			t.Errorf("listing %v: %v", mode, err)
		}
	}
	// To what belongs to who made the link, where the kernel has nothing against it.
	must(os.Chown(path("a/b/file"), 65534, 65534))
	for mode, want := range map[os.FileMode]error{0o777 | os.ModeSticky: ErrPlanted, 0o777: nil, 0o775: nil} {
		must(os.Chmod(path("tmp"), mode))
		f(path("tmp/up"), want)
		f(path("by-way"), want)
	}
	must(os.Chmod(path("tmp"), 0o775))
	if err := Refused(path("tmp/folder")); !errors.Is(err, ErrPlanted) {
		t.Errorf("a folder of another is listed: %v", err)
	}
	must(os.Chown(path("a"), 65534, 65534))
	if err := Refused(path("tmp/folder")); err != nil {
		t.Errorf("a folder of who made the link is not listed: %v", err)
	}
	must(os.Lchown(path("tmp/up"), 0, 0))
	f(path("tmp/up"), nil)
}

// TestLeavesNoTrace: reading does not change the time of the last access, which the first read after a write
// would.
func TestLeavesNoTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	if err := errors.Join(os.WriteFile(path, []byte("line\n"), 0o600), os.Chtimes(path, time.Unix(1, 0), time.Now())); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if _, err := io.ReadAll(f); err != nil || unix.Stat(path, &st) != nil {
		t.Fatal(err)
	}
	if st.Atim.Sec != 1 {
		t.Errorf("it was accessed at %v", time.Unix(st.Atim.Unix()))
	}
}
