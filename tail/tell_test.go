package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kusto-agent/tail/internal/trusted"
)

func TestSameReason(t *testing.T) {
	f := func(a, b string, want bool) {
		t.Helper()
		if sameReason(a, b) != want || sameReason(b, a) != want {
			t.Errorf("%q and %q: want %v", a, b, want)
		}
	}
	f("", "", true)
	f("", "12", false)
	f("full: 9 of 10 bytes", "full: 10 of 10 bytes", true)
	f("full: 9 of 10 bytes", "read-only", false)
}

// What is no file keeps nothing from being read; what cannot be opened may.
func TestIsFile(t *testing.T) {
	for _, err := range []error{unix.EACCES, unix.EIO, unix.EMFILE, unix.ESTALE, unix.ELOOP, errDangling(unix.ENOENT), errKind(status{mode: unix.S_IFIFO}), &trusted.PlantedError{Path: "/x"},
		errors.New("what nobody thought of")} {
		if !isFile(&os.PathError{Op: "open", Path: "/x", Err: err}) {
			t.Errorf("%v is not about a file", err)
		}
	}
	for _, err := range []error{unix.ENOENT, errNoMatch, errOwn, errRival("a"), errKind(status{mode: unix.S_IFDIR}), errKind(status{mode: unix.S_IFCHR})} {
		if isFile(&os.PathError{Op: "open", Path: "/x", Err: err}) {
			t.Errorf("%v is about a file", err)
		}
	}
}

// Whatever keeps a file from being read is told with something to do.
func TestFixes(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		for _, err := range []error{err, fmt.Errorf("read: %w", err), &os.PathError{Op: "open", Path: "/x", Err: err}} {
			if got := fixOf(err); got == "" || !strings.Contains(got, want) {
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
	f(errKind(status{mode: unix.S_IFSOCK}), "exclude")
	f(errKind(status{mode: unix.S_IFDIR}), "add /*")
	f(errOwn, "exclude")
	f(errNoMatch, "paths")
	f(errRival("a"), "paths")
	f(errQuarantine(errors.New("quarantine is full")), "quarantine.max_size")
	f(errors.New("what nobody thought of"), "retries by itself")
}
