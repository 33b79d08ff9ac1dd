package e2e

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/time/rate"

	"kusto-agent/emulator"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
	"kusto-agent/spool"
)

// TestKillsInAnOutage: kill -9 at any moment of outages and of the returns from
// them loses nothing, doubles only batches that the next start names, and repeats
// no request id. Among the records are some that the service refuses, so that it
// also strikes while a batch out of the spool is taken apart.
func TestKillsInAnOutage(t *testing.T) {
	t.Parallel()
	kills := 20
	switch {
	case longForm:
		kills = 300
	case testing.Short() || underRace:
		kills = 6
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: refusedMark}, Status: 400})
	config := open + hasty + "batch: {max_size: 64KiB, max_wait: 20ms}\n" + appLogs
	var running atomic.Pointer[process]
	w := &flow{site: s, perFile: 500, refused: 600, pace: rate.NewLimiter(2<<20, 1<<20)}
	w.mayGo = func(path string) bool { return running.Load().isSafe(path, int64(w.perFile)*crashRecord) }

	slow := emulator.Fault{When: emulator.AfterCommit, Delay: 3_000_000}
	s.server.Fail(slow)
	var runs []*process
	var kept []int // entries in quarantine when each run was killed
	var outage *emulator.Script
	for n := range kills {
		p := s.run(config)
		if running.Store(p); n == 0 {
			w.start()
		}
		runs = append(runs, p)
		p.await(1, "agent is running")
		if random.IntN(2) == 0 {
			if outage == nil {
				outage = s.server.Fail(emulator.Fault{Status: 503})
			} else {
				outage.Remove()
				outage = nil
			}
		}
		switch more := 1 + random.IntN(40); {
		case outage == nil: // a request is under way
			s.awaitRequests(s.server.Totals().Requests + more)
		case random.IntN(2) == 0:
			s.awaitHits(outage, outage.Hits()+1+more/10)
		default: // a payload is on its way to the spool
			at := int64(p.status().Spool.Bytes) + int64(more)*3<<10
			s.until("more in the spool", func() bool { return p.status().Spool.Bytes >= at })
		}
		p.kill()
		kept = append(kept, len(s.quarantined()))
	}
	if outage != nil {
		outage.Remove()
	}
	p := s.run(config)
	running.Store(p)
	runs = append(runs, p)
	records := w.stop()
	bad := records / w.refused
	s.until("all is accepted", func() bool {
		return s.server.RowCount("Logs", "T") >= records-bad && p.allAccepted("T")
	})
	p.stop()
	w.wantStored(records, nil, 0, runs...)
	var named []span
	for _, p := range runs {
		named = append(named, p.sendsAgain()...)
		for _, word := range []string{"is lost", "are lost", "another body", "source is gone", "vanished"} {
			if strings.Contains(p.log.text(), word) {
				t.Errorf("the log has %q:\n%s", word, p.log.text())
			}
		}
	}
	type place struct {
		file   string
		offset int64
	}
	// A record whose range is not named was not stored; but a kill between its entry in quarantine and
	// the journal's has it refused again. So such repeats are rare, and a kill lies before each of them.
	type occurrence struct{ times, run int }
	seen := map[place]occurrence{}
	unnamed := 0
	for i, q := range s.quarantined() {
		e := entry(q)
		at := place{e.text("file"), e.number("offset")}
		run, _ := slices.BinarySearch(kept, i+1)
		was, again := seen[at]
		seen[at] = occurrence{was.times + 1, run}
		if !again {
			continue
		}
		if was.run == run {
			t.Errorf("twice in quarantine by one run: %+v", at)
		}
		allowed := 0
		for _, r := range named {
			if r.id == at.file && r.start <= at.offset && at.offset < r.end {
				allowed++
			}
		}
		if was.times > allowed {
			unnamed++
		}
	}
	if unnamed > 1+kills/20 {
		t.Errorf("%d records are in quarantine more often than they are named after %d kills", unnamed, kills)
	}
	t.Logf("%d files removed, %d ranges named", w.removed, len(named))
	if left, _ := os.ReadDir(s.path("state/spool/damaged")); len(left) > 0 {
		t.Errorf("found damaged: %v", left)
	}
}

// TestKillBetweenProbes: what lies in the spool, and of which the last request was answered with an
// error of the service, is not told as perhaps stored after a sudden end.
func TestKillBetweenProbes(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	away := s.server.Fail(emulator.Fault{Status: 503})
	s.write("logs/t.json", joined(jsonRecords(0, 10)))
	p := s.run(open + hasty + oneJSON)
	p.awaitBooks("T", func(a account) bool { return a.spooled == 10 })
	s.until("a copy of the state in which the last request is answered", func() bool {
		answered := false
		err := os.RemoveAll(s.path("left"))
		for _, dir := range []string{"spool", "journal"} { // in this order: the journal knows of all that the spool has
			err = errors.Join(err, os.MkdirAll(s.path("left"), 0o700), os.CopyFS(s.path("left/"+dir), os.DirFS(s.path("state/"+dir))))
		}
		err = errors.Join(err, journal.History(s.path("left/journal"), func(e *journal.Entry) error {
			if e.Kind == journal.Replay {
				answered = e.Answered
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		return answered
	})
	p.kill()
	away.Remove()
	p = s.run(strings.Replace(open, "/state\n", "/left\n", 1) + hasty + oneJSON)
	s.awaitRows("T", 10)
	p.stop()
	if all := p.sendsAgain(); len(all) > 0 {
		t.Errorf("it says that these may be stored twice: %v", all)
	}
	if out, _ := s.show(0, "audit", "--config", s.path("agent.yaml")); strings.Contains(out, "perhaps") {
		t.Errorf("audit says\n%s", out)
	}
}

// TestHalfOfAnEarlierTry: a kill while a spooled batch is taken apart leaves one of
// its halves beside it. That half never counts, also not after the whole has ended
// and its segment is still there for others.
func TestHalfOfAnEarlierTry(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	away := s.server.Fail(emulator.Fault{Status: 503})
	config := open + hasty + `inputs:
  - {paths: ["${DIR}/logs/t.json"], table: T, mapping: m}
  - {paths: ["${DIR}/logs/u.json"], table: U, mapping: m}
`
	records := jsonRecords(0, 20)
	s.write("logs/t.json", joined(records[:10]))
	s.write("logs/u.json", joined(records))
	p := s.run(config)
	for _, input := range []string{"T", "U"} {
		p.awaitBooks(input, func(a account) bool { return a.spooled > 0 && a.pending == 0 })
	}
	p.kill()
	s.addHalf("T")

	s.server.Fail(emulator.Fault{Match: emulator.Match{Table: "U"}, Status: 404})
	away.Remove()
	p = s.run(config)
	s.awaitRows("T", 10)
	p.awaitBooks("T", func(a account) bool { return a.accepted == 10 })
	p.kill()
	p = s.run(config)
	p.await(1, routeHeld, `"table":"U"`)
	s.append("logs/t.json", joined(records[10:]))
	s.awaitRows("T", 20)
	p.awaitBooks("T", func(a account) bool { return a.accepted == 10 })
	if a := p.mustBooks()["T"]; a.restored != 0 {
		t.Errorf("books %+v", a)
	}
	p.stop()
	s.wantRows("T", records)
}

// addHalf puts what looks like a half of the oldest payload of a table into the
// spool of an agent that does not run, and beside it one that stays.
func (s *site) addHalf(table string) {
	s.t.Helper()
	sp, _, err := spool.Open(s.path("state/spool"), spool.DefaultConfig(), spool.Options{})
	s.must(err)
	for _, r := range sp.Routes() {
		p, frame := sp.Next(r)
		added := *p
		added.ID, added.Attempt = record.BatchID{0xff, r.Table[0]}, 0
		if r.Table == table {
			added.Replaces = frame
		}
		s.must(sp.Put(&added))
		sp.Return(frame)
	}
	s.must(sp.Close())
}
