package audit

import (
	"cmp"
	"encoding/binary"
	"time"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
)

// fate is what became of a range.
type fate uint8

const (
	accepted fate = iota
	quarantined
	dropped
	gone      // unknown, and its source is gone
	skipped   // nothing to send
	abandoned // given up before it was read
	removed   // given up by a person
	evicted   // dropped by a full quarantine
	fates
)

// fateOf is what became of the ranges of a batch that ended so; those of others are in further
// batches.
var fateOf = map[record.Outcome]fate{
	record.Accepted: accepted, record.Quarantined: quarantined, record.Dropped: dropped, record.Removed: removed, record.SourceGone: gone,
}

// history is what the entries of a journal add up to, range by range. It does no I/O. Its
// memory is that of the merged ranges of each file, of the batches that have not ended,
// and of the ids of those that ended in the two segments read last.
type history struct {
	since time.Time // what was told before is not judged

	files   map[record.File]*file
	latest  *file // that was asked for; nil: none
	open    map[record.BatchID]*batch
	gone    map[record.BatchID]*batch // given up, since they were nowhere; see begin
	resting map[record.BatchID]*batch // in the spool, by what was told
	ended   [2]endings                // of what ended in this segment and the one before

	pieces bool     // each that was accepted is kept
	spare  []*batch // that have ended, to be used again

	from, until time.Time
	whole       bool // it begins with the journal
	segment     uint64
	base        uint64 // entries of the first segment up to this number are what was before
	baseSegment uint64
	run         [16]byte
	baseRun     [16]byte  // of the first snapshot; zero: not known
	boot        string    // running of the machine
	cut         time.Time // when the run began before which the machine stopped; zero: it did not
	stopped     bool      // the last entry is a clean stop
	entries     int64
	unread      int // ranges of the journal that cannot be read
}

// file is one generation of one file, as one input reads it.
type file struct {
	name      record.File
	info      record.FileInfo
	seen      bool // info was told
	forgotten bool
	redo      redo
	base      spans // safe before the time that is judged
	first     spans // the part of base that the first snapshot told
	vouched   spans // safe by a checkpoint
	strands   []*strand
	doubts    []*Doubt
	overlaps  []Overlap
	sent      []sent // with history.pieces
	over      spans  // all of overlaps
	moreOver  int
	moreDoubt int
}

// strand is what became of the ranges of a file that had the same route; those without one
// have the zero route.
type strand struct {
	route   record.Route
	sets    [fates]spans
	records [fates]int64
	bytes   [fates]int64 // in records, without what needed no sending
	batches [fates]int64
}

// batch is one that has not ended.
type batch struct {
	id      record.BatchID
	route   record.Route
	shaping uint64
	attempt int
	tried   bool // in this run
	again   bool // it ended already: what is told of it was told before
	last    int  // its last attempt when it ended
	covers  []cover
	sums    []sum
	pieces  []piece // with history.pieces
	doubt   *Doubt
}

type piece struct {
	f *file
	record.Span
	records int
}

type cover struct {
	f *file
	record.Span
}

type sum struct {
	f       *file
	records int
	bytes   int64
}

// listed is how many doubts and overlaps of a file are named one by one.
const listed = 1000

// newHistory returns an empty history, which adds up the entries of a journal. It judges what ended
// at the time since or later; the zero time: all.
func newHistory(since time.Time) *history {
	return &history{since: since,
		files: map[record.File]*file{}, open: map[record.BatchID]*batch{}, gone: map[record.BatchID]*batch{}, resting: map[record.BatchID]*batch{},
		ended: [2]endings{newEndings(), newEndings()}}
}

// endings are the last attempts of batches that ended.
type endings struct {
	attempts map[record.BatchID]int
	perhaps  *[1 << 14]uint64 // bits by id: what has none is not in attempts, which costs less to find out
}

func newEndings() endings { return endings{map[record.BatchID]int{}, new([1 << 14]uint64)} }

// bitOf returns where the bit of a batch is in endings.perhaps: the index of the word, and the bit
// in it. Several batches may share a bit.
func bitOf(id *record.BatchID) (word, bit uint64) {
	n := (binary.LittleEndian.Uint64(id[:]) ^ binary.LittleEndian.Uint64(id[8:])) * 0x9e3779b97f4a7c15 >> 44
	return n >> 6, 1 << (n & 63)
}

// add stores that a batch has ended, with the number of its last request.
func (e *endings) add(id record.BatchID, attempt int) {
	word, bit := bitOf(&id)
	e.perhaps[word] |= bit
	e.attempts[id] = attempt
}

// last returns the number of the last request of a batch, as it was added; false if the batch has
// not ended as far as is known. The bits, which several batches may share, spare most look-ups in
// the map.
func (e *endings) last(id record.BatchID) (attempt int, ended bool) {
	if word, bit := bitOf(&id); e.perhaps[word]&bit != 0 {
		attempt, ended = e.attempts[id]
	}
	return attempt, ended
}

// clear removes all batches and keeps the memory for the next ones.
func (e *endings) clear() {
	clear(e.attempts)
	clear(e.perhaps[:])
}

// file returns what is known of a file, and creates an empty record of it if there is none yet. It
// remembers the file that was asked for last, since entries about one file often follow each other.
func (h *history) file(name record.File) *file {
	if h.latest != nil && h.latest.name == name {
		return h.latest
	}
	f := h.files[name]
	if f == nil {
		f = &file{name: name}
		h.files[name] = f
	}
	h.latest = f
	return f
}

// strand returns the strand of a route: what became of those ranges of the file that were sent by
// this route. It creates an empty one if there is none yet. The zero route is for ranges that were
// not sent.
func (f *file) strand(r record.Route) *strand {
	for _, s := range f.strands {
		if s.route == r {
			return s
		}
	}
	s := &strand{route: r}
	f.strands = append(f.strands, s)
	return s
}

// take adds one entry of the journal. The same entry may come twice, in adjacent segments.
func (h *history) take(e *journal.Entry) {
	h.entries++
	if e.Segment != h.segment {
		h.segment = e.Segment
		old := h.ended[1]
		h.ended[1] = h.ended[0]
		old.clear() // it has room for as many as a segment has
		h.ended[0] = old
	}
	if e.Kind != journal.Unread && e.At.After(h.until) && !e.InSnapshot {
		h.until = e.At
	}
	wasStopped := h.stopped
	h.stopped = e.Kind == journal.Stopped
	before := e.Segment == h.baseSegment && e.Number <= h.base
	switch e.Kind {
	case journal.Snapshot:
		h.snapshot(e, wasStopped)
	case journal.FileSeen:
		f := h.file(e.File)
		f.info, f.seen, f.forgotten = e.Info.Info(), true, false
	case journal.Position:
		h.vouch(e.File, record.Span{End: e.Span.End}, before)
	case journal.Skip:
		if e.InSnapshot {
			h.vouch(e.File, e.Span, before)
		} else {
			h.tell(h.file(e.File), record.Route{}, skipped, e.Span, e.At, record.BatchID{})
		}
	case journal.Abandoned:
		h.tell(h.file(e.File), record.Route{}, abandoned, e.Span, e.At, record.BatchID{})
	case journal.Removed:
		f := h.file(e.File)
		st := f.strand(record.Route{})
		how, n := removed, int64(1)
		if e.Count > 0 {
			how, n = evicted, int64(e.Count)
		}
		if !e.At.Before(h.since) && len(st.sets[how].within(e.Span)) == 0 { // else this repeats an earlier entry
			st.records[how] += n
		}
		h.tell(f, record.Route{}, how, e.Span, e.At, record.BatchID{})
	case journal.Begin:
		if old := h.open[e.Payload.Replaces]; old != nil {
			h.over(old, record.Replaced)
		}
		h.begin(e.Payload, e.At)
	case journal.Attempt:
		h.tried(h.open[e.Batch], e.Attempt)
	case journal.Replay:
		switch b := h.resting[e.Batch]; {
		case e.InSnapshot:
		case !e.Answered:
			h.tried(b, e.Attempt)
		case b != nil && b.attempt <= e.Attempt:
			b.tried = false
		}
	case journal.Unknown:
		if b := h.find(e.Batch); b != nil && !b.again {
			h.doubt(b, NoAnswer, e.At)
		}
	case journal.End:
		h.end(e)
	case journal.ReplayEnd:
		if b := cmp.Or(h.resting[e.Batch], h.back(e.Batch)); b != nil {
			h.close(b, e.Outcome, e.At)
		}
	case journal.Split:
		if b := h.open[e.Batch]; b != nil {
			h.over(b, record.Split)
		}
		for i := range e.Children {
			h.begin(&e.Children[i].Payload, e.At)
		}
	case journal.Forget:
		h.file(e.File).forgotten = true
	case journal.Unread:
		h.unread++
	}
}

// snapshot takes in the first entry of a segment, after which the state of the agent at that time
// is repeated. If another run of the agent began without a clean stop of the one before (stopped),
// requests that were in flight then have an unknown outcome. If the machine itself was started
// again, the journal may also lack its last entries. The first snapshot of all begins the history.
func (h *history) snapshot(e *journal.Entry, stopped bool) {
	first := h.from.IsZero()
	if first {
		h.from, h.base, h.baseSegment, h.baseRun = e.At, e.Number+e.Count, e.Segment, e.Run
		h.whole = e.Number == 1 && e.Count == 0
	}
	if e.Run != h.run {
		h.cut = time.Time{}
		// Another boot id: the machine stopped, and what was not yet on its disk is lost.
		switch lost := h.boot != "" && e.BootID != "" && h.boot != e.BootID; {
		case first, stopped:
		case lost:
			h.machineStopped(e.At)
		default:
			h.killed()
		}
		h.each(func(b *batch) { b.tried = false })
		h.run = e.Run
	}
	h.boot = e.BootID
}

// killed is called when a run of the agent ended without a clean stop. It marks the outcome of all
// batches as unknown for which that run made a request (tried), since the request may have been in
// flight.
func (h *history) killed() {
	h.each(func(b *batch) {
		if b.tried && !b.again {
			h.doubt(b, Killed, h.until)
		}
	})
}

// each calls f with the batches that are begun and have not ended, and with those in the spool.
func (h *history) each(f func(*batch)) {
	for _, all := range []map[record.BatchID]*batch{h.open, h.resting} {
		for _, b := range all {
			f(b)
		}
	}
}

// redo is the part of a file that may have been sent in the last moments before the machine
// stopped, of which the journal has lost what it was told.
type redo struct {
	record.Span
	from    bool // Start is known
	settled bool // so is End: the size that the file had when a batch was begun again
}

// machineStopped is called when the machine stopped, so that the journal may have lost its last
// entries. at is when the next run began. Every batch that has not ended may have been sent, and so
// may the part of each file (redo) behind the first range, from the beginning of the file, that is
// known to be safe.
func (h *history) machineStopped(at time.Time) {
	h.cut = at
	h.each(func(b *batch) {
		if !b.again {
			h.doubt(b, MachineStopped, h.until)
		}
	})
	for _, f := range h.files {
		f.redo = redo{from: true}
		known := f.base.with(f.vouched)
		for _, s := range f.strands {
			for how, set := range s.sets {
				if fate(how) != abandoned {
					known = known.with(set)
				}
			}
		}
		if len(known) > 0 && known[0].Start == 0 {
			f.redo.Start = known[0].End
		}
	}
}

// sentBefore reports whether a part of the range s may have been sent before the machine stopped,
// in requests that the journal has lost. A file that the journal did not know then counts if it
// existed, and so does a file that was truncated just then. Of each file only as many bytes count
// as it had when a batch of it was begun again.
func (h *history) sentBefore(f *file, s record.Span) bool {
	if !f.redo.from { // the file was not known when the machine stopped
		if h.cut.IsZero() || f.info.Birth > h.cut.UnixNano() {
			return false
		}
		if was := h.files[record.File{Input: f.name.Input, ID: f.name.ID, Generation: f.name.Generation - 1}]; was != nil && was.redo.settled {
			return false // it was truncated since
		}
		f.redo.from = true
	}
	if f.info.Path == "" { // of it the journal has a payload that the spool kept, and not how large it was
		return true
	}
	if !f.redo.settled {
		f.redo.End, f.redo.settled = f.info.Size, true
	}
	return s.Start < f.redo.End && s.End > f.redo.Start
}

// vouch records the range s of a file as safe by a checkpoint, which does not tell what became of
// it. If before is set, the range was safe before the time that the audit judges.
func (h *history) vouch(name record.File, s record.Span, before bool) {
	f := h.file(name)
	if before {
		f.base, f.first = f.base.add(s), f.first.add(s)
	} else {
		f.vouched = f.vouched.add(s)
	}
}

// tell records that the range s of a file ended at the time at with the fate how (what became of
// it: accepted, dropped and so on), for the route r, in the batch by. If it was accepted, tell also
// records where it overlaps with ranges that were accepted before. Ranges that ended before the
// time that is judged only count as safe, unless they were given up unread.
func (h *history) tell(f *file, r record.Route, how fate, s record.Span, at time.Time, by record.BatchID) {
	if at.Before(h.since) {
		if how != abandoned { // if the file comes back, the range may still be read
			f.base = f.base.add(s)
		}
		return
	}
	st := f.strand(r)
	if how == accepted && s.Len() > 0 {
		f.overlap(h.safeBefore(f), s, by)
		for _, other := range f.strands {
			f.overlap(other.sets[accepted], s, by)
		}
	}
	st.sets[how] = st.sets[how].add(s)
}

// safeBefore returns the ranges of a file that were safe before the time that is judged: a batch
// with them that is accepted now was sent a second time. In the run of the agent that wrote the
// first snapshot, the ranges of that snapshot are left out. That run does not read them again, and
// what it records about them repeats entries of segments that are deleted.
func (h *history) safeBefore(f *file) spans {
	switch {
	case h.run != h.baseRun || h.run == [16]byte{}:
		return f.base
	case h.since.IsZero():
		return nil
	}
	return f.base.without(f.first)
}

// overlap records which parts of the range s, which the batch by has delivered, are in before, the
// ranges that were safe already. The first listed of them are kept one by one, further ones are
// counted.
func (f *file) overlap(before spans, s record.Span, by record.BatchID) {
	for _, o := range before.within(s) {
		f.over = f.over.add(o)
		if len(f.overlaps) >= listed {
			f.moreOver++
			continue
		}
		f.overlaps = append(f.overlaps, Overlap{Start: o.Start, End: o.End, Batch: by.String()})
	}
}

// find returns a batch that is begun and has not ended, or that is in the spool; nil if
// the batch is neither.
func (h *history) find(id record.BatchID) *batch { return cmp.Or(h.open[id], h.resting[id]) }

// begin adds a batch that has begun, by its entry in the journal or by what a snapshot repeats; at
// is the time of that. A batch that has ended already is marked as again: what the journal says
// about it now was counted before, unless another request is made for it.
func (h *history) begin(p *record.Payload, at time.Time) {
	if b := h.open[p.ID]; b != nil {
		h.tried(b, p.Attempt)
		return
	}
	h.back(p.ID)
	b := h.unused()
	b.id, b.route, b.shaping, b.attempt, b.tried = p.ID, p.Route, p.Shaping, p.Attempt, p.Attempt > 0
	for i := range h.ended { // of this segment of the journal and of the one before
		if last, ended := h.ended[i].last(p.ID); ended {
			b.last = max(b.last, last)
			b.again = b.attempt <= b.last
		}
	}
	// The spool has lost it, and it is begun again; or this repeats an earlier entry.
	if old := h.resting[p.ID]; old != nil {
		b.doubt = old.doubt
		if b.attempt <= old.attempt {
			b.attempt, b.tried = old.attempt, old.tried
		}
	}
	for i := range p.Cover {
		b.covers = append(b.covers, cover{h.file(p.Cover[i].File), p.Cover[i].Span})
	}
	for i := range p.Pieces {
		x := &p.Pieces[i]
		if n := len(b.sums); n == 0 || b.sums[n-1].f.name != x.File {
			b.sums = append(b.sums, sum{f: h.file(x.File)})
		}
		s := &b.sums[len(b.sums)-1]
		s.records += x.Records
		s.bytes += x.Len()
		if h.pieces {
			b.pieces = append(b.pieces, piece{s.f, x.Span, x.Records})
		}
	}
	h.open[p.ID] = b
	for _, c := range b.covers { // after a stop of the machine a lost request may have sent them
		if (c.f.redo.from || !h.cut.IsZero()) && !b.again && h.sentBefore(c.f, c.Span) {
			h.doubt(b, MachineStopped, at)
		}
	}
}

// back takes back that a batch was given up because it was nowhere, and returns it; nil if it was not.
// It is begun again or ends once more, since a disk of the spool came back that has it, or this repeats
// an earlier entry.
func (h *history) back(id record.BatchID) *batch {
	b := h.gone[id]
	if b == nil {
		return nil
	}
	delete(h.gone, id)
	for _, c := range b.covers {
		st := c.f.strand(b.route)
		st.sets[gone] = st.sets[gone].without(spans{c.Span})
	}
	b.count(gone, -1)
	return b
}

// count adds the records of a batch, times sign, to those of its route that ended in this way.
func (b *batch) count(how fate, sign int64) {
	for _, s := range b.sums {
		st := s.f.strand(b.route)
		st.records[how] += sign * int64(s.records)
		st.bytes[how] += sign * s.bytes
		st.batches[how] += sign
	}
}

// tried records that request number attempt was made for the batch b; nil: for none that is known.
// A request beyond the last one before the end of a batch means that the batch is sent once more,
// so that what follows is no repetition (again) of what was counted.
func (h *history) tried(b *batch, attempt int) {
	if b == nil || attempt <= b.attempt {
		return
	}
	b.attempt, b.tried = attempt, true
	if b.again && attempt > b.last {
		b.again = false
	}
}

// end takes in the end of a batch. A batch that went to the spool waits there, in h.resting, for
// its own end; any other outcome closes the batch. An unknown batch is ignored.
func (h *history) end(e *journal.Entry) {
	b := h.open[e.Batch]
	if b == nil {
		return
	}
	if e.Outcome != record.Spooled {
		h.close(b, e.Outcome, e.At)
		return
	}
	delete(h.open, b.id)
	if !b.again {
		h.resting[b.id] = b
	}
}

// close records the outcome of a batch for all its ranges, and removes the batch. If other batches
// carry on with its ranges, such as the parts of a batch that was divided, the batch is only
// removed. Nothing is recorded of a batch that ended before (again).
func (h *history) close(b *batch, how record.Outcome, at time.Time) {
	if f, final := fateOf[how]; final && !b.again { // else others carry on with its ranges
		for _, c := range b.covers {
			h.tell(c.f, b.route, f, c.Span, at, b.id)
		}
		if !at.Before(h.since) {
			for _, p := range b.pieces {
				if f == accepted {
					p.f.sent = append(p.f.sent, sent{p.Span, p.records, b.id, b.route, at, b.shaping})
				}
			}
			if b.count(f, 1); f == gone {
				h.gone[b.id] = b
			}
		}
	}
	h.over(b, how)
}

// unused returns an empty batch. It takes the memory of a batch that has ended, if there is one.
func (h *history) unused() *batch {
	n := len(h.spare)
	if n == 0 {
		return &batch{}
	}
	b := h.spare[n-1]
	h.spare = h.spare[:n-1]
	*b = batch{covers: b.covers[:0], sums: b.sums[:0], pieces: b.pieces[:0]}
	return b
}

// over removes a batch that has ended, and keeps the number of its last request. If its outcome was
// unknown for a time, the report gets the outcome how.
func (h *history) over(b *batch, how record.Outcome) {
	if b.doubt != nil {
		b.doubt.Ended = how.String()
	}
	delete(h.open, b.id)
	delete(h.resting, b.id) // where it also is if the spool lost it and it was begun again
	if h.gone[b.id] == b {
		return
	}
	h.ended[0].add(b.id, b.attempt)
	if b.doubt == nil && len(b.covers) <= fewCovers { // a doubt still uses the ranges
		h.spare = append(h.spare, b)
	}
}

// fewCovers is how many ranges a batch has at most whose memory is used again.
const fewCovers = 64

// doubt records that the outcome of a request of a batch is unknown, for the reason why, in the
// reports on all files of the batch. A second doubt about the same batch, or one before the time
// that is judged, changes nothing.
func (h *history) doubt(b *batch, why Cause, at time.Time) {
	if b.doubt != nil || at.Before(h.since) {
		return
	}
	b.doubt = &Doubt{Batch: b.id.String(), Why: why, covers: b.covers}
	var last *file
	for _, s := range b.sums {
		b.doubt.Records += int64(s.records)
	}
	for _, c := range b.covers {
		if c.f == last || c.Len() == 0 {
			continue
		}
		if last = c.f; len(c.f.doubts) >= listed {
			c.f.moreDoubt++
			continue
		}
		c.f.doubts = append(c.f.doubts, b.doubt)
	}
}
