package compressed

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestKindOf(t *testing.T) {
	f := func(b string, want Kind) {
		t.Helper()
		if got := KindOf([]byte(b)); got != want {
			t.Errorf("%q: %d, want %d", b, got, want)
		}
	}
	f("", Unknown)
	f("\x1f", Unknown)
	f("\x1f\x8b", Unknown)
	f("\x1f\x8b\x08\x00", Gzip)
	f("\x1f\x8b\x09\x00", Plain)
	f("\x28\xb5\x2f", Unknown)
	f("\x28\xb5\x2f\xfd", Zstd)
	f("\x5f\x2a\x4d\x18", Zstd)
	f("\x5f\x2a\x4d", Unknown)
	f("(log", Plain)
	f("{\"a\"", Plain)
	f("Obj\x01", Plain)
	f("Post", Plain)
	f("\xfd7zXZ\x00\x00\x04", Xz)
	f("BZh91AY&SY", Bzip2)
	f("BZh91AY&", Plain) // so short are none of bzip2, and there are lines that begin with it
	f("\x04\x22\x4d\x18\x64", Lz4)
	f("PK\x03\x04\x14", Zip)
	f("PK and so on", Plain)
	f("PK\x05\x06\x00", Zip)
	f("BZh9\x17rE8P\x90", Bzip2)
	f("7z\xbc\xaf\x27\x1c\x00", SevenZip)
	f("app.log"+strings.Repeat("\x00", 250)+"ustar  \x00", Tar)
	f("app.log"+strings.Repeat("\x00", 250)+"usta", Plain)
	f(strings.Repeat("x", 257)+"ustar is a word of tar", Plain)
}

func TestNames(t *testing.T) {
	f := func(name, bare string) {
		t.Helper()
		if got := Bare(name); got != bare || IsNamed(name) != (bare != name) {
			t.Errorf("%q: %q, compressed by its name: %v", name, got, IsNamed(name))
		}
	}
	f("a.log", "a.log")
	f("a.log.gz", "a.log")
	f("a.log.1.zst", "a.log.1")
	f("a.log.gz.zst", "a.log.gz")
	f("gz", "gz")
	f("", "")
}

// TestReader: what is compressed is read as what is in it, and all else as it is.
func TestReader(t *testing.T) {
	const text = "a line of some length, and another\n"
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{
		"plain": []byte(text), "gzip": gz.Bytes(), "zstd": e.EncodeAll([]byte(text), nil),
		"zstd behind a frame without data": append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, e.EncodeAll([]byte(text), nil)...),
	} {
		r, done, err := Reader(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", what, got, err)
		}
		done()
		if k, n, err := KindAt(bytes.NewReader(b)); err != nil || n != min(len(b), beginning) || k.IsReadable() != (what != "plain") {
			t.Errorf("%s: kind %d of %d bytes, %v", what, k, n, err)
		}
	}
	if _, _, err := Reader(strings.NewReader("\xfd7zXZ\x00\x00\x04")); !errors.As(err, new(ForeignError)) || !strings.Contains(err.Error(), "with xz") {
		t.Errorf("xz: %v", err)
	}
	archive := make([]byte, 512)
	copy(archive[tarAt:], "ustar")
	for what, b := range map[string][]byte{"a tar archive": archive, "again with gzip": gz.Bytes(), "again with xz": []byte("\xfd7zXZ\x00\x00\x04")} {
		_, _, err := Reader(bytes.NewReader(e.EncodeAll(b, nil)))
		if !errors.As(err, new(NestedError)) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s in zstd: %v", what, err)
		}
	}
	if _, _, err := Reader(bytes.NewReader(gz.Bytes()[:6])); err == nil {
		t.Error("gzip that breaks off in its header is no error")
	}
	if k, n, err := KindAt(bytes.NewReader(nil)); k != Unknown && k != Plain || n != 0 || err != nil {
		t.Errorf("an empty file: kind %d of %d bytes, %v", k, n, err)
	}
}
