package journal

import (
	"maps"
	"slices"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// snapshot is the state as it was at one moment, to be written while it changes.
type snapshot struct {
	j     *Journal
	at    time.Time
	begun []*Entry
	in    []string // inputs
	spool []uint64 // segments that the spool has
	count int      // entries
}

// freeze begins a snapshot of the state, and thaw ends it; there is one at a time. It
// copies only the begun batches and the inputs; a file is copied when it changes before the snapshot
// has read it. Needs mu.
func (j *Journal) freeze() *snapshot {
	st := j.state
	s := &snapshot{j: j, at: j.o.Now(), begun: st.batches(), in: slices.Sorted(maps.Keys(st.inputs)), spool: st.spool}
	s.count = len(s.in) + st.pieces + len(s.begun) + st.replays.len() + st.ended.len()
	st.files.freeze()
	st.replays.freeze()
	st.ended.freeze()
	return s
}

// thaw ends the snapshot: from now on changed files are not copied for it any more. It takes mu.
func (s *snapshot) thaw() {
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	st := s.j.state
	st.files.thaw()
	st.replays.thaw()
	st.ended.thaw()
}

// write calls out with the frames of the snapshot, some at a time, without the journal's
// lock. The first frame says how many follow. It ends with the first error of out, and returns it.
func (s *snapshot) write(out func([]durable.Frame) error) error {
	var err error
	step := []*Entry{{Kind: Snapshot, At: s.at, Count: uint64(s.count), BootID: s.j.o.BootID, Lines: s.j.lines, Segments: s.spool}}
	add := func(e *Entry) { step = append(step, e) }
	flush := func() bool {
		if len(step) == 0 {
			return err == nil
		}
		frames := make([]durable.Frame, len(step))
		for i, e := range step {
			if e.At.IsZero() {
				e.At = s.at
			}
			frames[i] = e.frame()
		}
		if err == nil {
			err = out(frames)
		}
		step = step[:0]
		return err == nil
	}
	for _, in := range s.in {
		add(&Entry{Kind: Input, Input: in})
	}
	for _, e := range s.begun {
		if add(e); len(step) >= 64 && !flush() {
			return err
		}
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	pause := func() bool {
		s.j.mu.Unlock()
		defer s.j.mu.Lock()
		return flush()
	}
	st := s.j.state
	st.files.read(func(n name, f *file) { f.entries(n.file(), add) }, pause)
	if err == nil {
		st.replays.read(func(id record.BatchID, r *request) {
			add(&Entry{Kind: Replay, Batch: id, Attempt: r.attempt, Answered: r.answered})
		}, pause)
	}
	if err == nil {
		st.ended.read(func(id record.BatchID, o *record.Outcome) { add(&Entry{Kind: ReplayEnd, Batch: id, Outcome: *o}) }, pause)
	}
	return err
}
