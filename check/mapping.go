package check

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// element is one column of a mapping.
type element struct {
	column    string
	kind      string   // the type; empty: that of the column
	path      []string // members from the root; of JSON and Avro
	whole     bool     // the path ends in, or is, more than members can tell
	ordinal   int      // of delimited formats; -1: none
	given     bool     // by a constant, or by where the record came from
	transform string
}

// parseMapping reads the document of a mapping, in the present form and in the flat
// ones that came before it. Keys are matched in any case.
func parseMapping(document string) (all []element, err error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(document), &list); err != nil {
		return nil, fmt.Errorf("read mapping: %w", err)
	}
	for _, raw := range list {
		values := make(map[string]string)
		flat(raw, values)
		e := element{column: values["column"], kind: values["datatype"], ordinal: -1, transform: values["transform"]}
		if e.column == "" {
			e.column = values["name"]
		}
		switch {
		case values["constvalue"] != "" || strings.HasPrefix(e.transform, "Source"):
			e.given = true
		case values["ordinal"] != "":
			if e.ordinal, err = strconv.Atoi(values["ordinal"]); err != nil {
				return nil, fmt.Errorf("column %s: ordinal %q is no number", e.column, values["ordinal"])
			}
		case values["field"] != "":
			e.path = []string{values["field"]}
		default:
			e.path, e.whole = members(values["path"])
		}
		all = append(all, e)
	}
	return all, nil
}

// flat gathers keys and texts, of what is inside Properties too.
func flat(raw map[string]json.RawMessage, into map[string]string) {
	for key, value := range raw {
		var text string
		var inner map[string]json.RawMessage
		switch key = strings.ToLower(key); {
		case key == "properties":
			if json.Unmarshal(value, &inner) == nil {
				flat(inner, into)
			}
		case string(value) == "null":
		case json.Unmarshal(value, &text) == nil:
			if text != "" {
				into[key] = text
			}
		default:
			into[key] = string(value)
		}
	}
}

// members are the names of a path: $.a.b and $['a b']. Behind an index or anything
// else the path stands for the whole of what it has come to.
func members(path string) (names []string, whole bool) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil, true
	}
	for rest != "" {
		var name string
		switch {
		case strings.HasPrefix(rest, "['"), strings.HasPrefix(rest, `["`):
			end := strings.Index(rest[2:], rest[1:2]+"]")
			if end < 0 {
				return names, true
			}
			name, rest = rest[2:2+end], rest[2+end+2:]
		case rest[0] == '.':
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			name, rest = rest[1:1+end], rest[1+end:]
		}
		if name == "" {
			return names, true
		}
		names = append(names, name)
	}
	return names, len(names) == 0
}

// identity is what holds without a mapping: members go by their names, fields by
// their places.
func identity(columns []field, kind string) (all []element) {
	for i, c := range columns {
		e := element{column: c.Name, ordinal: -1}
		if kind == "Csv" {
			e.ordinal = i
		} else {
			e.path = []string{c.Name}
		}
		all = append(all, e)
	}
	return all
}

// tree is what of an object a mapping takes.
type tree struct {
	whole bool
	below map[string]*tree
}

func treeOf(all []element) *tree {
	root := new(tree)
	for _, e := range all {
		if e.given {
			continue
		}
		t := root
		for _, name := range e.path {
			if t.below == nil {
				t.below = make(map[string]*tree)
			}
			if t.below[name] == nil {
				t.below[name] = new(tree)
			}
			t = t.below[name]
		}
		t.whole = true
	}
	return root
}
