package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

// deadline ends a wait for an event that will never come. No test passes or
// fails by how fast it is below that.
var deadline = func() time.Duration {
	if longForm {
		return 10 * time.Minute
	}
	return time.Minute
}()

// recordMark is in every record of the tests, and must be in no log.
const recordMark = "zq-payload"

// head begins most configurations.
const head = `cluster: ${URL}
database: Logs
state_dir: ${DIR}/state
telemetry: {listen: "127.0.0.1:0"}
`

// open is head for an endpoint that asks for no token.
const open = head + "auth: {method: none}\n"

// site is a folder of files, and the endpoint they are shipped to.
type site struct {
	t         *testing.T
	dir       string
	server    *emulator.Server
	url       string
	env       []string // of every process, beside DIR and URL
	logTo     *os.File // the log of every process; nil: it is kept in memory
	before    []string // a command by way of which processes are started
	asNobody  bool     // every process is started as the user nobody
	secrets   []string // that no process may ever write
	processes []*process
	agent     *process // the one started last
}

func newSite(t *testing.T, o emulator.Options) *site {
	s := &site{t: t, dir: t.TempDir(), secrets: []string{recordMark}}
	s.server, s.url = s.endpoint(o)
	t.Cleanup(func() {
		for _, p := range slices.Backward(s.processes) {
			p.finish()
		}
	})
	return s
}

// nobody is a user and a group who own nothing.
const nobody = 65534

// refusable has the agent run as a user whom the kernel refuses what the mode of
// a file does. Where the tests do not run as root, that is who they run as.
func (s *site) refusable() {
	s.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	s.asNobody = true
	err := os.Chown(s.dir, nobody, nobody)
	if err == nil {
		err = os.Chmod(filepath.Dir(s.dir), 0o755)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// endpoint serves until the end of the test.
func (s *site) endpoint(o emulator.Options) (*emulator.Server, string) {
	s.t.Helper()
	if o.TokenSecret != "" {
		s.secrets = append(s.secrets, o.TokenSecret)
	}
	server := emulator.New(o)
	url, err := server.Listen("127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := server.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return server, url
}

// deadURL is where nobody listens.
func (s *site) deadURL() string {
	s.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer ln.Close()
	return "http://" + ln.Addr().String()
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// write makes a file, and the folders it needs.
func (s *site) write(name, text string) {
	s.t.Helper()
	s.put(name, text, os.O_TRUNC)
}

func (s *site) append(name, text string) {
	s.t.Helper()
	s.put(name, text, os.O_APPEND)
}

func (s *site) put(name, text string, how int) {
	s.t.Helper()
	path := s.path(name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|how, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) rename(from, to string) {
	s.t.Helper()
	if err := os.Rename(s.path(from), s.path(to)); err != nil {
		s.t.Fatal(err)
	}
}

// tick waits until the clock of the file system, which may be some milliseconds behind, has passed
// this moment: what is made from here on has a later time than what was made before.
func (s *site) tick() {
	s.t.Helper()
	name := filepath.Join(s.t.TempDir(), "clock")
	for now := time.Now(); ; time.Sleep(time.Millisecond / 2) {
		s.must(os.WriteFile(name, []byte("."), 0o644))
		info, err := os.Stat(name)
		s.must(err)
		if info.ModTime().After(now) {
			return
		}
	}
}

func (s *site) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// run starts the agent with a configuration and watches its books.
func (s *site) run(config string, flags ...string) *process {
	s.t.Helper()
	s.write("agent.yaml", config)
	p := s.launch(append([]string{"run", "--config", s.path("agent.yaml")}, flags...)...)
	s.agent = p
	p.watchBooks()
	return p
}

// once runs the agent to its end.
func (s *site) once(config string, code int) *process {
	s.t.Helper()
	if code != exit.Unreachable {
		config = patient(config)
	}
	return s.run(config, "--once").want(code)
}

var shortPatience = regexp.MustCompile(`patience: \d+ms`)

// patient gives the answers of the service time to come, on a busy machine too, where a
// configuration has little patience and a command must end otherwise than by that.
func patient(config string) string { return shortPatience.ReplaceAllString(config, "patience: 8s") }

// waiting ends when nothing more can happen: the agent started last is no
// more, or the wait has been too long.
func (s *site) waiting() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	if p := s.agent; p != nil {
		// Started here, ended by either, awaited by nobody: it only cancels.
		go func() {
			select {
			case <-p.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// awaitRows waits until a table of Logs holds n rows.
func (s *site) awaitRows(table string, n int) {
	s.t.Helper()
	ctx, cancel := s.waiting()
	defer cancel()
	err := s.server.WaitRows(ctx, "Logs", table, n)
	if got := s.server.RowCount("Logs", table); err != nil && got < n {
		s.t.Fatalf("%s has %d rows, want %d", table, got, n)
	}
}

// awaitRequests waits until n ingest requests have ended.
func (s *site) awaitRequests(n int) {
	s.t.Helper()
	ctx, cancel := s.waiting()
	defer cancel()
	err := s.server.WaitRequests(ctx, n)
	if got := s.server.Totals().Requests; err != nil && got < n {
		s.t.Fatalf("%d requests have ended, want %d", got, n)
	}
}

// awaitHits waits until a fault has struck n times.
func (s *site) awaitHits(script *emulator.Script, n int) {
	s.t.Helper()
	ctx, cancel := s.waiting()
	defer cancel()
	if err := script.Wait(ctx, n); err != nil && script.Hits() < n {
		s.t.Fatalf("the fault struck %d times, want %d", script.Hits(), n)
	}
}

// killHeld kills an agent whose requests a fault holds, and removes the fault when the server has
// seen them end: before, they might go on.
func (s *site) killHeld(p *process, script *emulator.Script) {
	s.t.Helper()
	p.kill()
	ctx, cancel := context.WithTimeout(context.Background(), deadline) // s.waiting ends with the agent
	defer cancel()
	if err := script.WaitLeft(ctx); err != nil {
		s.t.Fatal("the server has not seen that the agent was killed")
	}
	script.Remove()
}

// wantRows compares the rows of a table with what was written, in any order.
func wantRows(t *testing.T, server *emulator.Server, database, table string, want []string) {
	t.Helper()
	count := make(map[string]int)
	for _, record := range want {
		count[record]++
	}
	bad := 0
	for _, row := range server.Rows(database, table) {
		count[string(row.Raw)]--
	}
	for record, n := range count {
		if n != 0 {
			if bad++; bad <= 5 {
				t.Errorf("%s.%s: missing %d times (negative: too often): %.200q", database, table, n, record)
			}
		}
	}
	if bad > 5 {
		t.Errorf("%s.%s: %d records differ", database, table, bad)
	}
	if n := server.DroppedLines(); n > 0 {
		t.Errorf("the endpoint dropped %d lines without a word", n)
	}
}

func (s *site) wantRows(table string, want []string) {
	s.t.Helper()
	wantRows(s.t, s.server, "Logs", table, want)
}

// jsonRecords are n records, numbered from first.
func jsonRecords(first, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"seq":%d,"note":"%s %s"}`, first+i, recordMark, strings.Repeat("x", (first+i)%37))
	}
	return all
}

func joined(records []string) string { return strings.Join(records, "\n") + "\n" }

// wantUniqueRequests: no two requests have one id, and requests of one batch
// carry one body. Where several processes ran, a batch may have been made again,
// and then its body is the same before gzip.
func (s *site) wantUniqueRequests() {
	s.t.Helper()
	seen := make(map[string]bool)
	bodies := make(map[string]string)
	for _, r := range s.server.Requests() {
		if seen[r.ClientRequestID] {
			s.t.Errorf("request id %q came twice", r.ClientRequestID)
		}
		seen[r.ClientRequestID] = true
		if !r.Whole {
			continue
		}
		batch := batchOf(r)
		body := r.BodyHash
		if len(s.processes) > 1 {
			body = r.RawSum
		}
		if was := bodies[batch]; was != "" && was != body {
			s.t.Errorf("batch %s was sent with two bodies", batch)
		}
		bodies[batch] = body
	}
}

// batchOf is the batch id in the middle of a request id.
func batchOf(r emulator.Request) string {
	parts := strings.Split(r.ClientRequestID, ";")
	if len(parts) != 3 || parts[0] != "kusto-agent.ingest" {
		return "not a request id: " + r.ClientRequestID
	}
	return parts[1]
}

// wantFile fails unless text is that of a file in testdata.
func wantFile(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, []byte(text)) {
		t.Errorf("%s: got\n%s\nwant\n%s%v", name, text, want, err)
	}
}
