package telemetry

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// EscapeJSON returns the JSON document doc with every unprintable character except line feeds as
// \uXXXX, so that it cannot control a terminal or hide text; parsers read the same document. Bytes
// that are not UTF-8 become \ufffd. If there is nothing to escape it returns doc itself, otherwise
// a copy.
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
		case unprintable(r) && (r != utf8.RuneError || n == 1): // a U+FFFD that is in doc stays (n is 3)
			clean = fmt.Appendf(clean, `\u%04x`, r)
		default:
			clean = append(clean, doc[:n]...)
		}
		doc = doc[n:]
	}
	return clean
}
