package tail

import (
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

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
	d.t.mu.Lock()
	for _, r := range d.unheard() {
		if r.life.Turn() == tracker.Resting && !r.polled.IsPlanned() {
			at = append(at, look{r, r.node(), r.path()})
		}
	}
	d.t.mu.Unlock()
	for _, l := range at {
		st, err := inode.At(l.path)
		if err != nil || st.Node != l.node {
			continue // it was moved or deleted, which the next scan handles
		}
		d.t.mu.Lock()
		if l.r.changed(st) {
			d.t.readyLocked(l.r)
			grown = true
		}
		d.t.mu.Unlock()
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
	if u := &d.t.looks.silent; u.scans != d.t.scans.no {
		clear(u.readers) // closed readers are not kept for longer
		*u = silence{u.readers[:0], d.t.scans.no}
		for _, in := range d.t.inputs() {
			for r := range in.readers.All() {
				if !d.t.hears(r) {
					u.readers = append(u.readers, r)
				}
			}
		}
	}
	return d.t.looks.silent.readers
}
