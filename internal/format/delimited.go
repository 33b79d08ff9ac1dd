package format

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Delimited formats: a record ends at the first newline outside quotes, as in
// RFC 4180. A quote opens a quoted field only as its first byte; within, two
// quotes stand for one; behind the closing quote only a delimiter or a line
// end may follow. A CR that is not part of a line end is data. TSV, SCsv,
// SOHsv and PSV quote like CSV: how the service reads quotes there is not
// documented, and this reading never cuts a record that another would not.
//
// A record whose quotes make no sense is rejected from its start to its first
// newline only, and reading starts again behind it: a stray quote costs its
// own line and never swallows the next ones. This is decided by the first
// MaxRecord bytes of the record alone, so that it does not depend on how much
// of the file was read at once. Validate also rejects a quote within an
// unquoted field, and Scan keeps records of different field counts apart.

// row extends k, which has the first line of data, to the whole record, whose quoted fields may
// hold newlines, and counts its fields. It makes k open if more data is needed, and unsound, with
// the reason in s.fault, if the quotes are wrong or the record is too long. last says that
// nothing follows data.
func (s *Scanner) row(k *cut, data []byte, last bool) {
	line := data[:k.n]
	if line[0] != '"' && bytes.IndexByte(line, '"') < 0 {
		if s.opt.Validate {
			k.fields, s.step = 1+bytes.Count(line, s.sep), leastStep
		}
		return
	}
	if s.step > 0 || !s.opt.Validate { // soundRun has not refused it
		s.rows.begin(0, k.n)
		if n, fields, beyond := s.rows.row(data, 0, s.sep[0]); n > 0 && n <= s.opt.MaxRecord {
			k.n, k.ended, k.fields, k.ascii = n, true, fields, !beyond
			return
		}
	}
	full := len(data) >= s.opt.MaxRecord
	r := walkRow(data[:min(len(data), s.opt.MaxRecord)], s.sep)
	k.fields = r.fields
	switch {
	case r.end == rowBroken:
		k.kind, s.fault = unsound, unexpected(r.at, "behind a closing quote")
	case r.end == rowWhole:
		k.n, k.ended = r.n, true
		s.stray(k, r)
	case !full && !last:
		k.kind = open
	case r.end == rowQuoted && full:
		k.kind, s.fault = unsound, malformed(r.at, "the quote that opens here is not closed within max_record_size")
	case r.end == rowQuoted:
		k.kind, s.fault = unsound, malformed(r.at, "the quote that opens here is never closed")
	case full:
		k.kind, s.fault = unsound, s.tooLong("over several lines and longer than")
	default:
		k.n, k.ended = len(data), false
		s.stray(k, r)
	}
	if n := torn(data[:k.n]); n > 0 && k.kind == sound {
		*k = cut{kind: unsound, ended: true, n: firstLine(data)}
		s.fault = malformed(n, "NUL bytes that a crash left")
	}
}

// stray marks k as flawed, with the reason in s.fault, if walkRow has seen a quote inside a field
// that does not begin with one (r.stray). Such a quote does not affect where the record ends; it
// is an error only if records are checked.
func (s *Scanner) stray(k *cut, r walked) {
	if s.step = leastStep; r.stray {
		s.step, k.flawed, s.fault = 0, true, unexpected(r.at, "in a field that does not begin with a quote")
	}
}

// rowEnd is how a walk through a record ended.
type rowEnd uint8

const (
	rowOpen   rowEnd = iota // at the end of the data, outside quotes or where a second quote could follow
	rowQuoted               // at the end of the data, within quotes
	rowWhole                // behind the line end of the record
	rowBroken               // at something that may not follow a closing quote
)

// walked is what a walk through a record saw.
type walked struct {
	end    rowEnd
	stray  bool // a quote within an unquoted field
	fields int
	n      int // length of a whole record
	at     int // of the opening quote, of what broke the record, or of the first stray quote
}

// walkRow goes through the record that data begins with, and counts its fields. The result says
// how the walk ended: at the end of the record, at the end of data (within quotes or not), or at
// a byte that may not follow a closing quote.
func walkRow(data, sep []byte) walked {
	r := walked{fields: 1}
	eol := -1 // index of the end of the line in which i is
	for i := 0; ; {
		if i < len(data) && data[i] == '"' { // a field begins at i
			if i = r.quoted(data, i, sep[0]); i < 0 {
				return r
			}
			if i+1 < len(data) && data[i+1] == '"' {
				r.fields++
				i++
				continue
			}
		}
		if i > eol {
			eol = lineEnd(data, i)
		}
		q := bytes.IndexByte(data[i:eol], '"')
		if q < 0 {
			r.fields += bytes.Count(data[i:eol], sep)
			if eol < len(data) {
				r.end, r.n = rowWhole, eol+1
			}
			return r
		}
		r.fields += bytes.Count(data[i:i+q], sep)
		if i += q; data[i-1] == sep[0] {
			continue
		}
		if !r.stray {
			r.stray, r.at = true, i
		}
		if d := bytes.IndexByte(data[i:eol], sep[0]); d >= 0 {
			i += d
		} else {
			i = eol
		}
	}
}

// quoted walks over the quoted field that begins at i, and returns the index of the delimiter
// after it. It returns -1 if the record ends there or is broken, or data ends; r.end says which.
func (r *walked) quoted(data []byte, i int, delimiter byte) int {
	opens := i
	if i = closingQuote(data, i+1); i < 0 {
		r.end, r.at = rowQuoted, opens
		return -1
	}
	if i < len(data) && data[i] == '\r' && (i+1 == len(data) || data[i+1] == '\n') {
		i++
	}
	switch {
	case i == len(data):
		return -1
	case data[i] == delimiter:
		return i
	case data[i] == '\n':
		r.end, r.n = rowWhole, i+1
	default:
		r.end, r.at = rowBroken, i
	}
	return -1
}

// lineEnd returns the index of the first newline from i on, or len(data).
func lineEnd(data []byte, i int) int {
	if n := bytes.IndexByte(data[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(data)
}

// closingQuote returns the index after the quote that closes the field whose content begins at i;
// -1: it is not closed. Two quotes within the field stand for one. The function compares eight
// bytes at a time, which for short fields is faster than a call of a wider search.
func closingQuote(data []byte, i int) int {
	for {
		for ; i+8 <= len(data); i += 8 {
			w := binary.LittleEndian.Uint64(data[i:]) ^ '"'*everyByte
			if hit := (w - everyByte) &^ w & eighthBits; hit != 0 {
				i += bits.TrailingZeros64(hit) / 8
				break
			}
		}
		for i < len(data) && data[i] != '"' {
			i++
		}
		if i == len(data) {
			return -1
		}
		if i++; i == len(data) || data[i] != '"' {
			return i
		}
		i++
	}
}
