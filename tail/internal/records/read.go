package records

import (
	"bytes"
	"errors"
	"io"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/reads"
	"kusto-agent/tail/internal/tracker"
)

// beginsOtherwise reports whether data, read at offset 0, is not the known beginning: the file was
// rewritten since it was found.
func (f *File) beginsOtherwise(data []byte) bool {
	if f.Offset() > 0 || f.Plain == nil || f.Info.Head.Len == 0 {
		return false
	}
	var from io.ReaderAt = bytes.NewReader(data)
	if len(data) < f.Info.Head.Len {
		from = f.Plain
	}
	is, _ := f.IsRewritten(from, f.Info.Head) // an error comes again at the next read
	return is
}

// Read reads a bounded number of bytes from the offset on: to the end of the file, of the payload, or to the
// next range that needs no reading, whichever comes first. last says that the end of the file is that of its last
// record. A file that carries a message is read as one text with it.
func (x *Reader) Read(f *File, last bool) (tracker.Outcome, error) {
	if len(f.Extents) > 0 {
		return x.readCarried(f, last)
	}
	end := f.Size
	if len(f.Skips) > 0 && f.Skips[0].Start <= end {
		end, last = f.Skips[0].Start, true // only whole records lie between such ranges
	}
	most := int64(x.Sink.Most(f.In.Route))
	if f.NULs.At > 0 {
		most = min(most, besideNULs)
	}
	want := f.Bounds.Want(min(end-f.Offset(), int64(f.In.MaxSize-1)), reads.Limits{Most: most, Block: int64(f.In.MaxSize / 2), Kept: Kept})
	lease, err := f.Lease(int(want))
	switch {
	case err != nil:
		return tracker.Idle, err
	case lease == nil && f.Rewritten(f.Plain):
		return f.Changed("content changed before the position")
	case lease == nil:
		return tracker.Parked, nil
	}
	defer lease.Done()
	// Before the read, which sees whether the file is still the same.
	scan, err := x.Scanner(f)
	if err != nil {
		return tracker.Idle, err
	}
	buf := lease.Block()
	if buf == nil {
		buf = x.buffer(int(want))
	}
	// The bytes before the offset come with the same read: if they are not the
	// ones that were there, the file was cut or rewritten since.
	before := min(f.Offset(), record.MarkLen)
	n, err := f.Src.ReadAt(buf[record.MarkLen-before:record.MarkLen+want], f.Offset()-before)
	if err != nil && !errors.Is(err, io.EOF) {
		return tracker.Idle, err
	}
	if int64(n) < before {
		return f.Shrunk()
	}
	if m := fingerprint.MarkOf(buf[record.MarkLen-before : record.MarkLen]); f.Mark() != 0 && m != f.Mark() {
		return f.Changed("content changed before the position")
	}
	f.Checked = f.Mtime
	if f.Offset() == 0 {
		if err := x.tellMark(f, buf[record.MarkLen:record.MarkLen+n]); err != nil {
			return tracker.Idle, err
		}
	}
	data, whole := buf[record.MarkLen:record.MarkLen+int64(n)-before], int64(n)-before == end-f.Offset()
	if whole && f.Plain != nil {
		x.Recent.Put(f.File, f.Offset(), data)
	}
	if n := f.In.TextLen(data, f.Offset()); n < len(data) && end == f.Size {
		framed, ok := f.NULs.Frame(f.Offset(), n, len(data), f.Size, f.IsOver())
		if !ok {
			return x.meetNULs(f)
		}
		if framed < len(data) {
			end, whole = f.Offset()+int64(framed), true
			data = data[:framed]
		}
	}
	if last && whole && f.MayGrow() {
		if n := f.In.WholeUnits(data); n < len(data) {
			if n == 0 {
				f.Stuck = end // the rest of a character is still to come
				return f.AtEnd(), nil
			}
			end, data = f.Offset()+int64(n), data[:n]
		}
	}
	scan.SetQuiet(whole && f.Quiet)
	if whole && f.Quiet {
		f.Settled = end
	}
	return x.frame(f, lease, scan, buf[:record.MarkLen+len(data)], last && whole)
}

// keptScratch is the most bytes a Reader keeps for reads to come: no lease
// counts them.
const keptScratch = 1 << 20

// Kept is the most bytes that are read into memory that a Reader keeps.
const Kept = keptScratch - record.MarkLen - 1

// buffer returns scratch memory for n bytes, with room before them for the bytes of which a mark is
// made, and one byte behind. It is valid until the next call; a large one is not kept.
func (x *Reader) buffer(n int) []byte {
	need := record.MarkLen + n + 1
	switch {
	case need > keptScratch: // seldom: for a record that did not fit
		return make([]byte, need)
	case len(x.scratch) < need:
		x.scratch = make([]byte, min(max(need, 2*len(x.scratch)), keptScratch))
	}
	return x.scratch
}

// frame finds the whole records in buf and delivers them. The first MarkLen bytes are those before
// the offset, for fingerprints. last says that nothing follows buf in the file.
func (x *Reader) frame(f *File, lease Lease, scan *format.Scanner, buf []byte, last bool) (next tracker.Outcome, err error) {
	if f.beginsOtherwise(buf[record.MarkLen:]) {
		return f.Changed("content changed before it was read")
	}
	touched := false // the bytes of buf were moved about
	border, _ := scan.Border()
	cut := last && len(buf) > record.MarkLen && !bytes.HasSuffix(buf, border) && f.In.OfLines()
	for pos := record.MarkLen; pos < len(buf); {
		c := &x.found
		data := buf[pos:]
		scan.Scan(data, f.Offset(), last, f.In.MaxRecords, c)
		if c.Consumed == 0 {
			if c.Long {
				x.meetLong(f, c, data)
				return tracker.More, nil
			}
			if f.Bounds.NoRecord(pos == record.MarkLen) {
				return tracker.More, nil
			}
			f.NoteStuck(f.Offset()+int64(len(data)), time.Now())
			break
		}
		touched = touched || c.Lens != nil || len(c.Body) != c.Consumed
		cover := record.Extent{File: f.File, Span: record.Span{Start: f.Offset(), End: f.Offset() + int64(c.Consumed)}}
		if touched {
			cover.Mark, err = fingerprint.MarkAt(f.Src, cover.End)
		} else {
			end := pos + c.Consumed
			have := min(cover.End, record.MarkLen)
			cover.Mark = fingerprint.MarkOf(buf[int64(end)-have : end])
		}
		if err != nil {
			return tracker.Idle, err
		}
		direct := lease.Block() != nil && !c.Copied && len(c.Body) >= len(buf)/2
		if err := x.deliver(f, lease, c, cover, nil, direct); err != nil {
			var unkept *unkeptError
			if errors.As(err, &unkept) && f.Bounds.Unkept(c.Rejected, errors.Is(unkept.err, record.ErrStalled)) {
				return tracker.More, nil
			}
			return tracker.Idle, err
		}
		f.Bounds.Taken(int64(f.In.MaxSize))
		pos += c.Consumed
		if direct && c.Records > 0 {
			break // the block is the batcher's now
		}
	}
	if cut && f.Offset() == f.Size {
		x.Logger.Info("last record had no line end and was sent as it is", "file", f.Path, "offset", f.Offset())
	}
	if end := f.End(f.Size); f.Offset() < end && f.Stuck != end {
		return tracker.More, nil
	}
	return f.AtEnd(), nil
}
