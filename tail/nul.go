package tail

import (
	"errors"
	"io"

	"kusto-agent/internal/durable"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/holes"
	"kusto-agent/tail/internal/tracker"
)

// A file can hold NULs that nobody wrote: behind a crash, behind a truncation
// whose writer goes on where it was, and where room was reserved for what is still
// to come. Those between records are left out, as package format says; a hole is
// passed without being read. Those that a file ends with are held: something else
// may be written in their place.

// besideNULs is the most bytes of a read where NULs are known to follow.
const besideNULs = 64 << 10

// meetNULs handles NULs at the offset of the reader, such as a crash leaves in a log.
func (w *worker) meetNULs(r *reader) (tracker.Outcome, error) {
	if !r.NULs.Text && r.NULs.At < r.Size {
		return w.lookNULs(r)
	}
	return w.passNULs(r)
}

// lookNULs searches for the end of the NULs, at most 1 MiB in one turn.
func (w *worker) lookNULs(r *reader) (tracker.Outcome, error) {
	buf := w.buffer(1 << 20)[:1<<20]
	at := r.dataAt(r.NULs.At)
	n, err := r.src().ReadAt(buf[:min(int64(len(buf)), r.Size-at)], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return tracker.Idle, err
	}
	if i := holes.FirstText(buf[:n]); i >= 0 {
		r.NULs.At, r.NULs.Text = at+int64(i), true
	} else if r.NULs.At = at + int64(n); err != nil {
		r.NULs.At = r.Size // the file was truncated, which the next turn handles
	}
	return tracker.More, nil
}

// passNULs moves the reader over the NULs at its offset: they are logged, counted as read, and
// become safe without being sent.
func (w *worker) passNULs(r *reader) (tracker.Outcome, error) {
	scan, err := w.scanner(r)
	if err != nil {
		return tracker.Idle, err
	}
	_, unit := scan.Border()
	to := r.NULs.At - r.NULs.At%int64(unit)
	if len(r.Skips) > 0 {
		to = min(to, r.Skips[0].Start)
	}
	mark, err := fingerprint.MarkAt(r.src(), to)
	if err != nil {
		return tracker.Idle, err
	}
	if err := w.register(r); err != nil {
		return tracker.Idle, err
	}
	w.t.o.Books.Read(r.in.Name, 0, to-r.Offset())
	w.tellNULs(r, r.Offset(), to-r.Offset())
	w.pass(r, to, mark)
	r.NULs = holes.Stretch{}
	return tracker.More, nil
}

// tellNULs counts NULs that are skipped, and logs the first stretch of them in a file.
func (w *worker) tellNULs(r *reader, offset, bytes int64) {
	w.t.o.Contents.NULs(r.in.Name, bytes)
	if r.Holey {
		return
	}
	r.Holey = true
	if r.NULs.Text && r.NULs.From == offset {
		bytes = r.NULs.At - offset // with those that are skipped next
	}
	w.t.o.Logger.Warn("file has NUL bytes between records, skipping them", "input", r.in.Name, "file", w.job.path,
		"offset", offset, "bytes", bytes, "fix", "nothing after a crash; else have its writer append (O_APPEND), or rotate by rename")
}

// dataAt returns the first offset from at on that is not in a hole of the file. A
// compressed file has no holes.
func (r *reader) dataAt(at int64) int64 {
	if r.z != nil {
		return at
	}
	return durable.DataAt(r.f, at, r.Size)
}

// Another process may free the part of a file that was read already, while the file is
// written to (fallocate(2)): a punched hole leaves NULs in its place, a collapsed range
// moves what follows it. Neither is content to be read.

// changed handles a file whose bytes before the offset have changed or are missing: a hole was
// punched, whole blocks were removed at its start, or it is read from its start. why is for the
// log.
func (w *worker) changed(r *reader, why string) (tracker.Outcome, error) {
	if r.z == nil && holes.Punched(r.f, r.Size, r.Offset()) {
		mark, err := fingerprint.MarkAt(r.f, r.Offset())
		if err != nil {
			return tracker.Idle, err
		}
		w.t.o.Logger.Info("another program punched a hole before the checkpoint, reading continues and nothing is lost", "file", w.job.path, "offset", r.Offset())
		r.Remark(mark)
		r.Checked = r.Mtime
		return tracker.More, nil
	}
	to, mark := int64(0), r.Mark()
	if mark != 0 && r.z == nil {
		to = holes.Shifted(r.f, mark, r.Offset(), r.Size, r.highest)
	}
	if to == 0 {
		return w.restart(r, why)
	}
	w.t.o.Logger.Info("another program removed the beginning of the file in place, reading continues at the moved checkpoint", "file", w.job.path, "offset", to, "was", r.Offset())
	w.t.o.Metrics.Truncation(r.in.Name, 0)
	if err := w.renew(r); err != nil {
		return tracker.Idle, err
	}
	w.pass(r, to, mark)
	return tracker.More, nil
}
