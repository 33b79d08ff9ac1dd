package tail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"kusto-agent/internal/record"
)

// folders remembers which files are in folders: those of thousands that were renamed
// together are found at the cost of one look at theirs. For any goroutine.
type folders struct {
	mu   sync.Mutex
	seen map[string]*folder
}

// folder is one as it was when it was looked at.
type folder struct {
	status
	at    time.Time           // before the look
	nodes map[uint64][]string // names of files by inode
}

// coarse is how far the clock of a file system may be behind: a tick of the kernel.
const coarse = 10 * time.Millisecond

// names are those of a file in a folder, by its inode alone. The result is only read.
func (x *folders) names(dir string, ino uint64) []string {
	st, err := statPath(dir)
	if err != nil {
		return nil
	}
	x.mu.Lock()
	f := x.seen[dir]
	x.mu.Unlock()
	if f == nil || f.node != st.node || f.mtime != st.mtime || f.at.UnixNano()-f.mtime < int64(coarse) {
		if f, err = lookInto(dir, st); err != nil {
			return nil // it may be let in another time
		}
		x.mu.Lock()
		if x.seen == nil {
			x.seen = make(map[string]*folder)
		}
		x.seen[dir] = f
		x.mu.Unlock()
	}
	return f.nodes[ino]
}

// forget gives back the memory.
func (x *folders) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.seen)
}

func lookInto(dir string, st status) (*folder, error) {
	f := &folder{status: st, at: time.Now(), nodes: make(map[uint64][]string)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone since
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			f.nodes[s.Ino] = append(f.nodes[s.Ino], e.Name())
		}
	}
	return f, nil
}

// shut is why the folders where a file should be cannot be listed now, so that it may be
// in one of them; nil: they were, or are not there.
func shut(info record.FileInfo) error {
	for _, was := range info.Paths() {
		if _, err := os.ReadDir(filepath.Dir(was)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// findNode looks for a file at its last path, where that led, and in their folders.
func (x *folders) findNode(info record.FileInfo) (path string, ok bool) {
	is := func(path string) bool {
		st, err := statPath(path)
		return err == nil && st.regular && st.ino == info.Inode && st.birth == info.Birth
	}
	for _, was := range info.Paths() {
		if is(was) {
			return was, true
		}
	}
	for _, was := range info.Paths() {
		dir, _ := filepath.Split(was)
		for _, name := range x.names(dir, info.Inode) {
			if is(dir + name) {
				return dir + name, true
			}
		}
	}
	return "", false
}

// leads is where a path leads through links.
func leads(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// elsewhere is what is remembered of where a file really is, beside the path it is
// known at: nothing, if that is in the same folder.
func elsewhere(real, path string) string {
	if filepath.Dir(real) == filepath.Dir(path) {
		return ""
	}
	return real
}
