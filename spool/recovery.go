package spool

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"kusto-agent/internal/durable"
	"kusto-agent/record"
)

// Recovery is what Open found. The payloads that wait are told by Held.
type Recovery struct {
	// Frames is how many payloads wait.
	Frames int
	// Agent is whom the folder belongs to.
	Agent [16]byte
	// Lost says that there are, or were before, segments of which not all could be
	// read: payloads may be missing of which not even the ids are known. It stays
	// until people have emptied the folder damaged.
	Lost bool
	// Problems are sentences for people: what was unreadable.
	Problems []string
}

// recovery gathers what is in the folder before anything of it is changed.
type recovery struct {
	s       *Spool
	out     Recovery
	own     [16]byte // the id of a spool that an earlier version wrote
	temp    []string
	broken  []*segment         // nothing in them can be told
	content map[*segment]int64 // where what was written ends, if not at the end of the file
}

// readFolder fills s with what is in the folder.
func (s *Spool) readFolder() (*Recovery, error) {
	segments, temp, err := listSegments(s.o.FS, s.dir, s.waiting)
	if err != nil {
		return nil, err
	}
	r := &recovery{s: s, temp: temp, content: map[*segment]int64{}}
	aside, _, err := listSegments(s.o.FS, s.path(damagedDir), nil)
	if err != nil {
		return nil, err
	}
	s.w.next = 1
	for _, g := range aside { // one more by such a name would replace it
		s.w.next = max(s.w.next, g.seq+1)
	}
	r.out.Lost = len(aside) > 0
	for _, g := range segments {
		if err := r.header(g); err != nil {
			return nil, err
		}
	}
	for _, g := range segments {
		if slices.Contains(r.broken, g) {
			continue
		}
		if err := r.survey(g); err != nil {
			return nil, err
		}
		s.segments = append(s.segments, g)
	}
	if err := r.dedupe(); err != nil {
		return nil, err
	}
	r.tidy()
	if s.w.agent == ([16]byte{}) {
		_, _ = rand.Read(s.w.agent[:]) // never fails
	}
	r.out.Agent = s.w.agent
	for _, g := range s.segments {
		r.out.Frames += g.frames
	}
	return &r.out, nil
}

func (r *recovery) problem(format string, args ...any) {
	r.out.Problems = append(r.out.Problems, fmt.Sprintf(format, args...))
}

// header checks that a segment belongs here.
func (r *recovery) header(g *segment) error {
	w := &r.s.w
	h, size, err := durable.ReadHeader(r.s.o.FS, r.s.path(g.name), kind, major)
	g.size = size
	w.next = max(w.next, g.seq+1)
	switch {
	case errors.Is(err, durable.ErrDamaged) && h.Kind != [4]byte{}:
		return fmt.Errorf("segment %q is of kind %q: %w", g.name, h.Kind, ErrForeign)
	case errors.Is(err, durable.ErrDamaged), brokenDisk(err):
		r.broken, r.out.Lost = append(r.broken, g), true
		r.problem("spool segment %s: header damaged, nothing of it readable; it is kept in the folder %s", g.name, damagedDir)
		return nil
	case err != nil:
		return err
	case h.Seq != g.seq:
		return fmt.Errorf("segment %q says it is number %d: it was renamed", g.name, h.Seq)
	case h.Minor == 0: // a spool had an id of its own
		if r.own != [16]byte{} && h.Agent != r.own {
			return fmt.Errorf("segment %q belongs to another agent than those before it: %w", g.name, ErrForeign)
		}
		r.own = h.Agent
	case w.agent != [16]byte{} && h.Agent != w.agent:
		return fmt.Errorf("segment %q belongs to another agent: %w; give each agent a spool.dir of its own", g.name, ErrForeign)
	default:
		w.agent = h.Agent
	}
	w.record = max(w.record, h.FirstRecord)
	return nil
}

// brokenDisk tells an error of the medium, to be treated like damage.
func brokenDisk(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EUCLEAN)
}

// survey counts what is in a segment.
func (r *recovery) survey(g *segment) error {
	sealed := false
	rep, err := durable.ReadSegment(r.s.o.FS, r.s.path(g.name), kind, major, false, func(f *durable.Found) error {
		r.s.w.record = max(r.s.w.record, f.Record+uint64(f.Records))
		switch f.Type {
		case typePayload:
			return r.payload(g, f)
		case typeSeal:
			sealed = true
		default:
			if f.Flags&durable.Optional == 0 {
				return fmt.Errorf("frame of type %d: %w", f.Type, durable.ErrVersion)
			}
		}
		return nil
	})
	switch {
	case brokenDisk(err):
		g.damaged, r.out.Lost = true, true
		r.problem("spool segment %s: %v; what lies behind is not readable", g.name, err)
		if rep == nil {
			return nil
		}
	case err != nil:
		return err
	}
	r.bad(g, rep)
	if !sealed {
		return r.tail(g, rep)
	}
	return nil
}

func (r *recovery) payload(g *segment, f *durable.Found) error {
	p, spooled, err := decodeMeta(f.Meta)
	if errors.Is(err, errMalformed) {
		g.damaged, r.out.Lost = true, true
		r.problem("spool segment %s: payload of %d records at offset %d: %v", g.name, f.Records, f.Offset, err)
		return nil
	}
	if err != nil {
		return err
	}
	e := newEntry(p, spooled)
	g.add(&e)
	return nil
}

// bad tells of the ranges of a segment that hold no readable frame.
func (r *recovery) bad(g *segment, rep *durable.Report) {
	end := rep.End
	for _, b := range rep.Bad {
		end = max(end, b.Offset+b.Length)
		if b.Torn {
			r.problem("spool segment %s: %d bytes of an unfinished write at offset %d left out", g.name, b.Length, b.Offset)
			continue
		}
		g.damaged, r.out.Lost = true, true
		r.problem("spool segment %s: %d bytes damaged at offset %d", g.name, b.Length, b.Offset)
	}
	if rep.Lost > 0 {
		g.damaged, r.out.Lost = true, true
		r.problem("spool segment %s: %d records lost with them", g.name, rep.Lost)
	}
	if end < g.size {
		r.content[g] = end
	}
}

// tail reads the bodies that were written after the last sync the segment
// itself knows of: a write may have been under way, and nobody relied on it yet,
// or a power cut may have left anything there.
func (r *recovery) tail(g *segment, rep *durable.Report) error {
	var failed error
	err := r.s.scan(g, func(e *entry, _ *record.Payload) {
		if failed != nil || e.at < rep.Synced {
			return
		}
		switch _, err := r.s.read(g, e); {
		case err == nil:
		case errors.Is(err, errBody), lasts(err):
			if g.unsound == nil {
				g.unsound = map[int]bool{}
			}
			g.unsound[e.ord] = true
		default:
			failed = err
		}
	})
	if err != nil && lasts(err) {
		err = nil // told by survey
	}
	return errors.Join(err, failed)
}

// copyOf is one of several frames with the same payload.
type copyOf struct {
	g *segment
	entry
}

// dedupe lets the newest sound copy of a payload count where there are several.
func (r *recovery) dedupe() error {
	twice := duplicates(r.s.segments)
	if len(twice) == 0 {
		return nil
	}
	counts := map[record.BatchID]copyOf{}
	for _, g := range r.s.segments { // oldest first
		var copies []copyOf
		err := r.s.scan(g, func(e *entry, _ *record.Payload) {
			if twice[e.id] {
				copies = append(copies, copyOf{g, *e})
			}
		})
		if err != nil && !lasts(err) {
			return err
		}
		for _, c := range copies {
			best, other := counts[c.id]
			if other && g.unsound[c.ord] && !best.g.unsound[best.ord] {
				best, c = c, best
			}
			if counts[c.id] = c; other {
				best.g.end(&best.entry, record.Replaced)
			}
		}
	}
	return nil
}

// duplicates returns the ids that more than one payload has.
func duplicates(segments []*segment) map[record.BatchID]bool {
	var all []record.BatchID
	for _, g := range segments {
		all = append(all, g.ids...)
	}
	slices.SortFunc(all, func(a, b record.BatchID) int { return bytes.Compare(a[:], b[:]) })
	twice := map[record.BatchID]bool{}
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			twice[all[i]] = true
		}
	}
	return twice
}

// tidy moves segments away of which nothing can be told, removes what a crash
// left unfinished, and gives allocated space back. What fails is left: it does
// no harm.
func (r *recovery) tidy() {
	s := r.s
	for _, g := range r.broken {
		if err := durable.Move(s.o.FS, s.path(g.name), s.path(damagedDir)); err != nil {
			s.o.Logger.Warn("damaged spool segment not moved", "file", g.name, "err", err)
		}
	}
	for _, name := range r.temp {
		_ = s.o.FS.Remove(s.path(name))
	}
	for g, end := range r.content {
		if trim(s.o.FS, s.path(g.name), end) == nil {
			g.size = end
		}
	}
}
