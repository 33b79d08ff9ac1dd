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

// admit lets go of those requests there is no room for and returns the others,
// with the bytes they take at most.
func (w *writer) admit(group []*request) (in []*request, size int64) {
	for _, r := range group {
		if err := w.makeRoom(size + r.cost); err != nil {
			w.refused = r.cost
			w.tell(err)
			r.done <- err
			continue
		}
		in, size = append(in, r), size+r.cost
	}
	return in, size
}

// makeRoom sees to it that n bytes of frames can be written, if need be and
// allowed by giving up the oldest payloads.
func (w *writer) makeRoom(n int64) error {
	err := w.fits(n)
	if err == nil {
		return nil
	}
	w.sweep(true)
	w.s.weigh() // people may have emptied the folder damaged
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

// couldFit is fits, but for what may be given up to make room.
func (w *writer) couldFit(n int64) error {
	err := w.fits(n)
	if err != nil && len(w.victims(n)) > 0 {
		return nil
	}
	return err
}

// fits returns nil if n bytes of frames can be written, else an ErrFull that
// says which bound is in the way.
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

// shortOfNew is how many bytes are missing for a new segment with n bytes of
// frames; where it is negative so many more could be taken.
func (w *writer) shortOfNew(n int64) int64 {
	return max(w.shortOfQuota(n), w.shortOfDisk(n))
}

func (w *writer) shortOfQuota(n int64) int64 {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.bytes() + w.aside + n + segmentCost + w.reserve() - int64(w.s.cfg().MaxSize)
}

// reserve is how much of max_size is left free to compact in: where all of it held
// payloads, their rests could not be copied.
func (w *writer) reserve() int64 {
	return min(w.s.segmentSize()/2, int64(w.s.cfg().MaxSize)/16)
}

func (w *writer) shortOfDisk(n int64) int64 {
	free, err := w.s.o.Free(w.s.dir)
	if err != nil {
		return -w.s.segmentSize() // the write itself will tell
	}
	return n + segmentCost + int64(w.s.cfg().MinFree) - free
}

// victims are the segments to give up, oldest first, so that n bytes fit. One with
// payloads that are under way stays. Where all that could go is not enough, and
// where nothing may, there are none.
func (w *writer) victims(n int64) []*segment {
	if w.s.cfg().WhenFull != "drop_oldest" {
		return nil
	}
	short := w.shortOfNew(n)
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

// drop gives up every payload of a segment and tells of each.
func (w *writer) drop(g *segment) {
	if g == w.seg {
		_ = w.retire()
	}
	s := w.s
	records, frames := 0, 0
	err := s.scan(g, func(at placed, p *record.Payload) {
		if !s.endWaiting(at) {
			return
		}
		records, frames = records+p.Records, frames+1
		s.o.OnDrop(own(p), record.DropSpoolFull)
	})
	for _, p := range s.giveUpRest(g) { // unreadable now, which saves nobody from counting them
		records, frames = records+p.Records, frames+1
		s.o.OnDrop(p, record.DropSpoolFull)
	}
	w.log.Error("spool is full: the oldest payloads are dropped", "file", g.name, "payloads", frames, "records", records, "err", err)
}

// giveUpRest ends what is left in a segment and cannot be read.
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

// weigh looks how much is in the folder damaged: it counts for max_size like
// everything else, so that a disk that goes bad does not fill up.
func (s *Spool) weigh() {
	dir := s.path(damagedDir)
	names, _ := s.o.FS.List(dir)
	total := int64(0)
	for _, name := range names {
		if f, err := s.o.FS.Open(filepath.Join(dir, name), 0); err == nil {
			n, _ := f.Size()
			total += n
			f.Close()
		}
	}
	s.mu.Lock()
	s.spoiled = total
	s.mu.Unlock()
}

// sweep removes the segments all of whose payloads have ended, the one being
// written to only if idle.
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
		if noSpace(err) { // a full disk is mended by what goes here
			dead = s.whole(dead)
		}
		if !noSpace(err) || len(dead) == 0 {
			w.postpone("journal not synced", err)
			return
		}
		w.lookAgain()
	}
	w.remove(dead)
}

// whole leaves out the segments of which something was lost: what these leave behind, or
// their index, is all that says so until it is durable elsewhere.
func (s *Spool) whole(dead []*segment) []*segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(dead, func(g *segment) bool { return g.damaged || g.lost })
}

// remove unlinks segments, or moves them away where something in them was not
// readable. Indexes go before, and durably so: one without its segment says that
// somebody else took that away. Segments are forgotten once the folder is synced:
// until then a power cut can bring them back.
func (w *writer) remove(dead []*segment) {
	s := w.s
	ids := make([][]record.BatchID, len(dead))
	indexed := false
	for i, g := range dead {
		err := w.disk(func() error {
			if ids[i] = s.idsOf(g); g.aside == 0 {
				return nil
			}
			indexed = true
			return s.o.FS.Remove(s.path(g.name + suffixOfIndex))
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.postpone("index not removed", err)
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
		err := w.disk(func() error {
			if g.damaged {
				return durable.Move(s.o.FS, s.path(g.name), s.path(damagedDir))
			}
			return s.o.FS.Remove(s.path(g.name))
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.postpone("segment not removed", err)
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
	s.o.OnRemove(w.withoutSpoiled(s.lastOf(slices.Concat(ids...))))
	if w.isFull() {
		w.probe()
	}
}

func (w *writer) syncFolder() bool {
	err := w.disk(func() error { return w.s.o.FS.SyncDir(w.s.dir) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.postpone("folder not synced", err)
		return false
	}
	return true
}

// lastOf leaves out those ids of segments that are gone of which another frame is there:
// how they ended is to be known until that is gone too.
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

// withoutSpoiled leaves out those ids of which a segment that stays has a frame that could
// not be read: the payload was made again and has another frame, but a start may read the
// first one. Where it cannot be told, that is all of them; a later start lets the journal
// know.
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

// idsOf are the payloads of a segment, also those that were copied to another one.
func (s *Spool) idsOf(g *segment) (ids []record.BatchID) {
	all, _ := s.all(g) // of those that cannot be read a later start lets the journal know
	for i := range all {
		ids = append(ids, all[i].id)
	}
	return ids
}

// postpone leaves the removal of segments for later.
func (w *writer) postpone(what string, err error) {
	w.log.Warn("removing finished spool segments failed, will retry: "+what, "err", err)
	w.lookAgain()
}

// lookAgain has the writer look by itself at what it could not remove.
func (w *writer) lookAgain() {
	w.s.disk.RetryBy(time.Now().Add(again))
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
