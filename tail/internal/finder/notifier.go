package finder

import (
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// notifier hears of changes in folders: by fsnotify at first, and by an inotify instance of its own once much is
// written. fsnotify puts its descriptor where the Go runtime polls it, so that each event about another file than
// the last one wakes the process, whether it is read or not, and it cannot leave writes out. Of a thousand growing
// files that takes a quarter of the agent's CPU; on a quiet machine there is nothing to gain.
//
// It belongs to the goroutine of Watcher.Loop. Others use quiet and busy too, to change the watches: these are written
// while Watcher.mu is held.
type notifier struct {
	quiet   *fsnotify.Watcher // nil: busy has taken over
	busy    *inotify          // nil: it is not needed yet, or the kernel gives none
	writes  int               // events of quiet about writes, since counted
	counted time.Time         // also when busy has begun
	failed  chan error        // errors of quiet
	over    sync.WaitGroup    // the goroutine that passes them on
	refused bool              // the kernel gives no other instance, or not as many watches, or not that of some folder
}

// muchWritten is how many events about writes in a second are much. While fsnotify is heard, about 30 a second come
// of one file that is written to all the time.
const muchWritten = 20

func newNotifier() (*notifier, error) {
	quiet, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	x := &notifier{quiet: quiet, failed: make(chan error, mostErrors)}
	x.over.Go(func() { // ends with quiet
		for err := range quiet.Errors {
			select {
			case x.failed <- err:
			default: // as many wait to be heard, and all lead to the same
			}
		}
	})
	return x, nil
}

// mostErrors is how many errors of fsnotify wait to be heard. It holds a lock while one waits to be taken, and who
// hears them may just wait for that lock, to change the watches.
const mostErrors = 16

func (x *notifier) close() {
	x.closeQuiet()
	if x.busy != nil {
		x.busy.close()
	}
}

// closeQuiet ends fsnotify, if it is still heard.
func (x *notifier) closeQuiet() {
	if x.quiet != nil {
		x.quiet.Close()
		x.over.Wait()
		x.quiet = nil
	}
}

// add watches the folder at a path.
func (x *notifier) add(dir string) (err error) {
	if x.quiet != nil {
		err = x.quiet.Add(dir)
	}
	if x.busy != nil && err == nil {
		err = x.busy.watch(dir, true)
	}
	return err
}

// remove ends the watch of the folder that was watched by a path; it may be gone already.
func (x *notifier) remove(dir string) {
	if x.quiet != nil {
		_ = x.quiet.Remove(dir)
	}
	if x.busy != nil {
		_ = x.busy.watch(dir, false)
	}
}

// arm has ready told once there is something that busy can read.
func (x *notifier) arm() {
	if x.busy != nil {
		x.busy.arm()
	}
}

// ready and events are nil where nothing comes.
func (x *notifier) ready() <-chan struct{} {
	if x.busy == nil {
		return nil
	}
	return x.busy.ready
}

func (x *notifier) events() <-chan fsnotify.Event {
	if x.quiet == nil {
		return nil
	}
	return x.quiet.Events
}

// read hears all that busy has to tell.
func (x *notifier) read(hear func(raw)) error {
	if x.busy == nil {
		return nil
	}
	return x.busy.read(func(e raw) {
		if x.quiet != nil {
			e.from = "" // quiet tells of it: who hears of two renames twice takes the one file for the other
		}
		hear(e)
	})
}

// mayHandOver reports whether handOver has something to do, so that folders may be looked at.
func (x *notifier) mayHandOver(now time.Time) bool {
	return x.quiet != nil && !x.refused && now.Sub(x.counted) >= time.Second
}

// handOver has busy watch all folders, if quiet tells of much that is written, and ends quiet a second later: by then
// it has told what happened before. Until then it alone tells of renames as a whole.
func (x *notifier) handOver(now time.Time, watched iter.Seq[string]) {
	switch {
	case !x.mayHandOver(now):
		return
	case x.busy != nil:
		x.closeQuiet()
	case x.writes >= muchWritten:
		busy, err := newInotify()
		if err != nil {
			x.refused = true
			return
		}
		for dir := range watched {
			if err = busy.watch(dir, true); err != nil {
				break
			}
		}
		if err == nil {
			x.busy = busy
			break
		}
		busy.close()
		x.refused = !errors.Is(err, unix.ENOENT) // one that is gone is not watched for long
	}
	x.counted, x.writes = now, 0
}

// meaningOf is what an event of fsnotify says.
func meaningOf(e fsnotify.Event) (is raw) {
	is.path = e.Name
	for _, m := range [...]struct {
		op   fsnotify.Op
		mask uint32
	}{{fsnotify.Write, unix.IN_MODIFY}, {fsnotify.Create, unix.IN_CREATE}, {fsnotify.Remove, unix.IN_DELETE}, {fsnotify.Rename, unix.IN_MOVED_FROM}} {
		if e.Has(m.op) {
			is.mask |= m.mask
		}
	}
	if e.Has(fsnotify.Create) {
		is.from = renamedFrom(e)
	}
	return is
}
