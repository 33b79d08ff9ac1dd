package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Element is what a mapping has for one column: as it is written now, and as it is
// read in any of the forms the service shows.
type Element struct {
	Column     string            `json:"column"`
	Datatype   string            `json:"datatype,omitempty"` // empty: that of the column
	Properties map[string]string `json:"Properties"`
}

// properties of an element, by their names in lower case.
var properties = map[string]string{"path": "Path", "field": "Field", "ordinal": "Ordinal", "constvalue": "ConstValue", "transform": "Transform"}

// UnmarshalJSON reads one column of a mapping in the current form, or in the flat forms before it:
// for JSON {"column","path","datatype","transform"}, for CSV {"Name","DataType","Ordinal"}.
func (e *Element) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return fmt.Errorf("read a column of a mapping: %w", err)
	}
	e.Properties = make(map[string]string)
	for name, value := range raw {
		switch name = strings.ToLower(name); name {
		case "column", "name":
			e.Column = plainText(value)
		case "datatype":
			e.Datatype = plainText(value)
		case "properties":
			var inner map[string]json.RawMessage
			if err := json.Unmarshal(value, &inner); err != nil {
				return fmt.Errorf("read the properties of a column of a mapping: %w", err)
			}
			for name, value := range inner {
				e.property(name, value)
			}
		default:
			e.property(name, value)
		}
	}
	if n, given := e.Properties["Ordinal"]; given {
		if _, err := strconv.Atoi(n); err != nil {
			return fmt.Errorf("column %s: ordinal %q is no number", e.Column, n)
		}
	}
	return nil
}

// property sets a property of the element under the spelling that Kusto documents, whatever the
// letter case of name. Empty values, the transformation None and the old csvDataType are left out.
func (e *Element) property(name string, value json.RawMessage) {
	text := plainText(value)
	if proper, known := properties[strings.ToLower(name)]; known {
		name = proper
	} else if strings.EqualFold(name, "csvdatatype") {
		return
	}
	if text != "" && (name != "Transform" || text != "None") {
		e.Properties[name] = text
	}
}

// plainText returns the content of a JSON string, "" for null, and the JSON itself for any other
// value.
func plainText(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	if text == nil {
		return ""
	}
	return *text
}

// from returns in words what the column is filled from: a path, "ordinal 3", "constvalue x" and so
// on; "nothing" if the mapping does not say it.
func (e *Element) from() string {
	for _, name := range []string{"Path", "Field", "Ordinal", "ConstValue", "Transform"} {
		if v, ok := e.Properties[name]; ok {
			if name == "Path" || name == "Field" {
				return v
			}
			return strings.ToLower(name) + " " + v
		}
	}
	return "nothing"
}

// source is the part of a record that an element reads.
type source struct {
	ordinal int      // of delimited formats; -1: it reads a member
	path    []string // members from the root
	whole   bool     // the path says more than members can, and stands for all that they lead to
}

// source returns the part of a record that the element reads: a field by position, or a member by
// path. It returns false if the element reads none: a constant, the line or file of the record, or
// nothing.
func (e *Element) source() (source, bool) {
	p := e.Properties
	switch {
	case p["ConstValue"] != "" || strings.HasPrefix(p["Transform"], "Source"):
		return source{ordinal: -1}, false
	case p["Ordinal"] != "":
		n, err := strconv.Atoi(p["Ordinal"])
		return source{ordinal: n}, err == nil
	case p["Field"] != "":
		return source{ordinal: -1, path: []string{p["Field"]}}, true
	case p["Path"] != "":
		names, whole := members(p["Path"])
		return source{-1, names, whole}, true
	}
	return source{ordinal: -1}, false
}

// takes reports whether the element reads a field of the records, or something inside it. An
// element that reads the whole record takes every field.
func (e *Element) takes(f Field) bool {
	s, reads := e.source()
	if !reads || s.ordinal >= 0 {
		return reads && s.ordinal == f.Ordinal
	}
	return len(s.path) == 0 || s.path[0] == f.Name
}

// isInner reports whether the element reads something other than one whole member.
func (e *Element) isInner() bool {
	s, reads := e.source()
	return reads && s.ordinal < 0 && (s.whole || len(s.path) > 1)
}

// members returns the member names in the path of a mapping, such as a and b in $.a.b. whole is
// true if the path names no member, or goes on with something else such as an index. The element
// then counts as reading all that the names lead to.
func members(path string) (names []string, whole bool) {
	rest, ok := strings.CutPrefix(path, "$")
	for ok && rest != "" {
		m := member.FindStringSubmatch(rest)
		if ok = m != nil; ok {
			names, rest = append(names, m[1]+m[2]+m[3]), rest[len(m[0]):]
		}
	}
	return names, !ok || len(names) == 0
}

var member = regexp.MustCompile(`^(?:\.([^.\[]+)|\['([^']*)'\]|\["([^"]*)"\])`)

// elementOf returns the mapping element that maps a field to a column, by position for kind Csv and
// by path for others. It returns false if no path can name the field.
func elementOf(kind string, f Field, column, datatype string) (Element, bool) {
	e := Element{Column: column, Datatype: datatype}
	if kind == "Csv" {
		e.Properties = map[string]string{"Ordinal": strconv.Itoa(f.Ordinal)}
		return e, true
	}
	path, ok := Path(f.Name)
	e.Properties = map[string]string{"Path": path}
	return e, ok
}

// mappingText returns the elements of a mapping as JSON, for the command that creates the mapping.
// The characters <, > and & are not escaped.
func mappingText(all []Element) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(all); err != nil {
		return "", fmt.Errorf("write a mapping: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}
