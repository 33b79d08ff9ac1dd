package tail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// readCarried reads the first record of a file, which begins with what was
// borrowed.
func (w *worker) readCarried(r *reader, last bool) (after, error) {
	l := r.carrying
	end := r.size
	if len(r.skips) > 0 && r.skips[0].Start <= end {
		end, last = r.skips[0].Start, true
	}
	want := min(end, int64(r.in.options().MaxRecord)) // with what is carried more than a record has
	lease, err := w.lease(r, len(l.data)+int(want))
	if err != nil || lease == nil {
		return parkedOr(err), err
	}
	defer lease.Done()
	data := append(bytes.Clone(l.data), make([]byte, want)...)
	n, err := r.src().ReadAt(data[len(l.data):], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return idle, err
	}
	w.t.tellMark(r, data[len(l.data):])
	whole := int64(n) == end
	data = data[:len(l.data)+r.in.textLen(data[len(l.data):len(l.data)+n], 0)]
	scan, err := w.scanner(r)
	if err != nil {
		return idle, err
	}
	scan.SetQuiet(whole && r.quiet)
	c := &w.found
	scan.Scan(data, -int64(len(l.data)), last && whole, 1, c)
	if c.Unmatched > 0 || c.Filtered != nil {
		if err := w.scanFirst(r, scan, data, last && whole, whole && r.quiet); err != nil {
			return idle, err
		}
	}
	used := c.Consumed
	if len(c.Rejected) > 0 {
		used = c.Rejected[0].End
	}
	switch {
	case c.Long && l.base == nil:
		return w.partLong(r, scan, data[len(l.data):], last && whole)
	case used == 0 && !c.Long:
		r.stuck = r.size
		if r.held.IsZero() {
			r.held = time.Now()
		}
		return w.atEnd(r), nil
	case used <= len(l.data): // nothing here goes on with it
		w.t.mu.Lock()
		w.t.giveBack(l, nil)
		w.t.mu.Unlock()
		return again, nil
	}
	return again, w.deliverCarried(r, lease, c, int64(used-len(l.data)))
}

// scanFirst scans the first record alone of what begins with what is carried, where
// some of it, or all, is not sent: the scan for it went on to the next that is.
func (w *worker) scanFirst(r *reader, scan *format.Scanner, data []byte, last, quiet bool) error {
	o := r.in.options()
	o.Rules, o.OnError = nil, format.SendRaw
	all, err := format.New(o)
	if err != nil {
		return err
	}
	if err := r.in.prepare(all, r.src(), r.file, &r.info, w.t.stamp); err != nil {
		return err
	}
	all.SetQuiet(quiet)
	var c format.Chunk
	all.Scan(data, -int64(len(r.carrying.data)), last, 1, &c)
	scan.Scan(data[:c.Consumed], -int64(len(r.carrying.data)), true, 0, &w.found)
	return nil
}

func parkedOr(err error) after {
	if err != nil {
		return idle
	}
	return parked
}

// deliverCarried hands over the record that begins with what was borrowed and ends
// n bytes into the file, or puts it away.
func (w *worker) deliverCarried(r *reader, lease Lease, c *format.Chunk, n int64) error {
	l, cover := r.carrying, record.Extent{File: r.file, Span: record.Span{End: n}}
	var err error
	if cover.Mark, err = markAt(r.src(), n); err != nil {
		return err
	}
	if err := w.register(r); err != nil {
		return err
	}
	refused := len(c.Rejected) > 0
	if refused {
		if err := w.refuseCarried(r, c.Rejected[0]); err != nil {
			return err
		}
	}
	if !w.t.take(l) {
		return nil
	}
	switch {
	case !refused && c.Records > 0:
		c.Pieces = append(c.Pieces[:0], format.Piece{End: int(n), Records: c.Records})
		c.Lens = unitLens(c.Records, n)
		err = w.deliver(r, lease, c, cover, l.before(), false)
	case !refused:
		w.count(r.in, c)
		fallthrough
	default:
		for _, x := range l.before() {
			w.t.skip(x.File, x.Span, x.Mark)
		}
		w.pass(r, n, cover.Mark)
	}
	r.carrying = nil
	return err
}

// refuseCarried puts a record into quarantine that is longer as JSON than a payload
// may be.
func (w *worker) refuseCarried(r *reader, j format.Reject) error {
	err := w.keep(r.in, []record.Rejected{{
		File: r.file, Path: r.info.First, Route: r.in.Route, Length: int64(j.End), Data: j.Data, Truncated: len(j.Data) < j.End,
		Reason: j.Reason, Message: j.Message + " (" + whereBefore(r.carrying.before()) + ")",
	}})
	if err != nil {
		return err
	}
	w.t.tellQuarantined(r, 0, j.Reason, j.Message)
	w.t.o.Books.Read(r.in.Name, 0, int64(j.End))
	w.t.o.Books.Rejected(r.in.lot(int64(j.End)), j.Reason)
	return nil
}

// whereBefore says, of a record that begins in another file, where that is.
func whereBefore(before []record.Extent) string {
	text := ""
	for _, x := range before {
		text += fmt.Sprintf("its first %d bytes are at offset %d of file %v, ", x.Len(), x.Start, x.File.ID)
	}
	return text + "the others follow here"
}

// partLong is for a message that is longer than any may be, with what was borrowed
// but not without: its lines go to quarantine file by file.
func (w *worker) partLong(r *reader, scan *format.Scanner, data []byte, last bool) (after, error) {
	stream, message := bytes.Clone(w.found.Stream), w.found.Message
	own, passed, done := scan.SkipParts(data, stream, last)
	if passed == 0 && !done { // a line without its end
		r.stuck = r.size
		return w.atEnd(r), nil
	}
	t, l := w.t, r.carrying
	t.mu.Lock()
	valid := l.state == lent
	t.giveBack(l, &apart{stream: stream, first: w.found.Skip, message: message})
	t.mu.Unlock()
	if !valid || passed == 0 {
		return again, nil
	}
	r.carrying = nil
	r.forgetRecord()
	r.long = long{at: int64(passed), ended: done, reason: record.TooLong, message: message, parts: &parts{stream: stream, beside: "before"}}
	r.long.parts.add(own, 0)
	return again, nil
}

// passApart has the lines of a message go to quarantine that is too long with what
// the heir holds of it.
func (r *reader) passApart(a *apart) {
	first := record.Span{Start: r.offset, End: r.offset + int64(a.first)}
	r.long = long{at: first.End, reason: record.TooLong, message: a.message, parts: &parts{stream: a.stream, runs: []record.Span{first}, beside: "after"}}
}
