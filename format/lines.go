package format

import (
	"bytes"

	"kusto-agent/record"
)

// Formats of lines: a record ends at the first newline, whatever it holds.
//
// TXT: each line is one string column. The CR of a CRLF is taken away, since
// nothing says that the service does it; all other bytes, also NUL and invalid
// UTF-8, pass.
//
// JSON: each line is one object, checked in json.go. Its bytes are never
// changed: a CR before the newline is white space to JSON.

// blank reports whether line holds no record: only a line end and, in JSON,
// white space. The service skips such lines in some formats and stores an
// empty row in others.
func (s *Scanner) blank(line []byte) bool {
	if s.spec.Format == record.JSON {
		return skipSpace(line, 0) == len(line)
	}
	if line[0] != '\n' && line[0] != '\r' {
		return false
	}
	return len(line) == 1 || len(line) == 2 && line[1] == '\n'
}

// trailingCR is the length of a line end that TXT must lose for a bare
// newline: a CRLF, or a CR that ends the file where its LF never came.
func (s *Scanner) trailingCR(rec []byte) int {
	if s.spec.Format != record.TXT {
		return 0
	}
	if bytes.HasSuffix(rec, []byte("\r\n")) {
		return 2
	}
	if bytes.HasSuffix(rec, []byte("\r")) {
		return 1
	}
	return 0
}

// firstLine is the length of the first line of data, newline included.
func firstLine(data []byte) int {
	if n := bytes.IndexByte(data, '\n') + 1; n > 0 {
		return n
	}
	return len(data)
}

// Resync is for the long record that Chunk.Long tells of: how many bytes of
// data, which goes on inside that record, still belong to it, or -1 where that
// is all of data and more. What follows is scanned like the middle of a file.
func (s *Scanner) Resync(data []byte) int {
	if n := bytes.IndexByte(data, '\n') + 1; n > 0 {
		return n
	}
	return -1
}

// Split returns the length of the first n records of a body that Scan made,
// the whole length where it has no more than n.
func (s *Scanner) Split(body []byte, n int) int {
	at := 0
	for ; n > 0 && at < len(body); n-- {
		at += s.measure(body[at:])
	}
	return at
}

// Count returns the number of records of a body that Scan made.
func (s *Scanner) Count(body []byte) int {
	if s.spec.Ends == AtLine {
		return bytes.Count(body, []byte{'\n'})
	}
	n := 0
	for ; len(body) > 0; n++ {
		body = body[s.measure(body):]
	}
	return n
}

// measure is the length of the first record of a body that Scan made.
func (s *Scanner) measure(body []byte) int {
	n := firstLine(body)
	if s.spec.Ends == AtRow && bytes.IndexByte(body[:n], '"') >= 0 {
		if r := walkRow(body, s.sep); r.end == rowWhole {
			return r.n
		}
	}
	return n
}
