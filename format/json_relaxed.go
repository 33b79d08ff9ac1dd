package format

import "bytes"

// The engine's JSON reader also takes comments and single-quoted names and
// strings, as its documentation of JSON mappings says. Such a record is sent
// as it is. To check it, it is written in strict JSON of the same length, so
// that the one check serves both and columns stay true.

// relax appends to dst the record, without its line end, with comments turned into spaces and single
// quotes into double ones. It returns nil where rec has nothing of the kind.
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
	case bytes.HasPrefix(rest, []byte("//")): // to the end of the record
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
