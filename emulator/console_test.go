package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/emulator/internal/kql"
)

// asker is a server with one database and somebody who asks it.
type asker struct {
	t     *testing.T
	s     *Server
	token string
}

// say sends a text and returns the rows of the first table that was asked for, one
// a line, or the error.
func (a asker) say(call, text string) string {
	a.t.Helper()
	body := string(kql.JSON(map[string]any{"db": "logs", "csl": text, "properties": map[string]any{"Parameters": map[string]string{"p": "long(2)"}}}))
	w := post(a.s, call, body, "Authorization", "Bearer "+a.token)
	return answerOf(a.t, w)
}

func (a asker) mgmt(text string) string  { a.t.Helper(); return a.say("/v1/rest/mgmt", text) }
func (a asker) query(text string) string { a.t.Helper(); return a.say("/v2/rest/query", text) }

func answerOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	if w.Code != 200 {
		var doc oneAPI
		if json.Unmarshal(w.Body.Bytes(), &doc) != nil || doc.Error.Code == "" {
			return fmt.Sprintf("%d %s", w.Code, w.Body)
		}
		if inner := doc.Error.Inner; inner != nil {
			return fmt.Sprintf("%d %s: %s", w.Code, inner.Code, inner.Detail)
		}
		return fmt.Sprintf("%d %s: %s", w.Code, doc.Error.Code, doc.Error.Detail)
	}
	var one struct{ Tables []table1 }
	if w.Body.Bytes()[0] == '{' {
		if err := json.Unmarshal(w.Body.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		return lines(one.Tables[0].Rows)
	}
	var frames []struct {
		FrameType, TableKind, TableFragmentType string
		TableId                                 int
		Rows                                    []json.RawMessage
	}
	if err := json.Unmarshal(w.Body.Bytes(), &frames); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	var rows [][]json.RawMessage
	for _, f := range frames {
		if f.TableKind == "PrimaryResult" || f.FrameType == "TableFragment" {
			if f.TableFragmentType == "DataReplace" {
				rows = nil
			}
			for _, raw := range f.Rows {
				var row []json.RawMessage
				if json.Unmarshal(raw, &row) == nil { // else it is an error
					rows = append(rows, row)
				}
			}
		}
	}
	return lines(rows)
}

func lines(rows [][]json.RawMessage) string {
	var all []string
	for _, row := range rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, string(c))
		}
		all = append(all, strings.Join(cells, " "))
	}
	return strings.Join(all, "\n")
}

const emptyLogs = `{"databases": {"Logs": {}}}`

// TestSetUpByCommands: a table, its mapping and its policy are made by commands, and
// what is ingested then is found by queries.
func TestSetUpByCommands(t *testing.T) {
	a := asker{t: t, s: New(Options{Schema: loadSchema(t, emptyLogs), SchemaDelay: time.Hour})}
	has := func(got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("got %s\nwant %q in it", got, w)
			}
		}
	}
	line := `{"time":"2026-01-02T03:04:05Z","level":"warn","took":1.5,"n":9223372036854775807}` + "\n"
	url := ingestURL("Logs", "App", "JSON", "App_json")
	has(a.mgmt(".create-merge table ['App'] (['ts']:datetime, level:string, took:real, n:long)"), `"App"`)
	has(a.mgmt(".create-merge table App (level:string, ['a b']:dynamic)"), `"App"`)
	has(a.mgmt(".create-merge table App (level:long)"), "400 BadRequest_ColumnTypeMismatch")
	has(a.mgmt(".create table Sums (d:decimal)"), `\"Type\":\"System.Data.SqlTypes.SqlDecimal\"`)
	has(a.mgmt(".drop table Sums"), "")
	has(a.mgmt(".show table App cslschema"), "ts:datetime,level:string,took:real,n:long,['a b']:dynamic")
	has(a.mgmt(".show table App schema as json"), `\"OrderedColumns\"`, `\"CslType\":\"datetime\"`)
	has(a.mgmt(".create-or-alter table App ingestion json mapping \"App_json\" ```[{\"column\":\"ts\",\"Properties\":{\"Path\":\"$.time\"}},\n"+
		"{\"column\":\"level\",\"path\":\"$.level\"},{\"column\":\"took\",\"Properties\":{\"Path\":\"$['took']\"}},{\"column\":\"n\",\"Properties\":{\"Path\":\"$.n\"}}]```"), `"App_json" "Json"`)
	has(a.mgmt(`.create table App ingestion json mapping "App_json" '[{"column":"ts","path":"$.x"}]'`), "EntityAlreadyExists")
	has(a.mgmt(`.create-or-alter table App ingestion csv mapping "c" '[{"column":"zz","Properties":{"Ordinal":"0"}}]'`), "400 BadRequest_InvalidMapping")
	has(a.mgmt(`.create-or-alter table App ingestion csv mapping "App_csv" '[{"Name":"ts","DataType":"datetime","Ordinal":"0"},{"column":"level","Properties":{"Ordinal":1}}]'`), `"Csv"`)
	has(a.mgmt(".show table App ingestion mappings | project Name, Kind | order by Name asc"), "\"App_csv\" \"Csv\"\n\"App_json\" \"Json\"")
	has(a.mgmt(`.show table App ingestion json mapping "App_json"`), `$['took']`)
	has(a.mgmt(`.show table App ingestion json mapping "nope"`), "of kind 'MappingPersistent' was not found")
	has(a.mgmt(".show table App policy streamingingestion"), `"null"`)
	has(a.mgmt(".show table App policy update"), `"UpdatePolicy"`)
	has(a.mgmt(".show table App policy update"), `"null"`)
	has(a.mgmt(".alter table App policy streamingingestion disable"), `"IsEnabled\":false`[1:])
	has(a.mgmt(`.alter table App policy streamingingestion '{"IsEnabled": true}'`), `IsEnabled\":true`)

	has(a.mgmt(`.alter table App policy streamingingestion '{"IsEnabled": true, "HintAllocatedRate": 2.1}'`), `"[Logs].[App]" "{\"IsEnabled\":true,\"HintAllocatedRate\":2.1}"`)
	has(a.mgmt(".alter-merge table App policy streamingingestion disable"), `{\"IsEnabled\":false,\"HintAllocatedRate\":2.1}`)
	has(a.mgmt(`.alter-merge table App policy streamingingestion '{"HintAllocatedRate": 3}'`), `{\"IsEnabled\":false,\"HintAllocatedRate\":3}`)
	has(a.mgmt(".show table App policy streamingingestion"), `{\"IsEnabled\":false,\"HintAllocatedRate\":3}`)
	has(a.mgmt(".delete table App policy streamingingestion"), `"[Logs].[App]" "null" "[]" "Table"`)
	has(a.mgmt(`.alter-merge database Logs policy streamingingestion '{"HintAllocatedRate": 1.5}'`), `"[Logs]" "{\"IsEnabled\":true,\"HintAllocatedRate\":1.5}"`)
	has(a.mgmt(".alter database Logs policy streamingingestion enable"), `{\"IsEnabled\":true,\"HintAllocatedRate\":null}`)
	has(a.mgmt(".delete database Logs policy streamingingestion"), `"[Logs]" "null" "[]" "Database"`)
	if w := post(a.s, url, line); w.Code != 400 {
		t.Errorf("before the cache was cleared: %d", w.Code)
	}
	has(a.mgmt(".clear database cache streamingingestion schema"), `"Succeeded"`)
	for range 3 {
		if w := post(a.s, url, line); w.Code != 200 {
			t.Fatalf("ingest: %d %s", w.Code, w.Body)
		}
	}
	has(a.query("App | count"), "3")
	has(a.query("App | take 1"), `"2026-01-02T03:04:05.0000000Z" "warn" 1.5 9223372036854775807 null`)
	has(a.query("App | where level == 'warn' and ts > datetime(2026-01-01) | summarize rows=count(), last=max(ts), t=sum(took) by level"), `"warn" 3 "2026-01-02T03:04:05.0000000Z" 4.5`)
	has(a.query("App | where level has 'error' | summarize count()"), "0")
	has(a.query("App | extend d = ts + 1h | project d, level"), `"2026-01-02T04:04:05.0000000Z" "warn"`)
	has(a.query("App | getschema | where ColumnName == 'n' | project ColumnType"), `"long"`)
	has(a.query("declare query_parameters(p:long); App | take p | count"), "2")
	has(a.query("print x = 1 + 2, current_database(), tostring(2h)"), `3 "Logs" "02:00:00"`)
	has(a.query("App | where nothing == 1"), "400 SEM0100: SEM0100: Semantic error: Failed to resolve scalar expression named 'nothing'")
	has(a.query("Nope | count"), "400 SEM0100")
	has(a.query("App | wher x"), "400 SYN0002")
	has(a.query(".show tables"), "400 Bad request: Control commands")
	has(a.say("/v1/rest/query", "App | count"), "3")
	has(a.mgmt("App | count"), "begins with a dot")
	has(a.mgmt(".show streamingingestion failures | project Table, ErrorCode, Count"), `"App" "BadRequest_EntityNotFound" 1`)
	has(a.mgmt(".show streamingingestion statistics | project Table, TotalRowCount"), `"App" 3`)
	has(a.mgmt(".show streamingingestion statistics | project Count, MinDataSize, MaxDataSize, TotalDataSize, MinRowCount, MaxRowCount, NodeId, Principal"),
		fmt.Sprintf(`3 %d %d %d 1 1 "KEngine000000" "aadapp=`, len(line), len(line), 3*len(line)))
	has(a.mgmt(".show streamingingestion statistics | where MinDuration <= AvgDuration and AvgDuration <= MaxDuration | count"), "1")
	if got := a.mgmt(".show ingestion failures | project OperationId, ErrorCode, ShouldRetry"); got != "" {
		t.Errorf("failures of commands: %s", got)
	}
	has(a.mgmt(".show tables | count"), "1")
	has(a.mgmt(".show databases"), `"Logs"`)
	has(a.mgmt(".show database Logs schema as json"), `\"App\"`)
	has(a.mgmt(".clear table App data"), "Succeeded")
	has(a.query("App | count"), "0")
	has(a.mgmt(".drop table App"), "")
	has(a.mgmt(".show table App cslschema"), "of kind 'Table' was not found")
	has(a.mgmt(".drop table App ifexists"), "")
	if n := len(a.s.Asked()); n < 30 {
		t.Errorf("%d questions are remembered", n)
	}
}

// TestDecimals: a decimal keeps all its digits, wherever it comes from and whatever
// is made of it.
func TestDecimals(t *testing.T) {
	a := asker{t: t, s: New(Options{Schema: loadSchema(t, `{"databases": {"Logs": {"tables": {"T": {"columns": "d:decimal, n:long", "mappings": [{"name": "m", "kind": "Json"}]}}}}}`)})}
	body := `{"d":18446744073709551615,"n":1}` + "\n" + `{"d":"1.23456789012345678901234567","n":2}` + "\n" + `{"d":-1e-7,"n":3}` + "\n" + `{"d":1e999999999,"n":4}` + "\n" + `{"d":"x","n":5}` + "\n"
	if w := post(a.s, ingestURL("Logs", "T", "JSON", "m"), body); w.Code != 200 {
		t.Fatalf("ingest: %d %s", w.Code, w.Body)
	}
	f := func(text, want string) {
		t.Helper()
		if got := a.query(text); got != want {
			t.Errorf("%s\ngives %s\nwant  %s", text, got, want)
		}
	}
	f("T | order by n asc | project d", `"18446744073709551615"`+"\n"+`"1.23456789012345678901234567"`+"\n"+`"-0.0000001"`+"\nnull\nnull")
	f("print decimal(1.23456789012345678901234567), decimal(1e3), decimal(null)", `"1.23456789012345678901234567" "1000" null`)
	f("print -decimal(0.1), decimal(0.1) + decimal(0.2), 1 + decimal(0.1), decimal(0.5) + 0.25", `"-0.1" "0.3" "1.1" 0.75`)
	f("print tostring(decimal(0.10)), todecimal('18446744073709551616'), decimal(9007199254740993) == 9007199254740992, decimal(0.1) == 0.1",
		`"0.1" "18446744073709551616" false true`)
	f("T | where d > decimal(18446744073709551614) | project n", "1")
	f("T | where n < 4 | summarize sum(d), max(d), dcount(d)", `"18446744073709551616.23456779012345678901234567" "18446744073709551615" 3`)
	f("T | where n > 9 | summarize sum(d)", `"0"`)
}

// TestFormsOfResults: the same rows in every form of answer.
func TestFormsOfResults(t *testing.T) {
	s := New(Options{})
	if w := post(s, ingestURL("Logs", "App", "TXT", ""), "a\nb\nc\n"); w.Code != 200 {
		t.Fatal(w.Code)
	}
	f := func(target, options string, rows string, inside ...string) {
		t.Helper()
		w := post(s, target, `{"db":"Logs","csl":"App","properties":`+string(kql.JSON(`{"Options":`+options+`}`))+`}`)
		if got := answerOf(t, w); got != rows {
			t.Errorf("%s %s: %s", target, options, got)
		}
		for _, part := range inside {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("%s %s: no %s in %s", target, options, part, w.Body)
			}
		}
	}
	all := "[\"a\"]\n[\"b\"]\n[\"c\"]"
	f("/v1/rest/query", `{}`, all, `"StatusDescription"`, `"PrettyName"`)
	f("/v2/rest/query", `{}`, all, `"DataTable"`, `"HasErrors":false`)
	f("/v2/rest/query", `{"results_v2_fragment_primary_tables":true}`, all, `"TableFragment"`, `"TableCompletion"`)
	f("/v2/rest/query", `{"results_progressive_enabled":true}`, all, `"DataReplace"`, `"TableProgress":50`)
	f("/v2/rest/query", `{"truncationmaxrecords":2}`, "[\"a\"]\n[\"b\"]", `"OneApiErrors"`, "E_QUERY_RESULT_SET_TOO_LARGE")
	f("/v1/rest/query", `{"truncationmaxrecords":2}`, "[\"a\"]\n[\"b\"]", `"Exceptions"`, `"Severity"`)
	f("/v2/rest/query", `{"query_take_max_records":2}`, "[\"a\"]\n[\"b\"]", `"HasErrors":false`)
	f("/v2/rest/query", `{"query_take_max_records":9}`, all, `"HasErrors":false`)
	got := get(t, s, "/v2/rest/query?db=Logs&csl=App%20%7C%20count&properties=%7B%7D")
	if !strings.Contains(got, `"Rows":[[3]]`) {
		t.Errorf("by GET: %s", got)
	}
	w := post(s, "/v1/rest/mgmt", `{"db":"Logs","csl":".create table X (a:int)"}`, "x-ms-readonly", "true")
	if got := answerOf(t, w); !strings.Contains(got, "readonly") {
		t.Errorf("read-only: %s", got)
	}
}

// TestRoles: who may read, and who may change.
func TestRoles(t *testing.T) {
	s := New(Options{TokenSecret: "s", Schema: loadSchema(t, `{"databases": {"Logs": {"viewers": ["v"], "admins": ["boss"], "ingestors": ["boss"], "tables": {"T": {"columns": "a:int"}}}}}`)})
	as := func(id string) asker {
		token, _ := s.tokens.issue(id)
		return asker{t, s, token}
	}
	f := func(got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(asker{t, s, ""}.query("T | count"), "401")
	f(as("x").query("T | count"), "403 Forbidden: Forbidden: Caller is not authorized to perform this action: Principal 'aadapp=x'")
	f(as("v").query("T | count"), "0")
	f(as("v").query("print current_principal()"), `"aadapp=v"`)
	f(as("v").mgmt(".create table U (a:int)"), "403 Forbidden")
	f(as("boss").mgmt(".add table T ingestors ('aadapp=v;tenant') 'for the agent'"), `"aadapp=v"`)
	f(as("boss").mgmt(".add database Logs viewers ('aadapp=x;tenant')"), `"aadapp=x"`)
	f(as("x").query("T | count"), "0")
	f(as("v").mgmt(`.create-or-alter table T ingestion json mapping "m" '[{"column":"a","path":"$.a"}]'`), `"m" "Json"`)
	f(as("x").mgmt(`.create-or-alter table T ingestion json mapping "m" '[{"column":"a","path":"$.a"}]'`), "403")
	f(as("boss").mgmt(".show table T principals"), `"Table Ingestor"`)
	f(as("boss").mgmt(".add table T ingestors ('someone@example.com')"), "InvalidPrincipal")
}

// TestCancelOfOneOfTwo: of two queries with one client request id, the one that is left when the other
// has ended can be cancelled.
func TestCancelOfOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		defer s.Close()
		s.Fail(Fault{Match: Match{Kind: KindQuery}, Hang: true})
		ask := func(timeout string) chan int {
			done := make(chan int, 1)
			go func() {
				w := post(s, "/v2/rest/query", `{"db":"Logs","csl":"print 1","properties":{"Options":{"servertimeout":"`+timeout+`"}}}`, "x-ms-client-request-id", "mine")
				done <- w.Code
			}()
			synctest.Wait() // it hangs
			return done
		}
		first, second := ask("1s"), ask("1h")
		if code := <-first; code != http.StatusGatewayTimeout {
			t.Errorf("the first is answered with %d", code)
		}
		for _, want := range []string{`"mine" true`, `"mine" false`} {
			if got := answerOf(t, post(s, "/v1/rest/mgmt", `{"db":"Logs","csl":".cancel query 'mine'"}`)); got != want {
				t.Errorf("cancel: %s, want %s", got, want)
			}
		}
		if code := <-second; code != http.StatusBadRequest {
			t.Errorf("the second is answered with %d", code)
		}
	})
}

// TestCancelledQuery: a query that a fault holds ends when it is cancelled.
func TestCancelledQuery(t *testing.T) {
	s := start(t, Options{})
	script := s.Fail(Fault{Match: Match{Kind: KindQuery}, Hang: true})
	done := make(chan string)
	go func() { // awaited below
		w := post(s, "/v2/rest/query", `{"db":"Logs","csl":"print 1"}`, "x-ms-client-request-id", "mine;1")
		done <- answerOf(t, w)
	}()
	if err := script.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w := post(s, "/v1/rest/mgmt", `{"db":"Logs","csl":".cancel query \"mine;1\""}`)
	if got := answerOf(t, w); got != `"mine;1" true` {
		t.Errorf("cancel: %s", got)
	}
	<-done
}
