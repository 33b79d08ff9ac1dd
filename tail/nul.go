package tail

import (
	"bytes"
	"errors"
	"io"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/holes"
)

// A file can hold NULs that nobody wrote: behind a crash, behind a truncation
// whose writer goes on where it was, and where room was reserved for what is still
// to come. Those between records are left out, as package format says; a hole is
// passed without being read. Those that a file ends with are held: something else
// may be written in their place.

// nuls is a stretch that held nothing but NULs at the last look.
type nuls struct {
	from int64 // -1: something was written where it began
	at   int64 // what was looked at ends here; 0: nothing was
	text bool  // something else is at that place
}

// toEnd reports whether nothing else follows in a file of a size.
func (n nuls) toEnd(size int64) bool { return n.at > 0 && n.from >= 0 && !n.text && n.at >= size }

// end returns the offset at which reading ends for now: the size of the file, or the start of the
// NUL bytes at its end, in whose place something may still be written.
func (r *reader) end() int64 {
	if r.nuls.toEnd(r.size) {
		return r.nuls.from
	}
	return r.size
}

// reviewNULs checks whether text was written where NULs were found: a program that reserved space
// fills it from its start, and by mmap without a change of the size.
func (r *reader) reviewNULs() {
	switch {
	case r.nuls.at > r.size:
		r.nuls = nuls{}
	case r.z != nil: // a compressed file is not written to in place
	case r.nuls.at > 0 && !r.nuls.text && r.nuls.from >= 0:
		b := make([]byte, 4096)
		n, _ := r.f.ReadAt(b, r.nuls.from) // an error comes again at the next read
		if holes.FirstText(b[:n]) >= 0 {
			r.nuls.from = -1
		}
	}
}

// besideNULs is the most bytes of a read where NULs are known to follow.
const besideNULs = 64 << 10

// withNULs decides what to do with data of all bytes that ends in NULs after the first n: frame is
// how many are scanned, only n while something may still be written in their place. over says that
// nothing more will be. ok is false if what follows has to be looked at first, or if the NULs are
// to be skipped.
func (r *reader) withNULs(n, all int, over bool) (frame int, ok bool) {
	if from := r.offset + int64(n); r.nuls.from != from || r.nuls.at == 0 {
		if r.nuls.text {
			r.nuls = nuls{}
		}
		r.nuls = nuls{from: from, at: max(r.offset+int64(all), r.nuls.at)}
	}
	held := r.nuls.toEnd(r.size)
	switch {
	case !r.nuls.text && !held, n == 0 && (r.nuls.text || over):
		return 0, false
	case held && !over:
		return n, true
	}
	return all, true
}

// meetNULs handles NULs at the offset of the reader, such as a crash leaves in a log.
func (w *worker) meetNULs(r *reader) (after, error) {
	if !r.nuls.text && r.nuls.at < r.size {
		return w.lookNULs(r)
	}
	return w.passNULs(r)
}

// lookNULs searches for the end of the NULs, at most 1 MiB in one turn.
func (w *worker) lookNULs(r *reader) (after, error) {
	buf := w.buffer(1 << 20)[:1<<20]
	at := r.dataAt(r.nuls.at)
	n, err := r.src().ReadAt(buf[:min(int64(len(buf)), r.size-at)], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return idle, err
	}
	if i := holes.FirstText(buf[:n]); i >= 0 {
		r.nuls.at, r.nuls.text = at+int64(i), true
	} else if r.nuls.at = at + int64(n); err != nil {
		r.nuls.at = r.size // the file was truncated, which the next turn handles
	}
	return again, nil
}

// passNULs moves the reader over the NULs at its offset: they are logged, counted as read, and
// become safe without being sent.
func (w *worker) passNULs(r *reader) (after, error) {
	scan, err := w.scanner(r)
	if err != nil {
		return idle, err
	}
	_, unit := scan.Border()
	to := r.nuls.at - r.nuls.at%int64(unit)
	if len(r.skips) > 0 {
		to = min(to, r.skips[0].Start)
	}
	mark, err := fingerprint.MarkAt(r.src(), to)
	if err != nil {
		return idle, err
	}
	if err := w.register(r); err != nil {
		return idle, err
	}
	w.t.o.Books.Read(r.in.Name, 0, to-r.offset)
	w.tellNULs(r, r.offset, to-r.offset)
	w.pass(r, to, mark)
	r.nuls = nuls{}
	return again, nil
}

// tellNULs counts NULs that are skipped, and logs the first stretch of them in a file.
func (w *worker) tellNULs(r *reader, offset, bytes int64) {
	w.t.o.Contents.NULs(r.in.Name, bytes)
	if r.holey {
		return
	}
	r.holey = true
	if r.nuls.text && r.nuls.from == offset {
		bytes = r.nuls.at - offset // with those that are skipped next
	}
	w.t.o.Logger.Warn("file has NUL bytes between records, skipping them", "input", r.in.Name, "file", w.pathOf(r),
		"offset", offset, "bytes", bytes, "fix", "nothing after a crash; else have its writer append (O_APPEND), or rotate by rename")
}

// dataAt returns the first offset from at on that is not in a hole of the file. A
// compressed file has no holes.
func (r *reader) dataAt(at int64) int64 {
	if r.z != nil {
		return at
	}
	return durable.DataAt(r.f, at, r.size)
}

// Another process may free the part of a file that was read already, while the file is
// written to (fallocate(2)): a punched hole leaves NULs in its place, a collapsed range
// moves what follows it. Neither is content to be read.

// changed handles a file whose bytes before the offset have changed or are missing: a hole was
// punched, whole blocks were removed at its start, or it is read from its start. why is for the
// log.
func (w *worker) changed(r *reader, why string) (after, error) {
	if r.z == nil && holes.Punched(r.f, r.size, r.offset) {
		mark, err := fingerprint.MarkAt(r.f, r.offset)
		if err != nil {
			return idle, err
		}
		w.t.o.Logger.Info("another program punched a hole before the checkpoint, reading continues and nothing is lost", "file", w.pathOf(r), "offset", r.offset)
		r.mark, r.checked = mark, r.mtime
		return again, nil
	}
	to, mark := r.shifted(), r.mark
	if to == 0 {
		return w.restart(r, why)
	}
	w.t.o.Logger.Info("another program removed the beginning of the file in place, reading continues at the moved checkpoint", "file", w.pathOf(r), "offset", to, "was", r.offset)
	w.t.o.Metrics.Truncation(r.in.Name, 0)
	if err := w.renew(r); err != nil {
		return idle, err
	}
	w.pass(r, to, mark)
	return again, nil
}

// mostShifts is how many places are looked at for the bytes before the offset.
const mostShifts = 4096

// shifted returns where the bytes before the offset are in a file from which whole disk blocks were
// removed. 0: they are nowhere, or in more than one place.
func (r *reader) shifted() (to int64) {
	if r.mark == 0 || r.z != nil {
		return 0
	}
	least := max((r.highest-r.size+holes.Block-1)/holes.Block, 1) // blocks that are missing by the size of the file
	for n := range int64(mostShifts) {
		at := r.offset - (least+n)*holes.Block
		if at < record.MarkLen {
			break
		}
		if at > r.size {
			continue
		}
		if m, err := fingerprint.MarkAt(r.f, at); err != nil || m != r.mark {
			continue
		}
		if to > 0 {
			return 0
		}
		to = at
	}
	if to > 0 && r.repeatsAt(to) {
		return 0
	}
	return to
}

// besideShift is how far around a place its bytes are looked for again.
const besideShift = 64 << 10

// repeatsAt reports whether the bytes before at also lie near it, or that this cannot be told: then
// they do not prove where the offset is.
func (r *reader) repeatsAt(at int64) bool {
	mark := make([]byte, min(at, record.MarkLen))
	start := at - int64(len(mark))
	if _, err := fingerprint.ReadFull(r.f, mark, start); err != nil {
		return true
	}
	from := max(start-besideShift, 0)
	around := make([]byte, min(at+besideShift, r.size)-from)
	n, err := r.f.ReadAt(around, from) // it may be shorter than when it was last looked at
	here := int(start - from)
	if err != nil && !errors.Is(err, io.EOF) || n < here+len(mark) {
		return true
	}
	around = around[:n]
	return bytes.Contains(around[:here+len(mark)-1], mark) || bytes.Contains(around[here+1:], mark)
}
