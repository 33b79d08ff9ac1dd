package tail

import (
	"context"
	"slices"
	"time"

	"kusto-agent/tail/internal/finder"
)

// untilNextScan waits after a scan. Meanwhile it looks at files whose names are
// new, and at those of whose growth no event tells. It is false when ctx has
// ended.
func (t *Tailer) untilNextScan(ctx context.Context, scan finder.Cost) bool {
	wait := finder.ScanWait(scan, t.watch.Healthy() && !t.polling(), t.o.Rescan)
	next, glance := time.NewTimer(wait), time.NewTimer(finder.GlanceWait(finder.Cost{}))
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
				next.Reset(finder.NewsWait(scan, wait))
			}
		case <-glance.C:
			var c finder.Cost
			if finder.NeedsGlance(wait) { // else the scan does it
				c = finder.CostOf(t.glance)
			}
			glance.Reset(finder.GlanceWait(c))
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
			if !in.spec.Hears(path) {
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
	return r.in.Watch != "poll" && !r.linked && t.watch.Covers(r.path)
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
