package format

import "bytes"

// Formats of lines: a record ends at the first newline, whatever it holds.
//
// TXT: each line is one string column. The CR of a CRLF is taken away, since
// nothing says that the service does it; all other bytes, also NULs within and
// invalid UTF-8, pass.
//
// JSON: each line is one object, checked in json.go. Its bytes are never
// changed: a CR before the newline is white space to JSON.

// blank reports whether a line holds no record: only a line end and, in JSON, white space.
// The service skips such lines in some formats and stores an empty row in others.
func (s *Scanner) blank(line []byte) bool {
	if len(line) > 0 && line[0] > ' ' {
		return false
	}
	text := s.txt || s.opt.Parse != ParseNone
	if s.json && !text {
		return skipSpace(line, 0) == len(line)
	}
	if line[0] != '\n' && line[0] != '\r' {
		return false
	}
	if text && line[len(line)-1] == '\r' { // at the end of the file, where the LF is missing
		return len(bytes.TrimLeft(line, "\r")) == 0
	}
	return len(line) == 1 || len(line) == 2 && line[1] == '\n'
}

// firstLine is the length of the first line of data, newline included.
func firstLine(data []byte) int {
	if n := bytes.IndexByte(data, '\n') + 1; n > 0 {
		return n
	}
	return len(data)
}

// SkipLong skips a record for which Scan has set Chunk.Long. data begins Chunk.Skip bytes after
// the record's start, and indent is Chunk.Indent. It returns how many bytes of data belong to the
// record, and whether the record ends there; if not, call it again with the bytes that follow.
// last says that nothing follows data.
//
// A record of MultiJSON extends to the next line that begins with a brace or bracket and is
// indented no deeper than the record; one of Avro to the next sync marker; an event of several
// lines to the first line of another event; any other to the next newline. If rules need whole
// objects, a record of JSON extends further: see wary.go.
func (s *Scanner) SkipLong(data []byte, indent int, last bool) (n int, done bool) {
	s.ends = s.quiet
	if s.opt.Encoding != UTF8 {
		return s.skipLongDecoded(data, indent, last)
	}
	return s.skipLong(data, indent, last)
}

// skipLong is SkipLong for text that is UTF-8. n is how many bytes of data belong to the record
// that is too long; done says that it ends there. last says that nothing follows data.
func (s *Scanner) skipLong(data []byte, indent int, last bool) (n int, done bool) {
	switch {
	case s.wary:
		return s.skipWarily(data, indent, last)
	case s.spec.Ends == AtValue:
		return skipToRecord(data, indent, last)
	case s.spec.Ends == InBlocks:
		return s.head.skipToBlock(data, last)
	}
	if s.opt.Multiline != nil {
		return s.skipEvent(data, uint8(indent), last) // there indent is the state of the event
	}
	if n = firstLine(data); n > 0 && data[n-1] == '\n' {
		return n, true
	}
	return n, last
}

// Split returns the length of the first n records of a body that Scan made,
// the whole length where it has no more than n. Of Avro it takes blocks for
// records; a prefix is no part of the body.
func (s *Scanner) Split(body []byte, n int) int {
	at := 0
	for ; n > 0 && at < len(body); n-- {
		at += s.measure(body[at:])
	}
	return at
}

// Count returns the number of records of a body that Scan made.
func (s *Scanner) Count(body []byte) int {
	switch s.spec.Ends {
	case AtLine:
		return bytes.Count(body, []byte{'\n'})
	case InBlocks:
		return countBlocks(body)
	}
	n := 0
	for ; len(body) > 0; n++ {
		body = body[s.measure(body):]
	}
	return n
}

// measure is the length of the first record of a body that Scan made.
func (s *Scanner) measure(body []byte) int {
	switch s.spec.Ends {
	case AtValue:
		return s.objectLine(body)
	case InBlocks:
		return measureBlock(body)
	}
	n := firstLine(body)
	if s.spec.Ends == AtRow && bytes.IndexByte(body[:n], '"') >= 0 {
		if r := walkRow(body, s.sep); r.end == rowWhole {
			return r.n
		}
	}
	return n
}
