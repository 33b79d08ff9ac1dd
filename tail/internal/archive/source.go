// Package archive reads what is in a file that was compressed with gzip or zstd as if it
// lay there plainly, by offsets; what it tells of such a file was found by reading it to
// its end. It knows no names, and skips nothing that can be read.
package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
)

// Source is what is in a compressed file. It goes forward through the file, keeping what
// the last call returned; for what lies before that it begins anew. It is for one
// goroutine.
type Source struct {
	f      io.ReaderAt
	kind   compressed.Kind
	packed int64 // bytes of the compressed file
	size   int64 // bytes of what is in it

	dec   *unpacker
	at    int64  // where dec is
	kept  []byte // what lies before at
	start []byte // what lies at the start, as far as it was asked for by itself
}

// NewSource is what is in a file of so many bytes: size bytes, or UnknownSize. From has to
// be called before the first read.
func NewSource(kind compressed.Kind, packed, size int64) Source {
	return Source{kind: kind, packed: packed, size: size}
}

// From has a source read from an open file, which stays that of the caller.
func (s *Source) From(f io.ReaderAt) { s.f = f }

// Size is how many bytes are in the file.
func (s *Source) Size() int64 { return s.size }

// EndAt has the source end before what is really its end.
func (s *Source) EndAt(size int64) { s.size = size }

// keptStart is how much of the start of a file is read in one go: what has a
// header there asks for it again at every turn.
const keptStart = 64 << 10

// ErrChanged says that a compressed file does not hold what it did.
var ErrChanged = errors.New("compressed file changed while it was read")

// ReadAt reads content at an offset, as of a plain file; the error is io.EOF at the end of the
// content. For bytes before those that it has kept, it decompresses the file from its start again.
// It keeps as many bytes in memory as the largest read has asked for.
func (s *Source) ReadAt(b []byte, off int64) (int, error) {
	want := int(max(min(int64(len(b)), s.size-off), 0))
	n, err := s.read(b[:want], off)
	if err == nil && want < len(b) {
		err = io.EOF
	}
	return n, err
}

// read is ReadAt within the known size.
func (s *Source) read(b []byte, off int64) (int, error) {
	if end := off + int64(len(b)); end <= int64(len(s.start)) {
		return copy(b, s.start[off:end]), nil
	}
	if off < s.at-int64(len(s.kept)) || s.dec == nil {
		s.Free()
		var err error
		if s.dec, err = newUnpacker(s.f, s.kind, s.packed, false); err != nil {
			return 0, s.lacks(err)
		}
	}
	if off > s.at {
		skipped, err := io.CopyN(io.Discard, s.dec, off-s.at)
		s.at, s.kept = s.at+skipped, s.kept[:0]
		if err != nil {
			return 0, s.lacks(err)
		}
	}
	n := 0
	if behind := s.at - off; behind > 0 {
		n = copy(b, s.kept[int64(len(s.kept))-behind:])
	}
	m, err := io.ReadFull(s.dec, b[n:])
	s.at += int64(m)
	s.keep(b[:n+m], n)
	if off == 0 && len(b) <= keptStart {
		s.start = append(s.start[:0], b[:n+m]...)
	}
	if err != nil && n+m < len(b) {
		return n + m, s.lacks(err)
	}
	return n + m, nil
}

// keep stores the content b that was just read, so that it need not be decompressed again, and
// the bytes before it that a mark needs. The first known bytes of b were stored before.
func (s *Source) keep(b []byte, known int) {
	if known == len(b) {
		return
	}
	before := s.kept[:len(s.kept)-known]
	before = before[max(0, len(before)-record.MarkLen):]
	s.kept = append(append(s.kept[:0], before...), b...)
}

// lacks returns the error of a read that found less content than was there when the file was
// inspected: ErrChanged, or the error of the disk. If the file was never inspected, the content
// just ends: io.EOF.
func (s *Source) lacks(err error) error {
	s.Free()
	if isDisk(err) {
		return err
	}
	if s.size == UnknownSize {
		return io.EOF // whatever the reason: there is no more
	}
	return fmt.Errorf("%w: %w", ErrChanged, err)
}

// UnknownSize stands for the size of what was not looked through.
const UnknownSize = 1 << 62

// Free gives memory back; the next read begins anew.
func (s *Source) Free() {
	if s.dec != nil {
		s.dec.close()
	}
	s.dec, s.at, s.kept, s.start = nil, 0, nil, nil
}

// isDisk reports whether an error is of the file system, and not of what a file
// holds.
func isDisk(err error) bool {
	var path *fs.PathError
	var number syscall.Errno
	return errors.As(err, &path) || errors.As(err, &number)
}
