package kusto

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/emulator/emulatortest"
)

// hintFiles hold every hint about the service, its authority and the way to them.
var hintFiles = []string{"hint.go", "queryerror.go", "aad.go"}

// hintTexts are the pieces of hints that stand in the source, with the place of
// each. What is no hint is short, a pattern, or what an error is searched for.
func hintTexts(t *testing.T) map[string]string {
	t.Helper()
	const shortest = 25
	files, texts := token.NewFileSet(), make(map[string]string)
	for _, name := range hintFiles {
		file, err := goparser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if f, ok := x.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "MustCompile" || f.Sel.Name == "Contains") {
					return false
				}
			case *ast.BasicLit:
				text, err := strconv.Unquote(x.Value)
				if err != nil || x.Kind != token.STRING || strings.HasPrefix(text, "get token") {
					return true
				}
				for part := range strings.SplitSeq(text, "%s") {
					if len(part) >= shortest && strings.Contains(part, " ") {
						texts[part] = files.Position(x.Pos()).String()
					}
				}
			}
			return true
		})
	}
	return texts
}

// hinted is one run of the table: what was reached.
type hinted struct {
	*testing.T
	server *emulator.Server
	client *Client
	hints  []string
}

// says holds an error to what every message about a failure has to carry: the
// code, the words, the activity id, where there are any, and what to do.
func (h *hinted) says(name string, e *Error, hint string, words ...string) {
	h.Helper()
	if e == nil {
		h.Errorf("%s: no error", name)
		return
	}
	h.hints = append(h.hints, e.Hint)
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			h.Errorf("%s: %q is not in %q", name, w, e.Error())
		}
	}
	if !strings.Contains(e.Hint, hint) || e.Hint == "" {
		h.Errorf("%s: the hint is %q, want %q", name, e.Hint, hint)
	}
	if e.ActivityID != "" && !strings.Contains(e.Error(), e.ActivityID) {
		h.Errorf("%s: the activity is not in %q", name, e.Error())
	}
}

// ingest tells what a request says of in, under a fault if there is one.
func (h *hinted) ingest(f *emulator.Fault, in Ingest, hint string, words ...string) {
	h.Helper()
	if f != nil {
		defer h.server.Fail(*f).Remove()
	}
	in.Body, in.RequestID = []byte("{}"), "kusto-agent.ingest;id;1"
	a := h.client.Ingest(h.Context(), &in)
	h.says(in.Format+" into "+in.Table, a.Err, hint, words...)
	if a.Err != nil && a.ActivityID == "" {
		h.Errorf("%s: there is no activity", hint)
	}
}

// ask tells what a query or a command is answered with under a fault.
func (h *hinted) ask(f emulator.Fault, call Call, text, hint string, words ...string) {
	h.Helper()
	f.Match.Kind = emulator.KindQuery
	if call == Mgmt {
		f.Match.Kind = emulator.KindMgmt
	}
	if f.Status != 0 {
		if f.Message != "" {
			words = append(words, f.Message)
		}
		if f.Code != "" {
			words = append(words, f.Code)
		}
		defer h.server.Fail(f).Remove()
	}
	e := errorOf(h.client.Query(h.Context(), &Query{Call: call, Database: "Logs", Text: text}, &Collector{}))
	h.says(text, e, hint, words...)
	if e != nil && e.ActivityID == "" {
		h.Errorf("%s: there is no activity", text)
	}
}

func errorOf(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
}

const hintSchema = `{"databases": {
	"Logs": {"tables": {
		"App": {"columns": "n:long", "mappings": [{"name": "m", "kind": "Json"}]},
		"Off": {"streaming": false, "columns": "n:long"},
		"Shut": {"ingestors": ["other"], "columns": "n:long"}}},
	"Secret": {"viewers": ["other"], "admins": ["other"]}}}`

// TestEveryHint reaches each hint by what causes it, at the emulator where that can
// do it, and fails if the source has one that no row reaches.
func TestEveryHint(t *testing.T) {
	schema, err := emulator.LoadSchema(strings.NewReader(hintSchema))
	if err != nil {
		t.Fatal(err)
	}
	h := &hinted{T: t, server: emulatortest.Start(t, emulator.Options{Schema: schema})}
	h.client = newClient(t, h.server.URL())
	h.ofIngestion()
	h.ofQueries()
	h.ofTheWay()
	h.ofTheAuthority()
	for text, place := range hintTexts(t) {
		if !slices.ContainsFunc(h.hints, func(hint string) bool {
			return strings.Contains(hint, text) || strings.Contains(hint, filledIn(text))
		}) {
			t.Errorf("%s: no row reaches %q", place, text)
		}
	}
}

func (h *hinted) ofIngestion() {
	f := func(fault *emulator.Fault, table, format, mapping, hint string, words ...string) {
		h.Helper()
		h.ingest(fault, Ingest{Database: "Logs", Table: table, Format: format, Mapping: mapping}, hint, words...)
	}
	status := func(n int, as emulator.As) *emulator.Fault { return &emulator.Fault{Status: n, As: as} }
	code := func(n int, code string) *emulator.Fault {
		return &emulator.Fault{Status: n, Code: code, Message: "their words"}
	}
	f(nil, "None", "CSV", "", ".create table ['None']", "BadRequest_EntityNotFound", "'None'")
	f(nil, "App", "JSON", "x", `.create-or-alter table ['App'] ingestion json mapping "x"`, "BadRequest_EntityNotFound", "'x'")
	f(nil, "App", "Avro", "x", "ingestion avro mapping", "'x'")
	f(nil, "App", "CSV", "x", "ingestion csv mapping", "'x'")
	h.ingest(nil, Ingest{Database: "Nope", Table: "App", Format: "CSV"}, ".show databases", "'Nope'")
	f(nil, "Off", "CSV", "", ".alter table ['Off'] policy streamingingestion enable", "BadRequest_StreamingIngestionPolicyNotEnabled")
	f(nil, "Shut", "CSV", "", ".add table ['Shut'] ingestors", "status 403", "Forbidden", "not authorized")
	f(code(404, "NotFound_StreamingIngestionDisabledForCluster"), "App", "CSV", "", "in the portal under Configurations", "their words")
	f(code(400, "BadRequest_InvalidMapping"), "App", "CSV", "", ".show table ['App'] ingestion mappings", "BadRequest_InvalidMapping", "their words")
	f(code(400, "UpdatePolicy_BadRequest"), "App", "CSV", "", ".show table ['App'] policy update", "UpdatePolicy_BadRequest", "their words")
	f(status(401, ""), "App", "CSV", "", "auth.resource is the audience", "status 401")
	f(status(404, emulator.AsEmpty), "App", "CSV", "", "or cluster is not its query URI", "status 404")
	f(status(404, emulator.AsHTML), "App", "CSV", "", "; if it is the cluster's own: ", "a web page")
	f(status(400, emulator.AsHTML), "App", "CSV", "", pageAgain, "a web page")
	f(status(409, emulator.AsEmpty), "App", "CSV", "", "may be stopped or changing", "status 409")
	f(status(407, emulator.AsEmpty), "App", "CSV", "", proxyHint, "status 407")
	f(status(417, emulator.AsEmpty), "App", "CSV", "", "send.expect_continue: false", "status 417")
	f(status(302, emulator.AsEmpty), "App", "CSV", "", "data is not sent there", "redirected to")
	f(status(400, emulator.AsJunk), "App", "CSV", "", ".show streamingingestion failures", "status 400")
}

func (h *hinted) ofQueries() {
	f := func(status int, code, message, hint string) {
		h.Helper()
		h.ask(emulator.Fault{Status: status, Code: code, Message: message}, QueryV2, "App", hint)
	}
	f(400, "AdminCommandWrongEndpoint", "go elsewhere", "with ingest- before its name")
	f(400, "LimitsExceeded", "E_QUERY_RESULT_SET_TOO_LARGE: too much", "| take 1000")
	f(400, "LimitsExceeded", "Query execution has exceeded the allowed limits (80DA0003): .", "| take 1000")
	f(400, "LimitsExceeded", "Query execution has exceeded the allowed limits (80DA0007): .", "more memory than the service gives")
	f(400, "LimitsExceeded", "E_LOW_MEMORY_CONDITION: no room", "more memory than the service gives")
	f(504, "Timeout", "Request timed out", "an hour is the most")
	f(400, "BadRequest", "a control command cannot be sent to the query endpoint", "send it with mgmt")
	f(403, "Forbidden", "Principal 'aadapp=me' is not authorized to perform operation 'x' on 'y'", ".add database ['Logs'] viewers ('aadapp=me')")
	f(429, "Throttling", "too much", "the service is busy")
	f(520, "ServiceError", "it broke", "the service failed at it")
	f(400, "BadRequest_Odd", "it is odd", "give support the activity id")
	h.ask(emulator.Fault{}, QueryV2, "App | wher n", "is not KQL as it stands", "SYN")
	h.ask(emulator.Fault{}, QueryV2, "Nope", "check columns with .show table", "SEM")
	h.ask(emulator.Fault{}, Mgmt, ".show table Nope cslschema", "check the names", "BadRequest_EntityNotFound")
	h.ask(emulator.Fault{Status: 403}, Mgmt, ".create table X (a:int)", ".add database ['Logs'] admins")
	page := func(n int, as emulator.As, hint string, words ...string) {
		h.Helper()
		h.ask(emulator.Fault{Status: n, As: as}, QueryV2, "App", hint, words...)
	}
	page(400, emulator.AsHTML, pageHint, "a web page")
	page(502, emulator.AsHTML, pageHint, "a web page")
	if last := h.hints[len(h.hints)-1]; strings.Contains(last, "by itself") {
		h.Errorf("a query is asked once, and the hint is %q", last)
	}
	page(401, emulator.AsEmpty, "auth.resource is the audience")
	page(404, emulator.AsEmpty, "nothing answers there")
	page(407, emulator.AsEmpty, proxyHint)
	page(302, emulator.AsEmpty, "no token is sent there")
	h.ask(emulator.Fault{Status: 200, Body: "hello"}, QueryV2, "App", pageHint)
	h.ask(emulator.Fault{Status: 200, Body: `[{"FrameType":"DataSetHeader","Version":"v2.0"},{"FrameType":`}, QueryV2, "App", "in the middle of the result")
	const table = `{"FrameType":"TableHeader","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}]}`
	h.ask(emulator.Fault{Status: 200, Body: `[` + strings.Repeat("[", 2*maxDepth)}, QueryV2, "App", "")
	h.ask(emulator.Fault{Status: 200, Body: `[{"New":` + strings.Repeat("[", 2*maxDepth)}, QueryV2, "App", "fewer rows with | take")
	h.ask(emulator.Fault{Status: 200, Body: `[` + table + `,{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataAppend","Rows":[[1]]},` +
		`{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataReplace","Rows":[[2]]}`}, QueryV2, "App", "leave the option results_progressive_enabled out")

	readOnly := errorOf(h.client.Query(h.Context(), &Query{Call: Mgmt, Database: "Logs", Text: ".create table X (a:int)", ReadOnly: true}, &Collector{}))
	h.says("read-only", readOnly, "leave that out to change something", "BadRequest_RequestReadonly")
	ctx, cancel := context.WithDeadline(h.Context(), time.Unix(1, 0))
	defer cancel()
	late := errorOf(h.client.Query(ctx, &Query{Call: QueryV2, Database: "Logs", Text: "App"}, &Collector{}))
	h.says("late", late, "with a longer timeout", "no answer in time")
}

// ofTheWay needs servers that the emulator is not.
func (h *hinted) ofTheWay() {
	none := func(http.ResponseWriter, *http.Request) {}
	f := func(name, url, hint string, change ...func(*Options)) {
		h.Helper()
		h.says(name, newClient(h.T, url, change...).Ingest(h.Context(), sample("x")).Err, hint)
	}
	url, trust := serveTLS(h.T, none, nil)
	f("unknown authority", url, "send.tls.ca_file")
	f("other host", strings.Replace(url, "127.0.0.1", "localhost", 1), "is for another host", trust)
	old, trustOld := serveTLS(h.T, none, func(c *tls.Config) { c.MaxVersion, c.MinVersion = tls.VersionTLS11, tls.VersionTLS10 })
	f("old TLS", old, "send.tls.min_version", trustOld)
	f("nobody there", "http://127.0.0.1:1", "nothing listens there")
	f("no proxy", "https://127.0.0.1:1", "the proxy cannot be reached", func(o *Options) { o.Proxy = "http://127.0.0.1:1" })
	var shown atomic.Value
	f("proxy wants a login", url, proxyHint, trust, func(o *Options) { o.Proxy = connectProxy(h.T, http.StatusProxyAuthRequired, &shown) })
	broken := script(h.T, func(c *net.TCPConn) { readHead(c); reset(c) })
	h.says("reset", broken.Ingest(h.Context(), big()).Err, "firewalls and proxies")

	lost := script(h.T, func(c *net.TCPConn) { readRequest(c) })
	for _, call := range []Call{QueryV2, Mgmt} {
		h.says("lost", errorOf(lost.Query(h.Context(), &Query{Call: call, Database: "D", Text: ".T"}, &Collector{})), "went out whole")
	}

	// What only the world can do.
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}},
		x509.CertificateInvalidError{Reason: x509.Expired},
		&net.OpError{Op: "write", Err: syscall.EPIPE},
	} {
		h.says(err.Error(), errorOf(noAnswer(h.Context(), err, "")), "", err.Error())
	}
}

// filledIn is a hint about the application and the tenant of the test.
func filledIn(hint string) string {
	return strings.NewReplacer("<client id>", "me", "<tenant>", "t").Replace(hint)
}

func (h *hinted) ofTheAuthority() {
	file := filepath.Join(h.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a secret"), 0o600); err != nil {
		h.Fatal(err)
	}
	ask := func(authority string) *Error {
		h.Helper()
		tokens, err := NewTokenSource(AuthConfig{Method: "client_secret", Authority: authority, Tenant: "t", ClientID: "me", ClientSecretFile: file}, h.server.URL(), TokenOptions{})
		if err != nil {
			h.Fatal(err)
		}
		defer tokens.Close()
		_, err = tokens.Token(h.Context())
		return errorOf(err)
	}
	f := func(code string) {
		h.Helper()
		body, err := json.Marshal(map[string]string{"error": "invalid_client", "error_description": code + ": their words.\nTrace ID: x"})
		if err != nil {
			h.Fatal(err)
		}
		defer h.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 401, Body: string(body)}).Remove()
		h.says(code, ask(h.server.URL()), filledIn(aadHints[code]), "status 401", code, "their words")
	}
	for code := range aadHints {
		f(code)
	}
	f("AADSTS99999") // one that nobody has explained
	broken := h.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 500, As: emulator.AsEmpty})
	h.says("out of order", ask(h.server.URL()), "the authority, or a proxy on the way to it, is out of order: try again", "status 500")
	broken.Remove()
	page := h.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 200, As: emulator.AsJunk, Body: "welcome"})
	h.says("a page", ask(h.server.URL()), "check auth.authority", "not the authority")
	page.Remove()
	away := h.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 302, As: emulator.AsEmpty})
	h.says("a redirect", ask(h.server.URL()), "no secret is sent there", "status 302", "redirected to")
	away.Remove()
	h.says("nobody there", ask("http://127.0.0.1:1"), "the authority gave no token", "get token")
}
