package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

const byName = `
batch: {max_wait: 200ms}
inputs:
  - {name: app, paths: ["${DIR}/logs/app.log"], table: App, mapping: m, format: JSON, watch: MODE}
`

const withRotated = `
batch: {max_wait: 200ms}
inputs:
  - {name: app, paths: ["${DIR}/logs/app*"], table: App, mapping: m, format: JSON, watch: MODE}
`

// rotated is what is written while logrotate rotates so many times.
var rotated = load{records: 15_000, rate: 5_000}

const rotations = 3

// awaitRotation waits until the n-th of these rotations is due, from 0: in the middle of
// a portion.
func (w *writer) awaitRotation(n int) {
	w.t.Helper()
	w.more()
	w.awaitRows("App", (n+1)*w.portion()+w.portion()/2)
}

// needsLogrotate skips a test that cannot start logrotate as root.
func needsLogrotate(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("logrotate"); err != nil || os.Getuid() != 0 {
		t.Skipf("logrotate is started as root here: %v", err)
	}
}

// trusted has only root write to the folders of the site: logrotate trusts no others.
func (s *site) trusted() {
	s.t.Helper()
	for _, dir := range []string{"", "logs"} {
		s.must(os.Chmod(s.path(dir), 0o755))
	}
}

// TestSelfRotating: what an application writes that rotates its log itself, again
// and again, is stored once, record by record.
func TestSelfRotating(t *testing.T) {
	t.Parallel()
	l := load{records: 100_000, rate: 20_000, perFile: 10_000}
	if longForm {
		l.records = 1_200_000
	} else if testing.Short() {
		l.records = 40_000
	}
	m := watchModes(t)
	defer m.Wait()
	f := func(kind, inputs string) {
		m.run(kind, func(t *testing.T, mode string) {
			s := newSite(t, emulator.Options{})
			s.write("logs/app.log", "")
			p := s.run(open + strings.ReplaceAll(inputs, "MODE", mode))
			p.await(1, "agent is running")
			w := s.writer(kind, s.path("logs/app.log"), l)
			w.wantStored("App")
			t.Logf("%d records, %v rotations seen", l.records, p.metric("tail_rotations_total"))
			p.stop()
		})
	}
	f("lumberjack", byName)
	f("rotating", byName)
	f("timed", withRotated)
}

// TestLogrotate: Debian's logrotate rotates the log of an application that goes on
// writing. What was written is stored once, record by record.
func TestLogrotate(t *testing.T) {
	t.Parallel()
	needsLogrotate(t)
	m := watchModes(t)
	defer m.Wait()
	f := func(name, kind, inputs, directives string) {
		m.run(name, func(t *testing.T, mode string) {
			s := newSite(t, emulator.Options{})
			s.write("logs/app.log", "")
			s.trusted()
			p := s.run(open + strings.ReplaceAll(inputs, "MODE", mode))
			p.await(1, "agent is running")
			w := s.writer(kind, s.path("logs/app.log"), rotated)
			for n := range rotations {
				w.awaitRotation(n)
				w.rotate(s.path("logs/app.log"), "su root root\nrotate 100\n"+directives)
			}
			w.wantStored("App")
			names, err := filepath.Glob(s.path("logs/*"))
			if err != nil || len(names) < rotations { // the live one too, if the writer had not ended
				t.Errorf("the files are %v, %v", names, err)
			}
			p.stop()
		})
	}
	hup := "\nsharedscripts\npostrotate\n  kill -HUP PID\nendscript"
	f("create", "slog", byName, "create 0644 root root"+hup)
	f("nocreate, found with what was rotated", "reopening", withRotated, "nocreate"+hup)
	f("dateext", "reopening", byName, "create 0644 root root\ndateext\ndateformat -%Y%m%d-%s"+hup)
	f("delaycompress", "slog", byName, "create 0644 root root\ncompress\ndelaycompress"+hup)
	f("delaycompress, found with what was rotated", "slog", withRotated, "create 0644 root root\ncompress\ndelaycompress"+hup)
	f("without a signal", "watched", byName, "nocreate")
}

// TestLogrotateCopies: the same with copytruncate, while the application holds its
// breath: what it writes between copy and truncation would be in no file.
func TestLogrotateCopies(t *testing.T) {
	t.Parallel()
	needsLogrotate(t)
	m := watchModes(t)
	defer m.Wait()
	f := func(name, inputs, directives string) {
		m.run(name, func(t *testing.T, mode string) {
			s := newSite(t, emulator.Options{})
			s.write("logs/app.log", "")
			s.trusted()
			p := s.run(open + strings.ReplaceAll(inputs, "MODE", mode))
			p.await(1, "agent is running")
			w := s.writer("slog", s.path("logs/app.log"), rotated)
			for n := range rotations {
				w.awaitRotation(n)
				w.hold()
				w.rotate(s.path("logs/app.log"), "su root root\nrotate 100\n"+directives)
				w.goOn()
			}
			w.wantStored("App")
			p.stop()
		})
	}
	f("by its name", byName, "copytruncate")
	f("with the copies", withRotated, "copytruncate")
	f("with dated copies", withRotated, "copytruncate\ndateext\ndateformat -%Y%m%d-%s")
	f("with compressed copies", withRotated, "copytruncate\ncompress\ndelaycompress")
}

// TestLogrotateCopiesWhileItStandsStill: the agent stands still while a log is written to, copied and truncated,
// more than once. What it had not read is in the copies, and is stored once.
func TestLogrotateCopiesWhileItStandsStill(t *testing.T) {
	t.Parallel()
	needsLogrotate(t)
	m := watchModes(t)
	defer m.Wait()
	f := func(name, directives string, more ...int) { // so many records before and after each rotation
		m.run(name, func(t *testing.T, mode string) {
			s := newSite(t, emulator.Options{})
			records := jsonRecords(0, 1000)
			n := 100
			s.write("logs/app.log", joined(records[:n]))
			s.trusted()
			p := s.run(open + strings.ReplaceAll(byName, "MODE", mode))
			s.awaitRows("App", n)
			p.awaitSafe("app")
			p.signal(syscall.SIGSTOP)
			awaitStopped(t, p.cmd.Process)
			for i, more := range more {
				if i > 0 {
					s.tick()
					s.rotate(s.path("logs/app.log"), "su root root\nrotate 100\n"+directives)
					s.tick()
				}
				for _, r := range records[n : n+more] {
					s.append("logs/app.log", r+"\n")
				}
				n += more
			}
			p.signal(syscall.SIGCONT)
			s.awaitRows("App", n)
			s.wantRows("App", records[:n])
			p.stop()
		})
	}
	f("compressed", "copytruncate\ncompress", 100, 200, 100)
	f("compressed later", "copytruncate\ncompress\ndelaycompress", 100, 200, 100)
	f("dated", "copytruncate\ncompress\ndateext\ndateformat -%Y%m%d-%s", 100, 200, 10, 100)
	f("nothing new before the first", "copytruncate", 0, 200, 100)
}

// TestLogrotateRenamesAndCopies: logrotate copies the log to another folder, which may be on another file
// system, and deletes it, twice while the agent is stopped. All of it is found in the copies, which no
// pattern matches. What was read before comes twice, and the log names the copy.
func TestLogrotateRenamesAndCopies(t *testing.T) {
	t.Parallel()
	needsLogrotate(t)
	f := func(name, old, directives string, mounted bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.must(os.MkdirAll(s.path(old), 0o755))
			if mounted {
				if err := syscall.Mount("tmpfs", s.path(old), "tmpfs", 0, "mode=0755"); err != nil {
					t.Skipf("the kernel refuses to mount: %v", err)
				}
				t.Cleanup(func() { _ = syscall.Unmount(s.path(old), syscall.MNT_DETACH) })
			}
			records := jsonRecords(0, 180)
			s.write("logs/app.log", joined(records[:100]))
			s.trusted()
			config := open + strings.ReplaceAll(byName, "MODE", "auto")
			p := s.run(config)
			s.awaitRows("App", 100)
			p.stop()
			for n := 100; n < 160; n += 30 {
				s.append("logs/app.log", joined(records[n:n+30]))
				s.tick()
				s.rotate(s.path("logs/app.log"), "su root root\nrotate 9\ncreate\nrenamecopy\nolddir "+s.path(old)+"\n"+directives)
			}
			s.append("logs/app.log", joined(records[160:]))
			p = s.run(config)
			want, again := records, 0
			if !strings.Contains(directives, "compress") {
				again, want = 100, append(records[:100:100], records...)
			}
			s.awaitRows("App", len(records)+again)
			p.stop()
			s.wantRows("App", want)
			if n := len(p.entries("file was copied before it was deleted, and no pattern matches the copy; it is read under its new path", s.path(old))); n != min(again, 1) {
				t.Errorf("that records come twice is told %d times", n)
			}
		})
	}
	f("to a folder in its own", "logs/old", "", false)
	f("to another file system", "logs/old", "", true)
	f("to another file system beside", "old", "", true)
	f("to another file system, compressed", "logs/old", "compress", true)
	f("to another file system, compressed later", "logs/old", "compress\ndelaycompress", true)
}
