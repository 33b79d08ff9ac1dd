package tail

import (
	"errors"
	"fmt"
	"io"

	"kusto-agent/record"
)

// keptHead is how much of a record that is too long quarantine keeps.
const keptHead = 64 << 10

// passLong looks for the end of a record that is longer than any may be,
// keeping nothing of it in memory.
func (w *worker) passLong(r *reader) (after, error) {
	scan, err := w.scanner(r.in)
	if err != nil {
		return idle, err
	}
	buf := w.buffer(1 << 20)[:1<<20]
	n, err := r.f.ReadAt(buf, r.long)
	if err != nil && !errors.Is(err, io.EOF) {
		return idle, err
	}
	end := scan.Resync(buf[:n])
	if end < 0 {
		r.long += int64(n)
		if r.long < r.size {
			return again, nil
		}
		if !w.t.isLast(r) {
			return idle, nil
		}
		end = 0
	}
	head := make([]byte, min(keptHead, r.long+int64(end)-r.offset))
	if _, err := readFull(r.f, head, r.offset); err != nil {
		return idle, err
	}
	return w.endLong(r, r.long+int64(end), head)
}

// endLong sends the record that ended at end to quarantine and goes on there.
func (w *worker) endLong(r *reader, end int64, head []byte) (after, error) {
	mark, err := markAt(r.f, end)
	if err != nil {
		return idle, err
	}
	if err := w.register(r); err != nil {
		return idle, err
	}
	why := fmt.Sprintf("%d bytes, more than max_record_size allows (%d)", end-r.offset, r.in.MaxRecordSize)
	err = w.keep([]record.Rejected{{
		File: r.file, Path: r.info.First, Route: r.in.Route,
		Offset: r.offset, Length: end - r.offset, Data: head, Truncated: int64(len(head)) < end-r.offset,
		Reason: record.TooLong, Message: why,
	}})
	if err != nil {
		return idle, err
	}
	w.t.tellQuarantined(r, r.offset, record.TooLong, why)
	w.t.o.Books.Read(r.in.Name, 0, end-r.offset)
	w.t.o.Books.Rejected(r.in.Name, record.TooLong, 1)
	w.t.skip(r.file, record.Span{Start: r.offset, End: end}, mark)
	r.offset, r.mark, r.long, r.stuck = end, mark, 0, 0
	return again, nil
}
