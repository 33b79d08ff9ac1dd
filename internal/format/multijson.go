package format

import "bytes"

// MultiJSON: a record is a JSON object, which may span lines. Objects follow
// one another with or without white space, or are the elements of arrays at
// top level; square brackets, commas, NULs and white space between objects are
// filler, in any order, so that reading can begin behind any object. They are
// filtered. Each object is sent as its bytes are, and a newline; a newline or
// CRLF directly behind an object is its line end and part of the record. How
// the service takes an array of arrays, or scalars in one, is not documented:
// each object found is a record, and anything else is rejected.
//
// An object that is not sound is rejected from its first byte, indentation
// included, to whichever comes first:
//
//   - the brace that closes it, so that neighbours on the same line are kept;
//   - the next line that is indented no deeper than the object and begins with
//     a brace or bracket, if need be behind a comma, or behind the brace that
//     closes another and a comma: that is where a neighbour begins in the layouts
//     that programs write, so that a missing brace or quote costs its own object
//     only. (Of an object that is not the first of its line only the blanks
//     directly before it count.)
//
// Of what is no object a scalar or a lone closing brace is rejected by itself,
// anything else to the end of its line. All this is decided by MaxRecord bytes
// from the start of the record: one that needs more is too long, and goes on
// to the next line as above, see SkipLong. A scanner that is wary takes more for
// a part of what it rejects, see wary.go.

// maxIndent is the deepest indentation that is told from a deeper one.
const maxIndent = 32

// view is the data of which a record may consist: MaxRecord bytes at most.
type view struct {
	data  []byte
	whole bool // nothing follows
	final bool // nothing follows that could belong to the record
}

// nextValue returns the cut (kind and length) of the next record of MultiJSON at the beginning of
// data, or of the separators before it. Objects become records; anything else where an object
// must begin is rejected. last says that nothing follows data.
func (s *Scanner) nextValue(data []byte, last bool) cut {
	v := view{data: data[:min(len(data), s.opt.MaxRecord)]}
	v.whole = last && len(v.data) == len(data)
	v.final = v.whole || len(v.data) == s.opt.MaxRecord
	k := s.filler(v)
	if k.kind != sound {
		return k
	}
	if v.data[k.lead] == '{' {
		s.object(&k, v)
	} else {
		s.stranger(&k, v)
	}
	if (k.kind == unsound || k.kind == endless) && !s.wary {
		bad := v.data
		if k.kind == unsound {
			bad = bad[:k.n]
		}
		if n := torn(bad); n > 0 {
			s.fault = malformed(n, "NUL bytes that a crash left")
			return cut{kind: unsound, lead: k.lead, n: n}
		}
	}
	if k.kind == endless { // its end may be in the data behind MaxRecord
		k.n = len(v.data)
		if n, done := s.skipLong(data[len(v.data):], k.lead, last); done {
			k.kind, k.n = unsound, k.n+n
		}
	}
	return k
}

// filler returns the cut (kind and length) of the separators at the beginning of the data: white
// space, commas, brackets, NUL bytes. The indentation of the record after them is not included.
// If there are no separators, the cut has that indentation as lead.
func (s *Scanner) filler(v view) cut {
	n := 0
	for n < len(v.data) && isFiller(v.data[n]) {
		n++
	}
	lead := 0
	for most := min(maxIndent, s.opt.MaxRecord/2); lead < min(n, most) && isBlank(v.data[n-1-lead]); {
		lead++
	}
	switch {
	case n == len(v.data) && v.whole:
		return cut{kind: filler, n: n}
	case n > lead:
		return cut{kind: filler, n: n - lead}
	case n == len(v.data):
		return cut{kind: open}
	}
	return cut{lead: lead}
}

// soundValue sets the length of k, the cut of the record that begins at at in data, and what else it
// says of its ends, if the record is sound; 0: nothing is known. beyond says that there may be
// bytes above 127. The separators before the record must have been passed, but for its
// indentation.
func (s *Scanner) soundValue(k *cut, data []byte, at int) (beyond bool) {
	k.n, k.lead, k.cr = 0, 0, 0
	for most := min(maxIndent, s.opt.MaxRecord/2, len(data)-at-1); k.lead < most && isBlank(data[at+k.lead]); {
		k.lead++
	}
	n, beyond := s.soundObject(data, at+k.lead)
	if n > 0 {
		k.n = k.lead + n
		k.ended = data[at+k.n-1] == '\n'
		if k.ended && data[at+k.n-2] == '\r' {
			k.cr = 2
		}
	}
	return beyond
}

// isFiller reports whether a byte can stand between the records of MultiJSON.
func isFiller(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', '[', ']', ',', 0:
		return true
	}
	return false
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// object finds the end of the JSON object after the indentation (k.lead), and checks the object.
// An invalid one is rejected up to where the next can begin. v.final says that no more data can
// belong to the record, v.whole that the file ends.
func (s *Scanner) object(k *cut, v view) {
	b := v.data[k.lead:]
	end, unicode, f := strictObject(b, 0)
	loose := leniencyAt(b, f.at) && f.text != ""
	if loose { // a comment or a single quote, which the service accepts
		end, f = s.looseObject(b)
		unicode = eighthBits
	}
	switch {
	case f.text == "":
		k.ascii = unicode&eighthBits == 0
		if !loose && end+quickRoom <= quickMost { // the next ones may be sound too
			s.step = max(s.step, leastStep)
		}
		s.lineEnd(k, v, k.lead+end)
	case f.at < len(b) || v.whole && len(v.data) < s.opt.MaxRecord: // the fault is not for lack of data
		f.at += k.lead
		if s.fault = f; s.wary {
			s.isolateWarily(k, v)
		} else {
			s.isolate(k, v)
		}
	case v.final:
		s.endless(k)
	default:
		k.kind = open
	}
}

// endless notes a record that is longer than one may be.
func (s *Scanner) endless(k *cut) { k.kind, s.fault = endless, s.tooLong("longer than") }

// lineEnd ends k, the cut of a record, after a value that ends at index n of the data, and
// includes a newline or CRLF that follows directly. k becomes open if more data is needed to see
// that, and endless if the record is too long.
func (s *Scanner) lineEnd(k *cut, v view, n int) {
	rest := v.data[n:]
	switch {
	case bytes.HasPrefix(rest, []byte("\n")):
		k.n, k.ended = n+1, true
	case bytes.HasPrefix(rest, []byte("\r\n")):
		k.n, k.ended, k.cr = n+2, true, 2 // a CRLF of two bytes, which becomes a newline
	case n == s.opt.MaxRecord:
		s.endless(k)
	case !v.final && (len(rest) == 0 || len(rest) == 1 && rest[0] == '\r'):
		k.kind = open
	default:
		k.n = n
	}
}

// isolate finds where an invalid object ends, and sets k to be rejected up to there: to the brace
// that closes it, or before the first line that can begin another record. k becomes open if more
// data is needed, and endless if the object is too long.
func (s *Scanner) isolate(k *cut, v view) {
	k.kind = unsound
	for i, depth := k.lead, 0; i < len(v.data); i++ {
		switch v.data[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				s.lineEnd(k, v, i+1)
				return
			}
		case '"', '\'':
			i = skipQuoted(v.data, i)
			if i < len(v.data) && v.data[i] == '\n' { // a string that is not closed in its line
				s.isolateByLine(k, v, i)
				return
			}
		case '\n':
			if n, known := recordLine(v.data[i+1:], k.lead); n >= 0 || !known {
				s.isolateByLine(k, v, i)
				return
			}
		}
	}
	s.isolateByLine(k, v, len(v.data))
}

// isolateByLine ends the cut k before the first line after index i that can begin a record. k
// becomes open if more data is needed to find it, and endless if there is none within MaxRecord
// bytes.
func (s *Scanner) isolateByLine(k *cut, v view, i int) {
	n, done := skipToRecord(v.data[i:], k.lead, v.whole)
	switch {
	case done && (i+n < len(v.data) || len(v.data) < s.opt.MaxRecord):
		k.n = i + n
	case v.final:
		k.kind = endless
	default:
		k.kind = open
	}
}

// skipQuoted returns the index of the quote, single or double, that ends the string at i. If the
// string is not closed in its line, it returns the index of the newline, or len(b).
func skipQuoted(b []byte, i int) int {
	quote := b[i]
	for i++; i < len(b) && b[i] != quote && b[i] != '\n'; i++ {
		if b[i] == '\\' && i+1 < len(b) && b[i+1] != '\n' {
			i++
		}
	}
	return i
}

// stranger rejects what stands where an object must begin: a scalar or a closing brace by itself,
// anything else to the end of its line. It sets kind and length of the cut k, and s.fault.
// v.final says that no more data can belong to the record.
func (s *Scanner) stranger(k *cut, v view) {
	k.kind = unsound
	s.fault = unexpected(k.lead, "where an object must begin")
	if s.wary {
		s.isolateWarily(k, v)
		return
	}
	end := strangerEnd(v.data, k.lead)
	switch {
	case end == len(v.data) && !v.final:
		k.kind = open
	case end > 0 && (end == len(v.data) || isFiller(v.data[end])):
		s.lineEnd(k, v, end)
	default:
		s.strangeLine(k, v)
	}
}

// strangerEnd returns the index after the scalar or closing brace at i. It returns len(b) if that
// may continue after b, and 0 if there is neither a scalar nor a closing brace.
func strangerEnd(b []byte, i int) int {
	end := i + 1
	switch b[i] {
	case '}':
		return end
	case '"':
		end, _ = stringEnd(b, end)
	default:
		end = scalarEnd(b, i)
	}
	if end == ^len(b) {
		return len(b)
	}
	return max(end, 0)
}

// strangeLine sets the length of a rejected line, which begins with something other than an
// object: up to its newline, or to the end of the file. If its end is not in the data, k becomes
// open, or endless from MaxRecord bytes on.
func (s *Scanner) strangeLine(k *cut, v view) {
	n := bytes.IndexByte(v.data, '\n') + 1
	switch {
	case n > 0:
		k.n = n
	case len(v.data) == s.opt.MaxRecord:
		s.endless(k)
	case v.whole:
		k.n = len(v.data)
	default:
		k.kind = open
	}
}

// skipToRecord returns the length of the data before the first line in it that can be the
// beginning of a record: one with a brace or bracket, indented no deeper than indent. The line at
// the beginning of data does not count. If done is false, there is no such line in the first n
// bytes. last says that nothing follows data.
func skipToRecord(data []byte, indent int, last bool) (n int, done bool) {
	for {
		i := bytes.IndexByte(data[n:], '\n')
		if i < 0 {
			return len(data), last
		}
		n += i
		before, known := recordLine(data[n+1:], indent)
		switch {
		case before >= 0:
			return n + 1 + before, true
		case !known && !last:
			return n, false
		}
		n++
	}
}

// recordLine returns the length of what precedes a record in a line; -1: no record begins in the
// line. A record begins with a brace or bracket, indented no deeper than indent; before it there
// may be a comma, or the brace that closes the previous record and a comma. known is false if
// more bytes of the line are needed to tell.
func recordLine(line []byte, indent int) (before int, known bool) {
	i := blanks(line)
	switch {
	case i > indent:
		return -1, true
	case i == len(line):
		return -1, false
	case line[i] == '}':
		before = i + 1
		if i = before + blanks(line[before:]); i < len(line) && line[i] != ',' {
			return -1, true
		}
		fallthrough
	case line[i] == ',':
		if i < len(line) {
			i++
			i += blanks(line[i:])
		}
	}
	switch {
	case i == len(line):
		return -1, false
	case line[i] != '{' && line[i] != '[':
		return -1, true
	}
	return before, true
}

// blanks is how many b begins with.
func blanks(b []byte) int { return len(b) - len(bytes.TrimLeft(b, " \t")) }

// objectLine returns the length of the first record of a body that Scan made of MultiJSON: an
// object and its newline.
func (s *Scanner) objectLine(body []byte) int {
	end, _, f := strictObject(body, 0)
	if f.text != "" {
		end, f = s.looseObject(body)
	}
	if f.text != "" || end == len(body) {
		return firstLine(body)
	}
	return end + 1
}
