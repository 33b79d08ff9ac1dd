package rows

import (
	"fmt"
	"strings"
	"unicode"
)

// seen returns text in a form that cannot control the terminal that shows it: unprintable characters
// are escaped as in Go, except line ends and tabs.
func seen(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r) || r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
