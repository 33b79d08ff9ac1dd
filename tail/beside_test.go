//go:build race

package tail

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// TestRenamedBesideATurn: a turn and a scan that renames its file share nothing without a lock. Only the
// race detector sees it.
func TestRenamedBesideATurn(t *testing.T) {
	t.Parallel()
	var scanning sync.WaitGroup
	defer scanning.Wait()
	renamedInATurn(t, func(scan func()) {
		wait, done := unseenSignal(t)
		scanning.Go(func() {
			scan()
			done()
		})
		wait()
	})
}

// unseenSignal returns a function that waits until another is called. The race detector does not take
// that for an order between both: it knows nothing of locks of files.
func unseenSignal(t *testing.T) (wait, done func()) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() int {
		fd, err := syscall.Open(name, syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600)
		must(t, err)
		t.Cleanup(func() { syscall.Close(fd) })
		return fd
	}
	lock := func(fd, how int) {
		if err := syscall.Flock(fd, how); err != nil {
			panic(err)
		}
	}
	theirs, ours := open(), open()
	lock(theirs, syscall.LOCK_EX)
	return func() { lock(ours, syscall.LOCK_EX) }, func() { lock(theirs, syscall.LOCK_UN) }
}
