package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

// TestStateDiskIsFull: delivery goes on from files that exist, the log and
// /readyz say so, and with room again an orderly end leaves nothing in doubt.
func TestStateDiskIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("state/full", "")
	if err := syscall.Mount("tmpfs", s.path("state"), "tmpfs", 0, "mode=700,size=32M"); err != nil {
		t.Skipf("the kernel refuses a disk of its own: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.path("state"), syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	config := open + "journal: {max_size: 1MiB}\nbatch: {max_records: 10, max_wait: 10ms}\n" + oneJSON
	s.write("logs/a.json", "")
	p := s.run(config)
	p.await(1, "agent is running")
	s.fill("state/full")
	n := 0
	more := func() {
		s.append("logs/a.json", joined(jsonRecords(n, 2000)))
		n += 2000
		s.awaitRows("T", n)
	}
	for len(p.entries(journalFails)) == 0 && n < 200_000 {
		more()
	}
	more()
	if code, text := p.mustGet("/readyz"); code != 503 || !strings.Contains(text, "no space left on device; delivery continues") {
		t.Errorf("/readyz: %d %q", code, text)
	}
	if got := p.metric("state_disk_healthy"); got != 0 {
		t.Errorf("state_disk_healthy %v", got)
	}
	if err := os.Remove(s.path("state/full")); err != nil {
		t.Fatal(err)
	}
	p.await(1, "journal writes succeed again")
	if code, text := p.mustGet("/readyz"); code != 200 {
		t.Errorf("/readyz with room again: %d %q", code, text)
	}
	more()
	p.awaitBooks("T", func(a account) bool { return a.pending == 0 })
	p.stop()
	requests := s.server.Totals().Requests
	s.once(config, 0)
	if again := s.server.Totals().Requests - requests; again != 0 {
		t.Errorf("the next run made %d requests", again)
	}
	s.wantRows("T", jsonRecords(0, n))
}

const journalFails = "journal write failed: delivery continues, records acknowledged meanwhile may be sent again after a restart"

// fill writes to a file until there is no room.
func (s *site) fill(name string) {
	s.t.Helper()
	f, err := os.Create(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
}

// TestQuarantineIsFull: nothing is dropped; the file waits for room.
func TestQuarantineIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	var bad []string
	for i := range 100 {
		bad = append(bad, fmt.Sprintf("no json %d %s", i, strings.Repeat("x", 1000)))
	}
	s.write("logs/a.json", joined(bad))
	s.write("logs/b.json", joined(jsonRecords(0, 10)))
	const inputs = `inputs:
  - {name: bad, paths: ["${DIR}/logs/a.json"], table: T, mapping: m}
  - {name: good, paths: ["${DIR}/logs/b.json"], table: T, mapping: m}
`
	s.once(open+"quarantine: {max_size: 16KiB}\n"+inputs, 1)
	s.wantRows("T", jsonRecords(0, 10))
	if n := len(s.quarantined()); n >= len(bad) {
		t.Errorf("%d lines in quarantine", n)
	}
	s.once(open+inputs, 1)
	seen := make(map[any]int)
	for _, q := range s.quarantined() {
		seen[q["offset"]]++
	}
	if len(seen) != len(bad) || len(s.quarantined()) != len(bad) {
		t.Errorf("with room: %d lines of %d records, want %d", len(s.quarantined()), len(seen), len(bad))
	}
}

// TestRateLimit: what waits for its turn is no sign of an outage.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	var records []string
	for i := range 4_500 {
		records = append(records, fmt.Sprintf(`{"seq":%d,"fill":"%s"}`, i, strings.Repeat("abc", 150)))
	}
	s.write("logs/a.json", joined(records))
	s.run(open+"batch: {max_size: 1MiB}\nsend: {rate_limit: 500kB, retry: {patience: 1500ms}}\n"+oneJSON, "--once").want(0)
	s.wantRows("T", records)
}
