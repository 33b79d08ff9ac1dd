package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/async"
	"kusto-agent/internal/custody"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/statedir"
)

const (
	textInput  = "inputs: [{name: in, paths: [\"$DIR/logs/*.log\"], table: T}]\n"
	otherTable = "inputs: [{name: in, paths: [\"$DIR/logs/*.log\"], table: U}]\n"
	otherInput = "inputs: [{name: other, paths: [\"$DIR/none/*.log\"], table: V}]\n"
	noSpool    = "spool: {max_size: 0}\n"
	// brief has a stop break off soon what hangs.
	brief = "shutdown_timeout: 100ms\n"
	// hasty has what waits go to the spool soon.
	hasty = "send: {retry: {initial: 10ms, max: 50ms, patience: 100ms}}\n"
)

// begun is a site after a run without a spool that ended with a batch of two records begun,
// whose outcome is unknown.
func begun(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.write("logs/a.log", "one\ntwo\n")
	s.configure(brief + noSpool + textInput)
	hang := s.server.Fail(emulator.Fault{Hang: true, Reset: true})
	r := s.start(false)
	s.hits(hang, 1)
	r.stop()
	s.idle()
	hang.Remove()
	return s
}

// TestRestartWithABatchBegun: what becomes of a batch whose outcome is unknown, as after a
// kill, by what the next run finds. There is no spool that it could be in.
func TestRestartWithABatchBegun(t *testing.T) {
	t.Parallel()
	f := func(name, next string, change func(s *site), says string, want map[string][]string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begun(t)
			change(s)
			s.configure(noSpool + next)
			code := 0
			if strings.HasSuffix(says, "are lost") {
				code = exit.Failed
			}
			r := s.once(code)
			if !strings.Contains(r.log.text(), says) {
				t.Errorf("it does not say %q:\n%s", says, r.log.text())
			}
			for _, table := range []string{"T", "U"} {
				s.rows(table, want[table]...)
			}
			for input, b := range r.agent.Books() {
				if err := b.Check(); err != nil {
					t.Errorf("books of %s: %v", input, err)
				}
			}
		})
	}
	both := []string{"one", "two"}
	as := func(*site) {}
	const again = "outcome of a batch of an earlier run is unknown, it is sent again and may be stored twice"
	f("the same", textInput, as, again, map[string][]string{"T": both})
	f("another table", otherTable, as, "was read with other settings than its input has now; its ranges are read again", map[string][]string{"U": both})
	f("renamed", textInput, func(s *site) { s.must(os.Rename(s.path("logs/a.log"), s.path("logs/b.log"))) }, again, map[string][]string{"T": both})
	f("gone", textInput, func(s *site) { s.must(os.Remove(s.path("logs/a.log"))) }, "outcome of a batch of an earlier run is unknown and its source is gone: records that the service did not store are lost", nil)
	f("not configured", otherInput, as, "batch of an earlier run cannot be read again now, will retry", nil)
	f("more since", textInput, func(s *site) { s.append("logs/a.log", "three\n") }, again, map[string][]string{"T": {"one", "two", "three"}})
}

// TestRestartWithoutAnInput: a batch of an input that is not configured waits, and is sent
// once the input is back.
func TestRestartWithoutAnInput(t *testing.T) {
	t.Parallel()
	s := begun(t)
	s.configure(noSpool + otherInput)
	r := s.start(false)
	r.told(1, "batch of an earlier run cannot be read again now, will retry")
	s.rows("T")
	s.configure(noSpool + textInput)
	r.hangups <- syscall.SIGHUP
	s.rows("T", "one", "two")
	r.books("in", func(b ledger.Books) bool { return b.Accepted == 2 && b.Check() == nil })
	r.stop()
	s.once(0)
	s.rows("T", "one", "two")
}

// TestSpooledBeforeTheSenderRuns: a run --once has something to send from the moment the
// spool is open.
func TestSpooledBeforeTheSenderRuns(t *testing.T) {
	t.Parallel()
	s, r, back := inOutage(t, "one\n", 1)
	r.stop()
	s.idle()
	back()
	cfg := s.configuration()
	a, err := New(Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Once: true})
	s.must(err)
	if n := a.waiting(); n != 1 {
		t.Errorf("%d payloads are to be sent", n)
	}
	s.must(a.close())
	s.once(0)
	s.rows("T", "one")
}

// TestStartWaitsForAFolder: a process that has state_dir or the spool for a moment does not keep an
// agent from starting.
func TestStartWaitsForAFolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"state", "state/spool"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.configure(textInput)
			s.must(os.MkdirAll(s.path("state/spool"), 0o700))
			lock, err := durable.OS.Lock(s.path(name))
			s.must(err)
			log := newNotes()
			freed := async.Start(func() {
				for all, more := log.seen(); !strings.Contains(all, "folder is in use by another process"); all, more = log.seen() {
					<-more
				}
				_ = lock.Close() // the start fails if it is not free
			})
			cfg := s.configuration()
			a, err := New(Options{Config: cfg, Log: slog.New(slog.NewTextHandler(log, nil)), Once: true})
			s.must(err)
			<-freed
			s.must(a.close())
		})
	}
}

// TestStateIsRemovedWhileRunning: the agent writes down again what it knows, and nothing is stored
// twice after the next start.
func TestStateIsRemovedWhileRunning(t *testing.T) {
	t.Parallel()
	s, r := started(t)
	s.must(os.RemoveAll(s.path("state")))
	s.append("logs/a.log", "two\n")
	s.rows("T", "one", "two")
	r.stop()
	if r.err != nil || !strings.Contains(r.log.text(), "file was removed while it was open") {
		t.Errorf("ends with %v\n%s", r.err, r.log.text())
	}
	s.append("logs/a.log", "three\n")
	s.once(0)
	s.rows("T", "one", "two", "three")
}

// TestStateIsAnotherFolder: where state_dir is removed while the agent runs, and another agent has the
// folder in its place, the one that runs writes nothing to it, and takes it when that has ended.
func TestStateIsAnotherFolder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("logs/a.log", "one\n")
	s.configure(textInput)
	r := s.start(false)
	s.rows("T", "one")
	s.must(os.RemoveAll(s.path("state")))
	other, err := statedir.Lock(s.path("state"), slog.New(slog.DiscardHandler))
	s.must(err)
	s.append("logs/a.log", "two\n")
	s.rows("T", "one", "two")
	r.told(1, "is in use by another agent")
	if _, err := os.Stat(s.path("state/journal")); err == nil {
		t.Error("there is a journal in the folder of another agent")
	}
	refuses := s.server.Fail(emulator.Fault{Status: 400})
	s.append("logs/a.log", "bad\n")
	s.hits(refuses, 1)
	r.told(1, "quarantine write failed")
	if _, err := os.Stat(s.path("state/quarantine")); err == nil {
		t.Error("there is quarantine in the folder of another agent")
	}
	s.must(other.Close())
	r.told(1, "journal writes succeed again")
	r.told(1, "quarantine writes succeed again")
	r.books("in", func(b ledger.Books) bool { return ledger.Total(b.Quarantined) == 1 })
	refuses.Remove()
	if _, err := statedir.Lock(s.path("state"), slog.New(slog.DiscardHandler)); !errors.Is(err, statedir.ErrInUse) {
		t.Errorf("another one gets: %v", err)
	}
	r.stop()
	s.append("logs/a.log", "three\n")
	s.once(0)
	s.rows("T", "one", "two", "three")
}

// TestStateIsRemovedInAnOutage: what waited in the spool is read again from its files by the next
// start.
func TestStateIsRemovedInAnOutage(t *testing.T) {
	t.Parallel()
	s, r, back := inOutage(t, "one\ntwo\n", 2)
	s.must(os.RemoveAll(s.path("state")))
	s.append("logs/a.log", "three\n")
	r.told(1, "journal write failed")
	r.stop()
	s.idle()
	back()
	if r.err == nil || !strings.Contains(r.log.text(), "state was not saved") {
		t.Errorf("ends with %v\n%s", r.err, r.log.text())
	}
	s.once(0)
	got := map[string]bool{}
	for _, row := range s.server.Rows("Logs", "T") {
		got[string(row.Raw)] = true
	}
	if len(got) != 3 {
		t.Errorf("stored are %v", got)
	}
}

// TestSpoolFolderIsAnother: a spool.dir that is set in an outage leaves payloads behind, which the log
// says; they are sent when it is set back. A folder that is moved there is sent from there.
func TestSpoolFolderIsAnother(t *testing.T) {
	t.Parallel()
	const left = "payloads are left in the one before"
	f := func(name string, move bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r, back := inOutage(t, "one\ntwo\n", 2)
			r.stop()
			s.idle()
			back()
			s.must(os.Remove(s.path("logs/a.log")))
			if move {
				s.must(os.Rename(s.path("state/spool"), s.path("sp")))
			}
			s.configure("spool: {dir: \"$DIR/sp\"}\n" + textInput)
			if move {
				r = s.once(0)
			} else {
				r = s.once(exit.Failed)
			}
			if strings.Contains(r.log.text(), left) == move {
				t.Errorf("logged\n%s", r.log.text())
			}
			if !move {
				s.configure(textInput)
				if r = s.once(0); strings.Contains(r.log.text(), left) {
					t.Errorf("set back:\n%s", r.log.text())
				}
			}
			s.rows("T", "one", "two")
		})
	}
	f("left", false)
	f("moved", true)
}

// TestWhatIsLeftWasSent: payloads in the folder that the spool had before are not told as left behind
// once their records were sent from their files.
func TestWhatIsLeftWasSent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("logs/a.log", "one\ntwo\n")
	s.configure(brief + hasty + textInput)
	away := s.server.Fail(emulator.Fault{Status: 503})
	r := s.start(false)
	r.books("in", func(b ledger.Books) bool { return b.Spooled == 2 })
	r.stop()
	s.idle()
	away.Remove()
	s.configure("spool: {dir: \"$DIR/sp\"}\n" + textInput)
	s.once(0)
	if r = s.once(0); strings.Contains(r.log.text(), "payloads are left in the one before") {
		t.Errorf("logged\n%s", r.log.text())
	}
	s.configure(textInput)
	s.once(0)
	s.rows("T", "one", "two")
}

// TestStopInARequeue: a stop waits for the answer to records that a command sends again, within the time
// that it has, and what became of them is written down.
func TestStopInARequeue(t *testing.T) {
	t.Parallel()
	f := func(name, settings string, answers bool, accepted, marked int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.write("logs/a.log", "one\n")
			s.configure(settings + textInput)
			refuses := s.server.Fail(emulator.Fault{Status: 400})
			r := s.start(false)
			r.books("in", func(b ledger.Books) bool { return ledger.Total(b.Quarantined) == 1 })
			refuses.Remove()
			hang := s.server.Fail(emulator.Fault{Hang: true, When: emulator.AfterCommit})
			var out *custody.Requeued
			var err error
			asked := async.Start(func() {
				out, err = r.agent.Requeue(context.Background(), custody.Requeue{Lines: []string{"1:1"}})
			})
			s.hits(hang, 1)
			r.signals <- syscall.SIGTERM
			r.told(1, "agent is stopping")
			if _, err := r.agent.Requeue(context.Background(), custody.Requeue{Lines: []string{"1:1"}}); err == nil || !strings.Contains(err.Error(), "the agent stops") {
				t.Errorf("another one during the stop ends with %v", err)
			}
			if answers {
				hang.Remove()
			}
			r.await(r.ended)
			r.await(asked)
			hang.Remove()
			if err != nil || out.Accepted != accepted || out.Unknown != marked || r.err != nil {
				t.Errorf("requeued %+v, %v; the agent ends with %v", out, err, r.err)
			}
			left := 0
			s.must(quarantine.List(s.path("state/quarantine"), func(e quarantine.Entry) error {
				if left++; e.Perhaps == "" {
					t.Errorf("not marked: %+v", e)
				}
				return nil
			}))
			if _, err := os.Stat(s.path("state/quarantine/requeue.json")); left != marked || !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%d are left, and the note: %v", left, err)
			}
		})
	}
	f("answered", "", true, 1, 0)
	f("no answer", brief, false, 0, 1)
}

// TestRestartWithABatchSpooled: what becomes of a batch in the spool, by what is left of the
// spool and of its file.
func TestRestartWithABatchSpooled(t *testing.T) {
	t.Parallel()
	f := func(name, next string, change func(s *site), is func(ledger.Books) bool, want map[string][]string) {
		code := 0
		if want == nil {
			code = exit.Failed // its records are lost
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r, back := inOutage(t, "one\ntwo\n", 2)
			r.stop()
			s.idle()
			back()
			change(s)
			s.configure(next)
			r = s.once(code)
			for _, table := range []string{"T", "U"} {
				s.rows(table, want[table]...)
			}
			if b := r.agent.Books()["in"]; !is(b) || b.Check() != nil {
				t.Errorf("the books are %+v, %v\n%s", b, b.Check(), r.log.text())
			}
		})
	}
	both := map[string][]string{"T": {"one", "two"}}
	accepted := func(b ledger.Books) bool { return b.Accepted == 2 }
	lose := func(s *site) {
		all, err := filepath.Glob(s.path("state/spool/*.seg"))
		s.must(err)
		if len(all) == 0 {
			s.Fatal("no segment")
		}
		for _, path := range all {
			s.must(os.Remove(path))
		}
	}
	damage := func(s *site) {
		all, err := filepath.Glob(s.path("state/spool/*.seg"))
		s.must(err)
		for _, path := range all {
			text, err := os.ReadFile(path)
			s.must(err)
			text[len(text)-1] ^= 1
			s.must(os.WriteFile(path, text, 0o600))
		}
	}
	remove := func(s *site) { s.must(os.Remove(s.path("logs/a.log"))) }
	f("sound", textInput, func(*site) {}, accepted, both)
	f("sound, another table now", otherTable, func(*site) {}, accepted, both)
	f("sound, its file is gone", textInput, remove, accepted, both)
	f("lost", textInput, lose, accepted, both)
	f("lost, another table now", otherTable, lose, accepted, map[string][]string{"U": both["T"]})
	f("damaged", textInput, damage, accepted, both)
	f("lost, its file is gone", textInput, func(s *site) { lose(s); remove(s) }, func(b ledger.Books) bool { return b.Dropped[ledger.SourceGone] == 2 }, nil)
}
