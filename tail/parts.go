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
	"kusto-agent/tail/internal/fingerprint"
)

// parts is a message of a container log that is longer than any may be. Its
// lines go to quarantine, as one; the lines of other streams that lie between
// them do not, and are read when its end is known.
type parts struct {
	stream []byte
	runs   []record.Span // its lines, in the order of the file
	beside string        // where the file is that has others of its lines; empty: none
}

// mostRuns bounds the memory of such a message: one that lines of other streams
// part more often ends there, and what follows is another.
const mostRuns = 1 << 16

// meetParts begins to skip a too long message of a container log, whose first line c has: it notes the
// stream of the message and the range of that line. passParts then looks for the end.
func (r *reader) meetParts(c *format.Chunk) {
	first := record.Span{Start: r.offset, End: r.long.at}
	r.long.parts = &parts{stream: bytes.Clone(c.Stream), runs: []record.Span{first}}
}

// passParts searches for the end of a too long message of a container log and stores only the
// ranges of its lines; lines of other streams may be between them. At the end, or with too many
// ranges, endParts writes the message to quarantine. It returns again if there is more to search,
// and idle if the rest is not written yet. last says that the file does not grow any more.
func (w *worker) passParts(r *reader, last bool) (after, error) {
	scan, err := w.scanner(r)
	if err != nil {
		return idle, err
	}
	for room := 1 << 20; ; room *= 2 {
		buf := w.buffer(room)[:room]
		n, err := r.src().ReadAt(buf, r.long.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return idle, err
		}
		whole := r.long.at+int64(n) >= r.size
		scan.SetQuiet(whole && r.isQuiet())
		own, passed, done := scan.SkipParts(buf[:n], r.long.parts.stream, last && whole)
		switch {
		case passed == 0 && !done && !whole:
			continue // the next line is longer than the buffer
		case len(own) > 0 || r.held.IsZero():
			r.held = time.Now() // as long as lines of the message come, its end is waited for
		}
		r.long.parts.add(own, r.long.at)
		r.long.at += int64(passed)
		switch {
		case done || len(r.long.parts.runs) >= mostRuns:
			r.long.ended = true
			return w.endParts(r)
		case whole:
			return idle, nil
		}
		return again, nil
	}
}

// add stores ranges of lines (own), which begin at an offset of the file. A range that begins where
// the last one ends is joined to it.
func (p *parts) add(own []format.Piece, at int64) {
	for _, o := range own {
		span := record.Span{Start: at + int64(o.Start), End: at + int64(o.End)}
		if i := len(p.runs) - 1; i >= 0 && p.runs[i].End == span.Start {
			p.runs[i].End = span.End
		} else {
			p.runs = append(p.runs, span)
		}
	}
}

// endParts writes a too long message to quarantine, with its beginning, and marks the ranges of its
// lines as ranges to skip, in the journal too. Then the reader goes on at its offset with the lines
// of other streams between them. It returns again; or idle and an error of reading or of
// quarantine.
func (w *worker) endParts(r *reader) (after, error) {
	p := r.long.parts
	if len(p.runs) == 0 {
		r.forgetRecord()
		return again, nil
	}
	size := int64(0)
	for _, run := range p.runs {
		size += run.Len()
	}
	most := int64(keptHead)
	if size <= int64(r.in.MaxRecordSize) {
		most = size // too long only with what is in the other file or between its lines: all of it is kept
	}
	var head []byte
	for _, run := range p.runs {
		have := len(head)
		head = slices.Grow(head, int(min(run.Len(), most-int64(have))))
		head = head[:have+int(min(run.Len(), most-int64(have)))]
		if _, err := fingerprint.ReadFull(r.src(), head[have:], run.Start); err != nil {
			return idle, err
		}
	}
	message := fmt.Sprintf("a message of %d bytes, over %d bytes of the file, more than max_record_size allows (%d)",
		size, p.runs[len(p.runs)-1].End-r.offset, r.in.MaxRecordSize)
	if p.beside != "" {
		message = fmt.Sprintf("%d bytes of a message that is longer than max_record_size allows (%d) with those in the file %s this one",
			size, r.in.MaxRecordSize, p.beside)
	}
	if err := w.rejectLong(r, p.runs[0].Start, head, size, message); err != nil {
		return idle, err
	}
	for _, run := range slices.Backward(p.runs) { // the first one last: until then the checkpoint stays before it
		mark, err := fingerprint.MarkAt(r.src(), run.End)
		if err != nil {
			return idle, err
		}
		w.t.skip(r.file, run, mark)
		r.skips = append(slices.Clip(r.skips), record.Extent{File: r.file, Span: run, Mark: mark})
	}
	slices.SortFunc(r.skips, func(a, b record.Extent) int { return cmp.Compare(a.Start, b.Start) })
	r.forgetRecord()
	return again, nil
}
