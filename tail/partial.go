package tail

import (
	"bytes"
	"errors"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/records"
)

// partial is the open message at the end of a file, which goes on in the next: the
// reader of that reads it as if its own file began with it. No
// offset advances until the whole message is handed over: the reader of the file before
// stays at the start of the message, and sends it by itself if its file grows, or if what
// follows cannot be joined. A partial does not change once it was made.
type partial struct {
	from            *reader
	records.Carried // with what from carries itself
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
		p.Data, p.Extents = bytes.Clone(c.Data), append(p.Extents, c.Extents...)
	}
	have, n := len(p.Data), r.Size-r.Offset()
	if int64(have)+n > int64(r.in.Options().MaxRecord) {
		return nil, nil
	}
	p.Data = append(p.Data, make([]byte, n)...)
	if _, err := fingerprint.ReadFull(r.src(), p.Data[have:], r.Offset()); err != nil {
		return nil, err
	}
	if p.Data[len(p.Data)-1] != '\n' {
		return nil, nil
	}
	mark, err := fingerprint.MarkAt(r.src(), r.Size)
	if err != nil {
		return nil, err
	}
	p.Extents = append(p.Extents, record.Extent{File: r.File, Span: record.Span{Start: r.Offset(), End: r.Size}, Mark: mark})
	return p, w.register(r) // in the journal, so that the message can be read again after a restart
}

// HasGrown reports whether one of the files has grown in which the message begins that r carries:
// then it is read again. A file that cannot be opened counts as not grown.
func (w *worker) HasGrown() bool {
	for p := w.job.r.carry; p != nil; p = p.from.carry {
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

// Take moves the readers of all files in which the message that r carries begins to the ends of
// these: it is being handed over.
func (w *worker) Take() {
	for p := w.job.r.carry; p != nil; {
		o, end := p.from, p.Extents[len(p.Extents)-1]
		o.Advance(end.End, end.Mark)
		o.lent.carry, o.lent = nil, nil
		w.report.others = append(w.report.others, o)
		p = o.carry
	}
}

// GiveBack ends the wait of the reader for the message that it carries, see giveBack.
func (w *worker) GiveBack(a *records.Apart) {
	w.report.others = append(w.report.others, w.job.r.giveBack(a))
}
