package finder

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kusto-agent/tail/internal/inode"

	"golang.org/x/sys/unix"
)

// above watches the names by which folders are reached: that of each folder on the way,
// and of each link. Of the folders these names are in it asks for changes of names alone,
// and not for writes, as those may be /tmp or /var/log: fsnotify cannot ask for less.
type above struct {
	news chan<- struct{} // told when one of the names has changed
	fd   int             // of f, which owns it
	f    *os.File
	over sync.WaitGroup // the goroutine that reads

	dirs  map[string]aboveDir // by path; of who calls follow
	names atomic.Pointer[map[int32]map[string]bool]
}

// aboveDir is a folder that is watched because of names in it.
type aboveDir struct {
	node inode.Node
	wd   int32
}

// newAbove returns a watch of no names yet, with an inotify instance of its own. It sends to news
// when a watched name has changed. close ends its goroutine.
func newAbove(news chan<- struct{}) (*above, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	a := &above{news: news, fd: fd, f: os.NewFile(uintptr(fd), "inotify"), dirs: make(map[string]aboveDir)}
	a.names.Store(&map[int32]map[string]bool{})
	a.over.Go(a.read)
	return a, nil
}

func (a *above) close() {
	a.f.Close()
	a.over.Wait()
}

// follow watches the names on the paths of these folders: their links and the folders above them.
// It leaves out folders for which heard returns true, because they are watched otherwise, and ends
// the watches of earlier calls that are not needed any more. added says that some were not watched
// before, so that earlier changes in them may have been missed.
func (a *above) follow(folders map[string]bool, heard func(dir string) bool) (added bool) {
	const mask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	wanted := make(map[string]map[string]bool)
	r := resolver{readlink: os.Readlink, met: make(map[string]bool), visit: func(dir, name string) {
		if wanted[dir] == nil {
			wanted[dir] = make(map[string]bool)
		}
		wanted[dir][name] = true
	}}
	for dir := range folders {
		r.resolve(dir)
	}
	names := make(map[int32]map[string]bool)
	dirs := make(map[string]aboveDir)
	used := make(map[int32]bool)
	for dir, of := range wanted {
		e, err := inode.At(dir)
		if err != nil || !e.IsDir() || heard(dir) {
			continue // a missing folder is noticed when its parent folder changes
		}
		was, ok := a.dirs[dir]
		if !ok || was.node != e.Node {
			wd, err := unix.InotifyAddWatch(a.fd, dir, mask)
			if err != nil {
				continue // periodic scans find the changes
			}
			was, added = aboveDir{e.Node, int32(wd)}, true
		}
		dirs[dir], used[was.wd] = was, true
		if names[was.wd] == nil {
			names[was.wd] = of
		} else {
			for name := range of {
				names[was.wd][name] = true
			}
		}
	}
	for _, was := range a.dirs {
		if !used[was.wd] {
			_, _ = unix.InotifyRmWatch(a.fd, uint32(was.wd)) // gone already, maybe
			used[was.wd] = true
		}
	}
	a.dirs = dirs
	a.names.Store(&names)
	return added
}

// gatherNames is how long events gather before they are read again: others may make and
// remove names all the time in the same folders.
const gatherNames = 50 * time.Millisecond

// read sends to news when watched names have changed, until the watch is closed. After events about
// other names it pauses, since they may come all the time.
func (a *above) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := a.f.Read(buf)
		if err != nil {
			return
		}
		if a.concerns(buf[:n]) {
			select {
			case a.news <- struct{}{}:
			default:
			}
			continue
		}
		time.Sleep(gatherNames)
	}
}

// concerns reports whether the events of inotify are about names that are watched, or say that
// events or a watch were lost.
func (a *above) concerns(events []byte) bool {
	names := *a.names.Load()
	for e, name := range eventsIn(events) {
		if e.Mask&(unix.IN_Q_OVERFLOW|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0 || names[e.Wd][name] {
			return true
		}
	}
	return false
}

// mostHops is how many links are followed on the way to one folder, as the kernel has it.
const mostHops = 40

// resolver goes the way of the kernel to folders, through links, and calls visit with
// each name on it and the folder it is looked up in.
type resolver struct {
	readlink func(path string) (string, error)
	visit    func(dir, name string)
	met      map[string]bool // paths that are no links
}

// resolve calls visit with each name on the way to a folder, and the folder in which the name is
// looked up. It follows links as the kernel does. A name that does not exist counts as a folder.
func (r *resolver) resolve(path string) {
	at, rest, hops := "/", split(path), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		r.visit(at, name)
		next := filepath.Join(at, name)
		if r.met[next] {
			at = next
			continue
		}
		to, err := r.readlink(next)
		if err != nil { // it is no link
			r.met[next] = true
			at = next
			continue
		}
		if hops++; hops > mostHops {
			return
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(split(to), rest...)
	}
}

// split cuts a path into its names.
func split(path string) []string {
	return strings.FieldsFunc(filepath.Clean(path), func(c rune) bool { return c == '/' })
}
