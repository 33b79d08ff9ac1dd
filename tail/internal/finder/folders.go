package finder

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/rotation"
)

// Folders remembers which files are in folders: those of thousands that were renamed
// together are found at the cost of one look at theirs. For any goroutine.
type Folders struct {
	seen sync.Map // *folder by path
}

// folder is one as it was when it was looked at.
type folder struct {
	inode.Status
	at    time.Time           // before the look
	nodes map[uint64][]string // names of files by inode
	dirs  []string            // names of folders
}

// coarse is how far the clock of a file system may be behind: a tick of the kernel.
const coarse = 10 * time.Millisecond

// listing returns a folder as it is, by an earlier look if it has not changed since; nil: it cannot be
// listed. The caller only reads it.
func (x *Folders) listing(dir string) *folder {
	st, err := inode.At(dir)
	if err != nil {
		return nil
	}
	was, _ := x.seen.Load(dir)
	f, _ := was.(*folder)
	// A listing that was made right after the last change may miss another one with the same mtime.
	if f == nil || f.Node != st.Node || f.Mtime != st.Mtime || f.at.UnixNano()-f.Mtime < int64(coarse) {
		if f, err = lookInto(dir, st); err != nil {
			return nil // not stored, so the next call tries again
		}
		x.seen.Store(dir, f)
	}
	return f
}

// names returns the names of the files in a folder that have this inode; nil also if the folder cannot
// be listed. The caller only reads the slice.
func (x *Folders) names(dir string, ino uint64) []string {
	if f := x.listing(dir); f != nil {
		return f.nodes[ino]
	}
	return nil
}

// Forget empties the cache of listed folders, so that the next scan lists them again.
func (x *Folders) Forget() { x.seen.Clear() }

// lookInto returns a listing of the regular files of a folder, by inode, and of its folders. st is the entry of the
// folder, read before. The time in the listing is that before the folder was read.
func lookInto(dir string, st inode.Status) (*folder, error) {
	f := &folder{Status: st, at: time.Now(), nodes: make(map[uint64][]string)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			f.dirs = append(f.dirs, e.Name())
		}
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

// Shut returns why one of the folders of these paths cannot be listed; nil: all can, or do not
// exist. A file that was not found may still be in a folder that cannot be listed.
func (x *Folders) Shut(paths []string) error {
	for _, was := range paths {
		if err := x.shut(filepath.Dir(was)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// shut returns why a folder cannot be listed. One that has not changed since it was listed may be opened, and
// need not be read again.
func (x *Folders) shut(dir string) error {
	if x.listing(dir) == nil {
		_, err := os.ReadDir(dir)
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return f.Close()
}

// Find looks for a file at its old paths and in their folders, by its inode and birth. The
// device number does not matter, since it can change at a reboot.
func (x *Folders) Find(paths []string, n inode.Node) (path string, ok bool) {
	for _, was := range paths {
		if isAt(n, was) {
			return was, true
		}
	}
	for _, was := range paths {
		dir, _ := filepath.Split(was)
		for _, name := range x.names(dir, n.Ino) {
			if isAt(n, dir+name) {
				return dir + name, true
			}
		}
	}
	return "", false
}

// FindInfo looks for a file at its last path, where that led, and in their folders.
func (x *Folders) FindInfo(info record.FileInfo) (path string, ok bool) {
	return x.Find(info.Paths(), inode.Of(info))
}

// isAt reports whether a file is at a path.
func isAt(n inode.Node, path string) bool {
	e, err := inode.At(path)
	return err == nil && e.IsRegular() && e.SameIn(n)
}

// mostNear is how many folders are listed near one: there may be thousands beside that of a container.
const mostNear = 64

// near yields the folders beside dir and in it. A rotated file may have been moved to one in it, or dir
// may have been renamed.
func (x *Folders) near(dir string) iter.Seq[string] {
	dir = filepath.Clean(dir)
	return func(yield func(folder string) bool) {
		for _, up := range []string{dir, filepath.Dir(dir)} {
			f := x.listing(up)
			if f == nil {
				continue
			}
			for _, name := range f.dirs {
				if folder := filepath.Join(up, name); folder != dir && !yield(folder) {
					return
				}
			}
		}
	}
}

// Near returns the folders beside dir and in it, 64 at most: those to which rotation may move files.
func (x *Folders) Near(dir string) (all []string) {
	for folder := range x.near(dir) {
		if all = append(all, folder); len(all) == mostNear {
			break
		}
	}
	return all
}

// Around returns a folder with those that Near returns for it.
func (x *Folders) Around(dir string) []string { return append(x.Near(dir), filepath.Clean(dir)) }

// FindNear looks for the file n, which was at path, in the folders beside its folder and in it. It must
// have its old name or, in those that Near returns, one that begins like that. FindNear returns the
// path where the file is now.
func (x *Folders) FindNear(path string, n inode.Node) (at string, ok bool) {
	dir, base := filepath.Split(path)
	stem := rotation.Stem(base)
	i := 0
	for folder := range x.near(dir) {
		if at = filepath.Join(folder, base); isAt(n, at) {
			return at, true
		}
		if i++; stem == "" || i > mostNear {
			continue
		}
		for _, name := range x.names(folder, n.Ino) {
			if at = filepath.Join(folder, name); strings.HasPrefix(name, stem) && isAt(n, at) {
				return at, true
			}
		}
	}
	return "", false
}

// Leads returns the path with all links resolved, or the path as it is if that fails. A link leads to where its
// file was also if none is there just now, as between two steps of a rotation.
func Leads(path string) string {
	at := path
	for range mostHops {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return real
		}
		to, err := os.Readlink(at)
		if err != nil {
			break
		}
		at = beside(at, to)
	}
	if at != path {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
			return filepath.Join(dir, filepath.Base(at))
		}
	}
	return path
}

// beside is the path to which a link leads in one hop.
func beside(link, to string) string {
	if filepath.IsAbs(to) {
		return to
	}
	return filepath.Join(Leads(filepath.Dir(link)), to)
}

// Elsewhere returns real, the path of a file with links resolved, if that is another
// than path; otherwise it is empty.
func Elsewhere(real, path string) string {
	if real == path {
		return ""
	}
	return real
}

// Own is what belongs to the agent itself: its folders, by whatever path they are
// reached, and the files its log goes to. To read these would be to send what is
// said of the sending. It belongs to one goroutine.
type Own struct {
	dirs    []string
	files   map[inode.Node]bool
	folders map[inode.Node]bool
	known   map[string]bool // folders met in this scan, and whether they are in one of these
}

// NewOwn returns the set of all files in these folders, by whatever path, and of these open files, but
// for those that are not regular.
func NewOwn(folders []string, open []*os.File) *Own {
	all := &Own{dirs: folders, files: make(map[inode.Node]bool)}
	for _, f := range open {
		if st, err := inode.In(f); err == nil && st.IsRegular() {
			all.files[st.Node] = true
		}
	}
	return all
}

// Begin has to be called before each scan: it looks up the inodes of the agent's folders, which may
// have been created or moved since the last one, and forgets which other folders were found to lie
// in them.
func (o *Own) Begin() {
	o.folders, o.known = make(map[inode.Node]bool), make(map[string]bool)
	for _, dir := range o.dirs {
		if st, err := inode.At(dir); err == nil {
			o.folders[st.Node] = true
		}
	}
}

// Names reports whether a path shows that it lies in one of the agent's own folders. Links are not
// resolved: see Holds.
func (o *Own) Names(path string) bool {
	for _, dir := range o.dirs {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// Holds reports whether a file is the agent's although its path does not show it: a link
// or another mount leads to it, or it is the agent's log.
func (o *Own) Holds(path string, n inode.Node) bool {
	if o.files[n] {
		return true
	}
	return o.inside(filepath.Dir(resolved(path)))
}

// resolved returns the target of a link, and any other path unchanged.
func resolved(path string) string {
	if inode.IsLink(path) {
		return Leads(path)
	}
	return path
}

// inside reports whether a folder is one of the agent's, or lies in one, by whatever path. It
// stores the answers for the rest of the scan.
func (o *Own) inside(dir string) bool {
	if in, ok := o.known[dir]; ok {
		return in
	}
	in := false
	if st, err := inode.At(dir); err == nil {
		in = o.folders[st.Node]
	}
	if up := filepath.Dir(resolved(dir)); !in && up != dir {
		in = o.inside(up)
	}
	o.known[dir] = in
	return in
}
