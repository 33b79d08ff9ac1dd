package archive

import (
	"context"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// Facts are what is found by looking through a compressed file once. Nothing of
// it is sent before: only its end tells whether it is whole.
type Facts struct {
	Size  int64                 // of what can be read of it
	Heads []record.Head         // of that, of every length it has
	Marks map[int64]record.Mark // at the places that were asked for
	End   record.Mark           // at size
	Flaw  error                 // a checksum does not match, or something follows the end; the content is complete
	Cut   error                 // it breaks off or is damaged behind size; nil: it does not
	Left  int64                 // bytes of the compressed file behind that
}

// inspectLen is how much is looked at in one go.
const inspectLen = 256 << 10

// Inspect reads a compressed file of size bytes to its end and returns what it found. how says how
// it is compressed. places is called once, when the hashes of the beginning of the content are
// known, and returns the offsets, in order, at which Inspect takes a mark (a hash of the bytes
// before the offset).
func Inspect(ctx context.Context, f io.ReaderAt, how compressed.Kind, size int64, places func([]record.Head) []int64) (*Facts, error) {
	x, err := inspectOnce(ctx, f, how, size, true, places)
	if err == nil && errors.Is(x.Cut, zstd.ErrCRCMismatch) {
		// The decoder hides the data before a wrong checksum, so the file is read without a check.
		if x, err = inspectOnce(ctx, f, how, size, false, places); err == nil {
			x.Flaw = ErrChecksum
		}
	}
	return x, err
}

// inspectOnce is Inspect in one pass. verify says whether zstd checksums are checked. A file that
// breaks off or is damaged is no error. The error is ErrWindow, a compressed.NestedError, or one of ctx or of
// reading.
func inspectOnce(ctx context.Context, f io.ReaderAt, how compressed.Kind, size int64, verify bool, places func([]record.Head) []int64) (*Facts, error) {
	u, err := newUnpacker(f, how, size, verify)
	defer u.close()
	x := &Facts{Marks: make(map[int64]record.Mark)}
	var wanted []int64
	buf := make([]byte, record.MarkLen+inspectLen)
	have := 0 // bytes in buf before those of this round
	for err == nil {
		if err = ctx.Err(); err != nil {
			return nil, err
		}
		var n int
		n, err = io.ReadFull(u, buf[have:have+inspectLen])
		if x.Size == 0 && n > 0 {
			if err := compressed.Nested(buf[:n]); err != nil {
				return nil, err
			}
			x.Heads = fingerprint.HeadsOf(buf[:n])
			wanted = places(x.Heads)
		}
		b := buf[:have+n]
		for x.Size += int64(n); len(wanted) > 0 && wanted[0] <= x.Size; wanted = wanted[1:] {
			end := len(b) - int(x.Size-wanted[0])
			x.Marks[wanted[0]] = fingerprint.MarkOf(b[max(0, end-record.MarkLen):end])
		}
		have = copy(buf, b[max(0, len(b)-record.MarkLen):])
	}
	x.Flaw, x.End = u.flaw, fingerprint.MarkOf(buf[:have])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return x, nil
	case errors.Is(err, ErrCut), errors.Is(err, ErrDamaged):
		x.Cut, x.Left = err, u.left()
		return x, nil
	}
	return nil, err
}
