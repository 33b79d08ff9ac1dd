package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// admit chooses the requests of a group that fit into the spool. in are those that are written
// now, size is the most bytes that they take. rest are those after them that wait until in is
// written, because only then it is known how much room is left. If the first of them does not fit
// even after makeRoom, admit answers it with ErrFull and goes on with the next.
func (w *writer) admit(group []*request) (in, rest []*request, size int64) {
	for i, r := range group {
		if len(in) > 0 {
			if w.fits(size+r.cost) != nil {
				return in, group[i:], size
			}
		} else if err := w.makeRoom(r.cost); err != nil {
			w.refused = r.cost
			w.tell(err)
			r.done <- err
			continue
		}
		in, size = append(in, r), size+r.cost
	}
	return in, nil, size
}

// makeRoom frees room for n bytes of frames if they do not fit: it removes ended segments, compacts,
// and with drop_oldest gives up the oldest payloads. It returns nil if they fit then, else ErrFull.
func (w *writer) makeRoom(n int64) error {
	err := w.fits(n)
	if err == nil {
		return nil
	}
	w.sweep(true)
	w.s.weigh() // people may have emptied the folder damaged
	// What one compaction frees may allow another.
	for range 2 {
		if w.compact(true) {
			w.sweep(true)
		}
	}
	if err = w.fits(n); err == nil {
		return nil
	}
	if victims := w.victims(n); len(victims) > 0 {
		for _, g := range victims {
			w.drop(g)
		}
		w.sweep(true)
		err = w.fits(n)
	}
	return err
}

// couldFit returns nil if n bytes of frames can be written now, or after drop_oldest has removed
// segments; otherwise an ErrFull that says which bound is in the way.
func (w *writer) couldFit(n int64) error {
	err := w.fits(n)
	if err != nil && len(w.victims(n)) > 0 {
		return nil
	}
	return err
}

// fits returns nil if n bytes of frames (payloads as stored) can be written without dropping anything,
// else an ErrFull that says which bound is in the way.
func (w *writer) fits(n int64) error {
	if w.out != nil && w.out.Size()+w.aside+n <= w.limit {
		return nil // all of it was set aside when the segment was begun
	}
	if short := w.shortOfQuota(n); short > 0 {
		return fmt.Errorf("%w: max_size %v leaves %d bytes too few", ErrFull, w.s.cfg().MaxSize, short)
	}
	if short := w.shortOfDisk(n); short > 0 {
		return fmt.Errorf("%w: the disk lacks %d bytes to keep min_free %v", ErrFull, short, w.s.cfg().MinFree)
	}
	return nil
}

// shortOfQuota returns how many bytes are missing within max_size for a new segment with n bytes of
// frames; negative if there is room.
func (w *writer) shortOfQuota(n int64) int64 {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.bytes() + w.aside + n + segmentCost + w.reserve() - int64(w.s.cfg().MaxSize)
}

// reserve returns how many bytes of max_size are kept free for compaction, which writes copies before
// it removes the originals.
func (w *writer) reserve() int64 {
	return min(w.s.segmentSize()/2, int64(w.s.cfg().MaxSize)/16)
}

// shortOfDisk returns how many bytes the disk lacks for n bytes in a new segment and
// min_free; negative: so many are left.
func (w *writer) shortOfDisk(n int64) int64 {
	free, err := w.s.o.Free(w.s.dir)
	if err != nil {
		return -w.s.segmentSize() // as if a segment fitted; the write shows whether it does
	}
	return n + segmentCost + int64(w.s.cfg().MinFree) - free
}

// victims returns the oldest segments that have to be dropped so that n bytes fit. It passes over
// segments with payloads that are given out and those being read. The result is nil if the
// configuration does not allow that (when_full is not drop_oldest) or it would not be enough.
func (w *writer) victims(n int64) []*segment {
	if w.s.cfg().WhenFull != "drop_oldest" {
		return nil
	}
	short := max(w.shortOfQuota(n), w.shortOfDisk(n))
	var victims []*segment
	w.s.mu.Lock()
	for _, g := range w.s.segments {
		if short <= 0 {
			break
		}
		if g.given == 0 && g.pins == 0 {
			victims = append(victims, g)
			short -= g.disk()
		}
	}
	w.s.mu.Unlock()
	if short > 0 {
		return nil
	}
	return victims
}

// drop ends every waiting payload of a segment because the spool is full, and reports each with
// OnDrop. If the index cannot be read, the segment says what they are; if that cannot be read either, they
// are lost, see reindex. The segment is removed later, by sweep.
func (w *writer) drop(g *segment) {
	if g == w.seg {
		_ = w.retire()
	}
	s := w.s
	s.mu.Lock()
	x := g.index
	s.mu.Unlock()
	if _, err := s.all(g); err != nil && passable(err) == nil {
		s.reindex(g, x, err)
	}
	records, frames := 0, 0
	err := s.scan(g, func(at placed, p *record.Payload) {
		if !s.endWaiting(at) {
			return
		}
		records, frames = records+p.Records, frames+1
		s.o.OnDrop(own(p), record.DropSpoolFull)
	})
	for _, p := range s.giveUpRest(g) { // those that cannot be read count as dropped too
		records, frames = records+p.Records, frames+1
		s.o.OnDrop(p, record.DropSpoolFull)
	}
	log := w.log
	if err != nil {
		log = log.With("err", err)
	}
	log.Error("spool is full: the oldest payloads are dropped", "file", g.name, "payloads", frames, "records", records,
		"fix", "raise spool.max_size; spool.when_full: block drops nothing, the files are the buffer then")
}

// giveUpRest ends the payloads of a segment that still wait although the segment cannot be
// read, and returns what the index knows of them. Without an index it returns none.
func (s *Spool) giveUpRest(g *segment) (out []*record.Payload) {
	all, _ := s.all(g)
	for _, at := range all {
		if s.endWaiting(at) {
			s.mu.Lock()
			out = append(out, at.sh.unreadable(&at.slot))
			s.mu.Unlock()
		}
	}
	return out
}

// weigh measures the files in the folder damaged and stores the sum: their bytes count for max_size,
// so that a failing disk does not fill up.
func (s *Spool) weigh() {
	dir := s.path(damagedDir)
	names, _ := s.o.FS.List(dir)
	total := int64(0)
	for _, name := range names {
		n, _ := durable.Size(s.o.FS, filepath.Join(dir, name))
		total += n
	}
	s.mu.Lock()
	s.spoiled = total
	s.mu.Unlock()
}

// sweep removes the segments whose payloads have all ended; the segment being written only
// if idle is set. Options.BeforeUnlink comes first: it makes durable in the journal how the payloads
// ended. If that fails because the disk is full, sweep removes the segments of which
// nothing was lost all the same, since that frees space. After other errors it tries again later.
func (w *writer) sweep(idle bool) {
	s := w.s
	var dead []*segment
	s.mu.Lock()
	for _, g := range s.segments {
		if g.dead() && !g.doubted && (g != w.seg || idle) {
			g.leaving = true
			dead = append(dead, g)
		}
	}
	s.mu.Unlock()
	if len(dead) == 0 {
		return
	}
	if w.seg != nil && dead[len(dead)-1] == w.seg {
		_ = w.retire()
	}
	s.segmentsChanged()
	if err := s.o.BeforeUnlink(); err != nil {
		if noSpace(err) { // the journal cannot be synced, but removing segments frees space
			s.mu.Lock() // until the journal has recorded a loss, only the segment or its index shows it
			dead = slices.DeleteFunc(dead, func(g *segment) bool { return g.damaged || g.lost })
			s.mu.Unlock()
		}
		if !noSpace(err) || len(dead) == 0 {
			w.postpone("journal not synced", err)
			return
		}
		w.lookAgain() // at the segments that were left out
	}
	w.remove(dead)
}

// remove unlinks the segments dead, or moves them to the folder damaged if something in them was
// unreadable. It removes the indexes first and syncs that: an index without its segment
// means that somebody else removed the segment. It forgets the segments after the folder
// is synced, since until then a power cut can bring them back. After an error it stops, and the
// rest is tried again later.
func (w *writer) remove(dead []*segment) {
	s := w.s
	var ids []record.BatchID
	indexed := false
	for _, g := range dead {
		removed := w.removes("index not removed", func() error {
			all, _ := s.all(g) // without a readable index the journal remembers more than it needs, until a later start
			for i := range all {
				ids = append(ids, all[i].id) // also if it was copied to another segment
			}
			if g.aside == 0 {
				return nil
			}
			indexed = true
			return s.o.FS.Remove(s.path(g.name + suffixOfIndex))
		})
		if !removed {
			return
		}
	}
	if indexed && !w.syncFolder() {
		return
	}
	for _, g := range dead {
		s.mu.Lock()
		g.aside = 0
		s.mu.Unlock()
		removed := w.removes("segment not removed", func() error {
			if g.damaged {
				return durable.Move(s.o.FS, s.path(g.name), s.path(damagedDir))
			}
			return s.o.FS.Remove(s.path(g.name))
		})
		if !removed {
			return
		}
	}
	if !w.syncFolder() {
		return
	}
	s.mu.Lock()
	s.segments = slices.DeleteFunc(slices.Clone(s.segments), func(g *segment) bool { return slices.Contains(dead, g) })
	spoiled := false
	for _, g := range dead {
		if spoiled = spoiled || g.damaged; g.index != nil {
			g.index.f.Close()
		}
	}
	s.mu.Unlock()
	if spoiled {
		s.weigh()
	}
	// The journal need no longer remember how these payloads ended.
	s.o.OnRemove(w.withoutSpoiled(s.lastOf(ids)))
	if w.isFull() {
		w.probe()
	}
}

// syncFolder makes removals in the folder durable; it returns false after an error, as removes does.
func (w *writer) syncFolder() bool {
	return w.removes("folder not synced", func() error { return w.s.o.FS.SyncDir(w.s.dir) })
}

// removes makes a call that is a step of a removal. If it fails, removes logs that the removal will be
// retried, because of what, and returns false. What is gone already is no error.
func (w *writer) removes(what string, call func() error) bool {
	err := w.disk(call)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.postpone(what, err)
		return false
	}
	return true
}

// lastOf returns those of ids, the payloads of removed segments, of which the spool has no other
// frame (stored copy). For the others it counts one copy less: the journal has to remember how
// they ended until their last copy is removed too.
func (s *Spool) lastOf(ids []record.BatchID) []record.BatchID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(ids, func(id record.BatchID) bool {
		n := s.copies[id]
		if n == 0 {
			delete(s.gaveUp, id)
			return false
		}
		if n--; n == 0 {
			delete(s.copies, id)
		} else {
			s.copies[id] = n
		}
		return true
	})
}

// withoutSpoiled leaves out the ids that a damaged segment in the folder may still hold: a
// later start may read that frame, and needs to know from the journal that the payload has
// ended. If the index of a damaged segment cannot be read it leaves out all.
func (w *writer) withoutSpoiled(ids []record.BatchID) []record.BatchID {
	s := w.s
	s.mu.Lock()
	spoiled := slices.DeleteFunc(slices.Clone(s.segments), func(g *segment) bool { return !g.damaged && !g.lost })
	s.mu.Unlock()
	for _, g := range spoiled {
		var all []placed
		if w.disk(func() (err error) { all, err = s.all(g); return err }) != nil {
			return nil
		}
		there := make(map[record.BatchID]bool, len(all))
		for i := range all {
			there[all[i].id] = true
		}
		ids = slices.DeleteFunc(ids, func(id record.BatchID) bool { return there[id] })
	}
	return ids
}

// postpone logs that segments could not be removed, because the step what failed with err, and has
// it tried again later.
func (w *writer) postpone(what string, err error) {
	w.log.Warn("removing finished spool segments failed, will retry: "+what, "err", err)
	w.lookAgain()
}

// lookAgain sets the time of the writer's next try to at most ten seconds from now.
func (w *writer) lookAgain() {
	w.s.disk.RetryBy(time.Now().Add(again))
}

// noSpace reports whether an error means that the disk or its quota is full.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
