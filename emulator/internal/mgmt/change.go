package mgmt

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"kusto-agent/emulator/internal/kql"
)

// change adds a new version of the schema in which f has changed the session's database, created if it
// is new. The session, commands and queries use it at once, ingestion after se.Delay. If f panics
// (with a kql.Fault, which ends the command with a refusal), there is no new version.
func (se *Session) change(f func(db *Database)) {
	se.Catalog.change(se.Delay, func(s *Schema) {
		name, db := s.Database(se.DatabaseName)
		if db == nil {
			if !kql.ValidName(se.DatabaseName) {
				panic(Unknown("Database", se.DatabaseName).fault())
			}
			name, db = se.DatabaseName, &Database{}
		}
		s.Databases[name] = db
		if db.Tables == nil {
			db.Tables = make(map[string]*Table)
		}
		f(db)
	})
	se.Schema = se.Catalog.latest()
	se.DatabaseName, se.db = se.Schema.Database(se.DatabaseName)
}

// changeTable adds a new version of the schema in which f has changed the table name, as change does.
// For an unknown table it panics with a kql.Fault, which ends the command with a refusal.
func (se *Session) changeTable(name string, f func(db *Database, t *Table)) {
	se.change(func(db *Database) {
		t := db.Tables[name]
		if t == nil {
			panic(Unknown("Table", name).fault())
		}
		f(db, t)
	})
}

// create runs .create, .create-merge and .create-or-alter, of a table or a mapping. A table that
// exists stays as it is; with .create-merge it gets the columns that it lacks. The result has a row
// with the table's schema.
func (se *Session) create(c *kql.Cursor) *Result {
	verb := verbOf(c)
	if !c.Word("table") {
		panic(c.Fault("the emulator creates tables and their mappings"))
	}
	name := c.Name()
	if c.Word("ingestion") {
		return se.putMapping(c, verb, name)
	}
	se.mayChange("TableCreate", nil)
	columns := readColumns(c)
	se.change(func(db *Database) {
		t := db.Tables[name]
		switch { // in all other cases the table exists and stays as it is
		case t == nil:
			db.Tables[name] = &Table{Columns: columns}
		case verb == "create-merge":
			t.merge(columns)
		}
	})
	return se.schemaRow(name, string(kql.JSON(se.TableOf(name).schemaDocument(name))))
}

// readColumns reads the columns of a table, (name:type, …), with their brackets. An unknown type ends
// the command with an error.
func readColumns(c *kql.Cursor) Columns {
	c.Want("(")
	all := Columns{}
	c.List(")", func() { all = append(all, c.Column()) })
	return all
}

// merge appends the columns that the table lacks. If the table has one of them with another type,
// merge panics with a kql.Fault, which ends the command with a refusal.
func (t *Table) merge(columns Columns) {
	for _, c := range columns {
		i := slices.IndexFunc(t.Columns, func(old Column) bool { return old.Name == c.Name })
		switch {
		case i < 0:
			t.Columns = append(t.Columns, c)
		case t.Columns[i].Type != c.Type:
			panic(Wrong("BadRequest_ColumnTypeMismatch", fmt.Sprintf("Column '%s' has type %s, and cannot become %s.", c.Name, t.Columns[i].Type, c.Type)).fault())
		}
	}
}

// putMapping reads KIND mapping "NAME" 'DOCUMENT' and adds or replaces the mapping of the table. With
// the verb create it must be new, with alter it must exist.
func (se *Session) putMapping(c *kql.Cursor, verb, table string) *Result {
	kind := c.Next().Text
	if !c.Word("mapping") {
		panic(c.Fault("want mapping"))
	}
	name := c.Str()
	text := c.Str()
	t := se.TableOf(table)
	if t == nil {
		panic(Unknown("Table", table).fault())
	}
	se.mayChange("TableMappingCreate", t.IngestorsIn(se.db))
	m, err := readMapping(kind, name, text)
	if err != nil {
		panic(Wrong("BadRequest_InvalidMapping", err.Error()).fault())
	}
	var made *Mapping
	se.changeTable(table, func(_ *Database, t *Table) {
		old := t.Mapping(m.Kind, name)
		switch {
		case old != nil && verb == "create":
			panic(Wrong("BadRequest_EntityAlreadyExists", fmt.Sprintf("Mapping '%s' of kind %s already exists.", name, m.Kind)).fault())
		case old == nil && verb == "alter":
			panic(Unknown("MappingPersistent", name).fault())
		case old != nil:
			*old = m
		default:
			t.Mappings = append(t.Mappings, m)
		}
		if err := t.check(); err != nil {
			panic(Wrong("BadRequest_InvalidMapping", err.Error()).fault())
		}
		made = t.Mapping(m.Kind, name)
	})
	return rowOf("Name:string, Kind:string, Mapping:string, LastUpdatedOn:datetime, Database:string, Table:string",
		name, made.Kind, string(made.document()), time.Now(), se.DatabaseName, table)
}

// mappingElement is one column of the JSON document of a mapping, in the present form (Properties) and
// in the older flat one. Its keys may be in any case.
type mappingElement struct {
	Column     string
	Name       string // of old CSV mappings
	Datatype   string
	DataType   string
	Path       string
	Field      string
	Ordinal    json.RawMessage
	Properties struct {
		Path, Field string
		Ordinal     json.RawMessage
		ConstValue  json.RawMessage
		Transform   string
	}
}

// readMapping returns the mapping of this kind and name that the JSON document text defines. A column
// that is mapped twice is an error.
func readMapping(kind, name, text string) (Mapping, error) {
	m := Mapping{Name: name, Kind: kindOf(kind)}
	if m.Kind == "" {
		return m, fmt.Errorf("mapping kind '%s' is not supported", kind)
	}
	var elements []mappingElement
	if err := json.Unmarshal([]byte(text), &elements); err != nil {
		return m, fmt.Errorf("the mapping is not a JSON list of columns: %w", err)
	}
	if len(elements) == 0 {
		return m, errors.New("the mapping has no columns")
	}
	seen := make(map[string]bool)
	for _, e := range elements {
		c, err := e.read()
		if err != nil {
			return m, fmt.Errorf("column '%s': %w", c.Column, err)
		}
		if seen[c.Column] {
			return m, fmt.Errorf("column '%s' is mapped twice", c.Column)
		}
		seen[c.Column] = true
		m.Columns = append(m.Columns, c)
	}
	return m, nil
}

// read converts the element, in either form, to a column of a mapping. ConstValue and Transform are
// errors, because the emulator does not support them.
func (e mappingElement) read() (c MappingColumn, err error) {
	c = MappingColumn{Column: cmp.Or(e.Column, e.Name), Type: cmp.Or(e.Datatype, e.DataType), Path: cmp.Or(e.Properties.Path, e.Path), Field: cmp.Or(e.Properties.Field, e.Field)}
	ordinal := cmp.Or(string(e.Properties.Ordinal), string(e.Ordinal))
	if len(e.Properties.ConstValue) > 0 || e.Properties.Transform != "" {
		return c, errors.New("ConstValue and Transform are not supported by the emulator")
	}
	if text := strings.Trim(ordinal, `"`); text != "" && text != "null" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return c, fmt.Errorf("ordinal %s is no number", ordinal)
		}
		c.Ordinal = &n
	}
	return c, nil
}

// alter runs .alter and .alter-merge of a mapping and of the streaming ingestion policy of a table or
// a database, which may be another one than that of the request. The result is the mapping or the policy after the change.
func (se *Session) alter(c *kql.Cursor) *Result {
	verb := verbOf(c)
	if c.Words("table") {
		name, _ := se.existing(c)
		if c.Word("ingestion") {
			return se.putMapping(c, verb, name)
		}
		p := se.policy(c)
		se.changeTable(name, func(_ *Database, t *Table) { t.put(p, verb) })
		return se.tablePolicy(name, se.TableOf(name))
	}
	if c.Word("database") {
		se.enter(c.Name())
		p := se.policy(c)
		se.change(func(db *Database) {
			held := on(db.Streaming) // a policy that is not set is on
			db.Streaming = &held
			db.put(p, verb)
		})
		return se.databasePolicy(se.db.streamingPolicy)
	}
	panic(c.Fault("the emulator does not know this command"))
}

// policyDocument is the JSON of a streaming ingestion policy. A nil field is not given.
type policyDocument struct {
	IsEnabled         *bool
	HintAllocatedRate *float64
}

// policy checks that the caller may change the streaming ingestion policy and reads policy
// streamingingestion with enable, disable or a JSON document. It returns nil for the document null,
// which removes the policy.
func (se *Session) policy(c *kql.Cursor) *policyDocument {
	if !c.Words("policy", "streamingingestion") {
		panic(c.Fault("want policy streamingingestion"))
	}
	se.mayChange("AlterStreamingIngestionPolicy", nil)
	yes, no := true, false
	switch {
	case c.Word("enable"):
		return &policyDocument{IsEnabled: &yes}
	case c.Word("disable"):
		return &policyDocument{IsEnabled: &no}
	}
	text := c.Str()
	var p *policyDocument
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(Wrong("BadRequest_InvalidPolicy", "The policy is not a JSON object: "+err.Error()).fault())
	}
	return p
}

// put replaces the policy by p. With the verb alter-merge, fields that p does not give keep their
// values, so a nil p changes nothing. Otherwise a nil p removes the policy. A missing IsEnabled is
// false, unless alter-merge keeps an older value.
func (s *streamingPolicy) put(p *policyDocument, verb string) {
	merge := verb == "alter-merge"
	if p == nil {
		p = &policyDocument{}
	} else if p.IsEnabled == nil && (!merge || s.Streaming == nil) {
		p.IsEnabled = new(bool)
	}
	if merge {
		p.IsEnabled, p.HintAllocatedRate = cmp.Or(p.IsEnabled, s.Streaming), cmp.Or(p.HintAllocatedRate, s.rate)
	}
	s.Streaming, s.rate = p.IsEnabled, p.HintAllocatedRate
}

// deletePolicy runs .delete table or database NAME policy streamingingestion. The result is the row of
// the policy, which is null now. The database may be another one than that of the request.
func (se *Session) deletePolicy(c *kql.Cursor) *Result {
	table := c.Word("table")
	if !table && !c.Word("database") {
		panic(c.Fault("want table or database"))
	}
	name := c.Name()
	if !table {
		se.enter(name)
	}
	se.mayChange("AlterStreamingIngestionPolicy", nil)
	if !c.Words("policy", "streamingingestion") {
		panic(c.Fault("want policy streamingingestion"))
	}
	if table {
		se.changeTable(name, func(_ *Database, t *Table) { t.streamingPolicy = streamingPolicy{} })
		return se.tablePolicy(name, &Table{})
	}
	se.change(func(db *Database) { db.streamingPolicy = streamingPolicy{} })
	return se.databasePolicy(streamingPolicy{})
}

// drop runs .drop table NAME [ifexists], which also removes the table's rows, and .drop table NAME
// ingestion KIND mapping. The result is the list of tables that are left. A table that the schema does
// not have is an error, except with ifexists.
func (se *Session) drop(c *kql.Cursor) *Result {
	if !c.Word("table") {
		panic(c.Fault("the emulator drops tables and their mappings"))
	}
	name := c.Name()
	se.mayChange("TableDrop", nil)
	if c.Word("ingestion") {
		kind := c.Next().Text
		if !c.Word("mapping") {
			panic(c.Fault("want mapping"))
		}
		mapping := c.Str()
		se.changeTable(name, func(_ *Database, t *Table) {
			n := len(t.Mappings)
			t.Mappings = slices.DeleteFunc(t.Mappings, func(m Mapping) bool { return strings.EqualFold(m.Kind, kind) && m.Name == mapping })
			if len(t.Mappings) == n {
				panic(Unknown("MappingPersistent", mapping).fault())
			}
		})
		return se.showTables()
	}
	if se.TableOf(name) == nil && !c.Word("ifexists") {
		panic(Unknown("Table", name).fault())
	}
	c.Word("ifexists")
	se.change(func(db *Database) { delete(db.Tables, name) })
	se.Host.Drop(se.DatabaseName, name)
	return se.showTables()
}

// clear runs .clear of the streaming schema cache, after which ingestion uses the newest schema, and
// of the data of a table.
func (se *Session) clear(c *kql.Cursor) *Result {
	switch {
	case c.Words("database", "cache", "streamingingestion", "schema"):
		se.mayChange("ClearCache", se.database().Ingestors)
		se.Catalog.Clear()
	case c.Word("table"):
		name, t := se.existing(c)
		if c.Word("data") {
			se.mayChange("TableClear", nil)
			se.Host.Drop(se.DatabaseName, name)
			break
		}
		if !c.Words("cache", "streamingingestion", "schema") {
			panic(c.Fault("the emulator does not know this command"))
		}
		se.mayChange("ClearCache", t.IngestorsIn(se.database()))
		se.Catalog.Clear()
	default:
		panic(c.Fault("the emulator does not know this command"))
	}
	return rowOf("NodeId:string, Status:string", NodeID, "Succeeded")
}

// addPrincipals runs .add table or database NAME ROLE ('aadapp=…', …). A role with a nil list, which
// everyone has, stays so. The result lists the principals. The database may be another one than that of
// the request.
func (se *Session) addPrincipals(c *kql.Cursor) *Result {
	of := strings.ToLower(c.Next().Text)
	name := c.Name()
	if of == "database" {
		se.enter(name)
	}
	se.mayChange("AddPrincipal", nil)
	role := strings.ToLower(c.Next().Text)
	c.Want("(")
	var ids []string
	c.List(")", func() {
		fqn := c.Str()
		id, ok := strings.CutPrefix(fqn, "aadapp=")
		if !ok {
			panic(Wrong("BadRequest_InvalidPrincipal", fmt.Sprintf("Principal '%s' is not of the form aadapp=<client id>;<tenant>.", fqn)).fault())
		}
		id, _, _ = strings.Cut(id, ";")
		ids = append(ids, id)
	})
	if c.Peek().Kind == kql.TokText {
		c.Next() // a note on the new principals, which is ignored
	}
	grant := func(list *[]string) {
		for _, id := range ids {
			if *list != nil && !slices.Contains(*list, id) {
				*list = append(slices.Clone(*list), id)
			}
		}
	}
	switch {
	case of == "table" && role == "ingestors":
		se.changeTable(name, func(db *Database, t *Table) {
			if t.Ingestors == nil { // the database's list held for it, and an own list will replace that
				t.Ingestors = slices.Clone(db.Ingestors)
			}
			grant(&t.Ingestors)
		})
		return principals("Table", se.TableOf(name).Ingestors, nil, nil)
	case of == "database" && slices.Contains([]string{"ingestors", "viewers", "users", "admins"}, role):
		se.change(func(db *Database) {
			grant(map[string]*[]string{"ingestors": &db.Ingestors, "admins": &db.Admins, "viewers": &db.Viewers, "users": &db.Viewers}[role])
		})
		return principals("Database "+se.DatabaseName, se.db.Ingestors, se.db.Viewers, se.db.Admins)
	}
	panic(c.Fault("the emulator does not know this role"))
}

// cancel runs .cancel query 'ID', where ID is the client request id. The result says whether such a
// query was under way.
func (se *Session) cancel(c *kql.Cursor) *Result {
	if !c.Word("query") {
		panic(c.Fault("want query"))
	}
	id := c.Str()
	return rowOf("QueryId:string, CancelRequested:bool",
		id, se.Host.Cancel(id))
}

// clone returns a copy of the schema that commands can change without changing s. The copy of nil,
// which knows no names and accepts all, is an empty open schema.
func (s *Schema) clone() *Schema {
	if s == nil {
		return &Schema{Open: true, Databases: make(map[string]*Database)}
	}
	out := &Schema{Streaming: s.Streaming, Open: s.Open, AnyDatabase: s.AnyDatabase, Databases: make(map[string]*Database)}
	for name, db := range s.Databases {
		d := *db
		d.Tables = maps.Clone(db.Tables)
		for n, t := range d.Tables {
			own := *t
			own.Columns, own.Mappings = slices.Clone(t.Columns), slices.Clone(t.Mappings)
			for i := range own.Mappings {
				own.Mappings[i].Columns = slices.Clone(own.Mappings[i].Columns)
			}
			d.Tables[n] = &own
		}
		out.Databases[name] = &d
	}
	return out
}
