package emulator

import (
	"compress/zlib"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const strictSchema = `{"databases": {
  "Logs": {"tables": {
    "App": {"columns": "a:long, b:string", "mappings": [
      {"name": "m", "kind": "json", "columns": [{"column": "a", "path": "$.a"}, {"column": "b", "path": "$['b c'][0]"}]},
      {"name": "c", "kind": "Csv", "columns": [{"column": "a", "ordinal": 1}]},
      {"name": "id", "kind": "Json"}]},
    "Off": {"streaming": false},
    "Theirs": {"ingestors": ["somebody"]},
    "my table": {}
  }},
  "Quiet": {"streaming": false, "tables": {"T": {}, "On": {"streaming": true}}}
}}`

// errorOf reads the parts of an error document that decide what a client does.
func errorOf(t *testing.T, body string) (code, detail string, permanent bool) {
	t.Helper()
	var doc oneAPI
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatalf("error body %q: %v", body, err)
	}
	return doc.Error.Code, doc.Error.Detail, doc.Error.Permanent
}

func TestAcceptedBodyIsTheDocumentedOne(t *testing.T) {
	s := New(Options{})
	w := post(s, "/v1/rest/ingest/Logs/App?streamFormat=JSON&mappingName=m", "{\"a\":1}\n{\"a\":2}\n")
	want := `{"Tables":[{"TableName":"Table_0","Columns":[{"ColumnName":"ConsumedRecordsCount","DataType":"Int64"},{"ColumnName":"UpdatePolicyStatus","DataType":"String"},{"ColumnName":"UpdatePolicyFailureCode","DataType":"String"},{"ColumnName":"UpdatePolicyFailureReason","DataType":"String"}],"Rows":[[0,"Inactive","Unknown",null]]}]}`
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w.Header().Get("x-ms-client-request-id") != "test;one;1" || w.Header().Get("x-ms-activity-id") == "" {
		t.Errorf("ids: %v", w.Header())
	}
	if got := raws(s, "LOGS", "App"); !reflect.DeepEqual(got, []string{`{"a":1}`, `{"a":2}`}) {
		t.Errorf("rows: %q", got)
	}
	if s.RowCount("Logs", "app") != 0 {
		t.Error("table names are case-sensitive")
	}
}

func TestErrorBodyIsTheDocumentedOne(t *testing.T) {
	s := New(Options{Schema: loadSchema(t, strictSchema)})
	w := post(s, "/v1/rest/ingest/Logs/Nope?streamFormat=CSV", "a\n")
	want := `^\{"error":\{"code":"BadRequest_EntityNotFound","message":"Request is invalid and cannot be executed\.",` +
		`"@type":"Kusto\.Data\.Exceptions\.EntityNotFoundException","@message":"Entity ID 'Nope' of kind 'Table' was not found\.",` +
		`"@context":\{"timestamp":"[-0-9T:.]+Z","serviceAlias":"EMULATOR","machineName":"KEngine000000","processName":"Kusto\.WinSvc\.Svc",` +
		`"processId":\d+,"threadId":1,"clientRequestId":"test;one;1","activityId":"([-0-9a-f]{36})","subActivityId":"[-0-9a-f]{36}",` +
		`"activityType":"DN\.StreamingIngestCommand","parentActivityId":"[-0-9a-f]{36}","activityStack":"[^"]+"\},"@permanent":true\}\}$`
	m := regexp.MustCompile(want).FindStringSubmatch(w.Body.String())
	if w.Code != 400 || m == nil || m[1] != w.Header().Get("x-ms-activity-id") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	w = post(s, "/v1/rest/ingest/Logs/Nope?streamFormat=CSV", "a\n", "Accept", "")
	if !regexp.MustCompile(`(?s)^Request is invalid.*\nError details:\nClientRequestId='test;one;1', ActivityId='[^']+', Timestamp='[^']+'\.$`).MatchString(w.Body.String()) {
		t.Errorf("without Accept: %s", w.Body)
	}
}

func TestStrictness(t *testing.T) {
	s := New(Options{Schema: loadSchema(t, strictSchema)})
	f := func(target, body string, status int, code, detail string) {
		t.Helper()
		w := post(s, target, body)
		if w.Code != status {
			t.Errorf("%s: got %d %s, want %d", target, w.Code, w.Body, status)
			return
		}
		if status == 200 {
			return
		}
		gotCode, gotDetail, permanent := errorOf(t, w.Body.String())
		if gotCode != code || !strings.Contains(gotDetail, detail) || !permanent {
			t.Errorf("%s: got %s %q permanent=%v, want %s %q", target, gotCode, gotDetail, permanent, code, detail)
		}
	}
	const in = "/v1/rest/ingest/"
	ok := func(target, body string) { t.Helper(); f(target, body, 200, "", "") }

	ok(in+"Logs/App?streamFormat=csv", "1,x\n")
	ok(in+"lOGS/App?streamFormat=Csv", "1,x\n")
	ok(in+"Logs/my%20table?streamFormat=TXT", "x\n")
	ok(in+"Quiet/On?streamFormat=TXT", "x\n")
	ok(in+"Logs/App?streamFormat=MULTIJSON&mappingName=m", "{}")
	ok(in+"Logs/App?streamFormat=CSV&mappingName=c", "1,2")

	f(in+"Logs/my%2520table?streamFormat=TXT", "x\n", 400, "BadRequest_EntityNotFound", "Entity ID 'my%20table' of kind 'Table' was not found.")
	f(in+"Logs/a%2Fb?streamFormat=TXT", "x\n", 400, "BadRequest_EntityNotFound", "Entity ID 'a/b' of kind 'Table' was not found.")
	f(in+"Logs/app?streamFormat=TXT", "x\n", 400, "BadRequest_EntityNotFound", "Entity ID 'app' of kind 'Table' was not found.")
	f(in+"Nope/App?streamFormat=TXT", "x\n", 400, "BadRequest_EntityNotFound", "Entity ID 'Nope' of kind 'Database' was not found.")
	f(in+"Logs/App?streamFormat=JSON&mappingName=M", "{}", 400, "BadRequest_EntityNotFound", "Entity ID 'M' of kind 'MappingPersistent' was not found.")
	f(in+"Logs/App?streamFormat=JSON&mappingName=c", "{}", 400, "BadRequest_EntityNotFound", "Entity ID 'c' of kind 'MappingPersistent' was not found.")
	f(in+"Logs/App?streamFormat=CSV&mappingName=m", "1", 400, "BadRequest_EntityNotFound", "Entity ID 'm' of kind 'MappingPersistent' was not found.")
	f(in+"Logs/App", "x\n", 400, "BadRequest_FormatNotSupported", "''")
	f(in+"Logs/App?streamFormat=parquet", "x\n", 400, "BadRequest_FormatNotSupported", "'parquet'")
	f(in+"Logs/App?streamFormat=Avro&mappingName=m", "x\n", 400, "BadRequest_EntityNotFound", "Entity ID 'm' of kind 'MappingPersistent' was not found.")
	f(in+"Logs/App?streamFormat=Avro", "x\n", 400, "BadRequest_MissingMappingtFailure", "Avro and Json formats must be ingested with")
	f(in+"Logs/App?streamFormat=JSON", "{}", 400, "BadRequest_MissingMappingtFailure", "'JSON'")
	f(in+"Logs/App?streamFormat=JSON&mappingName=", "{}", 400, "BadRequest_EmptyMappingReference", "")
	f(in+"Logs/App?streamFormat=CSV&mappingname=c", "1", 400, "BadRequest", "Unknown query parameter 'mappingname'.")
	f(in+"Logs/App?streamFormat=CSV&streamFormat=CSV", "1", 400, "BadRequest", "more than once")
	f(in+"Logs/App?streamFormat=CSV&sourceKind=uri", "{}", 400, "BadRequest_SourceKindNotSupported", "'uri'")
	f(in+"Logs/Off?streamFormat=TXT", "x", 400, "BadRequest_StreamingIngestionPolicyNotEnabled", "'Off'")
	f(in+"Quiet/T?streamFormat=TXT", "x", 400, "BadRequest_StreamingIngestionPolicyNotEnabled", "'T'")
	f(in+"Logs/Theirs?streamFormat=TXT", "x", 403, "Forbidden",
		"Forbidden: Caller is not authorized to perform this action: Principal 'aadapp=' is not authorized to perform operation 'StreamIngest' on 'https://example.com/Logs/Theirs'.")
	if got := s.RowCount("Logs", "App"); got != 4 {
		t.Errorf("stored %d rows, want those of the four good requests", got)
	}
}

func TestClusterSwitch(t *testing.T) {
	s := New(Options{Schema: loadSchema(t, `{"streaming": false}`)})
	w := post(s, ingestURL("Logs", "App", "TXT", ""), "x")
	if code, _, permanent := errorOf(t, w.Body.String()); w.Code != 404 || code != "NotFound_StreamingIngestionDisabledForCluster" || !permanent {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestOtherMethodsAndPaths(t *testing.T) {
	s := New(Options{})
	f := func(method, target string, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, target, nil))
		if w.Code != status {
			t.Errorf("%s %s: got %d, want %d", method, target, w.Code, status)
		}
	}
	f("GET", "/v1/rest/ingest/Logs/App?streamFormat=TXT", 405)
	f("PUT", "/v1/rest/ingest/Logs/App?streamFormat=TXT", 405)
	f("POST", "/v1/rest/ingest/Logs?streamFormat=TXT", 404)
	f("POST", "/v1/rest/ingest/Logs/App/x?streamFormat=TXT", 404)
	f("POST", "/v1/rest/Ingest/Logs/App?streamFormat=TXT", 400) // the body is empty
	f("POST", "/v1/rest/mgmt", 400)
	f("GET", "/v1/rest/mgmt", 405)
	f("POST", "/v2/rest/mgmt", 404)
	f("POST", "/", 405)
}

func TestWithoutSchemaAllValidNamesExist(t *testing.T) {
	s := New(Options{})
	f := func(db, table string, status int) {
		t.Helper()
		if w := post(s, ingestURL(db, table, "TXT", ""), "x\n"); w.Code != status {
			t.Errorf("%q %q: got %d %s", db, table, w.Code, w.Body)
		}
	}
	f("Logs", "App", 200)
	f("Größe", "a-b_c.d e", 200)
	f("Logs", strings.Repeat("t", 1024), 200)
	f("Logs", strings.Repeat("t", 1025), 400)
	f("Logs", "a%20b", 400)
	f("Logs", "a+b", 400)
	f("", "App", 400)
}

func TestBodies(t *testing.T) {
	s := New(Options{MaxBody: 200, MaxDecoded: 1000})
	gz := []string{"Content-Encoding", "gzip"}
	f := func(body string, headers []string, status int, code string) {
		t.Helper()
		w := post(s, ingestURL("d", "t", "TXT", ""), body, headers...)
		gotCode := ""
		if w.Code != 200 {
			gotCode, _, _ = errorOf(t, w.Body.String())
		}
		if w.Code != status || gotCode != code {
			t.Errorf("%q: got %d %s, want %d %s", body, w.Code, w.Body, status, code)
		}
	}
	line := strings.Repeat("x", 99) + "\n"
	f("a\n", nil, 200, "")
	f("a\n", []string{"Content-Encoding", "identity"}, 200, "")
	f("a\n", []string{"Content-Encoding", "deflate"}, 400, "BadRequest")
	f(zip("a\n"), gz, 200, "")
	f(zip("a\n"), []string{"Content-Encoding", "GZIP"}, 200, "")
	f(zip("a\n", "b\n"), gz, 200, "")
	f("", nil, 400, "BadRequest")
	f("", gz, 400, "BadRequest_InvalidBlob")
	f(zip(""), gz, 400, "BadRequest")
	f("a\n", gz, 400, "BadRequest_InvalidBlob")
	f(zip("a\n")[:20], gz, 400, "BadRequest_InvalidBlob")
	f(zip("a\n")+"junk", gz, 400, "BadRequest_InvalidBlob")
	f(zip("a\n")+"\x00", gz, 400, "BadRequest_InvalidBlob")
	f(zip("a\n")+zip("b\n")[:11], gz, 400, "BadRequest_InvalidBlob")
	f(strings.Repeat(line, 2), nil, 200, "")
	f(strings.Repeat(line, 2)+"x", nil, 413, "KustoRequestPayloadTooLargeException")
	f(zip(strings.Repeat(line, 10)), gz, 200, "")
	f(zip(strings.Repeat(line, 10)+"x"), gz, 413, "KustoRequestPayloadTooLargeException")
	f(zip(strings.Repeat(line, 1000)), gz, 413, "KustoRequestPayloadTooLargeException")
	if got, want := s.RowCount("d", "t"), 2+1+1+2+2+10; got != want {
		t.Errorf("stored %d rows, want %d", got, want)
	}

	s = New(Options{MaxBody: 10, TooLargeAs400: true})
	f(line, nil, 400, "Stream_InputStreamTooLarge")
}

func TestRequestsAreRecorded(t *testing.T) {
	s := New(Options{KeepRequests: 2})
	const target = "/v1/rest/ingest/my%20db/App?streamFormat=JSON&mappingName=a%2Bb"
	post(s, ingestURL("d", "forgotten", "TXT", ""), "x")
	post(s, target, zip("{}\nbad\n"), "Content-Encoding", "gzip", "Authorization", "Bearer secret", "x-ms-client-request-id", "kusto-agent.ingest;uuid;12")
	post(s, target, "bad", "x-ms-client-request-id", "")
	got := s.Requests()
	if len(got) != 2 {
		t.Fatalf("kept %d requests, want 2", len(got))
	}
	r := got[0]
	if r.Number != 2 || r.RawPath != "/v1/rest/ingest/my%20db/App" || r.Query != "streamFormat=JSON&mappingName=a%2Bb" ||
		r.Database != "my db" || r.Mapping != "a+b" || r.Attempt != 12 || r.Status != 200 || r.Records != 1 || r.Dropped != 1 ||
		!r.Whole || !r.Stored || r.RawLen != 7 || r.BodyLen != int64(len(zip("{}\nbad\n"))) || len(r.BodyHash) != 64 || r.RawSum != rawSum([]byte("{}\nbad\n"), false) {
		t.Errorf("first: %+v", r)
	}
	if strings.Contains(r.Header.Get("Authorization"), "secret") || r.Header.Get("Authorization") == "" {
		t.Errorf("token: %q", r.Header.Get("Authorization"))
	}
	if r := got[1]; r.Status != 400 || r.Code != "BadRequest" || r.Stored || r.Dropped != 1 || r.Records != 0 {
		t.Errorf("second: %+v", r)
	}
	total := s.Totals()
	if total.Requests != 3 || total.Records != 2 || total.DroppedLines != 2 || total.ByStatus[200] != 2 || total.MaxConcurrent != 1 {
		t.Errorf("totals: %+v", total)
	}
	if s.DroppedLines() != 2 {
		t.Error("dropped lines are counted for good and refused bodies alike")
	}
}

func TestAnswersAreCompressedWhenAsked(t *testing.T) {
	s := New(Options{})
	f := func(accept, body, encoding string) {
		t.Helper()
		w := post(s, ingestURL("d", "t", "TXT", ""), body, "Accept-Encoding", accept)
		got := w.Body.Bytes()
		if is := w.Header().Get("Content-Encoding"); is != encoding {
			t.Errorf("%q: %q, want %q", accept, is, encoding)
		}
		switch encoding {
		case "gzip":
			got = []byte(unzip(t, w.Body))
		case "deflate":
			z, err := zlib.NewReader(w.Body)
			if err == nil {
				got, err = io.ReadAll(z)
			}
			if err != nil {
				t.Errorf("%q: %v", accept, err)
			}
		}
		if !json.Valid(got) {
			t.Errorf("%q: %q", accept, got)
		}
	}
	f("gzip", "x", "gzip")
	f("gzip", "", "gzip")
	f("deflate, gzip;q=0.5", "x", "gzip")
	f("deflate", "x", "deflate")
	f("gzip;q=0, deflate", "x", "deflate")
	f("gzip;q=0", "x", "")
	f("identity", "x", "")
	f("", "x", "")
}

func TestStrictMethodHeader(t *testing.T) {
	w := httptest.NewRecorder()
	New(Options{}).ServeHTTP(w, httptest.NewRequest("GET", "/v1/rest/ingest/d/t", nil))
	if w.Header().Get("Allow") != http.MethodPost || w.Body.String() != `{"Message":"The requested resource does not support http method 'GET'."}` {
		t.Errorf("got %v %s", w.Header(), w.Body)
	}
}
