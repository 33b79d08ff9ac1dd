package spool

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

const (
	// maxGroup is how many bytes of bodies are written before a sync. The
	// writer has a copy of them, so that a Put can return before the disk does.
	maxGroup = 4 << 20
	// linger is how long the segment being written is kept when all in it has
	// ended, so that a payload that comes and goes costs one sync.
	linger = 10 * time.Second
	// soon is when what the disk refused is first tried once more without a Put;
	// then ever more rarely, up to again.
	soon  = time.Second
	again = 10 * time.Second
)

// writer is the only one that writes segments. Its fields belong to its
// goroutine, and to Open before that is started and to Close after it ended.
type writer struct {
	s      *Spool
	log    *slog.Logger
	agent  [16]byte
	lock   durable.Lock // of the folder; nil: there is none yet
	record uint64       // id of the next record

	out       *durable.Segment // nil: the next payload begins one
	seg       *segment         // of out
	limit     int64            // out and its index are full at this size
	aside     int64            // what the index of seg will take, at most
	served    map[served]bool  // what is in seg
	used      time.Time        // when out was last written to
	spared    time.Time        // nothing can be compacted before
	unvouched time.Time        // no index can be given its token before
	refused   int64            // bytes of the last payload there was no room for
	buf       []byte           // bodies of a group, reused
	doubted   []doubted        // segments found at the start, to be closed once the spool is used
}

// lockFolder locks the folder of the spool, or, if it was replaced since, the folder that is there
// now. The error is ErrInUse if another process has the lock; a file system without locks is no error.
func (w *writer) lockFolder() error {
	dir := w.s.dir
	if w.lock != nil && w.lock.Holds(dir) {
		return nil
	}
	lock, err := w.s.o.FS.Lock(dir)
	switch {
	case errors.Is(err, durable.ErrLocked):
		return ErrInUse
	case err == nil:
		w.unlock()
		w.lock = lock
	}
	return nil
}

// closeIndexes closes the files of all indexes.
func (s *Spool) closeIndexes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments {
		if g.index != nil {
			g.index.f.Close()
		}
	}
}

// unlock releases the lock of the folder, if there is one.
func (w *writer) unlock() {
	if w.lock != nil {
		_ = w.lock.Close()
		w.lock = nil
	}
}

// due returns when the writer has something to do without being woken: a retry after an error, a
// compaction, or the removal of the segment being written, in which all has ended. Zero: never.
func (w *writer) due() time.Time {
	if at := w.s.disk.RetryAt(); !at.IsZero() {
		return at
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	due := w.s.compactDue()
	if due.Before(w.spared) && !due.IsZero() {
		due = w.spared
	}
	if w.out != nil && w.seg.dead() {
		if at := w.used.Add(linger); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due
}

// turn is one round of the writer's goroutine: it writes all payloads that wait in the queue,
// removes segments whose payloads have ended, and compacts if that is due. Once the spool is closed
// it also finishes the current segment, and returns true and the error of that.
func (w *writer) turn() (last bool, err error) {
	for {
		group, closed := w.take()
		if len(group) == 0 {
			last = closed
			break
		}
		for len(group) > 0 {
			group = w.commit(group)
		}
	}
	if w.s.disk.TakeRetry() {
		w.probe()
	}
	w.settleDoubts()
	// The segment being written goes too if the spool is closed or full, or if it was not used for a while.
	w.sweep(last || w.isFull() || w.out != nil && time.Since(w.used) >= linger)
	if !last {
		w.tend()
	}
	if last && w.out != nil {
		err = w.retire()
	}
	w.vouch()
	if last {
		w.s.closeIndexes()
		w.unlock()
	}
	return last, err
}

// vouch writes a token into the indexes that have none yet, of segments whose waiting payloads the
// journal knows. Options.Vouch makes what the journal knows durable and returns the token. If the
// journal accepts it at the next start, the payloads need not be read. After an error vouch waits
// ten seconds before it tries again.
func (w *writer) vouch() {
	s := w.s
	if s.o.Vouch == nil || time.Now().Before(w.unvouched) {
		return
	}
	var due []*segment
	s.mu.Lock()
	for _, g := range s.segments {
		if g.index != nil && g.agreed && !g.vouched && g.live > 0 {
			due = append(due, g)
		}
	}
	s.mu.Unlock()
	if len(due) == 0 {
		return
	}
	token, err := s.o.Vouch()
	for i := 0; err == nil && i < len(due); i++ {
		g := due[i]
		if err = w.disk(func() error { return setToken(s.o.FS, s.path(g.name+suffixOfIndex), g.seq, token) }); err == nil {
			s.mu.Lock()
			g.token, g.vouched = token, true
			s.mu.Unlock()
		}
	}
	if err != nil {
		w.unvouched = time.Now().Add(again)
		w.log.Warn("index of a spool segment could not be completed, will retry; if the agent restarts before a retry succeeds, it only has to read the whole segment", "err", err)
	}
}

// tend compacts segments (copies what still waits in a few of them to one) if that is due, or
// earlier if the spool is short of room. If nothing could be compacted, it waits ten seconds before
// it tries again.
func (w *writer) tend() {
	now := time.Now()
	w.s.mu.Lock()
	due := w.s.compactDue()
	w.s.mu.Unlock()
	pressed := w.shortOfQuota(0) > -2*w.s.segmentSize() // soon there is too little room for a compaction
	switch {
	case due.IsZero(), now.Before(w.spared), now.Before(due) && !pressed:
	case w.compact(pressed):
		w.sweep(false)
		w.s.disk.Wake() // there may be more
	default:
		w.spared = now.Add(again)
	}
}

// isFull reports whether payloads are refused because the spool or its disk is full.
func (w *writer) isFull() bool { return errors.Is(w.s.disk.Err(), ErrFull) }

// take removes requests with up to maxGroup bytes of bodies from the queue and copies their bodies,
// since a caller may stop waiting and reuse them at any time. closed says that Close was called.
func (w *writer) take() (group []*request, closed bool) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for ; n < len(s.queue) && (n == 0 || size+len(s.queue[n].frame.Body) <= maxGroup); n++ {
		size += len(s.queue[n].frame.Body)
	}
	group = s.queue[:n:n]
	s.queue = s.queue[n:]
	buf := w.buf[:0]
	if cap(buf) < size {
		buf = make([]byte, 0, max(size, min(2*cap(buf), maxGroup)))
	}
	for _, r := range group {
		at := len(buf)
		buf = append(buf, r.frame.Body...)
		r.frame.Body, r.copied = buf[at:len(buf):len(buf)], true
	}
	if w.buf = buf; cap(buf) > maxGroup { // of a single payload that hardly compresses
		w.buf = nil
	}
	return group, s.disk.Closed()
}

// commit writes the first requests of a group, makes them durable with one sync, and answers
// their callers, with an error if they could not be written. It returns the requests that are still
// to be written: none, unless the spool is nearly full.
func (w *writer) commit(group []*request) (rest []*request) {
	group, rest, size := w.admit(group)
	if len(group) == 0 {
		return nil
	}
	err := w.write(group, size)
	if err != nil && w.fits(size) == nil { // once more, to a new segment; the old one is abandoned
		err = w.write(group, size)
	}
	w.tell(err)
	s := w.s
	if err != nil {
		w.disown(group)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range group {
		if err == nil {
			s.take(w.seg, r)
		}
		r.done <- err
	}
	return rest
}

// take enters the payload of request r, whose frame in segment g is durable. The payload then waits
// in the spool. With r.hold it counts as given out by Next instead; with r.gaveUp (the caller has
// stopped waiting) it ends at once. A payload that its caller gave up, or that is
// written a second time, may have several frames in the spool; s.copies counts them. Needs mu.
func (s *Spool) take(g *segment, r *request) {
	e := g.newSlot(r.p, r.spooled)
	e.put(r.at, r.size)
	sh := g.add(r.route, e)
	e = sh.slots[len(sh.slots)-1]
	s.list(sh)
	s.lane(sh.to).fresh++
	if s.gaveUp[e.id] || r.second {
		s.copies[e.id]++
	}
	switch {
	case r.gaveUp:
		s.gaveUp[e.id] = true
		s.endFresh(sh, &e)
	case r.hold != nil:
		s.give(sh, &e, r.hold)
	}
}

// disown calls OnUnwanted with the requests of a failed group whose frames may have
// reached the disk.
func (w *writer) disown(group []*request) {
	var ids []record.BatchID
	for _, r := range group {
		if r.written {
			ids = append(ids, r.p.ID)
		}
	}
	if len(ids) > 0 {
		w.s.o.OnUnwanted(ids)
	}
}

// write appends the requests of a group to the current segment, or to a new one if they do not fit, and
// syncs. size is the most bytes that they and their index entries take. After an error the segment is
// not used any more.
func (w *writer) write(group []*request, size int64) error {
	if w.out == nil || w.out.Size()+w.aside+size > w.limit {
		if err := w.rotate(size); err != nil {
			return err
		}
	}
	for _, r := range group {
		r.at, r.written = w.out.Size(), true
		if err := w.disk(func() error { return w.out.Append(r.frame) }); err != nil {
			return w.abandon(err)
		}
		r.size = w.out.Size() - r.at
		w.aside += w.indexed(r)
	}
	if err := w.disk(w.out.Sync); err != nil {
		return w.abandon(err)
	}
	w.used = time.Now()
	w.grown()
	return nil
}

// indexed returns how many bytes the payload of request r adds to the index of the current segment,
// at most. It is more for the first payload of a route or an input, which the index has to name.
func (w *writer) indexed(r *request) int64 {
	inputs, known := 0, true
	r.p.Inputs(func(input string, _ int) {
		k := served{r.route, input}
		inputs, known = inputs+1, known && w.served[k]
		w.served[k] = true
	})
	if inputs == 1 && known {
		return slotSize + 1
	}
	return indexCost(r.p)
}

// served is a pair of route and input of which the current segment has payloads.
type served struct {
	to    route
	input string
}

// disk makes a call that may hang and records since when it runs, so that others can tell that it
// hangs.
func (w *writer) disk(call func() error) error { return w.s.disk.Call(call) }

// rotate closes the current segment, if there is one, and begins one that can take at least size
// bytes. It allocates the space of a whole segment in advance, but not more than max_size leaves, and
// not more than half of what the disk has beyond min_free. After an error there is no current segment.
func (w *writer) rotate(size int64) error {
	if w.out != nil {
		_ = w.retire()
	}
	s := w.s
	// Of the disk no more than half of what is left is set aside: others live there
	// too, such as the journal.
	room := max(size, min(s.segmentSize(), -w.shortOfQuota(0), -w.shortOfDisk(0)/2))
	g := s.newNumber()
	err := w.disk(func() (err error) {
		if err = durable.MkdirAll(s.o.FS, s.dir); err == nil {
			err = w.lockFolder()
		}
		return err
	})
	if err == nil {
		w.out, err = w.create(g, w.record, room)
	}
	if err != nil {
		w.out = nil
		return err
	}
	w.seg, w.limit, w.aside, w.used = g, w.out.Size()+room, 0, time.Now()
	w.served = map[served]bool{}
	g.size = w.out.Size()
	s.mu.Lock()
	g.open, g.agreed = true, true // the journal knows each payload before its Put
	s.segments = append(s.segments, g)
	s.mu.Unlock()
	s.segmentsChanged()
	return nil
}

// create creates the file of segment g, with room for so many bytes of frames. Its first record gets
// the id record. After an error nothing of the file is left, if the disk lets it be removed.
func (w *writer) create(g *segment, record uint64, room int64) (out *durable.Segment, err error) {
	s := w.s
	h := durable.Header{Kind: kind, Major: major, Minor: minor, Seq: g.seq, Agent: w.agent, FirstRecord: record, Created: s.o.Now()}
	err = w.disk(func() (err error) {
		out, err = durable.Create(s.o.FS, s.path(g.name), h, room+overhead)
		return err
	})
	if err != nil {
		_ = w.disk(func() error { return s.o.FS.Remove(s.path(g.name + durable.TempSuffix)) })
	}
	return out, err
}

// seal ends a segment: it appends the seal (the mark of a clean end), syncs the file and closes it.
func (w *writer) seal(out *durable.Segment) (err error) {
	seal := durable.Frame{Type: typeSeal, Flags: durable.Optional}
	for _, step := range []func() error{func() error { return out.Append(seal) }, out.Sync, out.Close} {
		if err == nil {
			err = w.disk(step)
		}
	}
	return err
}

// grown takes over the size of the current segment's file into w.seg.size, which counts for max_size.
func (w *writer) grown() {
	w.s.mu.Lock()
	w.seg.size = w.out.Size()
	w.s.mu.Unlock()
}

// abandon stops using the current segment after an error, which it logs and returns. What
// was synced in the segment stays and is sent.
func (w *writer) abandon(err error) error {
	w.log.Warn("spool segment is closed after a write error; payloads already synced to it are still sent, new payloads go to another segment", "file", w.seg.name, "err", err)
	w.grown()
	w.leave()
	return err
}

// leave stops writing to the current segment after an error, and frees the space after its last
// synced byte; what was not synced is written to another segment, or refused to its caller. The
// index is written first: without it, a segment that is shorter than its allocated space
// would count as cut.
func (w *writer) leave() {
	g, size := w.seg, w.out.Synced()
	_ = w.s.writeIndex(g, size, w.out.NextRecord())
	if w.trim(g, size) != nil {
		size = w.limit + overhead // all that was allocated stays in use
	}
	w.forget(size)
}

// retire finishes the current segment, in which everything is synced: it seals the file and writes the
// index. After an error the segment is left as after
// a failed write; its payloads are on disk all the same. Afterwards there is no current segment.
func (w *writer) retire() error {
	if err := w.seal(w.out); err != nil {
		w.log.Warn("spool segment could not be finished and closed; its payloads are on disk and are still sent, new payloads go to another segment", "file", w.seg.name, "err", err)
		w.leave()
		return err
	}
	w.s.mu.Lock()
	live := w.seg.live
	w.s.mu.Unlock()
	if live > 0 { // else it needs no index
		if err := w.s.writeIndex(w.seg, w.out.Size(), w.out.NextRecord()); err != nil {
			w.log.Warn("index of a spool segment could not be written; the next start reads the whole segment instead", "file", w.seg.name, "err", err)
		}
	}
	w.forget(w.out.Size())
	return nil
}

// forget ends the writing of the current segment, whose file has this size: the next payload begins a
// new one.
func (w *writer) forget(size int64) {
	w.record = w.out.NextRecord()
	w.s.mu.Lock()
	w.seg.size, w.seg.open = size, false
	w.s.mu.Unlock()
	w.out, w.seg, w.aside = nil, nil, 0
}

// trim cuts the file of a segment that is not written any more to its first size bytes. After an error
// it counts with the size it had.
func (w *writer) trim(g *segment, size int64) error {
	err := w.disk(func() error {
		f, err := w.s.o.FS.Open(w.s.path(g.name), os.O_RDWR)
		if err != nil {
			return err
		}
		return errors.Join(f.Truncate(size), f.Close())
	})
	if err == nil {
		w.s.mu.Lock()
		g.size = size
		w.s.mu.Unlock()
	}
	return err
}

// tell notes whether payloads can be written, for Health and the time of the next try: nil, or the
// error of the last write. While the spool is full, a small payload that was written does not end
// that: it ends when the last payload that was refused would fit.
func (w *writer) tell(err error) {
	if err == nil && w.isFull() {
		err = w.couldFit(w.refused)
	}
	w.s.disk.Report(err)
}

// probe tests, without a Put, whether the trouble that Health reports is over, and notes the result
// as tell does.
func (w *writer) probe() {
	trouble := w.s.disk.Err()
	switch {
	case trouble == nil:
	case w.s.cfg().MaxSize <= 0: // the spool is off: tried again later, since a reload may turn it on
		w.tell(trouble)
	case errors.Is(trouble, ErrFull):
		w.tell(w.couldFit(w.refused))
	case w.out != nil: // a segment could be begun since
		w.tell(nil)
	default: // beginning a segment shows whether the disk can be written
		w.tell(w.rotate(0))
	}
}
