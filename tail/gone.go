package tail

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/record"
)

// miss looks after readers whose files the scan did not find.
func (t *Tailer) miss(in *input, w *walk) {
	defer t.forget(in, w)
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(in.suspect, func(_ node, s suspicion) bool { return s.scan != t.scanNo })
	for n, r := range in.readers {
		if r.scan == t.scanNo || w.unknown(r.path) {
			continue
		}
		if r.f != nil {
			if st, err := statFile(r.f); err == nil {
				r.deleted = st.links == 0
			}
		}
		if r.gone {
			continue
		}
		st, err := statPath(r.path)
		if err == nil && st.node == n || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			continue // there in spite of the scan, or nobody knows
		}
		if !r.missed { // it may have been renamed under the eyes of the scan
			r.missed = true
			t.rescanSoon()
			continue
		}
		r.gone = true
		t.o.Metrics.Rotation(in.Name)
		t.o.Logger.Info("file is gone from its path, reading it to its end", "file", r.path, "bytes", r.shown.size-r.shown.offset)
		t.readyLocked(r)
	}
}

// forget drops what is remembered of files that are long gone.
func (t *Tailer) forget(in *input, w *walk) {
	for _, k := range t.longGone(in, w) {
		_ = t.o.Positions.Forget(k.file) // as remember
	}
}

// longGone takes out what is remembered of files that are long gone.
func (t *Tailer) longGone(in *input, w *walk) (gone []*known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for f, k := range in.known {
		if k.reader != nil {
			continue
		}
		if k.missing.IsZero() || w.unknown(k.info.Path) {
			k.missing = now
		}
		if now.Sub(k.missing) < in.ForgetAfter.D() {
			continue
		}
		if _, there := findNode(k.info); there && in.byNode[nodeOf(k.info)] == k {
			k.missing = time.Time{}
			continue
		}
		delete(in.known, f)
		in.heads.move(k, record.Head{})
		if in.byNode[nodeOf(k.info)] == k {
			delete(in.byNode, nodeOf(k.info))
		}
		gone = append(gone, k)
	}
	return gone
}

// boundPinned lets the oldest deleted files go while they hold more of the
// disk than an input may pin.
func (t *Tailer) boundPinned() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range t.inputs {
		var pinned int64
		var held []*reader
		for _, r := range in.readers {
			if r.deleted && !r.drop {
				pinned += r.shown.size
				held = append(held, r)
			}
		}
		slices.SortFunc(held, func(a, b *reader) int { return a.shown.grown.Compare(b.shown.grown) })
		for _, r := range held {
			if pinned <= int64(in.MaxPinnedDeleted) {
				break
			}
			pinned -= r.shown.size
			r.drop = true
			t.o.Metrics.Abandoned(in.Name, r.shown.size-r.shown.offset)
			t.o.Logger.Error("deleted file is abandoned, it pins more than max_pinned_deleted allows", "file", r.path,
				"offset", r.shown.offset, "bytes", r.shown.size-r.shown.offset)
			t.readyLocked(r)
		}
	}
}

// closeIdle gives a descriptor back; the reader opens its file again for its
// next turn. The caller holds mu.
func (t *Tailer) closeIdle(r *reader) {
	if r.f != nil && !r.gone {
		r.f.Close()
		r.f = nil
		t.open.Add(-1)
	}
}
