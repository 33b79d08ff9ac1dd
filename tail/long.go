package tail

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/cursor"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/settings"
	"kusto-agent/tail/internal/tracker"
)

// meetLong begins to skip a record that does not end within one read, of which data is the
// beginning. Of a compressed file that is kept in memory, since reading it again would decompress
// all before it.
func (w *worker) meetLong(r *reader, c *format.Chunk, data []byte) {
	r.Long = cursor.Long{At: r.Offset() + int64(c.Skip), Indent: c.Indent, Reason: c.Reason, Message: c.Message}
	if c.Parts { // its first line is all before the place where the look goes on
		first := record.Span{Start: r.Offset(), End: r.Long.At}
		r.Long.Parts = &cursor.Parts{Stream: bytes.Clone(c.Stream), Runs: []record.Span{first}}
	}
	if r.z != nil {
		r.Long.Head = bytes.Clone(data[:min(settings.KeptHead, len(data))])
	}
	if c.Reason == record.Malformed {
		w.t.o.Logger.Warn("no record boundary where one was expected; the bytes up to the next boundary go to quarantine", "file", w.job.path,
			"offset", r.Offset(), "err", c.Message)
	}
}

// passLong skips up to 1 MiB of a record that is too long or damaged, and at its end puts its
// beginning into quarantine. It returns idle if the rest is not written yet. last says that the
// file grows no more, so its end is the end of the record too.
func (w *worker) passLong(r *reader, last bool) (tracker.Outcome, error) {
	switch {
	case r.Long.Parts != nil && r.Long.Ended:
		return w.endParts(r)
	case r.Long.Parts != nil:
		return w.passParts(r, last)
	case r.Long.Ended:
		return w.endLong(r)
	}
	scan, err := w.scanner(r)
	if err != nil {
		return tracker.Idle, err
	}
	buf := w.buffer(1 << 20)[:1<<20]
	if r.in.Format != record.Avro {
		_, unit := scan.Border()
		at := r.dataAt(r.Long.At) // behind a hole, which need not be read
		r.Long.At = max(r.Long.At, at-at%int64(unit))
	}
	n, err := r.src().ReadAt(buf, r.Long.At)
	if err != nil && !errors.Is(err, io.EOF) {
		return tracker.Idle, err
	}
	whole := r.Long.At+int64(n) >= r.Size
	if whole && !w.isOver(r) {
		n = r.in.TextLen(buf[:n], r.Long.At) // without NULs at the end, in whose place text may be written
	}
	scan.SetQuiet(whole && r.recordTimedOut())
	passed, done := scan.SkipLong(buf[:n], r.Long.Indent, last && whole)
	r.Long.At += int64(passed)
	switch {
	case !done && whole && r.isCut():
		return w.giveUpRest(r)
	case !done && whole:
		return tracker.Idle, nil
	case !done:
		return tracker.More, nil
	}
	r.Long.Ended = true
	return w.endLong(r)
}

// endLong writes the beginning of the skipped record to quarantine, and moves the reader to its
// end. The error is one of reading or of quarantine.
func (w *worker) endLong(r *reader) (tracker.Outcome, error) {
	head := r.Long.Head
	if want := min(settings.KeptHead, r.Long.At-r.Offset()); int64(len(head)) < want {
		head = make([]byte, want)
		if _, err := fingerprint.ReadFull(r.src(), head, r.Offset()); err != nil {
			return tracker.Idle, err
		}
	}
	end, message := r.Long.At, r.Long.Message
	if r.Long.Reason == record.TooLong && r.in.Format != record.Avro && r.in.Coding() == format.UTF8 {
		message = fmt.Sprintf("%d bytes, more than max_record_size allows (%d)", end-r.Offset(), r.in.MaxRecordSize)
	}
	mark, err := fingerprint.MarkAt(r.src(), end)
	if err != nil {
		return tracker.Idle, err
	}
	if err := w.rejectLong(r, r.Offset(), head, end-r.Offset(), message); err != nil {
		return tracker.Idle, err
	}
	w.pass(r, end, mark)
	return tracker.More, nil
}

// rejectLong writes a record of length bytes that is too long or damaged to quarantine, and counts
// and logs it. head is its beginning.
func (w *worker) rejectLong(r *reader, offset int64, head []byte, length int64, message string) error {
	if err := w.register(r); err != nil {
		return err
	}
	reason := r.Long.Reason
	err := w.keep(r.in, []record.Rejected{{
		File: r.File, Path: r.Info.First, Route: r.in.Route,
		Offset: offset, Length: length, Data: head, Truncated: int64(len(head)) < length, Dated: r.Info.Dated,
		Reason: reason, Message: message,
	}})
	if err != nil {
		return err
	}
	w.tellQuarantined(r, offset, reason, message)
	w.t.o.Books.Read(r.in.Name, 0, length)
	w.t.o.Books.Rejected(r.in.Lot(length), reason)
	return nil
}

// mostRuns bounds the memory of such a message: one that lines of other streams
// part more often ends there, and what follows is another.
const mostRuns = 1 << 16

// passParts looks for the end of a too long message of a container log, and keeps only the ranges
// of its lines, between which others may be. It returns as passLong does.
func (w *worker) passParts(r *reader, last bool) (tracker.Outcome, error) {
	scan, err := w.scanner(r)
	if err != nil {
		return tracker.Idle, err
	}
	for room := 1 << 20; ; room *= 2 {
		buf := w.buffer(room)[:room]
		n, err := r.src().ReadAt(buf, r.Long.At)
		if err != nil && !errors.Is(err, io.EOF) {
			return tracker.Idle, err
		}
		whole := r.Long.At+int64(n) >= r.Size
		scan.SetQuiet(whole && r.recordTimedOut())
		own, passed, done := scan.SkipParts(buf[:n], r.Long.Parts.Stream, last && whole)
		switch {
		case passed == 0 && !done && !whole:
			continue // the next line is longer than the buffer
		case len(own) > 0 || r.OpenSince.IsZero():
			r.OpenSince = time.Now() // as long as lines of the message come, its end is waited for
		}
		r.Long.Parts.Add(own, r.Long.At)
		r.Long.At += int64(passed)
		switch {
		case done || len(r.Long.Parts.Runs) >= mostRuns:
			r.Long.Ended = true
			return w.endParts(r)
		case whole:
			return tracker.Idle, nil
		}
		return tracker.More, nil
	}
}

// endParts writes a too long message to quarantine, and marks the ranges of its lines as ranges to
// skip, in the journal too. The reader goes on at its offset with the lines of other streams
// between them.
func (w *worker) endParts(r *reader) (tracker.Outcome, error) {
	p := r.Long.Parts
	if len(p.Runs) == 0 {
		r.ForgetRecord()
		return tracker.More, nil
	}
	size := p.Bytes()
	most := int64(settings.KeptHead)
	if size <= int64(r.in.MaxRecordSize) {
		most = size // too long only with what is in the other file or between its lines: all of it is kept
	}
	var head []byte
	for _, run := range p.Runs {
		have := len(head)
		head = append(head, make([]byte, min(run.Len(), most-int64(have)))...)
		if _, err := fingerprint.ReadFull(r.src(), head[have:], run.Start); err != nil {
			return tracker.Idle, err
		}
	}
	message := fmt.Sprintf("a message of %d bytes, over %d bytes of the file, more than max_record_size allows (%d)",
		size, p.Runs[len(p.Runs)-1].End-r.Offset(), r.in.MaxRecordSize)
	if p.Beside != "" {
		message = fmt.Sprintf("%d bytes of a message that is longer than max_record_size allows (%d) with those in the file %s this one",
			size, r.in.MaxRecordSize, p.Beside)
	}
	var skips []record.Extent
	for _, run := range p.Runs {
		mark, err := fingerprint.MarkAt(r.src(), run.End)
		if err != nil {
			return tracker.Idle, err
		}
		skips = append(skips, record.Extent{File: r.File, Span: run, Mark: mark})
	}
	if err := w.rejectLong(r, p.Runs[0].Start, head, size, message); err != nil {
		return tracker.Idle, err
	}
	for _, x := range slices.Backward(skips) { // the first one last: until then the checkpoint stays before it
		w.t.skip(x.File, x.Span, x.Mark)
	}
	r.Skips = append(slices.Clip(r.Skips), skips...)
	slices.SortFunc(r.Skips, func(a, b record.Extent) int { return cmp.Compare(a.Start, b.Start) })
	r.ForgetRecord()
	return tracker.More, nil
}
