package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
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

// sourceOf is what is in a file that holds packed.
func sourceOf(packed []byte, size int64) *Source {
	s := NewSource(compressed.KindOf(packed), int64(len(packed)), size)
	s.From(bytes.NewReader(packed))
	return &s
}

func noPlaces([]record.Head) []int64 { return nil }

func surveyBytes(t *testing.T, b []byte) (*Facts, error) {
	t.Helper()
	return Inspect(t.Context(), bytes.NewReader(b), compressed.KindOf(b), int64(len(b)), noPlaces)
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
		case int(x.Size) != size || x.Flaw != flaw || !errors.Is(x.Cut, cut) || (x.Cut == nil) != (cut == nil):
			t.Errorf("%s: %d bytes, flaw %v, cut %v; want %d, %v, %v", name, x.Size, x.Flaw, x.Cut, size, flaw, cut)
		case x.End != fingerprint.MarkOf(text[:size][max(0, size-record.MarkLen):]):
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
		f(suffix+" and more", append(bytes.Clone(whole), "trailing"...), len(text), ErrTrailing, nil)
		sum := bytes.Clone(whole)
		if suffix == ".gz" {
			sum[len(sum)-8] ^= 1 // before the size
			f(suffix+" and NULs", append(bytes.Clone(whole), make([]byte, 100)...), len(text), nil, nil)
		} else {
			sum[len(sum)-1] ^= 1
		}
		f(suffix+" with a wrong checksum", sum, len(text), ErrChecksum, nil)
		f(suffix+" with a wrong checksum, and another", append(sum, packedBytes(suffix, nil)...), len(text), ErrChecksum, nil)
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
			if whole := x.Cut == nil; whole != (n == len(one)) && !(n > len(one) && n < len(one)+4) {
				t.Errorf("%s of %d bytes, first has %d: cut %v, flaw %v", suffix, n, len(one), x.Cut, x.Flaw)
			}
		}
	}
}

// TestContents reads what is in a file anywhere, in any order.
func TestContents(t *testing.T) {
	text := lettersAndLines(2 << 20)
	for _, suffix := range []string{".gz", ".zst"} {
		packed := packedBytes(suffix, text)
		for _, size := range []int64{int64(len(text)), UnknownSize} {
			c := sourceOf(packed, size)
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
			c.Free()
		}
	}
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
		packed := packedBytes(suffix, text.Bytes())
		b.Run("survey"+suffix, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				if _, err := Inspect(b.Context(), bytes.NewReader(packed), compressed.KindOf(packed), int64(len(packed)), noPlaces); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("read"+suffix, func(b *testing.B) {
			buf := make([]byte, 4<<20)
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				c := sourceOf(packed, int64(text.Len()))
				for at := int64(0); at < c.Size(); at += int64(len(buf)) - 700 {
					if _, err := c.ReadAt(buf, at); err != nil && !errors.Is(err, io.EOF) {
						b.Fatal(err)
					}
				}
				c.Free()
			}
		})
	}
}

// TestContentsKeepHeader: the header of a file that is compressed as a whole is found
// again at every turn.
func TestContentsKeepHeader(t *testing.T) {
	t.Parallel()
	var text []byte
	for i := range 3000 {
		text = fmt.Appendf(text, "line %d\n", i)
	}
	packed := packedBytes(".gz", text)
	c := sourceOf(packed, int64(len(text)))
	defer c.Free()
	head, data := make([]byte, 4<<10), make([]byte, 1000)
	var dec *unpacker
	for at := 5000; at+len(data) < len(text); at += len(data) {
		for _, x := range []struct {
			b  []byte
			at int
		}{{head, 0}, {data, at}} {
			if n, err := c.ReadAt(x.b, int64(x.at)); err != nil || !bytes.Equal(x.b[:n], text[x.at:x.at+len(x.b)]) {
				t.Fatalf("at %d: %d bytes, %v", x.at, n, err)
			}
		}
		if dec != nil && c.dec != dec {
			t.Fatalf("at %d it began anew", at)
		}
		dec = c.dec
	}
}
