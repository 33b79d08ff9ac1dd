package e2e

import (
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

const silent = "state disk stalled"

// TestFrozenStateDisk: while the state disk hangs, delivery goes on, the log, the
// metrics and /readyz say so, and all of that is over when it answers.
func TestFrozenStateDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.ext4("state", 32)
	config := open + "journal: {max_size: 1MiB}\n" + oneJSON
	n := 0
	more := func() {
		s.append("logs/a.json", joined(jsonRecords(n, 500)))
		n += 500
	}
	p := s.run(config)
	more()
	s.awaitRows("T", n)
	thaw := s.freeze("state")
	more()
	s.awaitRows("T", n)
	p.awaitMetric("state_disk_healthy", 0)
	p.told(journalFails, silent)
	p.awaitReady(503, silent)
	if code, text := p.mustGet("/healthz"); code != 200 {
		t.Errorf("/healthz: %d %q", code, text)
	}
	for range 3 {
		more()
		s.awaitRows("T", n)
	}
	thaw()
	p.awaitReady(200, "")
	p.told(journalBack)
	more()
	p.awaitBooks("T", func(a account) bool { return int(a.accepted) == n })
	p.stop()
	s.wantNothingAgain(config)
	s.wantRows("T", jsonRecords(0, n))
}

// TestStartOnFrozenStateDisk: the start waits for the disk, and says so.
func TestStartOnFrozenStateDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.ext4("state", 32)
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	thaw := s.freeze("state")
	p := s.run(open + "journal: {max_size: 1MiB}\n" + oneJSON)
	p.told(diskIsSilent)
	thaw()
	s.awaitRows("T", 10)
	p.stop()
	s.wantRows("T", jsonRecords(0, 10))
}

// TestStopOnFrozenStateDisk: the agent comes to its end within its time, with what
// it could not keep in the log and in the exit code, in an outage too.
func TestStopOnFrozenStateDisk(t *testing.T) {
	t.Parallel()
	f := func(name string, outage bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.ext4("state", 32)
			config := open + "journal: {max_size: 1MiB}\nspool: {max_size: 8MiB, min_free: 0}\nshutdown_timeout: 1s\n" + impatient + oneJSON
			s.write("logs/a.json", joined(jsonRecords(0, 500)))
			p := s.run(config)
			s.awaitRows("T", 500)
			thaw := s.freeze("state")
			var script *emulator.Script
			if outage {
				script = s.server.Fail(emulator.Fault{Status: 503})
			}
			s.append("logs/a.json", joined(jsonRecords(500, 500)))
			if outage {
				p.awaitReady(503, silent)
				s.awaitHits(script, 3)
			} else {
				s.awaitRows("T", 1000)
			}
			p.signal(syscall.SIGTERM)
			p.await(1, stateUnkept, silent)
			thaw() // the kernel ends no process that waits for a frozen disk
			p.want(exit.Failed)
			if outage {
				script.Remove()
			}
			s.once(config, 0)
			s.wantEach("T", jsonRecords(0, 1000))
		})
	}
	f("live", false)
	f("outage", true)
}

// TestStopOnSilentStateDisk: where the kernel can end a process that waits for the
// disk, it ends by itself.
func TestStopOnSilentStateDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	config := open + "shutdown_timeout: 1s\n" + oneJSON
	s.write("logs/a.json", joined(jsonRecords(0, 500)))
	p := s.run(config)
	s.awaitRows("T", 500)
	// It holds the last thread of the process for that long too.
	p.inject("pwrite64,fdatasync:delay_enter=8000000", s.segments("state/journal")...)
	s.append("logs/a.json", joined(jsonRecords(500, 500)))
	s.awaitRows("T", 1000)
	p.signal(syscall.SIGTERM)
	p.want(exit.Failed)
	p.told(stateUnkept, silent)
	s.once(config, 0)
	s.wantEach("T", jsonRecords(0, 1000))
}

// wantEach expects every record in a table, once or more often: the bound on
// duplicates is suspended.
func (s *site) wantEach(table string, records []string) {
	s.t.Helper()
	rows := make(map[string]bool)
	for _, row := range s.server.Rows("Logs", table) {
		rows[string(row.Raw)] = true
	}
	missing := 0
	for _, r := range records {
		if !rows[r] {
			missing++
		}
	}
	if missing > 0 || len(rows) != len(records) {
		s.t.Errorf("%d missing, %d different rows of %d", missing, len(rows), len(records))
	}
}
