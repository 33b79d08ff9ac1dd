package tail

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"kusto-agent/internal/record"
)

// facts are what is found by looking through a compressed file once. Nothing of
// it is sent before: only its end tells whether it is whole.
type facts struct {
	size  int64                 // of what can be read of it
	heads []record.Head         // of that, of every length it has
	marks map[int64]record.Mark // at the places that were asked for
	end   record.Mark           // at size
	flaw  error                 // something is wrong, and all can be read
	cut   error                 // it breaks off or is damaged behind size; nil: it does not
	left  int64                 // bytes of the compressed file behind that
}

// surveyLen is how much is looked at in one go.
const surveyLen = 256 << 10

// survey looks through a compressed file. places says, once the beginning is
// known, which marks are wanted, in order.
func survey(ctx context.Context, f io.ReaderAt, how packing, size int64, places func([]record.Head) []int64) (*facts, error) {
	x, err := surveyOnce(ctx, f, how, size, true, places)
	if err == nil && errors.Is(x.cut, zstd.ErrCRCMismatch) {
		// It hides the data before it. Readers do without the checksum.
		if x, err = surveyOnce(ctx, f, how, size, false, places); err == nil {
			x.flaw = errChecksum
		}
	}
	return x, err
}

func surveyOnce(ctx context.Context, f io.ReaderAt, how packing, size int64, verify bool, places func([]record.Head) []int64) (*facts, error) {
	u, err := newUnpacker(f, how, size, verify)
	defer u.close()
	x := &facts{marks: make(map[int64]record.Mark)}
	var wanted []int64
	buf := make([]byte, record.MarkLen+surveyLen)
	have := 0 // bytes in buf before those of this round
	for err == nil {
		if err = ctx.Err(); err != nil {
			return nil, err
		}
		var n int
		n, err = io.ReadFull(u, buf[have:have+surveyLen])
		if x.size == 0 && n > 0 {
			x.heads = headsOf(buf[:n])
			wanted = places(x.heads)
		}
		b := buf[:have+n]
		for x.size += int64(n); len(wanted) > 0 && wanted[0] <= x.size; wanted = wanted[1:] {
			end := len(b) - int(x.size-wanted[0])
			x.marks[wanted[0]] = markOf(b[max(0, end-record.MarkLen):end])
		}
		have = copy(buf, b[max(0, len(b)-record.MarkLen):])
	}
	x.flaw, x.end = u.flaw, markOf(buf[:have])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return x, nil
	case errors.Is(err, errCut), errors.Is(err, errDamaged):
		x.cut, x.left = err, u.left()
		return x, nil
	}
	return nil, err
}

// headsOf are the fingerprints of what begins with b, of every length, the
// longest first.
func headsOf(b []byte) (all []record.Head) {
	for _, n := range headLens {
		if n <= len(b) && len(bytes.TrimLeft(b[:n], "\x00")) > 0 {
			all = append(all, record.Head{Len: n, Sum: xxhash.Sum64(b[:n])})
		}
	}
	return all
}
