package holes

import (
	"bytes"
	"errors"
	"io"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// mostShifts is how many places are looked at for the bytes before the offset.
const mostShifts = 4096

// Shifted returns where the bytes before the offset pos, whose mark is mark, are in a file from which
// whole disk blocks were removed: it has size bytes and had was. 0: they are nowhere, or in more than
// one place.
func Shifted(f io.ReaderAt, mark record.Mark, pos, size, was int64) (to int64) {
	least := max((was-size+Block-1)/Block, 1) // blocks that are missing by the size of the file
	for n := range int64(mostShifts) {
		at := pos - (least+n)*Block
		if at < record.MarkLen {
			break
		}
		if at > size {
			continue
		}
		if m, err := fingerprint.MarkAt(f, at); err != nil || m != mark {
			continue
		}
		if to > 0 {
			return 0
		}
		to = at
	}
	if to > 0 && repeatsAt(f, to, size) {
		return 0
	}
	return to
}

// besideShift is how far around a place its bytes are looked for again.
const besideShift = 64 << 10

// repeatsAt reports whether the bytes before at also lie near it, or that this cannot be told: then
// they do not prove where the offset is.
func repeatsAt(f io.ReaderAt, at, size int64) bool {
	mark := make([]byte, min(at, record.MarkLen))
	start := at - int64(len(mark))
	if _, err := fingerprint.ReadFull(f, mark, start); err != nil {
		return true
	}
	from := max(start-besideShift, 0)
	around := make([]byte, min(at+besideShift, size)-from)
	n, err := f.ReadAt(around, from) // it may be shorter than when it was last looked at
	here := int(start - from)
	if err != nil && !errors.Is(err, io.EOF) || n < here+len(mark) {
		return true
	}
	around = around[:n]
	return bytes.Contains(around[:here+len(mark)-1], mark) || bytes.Contains(around[here+1:], mark)
}
