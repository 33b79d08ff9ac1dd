package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/time/rate"

	"kusto-agent/emulator"
)

// TestStopsInOutages: under load SIGTERM ends every run well, whatever the service
// does, and a second SIGTERM or a SIGKILL at that time does no harm: nothing is
// lost, and what is double is named.
func TestStopsInOutages(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	s.server.Fail(emulator.Fault{Delay: 2_000_000})
	config := func(timeout string) string {
		return open + "shutdown_timeout: " + timeout + "\nsend: {retry: {initial: 10ms, max: 50ms, patience: 200ms}}\n" +
			"batch: {max_size: 64KiB, max_wait: 20ms}\n" + appLogs
	}
	var running atomic.Pointer[process]
	w := &flow{site: s, perFile: 1_000, pace: rate.NewLimiter(4<<20, 1<<20)}
	w.mayGo = func(path string) bool { return running.Load().isSafe(path, int64(w.perFile)*crashRecord) }
	var runs []*process
	run := func(timeout string) *process {
		p := s.run(config(timeout))
		if running.Store(p); len(runs) == 0 {
			w.start()
		}
		runs = append(runs, p)
		p.await(1, "agent is running")
		s.awaitRequests(s.server.Totals().Requests + 10)
		return p
	}
	hang := emulator.Fault{Hang: true, When: emulator.AfterCommit}
	const stopping = "agent is stopping"

	run("24h").stop()

	p := run("24h")
	away := s.server.Fail(emulator.Fault{Status: 503, When: emulator.OnArrival})
	s.awaitHits(away, 1)
	p.stop() // patience is not over
	away.Remove()

	p = run("24h")
	away = s.server.Fail(emulator.Fault{Status: 503, When: emulator.OnArrival})
	p.await(1, "cluster is down, probing with backoff")
	p.awaitBooks("T", func(a account) bool { return a.spooled > 2_000 })
	p.stop()
	away.Remove()

	p = run("300ms")
	away = s.server.Fail(hang)
	s.awaitHits(away, 3)
	p.stop()
	away.Remove()

	p = run("24h")
	away = s.server.Fail(hang)
	s.awaitHits(away, 3)
	p.signal(syscall.SIGTERM)
	p.await(1, stopping)
	p.stop()
	away.Remove()

	p = run("24h")
	away = s.server.Fail(hang)
	s.awaitHits(away, 3)
	p.signal(syscall.SIGTERM)
	p.await(1, stopping)
	p.kill()
	away.Remove()

	p = run("24h")
	records := w.stop()
	s.until("all is accepted", func() bool { return p.allAccepted("T") })
	p.stop()
	for _, p := range runs {
		for _, e := range p.complaints() {
			if msg := e.text("msg"); strings.Contains(msg, "lost") || strings.Contains(msg, "gone") {
				t.Errorf("says %v", e)
			}
		}
	}
	w.wantStored(records, nil, 0, runs...)
}

// TestHeldRouteInAnOutage: after an outage of everything a table that does not exist
// keeps its records in the spool, and the others get theirs.
func TestHeldRouteInAnOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	config := open + hasty + "batch: {max_size: 16KiB, max_wait: 20ms}\ninputs:\n"
	want := map[string][]string{}
	for i, table := range []string{"A", "B", "C"} {
		config += fmt.Sprintf("  - {paths: [\"${DIR}/logs/%s.json\"], table: %s, mapping: m}\n", table, table)
		want[table] = jsonRecords(10_000*i, 2_000)
		s.write("logs/"+table+".json", joined(want[table]))
	}
	away := s.server.Fail(emulator.Fault{Status: 503})
	p := s.run(config)
	for table := range want {
		p.awaitBooks(table, func(a account) bool { return a.spooled == 2_000 })
	}
	s.server.Fail(emulator.Fault{Match: emulator.Match{Table: "A"}, Status: 404})
	before := s.requestsTo("A")
	away.Remove()
	for _, table := range []string{"B", "C"} {
		s.awaitRows(table, 2_000)
		p.awaitBooks(table, func(a account) bool { return a.accepted == 2_000 && a.spooled == 0 })
	}
	p.await(1, routeHeld, `"table":"A"`)
	if a := p.mustBooks()["A"]; a.accepted != 0 || a.pending+a.spooled != 2_000 {
		t.Errorf("books of the held route %+v", a)
	}
	if a := routeOf(t, p, "A"); a.State != "held" || a.Spooled == 0 {
		t.Errorf("held route %+v", a)
	}
	s.append("logs/B.json", joined(jsonRecords(20_000, 100)))
	s.awaitRows("B", 2_100)
	if asked := s.requestsTo("A") - before; asked > 8 {
		t.Errorf("the held route was asked %d times", asked)
	}
	p.stop()
	s.server.Recover()
	again := s.run(config)
	s.awaitRows("A", 2_000)
	again.awaitBooks("A", func(a account) bool { return a.accepted == 2_000 && a.spooled == 0 })
	again.stop()
	want["B"] = append(want["B"], jsonRecords(20_000, 100)...)
	for table, records := range want {
		s.wantRows(table, records)
	}
	s.wantUniqueRequests()
}
