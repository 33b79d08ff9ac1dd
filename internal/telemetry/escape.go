package telemetry

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// EscapeJSON returns a JSON document with every unprintable character but line ends as an
// escape that means the same to whoever parses it: control characters, which may steer a
// terminal, and marks that turn the direction of a text or cannot be seen. Bytes that are
// not UTF-8, which no JSON may hold, become U+FFFD. Where there is nothing to escape, the
// result is doc itself.
func EscapeJSON(doc []byte) []byte {
	unprintable := func(r rune) bool { return r == utf8.RuneError || r != '\n' && !unicode.IsPrint(r) }
	i := bytes.IndexFunc(doc, unprintable)
	if i < 0 {
		return doc
	}
	clean := append(make([]byte, 0, len(doc)+len(doc)/8), doc[:i]...)
	for doc := doc[i:]; len(doc) > 0; {
		r, n := utf8.DecodeRune(doc)
		switch {
		case r >= 0x10000 && unprintable(r):
			high, low := utf16.EncodeRune(r)
			clean = fmt.Appendf(clean, `\u%04x\u%04x`, high, low)
		case unprintable(r) && (r != utf8.RuneError || n == 1):
			clean = fmt.Appendf(clean, `\u%04x`, r)
		default:
			clean = append(clean, doc[:n]...)
		}
		doc = doc[n:]
	}
	return clean
}
