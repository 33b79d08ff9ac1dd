package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"kusto-agent/emulator"
	"kusto-agent/internal/telemetry"
)

// In an outage the tests do not want to wait long.
const hasty = "send: {retry: {initial: 10ms, max: 50ms, patience: 200ms}}\n"

// appLogs reads what a flow writes.
const appLogs = `inputs: [{paths: ["${DIR}/logs/app.json*"], format: JSON, table: T, mapping: m, rotate_quiet: 50ms}]
`

// TestOutage: for as long as the service is away reading goes on, though the
// files are removed as soon as the agent has them open; then all that was written
// is stored, new records beside old ones, and the spool empties while new ones come.
func TestOutage(t *testing.T) {
	t.Parallel()
	f := func(name string, away func(s *site, g *gate) (back func()), withheld bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := hasty
			if withheld {
				config = strings.Replace(hasty, "{", "{timeout: 1s, ", 1)
			}
			testOutage(t, config, away)
		})
	}
	fault := func(fault emulator.Fault) func(*site, *gate) func() {
		return func(s *site, _ *gate) func() { return s.server.Fail(fault).Remove }
	}
	f("refused", func(_ *site, g *gate) func() {
		g.shut()
		return g.open
	}, false)
	f("503", fault(emulator.Fault{Status: 503}), false)
	f("hangs", fault(emulator.Fault{Hang: true, When: emulator.AfterCommit}), true)
}

func testOutage(t *testing.T, config string, away func(*site, *gate) func()) {
	outage, perFile, memory := 30_000, 5_000, 32<<20
	live, later := rate.Limit(20<<20), rate.Limit(2<<20)
	switch {
	case longForm:
		outage, perFile, memory, live, later = 5_000_000, 100_000, 256<<20, 40<<20, 10<<20
	case testing.Short() || underRace:
		outage, perFile = 10_000, 2_000
	}
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	g := s.gated()
	p := s.run(open + config + fmt.Sprintf("limits: {memory: %d}\nbatch: {max_size: 256KiB, max_wait: 100ms}\n", memory) + appLogs)
	w := &flow{site: s, perFile: perFile, pace: rate.NewLimiter(live, 1<<20)}
	w.mayGo = func(path string) bool { return slices.Contains(p.open(s.path("logs")), path) }
	w.start()
	s.awaitRows("T", perFile/2)

	back := away(s, g)
	p.await(1, "cluster is down, probing with backoff")
	const step = 100_000 // what is awaited at a time
	for n := outage % step; n <= outage; n += step {
		p.awaitBooks("T", func(a account) bool { return int(a.spooled) >= n })
	}
	// The writer has a rest, so that it can be seen that nothing else has.
	w.resting.Lock()
	s.until("all read is in the spool, and every file that was removed is let go", func() bool {
		a := p.mustBooks()["T"]
		return a.pending == 0 && p.pinned(s.path("logs")) == 0
	})
	for _, file := range p.files() {
		if file.State == "deleted" {
			t.Errorf("file is still held: %+v", file)
		}
	}
	if w.removed == 0 {
		t.Error("no file was removed in the outage")
	}
	before, spooledAt := s.server.RowCount("Logs", "T"), int(p.mustBooks()["T"].spooled)
	w.pace.SetLimit(later)
	began, first := time.Now(), int(w.written.Load())
	w.resting.Unlock()
	back()
	for left := spooledAt / step * step; left >= 0; left -= step {
		p.awaitBooks("T", func(a account) bool { return int(a.spooled) <= left })
	}
	took := time.Since(began)
	came := int(w.written.Load()) - first
	n := w.stop()
	s.awaitRows("T", n)
	p.awaitBooks("T", func(a account) bool { return a.pending == 0 && int(a.accepted) == n })
	t.Logf("%d spooled records replayed in %v while %d came, peak memory %d MiB", spooledAt, took, came, p.peak()>>20)
	if peak := p.peak(); peak > int64(memory)+64<<20 && !underRace {
		t.Errorf("peak memory %d MiB, limits.memory is %d MiB", peak>>20, memory>>20)
	}
	if came == 0 {
		t.Error("no new record came while the spool was replayed")
	}
	// A request can also come in the moment in which the gate is shut.
	unknown := int(p.metric("unknown_outcomes_total"))
	p.stop()
	w.wantFreshBesideOld(before, first)
	w.wantStored(n, nil, unknown, p)
}

// wantFreshBesideOld expects that of the rows stored after the return, a record
// written after it is stored before the last of those written earlier.
func (f *flow) wantFreshBesideOld(rows, first int) {
	f.t.Helper()
	_, order := f.storedSeqs(int(f.written.Load()))
	fresh, old := -1, -1
	for i, seq := range order[min(rows, len(order)):] {
		switch {
		case seq >= first && fresh < 0:
			fresh = i
		case seq < first:
			old = i
		}
	}
	if fresh < 0 || fresh > old {
		f.t.Errorf("the first new record is row %d after the return, the last old one row %d", fresh, old)
	}
}

// TestOutageOfCopyTruncate: what is read of a file that is then emptied is in the
// spool, whatever becomes of the agent.
func TestOutageOfCopyTruncate(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	s.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 2_000_000})
	config := open + hasty + "batch: {max_size: 64KiB, max_wait: 20ms}\n" +
		strings.Replace(appLogs, "rotate_quiet", "durability: spool, rotate_quiet", 1)
	w := &flow{site: s}
	seq, rounds := 0, 8
	if testing.Short() || underRace {
		rounds = 3
	}
	var runs []*process
	var fault *emulator.Script
	for round := range rounds {
		p := s.run(config)
		runs = append(runs, p)
		switch round % 4 {
		case 1:
			fault = s.server.Fail(emulator.Fault{Status: 503})
		case 3:
			fault.Remove()
		}
		for i := range 3 {
			var b strings.Builder
			for end := seq + 1000 + 100*round + 10*i; seq < end; seq++ {
				b.WriteString(crashLine(seq))
			}
			s.append("logs/app.json", b.String())
			size := int64(len(s.read("logs/app.json")))
			s.until("all of the file is safe", func() bool { return p.isSafe(s.path("logs/app.json"), size) })
			s.write("logs/app.json", "")
		}
		// What comes now is read or not, safe or not, and in the file.
		var b strings.Builder
		for end := seq + 500; seq < end; seq++ {
			b.WriteString(crashLine(seq))
		}
		s.append("logs/app.json", b.String())
		if round%2 == 0 {
			s.awaitRequests(s.server.Totals().Requests + 1)
		}
		p.kill()
	}
	s.server.Recover()
	p := s.run(config)
	runs = append(runs, p)
	size := int64(len(s.read("logs/app.json")))
	s.until("the rest of the file is safe", func() bool { return p.isSafe(s.path("logs/app.json"), size) })
	p.awaitBooks("T", func(a account) bool { return a.spooled+a.pending == 0 })
	p.stop()
	w.wantStored(seq, nil, 0, runs...)
}

// TestAClusterThatIsDownSaysWhy: status tells of the cluster and its route why, since
// when, what to do and when the next try is, and nothing of it once it is back.
func TestAClusterThatIsDownSaysWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	fault := s.server.Fail(emulator.Fault{Status: 503})
	s.write("logs/app.json", joined(jsonRecords(0, 5)))
	p := s.run(open + hasty + appLogs)
	p.await(1, "cluster is down, probing with backoff")
	st := p.status()
	c, r := st.Clusters[0], routeOf(t, p, "T")
	for _, h := range []*telemetry.Hold{c.Hold, r.Hold} {
		if h == nil || h.Message == "" || h.Fix == "" || h.Code == "" || h.Since.IsZero() || h.NextTry.Before(h.Since) {
			t.Errorf("says %+v", h)
		}
	}
	if c.State != "down" || r.State != "down" {
		t.Errorf("cluster is %s, route %s", c.State, r.State)
	}
	if held := p.metric("routes_held"); held != 0 {
		t.Errorf("%v routes are held", held)
	}
	s.status(p).want(69)
	fault.Remove()
	p.awaitBooks("T", func(a account) bool { return a.accepted == 5 })
	if st := p.status(); st.Clusters[0].Hold != nil || routeOf(t, p, "T").Hold != nil {
		t.Errorf("afterwards: %+v %+v", st.Clusters[0], routeOf(t, p, "T"))
	}
}
