package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOddFiles: what is no file is told and costs the files beside it nothing.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	if err := syscall.Mkfifo(s.path("logs/pipe.log"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"loop.log": "loop.log", "dangling.log": "nowhere", "linked.log": "../linked"} {
		if err := os.Symlink(to, s.path("logs/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	s.write("linked", "two\n")
	s.write("logs/folder.log/inside", "")
	s.write("logs/a\nb\x1b[31m.log", "three\n")
	s.write("logs/empty.log", "")
	p := s.run(open + oneText)
	s.awaitRows("Text", 3)
	p.await(1, "file is not being read, trying again", "it is a FIFO")
	p.await(1, "file is not being read, trying again", "it is a directory")
	p.await(1, "file is not being read, trying again", "loop.log")
	p.await(1, "file is not being read, trying again", "dangling.log")
	if n := len(p.status().Problems); n != 4 {
		t.Errorf("problems: %q", p.status().Problems)
	}
	for _, what := range []string{"\x1b[31m", "a\nb"} {
		if strings.Contains(p.log.text(), what) {
			t.Errorf("the log holds %q as it is", what)
		}
	}
	// What was dangling is read as soon as it leads somewhere.
	s.write("logs/nowhere", "four\n")
	s.awaitRows("Text", 4)
	p.stop()
	s.wantRows("Text", []string{"one", "two", "three", "four"})
}

// TestUnreadableFile needs a user who can be refused.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("the kernel refuses root nothing")
	}
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	s.write("logs/closed.log", "two\n")
	if err := os.Chmod(s.path("logs/closed.log"), 0); err != nil {
		t.Fatal(err)
	}
	p := s.run(open + oneText)
	s.awaitRows("Text", 1)
	p.await(1, "file is not being read, trying again", "closed.log", "permission denied", "setfacl")
	if err := os.Chmod(s.path("logs/closed.log"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.awaitRows("Text", 2)
	p.stop()
}

// TestLongLine: a line longer than any record may be costs no memory, goes to
// quarantine with its head, and its neighbours are delivered.
func TestLongLine(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "before\n"+strings.Repeat("long line ", size/10)+"\nafter\n")
	p := s.run(open + `inputs: [{paths: ["${DIR}/logs/*.log"], table: Text, max_record_size: 64KiB}]`)
	s.awaitRows("Text", 2)
	p.awaitBooks("Text", func(a account) bool { return a == account{read: 3, accepted: 2, quarantined: 1} })
	peak := p.metric("process_resident_memory_bytes")
	if peak > 150e6 {
		t.Errorf("%v bytes of memory", peak)
	}
	p.stop()
	s.wantRows("Text", []string{"before", "after"})
	all := s.quarantined()
	if len(all) != 1 {
		t.Fatalf("%d lines in quarantine", len(all))
	}
	q, want := all[0], strings.Repeat("long line ", size/10)
	data, _ := q["data"].(string)
	if q["reason"] != "too_long" || q["truncated"] != true || q["offset"] != 7.0 || q["length"] != float64(len(want)+1) || data == "" || !strings.HasPrefix(want, data) {
		t.Errorf("reason %v truncated %v offset %v length %v, %d bytes of data", q["reason"], q["truncated"], q["offset"], q["length"], len(data))
	}
}

// TestTelemetryPortIsTaken: the agent goes on without.
func TestTelemetryPortIsTaken(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s.env = []string{"TAKEN=" + ln.Addr().String()}
	s.write("logs/a.log", "one\n")
	p := s.once(strings.Replace(open, "127.0.0.1:0", "${TAKEN}", 1)+oneText, 0)
	p.await(1, "telemetry is off, the agent goes on")
	s.wantRows("Text", []string{"one"})
}

// TestSourceIsGone: batches in doubt whose file is no more end as unknown,
// counted and named, and delivery of the rest goes on.
func TestSourceIsGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\ntwo\n")
	hang := s.server.Fail(emulator.Fault{Hang: true, When: emulator.AfterCommit})
	p := s.run(open + oneText)
	s.awaitHits(hang, 1)
	p.kill()
	hang.Remove()
	if err := os.Remove(s.path("logs/a.log")); err != nil {
		t.Fatal(err)
	}
	s.write("logs/b.log", "three\n")
	p = s.run(open + oneText)
	e := p.await(1, "outcome of a batch of an earlier run is unknown and its source is gone")
	if e.number("records") != 2 || !strings.Contains(e.text("ranges"), "[0,8)") {
		t.Errorf("says %v", e)
	}
	s.awaitRows("Text", 3)
	p.awaitBooks("Text", func(a account) bool { return a == account{read: 1, restored: 2, dropped: 2, accepted: 1} })
	if got := p.metric("records_dropped_total", `reason="source_gone"`); got != 2 {
		t.Errorf("records_dropped_total %v", got)
	}
	p.stop()
	s.wantRows("Text", []string{"one", "two", "three"})
	if again := s.once(open+oneText, 0); len(again.entries(sentAgain))+strings.Count(again.log.text(), "is gone") != 0 {
		t.Errorf("told again:\n%s", again.log.text())
	}
}

// TestRotatedWhileNobodyLooked: what was appended and rotated away between two
// runs is found by its inode, though no pattern matches it.
func TestRotatedWhileNobodyLooked(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	p := s.run(open + oneText)
	s.awaitRows("Text", 1)
	p.kill()
	s.append("logs/a.log", "two\n")
	s.rename("logs/a.log", "logs/a.log.1") // no pattern matches it
	s.write("logs/a.log", "three\n")
	p = s.run(open + oneText)
	s.awaitRows("Text", 3)
	p.stop()
	p.await(1, "agent is stopping")
	want := []string{"one", "two", "three"}
	if n := len(p.entries(sentAgain)); n == 1 {
		want = append(want, "one") // the kill came before the end was noted
	}
	s.wantRows("Text", want)
}

// TestInputIsAwayForARun: a batch in doubt whose input is not configured at
// the next start is not lost: it is read again once the input is back.
func TestInputIsAwayForARun(t *testing.T) {
	t.Parallel()
	f := func(name, meanwhile, says string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			_, other := s.endpoint(emulator.Options{})
			s.env = []string{"OTHER=" + other}
			s.write("logs/a.log", "one\ntwo\n")
			s.write("others/b.log", "")
			hang := s.server.Fail(emulator.Fault{Hang: true, Reset: true})
			p := s.run(open + oneText)
			s.awaitHits(hang, 1)
			p.kill()
			hang.Remove()
			p = s.once(meanwhile, 0)
			if e := p.await(1, "batch of an earlier run is given up, its records are read again and may be stored twice"); e["err"] != says {
				t.Errorf("says %v", e)
			}
			s.wantRows("Text", nil)
			s.once(open+oneText, 0)
			s.wantRows("Text", []string{"one", "two"})
		})
	}
	f("input", open+`inputs: [{paths: ["${DIR}/others/*.log"], table: Other}]`, "its input is no longer configured")
	f("cluster", strings.ReplaceAll(open, "${URL}", "${OTHER}")+`inputs: [{paths: ["${DIR}/others/*.log"], table: Other}]`, "its cluster is no longer configured")
}

// TestOnceIsInterrupted: a run --once that was told to stop does not claim to
// have sent everything.
func TestOnceIsInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	records := jsonRecords(0, 30000)
	s.write("logs/a.json", joined(records))
	slow := s.server.Fail(emulator.Fault{Delay: 5_000_000})
	config := open + "batch: {max_size: 16KiB}\nsend: {concurrency: 2}\n" + oneJSON
	p := s.run(config, "--once")
	s.awaitRequests(3)
	p.signal(os.Interrupt)
	p.want(1)
	slow.Remove()
	if n := s.server.RowCount("Logs", "T"); n == len(records) {
		t.Fatalf("all %d rows were stored", n)
	}
	s.once(config, 0)
	s.wantRows("T", records)
}
