package mgmt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"kusto-agent/emulator/internal/kql"
)

// Run runs a management command and returns its result. rest is the text behind it from the first |
// on, which are operators of a query; empty when there is none.
func (se *Session) Run(text string) (r *Result, rest string, err error) {
	defer kql.Ended(&err)
	c, err := kql.NewCursor(text, true)
	if err != nil {
		return nil, "", err
	}
	if !c.Sign(".") {
		panic(Wrong("BadRequest", "A management command begins with a dot; a query is sent to the query endpoint.").fault())
	}
	for _, verb := range verbs {
		if c.Word(verb.word) {
			r = verb.run(se, c)
			break
		}
	}
	if r == nil {
		panic(c.Fault("the emulator does not know this command"))
	}
	if c.Peek().Kind == kql.TokSign && c.Peek().Text == "|" {
		return r, c.Rest(), nil
	}
	c.End()
	return r, "", nil
}

// verbs are what commands begin with.
var verbs = []struct {
	word string
	run  func(*Session, *kql.Cursor) *Result
}{
	{"show", (*Session).show},
	{"create", (*Session).create},
	{"create-merge", (*Session).create},
	{"create-or-alter", (*Session).create},
	{"alter", (*Session).alter},
	{"alter-merge", (*Session).alter},
	{"drop", (*Session).drop},
	{"delete", (*Session).deletePolicy},
	{"clear", (*Session).clear},
	{"add", (*Session).addPrincipals},
	{"cancel", (*Session).cancel},
}

// verbOf returns, in lower case, the keyword that the cursor has just read.
func verbOf(c *kql.Cursor) string { return strings.ToLower(c.Taken().Text) }

// existing reads the name of a table and returns the name and the table. In an open schema, a table
// that has rows but is not in the schema is returned as an empty one. For an unknown table it panics
// with a kql.Fault, which ends the command with a refusal.
func (se *Session) existing(c *kql.Cursor) (string, *Table) {
	name := c.Name()
	if t := se.TableOf(name); t != nil {
		return name, t
	}
	if se.isOpen() && se.Host.Stored(se.DatabaseName, name) > 0 {
		return name, &Table{}
	}
	panic(Unknown("Table", name).fault())
}

// isOpen reports whether names that the schema does not contain exist too.
func (se *Session) isOpen() bool { return se.Schema == nil || se.Schema.Open }

// show runs .show in all forms that the emulator supports; the cursor stands behind the word show. Any
// other form ends the command with a syntax error (by a panic with a kql.Fault).
func (se *Session) show(c *kql.Cursor) *Result {
	switch {
	case c.Word("databases"):
		return se.showDatabases()
	case c.Word("tables"):
		return se.showTables()
	case c.Word("version"):
		return rowOf("BuildVersion:string, BuildTime:datetime, ServiceType:string, ProductVersion:string",
			"1.0.0.0", time.Now(), "Engine", "KustoEmulator")
	case c.Words("streamingingestion", "failures"):
		return se.Host.Failures(se.DatabaseName, "aadapp="+se.Caller)
	case c.Words("streamingingestion", "statistics"):
		return se.Host.Statistics(se.DatabaseName, "aadapp="+se.Caller)
	case c.Words("ingestion", "failures"):
		// It is empty: it lists failures of queued ingestion, which the emulator does not have.
		return NewResult("OperationId:string, Database:string, Table:string, FailedOn:datetime, IngestionSourcePath:string, Details:string, FailureKind:string, RootActivityId:string, OperationKind:string, OriginatesFromUpdatePolicy:bool, ErrorCode:string, Principal:string, ShouldRetry:bool, User:string, IngestionProperties:string")
	case c.Word("table"):
		name, t := se.existing(c)
		return se.showTable(c, name, t)
	case c.Word("database"):
		return se.showDatabase(c)
	}
	panic(c.Fault("the emulator does not know this command"))
}

// showDatabases lists the databases of the schema, and in an open one those with rows.
func (se *Session) showDatabases() *Result {
	r := NewResult("DatabaseName:string, PersistentStorage:string, Version:string, IsCurrent:bool, DatabaseAccessMode:string, PrettyName:string")
	var names []string
	if se.Schema != nil {
		names = slices.Collect(maps.Keys(se.Schema.Databases))
	}
	if se.isOpen() {
		for _, t := range se.Host.Tables() {
			names = append(names, t.Database)
		}
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		r.Add(n, "", "v1.0", n == se.DatabaseName, "ReadWrite", "")
	}
	return r
}

// tableNames returns the tables of the database, sorted; in an open schema also those that have rows
// only.
func (se *Session) tableNames() []string {
	names := slices.Collect(maps.Keys(se.database().Tables))
	if se.isOpen() {
		for _, t := range se.Host.Tables() {
			if strings.EqualFold(t.Database, se.DatabaseName) {
				names = append(names, t.Table)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// showTables lists the tables of the database.
func (se *Session) showTables() *Result {
	r := NewResult("TableName:string, DatabaseName:string, Folder:string, DocString:string")
	for _, n := range se.tableNames() {
		r.Add(n, se.DatabaseName, "", "")
	}
	return r
}

// showTable runs .show table NAME …: its schema, details, principals, policies or mappings.
func (se *Session) showTable(c *kql.Cursor, name string, t *Table) *Result {
	switch {
	case c.Word("cslschema"):
		return se.schemaRow(name, t.Columns.csl())
	case c.Words("schema", "as", "json"):
		return se.schemaRow(name, string(kql.JSON(t.schemaDocument(name))))
	case c.Word("details"):
		return rowOf("TableName:string, DatabaseName:string, TotalRowCount:long",
			name, se.DatabaseName, se.Host.RowCount(se.DatabaseName, name))
	case c.Word("principals"):
		return principals("Table", t.Ingestors, nil, nil)
	case c.Words("policy", "streamingingestion"):
		return se.tablePolicy(name, t)
	case c.Words("policy", "update"):
		return policyRow("UpdatePolicy", "["+se.DatabaseName+"].["+name+"]", "Table", cmp.Or(t.Update, "null"))
	case c.Word("ingestion"):
		return showMappings(c, se.DatabaseName, name, t)
	}
	panic(c.Fault("the emulator does not know this command"))
}

// schemaRow returns the result that shows a table of the session's database with its schema.
func (se *Session) schemaRow(name, schema string) *Result {
	return rowOf("TableName:string, Schema:string, DatabaseName:string, Folder:string, DocString:string", name, schema, se.DatabaseName, "", "")
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// csl writes columns as name:type, …, as a create command has them. Names with special characters are
// in brackets.
func (cs Columns) csl() string {
	var all []string
	for _, c := range cs {
		name := c.Name
		if !plainName.MatchString(name) {
			name = "['" + name + "']"
		}
		all = append(all, name+":"+c.Type)
	}
	return strings.Join(all, ",")
}

// schemaDocument returns the value that .show table NAME schema as json shows, once it is marshalled:
// the table's name and columns.
func (t *Table) schemaDocument(name string) any {
	columns := []any{}
	for _, c := range t.Columns {
		columns = append(columns, map[string]string{"Name": c.Name, "Type": kql.Dotnet[c.Type], "CslType": c.Type})
	}
	return map[string]any{"Name": name, "OrderedColumns": columns}
}

// principals returns a row for each member of three roles. of is what the roles belong to, Table or
// Database NAME, and precedes their names. A role with a nil list, which everyone has, has no rows.
func principals(of string, ingestors, viewers, admins []string) *Result {
	r := NewResult("Role:string, PrincipalType:string, PrincipalDisplayName:string, PrincipalObjectId:string, PrincipalFQN:string, Notes:string")
	add := func(role string, ids []string) {
		for _, id := range ids {
			r.Add(of+" "+role, "AAD Application", id, id, "aadapp="+id, "")
		}
	}
	add("Ingestor", ingestors)
	add("Viewer", viewers)
	add("Admin", admins)
	return r
}

func (se *Session) tablePolicy(name string, t *Table) *Result {
	return policyRow("StreamingIngestionPolicy", "["+se.DatabaseName+"].["+name+"]", "Table", t.text())
}

func (se *Session) databasePolicy(p streamingPolicy) *Result {
	return policyRow("StreamingIngestionPolicy", "["+se.DatabaseName+"]", "Database", p.text())
}

// text returns the policy as JSON; "null" when there is none.
func (s streamingPolicy) text() string {
	if s.Streaming == nil {
		return "null"
	}
	return string(kql.JSON(policyDocument{s.Streaming, s.rate}))
}

// policyRow returns the result of .show policy: one row. policy is its JSON; entity and kind name what
// it applies to.
func policyRow(name, entity, kind, policy string) *Result {
	return rowOf("PolicyName:string, EntityName:string, Policy:string, ChildEntities:string, EntityType:string",
		name, entity, policy, "[]", kind)
}

// showMappings runs .show table NAME ingestion [KIND] mappings, or mapping "NAME", which is an error
// when it does not exist.
func showMappings(c *kql.Cursor, database, table string, t *Table) *Result {
	kind := ""
	if k := strings.ToLower(c.Peek().Text); c.Peek().Kind == kql.TokWord && k != "mappings" && k != "mapping" {
		kind = c.Next().Text
	}
	r := NewResult("Name:string, Kind:string, Mapping:string, LastUpdatedOn:datetime, Database:string, Table:string")
	wanted := ""
	if c.Word("mapping") {
		wanted = c.Str()
	} else if !c.Word("mappings") {
		panic(c.Fault("want mappings"))
	}
	for _, m := range t.Mappings {
		if (kind == "" || strings.EqualFold(kind, m.Kind)) && (wanted == "" || wanted == m.Name) {
			r.Add(m.Name, m.Kind, string(m.document()), time.Now(), database, table)
		}
	}
	if wanted != "" && len(r.Rows) == 0 {
		panic(Unknown("MappingPersistent", wanted).fault())
	}
	return r
}

// document returns the mapping's columns as the JSON document that the service shows.
func (m *Mapping) document() json.RawMessage {
	all := []any{}
	for _, c := range m.Columns {
		p := map[string]string{}
		switch {
		case c.Ordinal != nil:
			p["Ordinal"] = fmt.Sprint(*c.Ordinal)
		case c.Field != "":
			p["Field"] = c.Field
		default:
			p["Path"] = c.Path
		}
		all = append(all, struct {
			Column     string            `json:"column"`
			Datatype   string            `json:"datatype"`
			Properties map[string]string `json:"Properties"`
		}{c.Column, c.Type, p})
	}
	return kql.JSON(all)
}

// enter switches the session to the database that a command names. It panics with a kql.Fault, which
// ends the command with a refusal, unless the database exists and is readable for the caller.
func (se *Session) enter(name string) {
	if strings.EqualFold(name, se.DatabaseName) {
		return
	}
	if bad := se.Open(name, true); bad != nil {
		panic(bad.fault())
	}
}

// showDatabase runs .show database [NAME] …: its schema, streaming policy or principals. A name
// switches the session to that database, which has to exist and to be readable for the caller.
func (se *Session) showDatabase(c *kql.Cursor) *Result {
	// Anything else than these words is the name of a database, and so is a word in brackets.
	if !slices.Contains([]string{"schema", "policy", "principals", "cslschema"}, strings.ToLower(c.Peek().Text)) || c.Peek().Kind == kql.TokName {
		se.enter(c.Name())
	}
	db := se.database()
	switch {
	case c.Words("schema", "as", "json"):
		tables := make(map[string]any)
		for name, t := range db.Tables {
			tables[name] = t.schemaDocument(name)
		}
		return rowOf("DatabaseSchema:string",
			string(kql.JSON(map[string]any{"Databases": map[string]any{se.DatabaseName: map[string]any{"Name": se.DatabaseName, "Tables": tables}}})))
	case c.Word("schema"):
		r := NewResult("DatabaseName:string, TableName:string, ColumnName:string, ColumnType:string")
		for _, name := range se.tableNames() {
			r.Add(se.DatabaseName, name, "", "")
			for _, col := range cmp.Or(db.Tables[name], &Table{}).Columns {
				r.Add(se.DatabaseName, name, col.Name, kql.Dotnet[col.Type])
			}
		}
		return r
	case c.Words("policy", "streamingingestion"):
		allowed := on(db.Streaming) // a policy that is not set is on, and shown so
		return se.databasePolicy(streamingPolicy{&allowed, db.rate})
	case c.Word("principals"):
		return principals("Database "+se.DatabaseName, db.Ingestors, db.Viewers, db.Admins)
	}
	panic(c.Fault("the emulator does not know this command"))
}

// NodeID is the only node there is.
const NodeID = "KEngine000000"
