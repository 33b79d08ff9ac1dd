package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lines collects what a process writes, and lets others wait for a line. What was
// written before somebody asks is there when it is asked for.
type lines struct {
	in      *os.File // given to the process
	out     *os.File
	pipe    syscall.RawConn // of out
	ended   chan struct{}   // closed when nobody has it open for writing any more
	mu      sync.Mutex
	all     []string
	part    []byte
	changed chan struct{} // closed and replaced when there is more
}

func newLines(t *testing.T) *lines {
	t.Helper()
	l := &lines{ended: make(chan struct{}), changed: make(chan struct{})}
	var err error
	if l.out, l.in, err = os.Pipe(); err == nil {
		l.pipe, err = l.out.SyscallConn()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// follow reads from now on, for the process has started.
func (l *lines) follow() {
	l.in.Close()
	// Started here, ended by the end of the processes that have the pipe.
	go func() {
		defer close(l.ended)
		defer l.out.Close()
		_ = l.pipe.Read(l.take)
	}()
}

// take reads what is in the pipe, and reports whether that is the end.
func (l *lines) take(fd uintptr) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(int(fd), buf)
		switch {
		case errors.Is(err, syscall.EINTR):
		case n > 0:
			l.add(buf[:n])
		default:
			return !errors.Is(err, syscall.EAGAIN)
		}
	}
}

func (l *lines) add(p []byte) {
	l.part = append(l.part, p...)
	for {
		line, rest, found := bytes.Cut(l.part, []byte("\n"))
		if !found {
			break
		}
		l.all = append(l.all, string(line))
		l.part = rest
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// catchUp reads what was written until now.
func (l *lines) catchUp() {
	_ = l.pipe.Control(func(fd uintptr) { l.take(fd) }) // fails only behind the end
}

// seen returns the whole lines so far, and a channel closed when there is more.
func (l *lines) seen() ([]string, <-chan struct{}) {
	l.catchUp()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all, l.changed
}

func (l *lines) text() string {
	l.catchUp()
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n") + "\n" + string(l.part)
}

// process is one run of the program.
type process struct {
	t     *testing.T
	site  *site
	cmd   *exec.Cmd
	out   *lines
	log   *lines
	ended chan struct{} // closed when it has exited and its output is complete
}

// entry is one line of its log.
type entry map[string]any

func (e entry) text(key string) string { return fmt.Sprint(e[key]) }

func (e entry) number(key string) int64 {
	f, _ := e[key].(float64)
	return int64(f)
}

// launch starts the program. It is killed at the end of the test if it still
// runs, and its output is searched for what must never be in it.
func (s *site) launch(args ...string) *process {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	args = slices.Concat(s.before, []string{exe}, args)
	p := &process{t: s.t, site: s, cmd: exec.Command(args[0], args[1:]...), out: newLines(s.t), log: newLines(s.t), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "DIR="+s.dir, "URL="+s.url, "NO_COLOR=1", "STATE_DIRECTORY=", "JOURNAL_STREAM=",
		"GORACE=atexit_sleep_ms=0") // the race detector waits a second before it ends a process
	p.cmd.Env = append(p.cmd.Env, s.env...)
	p.cmd.Dir = s.dir
	if s.asNobody {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		p.cmd.Path = "/proc/self/exe" // the program may lie where only root goes
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out.in, p.log.in
	if s.logTo != nil {
		p.cmd.Stderr = s.logTo
	}
	// Held open until the process has ended: see TestMain.
	held, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	p.out.follow()
	p.log.follow()
	// Started here, ended by the exit of the process, awaited through ended.
	go func() {
		defer close(p.ended)
		defer held.Close()
		_ = p.cmd.Wait() // the exit code is read from its state
		<-p.out.ended
		<-p.log.ended
	}()
	s.processes = append(s.processes, p)
	return p
}

// complaints are the lines of its log that ask for somebody's attention.
func (p *process) complaints() (found []entry) {
	all, _ := p.log.seen()
	for _, line := range all {
		e := entry{}
		if json.Unmarshal([]byte(line), &e) == nil && (e["level"] == "WARN" || e["level"] == "ERROR") {
			found = append(found, e)
		}
	}
	return found
}

// wantComplaints expects exactly these messages in the log, each once for each
// time it is named, and with each something to do, but for those that say by
// themselves that nothing is.
func (p *process) wantComplaints(want ...string) {
	p.t.Helper()
	var got []string
	for _, e := range p.complaints() {
		got = append(got, e.text("msg"))
		if fix, _ := e["fix"].(string); fix == "" && !strings.Contains(e.text("msg"), "will be sent after the next start") && e.text("msg") != timeIsOver {
			p.t.Errorf("no fix: %v", e)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Errorf("complains of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// finish is called at the end of the test.
func (p *process) finish() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	said := p.log.text() + p.out.text()
	for _, bad := range append([]string{"DATA RACE", "panic:", "fatal error:"}, p.site.secrets...) {
		if strings.Contains(said, bad) {
			p.t.Errorf("output holds %q", bad)
		}
	}
	if p.t.Failed() {
		all, _ := p.log.seen()
		p.t.Logf("log of %v:\n%s\n%s", p.cmd.Args[1:], strings.Join(all[max(0, len(all)-80):], "\n"), p.out.text())
	}
}

// code waits for the end of the process and returns its exit code; -1: ended
// by a signal.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(deadline):
		p.t.Fatalf("%v still runs", p.cmd.Args[1:])
	}
	return p.cmd.ProcessState.ExitCode()
}

// want waits for the end of the process and expects an exit code.
func (p *process) want(code int) *process {
	p.t.Helper()
	if got := p.code(); got != code {
		p.t.Errorf("%v: exit code %d, want %d", p.cmd.Args[1:], got, code)
	}
	return p
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// kill ends it as kill -9 does.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.code()
}

// stop asks it to end, and expects that it ends well.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.want(0)
}

// await returns the n'th line of the log, counted from 1, whose message is
// msg and which contains all the texts, as soon as there is one.
func (p *process) await(n int, msg string, texts ...string) entry {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	ended := p.ended
	for {
		_, more := p.log.seen() // taken before the look, so that nothing falls between
		if found := p.entries(msg, texts...); len(found) >= n {
			return found[n-1]
		}
		select {
		case <-more:
		case <-ended:
			if ended = nil; len(p.entries(msg, texts...)) < n {
				p.t.Fatalf("%v ended without the log line %q %q", p.cmd.Args[1:], msg, texts)
			}
		case <-ctx.Done():
			p.t.Fatalf("%v: no log line %q %q", p.cmd.Args[1:], msg, texts)
		}
	}
}

// entries are the lines of the log so far with this message.
func (p *process) entries(msg string, texts ...string) []entry {
	all, _ := p.log.seen()
	var found []entry
	for _, line := range all {
		e := entry{}
		if !strings.Contains(line, msg) || json.Unmarshal([]byte(line), &e) != nil || e["msg"] != msg {
			continue
		}
		if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(line, s) }) {
			found = append(found, e)
		}
	}
	return found
}
