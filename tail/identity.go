package tail

import (
	"encoding/binary"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/trusted"
)

// node names a file while it exists. The birth time tells a file from an
// earlier one with the same inode number, which ext4 hands out again at once.
type node struct {
	dev, ino uint64
	birth    int64 // ns; 0 where the file system does not tell
}

// status is what one look at a file says.
type status struct {
	node
	size    int64
	mtime   int64 // ns
	ctime   int64 // ns; of a deleted file, when it was deleted
	links   uint32
	regular bool
	mode    uint16
}

// statPath looks at a path, following links.
func statPath(path string) (status, error) { return statAt(unix.AT_FDCWD, path, 0) }

// statFile looks at an open file, whatever its path is now. Another goroutine may
// close it meanwhile.
func statFile(f *os.File) (s status, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return status{}, err
	}
	if shut := raw.Control(func(fd uintptr) { s, err = statAt(int(fd), "", unix.AT_EMPTY_PATH) }); shut != nil {
		return status{}, shut
	}
	return s, err
}

// stat is statFile; tests can change the size it reports.
func (t *Tailer) stat(f *os.File) (status, error) {
	s, err := statFile(f)
	if t.size != nil {
		s.size = t.size(s.size)
	}
	return s, err
}

// statAt is finder.Statx.
func statAt(fd int, path string, flags int) (status, error) {
	x, err := finder.Statx(fd, path, flags)
	if err != nil {
		return status{}, err
	}
	s := status{
		node:    node{dev: unix.Mkdev(x.Dev_major, x.Dev_minor), ino: x.Ino},
		size:    int64(x.Size),
		mtime:   x.Mtime.Sec*1e9 + int64(x.Mtime.Nsec),
		ctime:   x.Ctime.Sec*1e9 + int64(x.Ctime.Nsec),
		links:   x.Nlink,
		regular: x.Mode&unix.S_IFMT == unix.S_IFREG,
		mode:    x.Mode,
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		s.birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return s, nil
}

// kind names the type of an entry that is not a regular file.
func (s status) kind() string {
	switch s.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	}
	return "not a regular file"
}

// openFile opens a path for reading without ever blocking: a FIFO would. Links are
// followed as trusted.Open does.
func openFile(path string) (*os.File, status, error) {
	f, err := trusted.Open(path)
	if err != nil {
		return nil, status{}, err
	}
	s, err := statFile(f)
	if err == nil && !s.regular {
		err = notices.NoFile(uint32(s.mode), s.kind())
	}
	if err != nil {
		f.Close()
		return nil, status{}, err
	}
	return f, s, nil
}

// atHandleFID asks for a handle that only identifies, which file systems give
// that do not export any other (name_to_handle_at(2)).
const atHandleFID = 0x200

// handleOf returns the kernel's handle of an open file, which has the inode and its
// generation; empty: the file system has none, and the time of birth is used instead.
func handleOf(f *os.File) string {
	for _, flags := range []int{unix.AT_EMPTY_PATH, unix.AT_EMPTY_PATH | atHandleFID} {
		if h, _, err := unix.NameToHandleAt(int(f.Fd()), "", flags); err == nil {
			return string(append(binary.LittleEndian.AppendUint32(nil, uint32(h.Type())), h.Bytes()...))
		}
	}
	return ""
}

// newID derives the id of a new file from its inode, birth and handle. salt makes another
// id if that one is taken.
func newID(n node, handle string, salt uint64) record.FileID {
	b := make([]byte, 0, 64)
	for _, v := range []uint64{n.dev, n.ino, uint64(n.birth), salt} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return record.FileID(xxhash.Sum64(append(b, handle...)))
}

// On overlayfs the first write to a file of a lower layer, and its renaming, make
// another file of it: the kernel copies it up. Whoever has it open has the new one
// from then on. So it is by its descriptor that the file is known for the same.

// copiedUp reports whether a file with an unknown inode is one that a reader has open, on an
// overlay file system. If so, the reader gets a turn, in which it takes the new inode over. Only
// scans call it.
func (d *discovery) copiedUp(in *input, path string, n node) bool {
	if !isOverlay(filepath.Dir(path)) {
		return false
	}
	if in.renewed == nil {
		in.renewed = d.renewedOf(in, "")
	}
	r := in.renewed[n]
	if r == nil {
		r = d.renewedOf(in, path)[n] // the first write may have come since this scan began
	}
	if r == nil {
		return false
	}
	d.ready(r)
	d.rescanSoon()
	return true
}

// renewedOf returns the readers whose open file has another inode than before, by that. path
// restricts the search to one path; empty: all.
func (d *discovery) renewedOf(in *input, path string) map[node]*reader {
	open := make(map[*reader]*os.File)
	was := make(map[*reader]node)
	d.mu.Lock()
	for r := range in.readers.All() {
		if r.f != nil && (path == "" || r.path() == path) {
			open[r], was[r] = r.f, r.node()
		}
	}
	d.mu.Unlock()
	renewed := make(map[node]*reader)
	for r, f := range open {
		if st, err := statFile(f); err == nil && st.node != was[r] {
			renewed[st.node] = r
		}
	}
	return renewed
}

// follow gives a reader the new inode of its open file, of which st is the status. The journal gets
// it in this turn (moved). It does nothing if another reader has the new inode.
func (w *worker) follow(r *reader, st status) {
	t := w.t
	handle := handleOf(r.f)
	t.mu.Lock()
	defer t.mu.Unlock()
	was := nodeOf(r.info)
	if r.in.readers.Get(was) != r || r.in.readers.Get(st.node) != nil {
		return
	}
	r.in.readers.Delete(was)
	if r.in.byNode.get(was) == r.k {
		r.in.byNode.remove(was)
	}
	r.info.Dev, r.info.Inode, r.info.Birth, r.info.Handle = st.dev, st.ino, st.birth, handle
	r.in.describe(r.k, r.info)
	r.in.byNode.put(r.k)
	r.in.readers.Put(r)
	w.job.moved = true
}

// isOverlay reports whether a folder is on overlayfs.
func isOverlay(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && uint32(s.Type) == unix.OVERLAYFS_SUPER_MAGIC
}
