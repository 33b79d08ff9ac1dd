package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/emulator"
	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/ledger"
)

// deadline ends a wait for an event that will never come.
const deadline = 2 * time.Minute

func TestMain(m *testing.M) {
	// A reload would bound the heap of all tests.
	if err := os.Setenv("GOMEMLIMIT", "off"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// site is a folder of files and the endpoint they are shipped to. Its agents run in this
// process, one after the other.
type site struct {
	*testing.T
	dir    string
	server *emulator.Server
	url    string

	mu   sync.Mutex
	open int           // connections to the endpoint
	none chan struct{} // closed and replaced when there is none
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir(), server: emulator.New(emulator.Options{}), none: make(chan struct{})}
	server := httptest.NewUnstartedServer(s.server)
	server.Config.ConnState = s.connState
	server.Start()
	s.url = server.URL
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return s
}

func (s *site) connState(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.open++
	case http.StateClosed:
		if s.open--; s.open == 0 {
			close(s.none)
			s.none = make(chan struct{})
		}
	default: // it is open
	}
}

// idle waits until the endpoint has no connection: a request that an agent broke off at its
// stop may else be answered later.
func (s *site) idle() {
	s.Helper()
	s.mu.Lock()
	open, none := s.open, s.none
	s.mu.Unlock()
	if open == 0 {
		return
	}
	select {
	case <-none:
	case <-time.After(deadline):
		s.Fatalf("%d connections stay", open)
	}
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// write makes a file, and the folders it needs.
func (s *site) write(name, text string) {
	s.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.must(os.WriteFile(s.path(name), []byte(text), 0o644))
}

func (s *site) append(name, text string) {
	s.Helper()
	f, err := os.OpenFile(s.path(name), os.O_WRONLY|os.O_APPEND, 0)
	s.must(err)
	_, err = f.WriteString(text)
	s.must(errors.Join(err, f.Close()))
}

// configure writes the configuration; $DIR in it is the folder.
func (s *site) configure(text string) {
	s.Helper()
	s.write("agent.yaml", "cluster: "+s.url+"\ndatabase: Logs\nstate_dir: "+s.path("state")+"\nauth: {method: none}\n"+
		"telemetry: {listen: \"127.0.0.1:0\"}\nbatch: {max_wait: 10ms}\n"+strings.ReplaceAll(text, "$DIR", s.dir))
}

// running is an agent in this process.
type running struct {
	*site
	agent   *Agent
	log     *notes
	hangups chan os.Signal
	signals chan os.Signal
	ended   chan struct{}
	err     error // when ended
}

// configuration is what was written.
func (s *site) configuration() *config.Config {
	s.Helper()
	cfg, err := config.Load(s.path("agent.yaml"), os.LookupEnv, config.Options{})
	s.must(err)
	return cfg
}

// started is an agent that has sent the one line of logs/a.log to T.
func started(t *testing.T) (*site, *running) {
	s := newSite(t)
	s.write("logs/a.log", "one\n")
	s.configure(textInput)
	r := s.start(false)
	s.rows("T", "one")
	return s, r
}

// inOutage is an agent whose lines, n of them, are in the spool while the service is away.
func inOutage(t *testing.T, lines string, n uint64) (s *site, r *running, back func()) {
	s = newSite(t)
	s.write("logs/a.log", lines)
	s.configure(brief + hasty + textInput)
	away := s.server.Fail(emulator.Fault{Status: 503})
	r = s.start(false)
	r.books("in", func(b ledger.Books) bool { return b.Spooled == n })
	return s, r, away.Remove
}

// start runs an agent with the configuration that was written.
func (s *site) start(once bool) *running {
	s.Helper()
	cfg := s.configuration()
	r := &running{site: s, log: newNotes(), hangups: make(chan os.Signal, 1), signals: make(chan os.Signal, 2), ended: make(chan struct{})}
	var err error
	r.agent, err = New(Options{
		Config: cfg, Path: s.path("agent.yaml"), Log: slog.New(slog.NewTextHandler(r.log, nil)), Hangups: r.hangups, Once: once,
		Rescan: 10 * time.Millisecond, Retry: 10 * time.Millisecond,
	})
	s.must(err)
	// Ended by stop, or by the cleanup.
	go func() {
		defer close(r.ended)
		r.err = r.agent.Run(context.Background(), r.signals)
	}()
	s.Cleanup(r.stop)
	return r
}

// stop ends the agent, if it has not ended.
func (r *running) stop() {
	select {
	case r.signals <- syscall.SIGTERM:
	case <-r.ended:
	}
	r.await(r.ended)
}

// once runs an agent to its end, and compares its exit code.
func (s *site) once(code int) *running {
	s.Helper()
	r := s.start(true)
	r.await(r.ended)
	got := 0
	var ended *exit.Error
	if errors.As(r.err, &ended) {
		got = ended.Code
	}
	if got != code {
		s.Errorf("ends with %d (%v), want %d\n%s", got, r.err, code, r.log.text())
	}
	return r
}

func (r *running) await(event <-chan struct{}) {
	r.Helper()
	select {
	case <-event:
	case <-time.After(deadline):
		r.Fatalf("it does not come\n%s", r.log.text())
	}
}

// told waits until the log has a text n times.
func (r *running) told(n int, text string) {
	r.Helper()
	for {
		all, more := r.log.seen()
		if strings.Count(all, text) >= n {
			return
		}
		r.await(more)
	}
}

// books waits until those of an input are as they should be.
func (r *running) books(input string, is func(ledger.Books) bool) {
	r.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(deadline)
	for !is(r.agent.Books()[input]) {
		select {
		case <-tick.C:
		case <-late:
			r.Fatalf("the books are %+v\n%s", r.agent.Books()[input], r.log.text())
		}
	}
}

// hits waits until a fault has struck n times.
func (s *site) hits(f *emulator.Script, n int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	s.must(f.Wait(ctx, n))
}

// rows waits until a table holds as many rows as wanted, and compares them, in any order.
func (s *site) rows(table string, want ...string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	s.must(s.server.WaitRows(ctx, "Logs", table, len(want)))
	var got []string
	for _, row := range s.server.Rows("Logs", table) {
		got = append(got, string(row.Raw))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.Errorf("%s holds %q, want %q", table, got, want)
	}
}

// notes are what an agent logs.
type notes struct {
	mu   sync.Mutex
	all  strings.Builder
	more chan struct{} // closed and replaced when there is more
}

var _ io.Writer = (*notes)(nil)

func newNotes() *notes { return &notes{more: make(chan struct{})} }

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.more)
	n.more = make(chan struct{})
	return n.all.Write(p)
}

// seen is what was logged so far, and a channel closed when there is more.
func (n *notes) seen() (string, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all.String(), n.more
}

func (n *notes) text() string {
	all, _ := n.seen()
	return all
}
