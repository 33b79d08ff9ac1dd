package tail

import (
	"bytes"
	"errors"
	"io"
	"os"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// Somebody may give the beginning of a file that was read back to the disk, while
// it is written to (fallocate(2)): a hole that is punched leaves NULs in its place,
// a range that is collapsed moves what is behind it. Neither is content to be read.

// block is the least size of the blocks of a disk.
const block = 4096

// changed handles a file whose bytes before the offset have changed or are missing: a hole
// was punched, whole blocks were removed at its start, or the file is read from its start.
// why is for the log.
func (w *worker) changed(r *reader, why string) (after, error) {
	if r.z == nil && punched(r.f, r.size, r.offset) {
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

// punched reports whether the bytes before pos have changed because another program punched a hole,
// which reads as NULs. The hole begins at the start of the file and ends, at the border of a disk
// block, among the bytes of which a mark of pos is made. size is the size of the file. If a read
// fails, it returns false.
func punched(f *os.File, size, pos int64) bool {
	b := make([]byte, min(pos, record.MarkLen))
	if size < pos {
		return false
	}
	if _, err := fingerprint.ReadFull(f, b, pos-int64(len(b))); err != nil {
		return false
	}
	text := firstText(b) // the bytes before it are NULs: the end of the hole
	whole := (pos - int64(len(b)) + int64(text)) / block * block
	return text > 0 && whole > 0 && dataAt(f, 0, size) >= whole
}

// mostShifts is how many places are looked at for the bytes before the offset.
const mostShifts = 4096

// shifted returns where the reader's offset is now in a file from which whole disk blocks before
// the offset were removed. It looks for the bytes before the offset (by their hash) at lower
// offsets. 0: they are nowhere, or in more than one place.
func (r *reader) shifted() (to int64) {
	if r.mark == 0 || r.z != nil {
		return 0
	}
	least := max((r.highest-r.size+block-1)/block, 1) // blocks that are missing by the size of the file
	for n := range int64(mostShifts) {
		at := r.offset - (least+n)*block
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

// repeatsAt reports whether the bytes before at also lie elsewhere near at, or that this
// cannot be told. Bytes that repeat do not prove where the offset is.
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
