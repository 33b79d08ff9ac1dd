package emulator

import (
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/emulator/internal/kql"
)

var update = flag.Bool("update", false, "write the golden frames anew")

var (
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z`)
	anyID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyPID  = regexp.MustCompile(`"processId":\d+`)
)

// TestGoldenFrames: a result is, byte for byte, what testdata/frames has, times and
// ids apart. The files hold the keys in the order of the service.
func TestGoldenFrames(t *testing.T) {
	s := New(Options{Schema: loadSchema(t, `{"databases": {"Logs": {"tables": {"App": {"columns": "line:string, n:long"}}}}}`)})
	if w := post(s, ingestURL("Logs", "App", "CSV", ""), "a,1\nb,2\nc,3\n"); w.Code != 200 {
		t.Fatal(w.Code)
	}
	query := "App"
	f := func(name, target, options string) {
		t.Helper()
		w := post(s, target, `{"db":"Logs","csl":"`+query+`","properties":{"Options":`+options+`}}`)
		got := anyTime.ReplaceAllString(w.Body.String(), "2026-01-02T03:04:05.0000000Z")
		got = anyID.ReplaceAllString(got, "00000000-0000-0000-0000-000000000001")
		got = anyPID.ReplaceAllString(got, `"processId":1`)
		file := filepath.Join("testdata", "frames", name)
		if *update {
			if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got+"\n" != string(want) {
			t.Errorf("%s\nis   %s\nwant %s", name, got, want)
		}
	}
	const lines = `"results_v2_newlines_between_frames":true`
	const parts = lines + `,"results_v2_fragment_primary_tables":true`
	f("plain.json", "/v2/rest/query", `{}`)
	f("lines.json", "/v2/rest/query", `{`+lines+`}`)
	f("fragments.json", "/v2/rest/query", `{`+parts+`,"results_error_reporting_placement":"end_of_table"}`)
	f("progressive.json", "/v2/rest/query", `{`+lines+`,"results_progressive_enabled":true}`)
	f("truncated-in-data.json", "/v2/rest/query", `{`+lines+`,"truncationmaxrecords":1}`)
	f("truncated-fragments-in-data.json", "/v2/rest/query", `{`+parts+`,"truncationmaxrecords":1}`)
	f("truncated-end-of-table.json", "/v2/rest/query", `{`+parts+`,"results_error_reporting_placement":"end_of_table","truncationmaxrecords":1}`)
	f("truncated-end-of-dataset.json", "/v2/rest/query", `{`+parts+`,"results_error_reporting_placement":"end_of_dataset","truncationmaxrecords":1}`)
	f("truncated-by-size.json", "/v2/rest/query", `{`+lines+`,"truncationmaxsize":10}`)
	query = "App | where n > 1; print x=1 | render table"
	f("two-tables.json", "/v2/rest/query", `{`+parts+`,"results_error_reporting_placement":"end_of_table"}`)
	f("v1-two-tables.json", "/v1/rest/query", `{}`)
	query = "App"
	f("v1.json", "/v1/rest/query", `{}`)
	f("v1-truncated.json", "/v1/rest/query", `{"truncationmaxrecords":1}`)
}

// TestFramesAsTheGoSDKReadsThem: the decoder of Microsoft's Go SDK takes keys in one
// order only, and fails on every other. Its demands, read from its source, hold for
// each golden file with fragments.
func TestFramesAsTheGoSDKReadsThem(t *testing.T) {
	order := map[string]string{
		"DataSetHeader":     "FrameType IsProgressive Version IsFragmented ErrorReportingPlacement",
		"DataTable":         "FrameType TableId TableKind TableName Columns Rows",
		"TableHeader":       "FrameType TableId TableKind TableName Columns",
		"TableFragment":     "FrameType TableFragmentType TableId Rows",
		"TableCompletion":   "FrameType TableId RowCount",
		"DataSetCompletion": "FrameType HasErrors Cancelled",
	}
	for _, name := range []string{"fragments.json", "truncated-end-of-table.json", "two-tables.json"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "frames", name))
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Split(strings.TrimSpace(string(raw)), "\n")
		if all[len(all)-1] != "]" {
			t.Errorf("%s ends with %q", name, all[len(all)-1])
		}
		for i, line := range all[:len(all)-1] {
			if line[0] != "[,"[min(i, 1)] {
				t.Errorf("%s: line %d begins with %q", name, i, line[:1])
			}
			dec := json.NewDecoder(strings.NewReader(line[1:]))
			var keys []string
			var kind string
			if _, err := dec.Token(); err != nil {
				t.Fatal(err)
			}
			for dec.More() {
				key, err := dec.Token()
				if err != nil {
					t.Fatal(err)
				}
				var value json.RawMessage
				if err := dec.Decode(&value); err != nil {
					t.Fatal(err)
				}
				if key == "FrameType" {
					kind = strings.Trim(string(value), `"`)
				}
				if key != "OneApiErrors" {
					keys = append(keys, key.(string))
				}
			}
			if got := strings.Join(keys, " "); got != order[kind] {
				t.Errorf("%s: %s has %s, want %s", name, kind, got, order[kind])
			}
		}
		if !strings.HasPrefix(string(raw), `[{"FrameType":"DataSetHeader","IsProgressive":false,"Version":"v2.0","IsFragmented":true,"ErrorReportingPlacement":"EndOfTable"}`) {
			t.Errorf("%s begins with %.160s", name, raw)
		}
	}
}

// TestReadOnlyByPresence: x-ms-readonly acts whatever its value is.
func TestReadOnlyByPresence(t *testing.T) {
	s := New(Options{})
	for _, value := range []string{"", "false", "true", "1"} {
		w := post(s, "/v1/rest/mgmt", `{"db":"Logs","csl":".create table X (a:int)"}`, "x-ms-readonly", value)
		if got := answerOf(t, w); !strings.Contains(got, "readonly") {
			t.Errorf("%q: %s", value, got)
		}
	}
}

// TestClientRequestIDOfProperties: the id in the properties is that of the request:
// it is echoed, stands in errors and cancels.
func TestClientRequestIDOfProperties(t *testing.T) {
	s := start(t, Options{})
	w := post(s, "/v2/rest/query", `{"db":"Logs","csl":"print 1","properties":{"ClientRequestId":"mine;2"}}`)
	if got := w.Header().Get("x-ms-client-request-id"); got != "mine;2" {
		t.Errorf("echo is %q", got)
	}
	if got := answerOf(t, post(s, "/v2/rest/query", `{"db":"Logs","csl":"print 1","properties":{"ClientRequestId":"a\r\nb: ü"}}`)); got != "1" {
		t.Errorf("an id that fits no header: %s", got)
	}
	w = post(s, "/v2/rest/query", `{"db":"Logs","csl":"prin 1","properties":"{\"ClientRequestId\":\"mine;3\"}"}`)
	if !strings.Contains(w.Body.String(), `"clientRequestId":"mine;3"`) {
		t.Errorf("error is %s", w.Body)
	}
	script := s.Fail(Fault{Match: Match{Kind: KindQuery}, Hang: true})
	done := make(chan *httptest.ResponseRecorder)
	go func() { // awaited below
		done <- post(s, "/v2/rest/query", `{"db":"Logs","csl":"print 1","properties":{"ClientRequestId":"mine;4"}}`)
	}()
	if err := script.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w = post(s, "/v1/rest/mgmt", `{"db":"Logs","csl":".cancel query \"mine;4\""}`)
	if got := answerOf(t, w); got != `"mine;4" true` {
		t.Errorf("cancel: %s", got)
	}
	if w := <-done; w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "cancel") {
		t.Errorf("the cancelled query is answered with %d %s", w.Code, w.Body)
	}
}

// TestServerTimeout: a query ends when the time that it gave itself is over, and with
// an error; what is no time is refused.
func TestServerTimeout(t *testing.T) {
	ask := func(s *Server, options string) *httptest.ResponseRecorder {
		return post(s, "/v2/rest/query", `{"db":"Logs","csl":"print 1","properties":{"Options":`+options+`}}`)
	}
	f := func(options string, want time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{})
			defer s.Close()
			s.Fail(Fault{Match: Match{Kind: KindQuery}, Hang: true})
			began := time.Now()
			w := ask(s, options)
			if got := time.Since(began); got != want {
				t.Errorf("%s: answered after %v, want %v", options, got, want)
			}
			if got := answerOf(t, w); w.Code != http.StatusGatewayTimeout || !strings.Contains(got, "timed out") || strings.Contains(w.Body.String(), `"@permanent":true`) {
				t.Errorf("%s: %s", options, got)
			}
		})
	}
	f(`{"servertimeout":"00:00:01"}`, time.Second)
	f(`{"servertimeout":"00:00:01.5000000"}`, 1500*time.Millisecond)
	f(`{"servertimeout":"50m"}`, 50*time.Minute)
	f(`{"servertimeout":"time(3s)"}`, 3*time.Second)
	f(`{"servertimeout":"2h"}`, time.Hour) // the most there is
	f(`{"norequesttimeout":true}`, time.Hour)
	f(`{}`, 4*time.Minute)
	synctest.Test(t, func(t *testing.T) { // a command that is held does not run
		s := New(Options{Schema: loadSchema(t, emptyLogs)})
		defer s.Close()
		s.Fail(Fault{Match: Match{Kind: KindMgmt}, Hang: true, Times: 1})
		w := post(s, "/v1/rest/mgmt", `{"db":"Logs","csl":".create table X (a:int)","properties":{"Options":{"servertimeout":"5s"}}}`)
		if got := answerOf(t, post(s, "/v1/rest/mgmt", `{"db":"Logs","csl":".show tables"}`)); w.Code != http.StatusGatewayTimeout || got != "" {
			t.Errorf("the command is answered with %d, and made %s", w.Code, got)
		}
	})
	for _, bad := range []string{`"blah"`, `"-1s"`, `"0s"`, `17`, `true`, `null`, `""`} {
		if got := answerOf(t, ask(New(Options{}), `{"servertimeout":`+bad+`}`)); !strings.Contains(got, "400 BadRequest") || !strings.Contains(got, "servertimeout") {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

// TestParametersOnTheWire: a string or a long may be given as it is, the rest as
// literals; a value of another type is refused.
func TestParametersOnTheWire(t *testing.T) {
	s := New(Options{})
	f := func(typ, value, want string) {
		t.Helper()
		w := post(s, "/v2/rest/query", `{"db":"Logs","csl":"declare query_parameters(p:`+typ+`); print p","properties":{"Parameters":{"p":`+value+`}}}`)
		if got := answerOf(t, w); !strings.HasPrefix(got, want) {
			t.Errorf("%s %s gives %s, want %s", typ, value, got, want)
		}
	}
	f("string", `"TEXAS"`, `"TEXAS"`)
	f("string", `"it's | take 1"`, `"it's | take 1"`)
	f("string", `"'TEXAS'"`, `"TEXAS"`)
	f("string", `"\"a\\\"b\""`, `"a\"b"`)
	f("string", `""`, `""`)
	f("string", `"now()"`, `"now()"`)
	f("long", `10`, "10")
	f("long", `"10"`, "10")
	f("long", `"long(10)"`, "10")
	f("long", `9223372036854775807`, "9223372036854775807")
	f("long", `"TEXAS"`, "400")
	f("long", `"dynamic([1])"`, "400")
	f("int", `"int(7)"`, "7")
	f("real", `"real(1.5)"`, "1.5")
	f("real", `"1.5"`, "1.5")
	f("bool", `"true"`, "true")
	f("bool", `"bool(false)"`, "false")
	f("datetime", `"datetime(2020-01-02)"`, `"2020-01-02T00:00:00.0000000Z"`)
	f("timespan", `"timespan(1.02:03:04)"`, `"1.02:03:04"`)
	f("timespan", `"90m"`, `"01:30:00"`)
	f("guid", `"guid(74be27de-1e4e-49d9-b579-fe0b331d3642)"`, `"74be27de-1e4e-49d9-b579-fe0b331d3642"`)
	f("decimal", `"decimal(1.25)"`, `"1.25"`)
	f("dynamic", `"dynamic([\"ATLANTIC SOUTH\"])"`, `["ATLANTIC SOUTH"]`)
	f("dynamic", `"dynamic({'a':1})"`, `{"a":1}`)
	f("datetime", `"2020 or so"`, "400")
}

// TestInDynamic: the query that the description of the interface shows gives rows.
func TestInDynamic(t *testing.T) {
	s := New(Options{Schema: loadSchema(t, `{"databases": {"Samples": {"tables": {"StormEvents": {"columns": "StartTime:datetime, State:string"}}}}}`)})
	body := "2007-01-01,TEXAS\n2007-02-01,ATLANTIC SOUTH\n2007-03-01,ATLANTIC SOUTH\n2007-04-01,OHIO\n"
	if w := post(s, ingestURL("Samples", "StormEvents", "CSV", ""), body); w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	const south = `"2007-03-01T00:00:00.0000000Z" "ATLANTIC SOUTH"` + "\n" + `"2007-02-01T00:00:00.0000000Z" "ATLANTIC SOUTH"`
	w := post(s, "/v2/rest/query", `{"db":"Samples","csl":"declare query_parameters (n:long, d:dynamic); StormEvents | where State in (d) | top n by StartTime desc","properties":`+
		`{"Options":{"maxmemoryconsumptionperiterator":68719476736,"servertimeout":"50m"},"Parameters":{"n":10,"d":"dynamic([\"ATLANTIC SOUTH\"])"}}}`)
	if got := answerOf(t, w); got != south {
		t.Errorf("got %s", got)
	}
	for _, list := range []string{`(dynamic(['ATLANTIC SOUTH']))`, `('x', 'ATLANTIC SOUTH')`} {
		w := post(s, "/v2/rest/query", `{"db":"Samples","csl":"StormEvents | where State in `+list+` | top 10 by StartTime desc"}`)
		if got := answerOf(t, w); got != south {
			t.Errorf("in %s: %s", list, got)
		}
	}
}

// TestPathsAndMethods: the service knows its paths in any case and with a slash
// behind them, and a refused method names those that there are.
func TestPathsAndMethods(t *testing.T) {
	s := New(Options{})
	f := func(method, path, body string, status int, allow string) {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Accept", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != status || w.Header().Get("Allow") != allow {
			t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
		}
	}
	const query, show = `{"db":"Logs","csl":"print 1"}`, `{"db":"Logs","csl":".show tables"}`
	f("GET", "/v1/rest/mgmt", "", 405, "POST")
	f("PUT", "/v1/rest/mgmt", show, 405, "POST")
	f("PUT", "/v2/rest/query", query, 405, "GET, POST")
	f("GET", "/v1/rest/ingest/Logs/App?streamFormat=csv", "", 405, "POST")
	f("POST", "/v1/rest/mgmt", show, 200, "")
	f("POST", "/V1/REST/Mgmt", show, 200, "")
	f("POST", "/v1/rest/mgmt/", show, 200, "")
	f("POST", "/V2/REST/query/", query, 200, "")
	f("POST", "/V1/REST/query", query, 200, "")
	f("POST", "/V1/Rest/Ingest/Logs/App/?streamFormat=csv", "a\n", 200, "")
	f("POST", "/v2/rest/mgmt", show, 404, "")
	f("GET", "/V1/rest/auth/metadata/", "", 200, "")
	if w := post(s, "/V1/REST/query/", query); !strings.HasPrefix(w.Body.String(), `{"Tables":`) {
		t.Errorf("v1 in capitals: %s", w.Body)
	}
	if n := len(s.Rows("Logs", "App")); n != 1 {
		t.Errorf("%d rows are in App", n)
	}
}

// TestErrorsOfQueries: the code of the language stands in innererror, as the service
// has it, with the type of a syntax or a semantic error.
func TestErrorsOfQueries(t *testing.T) {
	f := func(text, code, typ string) {
		t.Helper()
		w := post(New(Options{}), "/v2/rest/query", string(kql.JSON(map[string]string{"db": "Logs", "csl": text})))
		var doc struct {
			Error struct {
				Code  string
				Inner struct {
					Code string
					Type string `json:"@type"`
				} `json:"innererror"`
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		if w.Code != 400 || doc.Error.Code != "General_BadRequest" || doc.Error.Inner.Code != code || doc.Error.Inner.Type != "Kusto.Data.Exceptions."+typ {
			t.Errorf("%s: %d %s", text, w.Code, w.Body)
		}
	}
	f("print x", "SEM0100", "SemanticException")
	f("Nope | count", "SEM0100", "SemanticException")
	f("print 1 +", "SYN0002", "SyntaxException")
	f("print 'a", "SYN0002", "SyntaxException")
	if e := queryRefusal(errors.New("E_LOW_MEMORY_CONDITION: no room")); e.code != "LimitsExceeded" || e.inner != nil {
		t.Errorf("too much: %+v", e)
	}
}
