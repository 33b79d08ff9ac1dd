package format

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// MaxFields is the most fields that can be added to a record.
const MaxFields = 64

// Fields are members to be added to JSON records, by splicing bytes: nothing of
// the record is decoded or written anew. They are safe for concurrent use.
type Fields struct {
	all   []field
	batch bool
}

type field struct {
	name   string
	key    []byte // as a member is written, the colon included
	parts  []part
	number bool // not in quotes
}

// part is text, in the form it has within a JSON string, or a place.
type part struct {
	text  []byte
	name  string                            // of the place
	place func(dst []byte, s *Stamp) []byte // nil: the text
}

// Stamp is what the places of fields stand for.
type Stamp struct {
	Host, Path, Input string
	File              record.FileID
	Generation        uint32
	Dated             int64 // ns since 1970: the date of the file, by which a year is found; 0: it has none
	Offset            int64 // of the first byte of the record
	Batch             record.BatchID
}

// places are the names that may stand in braces, and how each is written.
var places = map[string]func(dst []byte, s *Stamp) []byte{
	"host":       func(dst []byte, s *Stamp) []byte { return appendText(dst, s.Host) },
	"path":       func(dst []byte, s *Stamp) []byte { return appendText(dst, s.Path) },
	"file":       func(dst []byte, s *Stamp) []byte { return appendFile(dst, s.File) },
	"generation": func(dst []byte, s *Stamp) []byte { return strconv.AppendUint(dst, uint64(s.Generation), 10) },
	"offset":     func(dst []byte, s *Stamp) []byte { return strconv.AppendInt(dst, s.Offset, 10) },
	"input":      func(dst []byte, s *Stamp) []byte { return appendText(dst, s.Input) },
	"batch":      func(dst []byte, s *Stamp) []byte { return appendBatch(dst, s.Batch) },
	"namespace":  func(dst []byte, s *Stamp) []byte { return appendText(dst, podOf(s.Path).namespace) },
	"pod":        func(dst []byte, s *Stamp) []byte { return appendText(dst, podOf(s.Path).name) },
	"pod_uid":    func(dst []byte, s *Stamp) []byte { return appendText(dst, podOf(s.Path).uid) },
	"container":  func(dst []byte, s *Stamp) []byte { return appendText(dst, podOf(s.Path).container) },
}

// NewFields parses the values of fields: text with placeholders such as {host}, and {{ for
// a literal brace. A value that is only {offset} or {generation} becomes a number, all
// others become strings. Fields are added in the order of their names. The error joins all
// mistakes; that of one field is a *units.KeyError.
func NewFields(values map[string]string) (*Fields, error) {
	if len(values) > MaxFields {
		return nil, fmt.Errorf("%d fields: at most %d can be added", len(values), MaxFields)
	}
	f := &Fields{}
	var bad []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		parts, err := partsOf(value)
		if err == nil && !utf8.ValidString(name) {
			err = errors.New("its name is not UTF-8")
		}
		if err != nil {
			bad = append(bad, units.Bad(name, "%v", err))
		}
		f.all = append(f.all, field{
			name:   name,
			key:    append(appendText([]byte{'"'}, name), `":`...),
			parts:  parts,
			number: value == "{offset}" || value == "{generation}",
		})
		f.batch = f.batch || slices.ContainsFunc(parts, func(p part) bool { return p.name == "batch" })
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return f, nil
}

// HasBatch reports whether the id of the batch is in a field.
func (f *Fields) HasBatch() bool { return f != nil && f.batch }

// partsOf splits the value of a field, such as "{host}:{path}", into texts and placeholders. A
// literal brace is written {{. It fails if a placeholder is not closed or not known.
func partsOf(value string) (parts []part, err error) {
	var text []byte
	for value != "" {
		before, rest, found := strings.Cut(value, "{")
		text = appendText(text, before)
		if !found {
			break
		}
		if value, found = strings.CutPrefix(rest, "{"); found {
			text = append(text, '{')
			continue
		}
		name, after, found := strings.Cut(rest, "}")
		switch {
		case !found:
			return nil, errors.New("a brace is not closed; want {{ for a brace")
		case places[name] == nil:
			return nil, fmt.Errorf("{%s} is not known; want one of {%s}, or {{ for a brace",
				name, strings.Join(slices.Sorted(maps.Keys(places)), "} {"))
		}
		if len(text) > 0 {
			parts = append(parts, part{text: text})
		}
		parts, text, value = append(parts, part{name: name, place: places[name]}), nil, after
	}
	if len(text) > 0 {
		parts = append(parts, part{text: text})
	}
	return parts, nil
}

// appendText appends s as it is within a JSON string. What is not UTF-8, as
// paths can be, becomes the replacement character.
func appendText(dst []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

func appendFile(dst []byte, id record.FileID) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return hex.AppendEncode(dst, b[:])
}

// appendBatch writes the usual form of a UUID.
func appendBatch(dst []byte, id record.BatchID) []byte {
	for i, end := range []int{4, 6, 8, 10, 16} {
		from := 0
		if i > 0 {
			dst = append(dst, '-')
			from = 2 + 2*i
		}
		dst = hex.AppendEncode(dst, id[from:end])
	}
	return dst
}
