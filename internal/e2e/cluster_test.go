package e2e

import (
	"net/http"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

const (
	notAccepted = "request failed, will retry"
	routeHeld   = "route is held: nothing is sent to its table until the cause is fixed, its records are kept"
	clusterHeld = "cluster is held: without a valid token nothing is sent to it, its records are kept"
	clusterDown = "cluster is down, probing with backoff"
	timeIsOver  = "shutdown_timeout expired, requests in flight are cancelled; their records will be sent after the next start"
)

// besides is an input whose cluster is bad, and one whose cluster is good.
const besides = `
allow_untrusted_endpoint: true
inputs:
  - {name: bad, paths: ["${DIR}/logs/*.json"], table: Bad, mapping: m, cluster: far}
  - {name: good, paths: ["${DIR}/logs/*.json"], table: Good, mapping: m}
`

// told fails unless the log has a line with msg exactly once, and returns it.
func (p *process) told(msg string, texts ...string) entry {
	p.t.Helper()
	e := p.await(1, msg, texts...)
	if n := len(p.entries(msg)); n != 1 {
		p.t.Errorf("%q is told %d times", msg, n)
	}
	return e
}

// TestClusterOutOfReach: a cluster that cannot be reached is told once, with
// what to look at; the other one gets all, and so does this one when the mistake
// is mended.
func TestClusterOutOfReach(t *testing.T) {
	t.Parallel()
	const patient = "shutdown_timeout: 100ms\nsend: {retry: {patience: 1h}}\n"
	f := func(name, far, says, fix string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			other, otherURL := s.endpoint(emulator.Options{})
			s.write("token", "zq-token-of-a-file")
			s.secrets = append(s.secrets, "zq-token-of-a-file")
			s.env = []string{"FAR=" + strings.ReplaceAll(far, "PORT", strings.TrimPrefix(otherURL, "http://127.0.0.1:")), "OTHER=" + otherURL}
			records := jsonRecords(0, 5000)
			s.write("logs/a.json", joined(records))
			config := open + patient + "batch: {max_records: 500}\n" +
				`clusters: {far: {url: "${FAR}", database: Logs, auth: {method: token_file, token_file: "${DIR}/token"}}}` + besides
			p := s.run(config)
			e := p.await(1, notAccepted)
			if !strings.Contains(e.text("err"), says) || !strings.Contains(e.text("fix"), fix) {
				t.Errorf("says %v", e)
			}
			s.awaitRows("Good", len(records))
			s.append("logs/a.json", joined(jsonRecords(len(records), 10)))
			records = append(records, jsonRecords(len(records), 10)...)
			s.awaitRows("Good", len(records))
			route := routeOf(t, p, "Bad")
			if route.State != "retrying" {
				t.Errorf("the route is %s", route.State)
			}
			p.stop()
			p.told(notAccepted)
			p.wantComplaints(notAccepted, timeIsOver)

			// What was read is in the spool, and waits for that URL.
			mended := strings.ReplaceAll(config, "${FAR}", "${OTHER}")
			p = s.run(mended)
			does := p.await(1, "spool holds payloads for a cluster that no input sends to; they wait there").text("fix")
			p.stop()
			_, command, _ := strings.Cut(does, ": kusto-agent ")
			s.launch(append(strings.Fields(command), "--to", "far", "--config", s.path("agent.yaml"))...).want(0)
			p = s.run(mended)
			ctx, cancel := s.waiting()
			defer cancel()
			if err := other.WaitRows(ctx, "Logs", "Bad", len(records)); err != nil {
				t.Fatalf("%d rows of %d: %v", other.RowCount("Logs", "Bad"), len(records), err)
			}
			p.stop()
			wantRows(t, other, "Logs", "Bad", records)
			s.wantRows("Good", records)
		})
	}
	f("no such name", "https://nowhere.invalid", "nowhere.invalid", "DNS")
	f("nobody listens", "https://127.0.0.1:1", "connection refused", "nothing listens there")
	f("no TLS there", "https://127.0.0.1:PORT", "does not look like a TLS handshake", "port")
}

// TestClusterComesBack: one that refuses connections gets its records as soon
// as it listens, without a restart.
func TestClusterComesBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	far := s.deadURL()
	s.env = []string{"FAR=" + far}
	records := jsonRecords(0, 5000)
	s.write("logs/a.json", joined(records))
	p := s.run(open + "send: {retry: {initial: 10ms, max: 100ms, patience: 1s}}\n" +
		`clusters: {far: {url: "${FAR}", database: Logs, auth: {method: none}}}` + besides)
	s.awaitRows("Good", len(records))
	p.await(1, clusterDown, "far")
	server := emulator.New(emulator.Options{})
	if _, err := server.Listen(strings.TrimPrefix(far, "http://")); err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	defer server.Close()
	ctx, cancel := s.waiting()
	defer cancel()
	if err := server.WaitRows(ctx, "Logs", "Bad", len(records)); err != nil {
		t.Fatalf("%d rows: %v", server.RowCount("Logs", "Bad"), err)
	}
	p.await(1, "route recovered: its table accepts records again", "Bad")
	p.stop()
	p.told(notAccepted, "nothing listens there")
	p.told(clusterDown)
	wantRows(t, server, "Logs", "Bad", records)
	s.wantRows("Good", records)
}

// TestWebPages: a page of a proxy or a load balancer is told once, in few words,
// as what it is; the other table gets all, and so does this one afterwards.
func TestWebPages(t *testing.T) {
	t.Parallel()
	f := func(name, msg, says string, fault emulator.Fault) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			fault.Match.Table = "Bad"
			fault.When, fault.Type = emulator.OnArrival, "text/html"
			fault.Header = map[string]string{"x-ms-activity-id": ""}
			page := s.server.Fail(fault)
			records := jsonRecords(0, 3000)
			s.write("logs/a.json", joined(records))
			p := s.run(open + "batch: {max_records: 500}\nsend: {retry: {initial: 10ms, max: 100ms, patience: 1h}}\n" + strings.ReplaceAll(besides, ", cluster: far", ""))
			s.awaitRows("Good", len(records))
			s.awaitHits(page, 2)
			e := p.await(1, msg, `"table":"Bad"`)
			if !strings.Contains(e.text("err"), says) || len(e.text("err")) > 300 || strings.Contains(e.text("err"), "<") {
				t.Errorf("says %q, want %q", e.text("err"), says)
			}
			if !strings.Contains(e.text("fix"), "a proxy, load balancer or portal answered in place of the service") {
				t.Errorf("fix %q", e.text("fix"))
			}
			page.Remove()
			s.awaitRows("Bad", len(records))
			p.await(1, "route recovered: its table accepts records again", "Bad")
			p.stop()
			p.wantComplaints(msg)
			s.wantRows("Bad", records)
			s.wantRows("Good", records)
			s.wantUniqueRequests()
		})
	}
	f("200", notAccepted, "a web page: Sign in to the guest network", emulator.Fault{Status: http.StatusOK, Body: signIn})
	f("404", routeHeld, "a web page: 404 Not Found", emulator.Fault{Status: http.StatusNotFound, As: emulator.AsHTML})
	f("403", routeHeld, "a web page: Sign in", emulator.Fault{Status: http.StatusForbidden, Body: signIn})
	f("503", notAccepted, "a web page: 503 Service Unavailable", emulator.Fault{Status: http.StatusServiceUnavailable, As: emulator.AsHTML})
}

var signIn = "<!DOCTYPE html>\n<html><head><title>Sign in to the\n guest network</title></head><body>" + strings.Repeat("<p>terms of use</p>\n", 2000) + "</body></html>"

// TestWrongSecret: a client secret that the authority refuses is told once, with
// what is wrong about it; the other cluster gets all, and so does this one when
// the right secret is in the file.
func TestWrongSecret(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	far, farURL := s.endpoint(emulator.Options{TokenSecret: "zq-the-right-one"})
	s.env = []string{"FAR=" + farURL}
	s.secrets = append(s.secrets, "zq-a-wrong-one")
	s.write("secret", "zq-a-wrong-one\n")
	records := jsonRecords(0, 3000)
	s.write("logs/a.json", joined(records))
	p := s.run(open + "batch: {max_records: 500}\nsend: {retry: {patience: 1h}}\n" + `clusters: {far: {url: "${FAR}", database: Logs, auth: {authority: "${FAR}", tenant: t, client_id: agent, client_secret_file: "${DIR}/secret"}}}` + besides)
	e := p.await(1, clusterHeld)
	if e["cluster"] != "far" || e["code"] != "AADSTS7000215" || !strings.Contains(e.text("fix"), "the client secret is wrong") {
		t.Errorf("says %v", e)
	}
	s.awaitRows("Good", len(records))
	s.write("secret", "zq-the-right-one\n")
	ctx, cancel := s.waiting()
	defer cancel()
	if err := far.WaitRows(ctx, "Logs", "Bad", len(records)); err != nil {
		t.Fatalf("%d rows: %v\n", far.RowCount("Logs", "Bad"), err)
	}
	p.await(1, "token request succeeded again")
	p.stop()
	p.wantComplaints(clusterHeld)
	wantRows(t, far, "Logs", "Bad", records)
	s.wantRows("Good", records)
	if n := far.TokenCalls(); n > 3 {
		t.Errorf("%d tokens were asked for", n)
	}
}
