package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// Recovery is what Open found.
type Recovery struct {
	// Begun are the batches that were begun and have not ended, oldest first.
	// Attempt is the last one written. They are under way in the journal: each
	// is to be begun again with its next attempt, or ended.
	Begun []Begun
	// Replays are the last attempts of batches that were tried out of the spool
	// and have not ended, and Ended how others did that may still be there.
	// Answered are those of Replays whose last attempt was answered: it was not stored.
	Replays  map[record.BatchID]int
	Answered map[record.BatchID]bool
	Ended    map[record.BatchID]record.Outcome
	// Spool are the numbers of the segments that the spool had, as it said last; sorted.
	Spool []uint64
	// Holes says that something was unreadable and entries behind it were not: what the
	// journal was told there it does not know, though it knows what came later.
	Holes bool
	// Problems are sentences for people: what was unreadable, and what may be
	// sent twice for it.
	Problems []string
	// Clean says that the last run ended with Close and nothing was unreadable,
	// or that there was none.
	Clean bool
}

// recovered is the state as read, and what the writer needs to go on.
type recovered struct {
	state    *state
	lost     bool // no snapshot could be read though there were segments
	holes    bool // see Recovery.Holes
	agent    [16]byte
	known    bool   // agent was read
	next     uint64 // number of the next segment
	record   uint64 // number of the next entry
	segments []segmentFile
	damaged  []string
	problems []string
	clean    bool
	lines    []line // of earlier runs; none where something was unreadable
}

// report returns what Open tells its caller of the recovery. The caller owns it.
func (r *recovered) report() *Recovery {
	out := &Recovery{
		Problems: r.problems, Clean: r.clean && len(r.problems) == 0,
		Replays: map[record.BatchID]int{}, Answered: map[record.BatchID]bool{}, Ended: r.state.ended.plain(), Spool: r.state.spool, Holes: r.holes,
	}
	for id, last := range r.state.replays.plain() {
		if out.Replays[id] = last.attempt; last.answered {
			out.Answered[id] = true
		}
	}
	for _, b := range r.state.open() {
		out.Begun = append(out.Begun, b.Begun)
	}
	return out
}

// replayed is one segment as read.
type replayed struct {
	report   *durable.Report
	complete bool   // its snapshot is whole
	stopped  bool   // it ends with a clean stop
	bootID   string // of the run that wrote it
	lines    []line
	next     uint64 // number of the entry behind its last
	trouble  []error
}

// recoverState reads the newest segment of the journal in dir. If its snapshot is not whole, it goes
// back to the newest segment with a whole one and reads forward from there. Every step back leads to
// checkpoints that are lower or the same. bootID is that of the running machine; if the last run had
// another one and did not end cleanly, the machine may have lost writes, which is reported.
func recoverState(fsys durable.FS, dir, bootID string) (*recovered, error) {
	r := &recovered{state: newState(), next: 1, record: 1, clean: true}
	segments, err := listSegments(fsys, dir)
	if err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		_, _ = rand.Read(r.agent[:]) // a new journal has a random id; this never fails
		return r, nil
	}
	if err := r.headers(fsys, dir, segments); err != nil {
		return nil, err
	}
	newest, err := r.read(fsys, dir, segments)
	if err != nil {
		return nil, err
	}
	r.clean = newest.stopped && !r.lost
	if !r.lost && len(r.damaged) == 0 { // no entry of these runs is missing, so Vouches may accept their tokens
		r.lines = known(newest.lines, r.record)
	}
	if !r.clean && newest.bootID != "" && newest.bootID != bootID {
		r.nameDoubts()
	}
	r.dropCovered()
	return r, nil
}

// headers reads the headers of all segments, checks that they belong to one agent, and sets the size
// and the end of each segment. A damaged header is no error.
func (r *recovered) headers(fsys durable.FS, dir string, segments []segmentFile) error {
	for i := range segments {
		s := &segments[i]
		h, size, err := durable.ReadHeader(fsys, filepath.Join(dir, s.name), kind, major)
		s.size = size
		r.next = max(r.next, s.seq+1)
		switch {
		case errors.Is(err, durable.ErrDamaged), brokenDisk(err):
			continue // reported when the segment is read
		case err != nil:
			return err
		case h.Seq != s.seq:
			return fmt.Errorf("segment %q says it is number %d: it was renamed", s.name, h.Seq)
		case r.known && h.Agent != r.agent:
			return fmt.Errorf("segment %q belongs to another agent than those before it: the folder holds two journals", s.name)
		}
		r.agent, r.known = h.Agent, true
		r.record = max(r.record, h.FirstRecord)
		if i > 0 {
			segments[i-1].end = h.Created
		}
	}
	if !r.known {
		_, _ = rand.Read(r.agent[:])
	}
	return nil
}

// read finds the newest segment with a whole snapshot, applies it and all newer segments
// to the state, and returns the newest segment as read. If no snapshot is whole, it applies what can
// be read of all segments and sets r.lost.
func (r *recovered) read(fsys durable.FS, dir string, segments []segmentFile) (*replayed, error) {
	r.segments = segments
	var newest *replayed
	from := len(segments) - 1
	for ; from >= 0; from-- {
		r.state = newState()
		p, err := replay(fsys, filepath.Join(dir, segments[from].name), r.state)
		if err != nil {
			return nil, err
		}
		r.note(segments[from].name, p)
		if newest == nil {
			newest = p
			segments[from].used = p.used()
		}
		if p.complete {
			break
		}
	}
	if r.lost = from < 0; r.lost {
		r.state = newState()
		r.problems = append(r.problems, "no snapshot of the journal is readable: what earlier runs sent may be sent again, and every file of every input is read from its last readable position")
	}
	for i := from + 1; i < len(segments); i++ { // what can be read of the newer ones
		if _, err := replay(fsys, filepath.Join(dir, segments[i].name), r.state); err != nil {
			return nil, err
		}
	}
	r.segments = slices.DeleteFunc(r.segments, func(s segmentFile) bool { return slices.Contains(r.damaged, s.name) })
	return newest, nil
}

// note adds what is damaged in a segment to the problems that Recovery reports. name is the file, p
// what was read of it.
func (r *recovered) note(name string, p *replayed) {
	r.record = max(r.record, p.next)
	damaged := !p.complete
	switch {
	case p.report == nil:
		r.problems = append(r.problems, fmt.Sprintf("journal segment %s: header damaged, nothing of it readable", name))
	case !p.complete:
		r.problems = append(r.problems, fmt.Sprintf("journal segment %s: snapshot damaged; an older one is used, and what was sent since may be sent again", name))
	}
	if p.report != nil {
		for _, b := range p.report.Bad {
			r.holes = r.holes || b.Offset+b.Length <= p.report.End // sound entries come after it
			if b.Torn {
				r.problems = append(r.problems, fmt.Sprintf("journal segment %s: %s of an unfinished write at offset %d dropped", name, units.Counted(b.Length, "byte"), b.Offset))
				continue
			}
			damaged = true
			r.problems = append(r.problems, fmt.Sprintf("journal segment %s: %s damaged at offset %d; the batches that ended there may be sent again", name, units.Counted(b.Length, "byte"), b.Offset))
		}
	}
	for _, err := range p.trouble {
		damaged = true
		r.problems = append(r.problems, fmt.Sprintf("journal segment %s: %v", name, err))
	}
	if damaged {
		r.holes = true
		r.damaged = append(r.damaged, name)
	}
}

// used returns the size of the content of a segment; the rest of the file is allocated space. It is 0
// (not known) if any part of the segment cannot be read.
func (p *replayed) used() int64 {
	if p.report == nil || len(p.report.Bad) > 0 {
		return 0
	}
	return p.report.End
}

// dropCovered removes begun batches whose ranges are all safe (delivered by others, or not to be
// sent), so that nothing of them has to be sent.
func (r *recovered) dropCovered() {
	for id, b := range r.state.begun {
		if r.state.covered(&b.Begun) {
			r.state.over(id)
		}
	}
}

// maxDoubts is how many files are named one by one.
const maxDoubts = 100

// doubtful is how long before the last that is known of a machine that stopped an
// end may have been lost: the longest time between syncs, and some more.
const doubtful = 10 * time.Second

// nameDoubts adds a problem for each file of which the last records may be sent twice
// because the machine stopped without a sync: files that were not read to their end, or
// were only just (within doubtful, ten seconds). A last sentence stands for files that were first
// seen after the last sync, of which nothing is known.
func (r *recovered) nameDoubts() {
	var names []record.File
	var last instant
	for f := range r.state.files.all.All() {
		last = max(last, f.v.seen)
	}
	for f := range r.state.files.all.All() {
		if !f.v.info.Info().Done || time.Duration(last-f.v.seen) <= doubtful {
			names = append(names, f.k.file())
		}
	}
	defer func() {
		r.problems = append(r.problems, "the machine stopped: files that were first seen in its last moments may be sent again from their beginning")
	}()
	slices.SortFunc(names, func(a, b record.File) int { return strings.Compare(a.String(), b.String()) })
	for i, name := range names {
		f := r.state.files.get(nameOf(name))
		if i == maxDoubts {
			r.problems = append(r.problems, fmt.Sprintf("the machine stopped: the same holds for %s", units.Counted(len(names)-i, "more file")))
			return
		}
		r.problems = append(r.problems, fmt.Sprintf("the machine stopped: what was sent of file %s (%q) from offset %d in the last moments may be sent again", name, f.info.Info().Path, f.position))
	}
}

// replay reads a segment and applies its entries to st. Damage, and an error of the
// medium, are noted in the result; a segment with a damaged header gives an empty
// result. The snapshot is complete if as many of its entries were read as its first entry says. An
// error is returned only if another try or a person can mend it.
func replay(fsys durable.FS, path string, st *state) (*replayed, error) {
	p := &replayed{}
	var first, pieces, count uint64
	rep, err := durable.ReadSegment(fsys, path, kind, major, true, func(f *durable.Found) error {
		p.next = f.Record + uint64(f.Records)
		e, err := decode(f)
		switch {
		case errors.Is(err, errMalformed):
			p.trouble = append(p.trouble, err)
			return nil
		case err != nil || e == nil:
			return err
		case e.Kind == Snapshot:
			first, count, p.bootID, p.lines = e.Number, e.Count, e.BootID, e.Lines
		case first > 0 && e.Number <= first+count:
			pieces++
		}
		p.stopped = e.Kind == Stopped
		st.apply(e)
		return nil
	})
	switch {
	case errors.Is(err, durable.ErrDamaged):
		return &replayed{}, nil
	case brokenDisk(err):
		p.trouble = append(p.trouble, err)
	case err != nil:
		return nil, err
	}
	if p.report = rep; rep != nil {
		p.complete = first == rep.Header.FirstRecord && pieces == count
	}
	return p, nil
}

// brokenDisk reports whether err is an error of the medium (EIO, EUCLEAN), to be treated like damage.
// Other errors may go away at another try, or be mended by a person.
func brokenDisk(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EUCLEAN)
}
