package archive

import (
	"bufio"
	"errors"
	"io"

	"kusto-agent/internal/compressed"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Why what is in a compressed file cannot be read to its end.
var (
	ErrCut     = errors.New("it breaks off in the middle of its compressed data")
	ErrDamaged = errors.New("its compressed data is damaged")
	ErrWindow  = errors.New("it was compressed with a window larger than 8 MiB")
)

// What is wrong with a compressed file whose content can be read all the same.
var (
	ErrChecksum = errors.New("its checksum is not that of its content")
	ErrTrailing = errors.New("behind its end lies something that is no compressed data")
)

// maxWindow is the largest window of zstd that is held in memory: what every
// decoder has to support (RFC 8878, 3.1.1.1.2), and all that zstd itself makes
// without --ultra or --long.
const maxWindow = 8 << 20

// unpacker reads what is in a compressed file from its start. At the end of it
// Read fails with io.EOF, or says why there is no more: ErrCut, ErrDamaged,
// ErrWindow, or an error of the disk. It is for one goroutine.
type unpacker struct {
	file *io.SectionReader
	in   *bufio.Reader
	gz   *gzip.Reader  // nil: it is
	zst  *zstd.Decoder // nil: it is
	any  bool          // something was read
	flaw error         // ErrChecksum, ErrTrailing
}

// newUnpacker returns a reader of the content of a file of size bytes. Without verify it ignores
// a zstd checksum: with it, the data just before a wrong checksum could not be read.
func newUnpacker(f io.ReaderAt, how compressed.Kind, size int64, verify bool) (*unpacker, error) {
	u := &unpacker{file: io.NewSectionReader(f, 0, size)}
	u.in = bufio.NewReaderSize(u.file, 64<<10)
	var err error
	if how == compressed.Gzip {
		u.gz = new(gzip.Reader)
		err = u.nextMember()
	} else {
		u.zst, err = zstd.NewReader(u.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.IgnoreChecksum(!verify))
	}
	return u, err
}

// close releases the memory of the decoder.
func (u *unpacker) close() {
	if u.zst != nil {
		u.zst.Close()
	}
}

// left returns how many bytes of the compressed file the decoder has not used.
func (u *unpacker) left() int64 {
	at, _ := u.file.Seek(0, io.SeekCurrent) // of a section: never fails
	return u.file.Size() - at + int64(u.in.Buffered())
}

// Read reads content. At the end it returns io.EOF, or the reason why there is no more: ErrCut,
// ErrDamaged, ErrWindow, or an error of the disk.
func (u *unpacker) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 {
		if u.gz != nil {
			n, err = u.gz.Read(p)
		} else {
			n, err = u.zst.Read(p)
		}
		u.any = u.any || n > 0
		if err != nil {
			err = u.judge(err)
		}
	}
	return n, err
}

// judge returns what an error of a decoder means for Read; nil if the next part of the gzip file
// follows. A wrong checksum, and bytes after the end, are noted in flaw and are no error.
func (u *unpacker) judge(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case u.gz != nil && errors.Is(err, gzip.ErrChecksum):
		u.flaw = ErrChecksum
		return u.nextMember()
	case u.gz != nil && errors.Is(err, io.EOF):
		return u.nextMember()
	case errors.Is(err, zstd.ErrMagicMismatch) && u.any:
		u.flaw = ErrTrailing
		return io.EOF
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrCut
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return ErrWindow
	case u.zst != nil && !isDisk(err), errors.As(err, &corrupt):
		return errors.Join(ErrDamaged, err)
	}
	return err
}

// nextMember begins the next part (member) of a gzip file, which may have several one after the
// other. io.EOF: there is none. NUL bytes after the last part are padding.
func (u *unpacker) nextMember() error {
	magic, err := u.in.Peek(3)
	switch {
	case len(magic) == 0:
		return err
	case compressed.KindOf(magic) == compressed.Unknown && u.left() < 10: // less than the header of a member
		return ErrCut
	case compressed.KindOf(magic) != compressed.Gzip:
		if magic[0] != 0 {
			u.flaw = ErrTrailing
		}
		return io.EOF
	}
	err = u.gz.Reset(u.in)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return ErrCut
	case errors.Is(err, gzip.ErrHeader):
		return errors.Join(ErrDamaged, err)
	}
	u.gz.Multistream(false)
	return err
}
