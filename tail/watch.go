package tail

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// watcher hears of changes in folders. What it hears is a hint: an event that
// is lost costs time, and data only of a file that was made and renamed away
// before anybody looked.
type watcher struct {
	t    *Tailer
	made chan struct{} // closed when there is fs

	mu   sync.Mutex
	fs   *fsnotify.Watcher // nil: nothing is to be watched yet, or the kernel gives none
	dirs map[string]watched
	deaf bool      // some folders cannot be watched, whatever the reason
	lost time.Time // when events were last lost; zero: they are heard
	ill  *illness  // nil: the kernel refuses nothing
}

// watched is what is watched at the path of a folder. The kernel watches what the
// path led to; a link may lead elsewhere since, or a folder above have another name.
type watched struct {
	node node
	on   bool // false: it cannot be watched
}

// illness is why events do not tell of everything: polling makes up for it.
type illness struct {
	what, fix string
	err       error
}

// atOnce is how many names that events told of wait to be looked at.
const atOnce = 4096

func newWatcher(t *Tailer) *watcher {
	return &watcher{t: t, made: make(chan struct{}), dirs: make(map[string]watched)}
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fs != nil {
		w.fs.Close()
	}
}

// covers reports whether a file in a folder can be left to events. It does not wait
// while folders are looked at, which may take long, and is false then.
func (w *watcher) covers(path string) bool {
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	return w.dirs[filepath.Dir(path)].on && w.lost.IsZero()
}

// healthy reports whether events tell of every new name.
func (w *watcher) healthy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ill == nil && !w.deaf
}

// update watches the folders a scan passed through and no others. It reports
// whether some are new: what happened in them before has to be looked for.
func (w *watcher) update(passed map[string]bool) (added bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ill := w.open(len(passed) > 0)
	if w.fs != nil {
		added, ill = w.follow(passed)
	}
	if time.Since(w.lost) >= rescanHealthy { // or it would be told again and again
		w.lost = time.Time{}
	}
	if ill == nil && !w.lost.IsZero() {
		ill = w.ill
	}
	w.tell(ill)
	return added
}

// open asks the kernel for events where there is something to hear of. The caller
// holds mu.
func (w *watcher) open(wanted bool) *illness {
	if w.fs != nil || !wanted {
		return nil
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return &illness{"no file events are to be had, polling instead", "raise fs.inotify.max_user_instances if polling costs too much", err}
	}
	w.fs = fs
	close(w.made)
	return nil
}

// follow watches these folders and no others. The caller holds mu.
func (w *watcher) follow(folders map[string]bool) (added bool, ill *illness) {
	w.deaf = false
	for dir := range folders {
		// Looked at before it is watched: what takes its place in between is seen by the next scan.
		st, err := statPath(dir)
		is := watched{node: st.node}
		switch was := w.dirs[dir]; {
		case was.on && err == nil && was.node == is.node:
			continue
		case was.on:
			_ = w.fs.Remove(dir) // gone already, as a rule
		}
		if ill == nil && !isRemote(dir) {
			err := w.fs.Add(dir)
			is.on = err == nil
			if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENOMEM) {
				ill = &illness{"not all folders can be watched, polling those", "raise fs.inotify.max_user_watches if polling costs too much", err}
			}
		}
		w.dirs[dir] = is
		added = added || is.on
		w.deaf = w.deaf || !is.on
	}
	for dir, is := range w.dirs {
		if !folders[dir] {
			if is.on {
				_ = w.fs.Remove(dir) // gone already, as a rule
			}
			delete(w.dirs, dir)
		}
	}
	return added, ill
}

// overflow notes that the kernel has dropped events. The files are looked at more
// often until none was lost for a while.
func (w *watcher) overflow(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = time.Now()
	if w.ill == nil {
		w.tell(&illness{"file events were lost, looking at everything and polling for a while", "nothing is missing; if it comes again, raise fs.inotify.max_queued_events", err})
	}
}

// tell logs, once, that events do not tell of everything, and that they do again.
// The caller holds mu.
func (w *watcher) tell(ill *illness) {
	was := w.ill
	w.ill = ill
	switch {
	case ill != nil && (was == nil || was.what != ill.what):
		w.t.o.Logger.Warn(ill.what, "err", ill.err, "fix", ill.fix)
	case ill == nil && was != nil:
		w.t.o.Logger.Info("file change notifications are complete again")
	}
}

// Watching tells why the kernel does not tell of every change where events are
// wanted, so that files are polled, and what can be done about it. Both are empty
// while it does.
func (t *Tailer) Watching() (why, fix string) {
	w := t.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ill == nil {
		return "", ""
	}
	return fmt.Sprintf("%s: %v", w.ill.what, w.ill.err), w.ill.fix
}

// loop turns events into turns and scans until ctx ends.
func (w *watcher) loop(ctx context.Context) {
	select {
	case <-w.made:
	case <-ctx.Done():
		return
	}
	var rested, last time.Time // the end of the last rest, and the last event
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-w.fs.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.overflow(err)
			}
			w.t.rescanSoon()
		case e := <-w.fs.Events:
			now := time.Now()
			w.hear(e)
			if e.Has(fsnotify.Write) && (now.Sub(last) > gathered || now.Sub(rested) > pollFast) {
				w.rest(ctx)
				now = time.Now()
				rested = now
			}
			last = now
		}
	}
}

// gathered is how close an event follows a rest, or another event, that had gathered
// in the kernel with it. No timer says when the last of them is heard: that would be
// one more thing to wake up for.
const gathered = time.Millisecond

// rest lets events gather after a write: who writes goes on writing, and being
// woken for every event costs more than looking at the file. A rename among them
// waits no longer than this.
func (w *watcher) rest(ctx context.Context) {
	select {
	case <-time.After(pollFast):
	case <-ctx.Done():
	}
}

// hear acts on one event.
func (w *watcher) hear(e fsnotify.Event) {
	if e.Has(fsnotify.Write) {
		w.t.touched(e.Name)
		return
	}
	if e.Has(fsnotify.Create) {
		if from := renamedFrom(e); from != "" {
			w.t.noteRename(from, e.Name)
		}
		w.t.freshName(e.Name)
		return
	}
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		w.mu.Lock()
		if w.dirs[e.Name].on {
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
