package e2e

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

// typist is a person at a terminal, with a program that runs in it.
type typist struct {
	t    *testing.T
	tty  *os.File
	cmd  *exec.Cmd
	over chan struct{} // closed when the terminal gives no more

	mu      sync.Mutex
	text    string // on the screen and not yet looked at
	changed chan struct{}
}

// steering is what a terminal obeys and does not show.
var steering = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b[()][0-9A-Z]|\x1b[=>78]|\r")

// sit starts the program in a terminal. When that is closed the program ends.
func (s *site) sit(args ...string) *typist {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &typist{t: s.t, cmd: exec.Command(exe, args...), over: make(chan struct{}), changed: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", readsStdin+"=1", "TERM=xterm", "NO_COLOR=1", "HOME="+s.dir, "XDG_STATE_HOME="+s.path("xdg"), "INPUTRC=/dev/null")
	p.cmd.Dir = s.dir
	if p.tty, err = pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.tty.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		<-p.over
	})
	// Ended by the end of the program, awaited above.
	go func() {
		defer close(p.over)
		buf := make([]byte, 4096)
		for {
			n, err := p.tty.Read(buf)
			p.mu.Lock()
			p.text += string(buf[:n])
			close(p.changed)
			p.changed = make(chan struct{})
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *typist) keys(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.tty, text); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until the terminal shows a text, and is done with what is before it.
func (p *typist) sees(want string) {
	p.t.Helper()
	timeout := time.After(deadline)
	for {
		p.mu.Lock()
		shown := steering.ReplaceAllString(p.text, "")
		_, rest, ok := strings.Cut(shown, want)
		if ok {
			p.text = rest
		}
		changed := p.changed
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			p.t.Fatalf("the terminal does not show %q but %q", want, shown)
		}
	}
}

// ends waits for the end of the program.
func (p *typist) ends(code int) {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(deadline):
		p.t.Fatalf("it does not end; the terminal shows %q", p.text)
	}
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("it ends with %d, want %d", got, code)
	}
}

// TestSession: a person types queries of several lines, completes names, gets back
// what was typed before, and stops what takes too long.
func TestSession(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t, `{"databases": {"Logs": {"tables": {"StormEvents": {"columns": "StartTime:datetime, State:string"}}}, "Other": {}}}`)
	s := newSite(t, emulator.Options{Schema: schema})
	args := []string{"query", "--cluster", s.url, "--auth", "none", "--database", "Logs"}
	const ctrlC, ctrlD, up = "\x03", "\x04", "\x1b[A"

	p := s.sit(args...)
	p.sees("Logs> ")
	p.keys("Sto\t")
	p.sees("StormEvents")
	p.keys("\r| wh\t")
	p.sees("where")
	p.keys(" Stat\t")
	p.sees("State")
	p.keys(" == 'TEXAS' | count;\r")
	p.sees("Count\n-----\n    0")
	p.sees("Logs> ")
	p.keys(up)
	p.sees("StormEvents")
	p.sees("count;")
	p.keys(ctrlC)
	p.sees("Logs> ")
	p.keys("\x1b[200~print a = 1\n\t| extend b = 2\x1b[201~") // pasted
	p.sees("extend b = 2")
	p.keys("\r\r")
	p.sees("a  b\n-  -\n1  2")
	p.sees("Logs> ")
	p.keys(".show tables | project TableName;\r")
	p.sees("TableName\n-----------\nStormEvents")
	p.sees("Logs> ")
	p.keys("Nope;\r")
	p.sees("SEM0100")
	p.sees("Logs> ")
	p.keys("\\format json\r")
	p.sees("\\format json")
	p.sees("Logs> ")
	p.keys("print a = 1;\r")
	p.sees(`{"a":1}`)
	p.sees("Logs> ")
	p.keys("\\db Other\r")
	p.sees("Other> ")
	p.keys("\\db Logs\r")
	p.sees("Logs> ")

	hang := s.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindQuery}, Hang: true})
	p.keys("print 3;\r")
	s.awaitHits(hang, 1)
	p.keys(ctrlC)
	p.sees("was cancelled on the service too")
	isCancel := func(a emulator.Asked) bool { return strings.HasPrefix(a.Text, ".cancel query ") }
	if asked := s.server.Asked(); !slices.ContainsFunc(asked, isCancel) {
		t.Errorf("asked: %+v", asked)
	}
	p.sees("Logs> ")
	p.keys("help\r")
	p.sees("Ctrl-R searches it.")
	p.sees("Logs> ")
	p.keys(ctrlD)
	p.ends(0)

	// Another session has the history of the first.
	p = s.sit(args...)
	p.sees("Logs> ")
	p.keys("Sto\t") // so that the schema is known, and no other command on its way
	p.sees("StormEvents")
	p.keys(ctrlC)
	p.sees("Logs> ")
	p.keys(up + up)
	p.sees("print 3;")
	cancels := s.server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindMgmt}, Hang: true})
	p.keys("\r")
	s.awaitHits(hang, 2)
	p.keys(ctrlC)
	s.awaitHits(cancels, 1)
	p.keys(ctrlC)
	p.ends(exit.Interrupted)
}
