package format

import (
	"bytes"
	"cmp"
	"fmt"
	"unicode/utf8"

	"kusto-agent/internal/record"
)

// fault says why a record is unsound.
type fault struct {
	reason record.Reason
	text   string
	at     int  // offset in the record, or nowhere
	char   bool // the character at that place is what was not expected
	limit  int  // in bytes, where the record exceeds one
}

// nowhere is the place of a fault that a column would not explain.
const nowhere = -1

func malformed(at int, text string) fault {
	return fault{reason: record.Malformed, at: at, text: text}
}

// unexpected blames the character at a place of the record.
func unexpected(at int, where string) fault {
	return fault{reason: record.Malformed, at: at, text: where, char: true}
}

func (s *Scanner) tooLong(what string) fault {
	return fault{reason: record.TooLong, text: what, limit: cmp.Or(s.opt.MaxContent, s.opt.MaxRecord)}
}

// explain returns the fault as a message for people. data begins with the record. The message
// names the column in the line of the record, counted from 1, and quotes at most one character of
// the content.
func (f fault) explain(data []byte) string {
	if f.limit > 0 {
		return fmt.Sprintf("%s %d bytes", f.text, f.limit)
	}
	if f.at == nowhere {
		return f.text
	}
	where := fmt.Sprintf("column %d", f.at+1)
	if n := bytes.LastIndexByte(data[:f.at], '\n'); n >= 0 {
		where = fmt.Sprintf("line %d, column %d", bytes.Count(data[:f.at], []byte{'\n'})+1, f.at-n)
	}
	if !f.char {
		return where + ": " + f.text
	}
	r, n := utf8.DecodeRune(data[f.at:])
	if r == utf8.RuneError && n == 1 {
		return fmt.Sprintf("%s: unexpected byte %#02x %s", where, data[f.at], f.text)
	}
	return fmt.Sprintf("%s: unexpected %q %s", where, r, f.text)
}
