package rows

import (
	"fmt"
	"strings"
	"unicode"
)

// seen returns text in a form that cannot control the terminal that shows it: unprintable characters
// are escaped as in Go, except line ends and tabs.
func seen(text string) string {
	return escaped(text, func(b *strings.Builder, r rune) {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(b, `\U%08x`, r)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	})
}

// escaped returns a text in which f has written a replacement for each unprintable character.
func escaped(text string, f func(*strings.Builder, rune)) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			f(&b, r)
		}
	}
	return b.String()
}
