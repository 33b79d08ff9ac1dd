package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// Table is a table of the service as it is, and then as plans make it.
type Table struct {
	Exists   bool
	Similar  string   // where it does not exist: one whose name differs in letter case alone
	Others   []string // where it does not exist: the tables there are
	Columns  []Column
	Mappings []Mapping // its own; those of its database only if that of a route is none of its own

	ColumnsErr, MappingsErr, PolicyErr error // why they could not be read

	own, inherited Policy             // of streaming ingestion: the table's, and where that is unset its database's
	inherits       bool               // the mappings of its database were read
	made           bool               // by a plan
	seen           map[string][]Field // what all routes of a mapping have for it
}

// Column is a column of a table.
type Column struct {
	Name string
	Type string `json:"CslType"`
}

// Column returns the column with this name; nil if there is none.
func (t *Table) Column(name string) *Column {
	if i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name }); i >= 0 {
		return &t.Columns[i]
	}
	return nil
}

// Mapping says which part of a record goes to which column.
type Mapping struct {
	Kind       string
	Name       string
	Elements   []Element
	OfDatabase bool  // and not of the table
	Err        error // it was not understood

	made bool // by a plan
}

// Mapping returns the mapping that a route names, for the kind of its format; nil if there is none.
// A mapping of the table comes before one of the database.
func (t *Table) Mapping(of record.Route) *Mapping {
	for i := range t.Mappings {
		if m := &t.Mappings[i]; m.Name == of.Mapping && strings.EqualFold(m.Kind, Kind(of.Format)) {
			return m
		}
	}
	return nil
}

// Kind is that of the mappings of a format, in the service's word for it.
func Kind(f record.Format) string {
	spec, _ := format.Of(f)
	return spec.Mapping
}

// Elements returns the elements of the mapping of a route; each says what one column is filled
// from. For a route without a mapping they are what the service does then: fields go to columns by
// position, members by name. If the mapping is missing there are none.
func (t *Table) Elements(of record.Route) (all []Element) {
	if of.Mapping == "" {
		for i, c := range t.Columns {
			e, _ := elementOf(Kind(of.Format), Field{Name: c.Name, Ordinal: i}, c.Name, c.Type)
			all = append(all, e)
		}
	} else if m := t.Mapping(of); m != nil {
		all = m.Elements
	}
	return all
}

// Policy is what a policy of streaming ingestion says.
type Policy uint8

// The policies: Unset leaves it to the policy above, and where there is none above
// nothing streams, but in Fabric.
const (
	Unset Policy = iota
	Off
	On
)

// UnmarshalJSON reads the document of a streaming ingestion policy; null means Unset. In its older
// form, without IsEnabled, the existence of the policy enables streaming.
func (p *Policy) UnmarshalJSON(text []byte) error {
	var doc *struct{ IsEnabled *bool }
	err := json.Unmarshal(text, &doc)
	switch {
	case err != nil || doc == nil:
		*p = Unset
	case doc.IsEnabled == nil || *doc.IsEnabled:
		*p = On
	default:
		*p = Off
	}
	return err
}

// Streaming returns the streaming ingestion policy that applies to the table. own is true if it is
// that of the table itself, which comes before that of the database.
func (t *Table) Streaming() (p Policy, own bool) {
	if t.own != Unset {
		return t.own, true
	}
	return t.inherited, false
}
