// Package fingerprint knows content again: by a checksum of the first bytes of a file, its
// head, and of the bytes before a place in it, a mark. Two that are equal were made of
// equal bytes, as far as 64 bits tell; the bytes handed in are never kept.
package fingerprint

import (
	"bytes"
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"

	"kusto-agent/internal/record"
)

// MarkOf returns the mark of an offset: a hash of b, the bytes before it (at most record.MarkLen).
// It is 0 only for offset 0, since 0 means that a mark is not known.
func MarkOf(b []byte) record.Mark {
	if len(b) == 0 {
		return 0
	}
	return record.Mark(max(xxhash.Sum64(b), 1)) // 0 means not known
}

// MarkAt reads the bytes before the offset pos and returns their mark, a hash of the last
// record.MarkLen of them. The error is io.EOF or io.ErrUnexpectedEOF if the file ends before pos.
func MarkAt(f io.ReaderAt, pos int64) (record.Mark, error) {
	b := make([]byte, min(pos, record.MarkLen))
	if _, err := ReadFull(f, b, pos-int64(len(b))); err != nil {
		return 0, err
	}
	return MarkOf(b), nil
}

// ReadFull reads len(b) bytes at the offset off, and returns how many it has read. If the file ends
// before, the error is io.EOF (no byte was read) or io.ErrUnexpectedEOF.
func ReadFull(f io.ReaderAt, b []byte, off int64) (int, error) {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return n, nil
	}
	if n > 0 && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// IsShort reports whether err, of ReadFull or of a function that reads with it, says that the file ends
// before the bytes that were asked for.
func IsShort(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// HeadLens: a head is taken over the longest of these that the file has.
var HeadLens = [...]int{1024, 256, 64, 16}

// HeadLen returns the longest length of HeadLens that a file of this size has; 0: it has none.
func HeadLen(size int64) int {
	for _, n := range HeadLens {
		if int64(n) <= size {
			return n
		}
	}
	return 0
}

// HeadOf returns the head of a file (a hash of its first bytes) over the longest length that HeadsOf
// takes. The zero Head: there is none, as the file is too short or begins with NULs.
func HeadOf(f io.ReaderAt, size int64) (record.Head, error) {
	b := make([]byte, HeadLen(size))
	if _, err := ReadFull(f, b, 0); err != nil {
		return record.Head{}, err
	}
	if all := HeadsOf(b); len(all) > 0 {
		return all[0], nil
	}
	return record.Head{}, nil
}

// HeadOfLen returns the head of a file: a hash of its first n bytes. It is the zero Head if all of
// them are NULs, since files that reserve space begin alike. A shorter file is an error, io.EOF or
// io.ErrUnexpectedEOF.
func HeadOfLen(f io.ReaderAt, n int) (record.Head, error) {
	b := make([]byte, n)
	if _, err := ReadFull(f, b, 0); err != nil {
		return record.Head{}, err
	}
	if len(bytes.TrimLeft(b, "\x00")) == 0 {
		return record.Head{}, nil
	}
	return record.Head{Len: n, Sum: xxhash.Sum64(b)}, nil
}

// BeginsAs reports whether a file begins with the content whose head is want; the zero head is that
// of any file.
func BeginsAs(f io.ReaderAt, want record.Head) bool {
	h, err := HeadOfLen(f, want.Len)
	return err == nil && h == want
}

// Small is of how much that was read of a file the beginning is compared too: to read it again costs little.
const Small = 64 << 10

// BeginsAnew reports whether a file, of which the bytes before an offset were read and are no more than Small, begins
// otherwise than when its head was taken. NULs count as a hole that was punched. The error is one of reading.
func BeginsAnew(f io.ReaderAt, head record.Head, offset int64) (bool, error) {
	if head.Len == 0 || int64(head.Len) > offset || offset > Small {
		return false, nil
	}
	h, err := HeadOfLen(f, head.Len)
	return err == nil && h.Len > 0 && h != head, err
}

// Start returns the first bytes of a file of this size, of which HeadsOf makes its heads. What cannot be read is
// left out. The caller owns the slice.
func Start(f io.ReaderAt, size int64) []byte {
	b := make([]byte, max(min(size, int64(HeadLens[0])), 0))
	n, _ := f.ReadAt(b, 0)
	return b[:n]
}

// HeadsOf returns the heads (hashes of the first bytes) of content that begins with b, over every
// length of HeadLens that b has, the longest first. A length that ends in NULs is left out: where room
// is reserved, text is still written in their place.
func HeadsOf(b []byte) (all []record.Head) {
	for _, n := range HeadLens {
		if n <= len(b) && !bytes.HasSuffix(b[:n], reserved) {
			all = append(all, record.Head{Len: n, Sum: xxhash.Sum64(b[:n])})
		}
	}
	return all
}

// reserved is more NULs than any character has in any encoding.
var reserved = make([]byte, 4)
