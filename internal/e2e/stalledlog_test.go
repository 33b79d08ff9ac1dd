package e2e

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/emulator"
)

// slowLog is the stderr of an agent whose reader takes what it wants, when it wants.
type slowLog struct {
	t   *testing.T
	p   *process
	in  *bufio.Reader
	end *os.File
}

// slowlyRead starts the agent with a log that is read up to where it says its address,
// and no further for now. The pipe holds one page.
func (s *site) slowlyRead(config string) *slowLog {
	s.t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { out.Close() })
	if _, err := unix.FcntlInt(in.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		s.t.Fatal(err)
	}
	s.logTo = in
	l := &slowLog{t: s.t, in: bufio.NewReaderSize(out, 16), end: out}
	l.p = s.run(config)
	in.Close() // the process has it
	s.logTo = nil
	l.readTo("telemetry endpoint is listening")
	return l
}

// readTo reads the log to the first line with a text, and returns that.
func (l *slowLog) readTo(text string) string {
	l.t.Helper()
	if err := l.end.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		l.t.Fatal(err)
	}
	for {
		line, err := l.in.ReadString('\n')
		if err != nil {
			l.t.Fatalf("the log has no line with %q: %v", text, err)
		}
		l.p.log.mu.Lock()
		l.p.log.add([]byte(line))
		l.p.log.mu.Unlock()
		if strings.Contains(line, text) {
			return line
		}
	}
}

const linesDropped = "lines of the agent's own log were dropped: whatever reads its stderr is too slow or gone; no record is affected"

// complain gives the agent much to tell of: links that lead nowhere.
func (s *site) complain(n int) {
	s.t.Helper()
	s.write("logs/x", "")
	for i := range n {
		if err := os.Symlink("nowhere", s.path(fmt.Sprintf("logs/%s%d.json", strings.Repeat("x", 200), i))); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestStalledLogReader: while nobody reads the log, files are found and delivered, the
// agent answers and ends well. What the log lacks is counted, and told when it is read.
func TestStalledLogReader(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.complain(3000)
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	l := s.slowlyRead(open + oneJSON)
	s.awaitRows("T", 10)
	l.p.awaitSome("log_lines_dropped_total")
	s.write("logs/b.json", joined(jsonRecords(10, 10)))
	s.awaitRows("T", 20)
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := l.p.mustGet(path); code != 200 {
			t.Errorf("%s: %d %q", path, code, text)
		}
	}
	if problems := strings.Join(l.p.status().Problems, "\n"); !strings.Contains(problems, "log: ") {
		t.Errorf("the status does not tell:\n%s", problems)
	}
	dropped := l.p.metric("log_lines_dropped_total")
	l.readTo(fmt.Sprintf(`"msg":%q,"lines":%v,`, linesDropped, dropped))
	if problems := strings.Join(l.p.status().Problems, "\n"); strings.Contains(problems, "log: ") {
		t.Errorf("the status still tells:\n%s", problems)
	}
	// Nobody reads from here on.
	l.p.stop()
	s.wantRows("T", jsonRecords(0, 20))
}

// TestSecondSignalWithStalledLogReader: the log of a stop is not read either.
func TestSecondSignalWithStalledLogReader(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.complain(200)
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	script := s.server.Fail(emulator.Fault{Hang: true})
	l := s.slowlyRead(open + "shutdown_timeout: 24h\n" + oneJSON)
	s.awaitHits(script, 1)
	l.p.signal(syscall.SIGTERM)
	l.p.awaitReady(503, "stopping")
	l.p.signal(syscall.SIGTERM)
	l.p.want(0)
	script.Remove()
	s.once(open+oneJSON, 1) // for the links
	s.wantEach("T", jsonRecords(0, 10))
}

// TestLogReaderGone: a closed stderr ends nothing, and what is missing is counted.
func TestLogReaderGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	l := s.slowlyRead(open + oneJSON)
	l.end.Close()
	s.awaitRows("T", 10)
	s.complain(1)
	l.p.awaitSome("log_lines_dropped_total")
	s.append("logs/a.json", joined(jsonRecords(10, 10)))
	s.awaitRows("T", 20)
	l.p.stop()
	s.wantRows("T", jsonRecords(0, 20))
}

// TestClosedStderrEndsReadingCommands: those end by SIGPIPE, as any program before head.
func TestClosedStderrEndsReadingCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	s.logTo = in
	p := s.launch("status", "--address", strings.TrimPrefix(s.deadURL(), "http://"))
	in.Close()
	p.want(-1)
	if status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGPIPE {
		t.Errorf("ended by %v", p.cmd.ProcessState)
	}
}

// awaitSome waits until a metric is above zero.
func (p *process) awaitSome(name string) {
	p.t.Helper()
	ctx, cancel := p.site.waiting()
	defer cancel()
	for p.metric(name) == 0 {
		if ctx.Err() != nil {
			p.t.Fatalf("%s is 0", name)
		}
	}
}
