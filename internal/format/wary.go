package format

import (
	"bytes"

	"kusto-agent/internal/jsontext"
)

// A wary scanner sends no object that may lie within one that is not sound, or that is
// too long: rules about members would see only a part of it, in which names lead
// elsewhere. What is rejected goes on from such a record to where another begins that is
// no part of it. That is behind the end of a line, unless
//
//   - the last byte before it, white space and comments aside, is a comma, a colon, or
//     a bracket or brace that opens: then the record would go on;
//   - an array is the innermost that is open, of which the next element could follow
//     although the comma is missing, and the line does not end within a string, as
//     most do that were torn.
//
// A name that no colon follows counts as a comma. In MultiJSON the next line also begins
// with a brace, indented no deeper than the record. Of a record that is longer than it may
// be only the last byte counts, from there on.

// lineState is what is known of a record where a line of it ends.
type lineState struct {
	depth  int
	arrays [MaxDepth / 64]uint64 // bit d: what is open at depth d is an array
	before byte                  // the last byte that is neither white space nor in a comment or string; 0: none
	last   byte                  // the same, but wherever it is
	torn   bool                  // the line ends within a string
}

// open notes that the bracket or brace c was opened: the depth, and whether it begins an array.
func (l *lineState) open(c byte) {
	if l.depth < MaxDepth {
		l.arrays[l.depth/64] &^= 1 << (l.depth % 64)
		if c == '[' {
			l.arrays[l.depth/64] |= 1 << (l.depth % 64)
		}
	}
	l.depth++
}

// inArray reports whether the innermost open bracket is that of an array. It is also true if the
// nesting is too deep to tell.
func (l *lineState) inArray() bool {
	at := l.depth - 1
	return at >= MaxDepth || at >= 0 && l.arrays[at/64]>>(at%64)&1 != 0
}

// goesOn reports whether what follows the line may be a part of the same JSON record: its last
// byte promises more, or an array is open. If the line ends within a string, only its last byte
// counts.
func (l *lineState) goesOn() bool {
	return isUnended(l.last) || !l.torn && (isUnended(l.before) || l.inArray())
}

// isUnended reports whether JSON goes on behind a byte.
func isUnended(before byte) bool {
	return before == ',' || before == ':' || before == '[' || before == '{'
}

// line updates the state with the line of b that begins at i, and returns the index of its
// newline, or len(b) if it has none. l.last is then the last byte outside of comments that is not
// white space; l.before is the same, but not from a string that does not end in the line.
func (l *lineState) line(b []byte, i int) int {
	l.torn = false
	for i < len(b) && b[i] != '\n' {
		switch c := b[i]; c {
		case ' ', '\t', '\r':
		case '/':
			if n := commentLen(b[i:]); n > 0 {
				i += n
				continue
			}
			l.before, l.last = c, c
		case '"', '\'':
			end := skipQuoted(b, i)
			if end < len(b) && b[end] != '\n' {
				// Behind a comma or brace it may be a name: before stays, as if the record went on.
				if l.last, i = c, end; l.before != ',' && l.before != '{' {
					l.before = c
				}
				break
			}
			if text := bytes.TrimRight(b[i+1:end], " \t\r"); len(text) > 0 {
				l.torn, l.last = true, text[len(text)-1]
			}
			return end
		default:
			l.before, l.last = c, c
			if c == '{' || c == '[' {
				l.open(c)
			} else if c == '}' || c == ']' {
				l.depth = max(l.depth-1, 0)
			}
		}
		i++
	}
	return i
}

// commentLen returns the length of the comment at the beginning of b, if it ends in its line; 0:
// there is none.
func commentLen(b []byte) int {
	line := b[:lineEnd(b, 0)]
	if commentOpen(line) {
		return 0
	}
	return jsontext.CommentEnd(line, 0)
}

// isolateWarily ends k, the cut (kind and length) of an invalid object that begins at k.lead,
// before the first line that can be the next record and cannot be a part of the invalid one. k
// becomes open if more data is needed, and endless if there is no such line within MaxRecord
// bytes.
func (s *Scanner) isolateWarily(k *cut, v view) {
	var l lineState
	known := true
	for i := k.lead; known; i++ {
		if i = l.line(v.data, i); i == len(v.data) {
			break
		}
		if l.goesOn() {
			continue
		}
		var begins bool
		if begins, known = beginsRecord(v.data[i+1:], k.lead); begins {
			k.kind, k.n = unsound, i+1
			return
		}
	}
	switch {
	case v.whole && len(v.data) < s.opt.MaxRecord:
		k.kind, k.n = unsound, len(v.data)
	case v.final:
		k.kind = endless
	default:
		k.kind = open
	}
}

// beginsRecord reports whether line begins with a brace, indented no deeper than indent, as the
// next record does. known is false if more bytes of the line are needed to tell.
func beginsRecord(line []byte, indent int) (begins, known bool) {
	i := blanks(line)
	switch {
	case i > indent:
		return false, true
	case i == len(line):
		return false, false
	}
	return line[i] == '{', true
}

// joinBroken extends k, the cut (kind and length) of an invalid line of JSON, to all lines that
// may belong to one object with that line, so that no part of the object is sent. k becomes open
// if more data is needed. last says that nothing follows data.
func (s *Scanner) joinBroken(k *cut, data []byte, last bool) {
	v := data[:min(len(data), s.opt.MaxRecord)]
	if !k.ended || k.n > len(v) {
		return
	}
	var l lineState
	for i := 0; i < len(v); i++ {
		if i = l.line(v, i); i < len(v) && !l.goesOn() {
			k.n = i + 1
			return
		}
	}
	switch {
	case len(v) == s.opt.MaxRecord:
		s.passWarily(k, data, last)
	case last:
		k.n, k.ended = len(v), v[len(v)-1] == '\n'
	default:
		k.kind = open
	}
}

// passWarily makes k, the cut (kind and length) of a JSON record that is longer than MaxRecord:
// unsound, up to the end of the record, if that is in data; otherwise endless. last says that
// nothing follows data.
func (s *Scanner) passWarily(k *cut, data []byte, last bool) {
	k.kind, k.n = endless, s.opt.MaxRecord
	if n, done := s.skipWarily(data[k.n:], 0, last); done {
		k.kind, k.n = unsound, k.n+n
	}
}

// mostBlank is how much white space is kept to know what comes before it.
const mostBlank = 64 << 10

// skipWarily skips a record that is too long, when no part of a broken object may be sent. n is
// how many bytes of data belong to it; done says that it ends there. If not, the caller comes
// back with the bytes from n on, which begin with the last byte before white space: that byte
// decides whether the record continues.
func (s *Scanner) skipWarily(data []byte, indent int, last bool) (n int, done bool) {
	seen := -1 // the last byte that is no white space
	for i, c := range data {
		switch {
		case !isSpace(c):
			seen = i
			continue
		case c != '\n', seen < 0, isUnended(data[seen]):
			continue
		case s.spec.Ends != AtValue:
			return i + 1, true
		}
		begins, known := beginsRecord(data[i+1:], indent)
		if begins {
			return i + 1, true
		}
		if !known && !last {
			break
		}
	}
	switch {
	case last:
		return len(data), true
	case seen < 0 || len(data)-seen > mostBlank:
		return len(data), false
	}
	return seen, false
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
