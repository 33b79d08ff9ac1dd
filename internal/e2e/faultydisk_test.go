package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Real disks that go bad, and the tools that make them do so.

// disk mounts a memory disk of its own.
func (s *site) disk(name, options string) {
	s.t.Helper()
	if err := os.MkdirAll(s.path(name), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", s.path(name), "tmpfs", 0, "mode=700,"+options); err != nil {
		s.t.Skipf("the kernel refuses a disk of its own: %v", err)
	}
	s.t.Cleanup(func() {
		if err := syscall.Unmount(s.path(name), syscall.MNT_DETACH); err != nil {
			s.t.Error(err)
		}
	})
}

// empty gives the room back that fill took.
func (s *site) empty(name string) {
	s.t.Helper()
	if err := os.Truncate(s.path(name), 0); err != nil {
		s.t.Fatal(err)
	}
}

// setReadOnly changes a memory disk that has no file open for writing.
func (s *site) setReadOnly(name string, yes bool) {
	s.t.Helper()
	flags := uintptr(syscall.MS_REMOUNT)
	if yes {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("tmpfs", s.path(name), "tmpfs", flags, ""); err != nil {
		s.t.Fatal(err)
	}
}

// toolPath finds a program of the system; where it cannot be had the test is skipped.
func (s *site) toolPath(name string) string {
	s.t.Helper()
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err != nil {
			path, err = exec.LookPath(filepath.Join(dir, name))
		}
	}
	if err != nil {
		s.t.Skipf("%s is not installed", name)
	}
	return path
}

// tool runs a program of the system, which the kernel may refuse.
func (s *site) tool(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(s.toolPath(name), args...).CombinedOutput()
	if err != nil {
		s.t.Skipf("the kernel refuses %s %q: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// ext4 mounts an ext4 file system of some MiB.
func (s *site) ext4(name string, size int64) {
	s.t.Helper()
	if os.Getuid() != 0 {
		s.t.Skip("the kernel refuses a disk of its own: only root may mount")
	}
	image := s.path(name + ".img")
	s.write(name+".img", "")
	if err := os.Truncate(image, size<<20); err != nil {
		s.t.Fatal(err)
	}
	s.tool("mkfs.ext4", "-q", "-F", image)
	if err := os.MkdirAll(s.path(name), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := s.mountImage(name); err != nil {
		s.t.Skipf("the kernel refuses a disk of its own: %v", err)
	}
	s.t.Cleanup(func() {
		if err := syscall.Unmount(s.path(name), syscall.MNT_DETACH); err != nil {
			s.t.Error(err)
		}
	})
}

// mountImage mounts the image of a file system. Its device ends with the last use of the
// mount: its number may be that of another test by then.
func (s *site) mountImage(name string) error {
	s.t.Helper()
	device := s.tool("losetup", "--find", "--show", s.path(name+".img"))
	err := syscall.Mount(device, s.path(name), "ext4", 0, "errors=remount-ro")
	s.tool("losetup", "-d", device)
	return err
}

// freeze has every write to a disk hang until the function it returns is called,
// at the latest at the end of the test: a process that hangs so cannot be killed.
func (s *site) freeze(name string) (thaw func()) {
	s.t.Helper()
	tool := s.toolPath("fsfreeze")
	s.tool("fsfreeze", "--freeze", s.path(name))
	frozen := true
	thaw = func() {
		if frozen {
			frozen = false
			_ = exec.Command(tool, "--unfreeze", s.path(name)).Run()
		}
	}
	s.t.Cleanup(thaw)
	return thaw
}

// fault is what strace does to the system calls of a process.
type fault struct {
	s     *site
	cmd   *exec.Cmd
	path  string
	ended chan struct{}
}

// inject has calls of a running process fail or hang as strace's -e inject says,
// where they touch one of the paths; none: wherever they do.
func (p *process) inject(what string, paths ...string) *fault {
	s := p.site
	s.t.Helper()
	calls, _, _ := strings.Cut(what, ":")
	f := &fault{s: s, path: s.path(fmt.Sprintf("strace.%d", time.Now().UnixNano())), ended: make(chan struct{})}
	args := []string{"-f", "-y", "-o", f.path, "-p", fmt.Sprint(p.cmd.Process.Pid), "-e", "trace=" + calls, "-e", "inject=" + what}
	for _, path := range paths {
		args = append(args, "-P", path)
	}
	f.cmd = exec.Command(s.toolPath("strace"), args...)
	said := newLines(s.t)
	f.cmd.Stderr = said.in
	if err := f.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	said.follow()
	// Started here, ended by the end of strace, awaited by stop.
	go func() {
		defer close(f.ended)
		_ = f.cmd.Wait() // it ends by the signal that stop sends
	}()
	s.t.Cleanup(f.stop)
	late := time.After(deadline)
	for {
		_, more := said.seen()
		text := said.text()
		if regexp.MustCompile(`Process \d+ attached`).MatchString(text) {
			return f
		}
		select {
		case <-more:
		case <-f.ended:
			s.t.Skipf("the kernel refuses to trace a process: %s", text)
		case <-late:
			s.t.Fatalf("strace does not begin: %s", text)
		}
	}
}

// stop lets the process go on as it likes.
func (f *fault) stop() {
	_ = f.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-f.ended:
	case <-time.After(deadline): // it waits for a process that it delays
		_ = f.cmd.Process.Kill()
		<-f.ended
	}
}

// lines are the calls that were injected, or all.
func (f *fault) lines(injected bool) (out []string) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		f.s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !injected || strings.Contains(line, "(INJECTED)") {
			out = append(out, line)
		}
	}
	return out
}

// segments are the paths that a store may give its segments, so that a fault can
// be told them before they are there.
func (s *site) segments(store string) (paths []string) {
	for n := range 64 {
		path := fmt.Sprintf("%s/%016x.seg", s.path(store), n)
		paths = append(paths, path, path+".tmp")
	}
	return paths
}

// awaitMetric waits until a metric has a value.
func (p *process) awaitMetric(name string, want float64) {
	p.t.Helper()
	ctx, cancel := p.site.waiting()
	defer cancel()
	got := p.metric(name)
	for ; got != want && ctx.Err() == nil; got = p.metric(name) {
	}
	if got != want {
		p.t.Fatalf("%s is %v, want %v", name, got, want)
	}
}

// awaitReady waits until /readyz answers with a code and a text.
func (p *process) awaitReady(want int, says string) {
	p.t.Helper()
	ctx, cancel := p.site.waiting()
	defer cancel()
	code, text := p.mustGet("/readyz")
	for ; (code != want || !strings.Contains(text, says)) && ctx.Err() == nil; code, text = p.mustGet("/readyz") {
	}
	if code != want || !strings.Contains(text, says) {
		p.t.Fatalf("/readyz: %d %q, want %d %q", code, text, want, says)
	}
}

// awaitSafe waits until nothing of an input is under way or spooled.
func (p *process) awaitSafe(input string) account {
	p.t.Helper()
	var last account
	p.awaitBooks(input, func(a account) bool {
		last = a
		return a.pending == 0 && a.spooled == 0 && a.read+a.restored > 0
	})
	return last
}

// wantNothingAgain expects that a next run has nothing to send.
func (s *site) wantNothingAgain(config string) {
	s.t.Helper()
	requests := s.server.Totals().Requests
	s.once(config, 0)
	if again := s.server.Totals().Requests - requests; again != 0 {
		s.t.Errorf("the next run made %d requests", again)
	}
}

const (
	spoolFails   = "spool write failed: unsent records stay in memory or in their source files"
	spoolIsBack  = "spool writes succeed again"
	journalBack  = "journal writes succeed again"
	stateUnkept  = "state was not saved: records sent since the last successful write may be sent again after the next start"
	diskIsSilent = "state_dir does not respond, startup is waiting for its disk"
)
