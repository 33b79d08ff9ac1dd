package e2e

import (
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

// TestStartOnBadStateDisk: on a state disk that takes nothing the agent starts,
// delivers, and says so once in the log, in the metrics and in /readyz. Once the
// disk takes it, all of that is over by itself, and an orderly end leaves nothing
// in doubt.
func TestStartOnBadStateDisk(t *testing.T) {
	t.Parallel()
	config := open + "journal: {max_size: 1MiB}\nspool: {max_size: 1MiB, min_free: 0}\n" + oneJSON
	f := func(name, options, says string, before bool, spoil, mend func(s *site)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.disk("state", options)
			n := 0
			more := func() {
				s.append("logs/a.json", joined(jsonRecords(n, 500)))
				n += 500
			}
			more()
			if before {
				s.once(config, 0)
				more()
			}
			spoil(s)
			p := s.run(config)
			s.awaitRows("T", n)
			more()
			s.awaitRows("T", n)
			s.append("logs/a.json", "not JSON\n")
			more()
			p.told(journalFails, says)
			p.awaitReady(503, says+"; delivery continues")
			if got := p.metric("state_disk_healthy"); got != 0 {
				t.Errorf("state_disk_healthy %v", got)
			}
			mend(s)
			s.awaitRows("T", n)
			p.awaitReady(200, "")
			p.told(journalBack)
			p.awaitSafe("T")
			p.stop()
			s.wantNothingAgain(config)
			s.wantRows("T", jsonRecords(0, n))
			if q := s.quarantined(); len(q) != 1 {
				t.Errorf("%d lines in quarantine", len(q))
			}
		})
	}
	fill := func(s *site) { s.fill("state/full") }
	free := func(s *site) { s.empty("state/full") }
	readOnly := func(s *site) { s.setReadOnly("state", true) }
	writable := func(s *site) { s.setReadOnly("state", false) }
	const full, refused = "no space left on device", "read-only file system"
	f("full, empty", "size=4M", full, false, fill, free)
	f("full", "size=4M", full, true, fill, free)
	f("no inode, empty", "size=4M,nr_inodes=2", full, false, fill, func(s *site) {
		free(s)
		if err := syscall.Mount("tmpfs", s.path("state"), "tmpfs", syscall.MS_REMOUNT, "nr_inodes=100"); err != nil {
			s.t.Error(err)
		}
	})
	f("read-only, empty", "size=4M", refused, false, readOnly, writable)
	f("read-only", "size=4M", refused, true, readOnly, writable)
}

// TestNoStateDir: without a state_dir, and where none can be made, nothing can be
// begun.
func TestNoStateDir(t *testing.T) {
	t.Parallel()
	f := func(name, options, says string, spoil func(s *site)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.disk("disk", options)
			spoil(s)
			s.write("logs/a.json", joined(jsonRecords(0, 10)))
			p := s.once(strings.Replace(open, "${DIR}/state", "${DIR}/disk/state", 1)+oneJSON, exit.Failed)
			want := "make state_dir: mkdir " + s.path("disk/state") + ": " + says + "; run as a user who may write there, or set state_dir\n"
			if got := strings.TrimSuffix(p.log.text(), "\n"); got != want && got+"\n" != want {
				t.Errorf("says %q, want %q", got, want)
			}
			s.wantRows("T", nil)
		})
	}
	f("no inode", "nr_inodes=1", "no space left on device", func(*site) {})
	f("read-only", "size=1M", "read-only file system", func(s *site) { s.setReadOnly("disk", true) })
}

// TestStateDiskRefuses: errors of the state disk while the agent runs. What was
// not synced is written anew, to another file; a file is not synced again after
// an error; and kill -9 later doubles nothing that ended before.
func TestStateDiskRefuses(t *testing.T) {
	t.Parallel()
	f := func(name, inject, says string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			config := open + oneJSON
			n := 0
			more := func() {
				s.append("logs/a.json", joined(jsonRecords(n, 500)))
				n += 500
				s.awaitRows("T", n)
			}
			p := s.run(config)
			more()
			bad := p.inject(inject, s.segments("state/journal")...)
			more()
			p.awaitMetric("state_disk_healthy", 0)
			p.told(journalFails, says)
			p.awaitReady(503, says+"; delivery continues")
			more()
			bad.stop()
			p.told(journalBack)
			p.awaitReady(200, "")
			bad.wantNoSecondSync()
			more()
			p.awaitSafe("T")
			p.kill()
			s.wantNothingAgain(config)
			s.wantRows("T", jsonRecords(0, n))
		})
	}
	f("sync fails", "fdatasync:error=EIO", "input/output error")
	f("write fails", "pwrite64:error=EIO", "input/output error")
	f("write finds no room", "pwrite64,fallocate:error=ENOSPC", "no space left on device")
	f("write is over quota", "pwrite64,fallocate:error=EDQUOT", "disk quota exceeded")
	f("file cannot be made", "pwrite64,openat:error=EROFS", "read-only file system")
}

// wantNoSecondSync: a file whose sync or write failed is left alone.
func (f *fault) wantNoSecondSync() {
	f.s.t.Helper()
	failed := make(map[string]bool)
	hits := 0
	for _, line := range f.lines(false) {
		_, path, found := strings.Cut(line, "<")
		path, _, _ = strings.Cut(path, ">")
		if !found || strings.HasSuffix(path, ".tmp") && strings.Contains(line, "openat") {
			continue
		}
		if failed[path] && (strings.Contains(line, "sync(") || strings.Contains(line, "pwrite64(")) {
			f.s.t.Errorf("used again after an error: %s", line)
		}
		if strings.Contains(line, "(INJECTED)") && !strings.Contains(line, "openat") {
			failed[path] = true
			hits++
		}
	}
	if hits == 0 {
		f.s.t.Error("no call was made to fail")
	}
}
