// Package compressed tells how a file is compressed, by its first bytes and by its name, and promises that
// what one part of the program takes for compressed, all do.
package compressed

import (
	"bufio"
	"bytes"
	"io"
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
	Xz
	Bzip2
	Lz4
	Zip
	SevenZip
	Tar
)

var kindWords = [...]string{"", "", "gzip", "zstd", "xz", "bzip2", "lz4", "zip", "7z", "tar"}

// String is the name of the compression; empty: it is none, or not known.
func (k Kind) String() string { return kindWords[k] }

// IsReadable reports whether a file of this kind can be decompressed.
func (k Kind) IsReadable() bool { return k == Gzip || k == Zstd }

// IsForeign reports whether a file is compressed, or an archive, in a way that the agent cannot read.
func (k Kind) IsForeign() bool { return k > Zstd }

// beginning is how many bytes of a file KindOf needs: tar has its word at the end of these.
const beginning = tarAt + 5

const (
	tarAt        = 257
	longestMagic = 10 // of what foreignKind knows
)

var (
	gzipMagic = []byte{0x1f, 0x8b, 8}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	skipMagic = []byte{0x2a, 0x4d, 0x18} // behind 0x50 to 0x5f: a frame of zstd that holds no data
)

// foreignKind returns the kind of what cannot be read, by its first bytes, or Plain. No text begins so.
func foreignKind(b string) Kind {
	switch {
	case strings.HasPrefix(b, "\xfd7zXZ\x00"):
		return Xz
	case strings.HasPrefix(b, "BZh") && (strings.HasPrefix(b[min(len(b), 4):], "1AY&SY") || strings.HasPrefix(b[min(len(b), 4):], "\x17rE8P\x90")):
		return Bzip2 // its level is between them, and the second is of nothing
	case strings.HasPrefix(b, "\x04\x22\x4d\x18"):
		return Lz4
	case strings.HasPrefix(b, "PK\x03\x04"), strings.HasPrefix(b, "PK\x05\x06"):
		return Zip
	case strings.HasPrefix(b, "7z\xbc\xaf\x27\x1c"):
		return SevenZip
	}
	return Plain
}

// isTar reports whether a file is an archive of tar, whose names end with NULs.
func isTar(b []byte) bool {
	return len(b) >= beginning && string(b[tarAt:beginning]) == "ustar" && bytes.IndexByte(b[:tarAt], 0) >= 0
}

// KindOf returns how a file is compressed, by its first bytes, of which it needs 262. A file of zstd may
// begin with a frame that holds no data. Unknown means that there are fewer bytes than gzip and zstd begin
// with, which may be the beginning of a compressed file.
func KindOf(b []byte) Kind {
	begins := func(magic []byte) bool { return bytes.HasPrefix(magic, b[:min(len(b), len(magic))]) }
	skips := len(b) > 0 && b[0]>>4 == 5 && bytes.HasPrefix(skipMagic, b[1:min(len(b), 4)])
	switch {
	case bytes.HasPrefix(b, gzipMagic):
		return Gzip
	case bytes.HasPrefix(b, zstdMagic), skips && len(b) >= 4:
		return Zstd
	case skips, begins(gzipMagic), begins(zstdMagic):
		return Unknown
	case isTar(b):
		return Tar
	}
	return foreignKind(string(b[:min(len(b), longestMagic)]))
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
// has read enough. The error is one of the beginning of compressed data, a ForeignError or a NestedError.
func Reader(file io.Reader) (content io.Reader, done func(), err error) {
	r := bufio.NewReader(file)
	start, _ := r.Peek(beginning) // an error comes again when the content is read
	done = func() {}
	var unpacked io.Reader
	switch k := KindOf(start); {
	case k.IsForeign():
		return nil, nil, ForeignError{k}
	case k == Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, err
		}
		unpacked = z
	case k == Zstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		unpacked, done = z, z.Close
	default:
		return r, done, nil
	}
	r = bufio.NewReader(unpacked)
	start, _ = r.Peek(beginning)
	if err := Nested(start); err != nil {
		done()
		return nil, nil, err
	}
	return r, done, nil
}

// Nested returns a NestedError if what a compressed file holds, of which it needs the first 262 bytes, is
// compressed itself, or an archive.
func Nested(b []byte) error {
	if k := KindOf(b); k.IsReadable() || k.IsForeign() {
		return NestedError{k}
	}
	return nil
}

// NestedError says that what a compressed file holds is compressed itself, or an archive.
type NestedError struct{ Kind }

func (e NestedError) Error() string {
	if e.Kind == Tar {
		return "what it holds is a tar archive, which the agent cannot read"
	}
	return "what it holds is compressed again with " + e.String() + ", which the agent does not read"
}

// ForeignError says that a file is compressed, or an archive, in a way that the agent cannot read.
type ForeignError struct{ Kind }

func (e ForeignError) Error() string {
	if e.Kind == Tar {
		return "it is a tar archive, which the agent cannot read"
	}
	return "it is compressed with " + e.String() + ", which the agent cannot read"
}

// Extensions are those that the names of compressed files have.
var Extensions = []string{".gz", ".zst"}

// IsNamed reports whether a file is compressed by its name.
func IsNamed(name string) bool { return Bare(name) != name }

// Bare returns the name of a file without an extension of compression.
func Bare(name string) string {
	for _, end := range Extensions {
		if bare, is := strings.CutSuffix(name, end); is {
			return bare
		}
	}
	return name
}
