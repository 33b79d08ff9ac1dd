package e2e

import (
	"fmt"
	"strings"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/telemetry"
)

// routeOf finds a route in the status.
func routeOf(t *testing.T, p *process, table string) telemetry.Route {
	t.Helper()
	s := p.status()
	for _, r := range s.Routes {
		if r.Table == table {
			return r
		}
	}
	t.Fatalf("the status has no route to %s: %+v", table, s.Routes)
	return telemetry.Route{}
}

// TestOneRouteIsHeld: a table whose mapping is missing costs the other tables
// nothing, the status tells the fix, and once it is mended all of it arrives.
func TestOneRouteIsHeld(t *testing.T) {
	t.Parallel()
	const strict = `{"databases":{"Logs":{"tables":{"A":{"mappings":[%s]},"B":{"mappings":[{"name":"m","kind":"Json"}]}}}}}`
	s := newSite(t, emulator.Options{Schema: schemaOf(t, fmt.Sprintf(strict, ""))})
	records := jsonRecords(0, 20000)
	s.write("logs/a.json", joined(records[:10000]))
	s.write("logs/b.json", joined(records))
	p := s.run(open + "batch: {max_size: 64KiB}\n" + `
inputs:
  - {paths: ["${DIR}/logs/a.json"], table: A, mapping: m}
  - {paths: ["${DIR}/logs/b.json"], table: B, mapping: m}
`)
	held := p.await(1, "route is held: nothing is sent to its table until the cause is fixed, its records are kept", `"table":"A"`)
	if fix := held.text("fix"); !strings.Contains(fix, "m") {
		t.Errorf("fix %q", fix)
	}
	s.awaitRows("B", 20000)
	if n := s.server.RowCount("Logs", "A"); n != 0 {
		t.Errorf("%d rows in A", n)
	}
	a, b := routeOf(t, p, "A"), routeOf(t, p, "B")
	if a.State != "held" || a.Hold == nil || a.Hold.Fix == "" || !strings.Contains(a.Hold.Message, "m") || a.Queued == 0 {
		t.Errorf("route A: %+v %+v", a, a.Hold)
	}
	if b.State != "up" || b.Hold != nil {
		t.Errorf("route B: %+v", b)
	}
	s.status(p).want(1)
	for _, view := range []string{"status", "page"} {
		if text := s.view(p, view); !strings.Contains(text, "held") || !strings.Contains(text, "mapping") {
			t.Errorf("%s does not tell:\n%s", view, text)
		}
	}
	if asked := s.requestsTo("A"); asked > 8 { // those that were under way together
		t.Errorf("the held route was asked %d times", asked)
	}
	// New records of the others flow on.
	s.append("logs/b.json", joined(jsonRecords(20000, 1000)))
	s.awaitRows("B", 21000)

	if err := s.server.SetSchema(schemaOf(t, fmt.Sprintf(strict, `{"name":"m","kind":"Json"}`))); err != nil {
		t.Fatal(err)
	}
	s.awaitRows("A", 10000)
	p.awaitBooks("A", func(a account) bool { return a.accepted == 10000 && a.pending == 0 })
	if a := routeOf(t, p, "A"); a.State != "up" || a.Hold != nil {
		t.Errorf("route A afterwards: %+v", a)
	}
	s.status(p).want(0)
	p.stop()
	s.wantRows("A", records[:10000])
	s.wantRows("B", jsonRecords(0, 21000))
}

// view is what people see: the status command, or the page.
func (s *site) view(p *process, which string) string {
	s.t.Helper()
	if which == "page" {
		_, text := p.mustGet("/")
		return text
	}
	seen := s.status(p)
	if code := seen.code(); code != 0 && code != 1 && code != 69 {
		s.t.Errorf("status exits with %d", code)
	}
	return seen.out.text()
}

// status is the command, asking an agent.
func (s *site) status(p *process) *process {
	s.t.Helper()
	return s.launch("status", "--address", p.await(1, "telemetry endpoint is listening").text("address"))
}

func (s *site) requestsTo(table string) (n int) {
	for _, r := range s.server.Requests() {
		if r.Table == table {
			n++
		}
	}
	return n
}

// TestThrottling: the agent asks for less at a time, and all arrives.
func TestThrottling(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{MaxConcurrent: 2})
	// Requests that take a while meet, and leave time to look at the concurrency between two of them.
	s.server.Fail(emulator.Fault{Delay: 50_000_000})
	records := jsonRecords(0, 40000)
	s.write("logs/a.json", joined(records))
	p := s.run(open + "batch: {max_size: 32KiB}\nsend: {concurrency: 16, retry: {initial: 20ms, max: 200ms}}\n" + oneJSON)
	p.await(1, "request failed, will retry", "throttled")
	lowest := 16
	ctx, cancel := s.waiting()
	defer cancel()
	for n := 1; s.server.RowCount("Logs", "T") < len(records) && ctx.Err() == nil; n++ {
		for _, c := range p.status().Clusters {
			lowest = min(lowest, c.Concurrency)
		}
		_ = s.server.WaitRequests(ctx, s.server.Totals().Requests+1)
	}
	s.awaitRows("T", len(records))
	p.awaitBooks("T", func(a account) bool { return int(a.accepted) == len(records) && a.pending == 0 })
	if lowest > 4 {
		t.Errorf("concurrency never went below %d", lowest)
	}
	if got := p.metric("requests_total", `code="429"`, `outcome="refused"`); int(got) != s.server.Totals().ByStatus[429] {
		t.Errorf("requests_total{code=429} %v, want %d", got, s.server.Totals().ByStatus[429])
	}
	p.stop()
	s.wantRows("T", records)
	s.wantUniqueRequests()
}

// TestTokenIsReplaced: a token that is revoked costs one refusal a request
// under way, and nothing else.
func TestTokenIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{TokenSecret: "zq-secret"})
	s.env = []string{"SECRET=zq-secret"}
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	p := s.run(head + "auth: {authority: \"${URL}\", tenant: t, client_id: agent, client_secret: \"${SECRET}\"}\n" + oneJSON)
	s.awaitRows("T", 10)
	s.server.RevokeTokens()
	s.append("logs/a.json", joined(jsonRecords(10, 10)))
	s.awaitRows("T", 20)
	if n := s.server.TokenCalls(); n != 2 {
		t.Errorf("%d tokens were asked for, want 2", n)
	}
	if got := p.metric("token_expires_seconds"); got < 1 || got > 3600 {
		t.Errorf("token_expires_seconds %v", got)
	}
	p.stop()
	s.wantRows("T", jsonRecords(0, 20))
	s.wantUniqueRequests()
}
