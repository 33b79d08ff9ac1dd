package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"kusto-agent/internal/durable"
)

// stage is what a draft's goroutine does.
type stage uint8

const (
	building stage = iota // it writes the snapshot, and what was told meanwhile
	naming                // it makes the segment durable and gives it its name; entries go to both segments
	closing               // the segment has taken over; the one before is closed, and history above its bounds removed
)

// draft is the segment that is to follow the one being written. What takes long is done
// by a goroutine beside the writer, in stages: at the end of each it sends to done, and
// until then what the stage needs is its own.
type draft struct {
	w     *writer
	name  string
	head  durable.Header
	snap  *snapshot
	from  int64 // the size of the segment before, when it was taken
	stage stage
	done  chan error
	stop  atomic.Bool // it is not wanted any more

	seg   *durable.Segment
	since []durable.Frame // told since the snapshot was taken, and not written to seg yet
	size  int64           // of seg, when it was to be named

	old     *durable.Segment // closing: the one before
	oldName string
	closed  []segmentFile // and the history behind it
}

var errUnwanted = errors.New("segment not wanted any more")

const (
	draftSync = 1 << 20  // how many bytes of a snapshot are synced at a time
	leastRoom = 64 << 10 // that is set aside for entries where the disk has little
	fewSince  = 128      // how many entries the writer copies by itself
)

// newDraft takes a snapshot of the state for the next segment, whose first entry gets the number
// first. The state has to include all entries that were written. Nothing is written yet. Needs the
// journal's mu.
func (w *writer) newDraft(first uint64) *draft {
	d := &draft{
		w: w, name: fmt.Sprintf("%016x%s", w.next, suffix), done: make(chan error, 1),
		head: durable.Header{Kind: kind, Major: major, Minor: minor, Seq: w.next, Agent: w.agent, FirstRecord: first, Created: w.j.o.Now()},
		snap: w.j.freeze(),
	}
	w.next++ // a name that may be on the disk is not used again
	return d
}

// beside runs work, the stage s of the draft, on a goroutine of its own, which sends the result to
// done and wakes the writer. The writer waits for the result before it begins another draft or
// ends.
func (d *draft) beside(s stage, work func() error) {
	d.stage = s
	go func() {
		d.done <- work()
		d.w.j.disk.Wake()
	}()
}

// call makes a call to the disk that others can tell to hang.
func (d *draft) call(f func() error) error {
	return d.w.j.beside.Call(f)
}

// build creates the segment and writes the snapshot to it, synced. It makes each use of the disk
// through call, which watches for a disk that hangs. The error is errUnwanted if the draft was given
// up meanwhile, or one of the disk.
func (d *draft) build(call func(func() error) error) error {
	defer d.snap.thaw()
	o := d.w.j.o
	room := d.w.j.segmentSize()
	err := call(func() (err error) {
		if err = durable.MkdirAll(o.FS, d.w.j.dir); err == nil {
			d.seg, err = durable.Draft(o.FS, filepath.Join(d.w.j.dir, d.name), d.head, room)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = d.snap.write(func(frames []durable.Frame) error {
		if d.stop.Load() {
			return errUnwanted
		}
		return call(func() error {
			if err := d.seg.Append(frames...); err != nil || d.seg.Size()-d.seg.Synced() < draftSync {
				return err
			}
			return d.seg.Sync()
		})
	})
	if err != nil {
		return err
	}
	return call(func() error {
		if err := d.seg.ReserveSome(room, min(room, leastRoom)); err != nil {
			return err
		}
		return d.seg.Sync()
	})
}

// begin starts making the next segment (w.draft) on another goroutine, while entries go on being
// written to the current one.
func (w *writer) begin() {
	w.j.mu.Lock()
	w.draft = w.newDraft(w.seg.NextRecord())
	w.j.mu.Unlock()
	d := w.draft
	d.from = w.seg.Size()
	d.beside(building, func() error { return d.build(d.call) })
}

// step is called when the goroutine of the draft (the next segment, made beside the current one) has
// ended a stage with err, and begins the following stage. building writes the snapshot; entries that
// are written meanwhile gather in d.since and are appended before the next stage. naming syncs the
// draft and gives it its name. Then takeOver makes it the current segment; closing closes the old one.
//
// After an error the draft is given up, and rotate makes the next segment later (w.inline). After an
// error of naming it does so at once: the draft may have its name already, and would count as the
// newest segment.
func (w *writer) step(err error) {
	d := w.draft
	switch {
	case err != nil && d.stage == naming:
		w.log.Warn("journal segment is no longer used after a write error; its content goes to a new segment", "file", d.name, "err", err)
		d.done <- err  // drop, which rotate calls, waits for it
		_ = w.rotate() // rotate reports its error itself
	case err != nil || d.stage == building && w.j.hasOverflow(): // after an overflow the draft lacks entries
		d.done <- err
		w.drop()
		w.inline = true
	case d.stage == building && len(d.since) > fewSince: // too many to append here, while entries wait
		more := d.since
		d.since = nil
		d.beside(building, func() error {
			return d.call(func() error { return errors.Join(d.seg.Append(more...), d.seg.Sync()) })
		})
	case d.stage == building:
		// All entries up to the snapshot have to be durable before the draft gets its name.
		if w.seg.Synced() < d.from {
			if err := w.sync(); err != nil {
				d.done <- err
				_ = w.replace(err) // replace reports its error itself
				return
			}
		}
		more := d.since
		d.since = nil
		if err := w.disk(func() error { return d.seg.Append(more...) }); err != nil {
			d.done <- err
			w.drop()
			w.inline = true
			return
		}
		d.size = d.seg.Size()
		d.beside(naming, func() error { return d.call(d.seg.Name) })
	case d.stage == naming:
		w.takeOver()
	default:
		w.closed = d.closed
		w.draft = nil
	}
}

// takeOver makes the draft, which has all entries that the current segment has, the
// current segment. On another goroutine it closes the old one and removes history beyond its bounds.
func (w *writer) takeOver() {
	d := w.draft
	d.seg.Named(d.size)
	d.old, d.oldName = w.seg, w.name
	w.seg, w.name, w.room = d.seg, d.name, d.size+w.j.segmentSize()
	if w.grown.IsZero() { // all is synced; else the next sync sets w.durable
		w.durable = w.seg.NextRecord()
	}
	h := w.history()
	d.beside(closing, func() error {
		if err := d.call(func() error { return errors.Join(d.old.Sync(), d.old.Close()) }); err != nil {
			w.log.Warn("journal segment could not be synced and closed; its content is already in the next segment", "file", d.oldName, "err", err) // what it may have lost is in the new one
		}
		h.closed = append(h.closed, segmentFile{name: d.oldName, size: d.old.Size(), end: w.j.o.Now()})
		_ = d.call(func() error { h.tidy(); return nil })
		d.closed = h.closed
		return nil
	})
}

// drop gives up the draft, if there is one: it waits for the draft's goroutine and removes the file.
// If the draft has already taken over as the current segment, drop only waits until the old one is
// closed.
func (w *writer) drop() {
	d := w.draft
	if d == nil {
		return
	}
	d.stop.Store(true)
	_ = w.disk(func() error { <-d.done; return nil }) // its error does not matter any more
	w.draft = nil
	if d.stage == closing {
		w.closed = d.closed
		return
	}
	_ = w.disk(func() error {
		if d.seg != nil {
			w.record = max(w.record, d.seg.NextRecord())
			_ = d.seg.Close() // it is removed
		}
		w.discard(d.name)
		return nil
	})
}

// catchUp waits for the draft (the next segment) if the current one has meanwhile grown to twice its
// size: entries come faster than the disk takes them. Callers of the journal wait too.
func (w *writer) catchUp() {
	for d := w.draft; d != nil && w.seg != nil && w.seg.Size() >= w.room+w.j.segmentSize(); d = w.draft {
		w.wait(d)
	}
}

// wait waits for the current stage of the draft and begins the next one.
func (w *writer) wait(d *draft) {
	var err error
	_ = w.disk(func() error { err = <-d.done; return nil })
	w.step(err)
}

// settle ends the work on the draft (the next segment), if there is one: it removes one that is being
// built, and completes one that is further.
func (w *writer) settle() {
	for d := w.draft; d != nil; d = w.draft {
		if d.stage == building {
			w.drop()
			continue
		}
		w.wait(d)
	}
}

// sortClosed has the segments before in their order.
func sortClosed(s []segmentFile) {
	slices.SortFunc(s, func(a, b segmentFile) int { return strings.Compare(a.name, b.name) })
}
