package tail

import (
	"context"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// How long a rescan waits: it alone must be enough, events or not. One that
// cost much waits longer, so that looking is never most of what is done.
const (
	rescanHealthy = 10 * time.Second
	rescanPolling = 2 * time.Second
	idlePart      = 20 // times what the last cost, without news
	newsPart      = 10 // the same after an event that says that names have changed
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
	wait = scan.rest(wait, idlePart)
	if t.o.Rescan > 0 {
		wait = min(wait, t.o.Rescan)
	}
	next, glance := time.NewTimer(wait), time.NewTimer(rescanPolling)
	defer next.Stop()
	defer glance.Stop()
	wanted := false
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
			t.meetFresh()
			if !wanted {
				wanted = true
				next.Reset(min(scan.rest(0, newsPart), wait))
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

// freshName notes that there is a new file where one that is being read was. It is
// looked at before the next scan, which takes its time: the next rotation may come
// before that.
func (t *Tailer) freshName(path string) {
	t.mu.Lock()
	live := func(r *reader) bool { return !r.missed && !r.gone }
	if slices.ContainsFunc(t.byPath[path], live) && len(t.fresh) < atOnce {
		t.fresh = append(t.fresh, path)
	}
	t.mu.Unlock()
	t.rescanSoon()
}

// meetFresh takes up new files in the place of others.
func (t *Tailer) meetFresh() {
	t.mu.Lock()
	paths := t.fresh
	t.fresh = nil
	t.mu.Unlock()
	for _, path := range paths {
		for _, in := range t.inputs {
			if !in.hears(path) {
				continue
			}
			if st, err := statPath(path); err == nil && st.regular {
				t.meet(in, path, false)
			}
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
		if l.r.changed(st) {
			t.readyLocked(l.r)
		}
		t.mu.Unlock()
	}
}
