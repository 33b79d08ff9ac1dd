package cursor

import (
	"bytes"
	"io"

	"kusto-agent/tail/internal/fingerprint"
)

// LastEnd returns the offset after the last border (a line end) before size that lies at a
// multiple of unit bytes; 0: there is none.
func LastEnd(f io.ReaderAt, size int64, border []byte, unit int) (int64, error) {
	if len(border) == 0 {
		return 0, nil
	}
	b := make([]byte, min(size, 64<<10))
	for end := size; end >= int64(len(border)); {
		n := min(end, int64(len(b)))
		if _, err := fingerprint.ReadFull(f, b[:n], end-n); err != nil {
			return 0, err
		}
		for in := b[:n]; ; {
			i := bytes.LastIndex(in, border)
			if i < 0 {
				break
			}
			if at := end - n + int64(i); at%int64(unit) == 0 {
				return at + int64(len(border)), nil
			}
			in = in[:i+len(border)-1]
		}
		if n == end {
			break
		}
		end -= n - int64(len(border)) + 1 // a border may lie across two reads
	}
	return 0, nil
}
