package query

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
	"kusto-agent/internal/kusto/wire"
)

// transcript is a Reader that writes down what it is told.
type transcript struct{ lines []string }

func (t *transcript) Table(table *Table) error {
	var columns []string
	for _, c := range table.Columns {
		columns = append(columns, c.Name+":"+c.Type)
	}
	t.lines = append(t.lines, table.Kind+" "+table.Name+" ("+strings.Join(columns, ", ")+")")
	return nil
}

func (t *transcript) Row(table *Table, row []json.RawMessage) error {
	var cells []string
	for _, c := range row {
		cells = append(cells, string(c))
	}
	t.lines = append(t.lines, table.Name+": "+strings.Join(cells, " | "))
	return nil
}

func (t *transcript) Progress(percent float64) {
	t.lines = append(t.lines, fmt.Sprintf("progress %v", percent))
}

const (
	v1Status = `{"TableName":"Table_2","Columns":[{"ColumnName":"Timestamp","DataType":"DateTime"},{"ColumnName":"Severity","DataType":"Int32"},` +
		`{"ColumnName":"SeverityName","DataType":"String"},{"ColumnName":"StatusCode","DataType":"Int32"},{"ColumnName":"StatusDescription","DataType":"String"},` +
		`{"ColumnName":"Count","DataType":"Int32"},{"ColumnName":"RequestId","DataType":"Guid"},{"ColumnName":"ActivityId","DataType":"Guid"}],"Rows":[%s]}`
	v1Well = `["2026-01-01T00:00:00Z",4,"Info",0,"Query completed successfully",1,"r","a"]`
	v1Bad  = `["2026-01-01T00:00:00Z",2,"Error",1,"Query execution has exceeded the allowed limits (0x80DA0003): result set is too large",1,"r","act-9"]`
)

func v1(status string, rows ...string) string {
	return `{"Tables":[{"TableName":"Table_0","Columns":[{"ColumnName":"n","DataType":"Int64","ColumnType":"long"},{"ColumnName":"s","DataType":"String","ColumnType":"string"}],"Rows":[` +
		strings.Join(rows, ",") + `]},` + fmt.Sprintf(v1Status, status) + `]}`
}

const v2Head = `[{"FrameType":"DataSetHeader","IsProgressive":false,"Version":"v2.0"},
{"FrameType":"DataTable","TableId":0,"TableKind":"QueryProperties","TableName":"@ExtendedProperties","Columns":[{"ColumnName":"Key","ColumnType":"string"}],"Rows":[["Visualization"]]},
`

// TestResults: every form of an answer becomes tables and rows, with all digits, and
// what went wrong inside a 200 is an error.
func TestResults(t *testing.T) {
	f := func(name string, call Call, answer string, want []string, fault string) {
		t.Run(name, func(t *testing.T) {
			c := serveQueries(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("x-ms-activity-id", "act-1")
				io.WriteString(w, answer)
			})
			var got transcript
			err := c.Query(t.Context(), &Query{Call: call, Database: "D", Text: "T"}, &got)
			if !slices.Equal(got.lines, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got.lines, "\n"), strings.Join(want, "\n"))
			}
			if fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
				t.Errorf("error %v, want %q", err, fault)
			}
			var e *kusto.Error
			if err != nil && (!errors.As(err, &e) || !e.Partial != strings.HasPrefix(answer, "<") || e.Hint == "" && e.Message != "the query was cancelled" || e.ActivityID == "") {
				t.Errorf("error %#v", err)
			}
		})
	}
	table := "PrimaryResult Table_0 (n:long, s:string)"
	status := "QueryStatus Table_2 (Timestamp:datetime, Severity:int, SeverityName:string, StatusCode:int, StatusDescription:string, Count:int, RequestId:guid, ActivityId:guid)"
	statusRow := func(row string) string {
		return "Table_2: " + strings.ReplaceAll(strings.Trim(row, "[]"), ",", " | ")
	}
	f("v1", QueryV1, v1(v1Well, `[9223372036854775807,"a\nb"]`, `[null,""]`),
		[]string{table, `Table_0: 9223372036854775807 | "a\nb"`, `Table_0: null | ""`, status, statusRow(v1Well)}, "")
	f("v1, failed", QueryV1, v1(v1Bad, `[1,"x"]`),
		[]string{table, `Table_0: 1 | "x"`, status, statusRow(v1Bad)}, "result set is too large (activity act-9)")
	f("v1, a row that is an error", QueryV1, v1(v1Well, `[1,"x"]`, `{"Exceptions":["Request aborted: SEM0100: no such column"]}`),
		[]string{table, `Table_0: 1 | "x"`, status, statusRow(v1Well)}, "SEM0100")
	f("v1, exceptions behind", QueryV1, `{"Tables":[],"Exceptions":["E_QUERY_TIMEOUT: Request timed out"]}`, nil, "timed out")
	value := func(rows string) string {
		return `{"TableName":"Table_0","Columns":[{"ColumnName":"Value","DataType":"String"}],"Rows":[` + rows + `]}`
	}
	f("v1, a column called Value", QueryV1, `{"Tables":[`+value(`["x"]`)+`,`+strings.Replace(value(`["{}"]`), "Table_0", "Table_1", 1)+`]}`,
		[]string{"PrimaryResult Table_0 (Value:string)", `Table_0: "x"`, "QueryProperties Table_1 (Value:string)", `Table_1: "{}"`}, "")
	f("mgmt", Mgmt, `{"Tables":[`+value(`["x"]`)+`]}`,
		[]string{"PrimaryResult Table_0 (Value:string)", `Table_0: "x"`}, "")
	f("v2", QueryV2, v2Head+`{"FrameType":"DataTable","TableId":1,"TableKind":"PrimaryResult","TableName":"PrimaryResult","Columns":[{"ColumnName":"d","ColumnType":"decimal"},{"ColumnName":"o","ColumnType":"dynamic"}],"Rows":[["1.10",{"a":[1,2]}]]},
{"FrameType":"DataSetCompletion","HasErrors":false,"Cancelled":false}]`,
		[]string{"QueryProperties @ExtendedProperties (Key:string)", `@ExtendedProperties: "Visualization"`,
			"PrimaryResult PrimaryResult (d:decimal, o:dynamic)", `PrimaryResult: "1.10" | {"a":[1,2]}`}, "")
	fragments := `{"FrameType":"TableHeader","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}]},
{"FrameType":"TableFragment","TableId":1,"FieldCount":1,"TableFragmentType":"DataAppend","Rows":[[1],[2]]},
{"FrameType":"TableProgress","TableId":1,"TableProgress":50.5},
{"FrameType":"TableFragment","TableId":1,"FieldCount":1,"TableFragmentType":"DataReplace","Rows":[[3]]},
{"FrameType":"TableCompletion","TableId":1,"RowCount":1},
{"FrameType":"DataSetCompletion","HasErrors":false,"Cancelled":false}]`
	f("v2, fragments, progressive", QueryV2, strings.Replace(v2Head, "false", "true", 1)+fragments,
		[]string{"QueryProperties @ExtendedProperties (Key:string)", `@ExtendedProperties: "Visualization"`,
			"progress 50.5", "PrimaryResult P (a:int)", "P: 3"}, "")
	f("v2, fragments, replaced though not progressive", QueryV2, v2Head+fragments,
		[]string{"QueryProperties @ExtendedProperties (Key:string)", `@ExtendedProperties: "Visualization"`,
			"PrimaryResult P (a:int)", "P: 1", "P: 2", "progress 50.5"}, "are replaced by others")
	const oneAPI = `[{"error":{"code":"LimitsExceeded","message":"Request is invalid.","@type":"Kusto.Data.Exceptions.KustoServicePartialQueryFailureLimitsExceededException","@message":"Query execution has exceeded the allowed limits (80DA0003): E_QUERY_RESULT_SET_TOO_LARGE","@context":{"activityId":"act-2"},"@permanent":true}}]`
	f("v2, errors at the end", QueryV2, v2Head+`{"FrameType":"DataSetCompletion","HasErrors":true,"Cancelled":false,"OneApiErrors":`+oneAPI+`}]`,
		[]string{"QueryProperties @ExtendedProperties (Key:string)", `@ExtendedProperties: "Visualization"`}, "LimitsExceeded: Query execution has exceeded the allowed limits (80DA0003): E_QUERY_RESULT_SET_TOO_LARGE (activity act-2)")
	f("v2, errors among the rows", QueryV2, `[{"FrameType":"DataTable","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}],"Rows":[[1],{"OneApiErrors":`+oneAPI+`}]},
{"FrameType":"DataSetCompletion","HasErrors":true,"Cancelled":false}]`,
		[]string{"PrimaryResult P (a:int)", "P: 1"}, "LimitsExceeded")
	f("v2, errors of a table", QueryV2, `[{"FrameType":"TableHeader","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}]},
{"FrameType":"TableCompletion","TableId":1,"RowCount":0,"OneApiErrors":`+oneAPI+`},{"FrameType":"DataSetCompletion","HasErrors":true,"Cancelled":false}]`,
		[]string{"PrimaryResult P (a:int)"}, "LimitsExceeded")
	f("v2, cancelled", QueryV2, `[{"FrameType":"DataSetCompletion","HasErrors":false,"Cancelled":true}]`, nil, "cancelled")
	f("v2, cut", QueryV2, `[{"FrameType":"DataTable","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}],"Rows":[[1],[2`,
		[]string{"PrimaryResult P (a:int)", "P: 1"}, "ends early")
	f("v2, no end", QueryV2, `[]`, nil, "it has no end")
	f("a stranger", QueryV2, `<html>hello</html>`, nil, "not a result of the service")
	f("another stranger", QueryV1, `{"hello":1}`, nil, "not a result of the service")
	f("a stranger with tables", QueryV1, `{"Tables":[{"TableName":1}]}`, nil, "not a result of the service")
	f("cells and columns", QueryV2, `[{"FrameType":"DataTable","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}],"Rows":[[1,2]]}]`,
		[]string{"PrimaryResult P (a:int)"}, "a row has 2 cells")
}

// TestTornResults: whatever ends a result before its end, the error says that it is
// not whole, which request it was and what to do.
func TestTornResults(t *testing.T) {
	const rows = `{"Tables":[{"TableName":"Table_0","Columns":[{"ColumnName":"n","DataType":"Int64"}],"Rows":[[1],[2]`
	f := func(name, head string, body []byte, end func(*net.TCPConn, <-chan struct{})) {
		t.Run(name, func(t *testing.T) {
			seen := make(chan struct{})
			c := newQuerier(t, kustotest.Script(t, func(conn *net.TCPConn) {
				kustotest.ReadRequest(conn)
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nx-ms-activity-id: act-1\r\n%s\r\n%s", head, body)
				end(conn, seen)
			}))
			var e *kusto.Error
			err := c.Query(t.Context(), &Query{Call: QueryV1, Database: "D", Text: "T"}, &firstRow{seen: seen})
			if !errors.As(err, &e) || !e.Partial || e.ActivityID != "act-1" || !strings.Contains(e.Hint, "in the middle of the result") || !strings.Contains(e.Message, "the answer ends early") {
				t.Errorf("error %#v", err)
			}
		})
	}
	f("reset", "Content-Length: 1000\r\n", []byte(rows), func(c *net.TCPConn, seen <-chan struct{}) { <-seen; kustotest.Reset(c) })
	f("closed", "Content-Length: 1000\r\n", []byte(rows), func(*net.TCPConn, <-chan struct{}) {})
	f("no chunk", "Transfer-Encoding: chunked\r\n", fmt.Appendf(nil, "%x\r\n%s\r\nno chunk\r\n", len(rows), rows), func(*net.TCPConn, <-chan struct{}) {})
	var z bytes.Buffer
	zw := gzip.NewWriter(&z)
	io.WriteString(zw, rows)
	zw.Flush()
	f("no gzip any more", "Content-Encoding: gzip\r\n", append(z.Bytes(), "\xff\xff\xff\xff"...), func(*net.TCPConn, <-chan struct{}) {})
}

// TestQueryRequests: what goes out, by every call and method.
func TestQueryRequests(t *testing.T) {
	f := func(name string, q Query, method, path, body string, headers ...string) {
		t.Run(name, func(t *testing.T) {
			c := serveQueries(t, func(w http.ResponseWriter, r *http.Request) {
				got, _ := io.ReadAll(r.Body)
				if r.Method != method || r.RequestURI != path || string(got) != body {
					t.Errorf("%s %s\n%s\nwant %s %s\n%s", r.Method, r.RequestURI, got, method, path, body)
				}
				who := []string{"X-Ms-App: test", "X-Ms-User: me", "X-Ms-User-Id: me"}
				if len(headers) > 0 && headers[0] == "names" {
					headers, who = nil, []string{"X-Ms-App: other", "X-Ms-User: you", "X-Ms-User-Id: you"}
				}
				for _, h := range slices.Concat(headers, who, []string{"Accept: application/json", "Accept-Encoding: gzip, deflate"}) {
					name, want, _ := strings.Cut(h, ": ")
					if got := r.Header.Get(name); got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
				io.WriteString(w, v1(v1Well))
			}, func(o *wire.Options) { o.User, o.ExpectContinue = "me", true })
			q.RequestID = cmpOr(q.RequestID, "id")
			if err := c.Query(t.Context(), &q, &Collector{}); err != nil {
				t.Error(err)
			}
		})
	}
	f("v2", Query{Database: "my db", Text: `T | where a < "é"`}, "POST", "/v2/rest/query",
		`{"db":"my db","csl":"T | where a < \"é\"","properties":{"ClientRequestId":"id","Options":{}}}`, "X-Ms-Client-Request-Id: id", "X-Ms-Readonly: ", "Expect: ")
	f("options", Query{Call: QueryV1, Database: "D", Text: "T", Options: map[string]any{"notruncation": true}, Timeout: 90*time.Minute - 30*time.Minute, ReadOnly: true},
		"POST", "/v1/rest/query", `{"db":"D","csl":"T","properties":{"ClientRequestId":"id","Options":{"notruncation":true,"request_readonly":true,"servertimeout":"01:00:00"}}}`,
		"X-Ms-Readonly: true")
	f("mgmt, text properties", Query{Call: Mgmt, Database: "D", Text: ".show tables", TextProperties: true}, "POST", "/v1/rest/mgmt",
		`{"db":"D","csl":".show tables","properties":"{\"ClientRequestId\":\"id\",\"Options\":{}}"}`)
	f("no database", Query{Call: Mgmt, Text: ".show databases"}, "POST", "/v1/rest/mgmt",
		`{"csl":".show databases","properties":{"ClientRequestId":"id","Options":{}}}`)
	f("get", Query{Database: "a b", Text: "T | take 1+1", Get: true}, "GET",
		"/v2/rest/query?csl=T%20%7C%20take%201%2B1&db=a%20b&properties=%7B%22ClientRequestId%22%3A%22id%22%2C%22Options%22%3A%7B%7D%7D", "")
	f("parameters", Query{Database: "D", Text: "T | where a == x", Parameters: []Parameter{{"x", "long", "5"}, {"y", "string", `a"b\`}}},
		"POST", "/v2/rest/query", `{"db":"D","csl":"declare query_parameters(x:long, y:string);\nT | where a == x","properties":{"ClientRequestId":"id","Options":{},"Parameters":{"x":"long(5)","y":"\"a\\\"b\\\\\""}}}`)
	parameter := func(kind, value string) Query {
		return Query{Database: "D", Text: "declare query_parameters (x:long);T", JSONParameters: true, Parameters: []Parameter{{"x", kind, value}}}
	}
	g := func(kind, value, want string) {
		t.Helper()
		f(kind+" "+value, parameter(kind, value), "POST", "/v2/rest/query",
			`{"db":"D","csl":"declare query_parameters (x:long);T","properties":{"ClientRequestId":"id","Options":{},"Parameters":{"x":`+want+`}}}`)
	}
	g("long", "9223372036854775807", "9223372036854775807")
	g("int", "0x1F", "31")
	g("long", "+010", "10")
	g("long", "null", `"long(null)"`)
	g("real", "1.50e3", "1.50e3")
	g("real", "+.5", "0.5")
	g("real", "nan", `"real(nan)"`)
	g("bool", "1", "true")
	g("string", ` a"b `, `" a\"b "`)
	g("string", "null", `"null"`)
	g("decimal", "0.1", `"decimal(0.1)"`)
	g("dynamic", `[1]`, `"dynamic([1])"`)
	f("names", Query{Database: "D", Text: "T", App: "other", User: "you"}, "POST", "/v2/rest/query",
		`{"db":"D","csl":"T","properties":{"ClientRequestId":"id","Options":{}}}`, "names")
	f("a command behind comments", Query{Call: Mgmt, Database: "D", Text: " // one\n\t//two\n .show tables // three\n"}, "POST", "/v1/rest/mgmt",
		`{"db":"D","csl":".show tables // three\n","properties":{"ClientRequestId":"id","Options":{}}}`)
	f("declared", Query{Database: "D", Text: "declare query_parameters (x:long);T", Parameters: []Parameter{{"x", "long", "5"}}},
		"POST", "/v2/rest/query", `{"db":"D","csl":"declare query_parameters (x:long);T","properties":{"ClientRequestId":"id","Options":{},"Parameters":{"x":"long(5)"}}}`)
}

// TestQueryTimeouts: the client waits as long as the service is let work.
func TestQueryTimeouts(t *testing.T) {
	f := func(q Query, want time.Duration) {
		t.Helper()
		if got, err := q.timeout(); got != want || (err != nil) != (want == 0) {
			t.Errorf("%+v: %v, %v, want %v", q, got, err, want)
		}
	}
	option := func(name string, value any) Query { return Query{Options: map[string]any{name: value}} }
	f(Query{}, 4*time.Minute)
	f(Query{Call: Mgmt}, 10*time.Minute)
	f(Query{Timeout: time.Second}, time.Second)
	f(Query{Timeout: time.Hour + 1}, 0)
	f(Query{Timeout: -1}, 0)
	f(option("norequesttimeout", true), time.Hour)
	f(option("norequesttimeout", "True"), time.Hour)
	f(option("norequesttimeout", false), 4*time.Minute)
	f(Query{Timeout: time.Second, Options: map[string]any{"norequesttimeout": true}}, time.Hour)
	f(option("servertimeout", "00:30:00"), 30*time.Minute)
	f(option("servertimeout", "00:00:01.5"), 1500*time.Millisecond)
	f(option("servertimeout", "00:20"), 20*time.Minute)
	f(option("servertimeout", "12m"), 12*time.Minute)
	f(option("servertimeout", "1.02:00:00"), time.Hour)
	f(option("servertimeout", "02:00:00"), time.Hour)
	f(option("servertimeout", "3d"), time.Hour)
	f(Query{Timeout: time.Minute, Options: map[string]any{"servertimeout": "00:30:00"}}, time.Minute)
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// TestParameters: a value becomes a literal of its type and nothing else.
func TestParameters(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		p, err := ParseParameter(text)
		got := ""
		if err == nil {
			got, err = p.Literal()
		}
		if (err != nil) != (want == "") || got != want {
			t.Errorf("%q is %q (%v), want %q", text, got, err, want)
		}
	}
	f(`s=a "b" \ 'c'`, `"a \"b\" \\ 'c'"`)
	f("s:string=", `""`)
	f("n:int=-5", "int(-5)")
	f("n:int=2147483648", "")
	f("n:long=9223372036854775807", "long(9223372036854775807)")
	f("n:int=0x1F", "int(0x1F)")
	f("n:long=010", "long(010)")
	f("n:int=0b11", "")
	f("n:int=0o17", "")
	f("n:int=1_000", "")
	f("n:int=0x1FFFFFFFF", "")
	f("n:long=null", "long(null)")
	f("n:long=5) | take 1 //", "")
	f("b:bool=1", "bool(true)")
	f("b:boolean=FALSE", "bool(false)")
	f("r:real=1.5e3", "real(1.5e3)")
	f("r:double=nan", "real(nan)")
	f("r:real=x", "")
	f("d:decimal=0.1", "decimal(0.1)")
	f("d:decimal=1/3", "")
	f("t:datetime=2026-11-21T10:00:00.1234567Z", "datetime(2026-11-21T10:00:00.1234567Z)")
	f("t:datetime=2026-11-21", "datetime(2026-11-21)")
	f("t:datetime=2026-11-21 10:00+02:00", "datetime(2026-11-21 10:00+02:00)")
	f("t:datetime=2026-99-99", "")
	f("t:datetime=2026-02-29", "")
	f("t:datetime=2026-11-21T25:00", "")
	f("t:datetime=yesterday", "")
	f("t:timespan=1h30m", "timespan(01:30:00)")
	f("t:time=1.02:03:04.5", "timespan(1.02:03:04.5)")
	f("t:timespan=2d", "timespan(2d)")
	f("t:timespan=99:99", "")
	f("t:timespan=soon", "")
	f("g:guid=f80da32c-108c-415c-a19e-643f461a677a", "guid(f80da32c-108c-415c-a19e-643f461a677a)")
	f("g:guid=f80da32c108c415ca19e643f461a677a", "")
	f(`o:dynamic={"a":[1,"x"]}`, `dynamic({"a":[1,"x"]})`)
	f("o:dynamic={", "")
	f("x:float=1", "")
	f("x y=1", "")
	f("lonely", "")
}

// TestQueryEncodings: an answer may be compressed in any of three ways.
func TestQueryEncodings(t *testing.T) {
	f := func(encoding string, pack func(io.Writer) io.WriteCloser) {
		c := serveQueries(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			z := pack(w)
			io.WriteString(z, v1(v1Well, `[1,"x"]`))
			z.Close()
		})
		var got Collector
		if err := c.Query(t.Context(), &Query{Database: "D", Text: "T"}, &got); err != nil || len(got.Tables) != 1 || len(got.Tables[0].Rows) != 1 {
			t.Errorf("%s: %v, %v", encoding, got, err)
		}
	}
	f("gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	f("x-gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	f("deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	f("deflate", func(w io.Writer) io.WriteCloser {
		z, _ := flate.NewWriter(w, 5)
		return z
	})
}

// TestQueryRefused: a refusal has the service's words, its activity and a hint; a
// token that was refused is replaced once.
func TestQueryRefused(t *testing.T) {
	f := func(status int, body string, code, hint string) {
		t.Helper()
		c := serveQueries(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-ms-activity-id", "act-1")
			w.WriteHeader(status)
			io.WriteString(w, body)
		}, func(o *wire.Options) { o.Auth = &kustotest.StaticToken{Bearer: "abc"} })
		err := c.Query(t.Context(), &Query{Database: "Logs", Text: "T"}, &Collector{})
		var e *kusto.Error
		if !errors.As(err, &e) || e.Status != status || e.Code != code || e.ActivityID != "act-1" || !strings.Contains(e.Hint, hint) || e.Message == "" || e.Partial {
			t.Errorf("%d: %#v", status, err)
		}
	}
	oneAPI := func(code, words string) string {
		return fmt.Sprintf(`{"error":{"code":"BadRequest","message":"Request is invalid.","@message":%q,"@permanent":true,"innererror":{"code":%q}}}`, words, code)
	}
	f(400, oneAPI("SYN0002", "Syntax error: Query could not be parsed at 'x' on line [1,3]"), "BadRequest", "not KQL as it stands")
	f(400, oneAPI("SEM0100", "Semantic error: 'take' operator: Failed to resolve table"), "BadRequest", "a name or a type")
	f(400, oneAPI("BadRequest_EntityNotFound", "Entity ID 'X' of kind 'Database' was not found."), "BadRequest_EntityNotFound", ".show databases")
	f(403, oneAPI("Forbidden", "Principal 'aadapp=1;2' is not authorized to read database 'Logs'"), "Forbidden", ".add database ['Logs'] viewers ('aadapp=1;2')")
	f(401, ``, "", "auth.resource")
	f(429, `{"error":{"code":"Throttling","message":"too many"}}`, "Throttling", "busy")
	f(404, `<html><title>Not here</title></html>`, "", "")
	f(404, ``, "", "no service answers there")
	f(404, oneAPI("Odd", "no such thing"), "BadRequest", "the message names")
	f(302, ``, "", "redirects elsewhere")
	f(503, `{"error":{"code":"ServiceUnavailable","message":"later"}}`, "ServiceUnavailable", "try again")
}

// TestQueryRefreshed: a token that was refused is replaced once, and the second
// request has an id of its own.
func TestQueryRefreshed(t *testing.T) {
	token := &kustotest.StaticToken{Bearer: "abc"}
	var ids []string
	c := serveQueries(t, func(w http.ResponseWriter, r *http.Request) {
		if ids = append(ids, r.Header.Get(wire.HeaderRequest)); len(ids) == 1 {
			w.WriteHeader(401)
			return
		}
		io.WriteString(w, v1(v1Well))
	}, func(o *wire.Options) { o.Auth = token })
	q := &Query{Database: "D", Text: "T", RequestID: "mine"}
	if err := c.Query(t.Context(), q, &Collector{}); err != nil || !slices.Equal(ids, []string{"mine", "mine;2"}) || len(token.Refused) != 1 || q.RequestID != "mine;2" {
		t.Errorf("after a 401: %v, asked as %q, %d tokens given up, called %s", err, ids, len(token.Refused), q.RequestID)
	}
}

// within runs f with a client in a bubble of virtual time, whose answers are those
// of h.
func within(t *testing.T, h http.HandlerFunc, f func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newQuerier(t, "http://127.0.0.1:1", func(o *wire.Options) { o.DialTo = pipes(h) })
		f(t, c)
		c.Close()
	})
}

// pipes opens connections to a handler, over pipes in memory.
func pipes(h http.HandlerFunc) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		l := &onePipe{conn: make(chan net.Conn, 1)}
		l.conn <- far
		close(l.conn)
		go func() { _ = (&http.Server{Handler: h}).Serve(l) }() // ends with the connection
		return here{near}, nil
	}
}

// here is a connection to this machine.
type here struct{ net.Conn }

func (here) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// onePipe is a listener of one connection.
type onePipe struct{ conn chan net.Conn }

func (l *onePipe) Accept() (net.Conn, error) {
	if c, ok := <-l.conn; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *onePipe) Close() error   { return nil }
func (l *onePipe) Addr() net.Addr { return &net.TCPAddr{} }

// TestQueryWaits: a service that asks for time is given it, if the caller wants to
// wait, it is not long, and nothing was begun.
func TestQueryWaits(t *testing.T) {
	const busy = `{"error":{"code":"Throttling","message":"too many"}}`
	f := func(name string, q Query, status int, after, body string, wantRequests int, want time.Duration) {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			within(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", after)
				asked.Add(1)
				w.WriteHeader(status)
				io.WriteString(w, body)
			}, func(t *testing.T, c *Client) {
				if strings.Contains(after, "GMT") {
					after = time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat)
				}
				var waits []time.Duration
				if q.Timeout >= 0 {
					q.OnWait = func(why *kusto.Error, wait time.Duration) {
						if waits = append(waits, wait); why.Status != status {
							t.Errorf("waits for %v", why)
						}
					}
				}
				q.Timeout = max(q.Timeout, 0)
				q.Database = "D"
				began := time.Now()
				err := c.Query(t.Context(), &q, &Collector{})
				var e *kusto.Error
				if !errors.As(err, &e) || e.Status != status || len(after) == 2 && !strings.Contains(e.Hint, "it says to wait") {
					t.Errorf("error %#v", err)
				}
				if took := time.Since(began); int(asked.Load()) != wantRequests || took.Round(time.Second) != want || len(waits) != wantRequests-1 {
					t.Errorf("%d requests in %v, waits %v", asked.Load(), took, waits)
				}
			})
		})
	}
	f("429", Query{Text: "T"}, 429, "10", busy, 4, 30*time.Second)
	f("503 by a date", Query{Text: "T"}, 503, "GMT", "", 2, 20*time.Second) // the date is over then
	f("a long wait", Query{Text: "T"}, 429, "61", busy, 1, 0)
	f("no wait named", Query{Text: "T"}, 429, "", busy, 1, 0)
	f("nobody wants to wait", Query{Text: "T", Timeout: -1}, 429, "10", busy, 1, 0)
	f("the timeout is over before", Query{Text: "T", Timeout: 15 * time.Second}, 429, "10", busy, 2, 10*time.Second)
	f("500", Query{Text: "T"}, 500, "10", busy, 1, 0)
	f("a command", Query{Call: Mgmt, Text: ".drop table T"}, 429, "10", busy, 4, 30*time.Second)
	f("a command, and not the service's words", Query{Call: Mgmt, Text: ".drop table T"}, 503, "10", "", 1, 0)
}

// TestTimeoutEnds: a timeout that was asked for ends soon after it says it does,
// whether no answer comes or one that does not end, and whatever becomes of the
// cancellation.
func TestTimeoutEnds(t *testing.T) {
	for _, begun := range []string{"", v2Head} {
		within(t, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
			if begun != "" && !strings.HasSuffix(r.URL.Path, "/mgmt") {
				io.WriteString(w, begun)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}, func(t *testing.T, c *Client) {
			began := time.Now()
			err := c.Query(t.Context(), &Query{Database: "D", Text: "T", Timeout: time.Second}, &Collector{})
			var unstopped *UnstoppedError
			if took := time.Since(began); !errors.As(err, &unstopped) || took != time.Second+askedGrace+cancelPatience || took > 5*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
}

// TestLostAnswer: of a request that was sent completely the error does not say otherwise.
func TestLostAnswer(t *testing.T) {
	for call, want := range map[Call]string{QueryV2: "try again", Mgmt: "may have run"} {
		c := newQuerier(t, kustotest.Script(t, func(c *net.TCPConn) { kustotest.ReadRequest(c) }))
		var e *kusto.Error
		err := c.Query(t.Context(), &Query{Call: call, Database: "D", Text: ".T"}, &Collector{})
		if !errors.As(err, &e) || !strings.Contains(e.Hint, want) || !strings.Contains(e.Hint, "sent completely") || !kusto.Unreached(err) {
			t.Errorf("error %#v", err)
		}
	}
}

// TestOutOfReach: which answers are not of the service, or of one that is out of
// order, and which are refusals of who asks.
func TestOutOfReach(t *testing.T) {
	const own, page = `{"error":{"code":"Odd","message":"words"}}`, `<html><title>Hello</title></html>`
	f := func(status int, body string, unreached, refused bool) {
		t.Helper()
		c := serveQueries(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
		err := c.Query(t.Context(), &Query{Database: "D", Text: "T"}, &Collector{})
		if e := kustotest.ErrorOf(err); e == nil || kusto.Unreached(err) != unreached || e.Refused() != refused {
			t.Errorf("%d %s: unreached %v, %v", status, body, kusto.Unreached(err), err)
		}
	}
	for _, status := range []int{502, 503, 504} {
		f(status, "", true, false)
		f(status, own, true, false)
		f(status, page, true, false)
	}
	f(200, page, true, false)
	f(400, page, true, false)
	f(404, page, true, false)
	f(404, "", true, false)
	f(404, own, false, false)
	f(302, "", true, false)
	f(308, page, true, false)
	f(407, "", true, false)
	f(401, "", false, true)
	f(401, page, false, true)
	f(403, own, false, true)
	f(403, page, false, true)
	f(400, own, false, false)
	f(429, own, false, false)
	f(500, own, false, false)
	f(200, "[", false, false)
	if !kusto.Unreached(newQuerier(t, "http://127.0.0.1:1").Query(t.Context(), &Query{Text: "T"}, &Collector{})) {
		t.Error("nobody there")
	}
}

// TestCodeOnce: a code that the message begins with is told once.
func TestCodeOnce(t *testing.T) {
	for want, e := range map[string]*kusto.Error{
		"SEM0100: no column":            {Code: "SEM0100", Message: "SEM0100: no column"},
		"status 403: Forbidden: Caller": {Status: 403, Code: "Forbidden", Message: "Forbidden: Caller"},
		"Forbidden: Forbiddenness":      {Code: "Forbidden", Message: "Forbiddenness"},
		"status 500: E (activity x)":    {Status: 500, Code: "E", Message: "E", ActivityID: "x"},
		"status 500: E: words":          {Status: 500, Code: "E", Message: "words"},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
}

// TestIsCommand: comments before a command do not make it a query.
func TestIsCommand(t *testing.T) {
	for text, want := range map[string]bool{
		".show tables": true, " \n.show": true, "// c\n.show": true, "// c\r\n  // d\n\n .show": true, "\ufeff.show": true,
		"T": false, "// .show": false, "": false, "//": false, "/ .show": false,
	} {
		if IsCommand(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}

// TestQueryCancelled: who stops waiting has the service stop too.
func TestQueryCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan string, 1)
	c := serveQueries(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/mgmt") {
			stopped <- string(body)
			io.WriteString(w, v1(v1Well))
			return
		}
		io.WriteString(w, v2Head)
		http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	})
	err := c.Query(ctx, &Query{Database: "D", Text: "T", RequestID: "mine;1"}, &Collector{})
	var unstopped *UnstoppedError
	if !errors.Is(err, context.Canceled) || errors.As(err, &unstopped) {
		t.Errorf("error %v", err)
	}
	if got := <-stopped; !strings.Contains(got, `.cancel query \"mine;1\"`) {
		t.Errorf("sent %s", got)
	}
}

// TestQueryNotCancelled: that the service could not be told to stop is said.
func TestQueryNotCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := serveQueries(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/mgmt") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	var unstopped *UnstoppedError
	err := c.Query(ctx, &Query{Database: "D", Text: "T"}, &Collector{})
	if !errors.Is(err, context.Canceled) || !errors.As(err, &unstopped) || !strings.Contains(unstopped.Why.Error(), "403") {
		t.Errorf("error %#v", err)
	}
}

// TestQueryStreams: rows are handed on before the answer ends.
func TestQueryStreams(t *testing.T) {
	seen := make(chan struct{})
	c := serveQueries(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `[{"FrameType":"DataTable","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}],"Rows":[[1]`)
		http.NewResponseController(w).Flush()
		<-seen
		io.WriteString(w, `]},{"FrameType":"DataSetCompletion","HasErrors":false,"Cancelled":false}]`)
	})
	if err := c.Query(t.Context(), &Query{Database: "D", Text: "T"}, &firstRow{seen: seen}); err != nil {
		t.Error(err)
	}
}

type firstRow struct {
	Collector
	seen chan struct{}
	once sync.Once
}

func (f *firstRow) Row(*Table, []json.RawMessage) error {
	f.once.Do(func() { close(f.seen) })
	return nil
}

// FuzzResult: no answer makes the parser panic, and what it hands on fits its head.
func FuzzResult(f *testing.F) {
	f.Add([]byte(v1(v1Bad, `[1,"x"]`)))
	f.Add([]byte(v2Head + `{"FrameType":"TableHeader","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}]},` +
		`{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataReplace","Rows":[[1],{"OneApiErrors":[{"error":{"code":"x"}}]}]},{"FrameType":"DataSetCompletion","HasErrors":true}]`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		_ = readResult(strings.NewReader(string(answer)), &Query{}, &fitting{t: t})
	})
}

type fitting struct {
	Collector
	t *testing.T
}

func (f *fitting) Row(t *Table, row []json.RawMessage) error {
	if len(row) != len(t.Columns) {
		f.t.Errorf("%d cells in %d columns", len(row), len(t.Columns))
	}
	return f.Collector.Row(t, row)
}
