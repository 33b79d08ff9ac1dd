package tail

import (
	"sync"

	"kusto-agent/tail/internal/cursor"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/holes"
	"kusto-agent/tail/internal/records"
)

// Of many files most have nothing to read. What a turn needs of such a file follows from
// what is known of its generation and from what the status shows, so it is not kept.

// reading is what a reader has in hand to read its file.
type reading struct {
	records.Reading
	sight // of the file
	notes // for the journal
}

// resting is what is kept of a reading that does not follow from anything else. Guarded by
// Tailer.mu.
type resting struct {
	records.Told
	registered bool
	compared   bool // the bytes before the offset were, with what lies there
	looked     bool // a turn has looked at the file
	empty      bool
}

// readings are for readers to come: hundreds of thousands of files have one each in their turn.
var readings = sync.Pool{New: func() any { return new(reading) }}

// rest drops the state that a reader needs only during a turn (reading), to save memory, if wake
// can restore the same state from what is known of the generation and a few kept flags. It does
// nothing if a worker has the reader, or if its file is compressed or part of a container log. The
// caller holds mu.
func (r *reader) rest() {
	h, k := r.reading, r.k
	if h == nil || r.stream != nil || r.z != nil || k.reader != r || r.life.IsRunning() {
		return
	}
	kept := resting{
		Told: h.Told, registered: h.registered, empty: h.empty,
		compared: h.Checked == h.Mtime, looked: h.high == h.Size,
	}
	if w := r.woken(kept); !h.isAs(&w) {
		return
	}
	r.resting, r.reading = kept, nil
	*h = reading{}
	readings.Put(h)
	r.lighten()
}

// lighten drops what few readers have at a time (busy), to save memory, if the reader rests and has
// nothing of it. A file that was written to just now keeps the time of its last turn, by which the
// next one is paced. The caller holds mu.
func (r *reader) lighten() {
	b := r.busy
	if b.reading == nil && r.path() == r.k.info.Info().Path && b.f == nil && b.z == nil && b.spare == nil && !b.polled.IsPlanned() && b.failed == nil && b.arrivals == nil && b.pinned == 0 && b.leftAt == 0 &&
		b.joint == &alone && r.shown.active.Ago() >= finder.ActiveFor {
		r.busy = &unbusy
	}
}

// wake restores the reading of a reader, which rest has dropped to save memory, from the facts that are
// kept. It does nothing if the reader has it. The caller holds mu.
func (r *reader) wake() {
	if r.reading == nil {
		h := readings.Get().(*reading)
		*h = r.woken(r.resting)
		b := r.own()
		b.reading, b.at = h, r.path() // from now on its generation may be told another path
	}
}

// woken returns the reading that follows from the facts that are kept.
func (r *reader) woken(kept resting) (h reading) {
	k := r.k
	h.File, h.Info = k.file(), k.info.Info()
	h.Size, h.Mtime = r.shown.size, r.shown.mtime
	h.sight = sight{grown: r.shown.grown, active: r.shown.active, empty: kept.empty}
	h.Cursor = cursor.At(k.position, k.mark)
	h.Told, h.registered = kept.Told, kept.registered
	if h.registered {
		h.headed = fingerprint.HeadLen(h.Size)
	}
	if kept.compared {
		h.Checked = h.Mtime
	}
	if kept.looked {
		h.high, h.highest = h.Size, h.Size
	}
	return h
}

// isAs reports whether w, the state that wake would make, is as good for the next turn as h. It does
// not compare what a turn sets before it uses it.
func (h *reading) isAs(w *reading) bool {
	return h.File == w.File && h.Info == w.Info &&
		h.Size == w.Size && h.high == w.high && h.Mtime == w.Mtime && h.Checked == w.Checked && h.grown == w.grown && h.active == w.active && h.empty == w.empty &&
		h.Offset() == w.Offset() && h.Mark() == w.Mark() && len(h.Skips) == 0 && h.Stuck == 0 && h.OpenSince.IsZero() && h.Long.At == 0 && h.NULs == (holes.Stretch{}) &&
		(h.Settled == 0 || h.Offset() == h.Size) &&
		h.Bounds.AreNone() &&
		h.registered == w.registered && h.headed == w.headed && h.old == 0 && h.Told == w.Told
}
