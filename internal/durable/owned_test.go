package durable

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOwned: what root makes for another user is theirs, and nothing else becomes theirs.
func TestOwned(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	disk, dir := Owned(nobody, nobody), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	make := func(name string, flag int) {
		t.Helper()
		f, err := disk.Open(at(name), flag)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(name string, owner uint32) {
		t.Helper()
		st, err := os.Lstat(at(name))
		if err != nil {
			t.Fatal(err)
		}
		if sys := st.Sys().(*syscall.Stat_t); sys.Uid != owner || sys.Gid != owner {
			t.Errorf("%s belongs to %d:%d, want %d", name, sys.Uid, sys.Gid, owner)
		}
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(disk, at("a/b")+"/"); err != nil {
		t.Fatal(err)
	}
	if err := WriteAtomic(disk, at("a/b/whole"), func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	make("new", os.O_RDWR|os.O_CREATE|os.O_EXCL)
	for _, name := range []string{"a", "a/b", "a/b/whole", "new"} {
		want(name, nobody)
	}
	for _, name := range []string{"old", "linked"} {
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(at("linked"), at("name")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(at("a"), 1, 1); err != nil {
		t.Fatal(err)
	}
	others := t.TempDir() // a link leads there in the place of a folder
	if err := os.Symlink(others, at("journal")); err != nil {
		t.Fatal(err)
	}
	make("journal/file", os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err := disk.Mkdir(at("journal/folder/")); err != nil {
		t.Fatal(err)
	}
	want("journal/file", 0)
	want("journal/folder", 0)
	make("old", os.O_RDWR)
	make("name", os.O_RDWR|os.O_CREATE)
	want("old", 0)
	want("linked", 0)
}
