package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"kusto-agent/internal/schema"
)

// element is what a mapping has for one column: as it is written now, and as it is
// read in any of the forms the service shows.
type element struct {
	Column     string            `json:"column"`
	Datatype   string            `json:"datatype,omitempty"`
	Properties map[string]string `json:"Properties"`
}

// properties of an element, by their names in lower case.
var properties = map[string]string{"path": "Path", "field": "Field", "ordinal": "Ordinal", "constvalue": "ConstValue", "transform": "Transform"}

// UnmarshalJSON reads the present form, and the flat ones that came before it: of
// JSON {"column","path","datatype","transform"}, of CSV {"Name","DataType","Ordinal"}.
func (e *element) UnmarshalJSON(text []byte) error {
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
	return nil
}

func (e *element) property(name string, value json.RawMessage) {
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

// plainText is a JSON string without its quotes, null as nothing, all else as it is.
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

// from says where a column comes from, for people.
func (e *element) from() string {
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

// isConstant says that the element reads no field.
func (e *element) isConstant() bool {
	return e.Properties["Path"]+e.Properties["Field"]+e.Properties["Ordinal"] == ""
}

var pathBegin = regexp.MustCompile(`^\$(?:\.([^.\[]+)|\['([^']*)'\]|\["([^"]*)"\])`)

// takes reports whether the element reads a field, or something within it.
func (e *element) takes(f schema.Field) bool {
	if ordinal, ok := e.Properties["Ordinal"]; ok {
		return ordinal == strconv.Itoa(f.Ordinal)
	}
	if name, ok := e.Properties["Field"]; ok {
		return name == f.Name
	}
	path, ok := e.Properties["Path"]
	if !ok {
		return false
	}
	m := pathBegin.FindStringSubmatch(path)
	return path == "$" || m != nil && m[1]+m[2]+m[3] == f.Name
}

// elementOf maps a field to a column; false where no path can name it.
func elementOf(kind string, f schema.Field, column, datatype string) (element, bool) {
	e := element{Column: column, Datatype: datatype}
	if kind == "csv" {
		e.Properties = map[string]string{"Ordinal": strconv.Itoa(f.Ordinal)}
		return e, true
	}
	path, ok := schema.Path(f.Name)
	e.Properties = map[string]string{"Path": path}
	return e, ok
}

// mappingText is a mapping as a command takes it.
func mappingText(all []element) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(all); err != nil {
		return "", fmt.Errorf("write a mapping: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}
