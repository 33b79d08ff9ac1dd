package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"kusto-agent/emulator"
)

// TestSpoolIsFull: with when_full block reading stops at max_size, nothing is
// lost, and it goes on after the return.
func TestSpoolIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	fault := s.server.Fail(emulator.Fault{Status: 503})
	w := &flow{site: s, perFile: 2_000, pace: rate.NewLimiter(rate.Inf, 0), mayGo: func(string) bool { return false }}
	w.start()
	s.until("files written", func() bool { return w.written.Load() > 12_000 })
	n := w.stop()
	p := s.run(open + hasty + "limits: {memory: 16MiB}\nspool: {max_size: 40kB}\nbatch: {max_size: 64KiB, max_wait: 20ms}\n" + appLogs)
	e := p.await(1, spoolFails)
	if !strings.Contains(e.text("err"), "max_size") || e.text("fix") == "" || e.text("fix") == "<nil>" {
		t.Errorf("says %v", e)
	}
	// Reading has stopped: further requests change nothing.
	s.awaitHits(fault, fault.Hits()+5)
	a := p.mustBooks()["T"]
	s.awaitHits(fault, fault.Hits()+20)
	if b := p.mustBooks()["T"]; b.read != a.read || b.spooled == 0 || int(b.read) >= n {
		t.Errorf("reading went on: %+v, then %+v", a, b)
	}
	if size := s.sizeOf("state/spool"); size > 40_000 {
		t.Errorf("the spool has %d bytes", size)
	}
	if n := len(p.entries(spoolFails)); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	fault.Remove()
	s.awaitRows("T", n)
	p.awaitBooks("T", func(a account) bool { return int(a.accepted) == n && a.pending+a.spooled == 0 })
	p.await(1, "spool writes succeed again")
	p.stop()
	w.wantStored(n, nil, 0)
}

// sizeOf is how many bytes the files of a folder have.
func (s *site) sizeOf(dir string) (n int64) {
	s.t.Helper()
	s.must(filepath.Walk(s.path(dir), func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return err
	}))
	return n
}

// TestSpoolDropsOldest: with when_full drop_oldest reading goes on; just as many
// records are missing as are counted, and they are the oldest, but for the few
// batches that were on their way together.
func TestSpoolDropsOldest(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	fault := s.server.Fail(emulator.Fault{Status: 503})
	const n, perBatch = 8_000, 131
	var b strings.Builder
	noise := make([]byte, 229)
	for seq := range n {
		_, _ = rand.Read(noise) // never fails
		fmt.Fprintf(&b, "{\"seq\":\"%012d\",\"note\":\"%s%x\"}\n", seq, recordMark[:7], noise)
	}
	s.write("logs/app.json", b.String())
	p := s.run(open + hasty + "spool: {max_size: 800kB, when_full: drop_oldest}\nbatch: {max_size: 64KiB, max_wait: 20ms}\n" + appLogs)
	s.until("all is read", func() bool {
		a := p.mustBooks()["T"]
		return int(a.read) == n && a.pending == 0
	})
	fault.Remove()
	p.awaitBooks("T", func(a account) bool { return a.pending+a.spooled == 0 })
	dropped := int(p.metric("records_dropped_total", `reason="spool_full"`))
	told := 0
	for _, e := range p.entries("spool is full: the oldest payloads are dropped") {
		told += int(e.number("records"))
		if err, failed := e["err"]; failed || e["fix"] == nil {
			t.Errorf("err is %v, fix is %v; nothing failed, and something can be done", err, e["fix"])
		}
	}
	if told != dropped {
		t.Errorf("%d records dropped, the log says %d", dropped, told)
	}
	p.stop()
	stored := map[string]bool{}
	for row := range s.server.All("Logs", "T", 0) {
		stored[string(row.Raw[8:20])] = true
	}
	last, older := -1, 0
	for seq := range n {
		if !stored[fmt.Sprintf("%012d", seq)] {
			last = seq
		}
	}
	for seq := range last {
		if stored[fmt.Sprintf("%012d", seq)] {
			older++
		}
	}
	t.Logf("%d of %d records dropped, %d that are older than the last of them were kept", dropped, n, older)
	if len(stored) != n-dropped || s.server.RowCount("Logs", "T") != len(stored) {
		t.Errorf("%d records stored as %d rows, %d of %d dropped", len(stored), s.server.RowCount("Logs", "T"), dropped, n)
	}
	if dropped < n/2 || len(stored) < n/10 || older > 20*perBatch {
		t.Errorf("%d dropped, %d kept, %d of them older than one that was dropped", dropped, len(stored), older)
	}
}

// TestSpoolAge: what waited longer than max_age is dropped and counted.
func TestSpoolAge(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	fault := s.server.Fail(emulator.Fault{Status: 503})
	w := &flow{site: s, perFile: 1_000_000, pace: rate.NewLimiter(rate.Inf, 0)}
	w.start()
	s.until("files written", func() bool { return w.written.Load() > 2_000 })
	n := w.stop()
	p := s.run(open + hasty + "spool: {max_age: 3s}\nbatch: {max_size: 64KiB, max_wait: 20ms}\n" + appLogs)
	const dropped = "payloads dropped: they waited in the spool longer than max_age"
	p.awaitBooks("T", func(a account) bool { return int(a.dropped) == n })
	told := 0
	for _, e := range p.entries(dropped) {
		told += int(e.number("records"))
	}
	if got := int(p.metric("records_dropped_total", `reason="spool_age"`)); got != n || told != n {
		t.Errorf("%d dropped, the log says %d; want %d", got, told, n)
	}
	fault.Remove()
	s.append("logs/app.json", flowLine(n, 0))
	s.awaitRows("T", 1)
	p.stop()
	w.wantStored(n+1, func(seq int) bool { return seq < n }, 0)
}

// TestSpoolLeavesRoom: where the disk has less than min_free nothing is spooled,
// and the log says why, once.
func TestSpoolLeavesRoom(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	fault := s.server.Fail(emulator.Fault{Status: 503})
	w := &flow{site: s}
	var b strings.Builder
	const n = 5_000
	for seq := range n {
		b.WriteString(crashLine(seq))
	}
	s.write("logs/app.json", b.String())
	p := s.run(open + hasty + "spool: {min_free: 1000000GiB}\nbatch: {max_size: 64KiB, max_wait: 20ms}\n" + appLogs)
	e := p.await(1, spoolFails)
	if !strings.Contains(e.text("err"), "min_free") {
		t.Errorf("says %v", e)
	}
	s.awaitHits(fault, 30)
	if a := p.mustBooks()["T"]; a.spooled != 0 || int(a.read) == n {
		t.Errorf("books %+v", a)
	}
	if found, _ := filepath.Glob(s.path("state/spool/*")); len(found) > 0 {
		t.Errorf("the spool has %v", found)
	}
	fault.Remove()
	s.awaitRows("T", n)
	p.awaitBooks("T", func(a account) bool { return a.accepted == n })
	p.stop()
	if n := len(p.entries(spoolFails)); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	w.wantStored(n, nil, 0)
}

// TestRestartWithASpool: what an earlier run left in the spool is sent oldest
// first, and the books of the new one close over it.
func TestRestartWithASpool(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	fault := s.server.Fail(emulator.Fault{Status: 503})
	const n = 10_000
	w := &flow{site: s, perFile: n}
	config := open + "send: {concurrency: 1, retry: {initial: 10ms, max: 50ms, patience: 200ms}}\nbatch: {max_size: 64KiB, max_wait: 20ms}\n" + appLogs
	p := s.run(config)
	for seq := 0; seq < n; {
		var b strings.Builder
		for end := seq + n/10; seq < end; seq++ {
			b.WriteString(crashLine(seq))
		}
		s.append("logs/app.json", b.String())
		p.awaitBooks("T", func(a account) bool { return int(a.spooled) == seq })
	}
	s.must(os.Remove(s.path("logs/app.json")))
	p.stop()
	out, words := s.show(0, "spool", "ls", "--config", s.path("agent.yaml"), "--summary")
	if !strings.Contains(words, fmt.Sprintf("with %d records", n)) {
		t.Errorf("spool ls: %s\n%s", out, words)
	}
	var kept []string
	out, _ = s.show(0, "spool", "ls", "--config", s.path("agent.yaml"), "--json")
	for line := range strings.Lines(out) {
		var e struct{ Batch string }
		s.must(json.Unmarshal([]byte(line), &e))
		kept = append(kept, e.Batch)
	}
	before := len(s.server.Requests())
	again := s.run(config)
	again.awaitBooks("T", func(a account) bool { return int(a.restored) == n && int(a.spooled) >= n-200 })
	fault.Remove()
	s.awaitRows("T", n)
	again.awaitBooks("T", func(a account) bool { return int(a.accepted) == n })
	again.wantBooks("T", account{restored: n, accepted: n})
	if again.status().Spool.Payloads != 0 {
		t.Errorf("spool %+v", again.status().Spool)
	}
	again.stop()
	w.wantStored(n, nil, 0, p, again)
	var sent []string
	failed := map[string]bool{} // in this run: they wait on a schedule of their own
	for _, r := range s.server.Requests()[before:] {
		if r.Stored {
			sent = append(sent, batchOf(r))
		} else {
			failed[batchOf(r)] = true
		}
	}
	for _, all := range []*[]string{&sent, &kept} {
		*all = slices.DeleteFunc(*all, func(batch string) bool { return failed[batch] })
	}
	if len(sent) == 0 || !slices.Equal(sent, kept) {
		t.Errorf("sent in the order\n%v\nwant that of the spool\n%v", sent, kept)
	}
	if found, _ := filepath.Glob(s.path("state/spool/*.seg")); len(found) > 0 {
		t.Errorf("left in the spool: %v", found)
	}
}
