package wire

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/emulator/emulatortest"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
	"kusto-agent/internal/kusto/internal/reply"
)

// hinted is one run of the table, against an emulator.
type hinted struct {
	kustotest.Hinted
	server *emulator.Server
	client *Client
}

// ingest tells what a request says of in, under a fault if there is one.
func (h *hinted) ingest(f *emulator.Fault, in kusto.Ingest, hint string, words ...string) {
	h.Helper()
	if f != nil {
		defer h.server.Fail(*f).Remove()
	}
	in.Body, in.RequestID = []byte("{}"), "kusto-agent.ingest;id;1"
	a := h.client.Ingest(h.Context(), &in)
	h.Says(in.Format+" into "+in.Table, a.Err, hint, words...)
	if a.Err != nil && a.ActivityID == "" {
		h.Errorf("%s: there is no activity", hint)
	}
}

const hintSchema = `{"databases": {
	"Logs": {"tables": {
		"App": {"columns": "n:long", "mappings": [{"name": "m", "kind": "Json"}]},
		"Off": {"streaming": false, "columns": "n:long"},
		"Shut": {"ingestors": ["other"], "columns": "n:long"}}}}}`

// TestEveryHint reaches each hint by what causes it, at the emulator where that can
// do it, and fails if the source has one that no row reaches.
func TestEveryHint(t *testing.T) {
	schema, err := emulator.LoadSchema(strings.NewReader(hintSchema))
	if err != nil {
		t.Fatal(err)
	}
	h := &hinted{Hinted: kustotest.Hinted{T: t}, server: emulatortest.Start(t, emulator.Options{Schema: schema})}
	h.client = newClient(t, h.server.URL(), func(o *Options) { o.Auth = &kustotest.StaticToken{Bearer: "zq-token"} })
	h.ofIngestion()
	h.ofTheWay()
	h.Covers([]string{"hint.go"})
}

func (h *hinted) ofIngestion() {
	f := func(fault *emulator.Fault, table, format, mapping, hint string, words ...string) {
		h.Helper()
		h.ingest(fault, kusto.Ingest{Database: "Logs", Table: table, Format: format, Mapping: mapping}, hint, words...)
	}
	status := func(n int, as emulator.As) *emulator.Fault { return &emulator.Fault{Status: n, As: as} }
	code := func(n int, code string) *emulator.Fault {
		return &emulator.Fault{Status: n, Code: code, Message: "their words"}
	}
	f(nil, "None", "CSV", "", "make it: kusto-agent setup; if it exists and is new: .clear table ['None']", "BadRequest_EntityNotFound", "'None'")
	f(nil, "App", "JSON", "x", "its kind, which is json: .show table ['App'] ingestion mappings; if there is none, make it: kusto-agent setup", "BadRequest_EntityNotFound", "'x'")
	f(nil, "App", "Avro", "x", "its kind, which is avro", "'x'")
	f(nil, "App", "CSV", "x", "its kind, which is csv", "'x'")
	h.ingest(nil, kusto.Ingest{Database: "Nope", Table: "App", Format: "CSV"}, ".show databases", "'Nope'")
	f(nil, "Off", "CSV", "", ".alter table ['Off'] policy streamingingestion enable", "BadRequest_StreamingIngestionPolicyNotEnabled")
	f(nil, "Shut", "CSV", "", ".add table ['Shut'] ingestors", "status 403", "Forbidden", "not authorized")
	f(code(404, "NotFound_StreamingIngestionDisabledForCluster"), "App", "CSV", "", "in the portal under Configurations", "their words")
	f(code(400, "BadRequest_InvalidMapping"), "App", "CSV", "", ".show table ['App'] ingestion mappings", "BadRequest_InvalidMapping", "their words")
	f(code(400, "UpdatePolicy_BadRequest"), "App", "CSV", "", ".show table ['App'] policy update", "UpdatePolicy_BadRequest", "their words")
	f(status(401, ""), "App", "CSV", "", "auth.resource is the audience", "status 401")
	f(status(404, emulator.AsEmpty), "App", "CSV", "", "or cluster is not its query URI", "status 404")
	f(status(404, emulator.AsHTML), "App", "CSV", "", "; if it is the cluster's own: ", "a web page")
	f(status(400, emulator.AsHTML), "App", "CSV", "", reply.PageAgain, "a web page")
	f(status(409, emulator.AsEmpty), "App", "CSV", "", "may be stopped or changing", "status 409")
	f(status(407, emulator.AsEmpty), "App", "CSV", "", ProxyHint, "status 407")
	f(status(417, emulator.AsEmpty), "App", "CSV", "", "send.expect_continue: false", "status 417")
	f(status(302, emulator.AsEmpty), "App", "CSV", "", "data is not sent there", "redirected to")
	f(status(400, emulator.AsJunk), "App", "CSV", "", ".show streamingingestion failures", "status 400")
}

// ofTheWay needs servers that the emulator is not.
func (h *hinted) ofTheWay() {
	none := func(http.ResponseWriter, *http.Request) {}
	f := func(name, url, hint string, change ...func(*Options)) {
		h.Helper()
		h.Says(name, newClient(h.T, url, change...).Ingest(h.Context(), sample("x")).Err, hint)
	}
	url, trust := serveTLS(h.T, none, nil)
	f("unknown authority", url, "send.tls.ca_file")
	f("other host", strings.Replace(url, "127.0.0.1", "localhost", 1), "is for another host", trust)
	old, trustOld := serveTLS(h.T, none, func(c *tls.Config) { c.MaxVersion, c.MinVersion = tls.VersionTLS11, tls.VersionTLS10 })
	f("old TLS", old, "send.tls.min_version", trustOld)
	f("nobody there", "http://127.0.0.1:1", "nothing listens there")
	f("no proxy", "https://127.0.0.1:1", "the proxy cannot be reached", func(o *Options) { o.Proxy = "http://127.0.0.1:1" })
	var shown atomic.Value
	f("proxy wants a login", url, ProxyHint, trust, func(o *Options) { o.Proxy = connectProxy(h.T, http.StatusProxyAuthRequired, &shown) })
	broken := script(h.T, func(c *net.TCPConn) { kustotest.ReadHead(c); kustotest.Reset(c) })
	h.Says("reset", broken.Ingest(h.Context(), big()).Err, "firewalls and proxies")

	// What only the world can do.
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}},
		x509.CertificateInvalidError{Reason: x509.Expired},
		&net.OpError{Op: "write", Err: syscall.EPIPE},
	} {
		h.Says(err.Error(), kustotest.ErrorOf(NoAnswer(h.Context(), err, "")), "", err.Error())
	}
}

// TestHintsNameTheConfiguration: a command that needs the configuration names the one in use.
func TestHintsNameTheConfiguration(t *testing.T) {
	in := sample("x")
	for _, kind := range []string{"Table", "MappingReference"} {
		body := oneError("BadRequest_EntityNotFound", "Entity ID 'x' of kind '"+kind+"' was not found.", true)
		a := judge(&outcome{Sent: true, Status: 400, Header: http.Header{}, Body: []byte(body)}, in, "", " --config /srv/agent.yaml")
		if want := "make it: kusto-agent setup --config /srv/agent.yaml; "; !strings.Contains(a.Hint, want) {
			t.Errorf("%s: %q, want %q in it", kind, a.Hint, want)
		}
	}
}

func TestHints(t *testing.T) {
	f := func(status int, body, want string) {
		t.Helper()
		in := sample("x")
		in.Table, in.Mapping = "my table", "my map"
		a := judge(&outcome{Sent: true, Status: status, Header: map[string][]string{}, Body: []byte(body)}, in, "", "")
		if !strings.Contains(a.Hint, want) || a.Err.Hint != a.Hint {
			t.Errorf("%d %s\n got %q\nwant %q in it", status, body, a.Hint, want)
		}
	}
	f(400, oneError("BadRequest_StreamingIngestionPolicyNotEnabled", "", true), ".alter table ['my table'] policy streamingingestion enable")
	f(403, oneError("Forbidden", "Caller is not authorized to perform this action: Principal 'aadapp=1-2;tenant' is not authorized to perform operation 'o' on 'x'", true), ".add table ['my table'] ingestors ('aadapp=1-2;tenant')")
	f(403, "", ".add table ['my table'] ingestors ('aadapp=<client id>;<tenant>')")
	f(404, "", ".alter table ['my table'] policy streamingingestion enable")
	f(400, oneError("BadRequest_EntityNotFound", "Entity ID 'my table' of kind 'Table' was not found.", true), ".clear table ['my table'] cache")
	f(400, oneError("BadRequest_EntityNotFound", "Entity ID 'my table' of kind 'Table' was not found.", true), ".clear table ['my table'] cache streamingingestion schema")
	f(400, oneError("BadRequest_EntityNotFound", "Entity ID 'my map' of kind 'MappingPersistent' was not found.", true), ".show table ['my table'] ingestion mappings")
	f(400, oneError("BadRequest_DatabaseNotExist", "", true), ".show databases")
	f(400, oneError("BadRequest_InvalidMapping", "", true), ".show table ['my table'] ingestion mappings")
	f(400, oneError("UpdatePolicy_BadRequest", "", true), "policy update")
	f(400, oneError("BadRequest_MappingReferenceWasNotFound", "", true), "its kind, which is json")
	f(302, "", "query URI")
	f(417, "", "expect_continue: false")
	f(407, "", "send.proxy")
	f(401, "", "auth.resource")
}
