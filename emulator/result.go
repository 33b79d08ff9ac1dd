package emulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// result is a table that a command or a query answers with.
type result struct {
	columns Columns
	rows    [][]json.RawMessage
}

// resultOf begins a table; its columns are given as "name:type, name:type".
func resultOf(columns string) *result {
	r := new(result)
	if err := r.columns.UnmarshalText([]byte(columns)); err != nil {
		panic(err) // they are constants
	}
	return r
}

// add appends a row of Go values.
func (r *result) add(cells ...any) {
	row := make([]json.RawMessage, len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case json.RawMessage:
			row[i] = v
		case time.Time:
			row[i] = quote(v.UTC().Format(timeLayout))
		case time.Duration:
			row[i] = quote(spanText(v))
		default:
			row[i] = marshal(v)
		}
	}
	r.rows = append(r.rows, row)
}

const timeLayout = "2006-01-02T15:04:05.0000000Z"

// dotnet are the names of the types that version 1 tells of.
var dotnet = map[string]string{
	"bool": "SByte", "datetime": "DateTime", "decimal": "SqlDecimal", "dynamic": "Object", "guid": "Guid",
	"int": "Int32", "long": "Int64", "real": "Double", "string": "String", "timespan": "TimeSpan",
}

// column1 and column2 are how the two versions tell of a column.
type column1 struct{ ColumnName, DataType, ColumnType string }
type column2 struct{ ColumnName, ColumnType string }

// table1 is a table of version 1.
type table1 struct {
	TableName string
	Columns   []column1
	Rows      [][]json.RawMessage
}

func (r *result) v1(name string) table1 {
	t := table1{TableName: name, Columns: []column1{}, Rows: r.rows}
	for _, c := range r.columns {
		t.Columns = append(t.Columns, column1{c.Name, dotnet[c.Type], c.Type})
	}
	if t.Rows == nil {
		t.Rows = [][]json.RawMessage{}
	}
	return t
}

// failure is what goes wrong with a query after it began to answer.
type failure struct{ code, words string }

// answerMgmt sends what a command answers: one table of version 1.
func (c *call) answerMgmt(r *result) {
	c.send(http.StatusOK, jsonType, marshal(map[string]any{"Tables": []table1{r.v1("Table_0")}}))
}

// answerV1 sends a query's table with the three that tell of the query.
func (c *call) answerV1(r *result, bad *failure) {
	properties := resultOf("Value:string")
	properties.add(`{"Visualization":null,"Title":null}`)
	status := resultOf("Timestamp:datetime, Severity:int, SeverityName:string, StatusCode:int, StatusDescription:string, Count:int, RequestId:guid, ActivityId:guid, SubActivityId:guid, ClientActivityId:string")
	id := c.w.Header().Get("x-ms-client-request-id")
	if bad == nil {
		status.add(time.Now(), 4, "Info", 0, "Query completed successfully", 1, c.activity, c.activity, c.activity, id)
	} else {
		status.add(time.Now(), 2, "Error", 1, bad.code+": "+bad.words, 1, c.activity, c.activity, c.activity, id)
	}
	contents := resultOf("Ordinal:long, Kind:string, Name:string, Id:string, PrettyName:string")
	contents.add(0, "QueryResult", "PrimaryResult", "1", "")
	contents.add(1, "QueryProperties", "@ExtendedProperties", "2", "")
	contents.add(2, "QueryStatus", "QueryStatus", "3", "")
	doc := map[string]any{"Tables": []table1{r.v1("Table_0"), properties.v1("Table_1"), status.v1("Table_2"), contents.v1("Table_3")}}
	if bad != nil {
		doc["Exceptions"] = []string{bad.code + ": " + bad.words}
	}
	c.send(http.StatusOK, jsonType, marshal(doc))
}

// fragmentRows is how many rows a fragment has.
const fragmentRows = 2

// answerV2 sends frames: whole tables, or fragments of the primary one, or those
// with progress between them.
func (c *call) answerV2(r *result, bad *failure, fragments, progressive bool) {
	frames := []any{map[string]any{"FrameType": "DataSetHeader", "IsProgressive": progressive, "Version": "v2.0", "IsFragmented": fragments, "ErrorReportingPlacement": "in_data"}}
	table := func(id int, kind, name string, r *result) any {
		return v2Table{"DataTable", id, kind, name, r.v2(), r.v1("").Rows}
	}
	properties := resultOf("TableId:int, Key:string, Value:dynamic")
	properties.add(1, "Visualization", `{"Visualization":null,"Title":null}`)
	frames = append(frames, table(0, "QueryProperties", "@ExtendedProperties", properties))
	if fragments || progressive {
		frames = append(frames, r.fragments(progressive)...)
	} else {
		frames = append(frames, table(1, "PrimaryResult", "PrimaryResult", r))
	}
	information := resultOf("Timestamp:datetime, ClientRequestId:string, ActivityId:guid, EventTypeName:string, Payload:string")
	information.add(time.Now(), c.w.Header().Get("x-ms-client-request-id"), c.activity, "QueryInfo", `{"Count":1,"Text":"Query completed successfully"}`)
	frames = append(frames, table(2, "QueryCompletionInformation", "QueryCompletionInformation", information))
	end := map[string]any{"FrameType": "DataSetCompletion", "HasErrors": bad != nil, "Cancelled": false}
	if bad != nil {
		e := &refusal{status: 200, code: "LimitsExceeded", message: badRequestText, typ: "Kusto.Data.Exceptions.KustoServicePartialQueryFailureLimitsExceededException",
			detail: bad.code + ": " + bad.words, permanent: true}
		body, _ := e.render(c.w.Header().Get("x-ms-client-request-id"), c.activity, true)
		end["OneApiErrors"] = []json.RawMessage{body}
	}
	frames = append(frames, end)
	var out bytes.Buffer
	for i, f := range frames {
		out.WriteByte("[,"[min(i, 1)])
		out.Write(marshal(f))
		out.WriteByte('\n')
	}
	out.WriteByte(']')
	c.send(http.StatusOK, jsonType, out.Bytes())
}

// v2Table is a frame whose rows come last, as the service writes them.
type v2Table struct {
	FrameType string
	TableId   int //nolint:revive // as the service spells it
	TableKind string
	TableName string
	Columns   []column2
	Rows      [][]json.RawMessage
}

func (r *result) v2() []column2 {
	all := []column2{}
	for _, c := range r.columns {
		all = append(all, column2{c.Name, c.Type})
	}
	return all
}

// fragments are the frames of a table in parts. A progressive one begins with rows
// that better ones replace.
func (r *result) fragments(progressive bool) []any {
	type fragment struct {
		FrameType         string
		TableId           int
		FieldCount        int
		TableFragmentType string
		Rows              [][]json.RawMessage
	}
	head := struct {
		FrameType string
		TableId   int
		TableKind string
		TableName string
		Columns   []column2
	}{"TableHeader", 1, "PrimaryResult", "PrimaryResult", r.v2()}
	all := []any{head}
	kind := "DataAppend"
	if progressive && len(r.rows) > 0 {
		all = append(all, fragment{"TableFragment", 1, len(r.columns), "DataAppend", r.rows[:1]},
			map[string]any{"FrameType": "TableProgress", "TableId": 1, "TableProgress": 50})
		kind = "DataReplace"
	}
	for rows := r.rows; len(rows) > 0; {
		n := min(fragmentRows, len(rows))
		all = append(all, fragment{"TableFragment", 1, len(r.columns), kind, rows[:n]})
		rows, kind = rows[n:], "DataAppend"
	}
	return append(all, map[string]any{"FrameType": "TableCompletion", "TableId": 1, "RowCount": len(r.rows)})
}
