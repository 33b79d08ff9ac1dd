package recovery

import (
	"cmp"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"

	"kusto-agent/internal/record"
)

// Found is what spool and journal say at a start.
type Found struct {
	Begun   []*record.Payload      // not ended, oldest first
	Replays map[record.BatchID]int // tried out of the spool and not ended: their last attempt
	// Answered are those of Replays whose last attempt was answered, and not stored.
	Answered map[record.BatchID]bool
	Ended    map[record.BatchID]record.Outcome // ended out of the spool: they may still lie there
	Clean    bool                              // the last run ended in good order
	Had      []uint64                          // the segments that the spool had, as the journal knows
	Has      []uint64                          // those of which it has something
	// Report says, once the spool was gone through, whether it may lack what the journal
	// says is there, and what it knows itself to lack: ids, and how many records.
	Report func() (lacks bool, missing []*record.Payload)
}

// Reconcile makes spool, journal and counts agree at a start. It decides which payloads in the spool
// are sent, and queues for Run the batches that have to be read from their files: those without a
// known outcome, and payloads that the spool has lost. An error is one of reading.
func (r *Recovery) Reconcile(found Found) error {
	s := &start{
		Recovery: r, Found: found, begun: map[record.BatchID]*record.Payload{},
		wholes: map[record.BatchID]*whole{}, partOf: map[record.BatchID]record.BatchID{}, there: map[record.BatchID]bool{}, entered: map[record.BatchID]bool{},
	}
	for _, p := range found.Begun {
		s.begun[p.ID] = p
	}
	if len(found.Had) > 0 { // a new segment with the number of a lost one would hide the loss
		r.Spool.NumberAbove(slices.Max(found.Had))
	}
	r.keepSegments(found.Had)
	if err := s.goThrough(); err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	lacks, missing := found.Report()
	lacks = found.vanished(s.Logger) || lacks
	lacks, err := s.suspect(lacks, missing)
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	s.forget(missing)
	for _, p := range found.Begun {
		if s.begun[p.ID] != nil {
			r.add(&batch{Payload: p, kind: OfRun})
		}
	}
	if lacks {
		if err := s.findMissing(missing); err != nil {
			return err
		}
	}
	r.keepSegments(nil)
	return nil
}

// SegmentsChanged records in the journal which segments the spool has; until Reconcile has
// ended, also those that the journal knew before, with which the spool is compared.
func (r *Recovery) SegmentsChanged() {
	r.notes.Lock()
	defer r.notes.Unlock()
	r.noteSegments()
}

// keepSegments sets the segments that the journal knew before (had), and writes the numbers of these
// and of those that the spool has to the journal. That has to come before any entry about a payload
// in the segments.
func (r *Recovery) keepSegments(had []uint64) {
	r.notes.Lock()
	defer r.notes.Unlock()
	r.had = had
	r.noteSegments()
}

// noteSegments writes to the journal the numbers of the segments that the spool has, and of those in
// r.had, which it had at the start. The caller holds r.notes.
func (r *Recovery) noteSegments() {
	all := slices.Concat(r.Spool.Segments(), r.had)
	slices.Sort(all)
	r.SpoolHas(slices.Compact(all))
}

// vanished reports, and logs, that segments which the journal knows of are missing in the spool,
// together with their indexes: somebody has removed them.
func (f *Found) vanished(log *slog.Logger) bool {
	gone := slices.DeleteFunc(slices.Clone(f.Had), func(n uint64) bool { return slices.Contains(f.Has, n) })
	if len(gone) == 0 {
		return false
	}
	log.Error("spool segments are missing; the agent reads the records of their payloads again from the source files where it can", "count", len(gone),
		"fix", "find out who removes files from spool.dir: nobody but the agent may")
	return true
}

// start is what is known while the spool is gone through.
type start struct {
	*Recovery
	Found
	begun   map[record.BatchID]*record.Payload // those the spool does not have
	wholes  map[record.BatchID]*whole          // those of which the spool has parts
	partOf  map[record.BatchID]record.BatchID  // what each part is one of
	there   map[record.BatchID]bool            // what the spool has, of those that somebody asks for
	entered map[record.BatchID]bool            // parts that the journal did not know, and knows now
	counted map[string]int                     // records of what goes on waiting in the spool, by input
}

// whole is a payload of which the spool has parts.
type whole struct {
	waits bool // it is there itself, and has not ended
	seen  bool // it is there itself
	// Records of the parts that are sent from the spool or have ended for good, and the
	// bytes these cover: what of the whole need not be read again.
	parts int
	bytes int64
	kept  []*record.Payload // those of them that the journal need not know
}

// goThrough decides on each payload in the spool. A payload without parts needs one pass.
// Whether a part counts depends on the payload that it is a part of: a second pass finds
// out which of those wait in the spool, and a third one decides on the parts. Payloads
// that the journal does not mention, and whose ranges are safe, are only counted. A later
// pass may not be able to read a payload that the first one counted; therefore the counts
// are booked at the end.
func (s *start) goThrough() error {
	s.counted = map[string]int{}
	err := s.passes()
	for input, n := range s.counted {
		s.enterRecords(input, n)
	}
	return err
}

// passes goes through the spool once or three times, as goThrough explains, and decides about each
// payload. It leaves in s.counted, for each input, how many records are sent from the spool. The
// functions it gives to Spool.Held return false for a payload that is not to be sent from there.
func (s *start) passes() error {
	passed, _, err := s.Spool.Held(s.asked, s.isOver, func(p *record.Payload, sound bool) bool {
		if p.Replaces == (record.BatchID{}) {
			return s.meet(p, sound)
		}
		if s.wholes[p.Replaces] == nil {
			s.wholes[p.Replaces] = &whole{}
		}
		s.partOf[p.ID] = p.Replaces
		return true
	})
	for input, n := range passed {
		s.counted[input] += n
	}
	if err != nil || len(s.wholes) == 0 {
		return err
	}
	if err := s.pass(maps.Keys(s.wholes), func(p *record.Payload, sound bool) bool {
		if w := s.wholes[p.ID]; w != nil {
			w.seen = true
			w.waits = p.Replaces == (record.BatchID{}) || JudgeFrame(s.known(p), frameOf(sound, false)).Sends()
		}
		return true
	}); err != nil {
		return err
	}
	// No ids are asked for: Held then calls the function at least for all parts.
	return s.pass(func(func(record.BatchID) bool) {}, func(p *record.Payload, sound bool) bool {
		return p.Replaces == (record.BatchID{}) || s.meet(p, sound)
	})
}

// pass goes through the spool again after the first pass, with Spool.Held: fn gets at least the
// payloads with these ids and all parts, and returns false for one that is not to be sent. Payloads
// that cannot be read any more are subtracted from the count.
func (s *start) pass(ids iter.Seq[record.BatchID], fn func(p *record.Payload, sound bool) bool) error {
	_, lost, err := s.Spool.Held(ids, nil, fn)
	for input, n := range lost {
		s.counted[input] -= n
	}
	return err
}

// asked iterates over the ids of all batches of which the journal has an attempt, a begin or an end.
func (s *start) asked(yield func(record.BatchID) bool) {
	for _, ids := range []iter.Seq[record.BatchID]{maps.Keys(s.begun), maps.Keys(s.Ended), maps.Keys(s.Replays)} {
		for id := range ids {
			if !yield(id) {
				return
			}
		}
	}
}

// isOver reports whether a payload is not sent, whatever the state of its frame (its copy in the
// spool), because the journal says that it has ended. It is asked only for payloads that replace no
// other.
func (s *start) isOver(id record.BatchID) bool {
	if _, ended := s.Ended[id]; !ended {
		return false
	}
	k := s.known(&record.Payload{ID: id})
	if JudgeFrame(k, Sound) != Leave || JudgeFrame(k, Unsound) != Leave {
		return false
	}
	s.there[id] = true
	return true
}

// frameOf returns the kind of a payload's frame in the spool: part says that the payload replaces a
// part of another one, sound that its bytes are intact.
func frameOf(sound, part bool) Frame {
	switch {
	case part:
		return Half
	case sound:
		return Sound
	}
	return Unsound
}

// known returns what the journal knows of a payload in the spool, as the first argument of JudgeFrame.
func (s *start) known(p *record.Payload) Known {
	b := s.begun[p.ID]
	switch how, ended := s.Ended[p.ID]; {
	case ended && (how == record.Replaced || how == record.Split):
		if b != nil {
			return ReplacedBegun
		}
		return Replaced
	case ended && how == record.SourceGone:
		return GivenUp
	case ended && b != nil:
		return OverBegun
	case ended:
		return Over
	case b != nil && b.Attempt > 0:
		return Tried
	case b != nil:
		return Begun
	case s.Ranges.Covers(p):
		return Safe
	}
	return Nothing
}

// inDoubt reports whether a request for a payload of the spool was perhaps under way when the last run
// came to a sudden end.
func (s *start) inDoubt(id record.BatchID) bool {
	return s.Replays[id] > 0 && !s.Answered[id] && !s.Clean
}

// meet decides about one payload of the spool and writes the decision to the journal. It returns true
// if the payload is to be sent from the spool; its records are then counted in s.counted. sound says
// that its body is intact. The log names a payload that may be stored twice.
func (s *start) meet(p *record.Payload, sound bool) bool {
	_, ended := s.Ended[p.ID]
	n, replayed := s.Replays[p.ID]
	if ended || replayed {
		s.there[p.ID] = true
	}
	b := s.begun[p.ID]
	named := replayed && s.inDoubt(p.ID)
	known := s.known(p)
	act := JudgeFrame(known, frameOf(sound, s.isHalf(p)))
	if act.Sends() || known == Over || known == OverBegun {
		for w := range s.wholesOf(p) {
			w.parts += p.Records
			w.bytes += covered(p)
		}
	}
	switch act {
	case Leave: // not sent, which the journal knows
		return false
	case Refuse: // not sent, which is written to the journal
		_ = s.Journal.EndReplay(p.ID, record.Replaced)
		return false
	case Settle: // not sent; the batch that was begun again gets the end that the payload has
		delete(s.begun, p.ID)
		_ = s.Journal.End(p.ID, s.Ended[p.ID])
		return false
	case Enter: // sent; the journal did not know it, or had given it up
		named = true
		delete(s.begun, p.ID)
		_ = s.Journal.Begin(p)
		_ = s.Journal.End(p.ID, record.Spooled)
	case TakeNamed:
		named = true
		fallthrough
	case Take: // sent from the spool; the batch that was begun ends as spooled
		delete(s.begun, p.ID)
		n = max(n, b.Attempt)
		_ = s.Journal.End(p.ID, record.Spooled)
	case Keep: // sent; its ranges are safe, so that the journal needs no entry
		named = named || s.isOrphan(p)
		for w := range s.wholesOf(p) {
			own := *p
			w.kept = append(w.kept, &own)
		}
	}
	p.Inputs(func(input string, n int) { s.counted[input] += n })
	if n > 0 {
		s.Spool.Attempted(p.ID, n)
	}
	if named {
		p.Attempt = max(p.Attempt, n)
		s.logOf(p).Warn(sentAgain)
	}
	return true
}

// isOrphan reports whether a payload replaces one of which neither spool nor journal knows anything,
// while something is missing in the spool. The missing one may hold the same records, so that they may
// be stored twice.
func (s *start) isOrphan(p *record.Payload) bool {
	if w := s.wholes[p.Replaces]; p.Replaces == (record.BatchID{}) || w != nil && w.seen {
		return false
	}
	if _, ended := s.Ended[p.Replaces]; ended {
		return false
	}
	lacks, _ := s.Report()
	return lacks
}

// mostParts is how often a payload is divided, at most: each time into halves.
const mostParts = 64

// wholesOf yields the payloads that p is a part of, as far as the spool knows them: the
// one that was divided into p and others, the one that was divided into that, and so on.
func (s *start) wholesOf(p *record.Payload) iter.Seq[*whole] {
	return func(yield func(*whole) bool) {
		id := p.Replaces
		for range mostParts {
			w := s.wholes[id]
			if w == nil || !yield(w) {
				return
			}
			id = s.partOf[id]
		}
	}
}

// isHalf reports whether a payload that p is a part of still waits in the spool, and so has the records
// of p. That may be the payload that was divided into p and others, or one from which that came in the
// same way.
func (s *start) isHalf(p *record.Payload) bool {
	for w := range s.wholesOf(p) {
		if w.waits {
			return true
		}
	}
	return false
}

// suspect returns whether payloads are missing in the spool: if lacks is set, or if the journal has an
// attempt for a payload that has not ended and is not there. If so, it adds to s.there the payloads
// that are in the spool, of all that could be missed: those in the journal's history and in missing.
func (s *start) suspect(lacks bool, missing []*record.Payload) (bool, error) {
	for id := range s.Replays {
		lacks = lacks || !s.there[id]
	}
	if !lacks {
		return false, nil
	}
	ids := map[record.BatchID]bool{} // as many as the history has, and not as the spool
	for _, p := range missing {
		ids[p.ID] = true
	}
	for id := range s.Replays {
		ids[id] = true
	}
	// Only the ids of the history are needed, so the function takes none of its payloads.
	if _, err := s.Frames.InSpool(func(id record.BatchID) bool { ids[id] = true; return false }); err != nil {
		return true, err
	}
	return true, s.Spool.Which(maps.Keys(ids), func(id record.BatchID) {
		if ids[id] {
			s.there[id] = true
		}
	})
}

// forget makes the journal forget the ends and attempts of payloads that are no longer in the spool.
// missing has those that the spool could not read: it may be able to at another start, so their ends
// are kept.
func (s *start) forget(missing []*record.Payload) {
	kept := map[record.BatchID]bool{}
	for _, p := range missing {
		kept[p.ID] = true
	}
	var gone []record.BatchID
	for id := range s.Ended {
		if !s.there[id] && !kept[id] {
			gone = append(gone, id)
		}
	}
	for id := range s.Replays {
		if !s.there[id] {
			gone = append(gone, id)
		}
	}
	s.Frames.Removed(gone)
}

// findMissing queues the payloads that the journal says are in the spool but that are not there,
// neither whole nor in parts, to be read from their files. known has what the spool knows itself to
// lack; what the journal does not know of that is counted as lost.
func (s *start) findMissing(known []*record.Payload) error {
	all, err := s.Frames.InSpool(func(id record.BatchID) bool { return !s.there[id] || s.partOf[id] != record.BatchID{} })
	if err != nil {
		return err
	}
	var missing []*record.Payload
	for id, p := range all {
		if s.there[id] {
			continue
		}
		if w := s.wholes[id]; w != nil && (w.parts >= p.Records || w.bytes >= covered(p)) {
			s.takeOver(p, w.kept, all)
			continue
		}
		p.Attempt = max(p.Attempt, s.Replays[id])
		if s.inDoubt(id) {
			s.logOf(p).Warn(sentAgain)
		}
		_ = s.Frames.Replay(id, p.Attempt) // so that the next start notices too that it is missing
		missing = append(missing, p)
	}
	slices.SortFunc(missing, func(a, b *record.Payload) int {
		return cmp.Or(a.ReadAt.Compare(b.ReadAt), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	for _, p := range known {
		if _, ended := s.Ended[p.ID]; !ended && !s.there[p.ID] && all[p.ID] == nil {
			p.Inputs(s.enterRecords)
			s.add(&batch{Payload: p, kind: Forgotten})
		}
	}
	for _, p := range missing {
		p.Inputs(s.enterRecords)
		s.add(&batch{Payload: p, kind: OfSpool})
	}
	for id, n := range s.Replays {
		if !s.there[id] && all[id] == nil && !slices.ContainsFunc(known, func(p *record.Payload) bool { return p.ID == id }) {
			s.Logger.Error("a batch is missing from the spool and from the journal, so it cannot be read again; how many records are lost is not known", "batch", id.String(), "attempt", n,
				"err", errForgotten, "fix", "look at the folder of the spool: a segment was removed or damaged while the journal could not be written")
		}
	}
	return nil
}

// takeOver ends a payload of which all parts are in the spool. Parts that the journal does not know
// (those not in known) are recorded there first, so that a later start notices if they are missing.
func (s *start) takeOver(p *record.Payload, parts []*record.Payload, known map[record.BatchID]*record.Payload) {
	parts = slices.DeleteFunc(parts, func(part *record.Payload) bool { return known[part.ID] != nil || s.entered[part.ID] })
	if len(parts) > 0 {
		// If the process is killed before the end, both are sent, and the log names the payload.
		_ = s.Frames.Replay(p.ID, max(p.Attempt, s.Replays[p.ID])+1)
	}
	for _, part := range parts {
		s.entered[part.ID] = true
		_ = s.Journal.Begin(part)
		_ = s.Journal.End(part.ID, record.Spooled)
	}
	_ = s.Journal.EndReplay(p.ID, record.Replaced)
}

// enterRecords counts n records of an input as restored and as in the spool.
func (s *start) enterRecords(input string, n int) {
	s.Books.Restored(input, n)
	s.Books.Spooled(input, n)
}

// covered returns the number of bytes in the source files that a payload covers.
func covered(p *record.Payload) (n int64) {
	for _, x := range p.Cover {
		n += x.Len()
	}
	return n
}
