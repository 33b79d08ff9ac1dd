package format

import (
	"bytes"
	"encoding/json"

	"kusto-agent/internal/jsontext"
)

// SetStamp says what the places of fields stand for in what is scanned next.
// Its Offset is that of each record.
func (s *Scanner) SetStamp(stamp Stamp) { s.stamp = stamp }

// Splice appends to dst the JSON record rec, of which nothing changes, with the fields added
// before the brace that ends its object. A field that the record has itself, at its top level and
// in the same letter case, is left out: the record's own value stays. If rec is no object, it is
// appended as it is. s has the values of placeholders such as {offset}.
func (f *Fields) Splice(dst, rec []byte, s *Stamp) []byte {
	own, end, empty := f.survey(rec)
	if end < 0 {
		return append(dst, rec...)
	}
	dst = append(dst, rec[:end]...)
	for i := range f.all {
		if own>>i&1 != 0 { // the record has this field itself
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		dst, empty = f.all[i].append(dst, s), false
	}
	return append(dst, rec[end:]...)
}

// append writes the field as a member of an object: the name, the colon and the value, in which
// the placeholders are replaced by the values of s.
func (f *field) append(dst []byte, s *Stamp) []byte {
	dst = append(dst, f.key...)
	if !f.number {
		dst = append(dst, '"')
	}
	for _, p := range f.parts {
		if p.place == nil {
			dst = append(dst, p.text...)
		} else {
			dst = p.place(dst, s)
		}
	}
	if !f.number {
		dst = append(dst, '"')
	}
	return dst
}

// survey goes through the JSON object rec. Bit i of own says that rec has field i itself, at its
// top level; end is the index of the brace that ends the object; empty says that it has no
// member. end is -1 if rec is no object. Comments and single quotes are allowed, as in the
// service.
func (f *Fields) survey(rec []byte) (own uint64, end int, empty bool) {
	depth, name := 0, false // name: the next string is the name of a member at the top level
	empty = true
	for i := 0; i < len(rec); {
		switch c := rec[i]; c {
		case '"', '\'':
			to := textEnd(rec, i)
			if to < 0 || depth == 0 {
				return 0, -1, false
			}
			if name {
				own |= f.named(rec[i:to])
				name, empty = false, false
			}
			i = to
			continue
		case '/':
			i = max(jsontext.CommentEnd(rec, i), i+1)
			continue
		case '{', '[':
			if depth == 0 && c == '[' {
				return 0, -1, false
			}
			depth++
			name = depth == 1
		case '}', ']':
			if depth--; depth == 0 && c == '}' {
				return own, i, empty
			}
			if depth <= 0 {
				return 0, -1, false
			}
		case ',':
			name = depth == 1
		case ' ', '\t', '\r', '\n':
		default:
			if depth == 0 {
				return 0, -1, false
			}
		}
		i++
	}
	return 0, -1, false
}

// textEnd returns the index after the string, in double or single quotes, at i; -1: it is not
// closed or not valid.
func textEnd(b []byte, i int) int {
	if b[i] == '"' {
		end, _ := stringEnd(b, i+1)
		return max(end, -1)
	}
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '\'':
			return i + 1
		}
	}
	return -1
}

// named returns the bit of the field whose name is quoted, a JSON string with its quotes; 0: no
// field has this name.
func (f *Fields) named(quoted []byte) uint64 {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = unquote(quoted)
	}
	for i := range f.all {
		if f.all[i].name == string(name) {
			return 1 << i
		}
	}
	return 0
}

// unquote returns the text that quoted, a JSON string in single or double quotes, stands for;
// nil: the string is not valid.
func unquote(quoted []byte) []byte {
	b := bytes.Clone(quoted)
	if b[0] == '\'' {
		requote(b, 0)
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return nil
	}
	return []byte(s)
}
