package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// files asks a running agent.
func (s *site) files(args ...string) (list telemetry.FileList) {
	s.t.Helper()
	p := s.launch(append([]string{"files", "--json", "--state-dir", s.path("state")}, args...)...).want(0)
	s.must(json.Unmarshal([]byte(p.out.text()), &list))
	return list
}

// TestFiles: one line for each file with how far it is, and why one is not read.
func TestFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", joined(jsonRecords(0, 100)))
	s.write("logs/b\xff\x1b.json", "{\"a\":1}\n{\"no\":\"end\"")
	s.write("logs/x.json", "{}\n")
	s.must(syscall.Mkfifo(s.path("logs/f.json"), 0o600))
	s.must(os.Mkdir(s.path("logs/d.json"), 0o700))
	hold := s.server.Fail(emulator.Fault{Status: 404, Match: emulator.Match{Table: "Held"}})
	p := s.run(open + impatient + "batch: {max_size: 1MiB}\nspool: {max_size: 0}\n" + `inputs:
  - {name: app, paths: ["${DIR}/logs/*.json"], exclude: ["x*"], table: T, mapping: m}
  - {name: held, paths: ["${DIR}/held/*.json"], table: Held, mapping: m}
  - {name: state, paths: ["${DIR}/state/LOCK"], format: TXT, table: Own}
  - {name: none, paths: ["${DIR}/none/*.json"], table: None, mapping: m}
`)
	s.write("held/h.json", joined(jsonRecords(0, 10_000)))
	s.awaitRows("T", 101)
	s.awaitHits(hold, 1)
	find := func(list telemetry.FileList, input, path string) (found telemetry.File) {
		t.Helper()
		n := 0
		for _, f := range list.Files {
			if f.Input == input && f.Path == path {
				found, n = f, n+1
			}
		}
		if n != 1 {
			t.Errorf("%d lines of %s for %s in %+v", n, path, input, list.Files)
		}
		return found
	}
	var list telemetry.FileList
	s.until("the held file waits", func() bool {
		list = s.files()
		f := find(list, "held", s.path("held/h.json"))
		return (f.State == "sending" || f.State == "waiting") && f.BehindBytes > 0 && f.BehindSeconds > 0 &&
			strings.HasSuffix(f.Why, "its route is held: NotFound_StreamingIngestionDisabledForCluster")
	})
	is := func(f telemetry.File, state, why, fix string) {
		t.Helper()
		if f.State != state || !strings.Contains(f.Why, why) || why == "" && f.Why != "" || !strings.Contains(f.Fix, fix) || f.BehindBytes > 0 && f.BehindSeconds <= 0 {
			t.Errorf("%+v", f)
		}
		if (f.ID != "") != (f.State != "not read") || f.ID != "" && !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(f.ID) {
			t.Errorf("id %q of %s", f.ID, f.Path)
		}
	}
	a := find(list, "app", s.path("logs/a.json"))
	is(a, "idle", "", "")
	if size := int64(len(joined(jsonRecords(0, 100)))); a.Size != size || a.Read != size || a.Safe != size || a.BehindBytes != 0 || a.BehindSeconds != 0 {
		t.Errorf("%+v, want all of %d bytes safe", a, size)
	}
	is(find(list, "app", fmt.Sprintf("%q", s.path("logs/b\xff\x1b.json"))), "waiting", "no end", "")
	is(find(list, "app", s.path("logs/f.json")), "not read", "FIFO", "exclude")
	is(find(list, "app", s.path("logs/d.json")), "not read", "directory", "/*")
	is(find(list, "state", s.path("state/LOCK")), "not read", "belongs to the agent", "exclude")
	is(find(list, "none", ""), "not read", "no file matches", "paths")
	if len(list.Files) != 7 {
		t.Errorf("%d lines: %+v", len(list.Files), list.Files)
	}
	if f := s.files("--all", "--input", "app"); len(f.Files) != 5 {
		t.Errorf("%d lines of all of one input: %+v", len(f.Files), f.Files)
	} else if x := find(f, "app", s.path("logs/x.json")); x.State != "left out" || x.Why != "exclude leaves it out" {
		t.Errorf("%+v", x)
	}

	// As text, and of what is gone.
	s.must(os.Remove(s.path("logs/a.json")))
	s.until("the deleted file is told", func() bool { return find(s.files(), "app", s.path("logs/a.json")).State == "deleted" })
	out, _ := s.show(0, "files", "--config", s.path("agent.yaml"))
	for _, want := range []string{"\nno file\n  none ", "\nDIR/logs/f.json\n  app ", "    it is a FIFO\n    what to do: leave it out", `\xff\x1b.json"` + "\n  app ", " deleted "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	s.show(exit.Usage, "files", "--input", "nope", "--config", s.path("agent.yaml"))
	p.stop()
}

// TestFilesWithoutAgent: each reason has its code and says what to do.
func TestFilesWithoutAgent(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	f := func(code int, says string, args ...string) {
		t.Helper()
		out, words := s.show(code, append([]string{"files"}, args...)...)
		if out != "" || !strings.Contains(words, says) {
			t.Errorf("%v prints %q, says %q; want %q", args, out, words, says)
		}
	}
	f(exit.Unreachable, "no agent answers in DIR/none; start it, or name its state_dir with --state-dir", "--state-dir", s.path("none"))
	s.write("agent.yaml", open+oneJSON)
	f(exit.Unreachable, "no agent answers in DIR/state", "--config", s.path("agent.yaml"))
	f(exit.Config, "--state-dir", "--config", s.path("none.yaml"))
	s.write("file", "")
	f(exit.Unreachable, "no agent answers in DIR/file", "--state-dir", s.path("file"))

	// Of another user.
	if os.Getuid() != 0 {
		t.Skip("needs root to be somebody else")
	}
	p := s.run(open + oneJSON)
	p.await(1, "agent is running")
	s.show(0, "files", "--state-dir", s.path("state"))
	s.refusable() // from here on as nobody
	f(exit.Failed, "permission denied; run it with sudo, or as the agent's user", "--state-dir", s.path("state"))
	s.must(os.Chmod(s.path("state"), 0o755)) // the socket is closed by itself too
	f(exit.Failed, "permission denied; run it with sudo, or as the agent's user", "--state-dir", s.path("state"))
	p.stop()
}

// TestLongStateDir: a state_dir may be longer than the address of a socket.
func TestLongStateDir(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	deep := "state/" + strings.Repeat("folder/", 30)
	s.write("logs/a.json", "{}\n")
	p := s.run(strings.Replace(open, "${DIR}/state", "${DIR}/"+deep, 1) + oneJSON)
	s.awaitRows("T", 1)
	if out, _ := s.show(0, "files", "--state-dir", s.path(deep)); !strings.Contains(out, "DIR/logs/a.json") {
		t.Errorf("it prints %s", out)
	}
	p.stop()
	if _, err := os.Lstat(filepath.Join(s.path(deep), telemetry.SocketName)); !os.IsNotExist(err) {
		t.Errorf("after the stop the socket is there: %v", err)
	}
	p.wantComplaints()
}

// TestOutputThatCannotBeWritten: a full disk behind stdout is a failure of the command, and not a
// wrong command line.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/app.json", joined(jsonRecords(0, 5)))
	p := s.run(open + appLogs)
	address := p.await(1, "telemetry endpoint is listening").text("address")
	s.before = []string{"sh", "-c", `exec "$@" >/dev/full`, "sh"}
	for _, command := range [][]string{{"status", "--address", address}, {"files", "--config", s.path("agent.yaml")}, {"version"}} {
		if q := s.launch(command...).want(exit.Failed); !strings.Contains(q.log.text(), "no space left") {
			t.Errorf("%s: %s", command[0], q.log.text())
		}
	}
	s.before = nil
	p.stop()
}

// TestPinned: what deleted files hold of the disk is told; above the cap the
// oldest is let go, counted and logged, and its disk is free; below it nothing
// is, for however long.
func TestPinned(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	down := s.server.Fail(emulator.Fault{Status: 503})
	p := s.run(open + impatient + "spool: {max_size: 0}\nbatch: {max_size: 64KiB}\n" + `inputs:
  - {paths: ["${DIR}/logs/*.json"], table: T, mapping: m, max_pinned_deleted: 5MB, rotate_quiet: 10ms}
`)
	const size = 2_000_000
	record := func(name string, i int) string {
		return fmt.Sprintf(`{"file":"%s","seq":%d,"fill":"%s"}`, name, i, strings.Repeat("x", 900))
	}
	fill := func(name string) (all []string) {
		for i, n := 0, 0; n < size; i++ {
			r := record(name, i)
			all, n = append(all, r), n+len(r)+1
		}
		s.write("logs/"+name+".json", joined(all))
		s.until("a file is found", func() bool {
			for _, f := range p.files() {
				if f.Path == s.path("logs/"+name+".json") && f.Size >= size {
					return true
				}
			}
			return false
		})
		return all
	}
	remove := func(name string) { s.must(os.Remove(s.path("logs/" + name + ".json"))) }
	first := fill("a")
	second := fill("b")
	remove("a")
	s.until("one is pinned", func() bool { return p.metric("pinned_deleted_bytes", `input="T"`) == float64(len(joined(first))) })
	remove("b")
	both := float64(len(joined(first)) + len(joined(second)))
	s.until("two are pinned", func() bool { return p.metric("pinned_deleted_bytes") == both })
	s.awaitHits(down, down.Hits()+5) // much longer than rotate_quiet
	if n, held := p.metric("tail_abandoned_bytes_total"), p.pinned(s.path("logs")); n != 0 || held != 2 {
		t.Errorf("below the cap %v bytes are abandoned, %d files held", n, held)
	}
	third := fill("c")
	remove("c")
	e := p.await(1, "deleted file abandoned, its unread bytes are lost: deleted files take more space than max_pinned_deleted", `"ERROR"`)
	s.until("its disk is free", func() bool { return p.pinned(s.path("logs")) == 2 })
	for _, open := range p.open(s.path("logs")) {
		if strings.HasPrefix(open, s.path("logs/a.json")) {
			t.Errorf("%s is still open", open)
		}
	}
	lost := p.metric("tail_abandoned_bytes_total", `input="T"`)
	if e["file"] != s.path("logs/a.json") || e["input"] != "T" || e.number("end") != int64(len(joined(first))) ||
		float64(e.number("end")-e.number("offset")) != lost || float64(e.number("bytes")) != lost || lost == 0 || !strings.Contains(e.text("fix"), "max_pinned_deleted") {
		t.Errorf("%v bytes are counted, told is %v", lost, e)
	}
	down.Remove()
	s.awaitRows("T", len(second)+len(third))
	s.until("all is let go", func() bool { return p.metric("pinned_deleted_bytes") == 0 && p.pinned(s.path("logs")) == 0 })
	p.awaitBooks("T", func(a account) bool { return a.pending == 0 })
	p.stop()
	read := 0 // of the first
	for at := int64(0); at < e.number("offset"); read++ {
		at += int64(len(first[read])) + 1
	}
	s.wantRows("T", append(append(first[:read], second...), third...))
}

// TestStatusBesideAnotherAddress: status --config finds the agent also where it does not answer at
// telemetry.listen of its configuration: the key was changed and the agent not restarted, or another
// agent had the address first.
func TestStatusBesideAnotherAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	s.write("agent.yaml", open+oneText)
	p := s.launch("run", "--config", "agent.yaml")
	address := p.await(1, "telemetry endpoint is listening").text("address")
	own := strings.Replace(open, "DIR}/state", "DIR}/own", 1) + oneText
	s.write("own.yaml", strings.Replace(own, "127.0.0.1:0", address, 1))
	second := s.launch("run", "--config", "own.yaml")
	second.await(1, "telemetry endpoint disabled, the agent continues without it")
	s.awaitRows("Text", 2)
	out, _ := s.show(0, "status", "--config", "own.yaml", "--json")
	if !strings.Contains(out, "DIR/own.yaml") {
		t.Errorf("status of the agent without an endpoint:\n%s", out)
	}
	s.write("own.yaml", strings.Replace(own, "127.0.0.1:0", "127.0.0.1:1", 1))
	second.signal(syscall.SIGHUP)
	second.await(1, "configuration reloaded, except for keys that need a restart")
	out, _ = s.show(1, "status", "--config", "own.yaml")
	if !strings.Contains(out, "in force after a restart of the agent: telemetry.listen") {
		t.Errorf("status of the agent that was not restarted:\n%s", out)
	}
	second.stop()
	if _, words := s.show(exit.Unreachable, "status", "--config", "own.yaml"); !strings.Contains(words, "connection refused; is it running") {
		t.Errorf("status of no agent: %s", words)
	}
	p.stop()
}

// TestStatusOfAnother: status --config is not answered by an agent with another configuration that has
// the address, however the path of either was written.
func TestStatusOfAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	s.write("agent.yaml", open+oneText)
	p := s.launch("run", "--config", "agent.yaml")
	s.awaitRows("Text", 1)
	address := p.await(1, "telemetry endpoint is listening").text("address")
	text := strings.Replace(open, "127.0.0.1:0", address, 1) + oneText
	s.write("other.yaml", text)
	for _, path := range []string{"other.yaml", s.path("other.yaml")} {
		one := s.launch("status", "--config", path)
		if one.want(exit.Failed); !strings.Contains(one.log.text(), "runs with "+s.path("agent.yaml")) {
			t.Errorf("status --config %s: %s%s", path, one.out.text(), one.log.text())
		}
	}
	s.write("agent.yaml", text)
	for _, path := range []string{"agent.yaml", s.path("agent.yaml")} {
		s.launch("status", "--config", path).want(0)
	}
	p.stop()
}
