package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"kusto-agent/internal/async"
)

// SocketName is that of the control socket in the state folder.
const SocketName = "agent.sock"

const (
	maxSocketPath = 107 // bytes of sun_path, but for the NUL at its end: unix(7)
	controlRetry  = 10 * time.Second
)

// Run serves the control socket in the state folder until ctx ends, and removes it then. If the
// socket cannot be made, fails or is removed, Run logs that once and tries again every c.retry (10 s).
// Only one Run may be active for a folder.
func (c *Control) Run(ctx context.Context) {
	told := false
	tried := sync.OnceFunc(func() { close(c.tried) })
	defer tried()
	for ctx.Err() == nil {
		ln, err := c.listenUntil(ctx)
		tried()
		if err == nil && ln != nil { // ln is nil if ctx has ended
			if told {
				c.o.Logger.Info("control socket works again: kusto-agent files and kusto-agent tap can be used")
			}
			told = false
			served, end := context.WithCancel(ctx)
			async.Start(func() { c.closeOnceRemoved(served, ln) }) // ends after end, when the disk answers
			err = c.serve(ctx, netutil.LimitListener(ln, maxConnections))
			end()
			if errors.Is(err, net.ErrClosed) {
				err = fmt.Errorf("%q was removed", c.path())
			}
			c.remove()
		}
		if err != nil && !told {
			told = true
			c.o.Logger.Warn("control socket unavailable: the commands \"kusto-agent files\" and \"kusto-agent tap\" do not work, everything else continues", "err", err,
				"fix", "check the disk of state_dir; the agent tries again by itself")
		} else if err != nil {
			c.o.Logger.Debug("control socket still unavailable", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.retry):
		}
	}
}

// closeOnceRemoved closes the listener once its socket has no name any more, so that nobody can reach
// it. It looks every c.retry (10 s), until ctx ends.
func (c *Control) closeOnceRemoved(ctx context.Context, ln net.Listener) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.retry):
		}
		if _, err := os.Lstat(c.path()); errors.Is(err, fs.ErrNotExist) {
			ln.Close()
			return
		}
	}
}

// Tried returns a channel that is closed once Run has made the socket, or has found that it cannot.
func (c *Control) Tried() <-chan struct{} { return c.tried }

// listenUntil makes the socket and returns its listener. If ctx ends before the disk answers, it
// returns nil and no error.
func (c *Control) listenUntil(ctx context.Context) (net.Listener, error) {
	var ln net.Listener
	var err error
	made := async.Start(func() { ln, err = c.listen() }) // ends when the disk answers, or with the process
	select {
	case <-made:
		return ln, err
	case <-ctx.Done():
		return nil, nil
	}
}

func (c *Control) path() string { return filepath.Join(c.o.Dir, SocketName) }

// listen makes the control socket and returns its listener. A socket that a killed agent has left
// is removed first. The mode is set before the socket gets its name, so that at no moment anybody
// but the owner can open it.
func (c *Control) listen() (net.Listener, error) {
	if st, err := os.Lstat(c.path()); err == nil && st.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("make control socket: %q is there and is no socket", c.path())
	}
	if err := os.Remove(c.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make control socket: %w", err)
	}
	addr, done, err := socketAddress(c.path())
	if err != nil {
		return nil, fmt.Errorf("make control socket: %w", err)
	}
	defer done()
	lc := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var refused error
		err := conn.Control(func(fd uintptr) { refused = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, refused)
	}}
	ln, err := lc.Listen(context.Background(), "unix", addr)
	if err != nil {
		return nil, fmt.Errorf("make control socket: %w", err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // remove does it: addr is not valid any more after done
	if err := c.checkMode(); err != nil {
		ln.Close()
		c.remove()
		return nil, err
	}
	return ln, nil
}

// checkMode returns an error if the mode of the socket lets others than the owner open it: a file
// system may not take over the mode that listen sets.
func (c *Control) checkMode() error {
	st, err := os.Lstat(c.path())
	if err != nil {
		return fmt.Errorf("look at control socket: %w", err)
	}
	if m := st.Mode().Perm(); m&^0o600 != 0 {
		return fmt.Errorf("make control socket: its mode is %v, want 0600", m)
	}
	return nil
}

// remove removes the socket from the state folder. If the disk does not answer within lastAnswers
// (2 s), remove returns; the next agent replaces a socket that stays.
func (c *Control) remove() {
	removed := async.Start(func() { _ = os.Remove(c.path()) }) // ends when the disk answers, or with the process
	select {
	case <-removed:
	case <-time.After(lastAnswers):
	}
}

// socketAddress returns an address with which the socket at path can be bound or dialled. If path
// is longer than the kernel allows for an address, the address goes through /proc/self/fd and an
// open descriptor of the folder, which the caller closes with done.
func socketAddress(path string) (addr string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, name := filepath.Split(path)
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + name, func() { _ = unix.Close(fd) }, nil
}
