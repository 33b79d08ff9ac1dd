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

// MarkOf is the mark of a position whose preceding bytes are b.
func MarkOf(b []byte) record.Mark {
	if len(b) == 0 {
		return 0
	}
	return record.Mark(max(xxhash.Sum64(b), 1)) // 0 means not known
}

// MarkAt reads the mark of a position.
func MarkAt(f io.ReaderAt, pos int64) (record.Mark, error) {
	b := make([]byte, min(pos, record.MarkLen))
	if _, err := ReadFull(f, b, pos-int64(len(b))); err != nil {
		return 0, err
	}
	return MarkOf(b), nil
}

// ReadFull reads len(b) bytes at off. A file that ends before is io.EOF or
// io.ErrUnexpectedEOF, with the bytes there were.
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

// HeadLens: a head is taken over the longest of these that the file has.
var HeadLens = [...]int{1024, 256, 64, 16}

// HeadOf is the fingerprint of the beginning of a file of the given size.
func HeadOf(f io.ReaderAt, size int64) (record.Head, error) {
	for _, n := range HeadLens {
		if int64(n) <= size {
			return HeadOfLen(f, n)
		}
	}
	return record.Head{}, nil
}

// HeadOfLen is the fingerprint of the first n bytes of a file; the zero Head where these are
// NULs.
func HeadOfLen(f io.ReaderAt, n int) (record.Head, error) {
	b := make([]byte, n)
	if _, err := ReadFull(f, b, 0); err != nil {
		return record.Head{}, err
	}
	for _, c := range b {
		if c != 0 {
			return record.Head{Len: n, Sum: xxhash.Sum64(b)}, nil
		}
	}
	return record.Head{}, nil // NULs alone recognise nothing
}

// Heads are the fingerprints of the beginning of a file over every length it
// has, the longest first.
func Heads(f io.ReaderAt, size int64) []record.Head {
	var all []record.Head
	for _, n := range HeadLens {
		if int64(n) > size {
			continue
		}
		if h, err := HeadOfLen(f, n); err == nil && h.Len > 0 {
			all = append(all, h)
		}
	}
	return all
}

// HeadsOf are the fingerprints of what begins with b, of every length, the
// longest first.
func HeadsOf(b []byte) (all []record.Head) {
	for _, n := range HeadLens {
		if n <= len(b) && len(bytes.TrimLeft(b[:n], "\x00")) > 0 {
			all = append(all, record.Head{Len: n, Sum: xxhash.Sum64(b[:n])})
		}
	}
	return all
}
