package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

func TestFix(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		if got := Fix(fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "a", Err: err}), "here"); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	f(syscall.ENOSPC, "make room on the disk of here")
	f(syscall.EDQUOT, "make room on the disk of here")
	f(syscall.EROFS, "mount the disk of here writable")
	f(syscall.EACCES, "let the agent's user write to here")
	f(syscall.EPERM, "let the agent's user write to here")
	f(ErrRemoved, "find out who removes files from here: nobody but the agent may")
	f(syscall.EIO, "check the disk of here")
	f(errors.New("odd"), "check the disk of here")
}
