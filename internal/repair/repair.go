// Package repair promises that a record which a table has lost is sent again as it was sent
// the first time, as long as its file holds it, and named with the reason otherwise; no
// record that the table had when it was asked is sent.
package repair

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kusto-agent/batcher"
	"kusto-agent/internal/audit"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/record"
)

// Source makes payloads once more from their files, as pipeline.Again does.
type Source interface {
	Read(p *record.Payload) ([]batcher.Record, error)
	Left(p *record.Payload) (*record.Payload, error)
	Pack(p *record.Payload)
}

// Range is a range of one file of which all records that are missing are sent, or none.
type Range struct {
	Input      string    `json:"input"`
	File       string    `json:"file"`
	Path       string    `json:"path"`
	Generation uint32    `json:"generation"`
	Database   string    `json:"database"`
	Table      string    `json:"table"`
	Start      int64     `json:"start"`
	End        int64     `json:"end"`
	Records    int       `json:"records"`       // to be sent; 0: not known, with Why
	Batch      string    `json:"batch"`         // that was accepted with them
	Accepted   time.Time `json:"accepted"`      // when
	Why        string    `json:"why,omitempty"` // they are not sent
}

// Plan is what a repair would send.
type Plan struct {
	Send []Range `json:"send"`
	Not  []Range `json:"not"` // ranges with records that are missing and are not sent
	all  []sending
}

// sending is a payload to be sent, without its body.
type sending struct {
	*record.Payload
	ranges []Range
}

// Records returns how many records a plan would send.
func (p *Plan) Records() (n int) {
	for i := range p.Send {
		n += p.Send[i].Records
	}
	return n
}

// Options are what Make needs.
type Options struct {
	Holes   []audit.Hole
	Batches map[record.BatchID]*record.Payload // of the holes, as they were begun; those the journal has
	Source  Source
	Before  time.Time // what was accepted later is left alone: a table may not show it yet
}

// Reasons why records are not sent.
var (
	errRecent  = errors.New("it was accepted so lately that the table may not show it yet (--settled); ask again later")
	errUnknown = errors.New("the journal does not remember its batch any more")
	errShifted = errors.New("the table has rows of it at offsets where no record begins now")
	errBefore  = errors.New("its first record begins in the file before")
	errShared  = errors.New("several records have one offset there, and which of them are missing is not known")
	errOther   = errors.New("its records cannot be read one by one")
)

// Make plans which lost records can be sent again from their files. A hole is a range of a file
// that was accepted and of which the audit found records missing in the table. Make reads every
// file that has a hole, and keeps no record in memory. Ranges that cannot be sent again are in Not,
// with the reason.
func Make(o Options) *Plan {
	m := maker{o: o, plan: &Plan{Send: []Range{}, Not: []Range{}}, taken: map[place]bool{}}
	slices.SortStableFunc(m.o.Holes, func(a, b audit.Hole) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	byBatch := map[record.BatchID][]audit.Hole{}
	var order []record.BatchID
	for _, h := range m.o.Holes {
		if byBatch[h.Batch] == nil {
			order = append(order, h.Batch)
		}
		byBatch[h.Batch] = append(byBatch[h.Batch], h)
	}
	for _, id := range order {
		m.batch(id, byBatch[id])
	}
	// A range that cannot be sent from one batch is no loss if it is sent from another.
	m.plan.Not = slices.DeleteFunc(m.plan.Not, func(r Range) bool {
		return slices.ContainsFunc(m.plan.Send, func(s Range) bool {
			return s.Input == r.Input && s.File == r.File && s.Generation == r.Generation && s.Table == r.Table && s.Start <= r.Start && r.End <= s.End
		})
	})
	for _, all := range [][]Range{m.plan.Send, m.plan.Not} {
		slices.SortStableFunc(all, func(a, b Range) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Input, b.Input), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Start, b.Start))
		})
	}
	return m.plan
}

// place is where a record begins.
type place struct {
	file  record.File
	route record.Route
	at    int64
}

type maker struct {
	o     Options
	plan  *Plan
	taken map[place]bool // records that are sent
}

// batch plans which records of one batch are sent again, as a new payload. holes are the ranges of
// the batch with missing records, at least one. It reads the batch from its files, chooses the
// missing records, and reads these once more by themselves, to be sure that exactly they would be
// sent. What cannot be sent is added to the plan with the reason.
func (m *maker) batch(id record.BatchID, holes []audit.Hole) {
	refuse := func(all []audit.Hole, why error) {
		for i := range all {
			r := rangeOf(&all[i], all[i].Span, 0)
			r.Why = why.Error()
			m.plan.Not = append(m.plan.Not, r)
		}
	}
	was := m.o.Batches[id]
	switch {
	case holes[0].At.After(m.o.Before):
		refuse(holes, errRecent)
		return
	case was == nil:
		refuse(holes, errUnknown)
		return
	}
	whole := *was
	recs, err := m.o.Source.Read(&whole)
	if errors.Is(err, pipeline.ErrGone) { // of a part of its files perhaps
		recs, err = m.left(was, &whole)
	}
	if err != nil {
		refuse(holes, err)
		return
	}
	var chosen []chosenRecord
	for i := range holes {
		of, err := m.choose(&holes[i], &whole, recs)
		if err != nil {
			refuse(holes[i:i+1], err)
			continue
		}
		chosen = append(chosen, of...)
	}
	if len(chosen) == 0 {
		return
	}
	p, of := part(&whole, chosen)
	again, err := m.o.Source.Read(p)
	if err == nil && !same(again, chosen) {
		err = errOther
	}
	if err != nil {
		refuse(holes, err)
		return
	}
	p.Body = nil // it is read again when it is sent
	send := sending{Payload: p}
	for i, piece := range p.Pieces {
		send.ranges = append(send.ranges, rangeOf(of[i], piece.Span, piece.Records))
	}
	m.plan.all = append(m.plan.all, send)
	m.plan.Send = append(m.plan.Send, send.ranges...)
	for _, c := range chosen {
		m.taken[place{c.File, whole.Route, c.Offset}] = true
	}
}

// left reads the records of a batch that can still be read although one of its files is gone. was
// is the batch as the journal has it; whole becomes the part of it that is left. The error is
// pipeline.ErrGone if nothing is left, or if no file is gone but one has another content than then.
func (m *maker) left(was, whole *record.Payload) ([]batcher.Record, error) {
	left, err := m.o.Source.Left(was)
	if err != nil {
		return nil, err
	}
	if len(left.Pieces) == 0 || len(left.Pieces) == len(was.Pieces) { // nothing is left, or the files are there and were changed
		return nil, pipeline.ErrGone
	}
	*whole = *left
	return m.o.Source.Read(whole)
}

// chosenRecord is one to be sent, or several of the same lines.
type chosenRecord struct {
	batcher.Record
	hole *audit.Hole
}

// choose returns the records of the hole h that are not in the table, out of recs, the records of
// the payload p as they were read from its files. Records that another batch of the plan sends are
// left out. The error says why nothing of the hole can be sent, such as errShifted: the file does
// not have the records any more that the table has.
func (m *maker) choose(h *audit.Hole, p *record.Payload, recs []batcher.Record) (chosen []chosenRecord, err error) {
	begins := map[int64]bool{}
	for _, r := range recs {
		if r.File == h.File && r.Offset >= h.Start && r.Offset < h.End {
			begins[r.Offset] = true
		}
	}
	if len(begins) == 0 {
		return nil, pipeline.ErrGone
	}
	for _, at := range h.Stored {
		if !begins[at] {
			return nil, errShifted
		}
	}
	others := false
	for _, r := range recs {
		if r.File != h.File || !begins[r.Offset] {
			continue
		}
		_, stored := slices.BinarySearch(h.Stored, r.Offset)
		switch {
		case m.taken[place{r.File, p.Route, r.Offset}]:
			others = true
		case stored:
		case r.Offset == 0 && split(p): // it may begin in the file before, which has no piece
			return nil, errBefore
		default:
			chosen = append(chosen, chosenRecord{r, h})
		}
	}
	if len(chosen) == 0 && !others {
		return nil, errShared
	}
	return chosen, nil
}

// split reports whether a payload covers a range of a file without having a piece (range of whole
// records) of that file: a record may then begin there and end in the next file.
func split(p *record.Payload) bool {
	return slices.ContainsFunc(p.Cover, func(x record.Extent) bool {
		return !slices.ContainsFunc(p.Pieces, func(piece record.Piece) bool { return piece.File == x.File })
	})
}

// part returns a new payload, with an id of its own, of the chosen records of p, and in of the hole
// that each of its pieces belongs to. A piece is a range of a file; chosen records that follow each
// other share one.
func part(p *record.Payload, chosen []chosenRecord) (out *record.Payload, of []*audit.Hole) {
	out = &record.Payload{ID: record.BatchID(uuid.New()), Route: p.Route, Shaping: p.Shaping, RawBytes: p.RawBytes}
	for _, c := range chosen {
		last := len(of) - 1
		if last >= 0 && of[last] == c.hole && out.Pieces[last].End == c.Offset {
			out.Pieces[last].End += c.Length
			continue
		}
		out.Pieces = append(out.Pieces, record.Piece{File: c.File, Span: record.Span{Start: c.Offset, End: c.Offset + c.Length}})
		of = append(of, c.hole)
	}
	for _, x := range p.Cover { // a range without a piece would count as the beginning of a record
		if slices.ContainsFunc(out.Pieces, func(piece record.Piece) bool {
			return piece.File == x.File && x.Start <= piece.Start && piece.End <= x.End
		}) {
			out.Cover = append(out.Cover, x)
		}
	}
	return out, of
}

// same reports whether the records that were read are the chosen ones, by file, offset and length,
// in the same order.
func same(recs []batcher.Record, chosen []chosenRecord) bool {
	return slices.EqualFunc(recs, chosen, func(r batcher.Record, c chosenRecord) bool {
		return r.File == c.File && r.Offset == c.Offset && r.Length == c.Length
	})
}

func rangeOf(h *audit.Hole, s record.Span, records int) Range {
	return Range{Input: h.File.Input, File: h.File.ID.String(), Path: record.Spell(h.Path), Generation: h.File.Generation,
		Database: h.Route.Database, Table: h.Route.Table, Start: s.Start, End: s.End, Records: records, Batch: h.Batch.String(), Accepted: h.At}
}
