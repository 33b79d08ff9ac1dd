package tail

import "kusto-agent/internal/record"

// Of many files most have nothing to read. What a turn needs of such a file follows from
// what is known of its generation and from what the status shows, so it is not kept.

// reading is what a reader has in hand to read its file.
type reading struct {
	file  record.File
	info  record.FileInfo
	sight // of the file
	cursor
	room  // for the next read
	notes // for the journal and the log
}

// resting is what is kept of a reading that does not follow from anything else. Guarded by
// Tailer.mu.
type resting struct {
	toldOf
	registered bool
	compared   bool // the bytes before the offset were, with what lies there
	looked     bool // a turn has looked at the file
	empty      bool
	headed     uint8
}

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
		toldOf: h.toldOf, registered: h.registered, empty: h.empty, headed: uint8(h.headed),
		compared: h.checked == h.mtime, looked: h.high == h.size,
	}
	was := r.resting
	r.resting, r.reading = kept, nil
	if r.wake(); !r.isAs(h) {
		r.resting, r.reading = was, h
		return
	}
	r.reading = nil
}

// wake restores the reading of a reader, which rest has dropped to save memory, from the facts that are
// kept. It does nothing if the reader has it. The caller holds mu.
func (r *reader) wake() {
	if r.reading != nil {
		return
	}
	k, kept := r.k, &r.resting
	h := &reading{file: k.file, info: k.info.Info()}
	h.sight = sight{size: r.shown.size, mtime: r.shown.mtime, grown: r.shown.grown, active: r.shown.active, empty: kept.empty}
	h.offset, h.mark = k.position, k.mark
	h.toldOf, h.registered, h.headed = kept.toldOf, kept.registered, int(kept.headed)
	if kept.compared {
		h.checked = h.mtime
	}
	if kept.looked {
		h.high, h.highest = h.size, h.size
	}
	r.reading = h
}

// isRegistered reports whether the journal knows the generation. The caller holds mu, and
// no worker has the reader.
func (r *reader) isRegistered() bool {
	if r.reading == nil {
		return r.resting.registered
	}
	return r.registered
}

// isAs reports whether the state that wake has just made is as good for the next turn as h, the
// state before. It does not compare what a turn sets before it uses it.
func (r *reader) isAs(h *reading) bool {
	w := r.reading
	return h.file == w.file && h.info == w.info &&
		h.size == w.size && h.high == w.high && h.mtime == w.mtime && h.checked == w.checked && h.grown == w.grown && h.active == w.active && h.empty == w.empty &&
		h.offset == w.offset && h.mark == w.mark && len(h.skips) == 0 && h.stuck == 0 && h.held.IsZero() && h.long.at == 0 && h.nuls == (nuls{}) &&
		(h.settled == 0 || h.offset == h.size) &&
		h.narrow == 0 && !h.chosen && !h.unbound && !h.atOnce &&
		h.registered == w.registered && h.headed == w.headed && h.old == 0 && h.toldOf == w.toldOf
}
