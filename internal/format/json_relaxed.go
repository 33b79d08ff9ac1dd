package format

import (
	"bytes"

	"kusto-agent/internal/jsontext"
)

// The engine's JSON reader also takes comments and single-quoted names and
// strings, as its documentation of JSON mappings says. Such a record is sent
// as it is. To check it, it is written in strict JSON of the same length, so
// that the one check serves both and columns stay true.

// relax appends rec to dst with comments replaced by spaces and single quotes by double ones, at
// the same length, so that a strict parser can check it. It returns nil if there is nothing to
// replace. What is malformed stays so that strict JSON rejects it.
func relax(dst, rec []byte) []byte {
	if bytes.IndexByte(rec, '\'') < 0 && bytes.IndexByte(rec, '/') < 0 {
		return nil
	}
	dst = append(dst, rec...)
	for i := 0; i < len(dst); {
		switch dst[i] {
		case '"':
			i = jsontext.StringEnd(dst, i)
		case '\'':
			i = requote(dst, i)
		case '/':
			i = blankComment(dst, i)
		default:
			i++
		}
	}
	return dst
}

// requote changes the single-quoted string at i into a double-quoted one of the same length, and
// returns the index after it; len(b): it is not closed. A double quote in it becomes a single
// one.
func requote(b []byte, i int) int {
	b[i] = '"'
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			if i++; i < len(b) && b[i] == '\'' {
				b[i] = '"'
			}
		case '"':
			b[i] = '\''
		case '\'':
			b[i] = '"'
			return i + 1
		}
	}
	return len(b)
}

// blankComment overwrites the comment at i with spaces and returns the index after it. A
// slash that begins no comment, or an unclosed one, is left.
func blankComment(b []byte, i int) int {
	end := jsontext.CommentEnd(b, i)
	if !commentOpen(b[i:]) {
		for at := i; at < end; at++ {
			b[at] = ' '
		}
	}
	return max(end, i+1)
}

// looseObject returns the index after the JSON object that b begins with. Unlike strictObject it
// allows comments and single quotes. A fault at len(b) means that the data ended before anything
// was wrong. It works on a copy of as much of b as the object needs.
func (s *Scanner) looseObject(b []byte) (int, fault) {
	for size := 512; ; size *= 4 {
		part := b[:min(size, len(b))]
		s.relaxed = append(s.relaxed[:0], part...)
		if plain := relax(s.relaxed[:0], part); plain != nil {
			s.relaxed = plain
		}
		end, _, f := strictObject(s.relaxed, 0)
		if f.text == "" {
			return end, f
		}
		if commentOpen(part[f.at:]) {
			f = malformed(len(part), "the record ends in a comment")
		}
		if f.at < len(part) || len(part) == len(b) { // not for lack of data, or there is no more
			return 0, f
		}
	}
}

// commentOpen reports whether b begins with a comment that is not closed in b.
func commentOpen(b []byte) bool {
	if bytes.HasPrefix(b, []byte("/*")) {
		return !bytes.Contains(b[2:], []byte("*/"))
	}
	return len(b) == 1 && b[0] == '/' // the next byte may make it a comment
}

// leniencyAt reports whether strict JSON fails at i because of a single quote or a slash, which
// the service accepts: strict JSON has neither outside of strings.
func leniencyAt(b []byte, i int) bool {
	return i < len(b) && (b[i] == '\'' || b[i] == '/')
}
