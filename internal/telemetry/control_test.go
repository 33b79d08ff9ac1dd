package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/ledger"
)

// spring is a tap of tests: it gives what it is sent.
type spring struct {
	records chan []TapRecord
	dropped uint64
	closed  chan struct{}
}

func newSpring() *spring {
	return &spring{records: make(chan []TapRecord), closed: make(chan struct{})}
}

func (s *spring) Next(ctx context.Context, each func(TapRecord) error) error {
	select {
	case all, more := <-s.records:
		if !more {
			return io.EOF
		}
		for _, r := range all {
			if err := each(r); err != nil {
				return err
			}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *spring) Dropped() uint64 { return s.dropped }
func (s *spring) Close()          { close(s.closed) }

// log is where tests look for what was logged.
type log struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// controlled is a control that runs.
type controlled struct {
	*Control
	log  *log
	stop func() // and wait
}

func controlIn(t *testing.T, dir string, tap Tap, files ...File) *controlled {
	t.Helper()
	return controlWith(t, dir, nil, tap, files...)
}

func controlDoing(t *testing.T, dir string, do map[string]Doing) *controlled {
	t.Helper()
	return controlWith(t, dir, do, nil)
}

func controlWith(t *testing.T, dir string, do map[string]Doing, tap Tap, files ...File) *controlled {
	t.Helper()
	l := &log{more: make(chan struct{}, 100)}
	c := NewControl(ControlOptions{
		Dir:    dir,
		Status: serverFor(Status{Version: "1.2.3"}, ledger.New()).ServeStatus,
		Files:  func(context.Context, bool) ([]File, error) { return slices.Clone(files), nil },
		Inputs: func() []TapInput { return []TapInput{{Name: "app"}, {Name: "ore", Blocks: true}} },
		Tap: func([]string) (Tap, int, error) {
			if tap == nil {
				return nil, 4, ErrTaps
			}
			return tap, 4, nil
		},
		Do:     do,
		Logger: NewLogger(LogConfig{Level: "debug", Format: "text"}, l),
	})
	c.retry = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	// Ended by stop, which waits.
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return &controlled{c, l, stop}
}

// await asks until somebody answers.
func (c *controlled) await(t *testing.T) *FileList {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		list, err := FetchFiles(ctx, c.o.Dir, nil, false)
		if err == nil {
			return list
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// leave makes a socket as a killed agent leaves it.
func leave(t *testing.T, path string) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
}

// TestARemovedSocketIsMadeAnew: somebody removes the socket, or its folder, of an agent that runs.
func TestARemovedSocketIsMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	mkdir := func() {
		t.Helper()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mkdir()
	c := controlIn(t, dir, nil)
	c.await(t)
	if err := os.Remove(filepath.Join(dir, SocketName)); err != nil {
		t.Fatal(err)
	}
	c.await(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	mkdir() // as the journal does
	c.await(t)
	c.stop()
	if n := c.log.count("WARN"); n != 2 || !strings.Contains(c.log.text.String(), "was removed") {
		t.Errorf("log: %s", c.log.text.String())
	}
}

func TestTheSocketIsForItsUserAlone(t *testing.T) {
	f := func(name string, prepare func(dir string) string) {
		t.Run(name, func(t *testing.T) {
			dir := prepare(t.TempDir())
			if _, err := FetchFiles(t.Context(), dir, nil, false); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("before the start: %v", err)
			}
			c := controlIn(t, dir, nil, File{Input: "app", Path: "/b"}, File{Input: "app", Path: "/a"})
			if got := c.await(t).Files; len(got) != 2 || got[0].Path != "/a" {
				t.Errorf("files are %+v", got)
			}
			if got, err := FetchStatus(t.Context(), dir); err != nil || got.Version != "1.2.3" {
				t.Errorf("status is %+v, %v", got, err)
			}
			st, err := os.Lstat(filepath.Join(dir, SocketName))
			if err != nil || st.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("its mode is %v, %v", st.Mode(), err)
			}
			c.stop()
			if _, err := os.Lstat(filepath.Join(dir, SocketName)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the stop: %v", err)
			}
			if n := c.log.count("WARN"); n > 0 {
				t.Errorf("log: %s", c.log.text.String())
			}
		})
	}
	f("new", func(dir string) string { return dir })
	f("after a kill", func(dir string) string {
		leave(t, filepath.Join(dir, SocketName))
		return dir
	})
	f("long path", func(dir string) string {
		dir = filepath.Join(dir, strings.Repeat("long/", 40))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	})
}

// TestTheModeIsThereFromTheFirstMoment: also where the umask takes nothing away
// the kernel makes the socket with it.
func TestTheModeIsThereFromTheFirstMoment(t *testing.T) {
	old := syscall.Umask(0) // of the whole process: not in parallel
	defer syscall.Umask(old)
	c := NewControl(ControlOptions{Dir: t.TempDir(), Status: http.NotFound, Logger: quiet()})
	ln, err := c.listen() // nothing in it changes a mode after the name is there
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if st, err := os.Lstat(c.path()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", st.Mode(), err)
	}
}

func TestADiskWithoutSocketsIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, SocketName)
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := controlIn(t, dir, nil)
	for range 20 { // lines of the log, one a try
		<-c.log.more
	}
	if n := c.log.count("level=WARN"); n != 1 || c.log.count("fix=") != 1 {
		t.Errorf("told %d times: %s", n, c.log.text.String())
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Error("a file that is none of the agent's was replaced")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.await(t)
	if n := c.log.count("control socket works again: kusto-agent files and kusto-agent tap can be used"); n != 1 {
		t.Errorf("told %d times: %s", n, c.log.text.String())
	}
}

func TestWhatTheSocketRefuses(t *testing.T) {
	dir := t.TempDir()
	c := controlIn(t, dir, nil, File{Input: "app", Path: "/a"}, File{Input: "ore", Path: "/b"}, File{Path: "/c", State: "not read"})
	c.await(t)
	list, err := FetchFiles(t.Context(), dir, []string{"ore"}, true)
	if err != nil || len(list.Files) != 2 || list.Files[0].Path != "/b" || list.Files[1].Path != "/c" {
		t.Errorf("files of one input: %+v, %v", list, err)
	}
	f := func(err error, is error, want string) {
		t.Helper()
		if err == nil || is != nil && !errors.Is(err, is) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	_, err = FetchFiles(t.Context(), dir, []string{"app", "nope\x1b"}, false)
	f(err, ErrInput, `there is no input "nope\x1b"; the agent has app, ore`)
	_, err = OpenTap(t.Context(), dir, []string{"nope"})
	f(err, ErrInput, `there is no input "nope"; the agent has app, ore`)
	_, err = OpenTap(t.Context(), dir, nil)
	f(err, nil, "the agent answers 400 Bad Request: say which input: /v1/tap?input=NAME")
	_, err = OpenTap(t.Context(), dir, []string{"app"})
	f(err, nil, "the agent answers 503 Service Unavailable: too many taps are open: 4 at a time; end one of them")
	_, err = ask(t.Context(), dir, "/api/v1/status", nil)
	f(err, ErrInput, "404 page not found")
}

func TestATapBringsRecordsAsTheyAre(t *testing.T) {
	dir, s := t.TempDir(), newSpring()
	c := controlIn(t, dir, s)
	c.await(t)
	r, err := OpenTap(t.Context(), dir, []string{"app", "ore"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	next := func() (*TapLine, string) {
		t.Helper()
		line, raw, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		return line, string(raw)
	}
	if line, _ := next(); line.Input != "" || !slices.Equal(line.Blocks, []string{"ore"}) {
		t.Errorf("first line: %+v", line)
	}
	rec := TapRecord{Input: "app", File: "00000000000a11ce", Generation: 1, Path: "/a", Offset: 7, Length: 9}
	f := func(data, json string) {
		t.Helper()
		rec.Data = []byte(data + "\n")
		s.records <- []TapRecord{rec}
		line, raw := next()
		if string(line.Data) != data || line.Offset != 7 || line.Length != 9 || line.Generation != 1 || !strings.HasSuffix(raw, json+"}") {
			t.Errorf("%q comes as %s", data, raw)
		}
	}
	f(`{"a":"<é>"}`, `"path":"/a","offset":7,"length":9,"data":"{\"a\":\"<é>\"}"`)
	f("", `"data":""`)
	f("\r", `"data":"\r"`)
	f("\xff\n", `"data_base64":"/wo="`)
	rec.Records, rec.Data = 3, nil
	s.records <- []TapRecord{rec}
	if _, raw := next(); !strings.HasSuffix(raw, `"length":9,"records":3}`) {
		t.Errorf("a block comes as %s", raw)
	}
	rec.Records = 0
	s.dropped = 5
	s.records <- nil
	if line, _ := next(); line.Dropped != 5 || line.Ended {
		t.Errorf("what was dropped comes as %+v", line)
	}
	close(s.records)
	if line, _ := next(); line.Dropped != 5 || !line.Ended {
		t.Errorf("the end comes as %+v", line)
	}
	if _, _, err := r.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	<-s.closed
}

// TestATapEnds: when its reader goes, and when the agent stops, though its reader
// takes nothing.
func TestATapEnds(t *testing.T) {
	f := func(name string, end func(c *controlled, r *TapReader)) {
		t.Run(name, func(t *testing.T) {
			dir, s := t.TempDir(), newSpring()
			c := controlIn(t, dir, s)
			c.await(t)
			r, err := OpenTap(t.Context(), dir, []string{"app"})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			many := slices.Repeat([]TapRecord{{Input: "app", Data: []byte(strings.Repeat("x", 10_000))}}, 1000)
			s.records <- many // more than a socket holds
			end(c, r)
			<-s.closed
		})
	}
	f("reader gone", func(_ *controlled, r *TapReader) { r.Close() })
	f("agent stops", func(c *controlled, _ *TapReader) { c.stop() })
}

func TestTheListOfFilesAsText(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	list := &FileList{Time: now, Files: []File{
		{Input: "app", Path: "/srv/app/worker-1.json", ID: "00000000000a11ce", Size: 412_000_000, Read: 412_000_000, Safe: 408_900_112, BehindBytes: 3_099_888, BehindSeconds: 2.4, State: "reading"},
		{Input: "dr", Path: "/srv/app/worker-1.json", ID: "00000000000a11ce", Generation: 1234, Size: 412_000_000, Read: 12, Safe: 12, BehindBytes: 411_999_988, BehindSeconds: 93_600, State: "waiting", Why: "what was read of it has to be accepted first; its route is held: Forbidden"},
		{Input: "app", Path: "/srv/app/old.json", ID: "00000000000a11cf", Size: 10, Read: 10, Safe: 5, BehindBytes: 5, Pinned: 10, State: "deleted"},
		{Path: "/srv/app/pipe.json", State: "not read", Why: "it is a FIFO", Fix: "leave it out with exclude"},
		{Input: "none", State: "not read", Why: "no file matches its paths", Fix: "check paths and exclude of the input"},
	}}
	SortFiles(list.Files)
	var b strings.Builder
	if err := RenderFiles(&b, list, false); err != nil {
		t.Fatal(err)
	}
	want := `FILE
  INPUT  ID/GENERATION       STATE       SIZE    READ    SAFE  BEHIND  FOR
no file
  none   -                   not read
    no file matches its paths
    what to do: check paths and exclude of the input
/srv/app/old.json
  app    00000000000a11cf/0  deleted     10 B    10 B     5 B     5 B  0s
    10 B stay on the disk until all of it is safe
/srv/app/pipe.json
  -      -                   not read
    it is a FIFO
    what to do: leave it out with exclude
/srv/app/worker-1.json
  app    00000000000a11ce/0  reading   412 MB  412 MB  409 MB  3.1 MB  2s
  dr     00000000000a11ce/1234  waiting   412 MB    12 B    12 B  412 MB  1d 2h
    what was read of it has to be accepted first; its route is held: Forbidden
5 entries, 415 MB behind
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(want) {
		if n := len([]rune(strings.TrimSpace(line))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}

	const bad = "\x1b]0;owned\x07\nforged line\u009b31m"
	b.Reset()
	hostile := &FileList{Files: []File{
		{Input: bad, Path: bad, ID: bad, State: bad, Why: bad, Fix: bad, BehindBytes: 1},
		{Input: "x", Path: bad + "2", State: bad},
	}}
	if err := RenderFiles(&b, hostile, false); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.ContainsAny(got, "\x1b\x07\u009b") || strings.Contains(got, "\nforged line") {
		t.Errorf("got %q", got)
	}
	if text, err := json.Marshal(FileList{Files: orEmpty[File](nil)}); err != nil || !strings.Contains(string(text), `"files":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}
