package e2e

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

// manager is a socket as a service manager has it.
func (s *site) manager() *net.UnixConn {
	s.t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path("notify"), Net: "unixgram"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	s.env = append(s.env, "NOTIFY_SOCKET="+s.path("notify"))
	return conn
}

// TestManagerIsTold: what the agent does, in its order.
func TestManagerIsTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	conn := s.manager()
	if err := conn.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	told := func() string {
		t.Helper()
		buf := make([]byte, 256)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(buf[:n]), "\n")
			switch kind, _, _ := strings.Cut(first, "="); kind {
			case "EXTEND_TIMEOUT_USEC": // of a start on a slow machine
			case "STATUS": // comes when it has changed, whatever else is told
			default:
				return first
			}
		}
	}
	s.write("logs/a.json", "")
	p := s.run(open + oneJSON)
	all := []string{told()}
	p.signal(syscall.SIGHUP)
	all = append(all, told(), told())
	p.signal(syscall.SIGTERM)
	all = append(all, told())
	if want := []string{"READY=1", "RELOADING=1", "READY=1", "STOPPING=1"}; !slices.Equal(all, want) {
		t.Errorf("told %q, want %q", all, want)
	}
	p.want(0)
}

// TestManagerReadsNothing: the queue of its socket is full before the agent starts, and
// stays so; the watchdog has to be fed without end.
func TestManagerReadsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.manager()
	fill, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fill)
	for err == nil {
		err = unix.Sendto(fill, []byte("full"), 0, &unix.SockaddrUnix{Name: s.path("notify")})
	}
	s.env = append(s.env, "WATCHDOG_USEC=3000")
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	p := s.run(open + oneJSON)
	s.awaitRows("T", 10)
	p.signal(syscall.SIGHUP)
	p.await(1, "configuration reloaded without changes")
	p.stop()
	s.wantRows("T", jsonRecords(0, 10))
}

// TestHalfOpenConnections: those who ask get an answer beside many who say nothing.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	p := s.run(open + oneJSON)
	address := p.await(1, "telemetry endpoint is listening").text("address")
	p.await(1, "agent is running")
	for range 1000 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for _, path := range []string{"/healthz", "/metrics", "/api/v1/status"} {
		if code, text := p.mustGet(path); code != 200 {
			t.Errorf("%s: %d %q", path, code, text)
		}
	}
	p.stop()
}

// TestStopWhileABatchIsReadAgain: the disk of the file does not answer, neither to who
// reads on in it nor to who reads a batch of an earlier run again.
func TestStopWhileABatchIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.tool("strace", "-D", "-f", "-o", "/dev/null", "true")
	s.write("logs/a.json", joined(jsonRecords(0, 10)))
	hang := s.server.Fail(emulator.Fault{Hang: true})
	config := open + "shutdown_timeout: 100ms\n" + oneJSON
	p := s.run(config)
	s.awaitHits(hang, 1)
	s.killHeld(p, hang)
	// The agent stays our child; whoever traces it is its grandchild.
	s.before = []string{s.toolPath("strace"), "-D", "-f", "-qq", "-o", s.path("strace"), "-e", "trace=pread64",
		"-e", "inject=pread64:delay_enter=600000000", "-P", s.path("logs/a.json")}
	p = s.run(config)
	s.before = nil
	p.await(1, "telemetry endpoint is listening") // signals are listened to since before that
	s.until("it is read, and read again", func() bool { return len(p.open(s.path("logs"))) == 2 })
	p.signal(syscall.SIGTERM)
	e := p.await(1, "stopping without waiting any longer: the remaining records will be sent after the next start")
	if e.text("for") != "files that are being read" { // what is read again is waited for by nobody
		t.Errorf("says %v", e)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "TracerPid:\t")
	tracer, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
	if tracer == 0 {
		t.Fatalf("nobody traces it:\n%s", status)
	}
	if err := syscall.Kill(tracer, syscall.SIGKILL); err != nil { // the disk answers: the kernel ends no thread that waits for one
		t.Fatal(err)
	}
	p.want(exit.Failed)
	s.once(config, 0)
	s.wantRows("T", jsonRecords(0, 10))
}
