package records

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

// meetNULs handles NULs at the offset, such as a crash leaves in a log.
func (x *Reader) meetNULs(f *File) (tracker.Outcome, error) {
	if !f.NULs.Text && f.NULs.At < f.Size {
		return x.lookNULs(f)
	}
	return x.passNULs(f)
}

// lookNULs searches for the end of the NULs, at most 1 MiB in one turn.
func (x *Reader) lookNULs(f *File) (tracker.Outcome, error) {
	buf := x.buffer(1 << 20)[:1<<20]
	at := f.dataAt(f.NULs.At)
	n, err := f.Src.ReadAt(buf[:min(int64(len(buf)), f.Size-at)], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return tracker.Idle, err
	}
	if i := holes.FirstText(buf[:n]); i >= 0 {
		f.NULs.At, f.NULs.Text = at+int64(i), true
	} else if f.NULs.At = at + int64(n); err != nil {
		f.NULs.At = f.Size // the file was truncated, which the next turn handles
	}
	return tracker.More, nil
}

// passNULs moves the offset over the NULs there: they are logged, counted as read, and
// become safe without being sent.
func (x *Reader) passNULs(f *File) (tracker.Outcome, error) {
	scan, err := x.Scanner(f)
	if err != nil {
		return tracker.Idle, err
	}
	_, unit := scan.Border()
	to := f.NULs.At - f.NULs.At%int64(unit)
	if len(f.Skips) > 0 {
		to = min(to, f.Skips[0].Start)
	}
	mark, err := fingerprint.MarkAt(f.Src, to)
	if err != nil {
		return tracker.Idle, err
	}
	if err := f.Register(); err != nil {
		return tracker.Idle, err
	}
	x.Books.Read(f.In.Name, 0, to-f.Offset())
	x.tellNULs(f, f.Offset(), to-f.Offset())
	x.Pass(f, to, mark)
	f.NULs = holes.Stretch{}
	return tracker.More, nil
}

// tellNULs counts NULs that are skipped, and logs the first stretch of them in a file.
func (x *Reader) tellNULs(f *File, offset, bytes int64) {
	x.Contents.NULs(f.In.Name, bytes)
	if f.Holey {
		return
	}
	f.Holey = true
	if f.NULs.Text && f.NULs.From == offset {
		bytes = f.NULs.At - offset // with those that are skipped next
	}
	x.Logger.Warn("file has NUL bytes between records, skipping them", "input", f.In.Name, "file", f.Path,
		"offset", offset, "bytes", bytes, "fix", "nothing after a crash; else have its writer append (O_APPEND), or rotate by rename")
}

// dataAt returns the first offset from at on that is not in a hole of the file. A
// compressed file has no holes.
func (f *File) dataAt(at int64) int64 {
	if f.Plain == nil {
		return at
	}
	return durable.DataAt(f.Plain, at, f.Size)
}
