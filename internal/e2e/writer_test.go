package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gopkg.in/natefinch/lumberjack.v2"
)

// asWriter is set in the environment of a child: the test binary is then an
// application that writes a log, as an application in Go does.
const asWriter = "KUSTO_AGENT_TEST_AS_WRITER"

// load is what a writer writes: records that are numbered from 0, so many a second
// (0: as fast as it can), and a new file after perFile of them where it is the
// writer who rotates. Before each of the portions but the first it waits for a line on
// its standard input, or the end of it: what is done to the file is done while more is
// to come.
type load struct{ records, rate, perFile int }

const portions = 5

func (l load) portion() int { return l.records / portions }

// writer is a process that writes a log.
type writer struct {
	*site
	cmd *exec.Cmd
	load
	said *lines
	in   io.WriteCloser // see load
}

// writer starts a process that writes a file: lumberjack and slog are written in Go,
// the others are handlers of Python's logging.
func (s *site) writer(kind, path string, l load) *writer {
	s.t.Helper()
	args := []string{kind, path, strconv.Itoa(l.records), strconv.Itoa(l.rate), strconv.Itoa(l.perFile)}
	w := &writer{site: s, load: l, said: newLines(s.t)}
	switch kind {
	case "lumberjack", "slog":
		exe, err := os.Executable()
		if err != nil {
			s.t.Fatal(err)
		}
		w.cmd = exec.Command(exe, args...)
		w.cmd.Env = append(os.Environ(), asWriter+"=1")
	default:
		if _, err := exec.LookPath("python3"); err != nil {
			s.t.Skipf("python3 is not installed: %v", err)
		}
		script, err := filepath.Abs("testdata/writer.py")
		if err != nil {
			s.t.Fatal(err)
		}
		w.cmd = exec.Command("python3", append([]string{script}, args...)...)
	}
	w.cmd.Stdout, w.cmd.Stderr = w.said.in, w.said.in
	in, err := w.cmd.StdinPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	w.in = in
	w.said.follow()
	s.t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			_ = w.cmd.Process.Kill()
			_ = w.cmd.Wait()
		}
	})
	return w
}

// more lets it write the next portion.
func (w *writer) more() {
	w.t.Helper()
	if _, err := io.WriteString(w.in, "\n"); err != nil {
		w.t.Fatal(err)
	}
}

// hold stops the process in its tracks, and goOn lets it go on.
func (w *writer) hold() { w.kick(syscall.SIGSTOP) }
func (w *writer) goOn() { w.kick(syscall.SIGCONT) }

func (w *writer) kick(sig syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		w.t.Fatal(err)
	}
	if sig != syscall.SIGSTOP {
		return
	}
	awaitStopped(w.t, w.cmd.Process)
}

// awaitStopped waits until SIGSTOP is delivered: the process stands still, or has ended.
func awaitStopped(t *testing.T, p *os.Process) {
	t.Helper()
	if err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatalf("hold a process: %v", err)
	}
}

// wait returns when everything is written.
func (w *writer) wait() {
	w.t.Helper()
	_ = w.in.Close() // fails only where it has ended
	if err := w.cmd.Wait(); err != nil {
		w.t.Fatalf("writer: %v: %s", err, w.said.text())
	}
}

// wantStored waits until a table holds what was written, and expects each record
// once.
func (w *writer) wantStored(table string) {
	w.t.Helper()
	w.wait()
	w.awaitRows(table, w.records)
	w.stored(table)
}

// stored expects each record of the writer once in a table.
func (w *writer) stored(table string) {
	w.t.Helper()
	times := make([]int, w.records)
	for row := range w.server.All("Logs", table, 0) {
		var r struct{ Seq int }
		if err := json.Unmarshal(row.Raw, &r); err != nil || r.Seq >= len(times) {
			w.t.Fatalf("%s has a row that was never written: %.100q", table, row.Raw)
		}
		times[r.Seq]++
	}
	missing, double, first := 0, 0, -1
	for seq, n := range times {
		if n != 1 && first < 0 {
			first = seq
		}
		if n == 0 {
			missing++
		}
		double += max(n-1, 0)
	}
	if missing+double > 0 {
		w.t.Errorf("%s: of %d records %d are missing and %d stored twice, the first is %d", table, w.records, missing, double, first)
	}
}

// writeLog is the child: see asWriter.
func writeLog(args []string) error {
	var l load
	path, into := args[1], []*int{&l.records, &l.rate, &l.perFile}
	for i, to := range into {
		n, err := strconv.Atoi(args[2+i])
		if err != nil {
			return err
		}
		*to = n
	}
	note := recordMark + " " + strings.Repeat("x", 60)
	if args[0] == "slog" {
		out := &reopened{path: path}
		signal.Notify(out.channel(), syscall.SIGHUP)
		log := slog.New(slog.NewJSONHandler(out, nil))
		return l.each(func(seq int) error {
			log.Info(note, "seq", seq)
			return out.err
		})
	}
	out := &lumberjack.Logger{Filename: path, MaxSize: 1000, MaxBackups: 5}
	err := l.each(func(seq int) error {
		if l.perFile > 0 && seq > 0 && seq%l.perFile == 0 {
			if err := out.Rotate(); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(out, `{"seq":%d,"note":%q}`+"\n", seq, note)
		return err
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// each calls write for each record, at the rate that is asked for or below: it does
// not make up for time that the machine had for others, or one file after the other
// would be there for milliseconds only.
func (l load) each(write func(seq int) error) error {
	due, more := time.Now(), bufio.NewReader(os.Stdin)
	for seq := range l.records {
		if seq > 0 && seq%l.portion() == 0 {
			if _, err := more.ReadString('\n'); err != nil && err != io.EOF {
				return err
			}
		}
		if err := write(seq); err != nil {
			return err
		}
		if l.rate > 0 && seq%100 == 99 {
			due = due.Add(100 * time.Second / time.Duration(l.rate))
			<-time.After(time.Until(due))
			if late := time.Since(due); late > 100*time.Millisecond {
				due = due.Add(late)
			}
		}
	}
	return nil
}

// reopened is a log file that is opened again after a SIGHUP, at the next record.
// For one goroutine.
type reopened struct {
	path string
	hup  chan os.Signal
	f    *os.File
	err  error
}

func (r *reopened) channel() chan os.Signal {
	r.hup = make(chan os.Signal, 1)
	return r.hup
}

func (r *reopened) Write(p []byte) (int, error) {
	select {
	case <-r.hup:
		r.err = r.f.Close()
		r.f = nil
	default:
	}
	if r.f == nil && r.err == nil {
		r.f, r.err = os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.f.Write(p)
	r.err = err
	return n, err
}

// modes runs tests with events and without. They wait for writers most of the time,
// so that some run at once, whatever -parallel says. Wait must be called.
type modes struct {
	t *testing.T
	sync.WaitGroup
	free chan struct{}
}

func watchModes(t *testing.T) *modes { return &modes{t: t, free: make(chan struct{}, 4)} }

func (m *modes) run(name string, test func(t *testing.T, mode string)) {
	for _, mode := range []string{"auto", "poll"} {
		m.Go(func() {
			m.free <- struct{}{}
			defer func() { <-m.free }()
			m.t.Run(name+"/"+mode, func(t *testing.T) { test(t, mode) })
		})
	}
}

// rotate is site.rotate on the file of the writer. PID in the directives is that of the writer.
func (w *writer) rotate(path, directives string) {
	w.t.Helper()
	w.site.rotate(path, strings.ReplaceAll(directives, "PID", strconv.Itoa(w.cmd.Process.Pid)))
}

// rotate runs logrotate now, on a file, with some directives.
func (s *site) rotate(path, directives string) {
	s.t.Helper()
	conf := s.path("logrotate.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "%s {\n%s\n}\n", path, directives), 0o644); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), deadline)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, "logrotate", "-f", "-s", s.path("logrotate.state"), conf).CombinedOutput()
		if ctx.Err() == nil && strings.Contains(string(out), "already exists, skipping rotation") {
			continue // dates are told to the second
		}
		if err != nil || len(out) > 0 {
			s.t.Fatalf("logrotate: %v: %s", err, out)
		}
		return
	}
}
