// Package faultfs is a disk for tests that keeps exactly what was synced: it
// fails, tears or stalls the operation it is told to, and shows what a crash or
// a power cut at that moment leaves behind.
package faultfs

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"kusto-agent/internal/durable"
)

// ErrKilled is returned by every operation after the one at which the process
// was to die.
var ErrKilled = errors.New("process killed")

// Op is an operation that is about to happen. Reading is none.
type Op struct {
	N    int    // counted from 1
	Kind string // create, write, truncate, allocate, sync, close, mkdir, rename, remove, syncdir
	Name string
}

// Verdict is what becomes of an operation.
type Verdict struct {
	Err   error // nil: it succeeds
	Short bool  // of a failing write: its first half is written all the same
}

// FS is a file system in memory. The zero value is not usable; see New.
type FS struct {
	// Judge is asked before each operation, without a lock held, so that it
	// may block like a hung disk. Nil: all succeed. Set it before use.
	Judge func(Op) Verdict

	mu      sync.Mutex
	ops     int
	names   map[string]*inode // as the process sees them
	durable map[string]*inode // as a power cut leaves them
	locks   map[*inode]bool
}

// inode is a file or a folder in memory, with what a power cut would leave of it.
type inode struct {
	dir   bool
	data  []byte
	safe  []byte // what a power cut leaves
	dirty []bool // bytes of data that the next sync makes safe
}

// synced returns a file with a copy of this content, which a power cut leaves as it is.
func synced(b []byte) *inode {
	return &inode{data: slices.Clone(b), safe: slices.Clone(b), dirty: make([]bool, len(b))}
}

// New returns an empty file system that holds the given folders, durably.
func New(dirs ...string) *FS {
	f := &FS{names: map[string]*inode{"/": {dir: true}, ".": {dir: true}}}
	for _, d := range dirs {
		f.names[d] = &inode{dir: true}
	}
	f.durable = maps.Clone(f.names)
	return f
}

// Ops returns how many operations (see Op) were asked for so far.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// KillAt returns a Judge for a process that dies at operation n: that operation and all later ones
// fail with ErrKilled. If torn is set, half of operation n is done, if it is a write.
func KillAt(n int, torn bool) func(Op) Verdict {
	return func(op Op) Verdict {
		if op.N < n {
			return Verdict{}
		}
		return Verdict{Err: ErrKilled, Short: torn && op.N == n}
	}
}

// FailAt returns a Judge that lets operation n alone fail with err. If short is set, half of it is
// done all the same, if it is a write.
func FailAt(n int, err error, short bool) func(Op) Verdict {
	return func(op Op) Verdict {
		if op.N != n {
			return Verdict{}
		}
		return Verdict{Err: err, Short: short}
	}
}

// judge counts an operation on the file or folder name and asks Judge about it. Errors other than
// ErrKilled are wrapped with operation and name. It must be called without mu.
func (f *FS) judge(kind, name string) Verdict {
	f.mu.Lock()
	f.ops++
	op := Op{f.ops, kind, name}
	f.mu.Unlock()
	if f.Judge == nil {
		return Verdict{}
	}
	v := f.Judge(op)
	if v.Err != nil && !errors.Is(v.Err, ErrKilled) {
		v.Err = &os.PathError{Op: kind, Path: name, Err: v.Err}
	}
	return v
}

// do asks Judge about an operation on the file or folder name, and carries it out unless it is to fail.
// change is called with mu held.
func (f *FS) do(kind, name string, change func()) error {
	if v := f.judge(kind, name); v.Err != nil {
		return v.Err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	return nil
}

// find returns the inode that a name has now, and that of the folder above it; nil: there is none.
func (f *FS) find(name string) (n, parent *inode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[name], f.names[filepath.Dir(name)]
}

// isNamed reports whether the file has a name. Needs mu.
func (f *FS) isNamed(n *inode) bool {
	for _, other := range f.names {
		if other == n {
			return true
		}
	}
	return false
}

// Mode says what a crash leaves of what was not synced.
type Mode int

// The modes of a crash. A killed process loses nothing it wrote; the others
// are power cuts.
const (
	Kill   Mode = iota // all is kept
	Drop               // unsynced bytes and names are gone
	Zero               // lengths and names are kept, unsynced bytes are zeros
	Random             // each name and each 64 bytes: kept, dropped or garbage
)

// Crash returns the file system as the next start finds it after a crash of mode m. The old one is
// not touched. seed matters for Random alone. No operation of the new one is made to fail.
func (f *FS) Crash(m Mode, seed uint64) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &crash{mode: m, rnd: rand.New(rand.NewPCG(seed, 1)), inodes: map[*inode]*inode{}, fates: map[*inode]bool{}}
	out := &FS{names: map[string]*inode{}}
	all := maps.Clone(f.names)
	maps.Copy(all, f.durable)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := c.pick(f.names[name], f.durable[name]); n != nil {
			out.names[name] = c.inode(n)
		}
	}
	out.durable = maps.Clone(out.names)
	return out
}

type crash struct {
	mode   Mode
	rnd    *rand.Rand
	inodes map[*inode]*inode
	fates  map[*inode]bool
}

// pick returns the inode that a name has after the crash; nil: the name is gone. now is the inode that
// the running process sees, safe that of the last sync; each may be nil. In the mode Random a rename
// happens as a whole: the same choice holds for the old and the new name.
func (c *crash) pick(now, safe *inode) *inode {
	switch {
	case c.mode == Kill, c.mode == Zero, now == safe:
		return now
	case c.mode == Drop:
		return safe
	case now != nil && c.changed(now), now == nil && c.changed(safe):
		return now
	}
	return safe
}

// changed decides at random whether unsynced changes of the names of an inode survive. The answer
// for an inode is always the same.
func (c *crash) changed(n *inode) bool {
	fate, known := c.fates[n]
	if !known {
		fate = c.rnd.IntN(2) == 0
		c.fates[n] = fate
	}
	return fate
}

// inode returns what the crash leaves of a file, as a new inode whose content is all synced. All names
// of the file get the same one.
func (c *crash) inode(n *inode) *inode {
	if done := c.inodes[n]; done != nil {
		return done
	}
	data := slices.Clone(n.data)
	switch c.mode {
	case Drop:
		data = n.safe
	case Zero:
		clear(data)
		copy(data, n.safe)
	case Random:
		c.scramble(data, n)
	}
	out := synced(data)
	out.dir = n.dir
	c.inodes[n] = out
	return out
}

// scramble decides at random, for every 64 bytes of the file n, whether the unsynced ones among them
// are kept, lost or garbage. It stores the result in data, which begins as a copy of n.data.
func (c *crash) scramble(data []byte, n *inode) {
	const page = 64
	for at := 0; at < len(data); at += page {
		end, fate := min(at+page, len(data)), c.rnd.IntN(3)
		for i := at; i < end; i++ {
			if i < len(n.safe) && n.safe[i] == n.data[i] && !n.dirty[i] {
				continue
			}
			switch {
			case fate == 1 && i < len(n.safe):
				data[i] = n.safe[i]
			case fate == 1:
				data[i] = 0
			case fate == 2:
				data[i] = byte(c.rnd.IntN(256))
			}
		}
	}
}

// Content returns a file's bytes as the process sees them; nil: no such file.
func (f *FS) Content(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.names[name]; n != nil {
		return slices.Clone(n.data)
	}
	return nil
}

// SetContent replaces the content of a file, durably. It counts as no operation.
func (f *FS) SetContent(name string, b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := synced(b)
	f.names[name], f.durable[name] = n, n
}

var _ durable.FS = (*FS)(nil)

// Open implements durable.FS. Opening an existing file never fails; the creation of a file can be made
// to fail, and may be lost in a crash unless its folder is synced.
func (f *FS) Open(name string, flag int) (durable.File, error) {
	n, parent := f.find(name)
	switch {
	case n == nil && (flag&os.O_CREATE == 0 || parent == nil):
		return nil, &os.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case n != nil && flag&os.O_EXCL != 0:
		return nil, &os.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	case n != nil:
		return &file{fs: f, name: name, inode: n}, nil
	}
	made := &file{fs: f, name: name, inode: &inode{}}
	if err := f.do("create", name, func() { f.names[name] = made.inode }); err != nil {
		return nil, err
	}
	return made, nil
}

// List implements durable.FS: it returns the names in the folder, sorted. It never fails but for a
// folder that does not exist.
func (f *FS) List(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names[dir] == nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	var names []string
	for name := range f.names {
		if name != dir && filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Mkdir implements durable.FS. It can be made to fail, and may be lost in a crash unless the parent
// folder is synced.
func (f *FS) Mkdir(dir string) error {
	n, parent := f.find(dir)
	if n != nil {
		return &os.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
	}
	if parent == nil {
		return &os.PathError{Op: "mkdir", Path: dir, Err: fs.ErrNotExist}
	}
	return f.do("mkdir", dir, func() { f.names[dir] = &inode{dir: true} })
}

// Rename implements durable.FS: it replaces a file that has the new name. It can be made to fail, and
// may be undone by a crash unless the folders are synced.
func (f *FS) Rename(from, to string) error {
	missing := false
	err := f.do("rename", to, func() {
		n := f.names[from]
		if missing = n == nil || f.names[filepath.Dir(to)] == nil; !missing {
			delete(f.names, from)
			f.names[to] = n
		}
	})
	if missing {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrNotExist}
	}
	return err
}

// RenameNew implements durable.FS: it is Rename, but fails with fs.ErrExist if the new name exists.
func (f *FS) RenameNew(from, to string) error {
	if n, _ := f.find(to); n != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return f.Rename(from, to)
}

// Lock implements durable.FS. It never waits: the error is durable.ErrLocked if the folder is locked,
// by whomever. A crash ends all locks.
func (f *FS) Lock(dir string) (durable.Lock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[dir]
	switch {
	case n == nil:
		return nil, &os.PathError{Op: "lock", Path: dir, Err: fs.ErrNotExist}
	case f.locks[n]:
		return nil, durable.ErrLocked
	case f.locks == nil:
		f.locks = map[*inode]bool{}
	}
	f.locks[n] = true
	return &lock{f, n}, nil
}

type lock struct {
	fs    *FS
	inode *inode
}

// Holds reports whether the locked folder still has this name.
func (l *lock) Holds(dir string) bool {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	return l.fs.names[dir] == l.inode
}

// Close releases the lock.
func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.inode)
	return nil
}

// Remove implements durable.FS. It can be made to fail, and may be undone by a crash unless its folder
// is synced.
func (f *FS) Remove(name string) error {
	if n, _ := f.find(name); n == nil {
		return &os.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	return f.do("remove", name, func() { delete(f.names, name) })
}

// SyncDir implements durable.FS: what was created, renamed or removed in the folder so far survives a
// crash. It can be made to fail.
func (f *FS) SyncDir(dir string) error {
	return f.do("syncdir", dir, func() {
		in := func(name string, _ *inode) bool { return filepath.Dir(name) == dir && name != dir }
		maps.DeleteFunc(f.durable, in)
		for name, n := range f.names {
			if in(name, n) {
				f.durable[name] = n
			}
		}
	})
}

// NoSpace is the error of a full disk.
var NoSpace error = syscall.ENOSPC

// Damage changes the bytes of a file in place and durably, as another process would: an open file sees
// the new bytes. It counts as no operation and does nothing if the file does not exist.
func (f *FS) Damage(name string, change func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[name]
	if n == nil {
		return
	}
	*n = *synced(change(slices.Clone(n.data)))
}

// Vanish removes a file durably, as another process would; an open file keeps its bytes. It counts as
// no operation.
func (f *FS) Vanish(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.names, name)
	delete(f.durable, name)
}
