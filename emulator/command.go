package emulator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"kusto-agent/emulator/internal/kql"
)

// command is one management command, and what may follow it behind a pipe.
func (se *session) command(text string) {
	r, err := se.runCommand(text)
	var bad *refusal
	switch {
	case errors.As(err, &bad):
		se.refuse(bad)
	case err != nil:
		se.refuse(queryRefusal(err))
	default:
		se.answerMgmt(r)
	}
}

// Error makes a refusal an error, so that a command can end with one.
func (e *refusal) Error() string { return e.code + ": " + e.detail }

func (se *session) runCommand(text string) (*result, error) {
	c, err := kql.NewCursor(text, true)
	if err != nil {
		return nil, err
	}
	if !c.Sign(".") {
		return nil, badText("BadRequest", "A management command begins with a dot; a query is sent to the query endpoint.")
	}
	var r *result
	for _, verb := range verbs {
		if c.Word(verb.word) {
			if r, err = verb.run(se, c); err != nil {
				return nil, err
			}
			break
		}
	}
	if r == nil {
		return nil, c.Fault("the emulator does not know this command")
	}
	if c.Peek().Kind == kql.TokSign && c.Peek().Text == "|" {
		t, err := kql.Pipe(se.cancelled, c.Rest(), tableOf(r), se)
		if err != nil {
			return nil, err
		}
		return resultOfTable(t), nil
	}
	return r, c.End()
}

// verbs are what commands begin with.
var verbs = []struct {
	word string
	run  func(*session, *kql.Cursor) (*result, error)
}{
	{"show", (*session).show},
	{"create", (*session).create},
	{"create-merge", (*session).create},
	{"create-or-alter", (*session).create},
	{"alter", (*session).alter},
	{"alter-merge", (*session).alter},
	{"drop", (*session).drop},
	{"delete", (*session).deletePolicy},
	{"clear", (*session).clear},
	{"add", (*session).addPrincipals},
	{"cancel", (*session).cancel},
}

// verb is the word the cursor has just taken.
func verbOf(c *kql.Cursor) string { return strings.ToLower(c.Taken().Text) }

// existing takes the name of a table that is there.
func (se *session) existing(c *kql.Cursor) (string, *Table, error) {
	name, err := c.Name()
	if err != nil {
		return "", nil, err
	}
	if t := se.table(name); t != nil {
		return name, t, nil
	}
	if se.isOpen() && se.s.store.stored(se.databaseName, name) > 0 {
		return name, &Table{}, nil
	}
	return "", nil, notFound("Table", name)
}

func (se *session) isOpen() bool { return se.schema == nil || se.schema.Open }

func (se *session) show(c *kql.Cursor) (*result, error) {
	switch {
	case c.Word("databases"):
		return se.showDatabases(), nil
	case c.Word("tables"):
		return se.showTables(), nil
	case c.Word("version"):
		r := resultOf("BuildVersion:string, BuildTime:datetime, ServiceType:string, ProductVersion:string")
		r.add("1.0.0.0", time.Now(), "Engine", "KustoEmulator")
		return r, nil
	case c.Words("streamingingestion", "failures"):
		return se.showFailures(), nil
	case c.Words("streamingingestion", "statistics"):
		return se.showStatistics(), nil
	case c.Words("ingestion", "failures"):
		return showIngestionFailures(), nil
	case c.Word("table"):
		name, t, err := se.existing(c)
		if err != nil {
			return nil, err
		}
		return se.showTable(c, name, t)
	case c.Word("database"):
		return se.showDatabase(c)
	}
	return nil, c.Fault("the emulator does not know this command")
}

func (se *session) showDatabases() *result {
	r := resultOf("DatabaseName:string, PersistentStorage:string, Version:string, IsCurrent:bool, DatabaseAccessMode:string, PrettyName:string")
	names := []string{}
	if se.schema != nil {
		names = slices.Collect(maps.Keys(se.schema.Databases))
	}
	if se.isOpen() {
		for _, t := range se.s.Tables() {
			names = append(names, t.Database)
		}
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		r.add(n, "", "v1.0", n == se.databaseName, "ReadWrite", "")
	}
	return r
}

// tableNames are the tables of the database, in order.
func (se *session) tableNames() []string {
	var names []string
	if se.database != nil {
		names = slices.Collect(maps.Keys(se.database.Tables))
	}
	if se.isOpen() {
		for _, t := range se.s.Tables() {
			if strings.EqualFold(t.Database, se.databaseName) {
				names = append(names, t.Table)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (se *session) showTables() *result {
	r := resultOf("TableName:string, DatabaseName:string, Folder:string, DocString:string")
	for _, n := range se.tableNames() {
		r.add(n, se.databaseName, "", "")
	}
	return r
}

func (se *session) showTable(c *kql.Cursor, name string, t *Table) (*result, error) {
	switch {
	case c.Word("cslschema"):
		r := resultOf("TableName:string, Schema:string, DatabaseName:string, Folder:string, DocString:string")
		r.add(name, t.Columns.csl(), se.databaseName, "", "")
		return r, nil
	case c.Words("schema", "as", "json"):
		r := resultOf("TableName:string, Schema:string, DatabaseName:string, Folder:string, DocString:string")
		r.add(name, string(marshal(t.schemaDocument(name))), se.databaseName, "", "")
		return r, nil
	case c.Word("details"):
		r := resultOf("TableName:string, DatabaseName:string, TotalRowCount:long")
		r.add(name, se.databaseName, se.s.RowCount(se.databaseName, name))
		return r, nil
	case c.Word("principals"):
		return principals("Table", t.Ingestors, nil, nil), nil
	case c.Words("policy", "streamingingestion"):
		return se.tablePolicy(name, t), nil
	case c.Words("policy", "update"):
		return policyRow("UpdatePolicy", "["+se.databaseName+"].["+name+"]", "Table", cmp.Or(t.Update, "null")), nil
	case c.Word("ingestion"):
		return showMappings(c, se.databaseName, name, t)
	}
	return nil, c.Fault("the emulator does not know this command")
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// csl writes columns as a create command does, names in brackets where needed.
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

func (t *Table) schemaDocument(name string) any {
	columns := []any{}
	for _, c := range t.Columns {
		columns = append(columns, map[string]string{"Name": c.Name, "Type": "System." + dotnet[c.Type], "CslType": c.Type})
	}
	return map[string]any{"Name": name, "OrderedColumns": columns}
}

// principals lists who has which role. A role everyone has is shown to nobody.
func principals(of string, ingestors, viewers, admins []string) *result {
	r := resultOf("Role:string, PrincipalType:string, PrincipalDisplayName:string, PrincipalObjectId:string, PrincipalFQN:string, Notes:string")
	for _, role := range []struct {
		name string
		who  []string
	}{{"Ingestor", ingestors}, {"Viewer", viewers}, {"Admin", admins}} {
		for _, id := range role.who {
			r.add(of+" "+role.name, "AAD Application", id, id, "aadapp="+id, "")
		}
	}
	return r
}

func (se *session) tablePolicy(name string, t *Table) *result {
	return policyRow("StreamingIngestionPolicy", "["+se.databaseName+"].["+name+"]", "Table", t.text())
}

func (se *session) databasePolicy(p streamingPolicy) *result {
	return policyRow("StreamingIngestionPolicy", "["+se.databaseName+"]", "Database", p.text())
}

// text is the policy as the service shows it.
func (s streamingPolicy) text() string {
	if s.Streaming == nil {
		return "null"
	}
	return string(marshal(policyDocument{s.Streaming, s.rate}))
}

func policyRow(name, entity, kind, policy string) *result {
	r := resultOf("PolicyName:string, EntityName:string, Policy:string, ChildEntities:string, EntityType:string")
	r.add(name, entity, policy, "[]", kind)
	return r
}

func showMappings(c *kql.Cursor, database, table string, t *Table) (*result, error) {
	kind := ""
	if k := strings.ToLower(c.Peek().Text); c.Peek().Kind == kql.TokWord && k != "mappings" && k != "mapping" {
		kind = c.Next().Text
	}
	r := resultOf("Name:string, Kind:string, Mapping:string, LastUpdatedOn:datetime, Database:string, Table:string")
	wanted := ""
	if c.Word("mapping") {
		var err error
		if wanted, err = c.Str(); err != nil {
			return nil, err
		}
	} else if !c.Word("mappings") {
		return nil, c.Fault("want mappings")
	}
	for i := range t.Mappings {
		m := &t.Mappings[i]
		if (kind == "" || strings.EqualFold(kind, m.Kind)) && (wanted == "" || wanted == m.Name) {
			r.add(m.Name, m.Kind, string(m.document()), time.Now(), database, table)
		}
	}
	if wanted != "" && len(r.rows) == 0 {
		return nil, notFound("MappingPersistent", wanted)
	}
	return r, nil
}

// document is a mapping as the service shows it.
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
	return marshal(all)
}

func (se *session) showDatabase(c *kql.Cursor) (*result, error) {
	if !slices.Contains([]string{"schema", "policy", "principals", "cslschema"}, strings.ToLower(c.Peek().Text)) || c.Peek().Kind == kql.TokName {
		name, err := c.Name()
		if err != nil {
			return nil, err
		}
		if !strings.EqualFold(name, se.databaseName) {
			if bad := se.open(name, KindQuery); bad != nil {
				return nil, bad
			}
		}
	}
	db := cmp.Or(se.database, &Database{})
	switch {
	case c.Words("schema", "as", "json"):
		tables := make(map[string]any)
		for name, t := range db.Tables {
			tables[name] = t.schemaDocument(name)
		}
		r := resultOf("DatabaseSchema:string")
		r.add(string(marshal(map[string]any{"Databases": map[string]any{se.databaseName: map[string]any{"Name": se.databaseName, "Tables": tables}}})))
		return r, nil
	case c.Word("schema"):
		r := resultOf("DatabaseName:string, TableName:string, ColumnName:string, ColumnType:string")
		for _, name := range se.tableNames() {
			r.add(se.databaseName, name, "", "")
			if t := db.Tables[name]; t != nil {
				for _, col := range t.Columns {
					r.add(se.databaseName, name, col.Name, "System."+dotnet[col.Type])
				}
			}
		}
		return r, nil
	case c.Words("policy", "streamingingestion"):
		allowed := on(db.Streaming) // what is left out is on, and shown as what holds
		return se.databasePolicy(streamingPolicy{&allowed, db.rate}), nil
	case c.Word("principals"):
		return principals("Database "+se.databaseName, db.Ingestors, db.Viewers, db.Admins), nil
	}
	return nil, c.Fault("the emulator does not know this command")
}

// showFailures tells of requests that were refused for what they asked: not of
// those that never came so far, throttled ones among them.
func (se *session) showFailures() *result {
	r := resultOf("Database:string, Table:string, Principal:string, RootActivityId:guid, IngestionProperties:string, Count:long, FirstFailureOn:datetime, LastFailureOn:datetime, FailureKind:string, ErrorCode:string, Details:string")
	type key struct{ table, code, format, mapping string }
	first, last, count := map[key]Request{}, map[key]Request{}, map[key]int{}
	var order []key
	for _, q := range se.s.Requests() {
		if q.Status != 400 && q.Status != 413 || !strings.EqualFold(q.Database, se.databaseName) {
			continue
		}
		k := key{q.Table, q.Code, q.Format, q.Mapping}
		if count[k]++; count[k] == 1 {
			first[k] = q
			order = append(order, k)
		}
		last[k] = q
	}
	for _, k := range order {
		p := marshal(map[string]any{"Mapping": k.mapping, "Format": k.format, "Compressed": false, "IngestionSource": "Stream"})
		r.add(se.databaseName, k.table, se.Principal(), first[k].ActivityID, string(p), count[k], first[k].Time, last[k].Time, "Permanent", k.code, first[k].Message)
	}
	return r
}

// showIngestionFailures is empty: commands ingest nothing here, and what is streamed
// does not show in it.
func showIngestionFailures() *result {
	return resultOf("OperationId:string, Database:string, Table:string, FailedOn:datetime, IngestionSourcePath:string, Details:string, FailureKind:string, RootActivityId:string, OperationKind:string, OriginatesFromUpdatePolicy:bool, ErrorCode:string, Principal:string, ShouldRetry:bool, User:string, IngestionProperties:string")
}

// showStatistics tells of what was stored and is seen. How long that took it tells
// by the requests that are remembered.
func (se *session) showStatistics() *result {
	r := resultOf("Database:string, Table:string, StartTime:datetime, EndTime:datetime, Count:long, MinDuration:timespan, MaxDuration:timespan, AvgDuration:timespan, " +
		"TotalDataSize:long, MinDataSize:long, MaxDataSize:long, TotalRowCount:long, MinRowCount:long, MaxRowCount:long, " +
		"IngestionStatus:string, NumOfRowStoresReferences:long, Principal:string, NodeId:string, IngestionProperties:string")
	took := make(map[string]*span)
	for _, q := range se.s.Requests() {
		if q.Status == http.StatusOK && strings.EqualFold(q.Database, se.databaseName) {
			if took[q.Table] == nil {
				took[q.Table] = new(span)
			}
			took[q.Table].add(int64(q.Elapsed))
		}
	}
	for _, t := range se.s.Tables() {
		if !strings.EqualFold(t.Database, se.databaseName) {
			continue
		}
		var size, rows span
		for _, c := range se.s.store.visible(t.Database, t.Table) {
			size.add(int64(c.rawLen))
			rows.add(int64(c.rows))
		}
		if size.count == 0 {
			continue
		}
		long := cmp.Or(took[t.Table], &span{count: 1})
		r.add(se.databaseName, t.Table, time.Now().Add(-time.Minute), time.Now(), size.count,
			time.Duration(long.least), time.Duration(long.most), time.Duration(long.sum/long.count),
			size.sum, size.least, size.most, rows.sum, rows.least, rows.most,
			"Success", 1, se.Principal(), nodeID, `{"IngestionSource":"Stream"}`)
	}
	return r
}

// nodeID is the only node there is.
const nodeID = "KEngine000000"

// span is what a view tells of a number of values.
type span struct{ count, sum, least, most int64 }

func (s *span) add(n int64) {
	if s.count == 0 || n < s.least {
		s.least = n
	}
	s.count, s.sum, s.most = s.count+1, s.sum+n, max(s.most, n)
}
