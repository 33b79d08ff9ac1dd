package telemetry

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// EscapeJSON returns a JSON document in which every unprintable character except line ends is escaped,
// so that it cannot steer a terminal or hide text; parsers read the same document. Bytes that are not
// UTF-8 become U+FFFD. If there is nothing to escape it returns doc itself.
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
