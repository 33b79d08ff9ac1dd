package finder

import (
	"errors"
	"iter"
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inotify hears of changes in folders. Between two reads its events gather in the kernel without waking
// the process. Were its descriptor among those that the Go runtime polls, each event about another file
// than the last one would wake it, read or not: the runtime asks for edges. So it is in an epoll instance
// of its own, which tells once that there is something to read, and again only after arm.
type inotify struct {
	fd    int
	epoll int           // the epoll instance
	gate  *os.File      // of epoll, which it owns
	ready chan struct{} // told by gate
	over  sync.WaitGroup
	buf   [64 << 10]byte // of read

	mu    sync.Mutex
	paths map[int32]string // of watched folders
	wds   map[string]int32 // the same by path
	moved [8]move          // the last ones
	next  int              // in moved
}

// move is the first half of a rename, which the kernel tells before the second one.
type move struct {
	cookie uint32
	from   string
}

// raw is an event: what the kernel says of a name in a watched folder, or of the folder itself.
type raw struct {
	mask uint32
	path string
	from string // the path before, of a name that was moved here; empty: it is not known
}

func (e *raw) has(mask uint32) bool { return e.mask&mask != 0 }

// errOverflow says that the kernel has dropped events.
var errOverflow = errors.New("event queue overflow")

// heardOf is what the kernel is asked to tell of folders.
const heardOf = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_DELETE_SELF |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MOVE_SELF

// newInotify returns an instance that watches nothing yet, and is not armed. close ends its goroutine.
func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	gate, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	err = unix.EpollCtl(gate, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLONESHOT})
	if err == nil {
		err = unix.SetNonblock(gate, true) // so that the runtime polls it
	}
	if err != nil {
		unix.Close(gate)
		unix.Close(fd)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	n := &inotify{
		fd: fd, epoll: gate, gate: os.NewFile(uintptr(gate), "epoll"), ready: make(chan struct{}, 1),
		paths: make(map[int32]string), wds: make(map[string]int32),
	}
	n.over.Go(n.wait)
	return n, nil
}

func (n *inotify) close() {
	n.gate.Close()
	n.over.Wait()
	unix.Close(n.fd)
}

// wait tells ready each time that there is something to read after arm, until the instance is closed.
func (n *inotify) wait() {
	conn, err := n.gate.SyscallConn()
	if err != nil {
		return
	}
	told := func(fd uintptr) bool {
		var one [1]unix.EpollEvent
		some, err := unix.EpollWait(int(fd), one[:], 0)
		return some > 0 && err == nil
	}
	for conn.Read(told) == nil {
		select {
		case n.ready <- struct{}{}:
		default: // it was armed twice, and is read anyway
		}
	}
}

// arm has ready told once there is something to read.
func (n *inotify) arm() {
	// No error is possible for descriptors that are there.
	_ = unix.EpollCtl(n.epoll, unix.EPOLL_CTL_MOD, n.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT})
}

// watch watches the folder at a path, or ends the watch of the one that was watched by it (on is false). If the folder
// is watched by another path, that watch ends, and read tells of its end as of a folder that is gone: links change, and
// who watches finds out where both lead. An error is one of watching.
func (n *inotify) watch(dir string, on bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var wd int
	var err error
	if on {
		wd, err = unix.InotifyAddWatch(n.fd, dir, heardOf)
		if other, ok := n.paths[int32(wd)]; err == nil && ok && other != dir {
			_, _ = unix.InotifyRmWatch(n.fd, uint32(wd))
			wd, err = unix.InotifyAddWatch(n.fd, dir, heardOf)
		}
		if err != nil {
			return err
		}
	}
	if before, ok := n.wds[dir]; ok && before != int32(wd) {
		n.drop(before)
		_, _ = unix.InotifyRmWatch(n.fd, uint32(before)) // gone already, maybe
	}
	if on {
		n.paths[int32(wd)], n.wds[dir] = dir, int32(wd)
	}
	return nil
}

// drop forgets a watch. The caller holds mu.
func (n *inotify) drop(wd int32) {
	if dir, ok := n.paths[wd]; ok {
		delete(n.paths, wd)
		delete(n.wds, dir)
	}
}

// mostReads is after how many reads read returns though events may come faster than they are heard: the
// kernel keeps as many, unless it is told otherwise, and who reads has other things to look at.
const mostReads = 8

// read calls hear with each event that there is, in their order, up to a limit. The error is errOverflow if
// the kernel has dropped some. It is for one goroutine.
func (n *inotify) read(hear func(raw)) error {
	var lost error
	for range mostReads {
		got, err := unix.Read(n.fd, n.buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return lost
		case err != nil:
			return errors.Join(lost, os.NewSyscallError("read", err))
		}
		for e, name := range eventsIn(n.buf[:got]) {
			if e.Mask&unix.IN_Q_OVERFLOW != 0 {
				lost = errOverflow
			} else if heard, ok := n.meaning(e, name); ok {
				hear(heard)
			}
		}
		if got < len(n.buf)/2 { // there was no more
			break
		}
	}
	return lost
}

// eventsIn yields the events that a read of an inotify instance returned, with their names; empty: an event is about
// the folder itself.
func eventsIn(buf []byte) iter.Seq2[*unix.InotifyEvent, string] {
	return func(yield func(*unix.InotifyEvent, string) bool) {
		for len(buf) >= unix.SizeofInotifyEvent {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
			end := min(unix.SizeofInotifyEvent+int(e.Len), len(buf))
			name := strings.TrimRight(string(buf[unix.SizeofInotifyEvent:end]), "\x00")
			buf = buf[end:]
			if !yield(e, name) {
				return
			}
		}
	}
}

// meaning is what an event says, with its name. It is not ok if the event is about a folder that is not
// watched any more. That a folder is gone may be told twice, by the one above too: that may be watched only since.
func (n *inotify) meaning(e *unix.InotifyEvent, name string) (heard raw, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dir, ok := n.paths[e.Wd]
	if !ok {
		return raw{}, false
	}
	heard = raw{mask: e.Mask, path: dir}
	if name != "" {
		heard.path = strings.TrimSuffix(dir, "/") + "/" + name
	}
	switch {
	case e.Mask&unix.IN_MOVED_FROM != 0:
		n.moved[n.next] = move{e.Cookie, heard.path}
		n.next = (n.next + 1) % len(n.moved)
	case e.Mask&unix.IN_MOVED_TO != 0:
		for _, m := range n.moved {
			if m.cookie == e.Cookie {
				heard.from = m.from
			}
		}
	case e.Mask&(unix.IN_IGNORED|unix.IN_UNMOUNT) != 0: // and nothing else has told so
		n.drop(e.Wd)
		heard.mask = unix.IN_DELETE_SELF
	case e.Mask&unix.IN_DELETE_SELF != 0:
		n.drop(e.Wd)
	case e.Mask&unix.IN_MOVE_SELF != 0: // its path is another now
		n.drop(e.Wd)
		_, _ = unix.InotifyRmWatch(n.fd, uint32(e.Wd))
	}
	return heard, true
}
