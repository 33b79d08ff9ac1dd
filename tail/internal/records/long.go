package records

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
func (x *Reader) meetLong(f *File, c *format.Chunk, data []byte) {
	f.Long = cursor.Long{At: f.Offset() + int64(c.Skip), Indent: c.Indent, Reason: c.Reason, Message: c.Message}
	if c.Parts { // its first line is all before the place where the look goes on
		first := record.Span{Start: f.Offset(), End: f.Long.At}
		f.Long.Parts = &cursor.Parts{Stream: bytes.Clone(c.Stream), Runs: []record.Span{first}}
	}
	if f.Plain == nil {
		f.Long.Head = bytes.Clone(data[:min(settings.KeptHead, len(data))])
	}
	if c.Reason == record.Malformed {
		x.Logger.Warn("no record boundary where one was expected; the bytes up to the next boundary go to quarantine", "file", f.Path,
			"offset", f.Offset(), "err", c.Message)
	}
}

// PassLong skips up to 1 MiB of a record that is too long or damaged, and at its end puts its
// beginning into quarantine. It returns tracker.Idle if the rest is not written yet. last says that the
// file grows no more, so its end is the end of the record too.
func (x *Reader) PassLong(f *File, last bool) (tracker.Outcome, error) {
	switch {
	case f.Long.Parts != nil && f.Long.Ended:
		return x.endParts(f)
	case f.Long.Parts != nil:
		return x.passParts(f, last)
	case f.Long.Ended:
		return x.endLong(f)
	}
	scan, err := x.Scanner(f)
	if err != nil {
		return tracker.Idle, err
	}
	buf := x.buffer(1 << 20)[:1<<20]
	if f.In.Format != record.Avro {
		_, unit := scan.Border()
		at := f.dataAt(f.Long.At) // behind a hole, which need not be read
		f.Long.At = max(f.Long.At, at-at%int64(unit))
	}
	n, err := f.Src.ReadAt(buf, f.Long.At)
	if err != nil && !errors.Is(err, io.EOF) {
		return tracker.Idle, err
	}
	whole := f.Long.At+int64(n) >= f.Size
	if whole && !f.IsOver() {
		n = f.In.TextLen(buf[:n], f.Long.At) // without NULs at the end, in whose place text may be written
	}
	scan.SetQuiet(whole && f.TimedOut())
	passed, done := scan.SkipLong(buf[:n], f.Long.Indent, last && whole)
	f.Long.At += int64(passed)
	switch {
	case !done && whole && f.Cut:
		return f.GiveUpRest()
	case !done && whole:
		return tracker.Idle, nil
	case !done:
		return tracker.More, nil
	}
	f.Long.Ended = true
	return x.endLong(f)
}

// endLong writes the beginning of the skipped record to quarantine, and moves the offset to its
// end. The error is one of reading or of quarantine.
func (x *Reader) endLong(f *File) (tracker.Outcome, error) {
	head := f.Long.Head
	if want := min(settings.KeptHead, f.Long.At-f.Offset()); int64(len(head)) < want {
		head = make([]byte, want)
		if _, err := fingerprint.ReadFull(f.Src, head, f.Offset()); err != nil {
			return tracker.Idle, err
		}
	}
	end, message := f.Long.At, f.Long.Message
	if f.Long.Reason == record.TooLong && f.In.Format != record.Avro && f.In.Coding() == format.UTF8 {
		message = fmt.Sprintf("%d bytes, more than max_record_size allows (%d)", end-f.Offset(), f.In.MaxRecordSize)
	}
	mark, err := fingerprint.MarkAt(f.Src, end)
	if err != nil {
		return tracker.Idle, err
	}
	if err := x.rejectLong(f, f.Offset(), head, end-f.Offset(), message); err != nil {
		return tracker.Idle, err
	}
	x.Pass(f, end, mark)
	return tracker.More, nil
}

// rejectLong writes a record of length bytes that is too long or damaged to quarantine, and counts
// and logs it. head is its beginning.
func (x *Reader) rejectLong(f *File, offset int64, head []byte, length int64, message string) error {
	if err := f.Register(); err != nil {
		return err
	}
	reason := f.Long.Reason
	err := x.keep(f.In, []record.Rejected{{
		File: f.File, Path: f.Info.First, Route: f.In.Route,
		Offset: offset, Length: length, Data: head, Truncated: int64(len(head)) < length, Dated: f.Info.Dated,
		Reason: reason, Message: message,
	}})
	if err != nil {
		return err
	}
	x.tellQuarantined(f, offset, reason, message)
	x.Books.Read(f.In.Name, 0, length)
	x.Books.Rejected(f.In.Lot(length), reason)
	return nil
}

// mostRuns bounds the memory of such a message: one that lines of other streams
// part more often ends there, and what follows is another.
const mostRuns = 1 << 16

// passParts looks for the end of a too long message of a container log, and keeps only the ranges
// of its lines, between which others may be. It returns as PassLong does.
func (x *Reader) passParts(f *File, last bool) (tracker.Outcome, error) {
	scan, err := x.Scanner(f)
	if err != nil {
		return tracker.Idle, err
	}
	for room := 1 << 20; ; room *= 2 {
		buf := x.buffer(room)[:room]
		n, err := f.Src.ReadAt(buf, f.Long.At)
		if err != nil && !errors.Is(err, io.EOF) {
			return tracker.Idle, err
		}
		whole := f.Long.At+int64(n) >= f.Size
		scan.SetQuiet(whole && f.TimedOut())
		own, passed, done := scan.SkipParts(buf[:n], f.Long.Parts.Stream, last && whole)
		switch {
		case passed == 0 && !done && !whole:
			continue // the next line is longer than the buffer
		case len(own) > 0 || f.OpenSince.IsZero():
			f.OpenSince = time.Now() // as long as lines of the message come, its end is waited for
		}
		f.Long.Parts.Add(own, f.Long.At)
		f.Long.At += int64(passed)
		switch {
		case done || len(f.Long.Parts.Runs) >= mostRuns:
			f.Long.Ended = true
			return x.endParts(f)
		case whole:
			return tracker.Idle, nil
		}
		return tracker.More, nil
	}
}

// endParts writes a too long message to quarantine, and marks the ranges of its lines as ranges to
// skip, in the journal too. Reading goes on at the offset with the lines of other streams
// between them.
func (x *Reader) endParts(f *File) (tracker.Outcome, error) {
	p := f.Long.Parts
	if len(p.Runs) == 0 {
		f.ForgetRecord()
		return tracker.More, nil
	}
	size := p.Bytes()
	most := int64(settings.KeptHead)
	if size <= int64(f.In.MaxRecordSize) {
		most = size // too long only with what is in the other file or between its lines: all of it is kept
	}
	var head []byte
	for _, run := range p.Runs {
		have := len(head)
		head = append(head, make([]byte, min(run.Len(), most-int64(have)))...)
		if _, err := fingerprint.ReadFull(f.Src, head[have:], run.Start); err != nil {
			return tracker.Idle, err
		}
	}
	message := fmt.Sprintf("a message of %d bytes, over %d bytes of the file, more than max_record_size allows (%d)",
		size, p.Runs[len(p.Runs)-1].End-f.Offset(), f.In.MaxRecordSize)
	if p.Beside != "" {
		message = fmt.Sprintf("%d bytes of a message that is longer than max_record_size allows (%d) with those in the file %s this one",
			size, f.In.MaxRecordSize, p.Beside)
	}
	var skips []record.Extent
	for _, run := range p.Runs {
		mark, err := fingerprint.MarkAt(f.Src, run.End)
		if err != nil {
			return tracker.Idle, err
		}
		skips = append(skips, record.Extent{File: f.File, Span: run, Mark: mark})
	}
	if err := x.rejectLong(f, p.Runs[0].Start, head, size, message); err != nil {
		return tracker.Idle, err
	}
	for _, s := range slices.Backward(skips) { // the first one last: until then the checkpoint stays before it
		x.Skip(s.File, s.Span, s.Mark)
	}
	f.Skips = append(slices.Clip(f.Skips), skips...)
	slices.SortFunc(f.Skips, func(a, b record.Extent) int { return cmp.Compare(a.Start, b.Start) })
	f.ForgetRecord()
	return tracker.More, nil
}
