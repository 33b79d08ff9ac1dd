package format

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestEachCharacter sees to every beginning of a character within a block: the last byte of four has
// all its values for some, and the least and most of each kind for all. Across the ends of two blocks
// the third one has those too.
func TestEachCharacter(t *testing.T) {
	some := []byte{0, 0x41, 0x7f, 0x80, 0x81, 0xa5, 0xbf, 0xc0, 0xff}
	all := make([]byte, 256)
	for c := range all {
		all[c] = byte(c)
	}
	f := func(begin int, thirds []byte) {
		text := []byte(strings.Repeat("x", begin+5))
		b := text[begin : begin+4]
		for w := range 1 << 15 {
			b[0], b[1] = byte(w)|0x80, byte(w>>7)
			for _, b[2] = range thirds {
				for _, b[3] = range some {
					if got, want := validUTF8(text), utf8.Valid(text); got != want {
						t.Fatalf("% x at %d: %t, want %t", b, begin, got, want)
					}
					if b[0]&0xf8 != 0xf0 {
						break
					}
				}
			}
		}
	}
	if testing.Short() {
		all = some
	}
	f(3, all)
	f(61, some)
	f(62, some)
	f(63, some)
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

// TestBehindAnother sees to each beginning of a character behind another one.
func TestBehindAnother(t *testing.T) {
	b := []byte("ä....0123456")
	step := 1
	if testing.Short() {
		step = 31
	}
	for w := 0; w < 1<<24; w += step {
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
		for _, text := range [][]byte{b, append([]byte("0123456"), b...), append([]byte(strings.Repeat("x", 62)), b...), append(bytes.Clone(b), strings.Repeat("ä", 20)...), append([]byte("ä"), b...)} {
			if got, want := validUTF8(text), utf8.Valid(text); got != want {
				t.Fatalf("%q: %t, want %t", text, got, want)
			}
		}
	})
}
