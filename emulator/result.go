package emulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kusto-agent/emulator/internal/kql"
	"kusto-agent/emulator/internal/mgmt"
)

// result is a table that a command or a query answers with.
type result struct {
	mgmt.Result
	render json.RawMessage // what the render operator said; nil: nothing
	bad    *failure        // nil: the rows are all there are
}

func resultOf(columns string) *result { return &result{Result: *mgmt.NewResult(columns)} }

// resultOfTable converts the table of a query to a result, whose cells are JSON.
func resultOfTable(t *kql.Table) *result {
	out := &result{Result: mgmt.Result{Columns: t.Columns}, render: t.Render}
	for _, row := range t.Rows {
		cells := make([]json.RawMessage, len(row))
		for i, v := range row {
			cells[i] = kql.Written(v, t.Columns[i].Type)
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// tableOf converts a result to a table, so that query operators can be applied to the answer of a
// command.
func tableOf(r *result) *kql.Table {
	out := &kql.Table{Columns: r.Columns}
	for _, row := range r.Rows {
		values := make([]any, len(row))
		for i, cell := range row {
			values[i] = kql.ValueOf(r.Columns[i].Type, cell)
		}
		out.Rows = append(out.Rows, values)
	}
	return out
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

// dataSet1 is an answer of version 1.
type dataSet1 struct {
	Tables     []table1
	Exceptions []string `json:",omitempty"`
}

// v1 returns the result as a table of version 1 of the answer format, with this name.
func (r *result) v1(name string) table1 {
	t := table1{TableName: name, Columns: []column1{}, Rows: r.Rows}
	for _, c := range r.Columns {
		typ := kql.Dotnet[c.Type] // of which version 1 has the last part
		t.Columns = append(t.Columns, column1{c.Name, typ[strings.LastIndexByte(typ, '.')+1:], c.Type})
	}
	if t.Rows == nil {
		t.Rows = [][]json.RawMessage{}
	}
	return t
}

// failure is an error that occurs after a query has begun to answer: it is sent along with the rows.
type failure struct{ code, words string }

func (f *failure) text() string { return f.words + " (" + f.code + ", 0x80DA0003)." }

// answerMgmt sends what a command answers: one table of version 1.
func (c *call) answerMgmt(r *result) {
	c.send(http.StatusOK, jsonType, kql.JSON(dataSet1{Tables: []table1{r.v1("Table_0")}}))
}

// visualizationOf returns the property bag of the render operator, or the bag that says that there is
// no chart.
func (r *result) visualizationOf() string {
	if r.render == nil {
		return kql.NoChart
	}
	return string(r.render)
}

// answerV1 sends the results of a query, of which there is at least one, in version 1 of the answer
// format: their tables, followed by the query's properties, its status and a table of contents. bad is
// the error to report with the rows; nil for none.
func (c *call) answerV1(all []*result, bad *failure) {
	properties := resultOf("Value:string")
	properties.Add(all[0].visualizationOf())
	status := resultOf("Timestamp:datetime, Severity:int, SeverityName:string, StatusCode:int, StatusDescription:string, Count:int, RequestId:guid, ActivityId:guid, SubActivityId:guid, ClientActivityId:string")
	id := c.w.Header().Get("x-ms-client-request-id")
	severity, name, code, words := 4, "Info", 0, "Query completed successfully"
	if bad != nil {
		severity, name, code, words = 2, "Error", tooLargeStatus, bad.text()
	}
	status.Add(time.Now(), severity, name, code, words, 1, c.rec.ActivityID, c.rec.ActivityID, c.rec.ActivityID, id)
	contents := resultOf("Ordinal:long, Kind:string, Name:string, Id:string, PrettyName:string")
	doc := dataSet1{}
	add := func(r *result, kind, name string) {
		n := len(doc.Tables)
		doc.Tables = append(doc.Tables, r.v1(fmt.Sprintf("Table_%d", n)))
		if r != contents {
			contents.Add(n, kind, name, strconv.Itoa(n+1), "")
		}
	}
	for _, r := range all {
		add(r, "QueryResult", "PrimaryResult")
	}
	add(properties, "QueryProperties", "@ExtendedProperties")
	add(status, "QueryStatus", "QueryStatus")
	add(contents, "", "")
	if bad != nil {
		doc.Exceptions = []string{bad.text()}
	}
	c.send(http.StatusOK, jsonType, kql.JSON(doc))
}

// fragmentRows is how many rows a fragment has.
const fragmentRows = 2

// placement is where the error of a result stands, besides the last frame.
type placement string

const (
	inData       placement = "InData"       // behind the rows, in place of one
	endOfTable   placement = "EndOfTable"   // in the frame that completes the table
	endOfDataset placement = "EndOfDataset" // in the last frame alone
)

// form is how a result of version 2 is cut into frames.
type form struct {
	fragments, progressive bool
	newlines               bool
	errors                 placement
}

// form returns how the request's options want an answer of version 2 to be cut into frames.
func (se *session) form() form {
	on := func(option string) bool { return se.options[option] == true }
	place, _ := se.options["results_error_reporting_placement"].(string)
	placed := map[string]placement{"end_of_table": endOfTable, "end_of_dataset": endOfDataset}[place]
	return form{on("results_v2_fragment_primary_tables"), on("results_progressive_enabled"), on("results_v2_newlines_between_frames"), cmp.Or(placed, inData)}
}

// The frames of version 2. Their keys are in the order of the service, which a reader
// may depend on: Microsoft's Go SDK does.
type (
	dataSetHeader struct {
		FrameType               string
		IsProgressive           bool
		Version                 string
		IsFragmented            bool
		ErrorReportingPlacement placement
	}
	dataTable struct {
		tableHeader
		Rows []any
	}
	tableHeader struct {
		FrameType string
		TableId   int //nolint:revive // as the service spells it
		TableKind string
		TableName string
		Columns   []column2
	}
	tableFragment struct {
		FrameType         string
		TableFragmentType string
		TableId           int //nolint:revive // as the service spells it
		Rows              []any
	}
	tableProgress struct {
		FrameType     string
		TableId       int //nolint:revive // as the service spells it
		TableProgress int
	}
	tableCompletion struct {
		FrameType    string
		TableId      int //nolint:revive // as the service spells it
		RowCount     int
		OneApiErrors []json.RawMessage `json:",omitempty"` //nolint:revive // as the service spells it
	}
	dataSetCompletion struct {
		FrameType    string
		HasErrors    bool
		Cancelled    bool
		OneApiErrors []json.RawMessage `json:",omitempty"` //nolint:revive // as the service spells it
	}
	errorRow struct {
		OneApiErrors []json.RawMessage //nolint:revive // as the service spells it
	}
)

// answerV2 sends the results of a query as frames of version 2. f selects whole tables, fragments of
// the primary ones, or fragments with progress frames between them. bad is the error to report with
// the rows; nil for none.
func (c *call) answerV2(all []*result, bad *failure, f form) {
	properties := resultOf("TableId:int, Key:string, Value:dynamic")
	for i, r := range all {
		properties.Add(i+1, "Visualization", r.visualizationOf())
	}
	frames := []any{
		dataSetHeader{"DataSetHeader", f.progressive, "v2.0", f.fragments, f.errors},
		dataTable{tableHeader{"DataTable", 0, "QueryProperties", "@ExtendedProperties", properties.v2()}, properties.cells()},
	}
	for i, r := range all {
		frames = append(frames, c.primary(i+1, r, f)...)
	}
	var errs []json.RawMessage
	if bad != nil {
		errs = []json.RawMessage{c.partial(bad)}
	}
	information := c.completion(bad)
	frames = append(frames,
		dataTable{tableHeader{"DataTable", len(all) + 1, "QueryCompletionInformation", "QueryCompletionInformation", information.v2()}, information.cells()},
		dataSetCompletion{"DataSetCompletion", bad != nil, false, errs})
	var out bytes.Buffer
	for i, frame := range frames {
		if f.newlines && i > 0 {
			out.WriteByte('\n')
		}
		out.WriteByte("[,"[min(i, 1)])
		out.Write(kql.JSON(frame))
	}
	if f.newlines {
		out.WriteByte('\n')
	}
	out.WriteByte(']')
	c.send(http.StatusOK, jsonType, out.Bytes())
}

// primary returns the frames of one result: one whole table, or a header, fragments and a completion,
// as f says. id is its number within the answer. If r is not complete, f.errors says where the error
// stands.
func (c *call) primary(id int, r *result, f form) []any {
	var errs []json.RawMessage
	if r.bad != nil {
		errs = []json.RawMessage{c.partial(r.bad)}
	}
	rows := r.cells()
	if r.bad != nil && f.errors == inData {
		rows = append(rows, errorRow{errs})
	}
	if !f.fragments && !f.progressive {
		return []any{dataTable{tableHeader{"DataTable", id, "PrimaryResult", "PrimaryResult", r.v2()}, rows}}
	}
	frames := []any{tableHeader{"TableHeader", id, "PrimaryResult", "PrimaryResult", r.v2()}}
	frames = append(frames, fragments(id, rows, f.progressive)...)
	end := tableCompletion{"TableCompletion", id, len(r.Rows), nil}
	if f.errors == endOfTable {
		end.OneApiErrors = errs
	}
	return append(frames, end)
}

// partial returns the JSON error document for a result that a limit on rows or bytes has cut.
func (c *call) partial(bad *failure) json.RawMessage {
	e := &refusal{status: http.StatusOK, code: "LimitsExceeded", message: badRequestText, detail: bad.text(),
		typ: "Kusto.Data.Exceptions.KustoServicePartialQueryFailureLimitsExceededException"}
	body, _ := e.render(c.w.Header().Get("x-ms-client-request-id"), c.rec.ActivityID, true)
	return body
}

// completion returns the table of version 2 with the outcome of the query: bad, or success when bad is
// nil.
func (c *call) completion(bad *failure) *result {
	r := resultOf("Timestamp:datetime, ClientRequestId:string, ActivityId:guid, SubActivityId:guid, ParentActivityId:guid, Level:int, LevelName:string, " +
		"StatusCode:int, StatusCodeName:string, EventType:int, EventTypeName:string, Payload:string")
	add := func(level int, levelName string, status int, statusName, payload string) {
		r.Add(time.Now(), c.w.Header().Get("x-ms-client-request-id"), c.rec.ActivityID, c.rec.ActivityID, c.rec.ActivityID, level, levelName, status, statusName, 4, "QueryInfo", payload)
	}
	if bad != nil {
		text := kql.JSON(struct {
			Count int
			Text  string
		}{1, bad.text()})
		add(2, "Error", tooLargeStatus, bad.code, string(text))
	} else {
		add(4, "Info", 0, "S_OK (0)", `{"Count":1,"Text":"Query completed successfully"}`)
	}
	return r
}

// tooLargeStatus is 0x80DA0003 as a number of 32 bits with a sign.
const tooLargeStatus = -2133196797

// v2 returns the columns as version 2 of the answer format writes them.
func (r *result) v2() []column2 {
	all := []column2{}
	for _, c := range r.Columns {
		all = append(all, column2{c.Name, c.Type})
	}
	return all
}

// cells returns the rows as a list to which the error row of a result can be appended.
func (r *result) cells() []any {
	all := make([]any, len(r.Rows))
	for i, row := range r.Rows {
		all[i] = row
	}
	return all
}

// fragments cuts the rows of table id into frames of fragmentRows rows. A progressive answer first
// sends one row, which the next frame then replaces.
func fragments(id int, rows []any, progressive bool) []any {
	var all []any
	kind := "DataAppend"
	if progressive && len(rows) > 0 {
		all = append(all, tableFragment{"TableFragment", "DataAppend", id, rows[:1]}, tableProgress{"TableProgress", id, 50})
		kind = "DataReplace"
	}
	for len(rows) > 0 {
		n := min(fragmentRows, len(rows))
		all = append(all, tableFragment{"TableFragment", kind, id, rows[:n]})
		rows, kind = rows[n:], "DataAppend"
	}
	return all
}
