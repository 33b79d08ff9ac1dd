package mgmt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"kusto-agent/emulator/internal/kql"
)

// Schema is what a strict server knows; the documentation of package emulator shows its JSON.
// It must not be changed after it was given to a Server.
type Schema struct {
	Streaming *bool `json:"streaming"` // of the cluster; nil: on
	Open      bool  `json:"open"`      // what is not named exists too, as without a schema
	// AnyDatabase has every database exist, empty and without streaming ingestion, until a
	// command makes something there.
	AnyDatabase bool                 `json:"any_database"`
	Databases   map[string]*Database `json:"databases"`

	checked bool
}

// Database is one database of a Schema. Its name is matched in any case.
type Database struct {
	streamingPolicy                   // nil: on
	Ingestors       []string          `json:"ingestors"` // client ids that may write; nil: all
	Viewers         []string          `json:"viewers"`   // that may read; nil: all
	Admins          []string          `json:"admins"`    // that may read and change; nil: all
	Tables          map[string]*Table `json:"tables"`
}

// streamingPolicy says whether streaming ingestion is allowed.
type streamingPolicy struct {
	Streaming *bool `json:"streaming"`

	rate *float64 // HintAllocatedRate, which is shown and changes nothing
}

// Table is one table; its policy and its ingestors, where it has them, stand
// instead of its database's.
type Table struct {
	streamingPolicy
	Ingestors []string  `json:"ingestors"`
	Columns   Columns   `json:"columns"` // nil: rows are kept as they were sent
	Mappings  []Mapping `json:"mappings"`

	// Update is the update policy, a JSON list in text as commands give and show
	// it; it is not run. Empty: none.
	Update string `json:"update"`
}

// Columns are written as in a create command: "ts:datetime, level:string".
type Columns []Column

// Column has the name and the scalar type of a column.
type Column = kql.Column

// Mapping names what goes into which column; without columns it is the identity.
type Mapping struct {
	Name    string          `json:"name"`
	Kind    string          `json:"kind"` // Csv, Json or Avro
	Columns []MappingColumn `json:"columns"`
}

// MappingColumn fills one column: from a path of a JSON object, from a field or
// a path of an Avro record, or from the field at an ordinal, counted from 0, of
// a delimited record.
type MappingColumn struct {
	Column  string `json:"column"`
	Type    string `json:"type"` // as a command gave it; empty: that of the column
	Path    string `json:"path"`
	Field   string `json:"field"` // Avro only
	Ordinal *int   `json:"ordinal"`

	Steps []Step // of Path or Field
}

// The kinds of mappings; each format looks names up among its own kind only.
const (
	KindCSV  = "Csv"
	KindJSON = "Json"
	KindAvro = "Avro"
)

// kindOf returns the canonical spelling of a kind of mapping; "" when there is none.
func kindOf(text string) string {
	for _, kind := range []string{KindCSV, KindJSON, KindAvro} {
		if strings.EqualFold(kind, text) {
			return kind
		}
	}
	return ""
}

// LoadSchema reads a schema from JSON and checks it. Unknown keys, types and columns are errors, and
// so is text behind the JSON value.
func LoadSchema(r io.Reader) (*Schema, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	s := new(Schema)
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("read schema: %w", plainJSON(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read schema: more than one JSON value")
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("check schema: %w", err)
	}
	return s, nil
}

// plainJSON returns err, of decoding JSON, in words that name no type of Go.
func plainJSON(err error) error {
	var form *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); {
	case unknown:
		return fmt.Errorf("unknown key %s; docs/emulator.md has the keys", name)
	case errors.Is(err, io.EOF):
		return errors.New("it is empty; want a JSON object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends before it is complete")
	case errors.As(err, &form):
		return fmt.Errorf("no JSON at byte %d: %w", form.Offset, err)
	case errors.As(err, &kind):
		return fmt.Errorf("key %q, at byte %d: it cannot be a JSON %s; docs/emulator.md has an example", kind.Field, kind.Offset, kind.Value)
	}
	return err
}

// Check validates the schema and fills in the Steps of its mappings. It does so once; nil is valid.
func (s *Schema) Check() error {
	if s == nil || s.checked {
		return nil
	}
	names := make(map[string]string)
	for name, db := range s.Databases {
		if other, ok := names[strings.ToLower(name)]; ok {
			return fmt.Errorf("databases %q and %q have one name: case does not count", name, other)
		}
		names[strings.ToLower(name)] = name
		if !kql.ValidName(name) || db == nil {
			return fmt.Errorf("database %q: empty, or not a valid name", name)
		}
		for table, t := range db.Tables {
			if !kql.ValidName(table) || t == nil {
				return fmt.Errorf("table %q.%q: empty, or not a valid name", name, table)
			}
			if err := t.check(); err != nil {
				return fmt.Errorf("table %q.%q: %w", name, table, err)
			}
		}
	}
	s.checked = true
	return nil
}

// check validates the columns and mappings of a table and fills in the Steps of the mappings.
func (t *Table) check() error {
	columns := make(map[string]bool)
	for _, c := range t.Columns {
		if columns[c.Name] {
			return fmt.Errorf("column %q is there twice", c.Name)
		}
		columns[c.Name] = true
	}
	for i := range t.Mappings {
		m := &t.Mappings[i]
		if err := m.check(columns); err != nil {
			return fmt.Errorf("mapping %q: %w", m.Name, err)
		}
		if t.Mapping(m.Kind, m.Name) != m { // one before it has the same kind and name
			return fmt.Errorf("mapping %q of kind %s is there twice", m.Name, m.Kind)
		}
	}
	return nil
}

// check validates the mapping for a table with these columns, sets Kind to its canonical spelling, and
// fills in the Steps of its columns.
func (m *Mapping) check(columns map[string]bool) error {
	kind := kindOf(m.Kind)
	if m.Kind = kind; kind == "" || m.Name == "" {
		return errors.New("want a name and a kind: Csv, Json or Avro")
	}
	for i := range m.Columns {
		c := &m.Columns[i]
		var err error
		switch {
		case !columns[c.Column]:
			return fmt.Errorf("the table has no column %q", c.Column)
		case kind == KindCSV && (c.Ordinal == nil || *c.Ordinal < 0 || c.Path != "" || c.Field != ""):
			return fmt.Errorf("column %q: want an ordinal and no path", c.Column)
		case kind != KindCSV && c.Ordinal != nil:
			return fmt.Errorf("column %q: want a path and no ordinal", c.Column)
		case c.Field != "" && (kind != KindAvro || c.Path != ""):
			return fmt.Errorf("column %q: want a path and no field; in Avro either", c.Column)
		case c.Field != "":
			c.Steps = []Step{{Name: c.Field}}
		case kind != KindCSV:
			c.Steps, err = parsePath(c.Path)
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", c.Column, err)
		}
	}
	return nil
}

// UnmarshalText reads "name:type, name:type"; a name may be written ['a name'].
func (cs *Columns) UnmarshalText(text []byte) error {
	*cs = Columns{}
	for part := range strings.SplitSeq(string(text), ",") {
		i := strings.LastIndexByte(part, ':')
		if i < 0 {
			return fmt.Errorf("column %q: want name:type", strings.TrimSpace(part))
		}
		name := strings.TrimSpace(part[:i])
		if inner, ok := strings.CutPrefix(name, "['"); ok {
			name = strings.TrimSuffix(inner, "']")
		}
		typ, ok := kql.Types[strings.TrimSpace(part[i+1:])]
		if !ok || !kql.ValidName(name) {
			return fmt.Errorf("column %q: unknown type or invalid name", strings.TrimSpace(part))
		}
		*cs = append(*cs, Column{Name: name, Type: typ})
	}
	return nil
}

// on reports whether a policy is on; nil, which means not set, is on.
func on(policy *bool) bool { return policy == nil || *policy }

// IsStreaming reports whether streaming ingestion is on for the cluster.
func (s *Schema) IsStreaming() bool { return s == nil || on(s.Streaming) }

// Database finds a database regardless of case and returns its name as the schema spells it; nil when
// there is none. With AnyDatabase every other valid name is an empty database without streaming
// ingestion.
func (s *Schema) Database(name string) (string, *Database) {
	for n, db := range s.Databases {
		if strings.EqualFold(n, name) {
			return n, db
		}
	}
	if s.AnyDatabase && kql.ValidName(name) {
		off := false
		return name, &Database{streamingPolicy: streamingPolicy{Streaming: &off}}
	}
	return "", nil
}

// IsStreaming reports whether streaming ingestion is on for the table, by its own policy or else that
// of its database.
func (t *Table) IsStreaming(db *Database) bool {
	if t.Streaming != nil {
		return *t.Streaming
	}
	return on(db.Streaming)
}

// IngestorsIn returns the client ids that may write to the table: its own list, or else that of its
// database db. Nil means everyone.
func (t *Table) IngestorsIn(db *Database) []string {
	if t.Ingestors != nil {
		return t.Ingestors
	}
	return db.Ingestors
}

// Mapping returns the mapping of this kind and name, both in exact case; nil when there is none.
func (t *Table) Mapping(kind, name string) *Mapping {
	for i := range t.Mappings {
		if m := &t.Mappings[i]; m.Kind == kind && m.Name == name {
			return m
		}
	}
	return nil
}

// Catalog holds the versions of the schema. Ingestion sees a new one only from a set time on, because
// the streaming nodes of the service see a change when their cache expires.
type Catalog struct {
	mu       sync.Mutex
	versions []version // by the time they are seen; never empty
}

type version struct {
	seen   time.Time
	schema *Schema
}

// Set adds a schema as the newest version; ingestion sees it from the time seen on. Nil makes every
// name exist.
func (c *Catalog) Set(s *Schema, seen time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions = append(c.versions, version{seen, s})
}

// Current returns the newest schema that ingestion sees by now, and forgets the versions before it.
// Nil means that all names exist.
func (c *Catalog) Current() *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for len(c.versions) > 1 && !c.versions[1].seen.After(now) {
		c.versions = c.versions[1:]
	}
	return c.versions[0].schema
}

// latest returns the newest schema, whether or not ingestion sees it.
func (c *Catalog) latest() *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.versions[len(c.versions)-1].schema
}

// change adds a version: a copy of the newest schema, changed by f, which ingestion sees after delay.
// If f panics, or the result is invalid, which makes change panic with a kql.Fault, nothing is added.
func (c *Catalog) change(delay time.Duration, f func(*Schema)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.versions[len(c.versions)-1].schema.clone()
	f(s)
	if err := s.Check(); err != nil {
		panic(Wrong("BadRequest", err.Error()).fault())
	}
	c.versions = append(c.versions, version{time.Now().Add(delay), s})
}

// Clear makes ingestion see the newest version at once.
func (c *Catalog) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions = c.versions[len(c.versions)-1:]
}
