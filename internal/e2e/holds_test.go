package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
)

// TestHolds: each reason for which a table is refused holds its route alone, is
// told once with its fix in log, metrics and status, costs one probe at a time,
// and ends by itself when it is mended.
func TestHolds(t *testing.T) {
	t.Parallel()
	f := func(name, code, fix string, fault emulator.Fault) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			const n = 20_000
			records := jsonRecords(0, n)
			s.write("logs/a.json", joined(records))
			fault.Match.Table = "Bad"
			config := open + "batch: {max_size: 16KiB, max_wait: 50ms}\nsend: {concurrency: 4, retry: {initial: 10ms, max: 100ms, patience: 1h}}\n" +
				strings.ReplaceAll(besides, ", cluster: far", "")
			refusing := s.server.Fail(fault)
			p := s.run(config)
			if got := p.await(1, routeHeld, `"table":"Bad"`).text("fix"); !strings.Contains(got, fix) {
				t.Errorf("fix %q, want %q", got, fix)
			}
			s.awaitRows("Good", n)
			before := s.requestsTo("Bad")

			// Much more for both: the good table is served as if it were alone,
			// and the bad one is asked by no more than its probe.
			began := time.Now()
			s.append("logs/a.json", joined(jsonRecords(n, n)))
			s.awaitRows("Good", 2*n)
			held := time.Since(began)
			if asked := s.requestsTo("Bad") - before; asked > 1+int(held/(10*time.Second)) {
				t.Errorf("the held table was asked %d times in %v", asked, held)
			}
			r := routeOf(t, p, "Bad")
			if r.State != "held" || r.Hold == nil || r.Hold.Code != code || !strings.Contains(r.Hold.Fix, fix) || r.Hold.NextTry.IsZero() {
				t.Errorf("status: %+v %+v", r, r.Hold)
			}
			if got := routeOf(t, p, "Good"); got.State != "up" {
				t.Errorf("the good route is %s", got.State)
			}
			if got := p.metric("routes_held", `table="Bad"`, fmt.Sprintf("code=%q", code)); got != 1 {
				t.Errorf("routes_held %v", got)
			}
			if got := p.metric("routes_held"); got != 1 {
				t.Errorf("routes_held %v in all", got)
			}

			refusing.Remove()
			s.awaitRows("Bad", 2*n)
			p.awaitBooks("bad", func(a account) bool { return a.accepted == 2*n && a.pending == 0 })
			if r := routeOf(t, p, "Bad"); r.State != "up" || r.Hold != nil {
				t.Errorf("status afterwards: %+v", r)
			}
			if got := p.metric("routes_held"); got != 0 {
				t.Errorf("routes_held %v afterwards", got)
			}
			// The same in the same process, with nothing held: reported, no more.
			began = time.Now()
			s.append("logs/a.json", joined(jsonRecords(2*n, n)))
			s.awaitRows("Good", 3*n)
			t.Logf("the good table alone took %v, beside the held one %v", time.Since(began), held)
			s.awaitRows("Bad", 3*n)
			p.stop()
			p.wantComplaints(routeHeld)
			s.wantRows("Bad", jsonRecords(0, 3*n))
			s.wantRows("Good", jsonRecords(0, 3*n))
			s.wantUniqueRequests()
		})
	}
	missing := func(kind, name string) emulator.Fault {
		return emulator.Fault{Status: 400, Code: "BadRequest_EntityNotFound", Message: fmt.Sprintf("Entity ID '%s' of kind '%s' was not found.", name, kind)}
	}
	f("table", "BadRequest_EntityNotFound", ".clear table ['Bad'] cache", missing("Table", "Bad"))
	f("mapping", "BadRequest_EntityNotFound", ".show table ['Bad'] ingestion mappings", missing("MappingPersistent", "m"))
	f("policy", "BadRequest_StreamingIngestionPolicyNotEnabled", ".alter table ['Bad'] policy streamingingestion enable",
		emulator.Fault{Status: 400, Code: "BadRequest_StreamingIngestionPolicyNotEnabled"})
	f("permission", "Forbidden", ".add table ['Bad'] ingestors", emulator.Fault{Status: 403})
}

// TestClusterIsHeld: tokens that the service refuses hold the cluster with all its
// tables, while another cluster goes on; it is told once, and ends by itself.
func TestClusterIsHeld(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	far, farURL := s.endpoint(emulator.Options{})
	s.env = []string{"FAR=" + farURL}
	s.write("token", "zq-token-of-a-file")
	s.secrets = append(s.secrets, "zq-token-of-a-file")
	const n = 5000
	s.write("logs/a.json", joined(jsonRecords(0, n)))
	refusing := far.Fail(emulator.Fault{Status: 401})
	p := s.run(open + "allow_untrusted_endpoint: true\nbatch: {max_size: 16KiB}\nsend: {retry: {patience: 1h}}\n" +
		`clusters: {far: {url: "${FAR}", database: Logs, auth: {method: token_file, token_file: "${DIR}/token"}}}` + `
inputs:
  - {name: one, paths: ["${DIR}/logs/*.json"], table: One, mapping: m, cluster: far}
  - {name: two, paths: ["${DIR}/logs/*.json"], table: Two, mapping: m, cluster: far}
  - {name: good, paths: ["${DIR}/logs/*.json"], table: Good, mapping: m}
`)
	e := p.await(1, clusterHeld)
	if e["cluster"] != "far" || e.text("fix") == "" {
		t.Errorf("says %v", e)
	}
	s.awaitRows("Good", n)
	asked := far.Totals().Requests
	s.append("logs/a.json", joined(jsonRecords(n, n)))
	s.awaitRows("Good", 2*n)
	if more := far.Totals().Requests - asked; more > 20 { // its payloads would be 60; probes are made by time
		t.Errorf("the held cluster was asked %d times", more)
	}
	for _, c := range p.status().Clusters {
		if want := map[string]string{"far": "held"}[c.Name]; want != "" && c.State != want {
			t.Errorf("cluster %s is %s", c.Name, c.State)
		}
	}
	for _, table := range []string{"One", "Two"} {
		if r := routeOf(t, p, table); r.State != "held" || r.Hold == nil || r.Hold.Fix == "" {
			t.Errorf("route %s: %+v %+v", table, r, r.Hold)
		}
	}
	refusing.Remove()
	ctx, cancel := s.waiting()
	defer cancel()
	for _, table := range []string{"One", "Two"} {
		if err := far.WaitRows(ctx, "Logs", table, 2*n); err != nil {
			t.Fatalf("%s has %d rows: %v", table, far.RowCount("Logs", table), err)
		}
	}
	p.stop()
	p.wantComplaints(clusterHeld)
	for _, table := range []string{"One", "Two"} {
		wantRows(t, far, "Logs", table, jsonRecords(0, 2*n))
	}
	s.wantRows("Good", jsonRecords(0, 2*n))
}
