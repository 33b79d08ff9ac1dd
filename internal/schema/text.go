package schema

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// addJSONLines adds to the sample the objects of a text with one JSON object a line, from at most
// that many bytes (most) and records. Other lines are ignored.
func (s *Sample) addJSONLines(text []byte, most, records int) {
	for line := range s.lines(text, most, records) {
		if s.object(line) && s.First == nil {
			s.First = bytes.Clone(line)
		}
	}
}

// lines iterates over the first lines of a text, up to that many bytes (most) and records. If the
// sample has no record yet, it goes on beyond most until it has one.
func (s *Sample) lines(text []byte, most, records int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		n := 0
		for line := range bytes.Lines(text) {
			n += len(line)
			if records--; records < 0 || n > most && s.Records > 0 || !yield(line) {
				return
			}
		}
	}
}

// addJSONValues adds to the sample the objects of a text that holds JSON objects one after another,
// or arrays of them. It stops after most bytes or that many records, or at invalid JSON.
func (s *Sample) addJSONValues(text []byte, most, records int) {
	dec := json.NewDecoder(bytes.NewReader(text))
	for records > 0 {
		var value json.RawMessage
		if dec.Decode(&value) != nil || dec.InputOffset() > int64(most) && s.Records > 0 {
			return
		}
		objects := []json.RawMessage{value}
		if value[0] == '[' && json.Unmarshal(value, &objects) != nil {
			return
		}
		for _, o := range objects {
			if records--; s.object(o) && s.First == nil {
				s.First = append(bytes.Clone(o), '\n')
			}
		}
	}
}

// object adds the members of one JSON object to the sample and counts a record. For any other text
// it does nothing and returns false.
func (s *Sample) object(text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') || !json.Valid(text) {
		return false
	}
	s.Records++
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if text, isText := name.(string); err == nil && isText {
			s.see(text, s.ofMember(value)).value(valueOf(value))
		}
	}
	return true
}

// ofMember returns the column type of a valid JSON value; "" for null. If s.Texts is set, as for
// logfmt, a string that holds a number or true or false has that type.
func (s *Sample) ofMember(raw []byte) Type {
	var text string
	if !s.Texts || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return ofJSON(raw)
	}
	if t := ofCell(text); t != Dynamic {
		return t
	}
	return String
}

// addLines adds lines of plain text to the sample, from at most that many bytes (most) and records.
// Each line is a record with one string, the field Line.
func (s *Sample) addLines(text []byte, most, records int) {
	if s.fields == nil {
		s.fields = []Field{{Name: "Line", Type: String}}
	}
	for line := range s.lines(text, most, records) {
		if s.Records++; s.First == nil {
			s.First = bytes.Clone(line)
		}
	}
}

// addDelimited adds rows of delimited text (RFC 4180) to the sample, from at most that many bytes
// (most) and records. With s.Header set, the first row gives the names of the fields.
func (s *Sample) addDelimited(text []byte, comma rune, most, records int) {
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes = comma, -1, true
	for first := true; records > 0; records-- {
		from := r.InputOffset()
		row, err := r.Read()
		if err != nil || r.InputOffset() > int64(most) && s.Records > 0 {
			return
		}
		if first && s.Header {
			first = false
			s.names(row)
			continue
		}
		if s.Records++; s.First == nil {
			s.First = bytes.Clone(bytes.TrimLeft(text[from:r.InputOffset()], "\r\n"))
		}
		for i, cell := range row {
			s.cell(i, ofCell(cell)).value(cell)
		}
	}
}

// names takes the names of the fields from a header row. The header of the first text counts; a
// different one is only counted in s.Others.
func (s *Sample) names(row []string) {
	if s.header != nil {
		if !slices.Equal(s.header, row) {
			s.Others++
		}
		return
	}
	s.header = row
	for i := range row {
		s.cell(i, "")
	}
}

// cell widens the type of field number i (from 0), so that it also holds values of type t, and
// returns the field. A field is named by the header, else Column1 and so on. A mix of JSON and
// other text is a string, since a dynamic column does not hold text without quotes.
func (s *Sample) cell(i int, t Type) *Field {
	for n := len(s.fields); n <= i; n++ {
		f := Field{Name: "Column" + strconv.Itoa(n+1), Ordinal: n}
		if n < len(s.header) {
			if name := strings.TrimSpace(s.header[n]); name != "" {
				f.Name, f.Named = name, true
			}
		}
		s.fields = append(s.fields, f)
	}
	f := &s.fields[i]
	if m := Merged(f.Type, t); m == Dynamic && f.Type != "" && t != "" && f.Type != t {
		f.Type = String
	} else {
		f.Type = m
	}
	return f
}
