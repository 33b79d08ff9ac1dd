package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"kusto-agent/internal/telemetry"
)

// flow is an application that numbers its records, rotates its file by size and
// removes what it rotated. Each record has crashRecord bytes. One in refused, if
// that is set, is one the service is told to refuse.
type flow struct {
	*site
	perFile int           // records, before the file is rotated
	refused int           // each n'th record is refused; 0: none
	pace    *rate.Limiter // bytes a second
	mayGo   func(path string) bool

	resting sync.Mutex // held: nothing is written
	written atomic.Int64
	rotated []string // not removed yet
	removed int
	halt    context.CancelFunc
	done    chan struct{}
}

// refusedMark is in the records that the service is told to refuse.
const refusedMark = "wont-do"

func flowLine(seq, refused int) string {
	line := crashLine(seq)
	if refused > 0 && seq%refused == refused-1 {
		line = strings.Replace(line, recordMark, recordMark[:len(recordMark)-len(refusedMark)]+refusedMark, 1)
	}
	return line
}

// start begins to write. With room for a few rotated files only, it waits for mayGo.
func (f *flow) start() {
	ctx, cancel := context.WithCancel(f.t.Context())
	f.halt, f.done = cancel, make(chan struct{})
	// Started here, ended by stop or the end of the test, awaited through done.
	go func() {
		defer close(f.done)
		if err := f.write(ctx); err != nil && ctx.Err() == nil {
			f.t.Error(err)
		}
	}()
	f.t.Cleanup(func() { f.stop() })
}

// stop ends the writing, with a whole record, and returns how many there are.
func (f *flow) stop() int {
	f.halt()
	<-f.done
	return int(f.written.Load())
}

const mostRotated = 8

func (f *flow) write(ctx context.Context) error {
	name := f.path("logs/app.json")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	for seq := 0; ; {
		b.Reset()
		for end := seq + 100; seq < end; seq++ {
			b.WriteString(flowLine(seq, f.refused))
		}
		if err := f.pace.WaitN(ctx, b.Len()); err != nil {
			return err
		}
		if err := f.add(name, b.Bytes(), seq); err != nil {
			return err
		}
		if seq%f.perFile == 0 {
			if err := f.rotate(ctx, name, seq); err != nil {
				return err
			}
		}
	}
}

// add writes the records before seq that are not written yet.
func (f *flow) add(name string, b []byte, seq int) error {
	f.resting.Lock()
	defer f.resting.Unlock()
	out, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	f.written.Store(int64(seq))
	return errors.Join(err, out.Close())
}

// rotate renames the file and removes those of its predecessors that may go.
func (f *flow) rotate(ctx context.Context, name string, seq int) error {
	to := fmt.Sprintf("%s.%06d", name, seq/f.perFile-1)
	if err := os.Rename(name, to); err != nil {
		return err
	}
	f.rotated = append(f.rotated, to)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		for len(f.rotated) > 0 && f.mayGo(f.rotated[0]) {
			if err := os.Remove(f.rotated[0]); err != nil {
				return err
			}
			f.rotated = f.rotated[1:]
			f.removed++
		}
		if len(f.rotated) < mostRotated {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// until polls what a running process tells.
func (s *site) until(what string, enough func() bool) {
	s.t.Helper()
	ctx, cancel := s.waiting()
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !enough() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("never seen: %s; books %+v", what, s.agent.mustBooks())
		}
	}
}

// open are the files that the process has open below a folder, deleted ones with
// that word behind their names.
func (p *process) open(dir string) (all []string) {
	fds := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	entries, _ := os.ReadDir(fds)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && strings.HasPrefix(to, dir+"/") {
			all = append(all, to)
		}
	}
	return all
}

func (p *process) pinned(dir string) (n int) {
	for _, to := range p.open(dir) {
		if strings.HasSuffix(to, " (deleted)") {
			n++
		}
	}
	return n
}

// gate is a front of the endpoint that can be shut: then connections are refused.
// Its port stays its own.
type gate struct {
	t       *testing.T
	handler http.Handler
	holder  int // a bound socket that does not listen: the port is nobody else's
	addr    string
	ln      net.Listener
	server  *http.Server
	served  sync.WaitGroup

	refusing atomic.Bool
	cut      sync.Map // ids of requests that were served, and whose answers found their connections closed
}

// ServeHTTP passes a request on. While the server closes idle connections, one may go on which a request just
// came: what becomes of its answer is noted.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.handler.ServeHTTP(w, r)
	if g.refusing.Load() && http.NewResponseController(w).Flush() != nil {
		g.cut.Store(r.Header.Get("x-ms-client-request-id"), true)
	}
}

// gated puts a gate before the endpoint of the site, and opens it.
func (s *site) gated() *gate { return s.gatedFor(s.server) }

// gatedFor does the same for a front of the endpoint.
func (s *site) gatedFor(front http.Handler) *gate {
	s.t.Helper()
	g := &gate{t: s.t, handler: front}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	s.must(err)
	s.must(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	s.must(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	s.must(err)
	g.holder, g.addr = fd, fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	s.url = "http://" + g.addr
	g.open()
	s.t.Cleanup(func() {
		g.shut()
		_ = syscall.Close(fd)
	})
	return g
}

func (g *gate) open() {
	g.t.Helper()
	ln, err := net.Listen("tcp", g.addr)
	for tick := time.Tick(time.Millisecond); errors.Is(err, syscall.EADDRINUSE); ln, err = net.Listen("tcp", g.addr) {
		<-tick // a process that is being started has what it inherited until it is another program
	}
	if err != nil {
		g.t.Fatal(err)
	}
	g.refusing.Store(false)
	g.ln, g.server = ln, &http.Server{Handler: g}
	// Started here, ended by shut, which waits.
	g.served.Go(func() { _ = g.server.Serve(ln) })
}

// shut refuses connections from now on, and answers what is under way.
func (g *gate) shut() {
	_ = g.server.Shutdown(g.t.Context())
	_ = g.server.Close()
	g.served.Wait()
}

// refuse does so too, but does not wait for what is under way: whoever sent it may
// be stopped.
func (g *gate) refuse() {
	g.refusing.Store(true)
	g.server.SetKeepAlivesEnabled(false)
	_ = g.ln.Close()
	g.served.Wait()
}

// storedSeqs counts how often each record is stored, and returns their order.
func (f *flow) storedSeqs(records int) (count []uint16, order []int) {
	f.t.Helper()
	count = make([]uint16, records)
	for row := range f.server.All("Logs", "T", 0) {
		seq, err := strconv.Atoi(string(row.Raw[8:20]))
		if err != nil || seq >= records || string(row.Raw)+"\n" != flowLine(seq, f.refused) {
			f.t.Fatalf("a row that was never written: %.100q", row.Raw)
		}
		count[seq]++
		order = append(order, seq)
	}
	return count, order
}

// wantStored expects each of the records that is not in gone to be stored or
// refused, and more than once only where a batch was sent again that one of the
// runs names, or as often as unknown outcomes were counted.
func (f *flow) wantStored(records int, gone func(seq int) bool, unknown int, runs ...*process) {
	f.t.Helper()
	stored, extra := map[string]int{}, 0
	for _, r := range f.server.Requests() {
		if !r.Stored {
			continue
		}
		batch := batchOf(r)
		if stored[batch]++; stored[batch] > 1 {
			extra += r.Records
		}
	}
	for batch, n := range stored {
		named := 0
		for _, p := range runs {
			named += len(p.entries(sentAgain, batch)) + len(p.entries(unknownAtStop, batch))
		}
		if again := n - 1 - named; again > unknown {
			f.t.Errorf("batch %s was stored %d times and named %d times", batch, n, named)
		} else {
			unknown -= max(again, 0)
		}
	}
	f.wantCounts(records, extra, gone)
	f.wantUniqueRequests()
}

func (f *flow) wantCounts(records, extra int, gone func(seq int) bool) {
	f.t.Helper()
	count, _ := f.storedSeqs(records)
	refused := map[int]int{}
	if f.refused > 0 {
		for _, q := range f.quarantined() {
			data, _ := q["data"].(string)
			seq, err := strconv.Atoi(data[8:20])
			if err != nil {
				f.t.Fatalf("not a record in quarantine: %q", data)
			}
			refused[seq]++
		}
	}
	var missing, present []int
	double := 0
	for seq, n := range count {
		bad := f.refused > 0 && seq%f.refused == f.refused-1
		switch {
		case bad && n > 0:
			f.t.Errorf("record %d was refused and is stored", seq)
		case gone != nil && gone(seq):
			if n+uint16(refused[seq]) > 0 {
				present = append(present, seq)
			}
		case bad && refused[seq] == 0, !bad && n == 0:
			missing = append(missing, seq)
		case !bad && n > 1:
			double += int(n) - 1
		}
		if !bad && refused[seq] > 0 {
			f.t.Errorf("record %d is in quarantine", seq)
		}
	}
	f.t.Logf("%d records, %d stored twice, %d refused", records, double, len(refused))
	if len(missing) > 0 {
		f.t.Errorf("%d records are missing: %v …", len(missing), missing[:min(len(missing), 10)])
	}
	if len(present) > 0 {
		f.t.Errorf("%d records are there that were said to be lost: %v …", len(present), present[:min(len(present), 10)])
	}
	if double != extra {
		f.t.Errorf("%d records are double, %d of them in batches that were stored again", double, extra)
	}
}

// files are those the process tells of; none if it is no more.
func (p *process) files() []telemetry.File {
	var s telemetry.Status
	if _, text, err := p.get("/api/v1/status"); err != nil || json.Unmarshal([]byte(text), &s) != nil {
		return nil
	}
	return s.Files
}

// allRead reports whether all that is in the files of logs is safe. The agent has to
// know each by its name of now: what it tells of one that was renamed meanwhile, or
// of how long it is, may be from before.
func (p *process) allRead() bool {
	known := make(map[string]telemetry.File)
	for _, f := range p.files() {
		if f.Safe != f.Size {
			return false
		}
		known[f.Path] = f
	}
	whole := true
	err := filepath.WalkDir(p.site.path("logs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f, found := known[path]
		delete(known, path)
		packed := slices.Contains([]string{".gz", ".zst"}, filepath.Ext(path)) // they tell of what is in them
		whole = whole && (found || info.Size() == 0) && (!found || packed || f.Size == info.Size())
		return nil
	})
	return err == nil && whole && len(known) == 0
}

// allAccepted reports whether all that is in the files of logs has left the agent. It
// looks at the books last: what was safe may have been so in the spool.
func (p *process) allAccepted(input string) bool {
	if !p.allRead() {
		return false
	}
	a := p.mustBooks()[input]
	return a.spooled+a.pending == 0
}

// isSafe says whether all of a file is safe: accepted, or in the spool.
func (p *process) isSafe(path string, size int64) bool {
	return slices.ContainsFunc(p.files(), func(f telemetry.File) bool { return f.Path == path && f.Size == size && f.Safe == size })
}
