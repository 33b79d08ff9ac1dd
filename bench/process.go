package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Main must be called first by every program that measures. In the processes
// that the package starts of that program again it plays their role and exits;
// otherwise it returns.
func Main() {
	role := strings.Split(os.Getenv(roleVariable), " ")
	var err error
	switch role[0] {
	case "":
		return
	case "sink":
		err = runSink()
	case "limit":
		workers, _ := strconv.Atoi(role[1])
		err = runLimit(role[2], workers, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

const roleVariable = "KUSTO_AGENT_BENCH_ROLE"

// self is a command that plays a role.
func self(role string, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd, nil
}

// process is one that is watched while it runs.
type process struct {
	cmd   *exec.Cmd
	began time.Time
	took  time.Duration // once it has ended
	words bytes.Buffer  // stderr
	peak  atomic.Int64  // bytes, VmHWM when last seen
	ended chan struct{}
	seen  chan struct{} // closed when watching is over
	err   error
}

func begin(cmd *exec.Cmd) (*process, error) {
	p := &process{}
	return p, p.start(cmd)
}

// start runs a command, also after another one has ended.
func (p *process) start(cmd *exec.Cmd) error {
	p.cmd, p.ended, p.seen = cmd, make(chan struct{}), make(chan struct{})
	p.peak.Store(0)
	cmd.Stderr = &p.words
	p.began = time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	// Both end with the process and are awaited by wait.
	go p.watch()
	go func() {
		p.err = cmd.Wait()
		p.took = time.Since(p.began)
		close(p.ended)
	}()
	return nil
}

// wait returns when the process has ended.
func (p *process) wait() error {
	<-p.ended
	<-p.seen
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.cmd.Path, p.err, p.words.Bytes())
	}
	return nil
}

// stop asks the process to end and waits for it.
func (p *process) stop() error {
	if p.cmd.Process == nil { // it could not be started
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.wait()
}

// watch keeps the high-water mark of resident memory. The kernel's account of
// a child that has ended would do, had it not begun as a copy of its parent.
func (p *process) watch() {
	defer close(p.seen)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if kb := p.status("VmHWM:"); kb > 0 {
			p.peak.Store(kb << 10)
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return
		}
	}
}

// status is a figure of /proc/PID/status, 0 if there is none.
func (p *process) status(key string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// cpu is what all threads of an ended process took, user and system.
func (p *process) cpu() time.Duration {
	u := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuNow is the same for one that runs, to a hundredth of a second.
func (p *process) cpuNow() time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	// The second field is the name in parentheses, which may hold spaces.
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Linux shows it
	return time.Duration(user+system) * tick
}
