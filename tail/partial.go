package tail

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

// partial is the open message at the end of a file, which goes on in the next: the
// reader of that reads it as if its own file began with it. No
// offset advances until the whole message is handed over: the reader of the file before
// stays at the start of the message, and sends it by itself if its file grows, or if what
// follows cannot be joined. A partial does not change once it was made.
type partial struct {
	from    *reader
	data    []byte          // with what from carries itself
	extents []record.Extent // of data, the oldest file first
}

// apart is of a message that is too long with what is in the next file: the lines
// of both files go to quarantine.
type apart struct {
	stream  []byte
	first   int // bytes of its first line
	message string
}

var errNoPlace = errors.New("too many compressed files are being read")

// openMessage reads the open message at the end of r's file for the reader of the next. nil: that
// end is no whole lines, or longer than a record may be. The error is errNoPlace if too many
// compressed files are open, or one of reading.
func (w *worker) openMessage(r *reader) (*partial, error) {
	if r.f == nil {
		if err := w.reopen(r); err != nil {
			return nil, err
		}
	}
	if r.z != nil && !w.t.mayUnpack(r) {
		return nil, errNoPlace
	}
	p := &partial{from: r}
	if c := r.carry; c != nil {
		p.data, p.extents = bytes.Clone(c.data), append(p.extents, c.extents...)
	}
	have, n := len(p.data), r.Size-r.Offset()
	if int64(have)+n > int64(r.in.Options().MaxRecord) {
		return nil, nil
	}
	p.data = append(p.data, make([]byte, n)...)
	if _, err := fingerprint.ReadFull(r.src(), p.data[have:], r.Offset()); err != nil {
		return nil, err
	}
	if p.data[len(p.data)-1] != '\n' {
		return nil, nil
	}
	mark, err := fingerprint.MarkAt(r.src(), r.Size)
	if err != nil {
		return nil, err
	}
	p.extents = append(p.extents, record.Extent{File: r.File, Span: record.Span{Start: r.Offset(), End: r.Size}, Mark: mark})
	return p, w.register(r) // in the journal, so that the message can be read again after a restart
}

// hasGrown reports whether one of the files has grown in which the message begins that r carries:
// then it is read again. A file that cannot be opened counts as not grown.
func (w *worker) hasGrown(r *reader) bool {
	for p := r.carry; p != nil; p = p.from.carry {
		o := p.from
		if o.z != nil || o.f == nil && w.reopen(o) != nil {
			continue
		}
		if st, err := w.t.stat(o.f); err == nil && st.Size != o.Size {
			w.report.others = append(append(w.report.others, o), o.stepBack()...)
			return true
		}
	}
	return false
}

// take moves the readers of all files in which the message that r carries begins to the ends of
// these: it is being handed over.
func (w *worker) take(r *reader) {
	for p := r.carry; p != nil; {
		o, end := p.from, p.extents[len(p.extents)-1]
		o.Advance(end.End, end.Mark)
		o.lent.carry, o.lent = nil, nil
		w.report.others = append(w.report.others, o)
		p = o.carry
	}
}

// readCarried reads the first record of a file as one text with the message that it carries. If
// nothing here continues that, it is given back. last says that the file does not grow any more.
func (w *worker) readCarried(r *reader, last bool) (tracker.Outcome, error) {
	p := r.carry
	end := r.Size
	if len(r.Skips) > 0 && r.Skips[0].Start <= end {
		end, last = r.Skips[0].Start, true
	}
	want := min(end, int64(r.in.Options().MaxRecord)) // no record is longer
	lease, err := w.lease(r, len(p.data)+int(want))
	if err != nil || lease == nil {
		return tracker.Parked, err
	}
	defer lease.Done()
	data := append(bytes.Clone(p.data), make([]byte, want)...)
	n, err := r.src().ReadAt(data[len(p.data):], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return tracker.Idle, err
	}
	if err := w.tellMark(r, data[len(p.data):]); err != nil {
		return tracker.Idle, err
	}
	whole := int64(n) == end
	data = data[:len(p.data)+r.in.TextLen(data[len(p.data):len(p.data)+n], 0)]
	scan, err := w.scanner(r)
	if err != nil {
		return tracker.Idle, err
	}
	scan.SetQuiet(whole && r.Quiet)
	c := &w.found
	scan.Scan(data, -int64(len(p.data)), last && whole, 1, c)
	if c.Unmatched > 0 || c.Filtered != nil { // the scan may have gone on behind a filtered message
		if err := w.scanFirst(r, scan, data, last && whole, whole && r.Quiet); err != nil {
			return tracker.Idle, err
		}
	}
	used := c.Consumed
	if len(c.Rejected) > 0 {
		used = c.Rejected[0].End
	}
	switch {
	case c.Long && len(p.extents) == 1:
		return w.partLong(r, scan, data[len(p.data):], last && whole)
	case used == 0 && !c.Long:
		r.NoteStuck(r.Size, time.Now())
		return w.atEnd(r), nil
	case used <= len(p.data): // no line here continues the message
		w.report.others = append(w.report.others, r.giveBack(nil))
		return tracker.More, nil
	}
	return tracker.More, w.deliverCarried(r, lease, c, int64(used-len(p.data)))
}

// scanFirst scans only the first record of data, with the result in w.found: where a message is
// filtered, scan goes on behind it, so a scanner without rules finds its end. data begins with the
// bytes of the file before.
func (w *worker) scanFirst(r *reader, scan *format.Scanner, data []byte, last, quiet bool) error {
	o := r.in.Options()
	o.Rules, o.OnError = nil, format.SendRaw
	all, err := format.New(o)
	if err != nil {
		return err
	}
	if err := r.in.Prepare(all, r.src(), r.File, &r.Info, w.t.stamp); err != nil {
		return err
	}
	all.SetQuiet(quiet)
	var c format.Chunk
	all.Scan(data, -int64(len(r.carry.data)), last, 1, &c)
	scan.Scan(data[:c.Consumed], -int64(len(r.carry.data)), true, 0, &w.found)
	return nil
}

// deliverCarried hands over, rejects or filters the record c that began in the files before and
// ends n bytes into r's file. If one of these has grown, it does nothing, and the message is read
// again.
func (w *worker) deliverCarried(r *reader, lease Lease, c *format.Chunk, n int64) error {
	before, cover := r.carry.extents, record.Extent{File: r.File, Span: record.Span{End: n}}
	var err error
	if cover.Mark, err = fingerprint.MarkAt(r.src(), n); err != nil {
		return err
	}
	if err := w.register(r); err != nil {
		return err
	}
	if w.hasGrown(r) { // asked before quarantine, which cannot give a record back
		return nil
	}
	refused := len(c.Rejected) > 0
	if refused {
		if err := w.refuseCarried(r, c.Rejected[0]); err != nil {
			return err
		}
	}
	w.take(r)
	if !refused && c.Records > 0 {
		c.Pieces = append(c.Pieces[:0], format.Piece{End: int(n), Records: c.Records})
		c.Lens = reread.UnitLens(c.Records, n)
		return w.deliver(r, lease, c, cover, before, false)
	}
	if !refused {
		w.count(r.in, c)
	}
	for _, x := range before {
		w.t.skip(x.File, x.Span, x.Mark)
	}
	w.pass(r, n, cover.Mark)
	return nil
}

// refuseCarried writes a record that began in the file before to quarantine, because its JSON is
// larger than a payload may be. The text of j is that of both files. The error is
// that of quarantine.
func (w *worker) refuseCarried(r *reader, j format.Reject) error {
	err := w.keep(r.in, []record.Rejected{{
		File: r.File, Path: r.Info.First, Route: r.in.Route, Length: int64(j.End), Data: j.Data, Truncated: len(j.Data) < j.End, Dated: r.Info.Dated,
		Reason: j.Reason, Message: j.Message + " (" + reread.WhereBefore(r.carry.extents) + ")",
	}})
	if err != nil {
		return err
	}
	w.tellQuarantined(r, 0, j.Reason, j.Message)
	w.t.o.Books.Read(r.in.Name, 0, int64(j.End))
	w.t.o.Books.Rejected(r.in.Lot(int64(j.End)), j.Reason)
	return nil
}

// partLong handles a message that is too long only together with its part in the file before: each
// of the two readers writes its own lines to quarantine. data is the beginning of r's file.
func (w *worker) partLong(r *reader, scan *format.Scanner, data []byte, last bool) (tracker.Outcome, error) {
	stream, message := bytes.Clone(w.found.Stream), w.found.Message
	own, passed, done := scan.SkipParts(data, stream, last)
	if passed == 0 && !done { // the first line has no end yet
		r.Stuck = r.Size
		return w.atEnd(r), nil
	}
	w.report.others = append(w.report.others, r.giveBack(&apart{stream: stream, first: w.found.Skip, message: message}))
	if passed > 0 {
		r.Long = cursor.Long{At: int64(passed), Ended: done, Reason: record.TooLong, Message: message, Parts: &cursor.Parts{Stream: stream, Beside: "before"}}
		r.Long.Parts.Add(own, 0)
	}
	return tracker.More, nil
}

// passApart makes the reader of the file before skip its part of a message that is too long
// together with the next file.
func (r *reader) passApart(a *apart) {
	first := record.Span{Start: r.Offset(), End: r.Offset() + int64(a.first)}
	r.Long = cursor.Long{At: first.End, Reason: record.TooLong, Message: a.message, Parts: &cursor.Parts{Stream: a.stream, Runs: []record.Span{first}, Beside: "after"}}
}
