package tail

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// watcher hears of changes in folders. What it hears is a hint: an event that
// is lost costs time, never data.
type watcher struct {
	t  *Tailer
	fs *fsnotify.Watcher // nil: there are no events to be had

	mu   sync.Mutex
	dirs map[string]bool // true: watched; false: can not be
	ill  bool            // the kernel refuses watches: polling alone for now
	deaf bool            // some folders can not be watched, whatever the reason
}

// atOnce is how many events are heard in one go. The others wait in the kernel,
// where those that are alike and follow each other become one.
const atOnce = 4096

func newWatcher(t *Tailer) *watcher {
	w := &watcher{t: t, dirs: make(map[string]bool)}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		w.ill = true
		t.o.Logger.Warn("no file events, polling instead", "err", err,
			"fix", "raise fs.inotify.max_user_instances if polling costs too much")
		return w
	}
	w.fs = fs
	return w
}

// covers reports whether a file in a folder can be left to events.
func (w *watcher) covers(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dirs[filepath.Dir(path)]
}

// healthy reports whether events tell of every new name.
func (w *watcher) healthy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.ill && !w.deaf
}

// update watches the folders a scan passed through and no others. It reports
// whether some are new: what happened in them before has to be looked for.
func (w *watcher) update(passed map[string]bool) (added bool) {
	if w.fs == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	refused := error(nil)
	for dir := range passed {
		if w.dirs[dir] || isRemote(dir) {
			continue
		}
		err := w.fs.Add(dir)
		w.dirs[dir] = err == nil
		added = added || err == nil
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENOMEM) {
			refused = err
		}
	}
	w.deaf = false
	for dir := range passed {
		w.deaf = w.deaf || !w.dirs[dir]
	}
	for dir, on := range w.dirs {
		if !passed[dir] {
			if on {
				_ = w.fs.Remove(dir) // gone already, as a rule
			}
			delete(w.dirs, dir)
		}
	}
	if (refused != nil) != w.ill {
		w.ill = refused != nil
		if w.ill {
			w.t.o.Logger.Warn("not all folders can be watched, polling those", "err", refused,
				"fix", "raise fs.inotify.max_user_watches if polling costs too much")
		} else {
			w.t.o.Logger.Info("all folders are watched again")
		}
	}
	return added
}

// loop turns events into turns and scans until ctx ends.
func (w *watcher) loop(ctx context.Context) {
	if w.fs == nil {
		return
	}
	defer w.fs.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-w.fs.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.t.o.Logger.Info("file events were lost, looking at everything")
			}
			w.t.rescanSoon()
		case e := <-w.fs.Events:
			if w.hear(e); e.Has(fsnotify.Write) {
				w.rest(ctx)
			}
		}
	}
}

// rest lets events gather after a write: who writes goes on writing, and being
// woken for every event costs more than looking at the file. Then it hears all
// that came, so that a rename among them waits no longer than this.
func (w *watcher) rest(ctx context.Context) {
	select {
	case <-time.After(pollFast):
	case <-ctx.Done():
	}
	quiet := time.NewTimer(time.Millisecond)
	defer quiet.Stop()
	for range atOnce {
		select {
		case e := <-w.fs.Events:
			w.hear(e)
			quiet.Reset(time.Millisecond)
		case <-quiet.C:
			return
		}
	}
}

// hear acts on one event.
func (w *watcher) hear(e fsnotify.Event) {
	if e.Has(fsnotify.Write) {
		w.t.touched(e.Name)
		return
	}
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		w.mu.Lock()
		if w.dirs[e.Name] {
			delete(w.dirs, e.Name) // the kernel has dropped the watch
		}
		w.mu.Unlock()
	}
	w.t.rescanSoon()
}

// isRemote reports whether a folder is on a file system whose changes may be
// made elsewhere, where no event tells of them.
func isRemote(dir string) bool {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return true
	}
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC:
		return true
	}
	return false
}

// rescanSoon asks for a scan.
func (t *Tailer) rescanSoon() {
	select {
	case t.scan <- struct{}{}:
	default:
	}
}

// touched readies the readers of a path that was written to. Those that are
// polled already are left alone.
func (t *Tailer) touched(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.byPath[path] {
		if r.run == resting && (r.polled.index == 0 || time.Until(r.polled.at) > pollFast) {
			t.readyLocked(r)
		}
	}
}
