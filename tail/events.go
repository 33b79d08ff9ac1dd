package tail

import (
	"kusto-agent/internal/compressed"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/tracker"
)

// news is what events tell that the goroutine that discovers has still to look at.
type news struct {
	heard
	crowd int // files from which on new names are looked at by themselves
}

type heard struct {
	fresh   []string        // paths at which events told of another file
	renames []finder.Rename // since the last scan
}

// atOnce is how many names, and how many renames, wait to be looked at. More are dropped: they are hints.
const atOnce = 4096

// crowd is from how many files on a scan takes its time, so that new names are looked at
// by themselves.
const crowd = 2000

// listener has events give turns to readers and ask for scans.
type listener struct{ t *Tailer }

// Heard has readers look at files that were written to, and notes names for the goroutine that discovers.
func (l listener) Heard(all []finder.Event) { l.t.on(heardOf(all)) }

// heardOf are events of the kernel.
type heardOf []finder.Event

func (all heardOf) happen(t *Tailer) {
	for _, e := range all {
		switch e.What {
		case finder.Written:
			for r := range t.byPath.Get(e.Path) {
				t.apply(r, tracker.Heard{})
			}
			continue
		case finder.Appeared:
			t.noteFresh(e.Path)
		case finder.Renamed:
			if len(t.news.renames) < atOnce {
				t.news.renames = append(t.news.renames, finder.Rename{From: e.From, To: e.Path})
			}
		}
		t.rescanSoon() // names have changed
	}
}

// noteFresh notes the path of a new file that is to be read before the next scan: one at the path
// of a file that is being read, since the next rotation may come soon, or any if a scan takes long.
// Compressed files wait for the scan, which finds their originals first. The caller holds mu.
func (t *Tailer) noteFresh(path string) {
	live := func(r *reader) bool { return !r.life.IsMissing() }
	slow := t.files() >= t.news.crowd && !compressed.IsNamed(path)
	if (slow || some(t.byPath.Get(path), live)) && len(t.news.fresh) < atOnce {
		t.news.fresh = append(t.news.fresh, path)
	}
}

// rescanSoon asks for a scan before the next periodic one.
func (t *Tailer) rescanSoon() {
	select {
	case t.scans.wanted <- struct{}{}:
	default:
	}
}

// Watching tells why the kernel does not tell of every change where events are
// wanted, so that files are polled, and what can be done about it. Both are empty
// while it does.
func (t *Tailer) Watching() (why, fix string) { return t.watch.Ill() }
