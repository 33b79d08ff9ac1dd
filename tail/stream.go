package tail

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/lineage"
	"kusto-agent/tail/internal/records"
	"kusto-agent/tail/internal/tracker"
)

// stream is the log of one container: the files that are written at one path, one
// after the other. A message can begin at the end of one of them and go on in the next,
// so no two workers have files of a stream at the same time: who has one of them may use
// the readers of all. Guarded by Tailer.mu.
type stream struct {
	home    string    // the path where its files are written
	files   []*reader // in the order they were found
	busy    bool      // a worker has one of them
	waiting []*reader // that are to have a turn when that one has ended
}

// joint is what a reader has to do with the others of its stream. It belongs to the worker that has
// one of these; nobody else uses more of it than the stream.
type joint struct {
	stream *stream // nil: its file is no part of one
	seeks  uint64  // >0: it has not begun, and waits for the end of that scan, and then for the file before
	asks   *reader // of the file before
	asked  time.Time
	sure   uint64   // the scan that has found all files between the two
	left   uint64   // that in which its file was found to be gone, and others were looked for beside it; guarded by Tailer.mu
	carry  *partial // the message that its file begins in the middle of
	lent   *reader  // that carries the open message at the end of this file
	parked bool     // its last turn led to that
}

// alone is the joint of all files that are no part of a stream. It is never written.
var alone joint

// shortAnswer is how long a file that still grows is waited for before its end is
// believed: a runtime may write to the next file first.
const shortAnswer = 250 * time.Millisecond

// joinStream adds a reader to the stream of its file, if the input reads container logs. At the
// start of its file it waits for the file before (seeks). The caller holds mu.
func (t *Tailer) joinStream(r *reader) {
	if !r.in.Carries() {
		return
	}
	home := lineage.Home(r.Info.First)
	s := r.in.streams[home]
	if s == nil {
		s = &stream{home: home}
		r.in.streams[home] = s
	}
	s.files = append(s.files, r)
	r.own().joint = &joint{stream: s}
	if r.Offset() == 0 {
		r.seeks = max(t.scans.no, 1)
	}
}

// leaveStream removes a reader from its stream: messages that it shares are read again, and readers
// that wait for its file get a turn. The caller holds mu and has the turn of the reader.
func (t *Tailer) leaveStream(r *reader) {
	s := r.stream
	if s == nil {
		return
	}
	for _, o := range r.part() {
		t.readyLocked(o)
	}
	r.joint = new(joint) // of its own, because the turn under way may still write to it
	if s.files = slices.DeleteFunc(s.files, func(o *reader) bool { return o == r }); len(s.files) == 0 {
		delete(r.in.streams, s.home)
	}
	maps.DeleteFunc(r.in.untold, func(_ inode.Node, u lineage.Packed) bool {
		return u.Home == s.home && !slices.ContainsFunc(s.files, func(o *reader) bool { return u.MayLieBehind(o.lineage()) })
	})
	for _, o := range s.files {
		if o.asks == r {
			o.asks = nil
			t.readyLocked(o)
		}
	}
}

// nextTurn takes the next reader from the queue; nil: there is none. One whose stream is busy is
// set aside until that turn ends. The caller holds mu.
func (t *Tailer) nextTurn() *reader {
	for len(t.turns.queue) > 0 {
		r := t.turns.queue[0]
		t.turns.queue[0] = nil
		t.turns.queue = t.turns.queue[1:]
		switch s := r.stream; {
		case s == nil:
			return r
		case s.busy:
			s.waiting = append(s.waiting, r)
		default:
			s.busy = true
			return r
		}
	}
	return nil
}

// endTurn ends the turn of r, of which did is the report, in its stream s (nil: it has none): readers that
// waited for it are queued, and, unless r reads on, those that asked for its file. In a run --once the others
// may wait for r to begin. The caller holds mu.
func (t *Tailer) endTurn(s *stream, r *reader, did *report) {
	if s == nil {
		return
	}
	r.parked, s.busy = did.next.Waits(), false
	for _, o := range s.files {
		if o.asks == r && did.next != tracker.More || did.begun && t.o.Once && o != r {
			t.readyLocked(o)
		}
	}
	t.turns.queue = append(t.turns.queue, s.waiting...)
	for range s.waiting {
		t.turns.work.Signal()
	}
	s.waiting = nil
}

// waitForFile returns the outcome of a turn that waits for another file of the stream: only in a
// run --once does no turn come before that file is done.
func (t *Tailer) waitForFile() tracker.Outcome {
	if t.o.Once {
		return tracker.Parked
	}
	return tracker.Idle
}

// startInStream reports whether a reader may read on in this turn. At the start of its file it waits until
// the file before was read to its end, and takes over the open message there (carry).
func (w *worker) startInStream(r *reader) bool {
	switch {
	case r.seeks == 0, r.Size == 0 && !w.t.o.Once: // it has no bytes yet
		return true
	case r.Size > 0 && r.Offset() == 0 && !w.job.life.IsDraining():
		ask := starting{r: r}
		if w.t.on(&ask); ask.wait || ask.before != nil && w.joinMessage(r, ask.before) == errNoPlace {
			return false
		}
	}
	r.seeks, r.asks, w.report.begun = 0, nil, true
	return true
}

// joinMessage has r carry the open message at the end of the file before, if it has one. An error is one of
// reading, which the next turn of the reader of that file logs, or errNoPlace.
func (w *worker) joinMessage(r, before *reader) error {
	p, err := w.openMessage(before)
	if p != nil {
		before.lent, r.carry = r, p
		r.ForgetRecord()
		r.Settled, r.OpenSince = 0, before.OpenSince
		w.report.others = append(w.report.others, before) // to show that it waits
	}
	return err
}

// starting is that a worker is about to read the file of its reader from the start; see Tailer.before.
type starting struct {
	r      *reader
	before *reader
	wait   bool
}

func (e *starting) happen(t *Tailer) { e.before, e.wait = t.before(e.r) }

// before returns the reader of the previous file of the stream if that ends with an open message
// which r continues. wait says that this is not known yet. When r first asks about a file, the
// folders are scanned, since a file between the two may not be known yet. The caller holds mu.
func (t *Tailer) before(r *reader) (before *reader, wait bool) {
	if t.scans.done.Load() < r.seeks { // a scan may still find the file before it
		return nil, true
	}
	o, doubted := r.in.predecessor(r)
	switch {
	case doubted: // the file between the two may have the message that goes on here
		return nil, true
	case o == nil:
		return nil, false
	case o != r.asks:
		r.asks, r.asked, r.sure = o, time.Now(), t.scans.no+1
		t.rescanSoon()
		t.readyLocked(o)
		return nil, true
	case o.life.Turn() != tracker.Resting, o.seeks > 0 && o.Size > 0: // the file before is being read, or waits for one before it
		return nil, true
	}
	soon := min(shortAnswer, r.in.RotateQuiet.D()/4)
	grows := !t.o.Once && time.Since(r.asked) < soon && o.grown.Ago() < soon
	switch open, left := o.IsOpen(o.Size), o.hasLeft() && (t.o.Once || t.scans.done.Load() >= max(r.sure, o.joint.left)); {
	case grows, open && !left && !t.o.Once: // it still grows, or a file between the two may turn up
		return nil, true
	case open && left:
		switch between, unclear := r.in.packedBetween(o, r); {
		case unclear:
			return nil, true
		case !between:
			t.inUse(o)
			return o, false
		}
	case !open && o.parked && o.Offset() < o.End(o.Size): // it waits for room, and may end with an open message
		return nil, true
	}
	return nil, false
}

// lineage is what the order of the files of a stream goes by. The caller holds Tailer.mu.
func (r *reader) lineage() lineage.File {
	return lineage.File{Info: &r.Info, Written: r.shown.mtime, Left: r.hasLeft()}
}

// predecessor returns the reader of the file that was directly before r's file at the same
// path. It returns nil if there is no older file, if the file directly before was read
// to its end and has no reader any more (an older one with unread bytes is not the one that
// r's file continues), or if it is not known which it is (see lineage.Before). doubted says that a file between
// the two may be a copy of another one, so that it is not certain yet which is the one before. The caller
// holds Tailer.mu.
func (in *input) predecessor(r *reader) (of *reader, doubted bool) {
	files := r.stream.files
	var all []lineage.File
	for _, o := range files {
		all = append(all, o.lineage())
	}
	before := lineage.Before(all, slices.Index(files, r))
	if before < 0 {
		return nil, false
	}
	if of = files[before]; of.k.position == of.shown.size {
		return of, false
	}
	for k := range in.known.All() { // one that was read to its end may lie between; see packedBetween for those not yet looked through
		if k.reader != nil || in.packed[k.node()] != nil {
			continue
		}
		if is := k.info.Info(); lineage.LiesBetween(&is, &of.Info, &r.Info, r.stream.home) {
			if _, doubted = in.suspect[k.node()]; !doubted {
				return nil, false
			}
		}
	}
	return of, doubted
}

// packedBetween reports whether a compressed file may hold what was written at the path of the stream
// after the file of o and before that of r. One that is a copy of a file that is being
// read is none: that has a place of its own. unclear: one that is still to be looked through may be of an
// older file. The caller holds Tailer.mu.
func (in *input) packedBetween(o, r *reader) (is, unclear bool) {
	a, b, home := o.lineage(), r.lineage(), r.stream.home
	for _, p := range in.packed {
		if !p.isCopyOf(p.of) && p.lineage().MayLieBetween(a, b, home) {
			is, unclear = true, unclear || p.isPending() && p.failed.IsZero()
		}
	}
	for _, u := range in.untold {
		is = is || u.MayLieBetween(a, b, home)
	}
	return is || some(in.known.All(), func(k *generation) bool { // one that was read since, or is being read
		was := k.info.Info()
		return k != o.k && was.Packed.Size > 0 && lineage.PackedAs(&was).MayLieBetween(a, b, home)
	}), unclear
}

// lineage is what the place of a compressed file between those of a stream goes by.
func (p *packed) lineage() lineage.Packed {
	return lineage.PackedAt(cmp.Or(p.first, p.path), p.st.Mtime, p.st.Birth)
}

// dropPacked forgets a compressed file that is gone, or is not read any more. What it may have held is still
// between the files of its stream. The caller holds Tailer.mu.
func (in *input) dropPacked(p *packed) {
	delete(in.packed, p.st.Node)
	if is := p.lineage(); in.streams[is.Home] != nil && !p.isCopyOf(p.of) {
		in.untold[p.st.Node] = is
	}
}

// hasLeft reports whether another file can be where this one was written. The
// caller holds Tailer.mu.
func (r *reader) hasLeft() bool { return r.life.IsGone() || r.path() != r.stream.home }

// readySeekers gives turns to the readers that wait for the end of a scan, or do so once their turn has ended;
// in a run --once, to all of container logs. The caller holds mu.
func (t *Tailer) readySeekers() {
	for _, in := range t.inputs() {
		for _, s := range in.streams {
			for _, r := range s.files {
				if r.life.Wait() == tracker.ForPredecessor || r.life.IsRunning() || t.o.Once {
					t.readyLocked(r)
				}
			}
		}
	}
}

// awaitsNext reports whether the open message at the end of r's file has to wait: the reader of the
// next file has it (lent), or may still ask for it.
func (w *worker) awaitsNext(r *reader) bool { return r.lent != nil || w.job.asked }

// longestAsk is for how many times rotate_quiet an open message waits for the next file in all, whatever has to be
// found out before that can take it.
const longestAsk = 10

// mayBeAsked reports whether the reader of another file may still take the message at the end of r's: that file
// is not known yet, since no scan has begun after the message was waited for long enough, or it has to be found out
// first which file is before it. The agent may have stood still meanwhile, as in a machine that was suspended. The
// caller holds mu, and the turn of the reader.
func (t *Tailer) mayBeAsked(r *reader) bool {
	switch over := r.OpenSince.Add(r.in.RotateQuiet.D()); {
	case r.stream == nil || r.life.IsDraining():
		return false
	case t.o.Once:
		return r.hasLeft() && (t.scans.done.Load() == 0 || t.isBefore(r))
	case r.OpenSince.IsZero(): // it may turn out in this turn that the file ends with one; a compressed file ends there for good
		return r.z == nil && r.Offset() < r.Size && r.hasLeft() && t.isBefore(r)
	case time.Since(r.OpenSince) >= longestAsk*r.in.RotateQuiet.D():
		return false
	case t.beganScan(uint32(t.scans.done.Load())).Before(over):
		if !time.Now().Before(over) {
			t.rescanSoon()
		}
		return true
	}
	return t.isBefore(r)
}

// isBefore reports whether the reader of another file waits for the end of r's. The caller holds mu, and has the
// stream.
func (t *Tailer) isBefore(r *reader) bool {
	return slices.ContainsFunc(r.stream.files, func(o *reader) bool {
		if o.seeks == 0 || o.Size == 0 && !t.o.Once { // one without bytes does not ask yet
			return false
		}
		before, _ := r.in.predecessor(o)
		return before == r
	})
}

// part gives back the messages that a reader shares with the files before and after its own. It returns the
// readers that are to have a turn. The caller has the stream.
func (r *reader) part() (others []*reader) {
	others = r.stepBack()
	if r.carry != nil {
		others = append(others, r.giveBack(nil))
	}
	return others
}

// stepBack takes the open message at the end of r's file back from the reader of the next file,
// which waits for it again, and so on in the files after that. It returns these readers, which are to have a
// turn. The caller has the stream.
func (r *reader) stepBack() (others []*reader) {
	for o := r.lent; o != nil; r, o = o, o.lent {
		r.lent, o.carry, o.seeks, o.asks = nil, nil, 1, nil
		o.ForgetRecord()
		o.Settled = 0
		others = append(others, o)
	}
	return others
}

// giveBack ends the wait of r for the message that it carries: no line of r can be joined to it, so
// it is sent as it is in the file before; with a, it is too long together, and goes to quarantine.
// It returns the reader of that file, which is to have a turn. The caller has the stream.
func (r *reader) giveBack(a *records.Apart) *reader {
	o := r.carry.from
	r.carry, o.lent = nil, nil
	r.ForgetRecord()
	o.ForgetRecord()
	o.Settled, o.OpenSince = 0, time.Now().Add(-o.in.RotateQuiet.D()) // so the message is sent without more waiting
	if a != nil {
		o.PassApart(a)
	}
	return o
}

// checkLent takes the open message at the end of r's file back if the file has grown, or the agent
// stops.
func (w *worker) checkLent(r *reader) {
	if r.lent == nil || r.IsOpen(r.Size) && !w.job.life.IsDraining() {
		return
	}
	w.report.others = append(w.report.others, r.stepBack()...)
	r.Stuck = 0
}
