package inode

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Only regular files are opened, and nothing blocks.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, fifo, link := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), unix.Mkfifo(fifo, 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	f := func(path string, dir, pipe bool, says string) {
		t.Helper()
		got, _, err := Open(path)
		var kind *KindError
		if got != nil || !errors.As(err, &kind) || kind.IsDir() != dir || kind.IsPipe() != pipe || kind.Error() != says {
			t.Errorf("%s: opened %t, %v", path, got != nil, err)
		}
	}
	f(dir, true, false, "it is a directory")
	f(fifo, false, true, "it is a FIFO")
	f("/dev/null", false, false, "it is a device")
	for _, path := range []string{file, link} {
		got, s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		at, err := At(path)
		if err != nil || at != s || s.Size != 4 || s.Links != 1 || IsLink(path) != (path == link) {
			t.Errorf("%s: %+v by its descriptor, %+v by its path, %v", path, s, at, err)
		}
	}
}

// A file keeps its node as long as it exists, under whatever name, and another has another.
func TestNode(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	f, err := os.Create(a)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	was, err := In(f)
	if err != nil || os.Rename(a, b) != nil || os.WriteFile(a, nil, 0o600) != nil {
		t.Fatal(err)
	}
	if now, err := At(b); err != nil || now.Node != was.Node {
		t.Errorf("renamed, %+v became %+v, %v", was.Node, now.Node, err)
	}
	if other, err := At(a); err != nil || other.Node == was.Node {
		t.Errorf("another file is %+v too, %v", other.Node, err)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	if gone, err := In(f); err != nil || gone.Links != 0 || gone.Node != was.Node {
		t.Errorf("deleted, it is %+v, %v", gone, err)
	}
}

// Where no birth is known the handle tells files apart, but not one of FUSE: it can change while the
// file is there. The number of a device never does.
func TestNodeByHandle(t *testing.T) {
	const one, other, fuse = "\x01\x00\x00\x00first", "\x01\x00\x00\x00second", "\x81\x00\x00\x00first"
	f := func(a, b Node, same bool) {
		t.Helper()
		if a.SameIn(b) != same {
			t.Errorf("%+v and %+v are one file: %t", a, b, !same)
		}
	}
	f(NewNode(1, 2, 0, one), NewNode(3, 2, 0, one), true)
	f(NewNode(1, 2, 0, one), NewNode(1, 2, 0, other), false)
	f(NewNode(1, 2, 0, fuse), NewNode(1, 2, 0, ""), true)
	f(NewNode(1, 2, 3, one), NewNode(1, 2, 3, ""), true)
	f(NewNode(1, 2, 3, one), NewNode(1, 2, 4, one), false)
}
