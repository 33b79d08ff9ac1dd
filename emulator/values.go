package emulator

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"

	"kusto-agent/emulator/internal/kql"
	"kusto-agent/emulator/internal/mgmt"
)

// maxValue is the longest string (cut) and dynamic value (nulled) of a row.
const maxValue = 1 << 20

var null = json.RawMessage("null")

// shape says how a record becomes the columns of its table. With a nil shape, or one without columns,
// a record is kept as it was sent.
type shape struct {
	columns Columns
	mapping *Mapping
}

// fields splits a delimited record into its fields. In a format without a separator the whole line is
// one field.
func (f *format) fields(raw []byte) []string {
	if f.comma == 0 {
		return []string{string(raw)}
	}
	r := csv.NewReader(bytes.NewReader(raw))
	r.Comma = f.comma
	fields, err := r.Read()
	if err != nil {
		return []string{string(raw)} // cannot happen to a record that was accepted
	}
	return fields
}

// row converts one accepted record to JSON: an object with the table's columns, or without columns the
// object that was sent or an array of the fields.
func (sh *shape) row(f *format, raw []byte) (json.RawMessage, error) {
	if f.kind == mgmt.KindCSV {
		fields := f.fields(raw)
		if sh == nil || sh.columns == nil {
			for i := range fields {
				fields[i] = cut(fields[i])
			}
			return kql.JSON(fields), nil
		}
		return sh.object(func(i int, c Column) json.RawMessage { return sh.fromField(i, c, fields) }), nil
	}
	strict, ok := object(raw)
	if !ok {
		return nil, errors.New("render row: not a JSON object")
	}
	if sh == nil || sh.columns == nil {
		var out bytes.Buffer
		err := json.Compact(&out, strict)
		return out.Bytes(), err
	}
	return sh.object(func(_ int, c Column) json.RawMessage { return sh.fromObject(c, strict) }), nil
}

// object writes a JSON object with the table's columns, whose values the function gives.
func (sh *shape) object(value func(i int, c Column) json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, c := range sh.columns {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(quote(c.Name))
		out.WriteByte(':')
		out.Write(value(i, c))
	}
	out.WriteByte('}')
	return out.Bytes()
}

// source returns the element m of the mapping that fills column c. identity is true when there is no
// mapping: columns then match by name or position. ok is false when the mapping leaves the column
// empty.
func (sh *shape) source(c Column) (m MappingColumn, identity, ok bool) {
	if sh.mapping == nil || len(sh.mapping.Columns) == 0 {
		return m, true, true
	}
	for _, m := range sh.mapping.Columns {
		if m.Column == c.Name {
			return m, false, true
		}
	}
	return m, false, false
}

// fromField returns the value of column c, the i-th of its table, from the fields of a delimited
// record.
func (sh *shape) fromField(i int, c Column, fields []string) json.RawMessage {
	m, identity, ok := sh.source(c)
	if !identity && ok {
		i = *m.Ordinal
	}
	if !ok || i >= len(fields) {
		return convert(c.Type, nil)
	}
	text := fields[i]
	if c.Type == "dynamic" && json.Valid([]byte(text)) {
		return convert(c.Type, json.RawMessage(text))
	}
	if text == "" && c.Type != "string" {
		return null
	}
	return convert(c.Type, quote(text))
}

// fromObject returns the value of column c from a JSON object: the member that the mapping's path
// leads to, or without a mapping the one with the column's name.
func (sh *shape) fromObject(c Column, object json.RawMessage) json.RawMessage {
	m, identity, ok := sh.source(c)
	if !ok {
		return convert(c.Type, nil)
	}
	if identity {
		return convert(c.Type, mgmt.Step{Name: c.Name}.In(object))
	}
	for _, s := range m.Steps {
		object = s.In(object)
	}
	return convert(c.Type, object)
}

// convert converts v, which is nil for a missing value, to the column type typ, as a query reads it
// later. What does not fit becomes null; a missing string becomes "", and a string that is too long is
// cut.
func convert(typ string, v json.RawMessage) json.RawMessage {
	missing := len(v) == 0 || string(v) == "null"
	text, _ := kql.ValueOf("string", v).(string) // nil for a missing value
	switch {
	case typ == "string":
		return quote(cut(text))
	case missing || typ == "dynamic" && len(v) > maxValue, typ == "datetime" && v[0] != '"': // a number is no datetime, not even a year
		return null
	case typ == "dynamic":
		return v
	}
	value := kql.ValueOf(typ, v)
	if value != nil && (typ == "decimal" || typ == "timespan") { // they keep the form in which they were sent
		return quote(strings.TrimSpace(text))
	}
	return kql.Written(value, typ)
}

func quote(s string) json.RawMessage { return kql.JSON(s) }

// cut shortens a string to maxValue bytes, as the service silently does.
func cut(s string) string {
	if len(s) > maxValue {
		return strings.ToValidUTF8(s[:maxValue], "")
	}
	return s
}
