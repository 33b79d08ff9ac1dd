package format

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// appendString appends text escaped for a JSON string. Each byte that is not UTF-8 becomes
// the replacement character; lossy says so.
func appendString(dst, text []byte) (_ []byte, lossy bool) {
	checked := false
	for i := 0; i < len(text); {
		n, high := plainRun(text[i:])
		if high && !checked {
			if !utf8.Valid(text[i:]) {
				return appendLossy(dst, text[i:]), true
			}
			checked = true
		}
		dst = append(dst, text[i:i+n]...)
		if i += n; i < len(text) {
			dst = appendEscape(dst, text[i])
			i++
		}
	}
	return dst, false
}

// plainRun returns how many bytes at the beginning of text need no escape. high says that
// there may be bytes above 127 in them or just after them.
func plainRun(text []byte) (n int, high bool) {
	var seen uint64
	for ; n+8 <= len(text); n += 8 {
		w := binary.LittleEndian.Uint64(text[n:])
		quote := w ^ '"'*everyByte
		slash := w ^ '\\'*everyByte
		hit := ((quote-everyByte)&^quote | (slash-everyByte)&^slash | (w-' '*everyByte)&^w) & eighthBits
		seen |= w
		if hit != 0 {
			return n + bits.TrailingZeros64(hit)/8, seen&eighthBits != 0
		}
	}
	for ; n < len(text) && text[n] >= ' ' && text[n] != '"' && text[n] != '\\'; n++ {
		seen |= uint64(text[n])
	}
	return n, seen&eighthBits != 0
}

// appendEscape appends c, a character that cannot stand in a JSON string as it is, as an escape.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// appendLossy appends text that is not valid UTF-8 throughout, escaped for a JSON string, with
// the replacement character in place of each invalid byte.
func appendLossy(dst, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if n == 1 && (r < ' ' || r == '"' || r == '\\') {
			dst = appendEscape(dst, byte(r))
		} else {
			dst = utf8.AppendRune(dst, r)
		}
		text = text[n:]
	}
	return dst
}
