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
	to := glances{of: d}
	d.t.on(&to)
	for _, g := range to.all {
		// One that was moved or deleted is handled by the next scan.
		if st, err := inode.At(g.path); err == nil && st.Node == g.node && !g.form.isOf(st) {
			d.t.ready(g.r)
			grown = true
		}
	}
	return grown
}

// glanced is an idle file for which no events come, as it was at the end of its last turn.
type glanced struct {
	r    *reader
	node inode.Node
	path string
	form form
}

// glances asks for the idle files for which no events come and no turn is planned.
type glances struct {
	of  *discovery
	all []glanced
}

func (e *glances) happen(*Tailer) {
	for _, r := range e.of.unheard() {
		if r.life.Turn() == tracker.Resting && !r.polled.IsPlanned() {
			e.all = append(e.all, glanced{r, r.node(), r.path(), r.form()})
		}
	}
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
