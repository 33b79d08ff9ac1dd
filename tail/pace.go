package tail

import (
	"context"
	"io/fs"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// How long a rescan waits: it alone must be enough, events or not. One that
// cost much waits longer, so that looking is never most of what is done.
const (
	rescanHealthy = 10 * time.Second
	rescanPolling = 2 * time.Second
	idlePart      = 20 // times what the last cost, without news
	newsPart      = 5  // the same after an event that says that names have changed
)

// cost is what a scan took. On a busy machine it takes long and costs little, on
// a file system far away the other way round.
type cost struct{ cpu, time time.Duration }

// costOf runs something that stays on its thread.
func costOf(do func()) cost {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu, began := cpuTime(), time.Now()
	do()
	return cost{cpuTime() - cpu, time.Since(began)}
}

// cpuTime is what the thread has used.
func cpuTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// rest is how long to do without what has such a cost, where it may be a part of
// all CPU time.
func (c cost) rest(least time.Duration, part time.Duration) time.Duration {
	return max(least, part*c.cpu, c.time)
}

// untilNextScan waits after a scan. Meanwhile it looks at files whose names are
// new, and at those of whose growth no event tells. It is false when ctx has
// ended.
func (t *Tailer) untilNextScan(ctx context.Context, scan cost) bool {
	wait := rescanPolling
	if t.watch.healthy() && !t.polling() {
		wait = rescanHealthy
	}
	if wait = scan.rest(wait, idlePart); t.o.Rescan > 0 {
		wait = min(wait, t.o.Rescan)
	}
	next, glance := time.NewTimer(wait), time.NewTimer(rescanPolling)
	defer next.Stop()
	defer glance.Stop()
	wanted := false
	soon := func() {
		if !wanted {
			wanted = true
			next.Reset(min(scan.rest(0, newsPart), wait))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-next.C:
			return true
		case c := <-t.changes:
			t.change(c)
			return true
		case <-t.scan:
			soon()
		case <-t.news:
			if t.meetFresh() {
				soon()
			}
		case <-glance.C:
			var c cost
			if wait > rescanPolling { // else the scan does it
				c = costOf(t.glance)
			}
			glance.Reset(c.rest(rescanPolling, idlePart))
		}
	}
}

// freshName notes the name of a file that an event told of. It is looked at before
// the next scan, which takes its time: the file may be moved away before that.
func (t *Tailer) freshName(path string) {
	t.mu.Lock()
	all := len(t.fresh) < atOnce
	if all {
		t.fresh = append(t.fresh, path)
	}
	t.mu.Unlock()
	if !all {
		t.rescanSoon()
	}
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// meetFresh takes up new files by their names. It reports whether a scan is wanted
// all the same: for a file that is new, and nothing else, it is not.
func (t *Tailer) meetFresh() (scan bool) {
	t.mu.Lock()
	paths := t.fresh
	t.fresh = nil
	t.mu.Unlock()
	for _, path := range paths {
		if st, err := statPath(path); err == nil && st.regular {
			t.meetNew(path)
		} else {
			scan = true
			if err == nil && st.mode&unix.S_IFMT == unix.S_IFDIR {
				t.meetFolder(path)
			}
		}
	}
	return scan
}

// meetFolder takes up the files of a new folder, and listens to it, as far as that
// is not too much: the scan does all.
func (t *Tailer) meetFolder(dir string) {
	left := atOnce
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch left--; {
		case left < 0:
			return fs.SkipAll
		case err != nil: // for the scan to tell
		case e.IsDir():
			t.watch.add(path)
		default:
			t.meetNew(path)
		}
		return nil
	})
}

// meetNew takes up a file that matches.
func (t *Tailer) meetNew(path string) {
	for _, in := range t.inputs {
		if in.Watch == "poll" || !in.matches(path) {
			continue
		}
		if st, err := statPath(path); err == nil && st.regular {
			t.meet(in, path)
		}
	}
}

// hears reports whether events tell what becomes of a file. The caller holds mu.
func (t *Tailer) hears(r *reader) bool {
	return r.in.Watch != "poll" && !r.linked && t.watch.covers(r.path)
}

// glance looks at files that rest and of whose growth no event tells.
func (t *Tailer) glance() {
	type look struct {
		r    *reader
		node node
		path string
	}
	var at []look
	t.mu.Lock()
	for _, in := range t.inputs {
		for n, r := range in.readers {
			if !t.hears(r) && r.run == resting && r.polled.index == 0 {
				at = append(at, look{r, n, r.path})
			}
		}
	}
	t.mu.Unlock()
	for _, l := range at {
		st, err := statPath(l.path)
		if err != nil || st.node != l.node {
			continue // for the scan to judge
		}
		t.mu.Lock()
		if s := &l.r.shown; st.size != s.size || st.mtime != s.mtime {
			t.readyLocked(l.r)
		}
		t.mu.Unlock()
	}
}
