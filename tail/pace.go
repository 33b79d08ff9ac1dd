package tail

import (
	"context"
	"slices"
	"time"

	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

// untilNextScan waits until the next scan is due; scan is the cost of the last one. Meanwhile it
// does what comes between scans. It returns false when ctx has ended.
func (d *discovery) untilNextScan(ctx context.Context, scan finder.Cost) bool {
	polled := slices.ContainsFunc(d.inputs, func(in *input) bool { return in.Watch == "poll" })
	pace := finder.Pace{Heard: d.watch.Healthy() && !polled, Busy: d.scans.no-d.stirred < busyFor, Most: d.o.Rescan}
	wait := pace.ScanWait(scan)
	due := time.Now().Add(wait)
	next, glance := time.NewTimer(wait), time.NewTimer(finder.GlanceWait(finder.Cost{}, false))
	defer next.Stop()
	defer glance.Stop()
	wanted := false
	for {
		select {
		case <-ctx.Done():
			return false
		case <-next.C:
			return true
		case c := <-d.reload.changes:
			d.change(c)
			return true
		case <-d.scans.wanted:
			d.meetFresh()
			if !wanted {
				wanted = true
				next.Reset(finder.NewsWait(scan, time.Until(due)))
			}
		case <-glance.C:
			var c finder.Cost
			grown := false
			if pace.NeedsGlance(wait) { // else the scan does it
				c = finder.CostOf(func() { grown = d.glance() })
			}
			glance.Reset(finder.GlanceWait(c, grown))
		}
	}
}

// busyFor is for how many scans names are taken to change often after they did.
const busyFor = 3

// meetFresh reads the new files of which events told, and the files in new folders.
func (d *discovery) meetFresh() {
	for _, path := range take(d.Tailer, &d.news.fresh) {
		for _, in := range d.inputs {
			if in.isNew || !in.Spec.Hears(path) && !in.Spec.HearsBelow(path) {
				continue // as long as the input is new, start_at: end would take the file for one that existed before
			}
			st, err := inode.At(path)
			switch {
			case err != nil:
			case st.IsRegular() && in.Spec.Matches(path):
				d.meet(in, path, "")
			case st.IsDir() && in.Spec.HearsBelow(path) && !inode.IsLink(path):
				d.meetBelow(in, path)
			}
		}
	}
}

// meetBelow reads the files in the new folder dir and below it. The second walk finds also those
// that were created before the folders were watched.
func (d *discovery) meetBelow(in *input, dir string) {
	w := finder.NewWalk()
	w.Below(&in.Spec, dir)
	d.watch.Also(w.Passed)
	for _, s := range w.Below(&in.Spec, dir) {
		d.meet(in, s.Path(), "")
	}
}

// hears reports whether events tell what becomes of a file. The caller holds mu.
func (t *Tailer) hears(r *reader) bool {
	return r.in.Watch != "poll" && !r.linked && t.watch.Covers(r.path())
}

// glance checks the idle files for which no events come, and gives a turn to those that have grown.
// It reports whether there are any.
func (d *discovery) glance() (grown bool) {
	type look struct {
		r    *reader
		node inode.Node
		path string
	}
	var at []look
	d.mu.Lock()
	for _, r := range d.unheard() {
		if r.life.Turn() == tracker.Resting && !r.polled.IsPlanned() {
			at = append(at, look{r, r.node(), r.path()})
		}
	}
	d.mu.Unlock()
	for _, l := range at {
		st, err := inode.At(l.path)
		if err != nil || st.Node != l.node {
			continue // it was moved or deleted, which the next scan handles
		}
		d.mu.Lock()
		if l.r.changed(st) {
			d.readyLocked(l.r)
			grown = true
		}
		d.mu.Unlock()
	}
	return grown
}

// silence lists the readers whose growth no event reports. To ask that of each of thousands
// of files costs more than the glance itself, so the list is kept until the next scan. Guarded
// by Tailer.mu.
type silence struct {
	readers []*reader
	scans   uint64 // that had begun when the list was made; 0: it has to be made again
}

// unheard returns the readers whose growth no event reports. Some may be closed by now. The
// caller holds mu.
func (d *discovery) unheard() []*reader {
	if u := &d.looks.silent; u.scans != d.scans.no {
		clear(u.readers) // closed readers are not kept for longer
		*u = silence{u.readers[:0], d.scans.no}
		for _, in := range d.inputs {
			for r := range in.readers.All() {
				if !d.hears(r) {
					u.readers = append(u.readers, r)
				}
			}
		}
	}
	return d.looks.silent.readers
}
