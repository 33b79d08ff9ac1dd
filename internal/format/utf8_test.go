package format

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCharLen sees to every beginning of a character: the last byte of four has
// all its values for some, and the least and most of each kind for all.
func TestCharLen(t *testing.T) {
	last := []byte{0, 0x41, 0x7f, 0x80, 0x81, 0xa5, 0xbf, 0xc0, 0xff}
	var b [4]byte
	for w := range 1 << 24 {
		if w&0x80 == 0 {
			continue
		}
		b = [4]byte{byte(w), byte(w >> 8), byte(w >> 16)}
		for _, b[3] = range last {
			r, want := utf8.DecodeRune(b[:])
			if r == utf8.RuneError && want == 1 {
				want = 0
			}
			if got := charLen(binary.LittleEndian.Uint32(b[:])); got != want {
				t.Fatalf("% x: %d, want %d", b, got, want)
			}
			if w&0xf8 != 0xf0 {
				break
			}
		}
	}
}

func TestValidUTF8(t *testing.T) {
	for _, s := range []string{"", "a", "ä", "☃", "\U0001F600", "ä☃\U0001F600é", "\xff", "\xc3", "\xe2\x98", "\xf0\x9f\x98", "\x80", "ä\x80", "\xed\xa0\x80", "\xc0\x80"} {
		for n := range 140 {
			b := []byte(strings.Repeat("x", n%70) + strings.Repeat("ä", n/70) + s) // by itself, or behind another one
			for range 40 {
				if got, want := validUTF8(b), utf8.Valid(b); got != want {
					t.Fatalf("%q: %t, want %t", b, got, want)
				}
				b = append(b, 'y')
			}
		}
	}
}

// TestUTF8States has the machine do each beginning of a character, behind another one.
func TestUTF8States(t *testing.T) {
	b := []byte("ä....0123456")
	for w := range 1 << 24 {
		b[2], b[3], b[4] = byte(w>>16), byte(w>>8), byte(w)
		for _, b[5] = range []byte{'a', 0x80, 0xBF, 0xC0} {
			if got, want := validUTF8(b), utf8.Valid(b); got != want {
				t.Fatalf("% x: %t, want %t", b, got, want)
			}
			if b[2] < 0xF0 {
				break
			}
		}
	}
}

// FuzzUTF8: text is UTF-8 where the standard library says so.
func FuzzUTF8(f *testing.F) {
	for _, s := range []string{"Größe der Warteschlange", "注文を受け付けました", "\U0001F600 \xff", "a long line of ASCII, then \xe2\x98\x83\xe2\x98"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, text := range [][]byte{b, append([]byte("0123456"), b...), append(bytes.Clone(b), strings.Repeat("ä", 20)...), append([]byte("ä"), b...)} {
			if got, want := validUTF8(text), utf8.Valid(text); got != want {
				t.Fatalf("%q: %t, want %t", text, got, want)
			}
		}
	})
}
