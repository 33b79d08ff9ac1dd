package spool

import (
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
	// Damaged are payloads whose body is not what was written, without it, as
	// far as Open looks: at the end of a segment that was not closed in peace. A
	// write may have been under way, and nobody relied on them yet, or the disk
	// lost them: their ranges are to be read again.
	Damaged []record.Payload
	// Problems are sentences for people: what was unreadable.
	Problems []string
}

// recovery gathers what is in the folder before anything of it is changed.
type recovery struct {
	s       *Spool
	out     Recovery
	temp    []string
	broken  []*segment         // nothing in them can be told
	content map[*segment]int64 // where what was written ends, if not at the end of the file
}

// readFolder fills s with what is in the folder.
func (s *Spool) readFolder() (*Recovery, error) {
	segments, temp, err := listSegments(s.o.FS, s.dir)
	if err != nil {
		return nil, err
	}
	r := &recovery{s: s, temp: temp, content: map[*segment]int64{}}
	aside, _, err := listSegments(s.o.FS, s.path(damagedDir))
	if err != nil {
		return nil, err
	}
	s.w.next = 1
	for _, g := range aside { // one more by such a name would replace it
		s.w.next = max(s.w.next, g.seq+1)
	}
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
	r.dropTwins()
	r.tidy()
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
		r.broken = append(r.broken, g)
		r.problem("spool segment %s: header damaged, nothing of it readable; it is kept in the folder %s", g.name, damagedDir)
		return nil
	case err != nil:
		return err
	case h.Seq != g.seq:
		return fmt.Errorf("segment %q says it is number %d: it was renamed", g.name, h.Seq)
	case w.agent != [16]byte{} && h.Agent != w.agent:
		return fmt.Errorf("segment %q belongs to another agent than those before it: %w", g.name, ErrForeign)
	}
	w.agent = h.Agent
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
		g.damaged = true
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
		g.damaged = true
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
		g.damaged = true
		r.problem("spool segment %s: %d bytes damaged at offset %d", g.name, b.Length, b.Offset)
	}
	if rep.Lost > 0 {
		g.damaged = true
		r.problem("spool segment %s: %d records lost with them", g.name, rep.Lost)
	}
	if end < g.size {
		r.content[g] = end
	}
}

// tail reads the bodies that were written after the last sync the segment
// itself knows of: a power cut may have left anything there.
func (r *recovery) tail(g *segment, rep *durable.Report) error {
	var bad []entry
	var failed error
	err := r.s.scan(g, func(e *entry, _ *record.Payload) {
		if failed != nil || e.at < rep.Synced {
			return
		}
		p, err := r.s.read(g, e)
		switch {
		case err == nil:
			return
		case errors.Is(err, errBody):
			r.out.Damaged = append(r.out.Damaged, *p)
			r.problem("spool segment %s: body of a payload of %d records at offset %d damaged, or its write unfinished; its ranges are read again", g.name, p.Records, e.at)
		case lasts(err):
			g.damaged = true
			r.problem("spool segment %s: payload at offset %d: %v", g.name, e.at, err)
		default:
			failed = err
			return
		}
		bad = append(bad, *e)
	})
	for i := range bad {
		g.end(&bad[i], record.Replaced)
	}
	if err != nil && lasts(err) {
		err = nil // told by survey
	}
	return errors.Join(err, failed)
}

// dedupe lets the newest copy of a payload count where there are several.
func (r *recovery) dedupe() error {
	twice := duplicates(r.s.segments)
	if len(twice) == 0 {
		return nil
	}
	seen := map[record.BatchID]bool{}
	for _, g := range slices.Backward(r.s.segments) {
		var copies []entry
		err := r.s.scan(g, func(e *entry, _ *record.Payload) {
			if g.fate[e.ord] == 0 && twice[prefix(e.id)] {
				copies = append(copies, *e)
			}
		})
		if err != nil && !lasts(err) {
			return err
		}
		for i := range slices.Backward(copies) {
			if seen[copies[i].id] {
				g.end(&copies[i], record.Replaced)
			}
			seen[copies[i].id] = true
		}
	}
	return nil
}

// duplicates returns the prefixes that more than one payload has.
func duplicates(segments []*segment) map[uint64]bool {
	var all []uint64
	for _, g := range segments {
		for ord, id := range g.ids {
			if g.fate[ord] == 0 {
				all = append(all, id)
			}
		}
	}
	slices.Sort(all)
	twice := map[uint64]bool{}
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			twice[all[i]] = true
		}
	}
	return twice
}

// dropTwins leaves out damaged payloads of which there is a sound copy, or that
// are told of already.
func (r *recovery) dropTwins() {
	seen := map[record.BatchID]bool{}
	r.out.Damaged = slices.DeleteFunc(r.out.Damaged, func(p record.Payload) bool {
		twin := seen[p.ID] || r.s.Has(p.ID)
		seen[p.ID] = true
		return twin
	})
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
