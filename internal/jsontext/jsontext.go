// Package jsontext finds its way in text that may be JSON, with the comments and the single
// quotes that the service takes too: whatever the text is, no index that it returns is beyond
// the end of it.
package jsontext

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	everyByte  = 0x0101010101010101
	eighthBits = 0x80 * everyByte
)

// ValueEnd returns the index after the JSON value at i; len(b) if the value has no end in b. The
// result is always greater than i.
func ValueEnd(b []byte, i int) int {
	switch b[i] {
	case '"', '\'':
		return StringEnd(b, i)
	case '{', '[':
		for depth := 0; i < len(b); {
			switch b[i] {
			case '"', '\'':
				i = StringEnd(b, i)
				continue
			case '/':
				if n := SkipSpace(b, i); n > i {
					i = n
					continue
				}
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(b)
	}
	for i++; i < len(b); i++ {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n', '/', ':':
			return i
		}
	}
	return i
}

// StringEnd returns the index after the string, in single or double quotes, at i; len(b): it is
// not closed.
func StringEnd(b []byte, i int) int {
	quote := b[i]
	for i++; i < len(b); {
		if i+8 <= len(b) {
			// The eighth bit of the first byte that is the quote or a backslash is set;
			// borrows can set others only behind it.
			w := binary.LittleEndian.Uint64(b[i:])
			q, s := w^uint64(quote)*everyByte, w^'\\'*everyByte
			hit := ((q-everyByte)&^q | (s-everyByte)&^s) & eighthBits
			if hit == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(hit) / 8
		}
		switch b[i] {
		case quote:
			return i + 1
		case '\\':
			i++
		}
		i++
	}
	return len(b)
}

// SkipSpace returns the first index from i on that is neither white space nor part of
// a comment.
func SkipSpace(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
			i++
			continue
		case '/':
			if end := CommentEnd(b, i); end > i {
				i = end
				continue
			}
		}
		return i
	}
	return len(b)
}

// CommentEnd returns the index after the comment that begins with the slash at i, where one to
// the end of its line ends before the newline; len(b): it is not closed; i: no comment begins
// there.
func CommentEnd(b []byte, i int) int {
	switch rest := b[i:]; {
	case bytes.HasPrefix(rest, []byte("//")):
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			return i + n
		}
	case bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			return i + 2 + n + 2
		}
	default:
		return i
	}
	return len(b)
}

// AppendPlain appends to dst the text that content, the content of a JSON string, stands for.
// What is no valid escape stands for itself. lossy says that an escape is half of a surrogate
// pair, which becomes the replacement character.
func AppendPlain(dst, content []byte) (_ []byte, lossy bool) {
	for {
		at := bytes.IndexByte(content, '\\')
		if at < 0 {
			return append(dst, content...), lossy
		}
		var n int
		var half bool
		dst, n, half = AppendEscape(append(dst, content[:at]...), content[at:])
		content, lossy = content[at+n:], lossy || half
	}
}

// AppendEscape appends to dst the text of the escape that content begins with: its first byte is a
// backslash. It returns the length n of the escape in content; two \u escapes that are one
// surrogate pair count as one. half says that there is only one half of such a pair, which
// becomes the replacement character. What is no valid escape stands for itself.
func AppendEscape(dst, content []byte) (_ []byte, n int, half bool) {
	if len(content) == 1 {
		return append(dst, '\\'), 1, false
	}
	c := content[1]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, ok := HexRune(content[2:])
		if !ok {
			return append(dst, `\u`...), 2, false
		}
		n = len(`\u0000`)
		if utf16.IsSurrogate(r) {
			low := utf8.RuneError
			if bytes.HasPrefix(content[n:], []byte(`\u`)) {
				low, _ = HexRune(content[n+2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				n *= 2
			} else {
				half = true
			}
		}
		return utf8.AppendRune(dst, r), n, half
	case '"', '\'', '/', '\\':
	default:
		dst = append(dst, '\\')
	}
	return append(dst, c), 2, false
}

// HexRune returns the character of the four digits of a \u escape that b begins with; false: b does
// not begin with four.
func HexRune(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	var two [2]byte
	if _, err := hex.Decode(two[:], b[:4]); err != nil {
		return 0, false
	}
	return rune(binary.BigEndian.Uint16(two[:])), true
}
