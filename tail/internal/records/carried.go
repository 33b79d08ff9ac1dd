package records

import (
	"bytes"
	"errors"
	"io"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/cursor"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/reread"
	"kusto-agent/tail/internal/tracker"
)

// Apart is what is known of a message that is too long with what is in the next file: the lines
// of both files go to quarantine.
type Apart struct {
	stream  []byte
	first   int // bytes of its first line
	message string
}

// PassApart has the next turn skip the open message at the offset, which is too long together with what is in the
// next file.
func (g *Reading) PassApart(a *Apart) {
	first := record.Span{Start: g.Offset(), End: g.Offset() + int64(a.first)}
	g.Long = cursor.Long{At: first.End, Reason: record.TooLong, Message: a.message, Parts: &cursor.Parts{Stream: a.stream, Runs: []record.Span{first}, Beside: "after"}}
}

// readCarried reads the first record of a file as one text with the message that it carries. If
// nothing here continues that, it is given back. last says that the file does not grow any more.
func (x *Reader) readCarried(f *File, last bool) (tracker.Outcome, error) {
	end := f.Size
	if len(f.Skips) > 0 && f.Skips[0].Start <= end {
		end, last = f.Skips[0].Start, true
	}
	want := min(end, int64(f.In.Options().MaxRecord)) // no record is longer
	lease, err := f.Lease(len(f.Data) + int(want))
	if err != nil || lease == nil {
		return tracker.Parked, err
	}
	defer lease.Done()
	data := append(bytes.Clone(f.Data), make([]byte, want)...)
	n, err := f.Src.ReadAt(data[len(f.Data):], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return tracker.Idle, err
	}
	if err := x.tellMark(f, data[len(f.Data):]); err != nil {
		return tracker.Idle, err
	}
	whole := int64(n) == end
	data = data[:len(f.Data)+f.In.TextLen(data[len(f.Data):len(f.Data)+n], 0)]
	scan, err := x.Scanner(f)
	if err != nil {
		return tracker.Idle, err
	}
	scan.SetQuiet(whole && f.Quiet)
	c := &x.found
	scan.Scan(data, -int64(len(f.Data)), last && whole, 1, c)
	if c.Unmatched > 0 || c.Filtered != nil { // the scan may have gone on behind a filtered message
		if err := x.scanFirst(f, scan, data, last && whole, whole && f.Quiet); err != nil {
			return tracker.Idle, err
		}
	}
	used := c.Consumed
	if len(c.Rejected) > 0 {
		used = c.Rejected[0].End
	}
	switch {
	case c.Long && len(f.Extents) == 1:
		return x.partLong(f, scan, data[len(f.Data):], last && whole)
	case used == 0 && !c.Long:
		f.NoteStuck(f.Size, time.Now())
		return f.AtEnd(), nil
	case used <= len(f.Data): // no line here continues the message
		f.GiveBack(nil)
		return tracker.More, nil
	}
	return tracker.More, x.deliverCarried(f, lease, c, int64(used-len(f.Data)))
}

// scanFirst scans only the first record of data, with the result in x.found: where a message is
// filtered, scan goes on behind it, so a scanner without rules finds its end. data begins with the
// bytes of the file before.
func (x *Reader) scanFirst(f *File, scan *format.Scanner, data []byte, last, quiet bool) error {
	o := f.In.Options()
	o.Rules, o.OnError = nil, format.SendRaw
	all, err := format.New(o)
	if err != nil {
		return err
	}
	if err := f.In.Prepare(all, f.Src, f.File, &f.Info, x.Stamp); err != nil {
		return err
	}
	all.SetQuiet(quiet)
	var c format.Chunk
	all.Scan(data, -int64(len(f.Data)), last, 1, &c)
	scan.Scan(data[:c.Consumed], -int64(len(f.Data)), true, 0, &x.found)
	return nil
}

// deliverCarried hands over, rejects or filters the record c that began in the files before and
// ends n bytes into the file f. If one of these has grown, it does nothing, and the message is read
// again.
func (x *Reader) deliverCarried(f *File, lease Lease, c *format.Chunk, n int64) error {
	before, cover := f.Extents, record.Extent{File: f.File, Span: record.Span{End: n}}
	var err error
	if cover.Mark, err = fingerprint.MarkAt(f.Src, n); err != nil {
		return err
	}
	if err := f.Register(); err != nil {
		return err
	}
	if f.HasGrown() { // asked before quarantine, which cannot give a record back
		return nil
	}
	refused := len(c.Rejected) > 0
	if refused {
		if err := x.refuseCarried(f, c.Rejected[0]); err != nil {
			return err
		}
	}
	f.Take()
	if !refused && c.Records > 0 {
		c.Pieces = append(c.Pieces[:0], format.Piece{End: int(n), Records: c.Records})
		c.Lens = reread.UnitLens(c.Records, n)
		return x.deliver(f, lease, c, cover, before, false)
	}
	if !refused {
		x.count(f.In, c)
	}
	for _, b := range before {
		x.Skip(b.File, b.Span, b.Mark)
	}
	x.Pass(f, n, cover.Mark)
	return nil
}

// refuseCarried writes a record that began in the file before to quarantine, because its JSON is
// larger than a payload may be. The text of j is that of both files. The error is
// that of quarantine.
func (x *Reader) refuseCarried(f *File, j format.Reject) error {
	err := x.keep(f.In, []record.Rejected{{
		File: f.File, Path: f.Info.First, Route: f.In.Route, Length: int64(j.End), Data: j.Data, Truncated: len(j.Data) < j.End, Dated: f.Info.Dated,
		Reason: j.Reason, Message: j.Message + " (" + reread.WhereBefore(f.Extents) + ")",
	}})
	if err != nil {
		return err
	}
	x.tellQuarantined(f, 0, j.Reason, j.Message)
	x.Books.Read(f.In.Name, 0, int64(j.End))
	x.Books.Rejected(f.In.Lot(int64(j.End)), j.Reason)
	return nil
}

// partLong handles a message that is too long only together with its part in the file before: each
// of the two is read for its own lines, which go to quarantine. data is the beginning of the file f.
func (x *Reader) partLong(f *File, scan *format.Scanner, data []byte, last bool) (tracker.Outcome, error) {
	stream, message := bytes.Clone(x.found.Stream), x.found.Message
	own, passed, done := scan.SkipParts(data, stream, last)
	if passed == 0 && !done { // the first line has no end yet
		f.Stuck = f.Size
		return f.AtEnd(), nil
	}
	f.GiveBack(&Apart{stream: stream, first: x.found.Skip, message: message})
	if passed > 0 {
		f.Long = cursor.Long{At: int64(passed), Ended: done, Reason: record.TooLong, Message: message, Parts: &cursor.Parts{Stream: stream, Beside: "before"}}
		f.Long.Parts.Add(own, 0)
	}
	return tracker.More, nil
}
