// Package statedir has a state folder belong to one process alone: no other agent has it,
// no other user can write to it, and its name survives a power cut where the disk lets it.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/exit"
)

// ErrInUse is returned by Lock for a folder that another process has.
var ErrInUse = errors.New("in use by another agent")

// lockName is the file in state_dir that says who has it, for people.
const lockName = "LOCK"

// Locked is a state_dir that belongs to this process, until Close.
type Locked struct {
	dir string
	log *slog.Logger

	again sync.Mutex // one Again at a time; held while a disk may hang

	mu     sync.Mutex
	lock   durable.Lock
	closed bool
}

// Lock creates the folder dir, the state_dir, if it is missing, and locks it for this process until
// the caller closes the result. It fails if another agent has it (ErrInUse) or if other users may write to it.
// Its errors have exit codes.
func Lock(dir string, log *slog.Logger) (*Locked, error) {
	lock, err := lockDir(dir, log)
	if err != nil {
		return nil, err
	}
	return &Locked{dir: dir, log: log, lock: lock}, nil
}

// Again makes sure that the folder which has the name of the state_dir now is the one that is locked.
// If somebody removed or moved that, the folder in its place is made and locked as Lock does it, with
// the same errors.
func (l *Locked) Again() error {
	l.again.Lock()
	defer l.again.Unlock()
	l.mu.Lock()
	held := l.lock
	l.mu.Unlock()
	if held.Holds(l.dir) {
		return nil
	}
	lock, err := lockDir(l.dir, l.log)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = lock.Close() // Close did not know of it
		return fs.ErrClosed
	}
	_ = l.lock.Close() // of a folder that nobody finds any more
	l.lock = lock
	return nil
}

// Close ends the lock. It does not wait for an Again that a disk holds up.
func (l *Locked) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.lock.Close()
}

// lockDir does what Lock says.
func lockDir(dir string, log *slog.Logger) (_ durable.Lock, err error) {
	if err := makeStateDir(filepath.Clean(dir), log); err != nil {
		return nil, err
	}
	// The folder itself is locked: it is there on a disk that takes no new file.
	lock, err := durable.OS.Lock(dir)
	if err != nil && !errors.Is(err, durable.ErrLocked) {
		return nil, exit.With(exit.Failed, fmt.Errorf("lock state_dir %q: %w; run as the user it belongs to, or set another state_dir", dir, err))
	}
	if err != nil {
		return nil, exit.With(exit.Failed, fmt.Errorf("state_dir %q is %w%s; stop that one, or give this one a state_dir of its own", dir, ErrInUse, pidIn(filepath.Join(dir, lockName))))
	}
	defer func() {
		if err != nil {
			_ = lock.Close() // the error to return is err
		}
	}()
	folder, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, exit.With(exit.Failed, fmt.Errorf("open state_dir: %w; run as the user it belongs to, or set another state_dir", err))
	}
	defer folder.Close()
	if err := private(folder, dir); err != nil {
		return nil, err
	}
	writePid(folder)
	return lock, nil
}

// Disk is Disk for what lies in this state_dir: before a file or a folder is made, Again is called, and
// after an error nothing is made. So nothing gets into a folder that another process has.
func (l *Locked) Disk() durable.FS { return lockedFS{FS: Disk(l.dir), lock: l} }

type lockedFS struct {
	durable.FS
	lock *Locked
}

func (d lockedFS) Open(name string, flag int) (durable.File, error) {
	if flag&os.O_CREATE != 0 {
		if err := d.lock.Again(); err != nil {
			return nil, err
		}
	}
	return d.FS.Open(name, flag)
}

func (d lockedFS) Mkdir(dir string) error {
	if err := d.lock.Again(); err != nil {
		return err
	}
	return d.FS.Mkdir(dir)
}

// Disk returns the file system through which this process keeps the state in dir. Where root acts in the
// state_dir of another user, as a command does for a service that does not run, what it makes belongs to
// that user: the service could not start on files of root.
func Disk(dir string) durable.FS {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || !isOfAnother(&st) {
		return durable.OS
	}
	return durable.Owned(int(st.Uid), int(st.Gid))
}

// isOfAnother reports whether this process is root and the folder st is not root's.
func isOfAnother(folder *unix.Stat_t) bool { return os.Geteuid() == 0 && folder.Uid != 0 }

// makeStateDir creates the folder if it is missing, and makes its name durable: otherwise a power
// cut could remove it with all its content. If the disk cannot promise that, makeStateDir logs it
// and the agent continues.
func makeStateDir(dir string, log *slog.Logger) error {
	var above []string // the folders in which a missing one is created
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Lstat(up); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = append(above, filepath.Dir(up))
	}
	if err := os.MkdirAll(dir, 0o700); errors.Is(err, syscall.ENOTDIR) {
		return exit.With(exit.Config, fmt.Errorf("make state_dir: %w; set state_dir to a folder, or remove the file that is in its place", err))
	} else if err != nil {
		return exit.With(exit.Failed, fmt.Errorf("make state_dir: %w; run as a user who may write there, or set state_dir", err))
	}
	for _, folder := range above {
		if err := durable.OS.SyncDir(folder); err != nil {
			log.Warn("state_dir was created but not synced; the agent continues, but a power failure may remove the folder", "folder", dir, "err", err, "fix", "check the disk of state_dir: is it full, read-only or failing")
			break
		}
	}
	return nil
}

// writePid writes the process id to the file LOCK in the folder. Another agent that finds the
// folder locked shows it in its error; the lock itself does not depend on the file. If the file
// cannot be written, or may be anything else than a file of this process or of who has the folder,
// nothing is written.
func writePid(folder *os.File) {
	// Not by way of os.Root, which follows a link that leads to a file in the folder.
	fd, err := unix.Openat(int(folder.Fd()), lockName, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), lockName)
	defer f.Close()
	var in, st unix.Stat_t
	if unix.Fstat(int(folder.Fd()), &in) != nil || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	own := int(st.Uid) == os.Geteuid()
	if st.Nlink != 1 || !own && st.Uid != in.Uid { // with another name it could be any file
		return
	}
	if f.Truncate(0) != nil {
		return
	}
	_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	if own && isOfAnother(&in) {
		_ = f.Chown(int(in.Uid), int(in.Gid)) // who has the folder writes it the next time
	}
}

// private returns an error, with exit code 78, if other users than the agent's may write to
// state_dir. folder is the open state_dir, dir its path for the message. A failure to find out is
// an error too.
func private(folder *os.File, dir string) error {
	st, err := folder.Stat()
	if err != nil {
		return exit.With(exit.Failed, fmt.Errorf("look at state_dir: %w", err))
	}
	gid := -1
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		gid = int(sys.Gid)
	}
	groups, err := os.Getgroups()
	if err != nil {
		return exit.With(exit.Failed, fmt.Errorf("look up the groups of the agent: %w", err))
	}
	who, how := Writers(st.Mode(), gid, append(groups, os.Getegid()))
	if who == "" {
		return nil
	}
	return exit.With(exit.Config, fmt.Errorf("state_dir %q may be written by %s (%v): they could have the agent overwrite files, or lose its state; chmod %s %s, or set state_dir to a folder in it, which the agent makes for itself",
		dir, who, st.Mode(), how, dir))
}

// pidIn returns " (pid N)" with the number in the lock file at path, for a message; "" if the
// process that has the lock has not written it yet.
func pidIn(path string) string {
	text, _ := readRegular(path)
	if pid, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
		return fmt.Sprintf(" (pid %d)", pid)
	}
	return ""
}

// readRegular returns the first 32 bytes of the file at path, enough for a process id. It fails if
// the file is a link, and does not block on a FIFO.
func readRegular(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.Join(err, fs.ErrInvalid)
	}
	var head [32]byte
	n, _ := f.Read(head[:]) // 0 for an empty file, with io.EOF
	return string(head[:n]), nil
}
