package notices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/trusted"
)

func TestIsSame(t *testing.T) {
	f := func(a, b string, want bool) {
		t.Helper()
		if isSame(a, b) != want || isSame(b, a) != want {
			t.Errorf("%q and %q: want %v", a, b, want)
		}
	}
	f("", "", true)
	f("", "12", false)
	f("full: 9 of 10 bytes", "full: 10 of 10 bytes", true)
	f("full: 9 of 10 bytes", "read-only", false)
}

// kindOf returns the error for what is at a path and is no regular file.
func kindOf(t *testing.T, path string) error {
	t.Helper()
	s, err := inode.At(path)
	if err != nil || s.Kind() == nil {
		t.Fatalf("%s: %v, regular %t", path, err, s.IsRegular())
	}
	return s.Kind()
}

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is no file keeps nothing from being read; what cannot be opened may.
func TestIsUnread(t *testing.T) {
	for _, err := range []error{unix.EACCES, unix.EIO, unix.EMFILE, unix.ESTALE, unix.ELOOP, Dangling(unix.ENOENT), kindOf(t, fifo(t)), &trusted.PlantedError{Path: "/x"},
		errors.New("what nobody thought of")} {
		if !isUnread(&os.PathError{Op: "open", Path: "/x", Err: err}) {
			t.Errorf("%v is not about a file", err)
		}
	}
	for _, err := range []error{unix.ENOENT, ErrNoMatch, ErrOwn, Rival("a"), kindOf(t, t.TempDir()), kindOf(t, "/dev/null")} {
		if isUnread(&os.PathError{Op: "open", Path: "/x", Err: err}) {
			t.Errorf("%v is about a file", err)
		}
	}
}

// Whatever keeps a file from being read is told with something to do.
func TestFixes(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		for _, err := range []error{err, fmt.Errorf("read: %w", err), &os.PathError{Op: "open", Path: "/x", Err: err}} {
			if got := FixOf(err); got == "" || !strings.Contains(got, want) {
				t.Errorf("%v: fix %q, want %q in it", err, got, want)
			}
		}
	}
	f(unix.EACCES, "setfacl")
	f(unix.EPERM, "setfacl")
	f(unix.EMFILE, "LimitNOFILE")
	f(unix.ELOOP, "circle")
	f(fs.ErrNotExist, "still to come")
	f(unix.EIO, "file system")
	f(unix.ESTALE, "file system")
	f(kindOf(t, fifo(t)), "exclude")
	f(kindOf(t, t.TempDir()), "add /*")
	f(ErrOwn, "exclude")
	f(ErrNoMatch, "paths")
	f(Rival("a"), "paths")
	f(Quarantine(errors.New("quarantine is full")), "quarantine.max_size")
	f(errors.New("what nobody thought of"), "retries by itself")
}
