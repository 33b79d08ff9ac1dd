package tail

import (
	"fmt"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/settings"
)

// deliver hands over what a scan found (c): rejected records to quarantine first, then the others
// to the batcher. cover is the range that the scan used; before are the ranges of earlier files in
// which its first record begins. direct says that the body lies in the block of the lease, which
// becomes a payload without being copied. Then the offset is at the end of cover.
func (w *worker) deliver(r *reader, lease Lease, c *format.Chunk, cover record.Extent, before []record.Extent, direct bool) error {
	if err := w.register(r); err != nil {
		return err
	}
	if err := w.quarantine(r, c); err != nil {
		return err
	}
	w.count(r.in, c)
	if c.InvalidUTF8 > 0 {
		w.tellNoText(r, cover.Span)
	}
	if c.NULs > 0 {
		w.tellNULs(r, cover.Start+int64(c.NULsAt), int64(c.NULs))
	}
	if c.Records == 0 {
		w.pass(r, cover.End, cover.Mark)
		return nil
	}
	out := &w.chunk
	*out = record.Chunk{
		Route: r.in.Route, Shaping: r.in.Shaping, Group: c.Group,
		Before: before, Cover: cover, Pieces: out.Pieces[:0],
		Prefix: c.Prefix, Body: c.Body, Lens: c.Lens, Records: c.Records, ReadAt: time.Now(),
	}
	if r.in.HasBatch() {
		out.Stamp = w.t.stamp
	}
	out.Pieces = c.AppendPieces(out.Pieces, r.File, cover.Start)
	w.t.taps.Offer(r.in.Name, r.File, r.Info.Path, out)
	if direct {
		lease.Seal(out)
	} else {
		lease.Append(out)
	}
	r.Advance(cover.End, cover.Mark)
	return nil
}

// filtered are the reasons for which a scan leaves records out, in the order in which count has them.
var filtered = [...]string{settings.Blank, settings.Header, settings.Unmatched}

// count adds the records of a chunk to the counts of the input and to the metrics, by what
// happens to them.
func (w *worker) count(in *input, c *format.Chunk) {
	books, input := w.t.o.Books, in.Name
	books.Read(input, c.Records, int64(c.Consumed))
	for i, n := range [...]int{c.Blank, c.Header, c.Unmatched} {
		if n > 0 {
			books.Filtered(input, filtered[i], n)
		}
	}
	for i, n := range c.Filtered {
		if n > 0 {
			books.Filtered(input, in.Reasons()[i], n)
		}
	}
	for i, n := range c.Changed {
		if n > 0 {
			books.Changed(input, in.Changes()[i], n)
		}
	}
	for _, j := range c.Rejected {
		books.Rejected(in.Lot(int64(j.End-j.Start)), j.Reason)
	}
	if c.InvalidUTF8 > 0 {
		w.t.o.Contents.InvalidUTF8(input, c.InvalidUTF8)
	}
	if c.Misfits > 0 {
		w.t.o.Contents.Unparsed(input, c.Misfits)
	}
}

// quarantine writes the rejected records of a chunk to quarantine, and logs the first one of the
// file. They are durable when it returns nil, which has to be before any payload covers their
// ranges.
func (w *worker) quarantine(r *reader, c *format.Chunk) error {
	if len(c.Rejected) == 0 {
		return nil
	}
	w.rejected = w.rejected[:0]
	for _, j := range c.Rejected {
		w.rejected = append(w.rejected, r.in.Rejected(r.File, &r.Info, r.Offset(), j))
	}
	if err := w.keep(r.in, w.rejected); err != nil {
		return err
	}
	first := &w.rejected[0]
	w.tellQuarantined(r, first.Offset, first.Reason, first.Message)
	return nil
}

// unkeptError says that quarantine does not take a record. It hides what kind of error
// that is: the file is not to blame.
type unkeptError struct {
	offset int64
	err    error
}

func (e *unkeptError) Error() string {
	return fmt.Sprintf("quarantine does not take the bad record at offset %d: %v", e.offset, e.err)
}

// keep writes records of an input to quarantine, without their bytes if the input redacts
// and these could contain secrets.
func (w *worker) keep(in *input, recs []record.Rejected) error {
	if in.Redacts() {
		for i := range recs {
			recs[i].Withhold()
		}
	}
	if err := w.t.o.Quarantine.Put(recs); err != nil {
		return notices.Quarantine(&unkeptError{recs[0].Offset, err})
	}
	return nil
}

// register records the file in the journal before that gets any range of it, and again if the file
// is large enough for a longer head. From then on, and so before the file is read, a scan recognises a copy
// of it by the head. An error is one of reading the file.
func (w *worker) register(r *reader) error {
	grown := fingerprint.HeadLen(r.Size) > max(r.Info.Head.Len, r.headed)
	if r.registered && !grown {
		return nil
	}
	var head record.Head
	var err error
	if r.z != nil && r.z.head.Len > 0 {
		head = r.z.head
	} else if head, err = fingerprint.HeadOf(r.src(), r.Size); err != nil {
		return err
	}
	switch is, err := r.otherBefore(); {
	case err != nil:
		return err
	case is:
		head = r.Info.Head // the file was rewritten: the old head is kept, for this is noticed by it
	}
	if at := w.job.path; r == w.job.r && !w.job.life.IsOutside() && at != r.Info.Path { // the reader of the file before tells its own
		r.Info.Path, r.Info.Real = at, finder.Elsewhere(finder.Leads(at), at)
	}
	r.Info.Head, r.Info.Size = head, r.Size
	r.headed = fingerprint.HeadLen(r.Size)
	r.registered = true
	now := described{r: r}
	w.t.on(&now)
	w.t.remember(r.File, now.facts)
	return nil
}

// described is that the worker of a reader has found out more about its file (info).
type described struct {
	r     *reader
	facts record.Facts // for the journal
}

func (e *described) happen(*Tailer) {
	e.r.in.describe(e.r.k, e.r.Info)
	e.facts = e.r.k.info
}
