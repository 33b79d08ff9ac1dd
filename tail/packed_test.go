package tail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"kusto-agent/internal/record"
)

// packedBytes compresses as the command does that gives a name this ending.
func packedBytes(suffix string, text []byte) []byte {
	var b bytes.Buffer
	if suffix == ".gz" {
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text)
		_ = z.Close()
		return b.Bytes()
	}
	z, err := zstd.NewWriter(&b)
	if err != nil {
		panic(err)
	}
	_, _ = z.Write(text)
	_ = z.Close()
	return b.Bytes()
}

// lettersAndLines is text that does not compress to nothing.
func lettersAndLines(n int) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
		if rng.IntN(60) == 0 {
			b[i] = '\n'
		}
	}
	return b
}

func noPlaces([]record.Head) []int64 { return nil }

func surveyBytes(t *testing.T, b []byte) (*facts, error) {
	t.Helper()
	return survey(t.Context(), bytes.NewReader(b), packingOf(b), int64(len(b)), noPlaces)
}

// TestSurvey looks through files that are whole, and through some that are not.
func TestSurvey(t *testing.T) {
	text := lettersAndLines(300_000)
	f := func(name string, packed []byte, size int, flaw, cut error) {
		t.Helper()
		x, err := surveyBytes(t, packed)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case int(x.size) != size || x.flaw != flaw || !errors.Is(x.cut, cut) || (x.cut == nil) != (cut == nil):
			t.Errorf("%s: %d bytes, flaw %v, cut %v; want %d, %v, %v", name, x.size, x.flaw, x.cut, size, flaw, cut)
		case x.end != markOf(text[:size][max(0, size-record.MarkLen):]):
			t.Errorf("%s: wrong mark at its end", name)
		}
	}
	for _, suffix := range []string{".gz", ".zst"} {
		whole := packedBytes(suffix, text)
		two := append(packedBytes(suffix, text[:1000]), packedBytes(suffix, text[1000:])...)
		f(suffix+" whole", whole, len(text), nil, nil)
		f(suffix+" of nothing", packedBytes(suffix, nil), 0, nil, nil)
		f(suffix+" of two", two, len(text), nil, nil)
		f(suffix+" of three", append(bytes.Clone(two), packedBytes(suffix, nil)...), len(text), nil, nil)
		f(suffix+" and more", append(bytes.Clone(whole), "trailing"...), len(text), errTrailing, nil)
		sum := bytes.Clone(whole)
		if suffix == ".gz" {
			sum[len(sum)-8] ^= 1 // before the size
			f(suffix+" and NULs", append(bytes.Clone(whole), make([]byte, 100)...), len(text), nil, nil)
		} else {
			sum[len(sum)-1] ^= 1
		}
		f(suffix+" with a wrong checksum", sum, len(text), errChecksum, nil)
		f(suffix+" with a wrong checksum, and another", append(sum, packedBytes(suffix, nil)...), len(text), errChecksum, nil)
	}
	// What zstd leaves out when it cannot know, and what holds no data.
	skip := append([]byte{0x55, 0x2a, 0x4d, 0x18, 3, 0, 0, 0}, "abc"...)
	f("zstd behind a frame without data", append(skip, packedBytes(".zst", text)...), len(text), nil, nil)
}

// TestSurveyOfWhatBreaksOff: a file that ends anywhere inside its compressed data is
// never taken for a whole one.
func TestSurveyOfWhatBreaksOff(t *testing.T) {
	text := lettersAndLines(3000)
	for _, suffix := range []string{".gz", ".zst"} {
		one := packedBytes(suffix, text[:1000])
		two := append(bytes.Clone(one), packedBytes(suffix, text[1000:])...)
		for n := 4; n < len(two); n++ {
			x, err := surveyBytes(t, two[:n])
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", suffix, n, err)
			}
			// Where a few bytes of the next beginning are there, they may be anything.
			if whole := x.cut == nil; whole != (n == len(one)) && !(n > len(one) && n < len(one)+4) {
				t.Errorf("%s of %d bytes, first has %d: cut %v, flaw %v", suffix, n, len(one), x.cut, x.flaw)
			}
		}
	}
}

// TestContents reads what is in a file anywhere, in any order.
func TestContents(t *testing.T) {
	text := lettersAndLines(2 << 20)
	for _, suffix := range []string{".gz", ".zst"} {
		packed := packedBytes(suffix, text)
		path := filepath.Join(t.TempDir(), "f"+suffix)
		must(t, os.WriteFile(path, packed, 0o600))
		file, st, err := openFile(path)
		must(t, err)
		for _, size := range []int64{int64(len(text)), unknownSize} {
			c := unpacked(file, st, size).(*contents)
			rng := rand.New(rand.NewPCG(2, 3))
			at := 0
			for i := range 200 {
				switch rng.IntN(10) {
				case 0:
					at = rng.IntN(len(text) + 10)
				case 1:
					at = max(0, at-rng.IntN(100_000))
				}
				b := make([]byte, rng.IntN(50_000))
				n, err := c.ReadAt(b, int64(at))
				want := text[min(at, len(text)):min(at+len(b), len(text))]
				if !bytes.Equal(b[:n], want) || (n < len(b)) != errors.Is(err, io.EOF) || n == len(b) && err != nil {
					t.Fatalf("%s: read %d, %d bytes at %d: %d bytes, %v", suffix, i, len(b), at, n, err)
				}
				at += n - min(n, rng.IntN(600))
			}
			c.close()
		}
		must(t, file.Close())
	}
}

func TestPackingOf(t *testing.T) {
	f := func(b string, want packing) {
		t.Helper()
		if got := packingOf([]byte(b)); got != want {
			t.Errorf("%q: %d, want %d", b, got, want)
		}
	}
	f("", undecided)
	f("\x1f", undecided)
	f("\x1f\x8b", undecided)
	f("\x1f\x8b\x08\x00", gzipped)
	f("\x1f\x8b\x09\x00", plain)
	f("\x28\xb5\x2f", undecided)
	f("\x28\xb5\x2f\xfd", zstdPacked)
	f("\x5f\x2a\x4d\x18", zstdPacked)
	f("\x5f\x2a\x4d", undecided)
	f("(log", plain)
	f("{\"a\"", plain)
	f("Obj\x01", plain)
	f("Post", plain)
}

// BenchmarkUnpack is what looking through a file costs, and reading it as a worker
// does.
func BenchmarkUnpack(b *testing.B) {
	var text bytes.Buffer
	for i := 0; text.Len() < 64<<20; i++ {
		fmt.Fprintf(&text, `{"time":"2026-03-0%dT12:%02d:%02d.%06dZ","level":"info","message":"request served","path":"/api/v1/items/%d","status":200,"ms":%d}`+"\n",
			i%9+1, i%60, i/7%60, i*7919%1000000, i*31%100003, i*17%977)
	}
	for _, suffix := range []string{".gz", ".zst"} {
		path := filepath.Join(b.TempDir(), "f"+suffix)
		must(b, os.WriteFile(path, packedBytes(suffix, text.Bytes()), 0o600))
		file, st, err := openFile(path)
		must(b, err)
		b.Run("survey"+suffix, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				c := unpacked(file, st, unknownSize).(*contents)
				if _, err := survey(b.Context(), file, c.how, st.size, noPlaces); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("read"+suffix, func(b *testing.B) {
			buf := make([]byte, 4<<20)
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				c := unpacked(file, st, int64(text.Len())).(*contents)
				for at := int64(0); at < c.size; at += int64(len(buf)) - 700 {
					if _, err := c.ReadAt(buf, at); err != nil && !errors.Is(err, io.EOF) {
						b.Fatal(err)
					}
				}
				c.close()
			}
		})
		must(b, file.Close())
	}
}
