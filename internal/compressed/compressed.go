// Package compressed tells how a file is compressed, by its first bytes and by its name, and promises that
// what one part of the program takes for compressed, all do.
package compressed

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Kind is how a file is compressed.
type Kind uint8

// The kinds that are known. Unknown is of a file that is too short to tell.
const (
	Plain Kind = iota
	Unknown
	Gzip
	Zstd
)

// IsKnown reports whether a file of this kind can be decompressed.
func (k Kind) IsKnown() bool { return k == Gzip || k == Zstd }

// beginning is how many bytes of a file KindOf needs.
const beginning = 4

var (
	gzipMagic = []byte{0x1f, 0x8b, 8}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	skipMagic = []byte{0x2a, 0x4d, 0x18} // behind 0x50 to 0x5f: a frame of zstd that holds no data
)

// KindOf returns how a file is compressed, by its first four bytes. A file of zstd may begin with a
// frame that holds no data. Unknown means that there are fewer bytes, which may be the beginning of
// a compressed file.
func KindOf(b []byte) Kind {
	begins := func(magic []byte) bool { return bytes.HasPrefix(magic, b[:min(len(b), len(magic))]) }
	skips := len(b) > 0 && b[0]>>4 == 5 && bytes.HasPrefix(skipMagic, b[1:])
	switch {
	case bytes.HasPrefix(b, gzipMagic):
		return Gzip
	case bytes.HasPrefix(b, zstdMagic), skips && len(b) == beginning:
		return Zstd
	case skips, begins(gzipMagic), begins(zstdMagic):
		return Unknown
	}
	return Plain
}

// KindAt returns how an open file is compressed, and how many bytes that was told from. The error is one
// of reading: a file that ends is none.
func KindAt(f io.ReaderAt) (k Kind, n int, err error) {
	var b [beginning]byte
	if n, err = f.ReadAt(b[:], 0); err == io.EOF {
		err = nil
	}
	return KindOf(b[:n]), n, err
}

// Reader returns what is in a file, decompressed if it is of a known kind. The caller calls done when it
// has read enough. The error is one of the beginning of compressed data.
func Reader(file io.Reader) (content io.Reader, done func(), err error) {
	r := bufio.NewReader(file)
	start, _ := r.Peek(beginning) // an error comes again when the content is read
	switch KindOf(start) {
	case Gzip:
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case Zstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

// Extensions are those that the names of compressed files have.
var Extensions = []string{".gz", ".zst"}

// IsNamed reports whether a file is compressed by its name.
func IsNamed(name string) bool { return Bare(name) != name }

// Bare returns the name of a file without an extension of compression.
func Bare(name string) string {
	if i := slices.IndexFunc(Extensions, func(x string) bool { return strings.HasSuffix(name, x) }); i >= 0 {
		return strings.TrimSuffix(name, Extensions[i])
	}
	return name
}
