package tail

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"kusto-agent/internal/record"
)

// contents is what is in a compressed file, read like a file. It goes forward
// through the file, keeping what the last call returned; for what lies before that
// it begins anew. It belongs to the goroutine that reads.
type contents struct {
	f    *os.File
	how  packing
	file record.Packed
	size int64       // of what is in it
	head record.Head // of that
	end  record.Mark // of size; 0: not known

	dec   *unpacker
	at    int64  // where dec is
	kept  []byte // what lies before at
	start []byte // what lies at the start, as far as it was asked for by itself

	reached int64     // offset of its reader when it was last seen to move
	moved   time.Time // when that was; guarded by Tailer.mu
}

// keptStart is how much of the start of a file is read in one go: what has a
// header there asks for it again at every turn.
const keptStart = 64 << 10

var errRepacked = errors.New("compressed file changed while it was read")

// ReadAt reads like a file does. It keeps as many bytes as the largest of its
// calls has asked for.
func (c *contents) ReadAt(b []byte, off int64) (int, error) {
	want := int(max(min(int64(len(b)), c.size-off), 0))
	n, err := c.read(b[:want], off)
	if err == nil && want < len(b) {
		err = io.EOF
	}
	return n, err
}

func (c *contents) read(b []byte, off int64) (int, error) {
	if end := off + int64(len(b)); end <= int64(len(c.start)) {
		return copy(b, c.start[off:end]), nil
	}
	if off < c.at-int64(len(c.kept)) || c.dec == nil {
		c.close()
		var err error
		if c.dec, err = newUnpacker(c.f, c.how, c.file.Size, false); err != nil {
			return 0, c.lacks(err)
		}
	}
	if off > c.at {
		skipped, err := io.CopyN(io.Discard, c.dec, off-c.at)
		c.at, c.kept = c.at+skipped, c.kept[:0]
		if err != nil {
			return 0, c.lacks(err)
		}
	}
	n := 0
	if behind := c.at - off; behind > 0 {
		n = copy(b, c.kept[int64(len(c.kept))-behind:])
	}
	m, err := io.ReadFull(c.dec, b[n:])
	c.at += int64(m)
	c.keep(b[:n+m], n)
	if off == 0 && len(b) <= keptStart {
		c.start = append(c.start[:0], b[:n+m]...)
	}
	if err != nil && n+m < len(b) {
		return n + m, c.lacks(err)
	}
	return n + m, nil
}

// keep keeps what was returned, of which the first known bytes were kept before,
// and the bytes before it that its mark is of.
func (c *contents) keep(b []byte, known int) {
	if known == len(b) {
		return
	}
	before := c.kept[:len(c.kept)-known]
	before = before[max(0, len(before)-record.MarkLen):]
	c.kept = append(append(c.kept[:0], before...), b...)
}

// lacks is for an error where there should be more: it was looked through before.
func (c *contents) lacks(err error) error {
	c.close()
	if isDisk(err) {
		return err
	}
	if c.size == unknownSize {
		return io.EOF // whatever the reason: there is no more
	}
	return fmt.Errorf("%w: %w", errRepacked, err)
}

// unknownSize stands for the size of what was not looked through.
const unknownSize = 1 << 62

// close gives memory back; the next read begins anew.
func (c *contents) close() {
	if c.dec != nil {
		c.dec.close()
	}
	c.dec, c.at, c.kept, c.start = nil, 0, nil, nil
}

// Close closes the file too.
func (c *contents) Close() error {
	c.close()
	return c.f.Close()
}

// isDisk reports whether an error is of the file system, and not of what a file
// holds.
func isDisk(err error) bool {
	var path *fs.PathError
	var number syscall.Errno
	return errors.As(err, &path) || errors.As(err, &number)
}

// source is the bytes of a file, or what is in it if it is compressed.
type source interface {
	io.ReaderAt
	io.Closer
}

// src is where the bytes of a reader's file are read.
func (r *reader) src() io.ReaderAt {
	if r.z == nil {
		return r.f
	}
	r.z.f = r.f
	return r.z
}
