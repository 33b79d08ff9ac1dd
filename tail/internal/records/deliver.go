package records

import (
	"fmt"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/settings"
)

// deliver hands over what a scan found (c): rejected records to quarantine first, then the others
// to the batcher. cover is the range that the scan used; before are the ranges of earlier files in
// which its first record begins. direct says that the body lies in the block of the lease, which
// becomes a payload without being copied. Then the offset is at the end of cover.
func (x *Reader) deliver(f *File, lease Lease, c *format.Chunk, cover record.Extent, before []record.Extent, direct bool) error {
	if err := f.Register(); err != nil {
		return err
	}
	if err := x.quarantine(f, c); err != nil {
		return err
	}
	x.count(f.In, c)
	if c.InvalidUTF8 > 0 {
		x.tellNoText(f, cover.Span)
	}
	if c.NULs > 0 {
		x.tellNULs(f, cover.Start+int64(c.NULsAt), int64(c.NULs))
	}
	if c.Records == 0 {
		x.Pass(f, cover.End, cover.Mark)
		return nil
	}
	out := &x.chunk
	*out = record.Chunk{
		Route: f.In.Route, Shaping: f.In.Shaping, Group: c.Group,
		Before: before, Cover: cover, Pieces: out.Pieces[:0],
		Prefix: c.Prefix, Body: c.Body, Lens: c.Lens, Records: c.Records, ReadAt: time.Now(),
	}
	if f.In.HasBatch() {
		out.Stamp = x.Stamp
	}
	out.Pieces = c.AppendPieces(out.Pieces, f.File, cover.Start)
	x.Taps.Offer(f.In.Name, f.File, f.Info.Path, out)
	if direct {
		lease.Seal(out)
	} else {
		lease.Append(out)
	}
	f.Advance(cover.End, cover.Mark)
	return nil
}

// filtered are the reasons for which a scan leaves records out, in the order in which count has them.
var filtered = [...]string{settings.Blank, settings.Header, settings.Unmatched}

// count adds the records of a chunk to the counts of the input and to the metrics, by what
// happens to them.
func (x *Reader) count(in *settings.Compiled, c *format.Chunk) {
	books, input := x.Books, in.Name
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
		x.Contents.InvalidUTF8(input, c.InvalidUTF8)
	}
	if c.Misfits > 0 {
		x.Contents.Unparsed(input, c.Misfits)
	}
}

// quarantine writes the rejected records of a chunk to quarantine, and logs the first one of the
// file. They are durable when it returns nil, which has to be before any payload covers their
// ranges.
func (x *Reader) quarantine(f *File, c *format.Chunk) error {
	if len(c.Rejected) == 0 {
		return nil
	}
	x.rejected = x.rejected[:0]
	for _, j := range c.Rejected {
		x.rejected = append(x.rejected, f.In.Rejected(f.File, &f.Info, f.Offset(), j))
	}
	if err := x.keep(f.In, x.rejected); err != nil {
		return err
	}
	first := &x.rejected[0]
	x.tellQuarantined(f, first.Offset, first.Reason, first.Message)
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
func (x *Reader) keep(in *settings.Compiled, recs []record.Rejected) error {
	if in.Redacts() {
		for i := range recs {
			recs[i].Withhold()
		}
	}
	if err := x.Quarantine.Put(recs); err != nil {
		return notices.Quarantine(&unkeptError{recs[0].Offset, err})
	}
	return nil
}
