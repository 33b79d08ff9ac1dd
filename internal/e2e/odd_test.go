package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
)

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const notRead = "file cannot be read, will retry"

// TestOddFiles: what is no file is told once, with what to do, and costs the
// files beside it nothing.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	s.write("linked", "two\n")
	s.write("logs/empty.log", "")
	s.write("logs/folder.log/inside", "")
	if err := syscall.Mkfifo(s.path("logs/pipe.log"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", s.path("logs/socket.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for name, to := range map[string]string{
		"loop.log": "loop.log", "ring.log": "gnir.log", "gnir.log": "ring.log", "dangling.log": "nowhere", "linked.log": "../linked",
		"device.log": "/dev/zero", "again.log": "a.log",
	} {
		if err := os.Symlink(to, s.path("logs/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	p := s.run(open + oneText)
	s.awaitRows("Text", 2)
	for name, why := range map[string]string{
		"pipe.log": "it is a FIFO", "socket.log": "it is a socket", "folder.log": "it is a directory", "device.log": "it is a device",
		"loop.log": "too many levels", "ring.log": "too many levels", "gnir.log": "too many levels", "dangling.log": "no such file",
	} {
		p.await(1, notRead, "logs/"+name, why, "exclude")
	}
	if n := len(p.status().Problems); n != 8 {
		t.Errorf("problems: %q", p.status().Problems)
	}
	// What was dangling is read as soon as it leads somewhere, and what was a
	// folder as soon as it is a file.
	s.write("logs/nowhere", "three\n")
	s.awaitRows("Text", 3)
	s.rename("logs/folder.log", "logs/folder")
	s.write("logs/folder.log", "four\n")
	s.awaitRows("Text", 4)
	p.await(1, "file can be read again", "dangling.log")
	p.await(1, "file can be read again", "folder.log")
	p.stop()
	s.wantRows("Text", []string{"one", "two", "three", "four"})
	p.wantComplaints(slices.Repeat([]string{notRead}, 8)...)
	s.once(open+oneText, 1) // links in a circle, a FIFO and a socket were left unread
}

// TestOddNames: whatever a file is called, it is read, it is known again, and
// its name is told on one line as it can be typed.
func TestOddNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	names := map[string]string{ // and what JSON makes of them
		"a\nb": `a\nb`, "esc\x1b[31m": `esc\u001b[31m`, "rtl\u202egol": `rtl\u202egol`, "mark\u200f": `mark\u200f`, "bytes\xff\xfe": `bytes\\xff\\xfe`,
		"line\u2028": `line\u2028`, " {\"a\": \\'": ` {\"a\": \\'`,
	}
	var want []string
	for name := range names {
		s.write("logs/"+name+".log", "row of "+strconv.Quote(name)+"\n")
		want = append(want, "row of "+strconv.Quote(name))
		if err := os.Mkdir(s.path("logs/"+name+"-folder.log"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := s.run(open + oneText)
	s.awaitRows("Text", len(want))
	p.awaitBooks("Text", func(a account) bool { return int(a.accepted) == len(want) && a.pending == 0 })
	for _, shown := range names {
		p.await(1, notRead, shown+"-folder.log")
	}
	for name := range names {
		if !slices.ContainsFunc(p.status().Files, func(f telemetry.File) bool { return f.Path == record.Spell(s.path("logs/"+name+".log")) }) {
			t.Errorf("not in the status: %q", name)
		}
	}
	for _, view := range []string{"status", "page"} {
		if text := s.view(p, view); strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%s shows %q", view, text)
		}
	}
	p.stop()
	p.wantComplaints(slices.Repeat([]string{notRead}, len(names))...)
	lines, _ := p.log.seen()
	for _, line := range lines {
		if !json.Valid([]byte(line)) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a line of the log: %q", line)
		}
	}
	s.once(open+oneText, 0)
	s.wantRows("Text", want)
}

// TestUnreadableFile: a file, or a folder, without permission is told once with
// what to do, and read when it has it.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.refusable()
	s.write("logs/a.log", "one\n")
	s.write("logs/closed.log", "two\n")
	s.write("logs/folder/b.log", "three\n")
	mode := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(s.path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	mode("logs/closed.log", 0)
	mode("logs/folder", 0)
	config := open + `inputs: [{paths: ["${DIR}/logs/**/*.log"], table: Text}]`
	p := s.run(config)
	s.awaitRows("Text", 1)
	p.await(1, notRead, "closed.log", "permission denied", "setfacl")
	p.await(1, notRead, "logs/folder", "permission denied", "setfacl")
	s.append("logs/a.log", "four\n")
	s.awaitRows("Text", 2)
	mode("logs/closed.log", 0o644)
	s.awaitRows("Text", 3)
	mode("logs/folder", 0o755)
	s.awaitRows("Text", 4)
	p.await(1, "file can be read again", "closed.log")
	p.stop()
	p.wantComplaints(notRead, notRead)
	s.wantRows("Text", []string{"one", "two", "three", "four"})

	// A run --once ends, and says by its exit code that it could not do all.
	s.write("logs/c.log", "five\n")
	mode("logs/c.log", 0)
	s.append("logs/a.log", "six\n")
	s.once(config, 1).await(1, notRead, "c.log")
	s.awaitRows("Text", 5)
	mode("logs/c.log", 0o644)
	s.once(config, 0)
	s.wantRows("Text", []string{"one", "two", "three", "four", "five", "six"})
}

// TestUnreadableConfig: the agent says who has to be let in, and a person who asks it something, who has only
// forgotten sudo, is not told to let everyone read the file.
func TestUnreadableConfig(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.refusable()
	s.write("agent.yaml", open+oneText)
	if err := os.Chmod(s.path("agent.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	p := s.launch("run", "--config", s.path("agent.yaml")).want(exit.Config)
	if want := s.path("agent.yaml") + ": open file: permission denied; run the command with sudo, or if the agent itself says this, let its user read the file\n"; p.log.text() != want {
		t.Errorf("says %q, want %q", p.log.text(), want)
	}
}

// TestBinaryFile: a file that is no text is told once for each input that reads
// it, breaks no row of its neighbours, and what cannot be sent of it is kept.
func TestBinaryFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	noise := rand.NewChaCha8([32]byte{1})
	binary := make([]byte, 1<<20)
	_, _ = noise.Read(binary)
	good := jsonRecords(0, 1000)
	s.write("logs/a.json", joined(good))
	s.write("logs/b.json", string(binary)+"\n")
	p := s.run(open + `inputs:
  - {paths: ["${DIR}/logs/*.json"], table: J, mapping: m}
  - {paths: ["${DIR}/logs/*.json"], table: Text, format: TXT}
`)
	s.awaitRows("J", len(good))
	e := p.await(1, "file has bad records, they go to quarantine; this is the first", "b.json", `"input":"J"`)
	if e["file"] != s.path("logs/b.json") || e.number("offset") != 0 || e["reason"] != "malformed" || !strings.Contains(e.text("fix"), "format") {
		t.Errorf("says %v", e)
	}
	p.await(1, "file has records that are not valid UTF-8, sending them unchanged", "b.json", `"input":"Text"`)
	s.append("logs/a.json", joined(jsonRecords(1000, 10)))
	good = jsonRecords(0, 1010)
	p.awaitBooks("J", func(a account) bool { return int(a.accepted) == len(good) && a.pending == 0 && a.quarantined > 1000 })
	p.awaitBooks("Text", func(a account) bool { return int(a.accepted) > 1000+len(good) && a.pending == 0 && readToEnd(p) })
	quarantined := int(p.mustBooks()["J"].quarantined)
	p.stop()
	p.wantComplaints("file has bad records, they go to quarantine; this is the first", "file has records that are not valid UTF-8, sending them unchanged", holey, holey)
	s.wantRows("J", good)
	if got := len(s.quarantined()); got != quarantined {
		t.Errorf("%d lines in quarantine, want %d", got, quarantined)
	}
	count := make(map[string]int)
	for _, row := range s.server.Rows("Logs", "Text") {
		count[string(row.Raw)]++
	}
	for _, r := range good {
		if count[r] != 1 {
			t.Fatalf("%d times in Text: %q", count[r], r)
		}
	}
}

// TestLongLine: a line longer than any record may be costs no memory, goes to
// quarantine with its head, is told once, and its neighbours are delivered. In
// the long form it is one of 5 GiB, most of them a hole.
func TestLongLine(t *testing.T) {
	t.Parallel()
	const unit, units = "long line ", 10 << 20 // 100 MiB
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "before\n")
	part := strings.Repeat(unit, units/100)
	for range 100 {
		s.append("logs/a.log", part)
	}
	length := int64(len(part))*100 + 1
	if longForm {
		length = 5 << 30
		if err := os.Truncate(s.path("logs/a.log"), 7+length-1); err != nil {
			t.Fatal(err)
		}
	}
	s.append("logs/a.log", "\nafter\n")
	s.write("logs/b.log", "beside\n")
	p := s.run(open + `inputs: [{paths: ["${DIR}/logs/*.log"], table: Text, max_record_size: 64KiB}]`)
	s.awaitRows("Text", 3)
	p.awaitBooks("Text", func(a account) bool { return a == account{read: 4, accepted: 3, quarantined: 1} })
	if peak := p.peak(); peak > 150<<20 {
		t.Errorf("%d MiB of memory", peak>>20)
	}
	e := p.await(1, "file has bad records, they go to quarantine; this is the first")
	if e["file"] != s.path("logs/a.log") || e.number("offset") != 7 || e["reason"] != "too_long" || !strings.Contains(e.text("fix"), "max_record_size") {
		t.Errorf("says %v", e)
	}
	p.stop()
	p.wantComplaints("file has bad records, they go to quarantine; this is the first")
	s.wantRows("Text", []string{"before", "after", "beside"})
	all := s.quarantined()
	if len(all) != 1 {
		t.Fatalf("%d lines in quarantine", len(all))
	}
	q := all[0]
	data, _ := q["data"].(string)
	if q["reason"] != "too_long" || q["truncated"] != true || q["offset"] != 7.0 || q["length"] != float64(length) || data == "" || !strings.HasPrefix(part, data) {
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
	e := p.await(1, "telemetry endpoint disabled, the agent continues without it")
	if !strings.Contains(e.text("fix"), "telemetry.listen") {
		t.Errorf("fix is %q", e.text("fix"))
	}
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
	s.killHeld(p, hang)
	if err := os.Remove(s.path("logs/a.log")); err != nil {
		t.Fatal(err)
	}
	s.write("logs/b.log", "three\n")
	p = s.run(open + oneText)
	e := p.await(1, "outcome of a batch of an earlier run is unknown and its source is gone: records that the service did not store are lost")
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

// TestInputIsAwayForARun: a batch in doubt whose input is not configured at the next
// start is not given up: it waits, and is sent again once the input is back.
func TestInputIsAwayForARun(t *testing.T) {
	t.Parallel()
	f := func(name, meanwhile string) {
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
			s.killHeld(p, hang)
			p = s.once(meanwhile, 0)
			if e := p.told(batchWaits); e["err"] != "its input is not configured: Text" {
				t.Errorf("says %v", e)
			}
			s.wantRows("Text", nil)
			p = s.once(open+oneText, 0)
			p.told(sentAgain)
			s.wantRows("Text", []string{"one", "two"})
		})
	}
	f("input", open+`inputs: [{paths: ["${DIR}/others/*.log"], table: Other}]`)
	f("cluster", strings.ReplaceAll(open, "${URL}", "${OTHER}")+`inputs: [{paths: ["${DIR}/others/*.log"], table: Other}]`)
}

// batchWaits is what the agent says of a batch of an earlier run that has to wait.
const batchWaits = "batch of an earlier run cannot be read again now, will retry"

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

// TestOneComplaintForOneFile: what one input cannot do with a file does not
// come and go with what another one can, nor one pattern's view of a folder with
// that of another.
func TestOneComplaintForOneFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.refusable()
	s.write("logs/a.json", joined(slices.Repeat([]string{strings.Repeat("no json ", 100)}, 100)))
	s.write("logs/folder.json/b.json", "")
	s.write("logs/below/c.json", "{}\n")
	if err := os.Chmod(s.path("logs/folder.json"), 0); err != nil {
		t.Fatal(err)
	}
	p := s.run(open + `quarantine: {max_size: 16KiB}
batch: {max_wait: 10ms}
inputs:
  - {name: bad, paths: ["${DIR}/logs/*.json"], table: T, mapping: m}
  - {name: good, paths: ["${DIR}/logs/*.json", "${DIR}/logs/*/*.json", "${DIR}/logs/**"], table: Text, format: TXT}
`)
	for rows := 101; rows < 105; rows++ {
		s.awaitRows("Text", rows)
		s.append("logs/a.json", "one more\n")
		s.write(fmt.Sprintf("logs/%d.other", rows), "") // has the folders looked at again
		p.await(1, notRead, "a.json", `"input":"bad"`, "quarantine is full", "quarantine.max_size")
		p.await(1, notRead, "folder.json")
	}
	s.awaitRows("Text", 105)
	p.stop()
	p.wantComplaints(notRead, notRead, "file has bad records, they go to quarantine; this is the first",
		"quarantine write failed: a file with a bad record waits at that record")
	if n := len(p.entries("file can be read again")); n != 0 {
		t.Errorf("read again %d times", n)
	}
}
