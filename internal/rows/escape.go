package rows

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Line prints a line of JSON. JSON may hold control characters above 127 as they
// are, and marks that turn the text: a terminal gets them escaped.
func Line(w Writer, line []byte, screen bool) error {
	if !screen {
		if _, err := w.Write(line); err != nil {
			return err
		}
		return w.WriteByte('\n')
	}
	if _, err := w.WriteString(escapedJSON(string(line))); err != nil {
		return err
	}
	return w.WriteByte('\n')
}

func escapedJSON(line string) string {
	return escaped(line, func(b *strings.Builder, r rune) {
		if r > 0xffff {
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
			return
		}
		fmt.Fprintf(b, `\u%04x`, r)
	})
}

// seen is a text of which a terminal shows everything and obeys nothing: what is
// not to be seen is written as Go does. Line ends and tabs stay.
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

// escaped calls f for what is not printable.
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
