package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/telemetry"
)

// Files that go away, come back, and are not let in, on the real program.

// inModes runs a test with events and without.
func inModes(t *testing.T, f func(t *testing.T, watch string)) {
	for _, watch := range []string{"auto", "poll"} {
		t.Run(watch, func(t *testing.T) {
			t.Parallel()
			f(t, watch)
		})
	}
}

// TestDeletedUnread: a file with much in it that is not read is removed while
// nothing is accepted; all of it is stored, and then it is let go, by itself.
func TestDeletedUnread(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, watch string) {
		s := newSite(t, emulator.Options{})
		down := s.server.Fail(emulator.Fault{Status: 503})
		records := make([]string, 20_000)
		for i := range records {
			records[i] = strings.TrimSuffix(crashLine(i), "\n")
		}
		s.write("logs/a.json", joined(records))
		p := s.run(open + hasty + "spool: {max_size: 0}\nlimits: {memory: 32MiB}\nbatch: {max_size: 256KiB, max_wait: 10ms}\n" +
			strings.NewReplacer("app.json*", "a.json*", "rotate_quiet", "watch: "+watch+", rotate_quiet").Replace(appLogs))
		s.awaitHits(down, 2)
		s.must(os.Remove(s.path("logs/a.json")))
		s.until("it is known to be deleted", func() bool {
			all := p.files()
			return len(all) == 1 && all[0].State == "deleted"
		})
		if p.pinned(s.path("logs")) != 1 {
			t.Error("it is not held")
		}
		down.Remove()
		s.awaitRows("T", len(records))
		s.until("it is let go", func() bool { return p.pinned(s.path("logs")) == 0 })
		p.stop()
		s.wantRows("T", records)
	})
}

// TestAbandoned: what deleted files hold above max_pinned_deleted is given up,
// counted, and named with path and range; its blocks are free.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.disk("logs", "size=16M")
	s.must(os.Chmod(s.path("logs"), 0o755))
	s.server.Fail(emulator.Fault{Status: 503})
	var text strings.Builder
	for i := range 8_000 {
		text.WriteString(crashLine(i))
	}
	s.write("logs/a.json", text.String())
	p := s.run(open + hasty + "spool: {max_size: 0}\nlimits: {memory: 32MiB}\nbatch: {max_size: 64KiB, max_wait: 10ms}\n" +
		strings.NewReplacer("app.json*", "a.json*", "rotate_quiet", "max_pinned_deleted: 1MiB, rotate_quiet").Replace(appLogs))
	p.awaitStandstill()
	s.must(os.Remove(s.path("logs/a.json")))
	e := p.await(1, "deleted file abandoned, its unread bytes are lost: deleted files take more space than max_pinned_deleted")
	if e["file"] != s.path("logs/a.json") || e.number("bytes") == 0 || e.number("offset")+e.number("bytes") != int64(text.Len()) {
		t.Errorf("says %v", e)
	}
	s.until("it is let go", func() bool { return p.pinned(s.path("logs")) == 0 })
	if got := int64(p.metric("tail_abandoned_bytes_total")); got != e.number("bytes") {
		t.Errorf("%d bytes are counted, %d are told", got, e.number("bytes"))
	}
	if r := s.audited(1); problems(r) != "abandoned" || r.Files[0].Troubles[0].Bytes() != e.number("bytes") || r.Files[0].Troubles[0].Ranges[0].Start != e.number("offset") {
		t.Errorf("the audit tells %+v", r.Files)
	}
	s.write("logs/b", strings.Repeat("x", 12<<20)) // there is room for it again
}

// TestRecreatedWithoutHandles: where the kernel tells no file handles, a file that
// takes the inode of another is told from it by its birth.
func TestRecreatedWithoutHandles(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/start.log", "start\n")
	p := s.run(open + "batch: {max_wait: 10ms}\n" + `inputs: [{paths: ["${DIR}/logs/*.log"], table: Text, rotate_quiet: 50ms}]`)
	s.awaitRows("Text", 1)
	denied := p.inject("name_to_handle_at:error=EPERM")
	want := []string{"start"}
	inodes := make(map[uint64]bool)
	for i := range 4 {
		s.write("logs/a.log", fmt.Sprintf("banner\nline %d\n", i))
		want = append(want, "banner", fmt.Sprintf("line %d", i))
		s.awaitRows("Text", len(want))
		inodes[inodeOf(t, s.path("logs/a.log"))] = true
		s.must(os.Remove(s.path("logs/a.log")))
		s.until("it is let go", func() bool { return p.pinned(s.path("logs")) == 0 })
	}
	t.Logf("%d inodes for 4 files", len(inodes))
	denied.stop()
	if len(denied.lines(true)) < 4 {
		t.Errorf("handles were denied %d times", len(denied.lines(true)))
	}
	p.stop()
	s.once(open+oneText, 0)
	s.wantRows("Text", want)
}

// TestReadErrors: a file that cannot be read for a time is told once, keeps its
// place, and holds up no other.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"EIO", "EACCES"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.write("logs/a.log", "one\n")
			s.write("logs/b.log", "two\n")
			p := s.run(open + "batch: {max_wait: 10ms}\n" + oneText)
			s.awaitRows("Text", 2)
			bad := p.inject("pread64:error="+code, s.path("logs/a.log"))
			s.append("logs/a.log", "three\n")
			p.await(1, notRead, "a.log")
			s.append("logs/b.log", "four\n")
			s.awaitRows("Text", 3)
			s.append("logs/a.log", "five\n")
			s.append("logs/b.log", "six\n")
			s.awaitRows("Text", 4)
			bad.stop()
			s.awaitRows("Text", 6)
			p.await(1, "file can be read again", "a.log")
			p.stop()
			p.wantComplaints(notRead)
			s.wantRows("Text", []string{"one", "two", "three", "four", "five", "six"})
		})
	}
}

// TestFolderModes: a folder that can be listed and not entered, and one that can
// be entered and not listed, are told once each, with what to do, and cost other
// inputs nothing; a path that needs no list is read.
func TestFolderModes(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, watch string) {
		s := newSite(t, emulator.Options{})
		s.refusable()
		for i := range 5 {
			s.write(fmt.Sprintf("listed/%d.log", i), "listed\n")
			s.write(fmt.Sprintf("entered/%d.log", i), "entered\n")
		}
		s.write("logs/a.log", "one\n")
		s.must(os.Chmod(s.path("listed"), 0o444))
		s.must(os.Chmod(s.path("entered"), 0o111))
		config := open + fmt.Sprintf(`inputs:
  - {paths: ["${DIR}/listed/*.log"], table: Listed, watch: %[1]s}
  - {paths: ["${DIR}/entered/*.log"], table: Entered, watch: %[1]s}
  - {paths: ["${DIR}/entered/3.log"], table: Path, watch: %[1]s}
  - {paths: ["${DIR}/logs/*.log"], table: Text, watch: %[1]s}
`, watch)
		p := s.run(config)
		s.awaitRows("Text", 1)
		s.awaitRows("Path", 1)
		p.await(1, notRead, s.path("listed"), "setfacl", "folders")
		p.await(1, notRead, s.path("entered"), "setfacl", "folders")
		s.append("logs/a.log", "two\n")
		s.write("logs/b.log", "three\n")
		s.awaitRows("Text", 3)
		for _, e := range p.complaints() {
			if strings.HasSuffix(e.text("file"), ".log") {
				t.Errorf("told of a file in a folder: %v", e)
			}
		}
		s.must(os.Chmod(s.path("listed"), 0o755))
		s.must(os.Chmod(s.path("entered"), 0o755))
		s.awaitRows("Listed", 5)
		s.awaitRows("Entered", 5)
		p.stop()
	})
}

// TestFolderIsShutForATime: a folder that is not let in for a time, also over
// restarts, costs nothing of what is remembered: nothing is sent again.
func TestFolderIsShutForATime(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, watch string) {
		s := newSite(t, emulator.Options{})
		s.refusable()
		s.write("logs/a.log", "one\n")
		config := open + "batch: {max_wait: 10ms}\n" + `inputs: [{paths: ["${DIR}/logs/*.log"], table: Text, rotate_quiet: 10ms, forget_after: 10ms, watch: ` + watch + `}]`
		p := s.run(config)
		s.awaitRows("Text", 1)
		p.awaitSafe("Text")
		s.must(os.Chmod(s.path("logs"), 0))
		p.await(1, notRead, s.path("logs"), "permission denied")
		p.stop()
		p = s.run(config)
		p.await(1, notRead, s.path("logs"))
		p.kill()
		p = s.run(config)
		p.await(1, notRead, s.path("logs"))
		s.append("logs/a.log", "two\n") // who runs the test may
		s.must(os.Chmod(s.path("logs"), 0o755))
		s.awaitRows("Text", 2)
		p.stop()
		s.wantRows("Text", []string{"one", "two"})
	})
}

// TestOwnLog: a log of the agent that matches its own paths, or its state, is told
// once and not read.
func TestOwnLog(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, watch string) {
		s := newSite(t, emulator.Options{})
		s.write("logs/app.log", "one\n")
		s.write("agent.yaml", open+`spool: {dir: "${DIR}/elsewhere/spool"}
inputs: [{paths: ["${DIR}/logs/**/*"], table: Text, format: TXT, watch: `+watch+`}]`)
		s.must(os.Symlink("../state", s.path("logs/state")))
		s.must(os.Symlink(s.path("state/LOCK"), s.path("logs/LOCK")))
		log, err := os.OpenFile(s.path("logs/agent.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
		s.must(err)
		defer log.Close()
		s.logTo = log
		p := s.launch("run", "--config", s.path("agent.yaml"))
		s.agent = p
		defer func() {
			if t.Failed() {
				t.Log(s.read("logs/agent.log"))
			}
		}()
		s.awaitRows("Text", 1)
		s.append("logs/app.log", "two\n")
		s.awaitRows("Text", 2)
		told := func(name string) int {
			return strings.Count(s.read("logs/agent.log"), fmt.Sprintf("%q,", s.path(name))+`"err":"it belongs to the agent itself"`)
		}
		s.until("all is told", func() bool { return told("logs/agent.log") > 0 && told("logs/LOCK") > 0 })
		p.signal(os.Interrupt)
		p.want(0)
		for _, name := range []string{"logs/agent.log", "logs/LOCK"} {
			if n := told(name); n != 1 {
				t.Errorf("%s: told %d times\n%s", name, n, s.read("logs/agent.log"))
			}
		}
		s.wantRows("Text", []string{"one", "two"})
	})
}

// TestInputComesBack: an input that is taken out of the configuration for a run,
// with its files and others', goes on where it was.
func TestInputComesBack(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			first := `  - {name: first, paths: ["${DIR}/logs/*.log"], table: A, forget_after: 10ms}` + "\n"
			second := `  - {name: second, paths: ["${DIR}/logs/*.log"], table: B, forget_after: 10ms}` + "\n"
			round := func(inputs string, want map[string]int) {
				t.Helper()
				p := s.run(open + "batch: {max_wait: 10ms}\ninputs:\n" + inputs)
				for table, n := range want {
					s.awaitRows(table, n)
				}
				for input := range p.mustBooks() {
					p.awaitBooks(input, func(a account) bool { return a.pending == 0 })
				}
				s.until("all is safe", p.allRead)
				if killed {
					p.kill()
				} else {
					p.stop()
				}
			}
			s.write("logs/a.log", "one\n")
			round(first+second, map[string]int{"A": 1, "B": 1})
			s.append("logs/a.log", "two\n")
			round(second, map[string]int{"B": 2})
			s.append("logs/a.log", "three\n")
			round(first+second, map[string]int{"A": 3, "B": 3})
			s.wantRows("A", []string{"one", "two", "three"})
			s.wantRows("B", []string{"one", "two", "three"})
		})
	}
}

// TestDamagedJournal: a journal that was cut anywhere starts, says what it means,
// and nothing is lost.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	records := jsonRecords(0, 300)
	s.write("logs/a.json", joined(records))
	config := open + "batch: {max_size: 2KiB, max_wait: 10ms}\n" + oneJSON
	s.once(config, 0)
	segments, err := filepath.Glob(s.path("state/journal/*.seg"))
	s.must(err)
	newest := segments[len(segments)-1]
	whole, err := os.ReadFile(newest)
	s.must(err)
	said := false
	for _, part := range []int{0, 10, 40, 70, 99} {
		// The state is that of the first run, with its journal cut.
		s.must(os.RemoveAll(s.path("state")))
		s.must(os.MkdirAll(s.path("state/journal"), 0o700))
		s.must(os.WriteFile(filepath.Join(s.path("state/journal"), filepath.Base(newest)), whole[:len(whole)*part/100], 0o600))
		s.append("logs/a.json", joined(jsonRecords(len(records), 1)))
		records = append(records, jsonRecords(len(records), 1)...)
		p := s.once(config, 0)
		said = said || strings.Contains(p.log.text(), "journal segment")
	}
	if !said {
		t.Error("no word of the damage")
	}
	count := make(map[string]int)
	for _, row := range s.server.Rows("Logs", "T") {
		count[string(row.Raw)]++
	}
	for _, r := range records {
		if count[r] == 0 {
			t.Errorf("missing: %q", r)
		}
		delete(count, r)
	}
	if len(count) > 0 {
		t.Errorf("%d rows that were never written", len(count))
	}
}

// TestRestartsWhileItRotates: stopped and started again and again beside an
// application that rotates its file, it stores each record once.
func TestRestartsWhileItRotates(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, watch string) {
		starts := 6
		if longForm {
			starts = 50
		}
		s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
		config := open + "batch: {max_size: 64KiB, max_wait: 10ms}\n" + strings.TrimSuffix(appLogs, "}]\n") + ", watch: " + watch + "}]\n"
		done := make(chan int)
		halt := make(chan struct{})
		// Started here, ended by halt, awaited through done.
		go func() {
			seq := 0
			defer func() { done <- seq }()
			for file := 0; ; file++ {
				for range 20 {
					select {
					case <-halt:
						return
					default:
					}
					var b strings.Builder
					for end := seq + 25; seq < end; seq++ {
						b.WriteString(crashLine(seq))
					}
					s.append("logs/app.json", b.String())
					if s.server.WaitRows(t.Context(), "Logs", "T", seq-2000) != nil {
						return
					}
				}
				s.rename("logs/app.json", fmt.Sprintf("logs/app.json.%d", file))
			}
		}()
		for i := range starts {
			p := s.run(config)
			p.await(1, "agent is running")
			s.awaitRows("T", 1000*(i+1))
			p.stop()
		}
		p := s.run(config)
		close(halt)
		n := <-done
		s.awaitRows("T", n)
		p.awaitBooks("T", func(a account) bool { return a.pending == 0 })
		p.stop()
		var want []string
		for seq := range n {
			want = append(want, strings.TrimSuffix(crashLine(seq), "\n"))
		}
		s.wantRows("T", want)
	})
}

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// TestFoundThenKilled: a file that was rotated before the agent had opened it, to a name that no
// pattern matches, is found and read, and before any of it is sent the agent is killed: the next run
// knows that the file is wanted.
func TestFoundThenKilled(t *testing.T) {
	t.Parallel()
	needs(t, "gzip")
	lines := func(name string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s %d, a line that differs from the others of its file", name, i))
		}
		return all
	}
	for _, c := range []struct {
		name, first, second string
		compress            bool
	}{
		{"numbered", "app.log.2", "app.log.1", false},
		{"dated", "app-2026-11-25.log", "app-2026-11-26.log", false},
		{"numbered and compressed", "app.log.2", "app.log.1.gz", true},
		{"dated and compressed", "app-2026-11-25.log", "app-2026-11-26.log.gz", true},
		{"in olddir", "old/app.log.2", "old/app.log.1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			config := open + "spool: {max_size: 0}\nbatch: {max_wait: 10ms}\n" +
				"inputs: [{paths: [\"${DIR}/logs/app.log\"], format: TXT, table: T, rotate_quiet: 100ms}]\n"
			a, b, last := lines("a", 100), lines("b", 100), lines("c", 100)
			s.write("logs/app.log", joined(a))
			s.must(os.MkdirAll(s.path("logs/old"), 0o755))
			p := s.run(config)
			s.awaitRows("T", len(a))
			p.stop()
			s.must(os.Rename(s.path("logs/app.log"), s.path("logs/"+c.first)))
			s.tick()
			s.write("logs/app.log", joined(b))
			s.tick()
			s.must(os.Rename(s.path("logs/app.log"), s.path("logs/"+strings.TrimSuffix(c.second, ".gz"))))
			if c.compress {
				s.command("gzip", "logs/"+strings.TrimSuffix(c.second, ".gz"))
			}
			s.write("logs/app.log", joined(last))
			p = s.run(strings.Replace(config, "10ms", "10m", 1)) // nothing is sent, and no batch begins
			s.until("it is read", func() bool {
				return slices.ContainsFunc(p.files(), func(f telemetry.File) bool { return f.Path == s.path("logs/"+c.second) && f.Read > 0 })
			})
			p.kill()
			p = s.run(config)
			s.awaitRows("T", len(a)+len(b)+len(last))
			p.stop()
			s.wantRows("T", append(append(a, b...), last...))
		})
	}
}
