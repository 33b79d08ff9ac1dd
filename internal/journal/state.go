package journal

import (
	"cmp"
	"maps"
	"slices"
	"time"
	"unique"

	"kusto-agent/internal/record"
)

// FileState is what is known of one generation of one file, as one input
// reads it.
type FileState struct {
	File     record.File
	Info     record.Facts
	Position int64           // all bytes before it are safe
	Mark     record.Mark     // of the bytes before Position; 0: not known
	Ahead    []record.Extent // behind Position, safe or begun: not to be read; sorted, apart
	LastSeen time.Time       // when it was last registered, or its position moved
}

// file is the state behind a FileState. There may be hundreds of thousands.
type file struct {
	info     record.Facts
	position int64
	mark     record.Mark
	beyond   *spans // see ahead; nil: there are none
	seen     instant
}

// ahead are the safe ranges of the file, each beyond its checkpoint.
func (f *file) ahead() spans {
	if f.beyond == nil {
		return nil
	}
	return *f.beyond
}

func (f *file) setAhead(s spans) {
	if f.beyond = nil; len(s) > 0 {
		f.beyond = &s
	}
}

// name is a record.File in less memory.
type name struct {
	input      unique.Handle[string]
	id         record.FileID
	generation uint32
}

func nameOf(f record.File) name { return name{unique.Make(f.Input), f.ID, f.Generation} }

func (n name) file() record.File {
	return record.File{Input: n.input.Value(), ID: n.id, Generation: n.generation}
}

// safe adds a range of the file whose records need not be sent again, and reports whether the
// checkpoint advanced. mark is the fingerprint of the bytes before the end of the range.
func (f *file) safe(s record.Span, mark record.Mark) bool {
	s.Start = max(s.Start, f.position)
	ahead := f.ahead().add(safeSpan{s, mark})
	advanced := len(ahead) > 0 && ahead[0].Start <= f.position
	if advanced { // nothing else moves a checkpoint
		f.position, f.mark = ahead[0].End, ahead[0].mark
		ahead = ahead[1:]
	}
	f.setAhead(ahead)
	return advanced
}

// open is a batch that was begun.
type open struct {
	Begun
	order uint64
}

// covering is a range of a file that a begun batch covers.
type covering struct {
	by *open
	record.Span
	mark record.Mark
}

// moved is a position that advanced.
type moved struct {
	file     record.File
	position int64
}

// state is what all entries so far add up to. It does no I/O and holds no
// lock. To apply an entry a second time, or the entries since some moment again
// in their order, changes nothing: that is what lets a new segment repeat
// entries its snapshot knows already.
type state struct {
	inputs map[string]bool
	files  aged[name, file]
	pieces int // entries that say what files says
	begun  map[record.BatchID]*open
	by     map[record.File][]covering // what those of begun cover, by file
	orders uint64

	// Of batches in the spool, whose cover is safe: the last attempt of those
	// that were tried from there, and how those ended that may still lie there.
	replays aged[record.BatchID, request]
	ended   aged[record.BatchID, record.Outcome]
	spool   []uint64 // the numbers of the segments that the spool has; sorted, never changed in place
}

// request is the last one for a batch in the spool.
type request struct {
	attempt  int
	answered bool // and not stored by it
}

// newState returns the state of a new journal, in which nothing is known.
func newState() *state {
	return &state{
		inputs: map[string]bool{}, files: newAged[name](file.clone), begun: map[record.BatchID]*open{}, by: map[record.File][]covering{},
		replays: newAged[record.BatchID, request](nil), ended: newAged[record.BatchID, record.Outcome](nil),
	}
}

// apply changes the state as one entry says, and returns the checkpoints that advanced. s.begun has the
// batches under way; s.replays and s.ended have, of batches in the spool, the last attempts and the
// outcomes.
func (s *state) apply(e *Entry) (m []moved) {
	switch e.Kind {
	case Snapshot, SpoolHas:
		s.spool = e.Segments
	case Input:
		s.inputs[e.Input] = true
	case FileSeen:
		f := s.file(e.File, e.At)
		f.info, f.seen = e.Info, instantOf(e.At)
	case Begin:
		s.over(e.Payload.Replaces) // zero if it replaces none; no batch has that id
		s.begin(&Begun{Payload: *e.Payload, HadLens: e.HadLens}, e.At)
	case Attempt:
		if b := s.begun[e.Batch]; b != nil {
			b.Attempt = max(b.Attempt, e.Attempt)
		}
	case End:
		if b := s.begun[e.Batch]; b != nil && makesSafe(e.Outcome) {
			for _, c := range b.Cover {
				m = s.safe(m, c.File, c.Span, c.Mark, e.At)
			}
		}
		s.over(e.Batch)
		if e.Outcome == record.Spooled {
			s.ended.remove(e.Batch) // it is in the spool again; that end was of an older copy
		} else {
			s.replays.remove(e.Batch) // it was sent from its source files, since its copy in the spool was lost
		}
	case Skip:
		s.file(e.File, e.At)
		m = s.safe(m, e.File, e.Span, e.Mark, e.At)
	case Position:
		s.file(e.File, e.At)
		m = s.safe(m, e.File, record.Span{End: e.Span.End}, e.Mark, e.At)
	case Split:
		s.over(e.Batch)
		for i := range e.Children {
			s.begin(&e.Children[i], e.At)
		}
	case Forget:
		if f := s.files.get(nameOf(e.File)); f != nil {
			s.pieces -= f.pieces()
			s.files.remove(nameOf(e.File))
		}
	case Replay:
		if s.ended.get(e.Batch) != nil {
			break
		}
		last := s.replays.edit(e.Batch)
		if last == nil {
			last = s.replays.set(e.Batch, request{})
		}
		switch {
		case e.Attempt > last.attempt:
			*last = request{e.Attempt, e.Answered}
		case e.Attempt == last.attempt:
			last.answered = last.answered || e.Answered
		}
	case ReplayEnd:
		s.replays.remove(e.Batch)
		s.ended.remove(e.Batch)
		s.ended.set(e.Batch, e.Outcome)
	}
	return m
}

// makesSafe reports whether this outcome makes the ranges of a batch safe, so that they are not sent
// from their files again. Split and Replaced do not: other batches have taken over the ranges.
func makesSafe(o record.Outcome) bool {
	switch o {
	case record.Accepted, record.Spooled, record.Quarantined, record.Dropped, record.SourceGone, record.Removed:
		return true
	}
	return false
}

// file returns the state of the file f to be changed. If the file is new, it is added, as last seen
// at the time at.
func (s *state) file(f record.File, at time.Time) *file {
	st := s.files.edit(nameOf(f))
	if st == nil {
		st = s.files.set(nameOf(f), file{seen: instantOf(at)})
		s.pieces += st.pieces()
	}
	return st
}

// begin adds a batch to those that are begun (under way); at is when. If a batch of this id is begun
// already, the new one replaces it, but keeps its place in the order and the higher attempt. The body
// is not kept.
func (s *state) begin(b *Begun, at time.Time) {
	for _, c := range b.Cover {
		s.file(c.File, at)
	}
	s.orders++
	o := &open{Begun: *b, order: s.orders}
	if old := s.begun[b.ID]; old != nil {
		o.order, o.Attempt = old.order, max(old.Attempt, o.Attempt)
		s.over(b.ID)
	}
	o.Body, o.Lens = nil, nil
	s.begun[b.ID] = o
	for _, c := range b.Cover {
		s.by[c.File] = append(s.by[c.File], covering{o, c.Span, c.Mark})
	}
}

// over removes a batch from those that are begun (under way). It does nothing if it is not among them.
func (s *state) over(id record.BatchID) {
	o := s.begun[id]
	if o == nil {
		return
	}
	delete(s.begun, id)
	for _, c := range o.Cover {
		in := slices.DeleteFunc(s.by[c.File], func(c covering) bool { return c.by == o })
		if s.by[c.File] = in; len(in) == 0 {
			delete(s.by, c.File)
		}
	}
}

// safe makes a range of a file safe (not to be sent again), unless the file was forgotten. It
// returns m, with the new checkpoint appended if it advanced. at is when; mark is the fingerprint of
// the bytes before the end of the range.
func (s *state) safe(m []moved, of record.File, span record.Span, mark record.Mark, at time.Time) []moved {
	f := s.files.edit(nameOf(of))
	if f == nil {
		return m
	}
	s.pieces -= f.pieces()
	advanced := f.safe(span, mark)
	s.pieces += f.pieces()
	if !advanced {
		return m
	}
	f.seen = max(f.seen, instantOf(at))
	return append(m, moved{of, f.position})
}

// covered reports whether all ranges of a batch are safe without it: its records are in
// the spool, or it has ended and the entry that recorded the end was lost. A batch without ranges
// is never covered.
func (s *state) covered(b *Begun) bool {
	for _, c := range b.Cover {
		f := s.files.get(nameOf(c.File))
		if f == nil || c.End > f.position && !f.ahead().holds(c.Span) {
			return false
		}
	}
	return len(b.Cover) > 0
}

// open returns the batches under way in the order they were begun.
func (s *state) open() []*open {
	return slices.SortedFunc(maps.Values(s.begun), func(a, b *open) int { return cmp.Compare(a.order, b.order) })
}

// batches returns the batches under way as entries of a snapshot, in the order they were begun.
func (s *state) batches() (out []*Entry) {
	for _, o := range s.open() {
		b := o.Begun // a copy, since its attempt may change while the snapshot is written
		out = append(out, &Entry{Kind: Begin, Payload: &b.Payload, HadLens: b.HadLens})
	}
	return out
}

// clone returns a copy of the file's state that shares nothing that changes.
func (f file) clone() file {
	f.setAhead(slices.Clone(f.ahead()))
	return f
}

// pieces returns how many entries a snapshot needs for the file: see entries.
func (f *file) pieces() int {
	n := 1 + len(f.ahead())
	if f.position > 0 {
		n++
	}
	return n
}

// entries calls add with each entry that restores what is known of the file: that it was seen, its
// checkpoint, and one Skip for each range beyond it that need not be sent. pieces returns their
// number.
func (f *file) entries(name record.File, add func(*Entry)) {
	seen := f.seen.time()
	add(&Entry{Kind: FileSeen, File: name, Info: f.info, At: seen})
	if f.position > 0 {
		add(&Entry{Kind: Position, File: name, Span: record.Span{End: f.position}, Mark: f.mark, At: seen})
	}
	for _, a := range f.ahead() {
		add(&Entry{Kind: Skip, File: name, Span: a.Span, Mark: a.mark, At: seen})
	}
}

// view returns a copy of the state of a file, and false if the file is not known. Its Ahead has
// the ranges beyond the checkpoint that are not to be read: the safe ones and those of batches that
// are under way.
func (s *state) view(of record.File) (FileState, bool) {
	f := s.files.get(nameOf(of))
	if f == nil {
		return FileState{File: of}, false
	}
	v := FileState{File: of, Info: f.info, Position: f.position, Mark: f.mark, LastSeen: f.seen.time()}
	for _, a := range f.ahead() {
		v.Ahead = append(v.Ahead, record.Extent{File: of, Span: a.Span, Mark: a.mark})
	}
	for _, c := range s.by[of] {
		if c.End > f.position {
			c.Start = max(c.Start, f.position)
			v.Ahead = append(v.Ahead, record.Extent{File: of, Span: c.Span, Mark: c.mark})
		}
	}
	v.Ahead = union(v.Ahead)
	return v, true
}
