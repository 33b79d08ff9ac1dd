package format

import "bytes"

// The engine's JSON reader also takes comments and single-quoted names and
// strings, as its documentation of JSON mappings says. Such a record is sent
// as it is. To check it, it is written in strict JSON of the same length, so
// that the one check serves both and columns stay true.

// relax appends to dst the record, without its line end, with comments turned
// into spaces and single quotes into double ones. It returns nil where rec has nothing of the kind.
// What is not well-formed comes out as something strict JSON refuses.
func relax(dst, rec []byte) []byte {
	if bytes.IndexByte(rec, '\'') < 0 && bytes.IndexByte(rec, '/') < 0 {
		return nil
	}
	dst = append(dst, rec...)
	for i := 0; i < len(dst); {
		switch dst[i] {
		case '"':
			i = skipString(dst, i)
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

// skipString returns the index behind the double-quoted string at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// requote gives the single-quoted string at i double quotes, and returns the
// index behind it. A double quote in it needs no escape, an escaped single
// quote is one: each is turned into something as long and as sound.
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

// blankComment overwrites the comment at i with spaces, and returns the index
// behind it. A slash that begins none, or one that never ends, stays.
func blankComment(b []byte, i int) int {
	end := len(b)
	switch rest := b[i:]; {
	case bytes.HasPrefix(rest, []byte("//")): // to the end of the line
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			end = i + n
		}
	case bytes.HasPrefix(rest, []byte("/*")):
		n := bytes.Index(rest[2:], []byte("*/"))
		if n < 0 {
			return end
		}
		end = i + 2 + n + 2
	default:
		return i + 1
	}
	for ; i < end; i++ {
		b[i] = ' '
	}
	return end
}

// looseObject goes through the object that b begins with like strictObject,
// with the engine's leniencies. As there, a fault at len(b) means that the data
// ended before anything was wrong. Only as much of b is copied as the object
// needs, give or take.
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
		if f.at < len(part) || len(part) == len(b) {
			return 0, f
		}
	}
}

// commentOpen reports whether b, where a value or what follows one should
// begin, is a comment that goes on behind b.
func commentOpen(b []byte) bool {
	if bytes.HasPrefix(b, []byte("/*")) {
		return !bytes.Contains(b[2:], []byte("*/"))
	}
	return len(b) == 1 && b[0] == '/'
}

// leniencyAt reports whether a strict fault at i is at something that the
// engine's leniencies are about: strict JSON has neither outside of strings.
func leniencyAt(b []byte, i int) bool {
	return i < len(b) && (b[i] == '\'' || b[i] == '/')
}
