// Package nest boots a real systemd for a test, in namespaces and on a root of its
// own: what a test installs, starts or breaks there is seen nowhere else and is gone
// with the test.
package nest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/async"
)

const (
	// Manager is the systemd that is booted.
	Manager = "/lib/systemd/systemd"
	// role is the variable that makes the test binary something else than the
	// test: the init of the nest, or the part of the test that runs in it.
	role = "KUSTO_AGENT_NEST"

	// Deadline is when a test gives up on another process. It decides nothing but when a
	// failure is told: on a busy machine a step of dpkg takes minutes.
	Deadline = 3 * time.Minute
	// Look is the time between looks at what another process does.
	Look = 20 * time.Millisecond
)

// Main is the body of the TestMain of a package that has nests: the test binary is
// the init of the nest too.
func Main(m *testing.M) {
	if os.Getenv(role) == "init" {
		becomeInit(os.Args[1], os.Args[2])
	}
	os.Exit(m.Run())
}

// Inside says that this process is the part of the test that runs in the nest.
func Inside() bool { return os.Getenv(role) == "inside" }

// Nest is a systemd with namespaces and a root of its own.
type Nest struct {
	t     *testing.T
	init  *exec.Cmd
	said  bytes.Buffer    // by the init before it was systemd; read it after ended
	ended <-chan struct{} // closed when init is gone
}

// New boots systemd, with what is in the folder brought in /nest: test, which is this
// binary, and units, among them nest.target, which is all that is started. It is torn
// down at the end of the test, and dies with the test binary. Where the kernel
// does not allow it, the test is skipped.
func New(t *testing.T, brought string) *Nest {
	t.Helper()
	n := &Nest{t: t}
	group := newCgroup(t)
	n.init = exec.Command(Binary(t), t.TempDir(), brought)
	n.init.Env = []string{role + "=init"}
	n.init.Stderr = &n.said
	n.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:   syscall.SIGKILL,
		UseCgroupFD: true,
		CgroupFD:    int(group.Fd()),
	}
	granted(t, "namespaces", n.init.Start())
	// Ended by the death of init, awaited by close.
	n.ended = async.Start(func() { _ = n.init.Wait() }) // how it ended is read from its state
	t.Cleanup(n.close)
	n.awaitBoot()
	return n
}

// granted ends the test if err is an error. It skips it where the kernel refuses what.
func granted(t *testing.T, what string, err error) {
	t.Helper()
	if refused(err) {
		t.Skipf("the kernel refuses %s: %v", what, err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// Binary is the path of the test binary.
func Binary(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// close kills all that runs in the nest: the kernel takes the namespace with its
// init.
func (n *Nest) close() {
	_ = n.init.Process.Kill() // it may have ended by itself
	<-n.ended
}

// awaitBoot returns when systemd has started all that it is to start by itself.
func (n *Nest) awaitBoot() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	tick := time.NewTicker(Look)
	defer tick.Stop()
	var out []byte
	for {
		select {
		case <-n.ended:
			if n.init.ProcessState.ExitCode() == exitRefused {
				n.t.Skipf("the kernel refuses a root for systemd: %s", n.said.String())
			}
			n.t.Fatalf("systemd ended: %v\n%s", n.init.ProcessState, n.said.String())
		case <-ctx.Done():
			n.t.Fatalf("systemd does not come up: %s", out)
		case <-tick.C:
		}
		var err error
		if out, err = n.Command(ctx, "systemctl", "is-active", "nest.target").CombinedOutput(); err == nil {
			return
		}
	}
}

// Command is one that runs in the nest, as its root.
func (n *Nest) Command(ctx context.Context, args ...string) *exec.Cmd {
	into := []string{"--target", strconv.Itoa(n.init.Process.Pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(into, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", role + "=inside",
		"GORACE=atexit_sleep_ms=0"} // the race detector waits a second before it ends a process
	cmd.Dir = "/"
	return cmd
}

// Test runs one subtest of the test binary in the nest.
func (n *Nest) Test(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*Deadline)
	defer cancel()
	var pattern []string
	for part := range strings.SplitSeq(name, "/") {
		pattern = append(pattern, "^"+part+"$")
	}
	out, err := n.Command(ctx, "/nest/test", "-test.run="+strings.Join(pattern, "/"), "-test.v").CombinedOutput()
	if err == nil && bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
		return
	}
	said, _ := n.Command(context.Background(), "journalctl", "--no-pager", "--lines=150", "--output=short-precise").CombinedOutput()
	t.Errorf("in the nest: %v\n%s\njournal:\n%s", err, out, said)
}

// newCgroup makes a control group for the nest alone, below the one of this
// process, and removes it with all that systemd made in it at the end of the
// test. It is reached by a mount that no path leads to.
func newCgroup(t *testing.T) *os.File {
	t.Helper()
	tree, err := cgroupTree(t)
	granted(t, "a cgroup tree", err)
	path := filepath.Join(tree, ownCgroup(t), groupName+strconv.Itoa(os.Getpid()))
	removeStale(filepath.Dir(path))
	granted(t, "a cgroup", os.Mkdir(path, 0o755))
	t.Cleanup(func() { removeCgroup(t, path) })
	group, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group.Close() })
	return group
}

// cgroupTree mounts the unified cgroups until the end of the test and returns a
// path to their root that only this process can walk.
func cgroupTree(t *testing.T) (string, error) {
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("open cgroup2: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return "", fmt.Errorf("create cgroup2: %w", err)
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("mount cgroup2: %w", err)
	}
	t.Cleanup(func() { unix.Close(tree) })
	return fmt.Sprintf("/proc/self/fd/%d", tree), nil
}

// ownCgroup is the unified group of this process.
func ownCgroup(t *testing.T) string {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(groups)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	t.Skip("the kernel refuses unified cgroups")
	return ""
}

const groupName = "kusto-agent-test-" // and the pid of the test

// removeStale removes the groups of tests that were killed: they hold nothing
// any more, and nobody else would.
func removeStale(in string) {
	all, err := os.ReadDir(in)
	if err != nil {
		return
	}
	for _, e := range all {
		pid, ours := strings.CutPrefix(e.Name(), groupName)
		n, err := strconv.Atoi(pid)
		if ours && err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = removeEmpty(filepath.Join(in, e.Name())) // the next test tries again
		}
	}
}

// removeCgroup removes a group and those below it, as soon as the last process
// is out of them.
func removeCgroup(t *testing.T, path string) {
	end := time.Now().Add(Deadline)
	tick := time.NewTicker(Look)
	defer tick.Stop()
	for {
		err := removeEmpty(path)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Errorf("the cgroup of the nest stays: %v", err)
			return
		}
		<-tick.C
	}
}

func removeEmpty(path string) error {
	below, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range below {
		if e.IsDir() {
			if err := removeEmpty(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(path)
}
