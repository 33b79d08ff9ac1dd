// Package inode promises to tell one file from every other that a path or a descriptor
// leads to, also where the inode number is used again, and to open nothing but regular
// files. It reads no content.
package inode

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/trusted"
)

// Node names a file or a folder while it exists. Birth, in ns, tells it from an earlier
// one with the same inode number, which ext4 hands out again at once; it is 0 where the file
// system does not tell. There Again, a hash of the kernel's handle, tells it instead; it is 0
// if the file system has no handles, and where there is a birth.
type Node struct {
	Dev, Ino uint64
	Birth    int64
	Again    uint64
}

// Of returns the node of a file that is remembered.
func Of(i record.FileInfo) Node { return NewNode(i.Dev, i.Inode, i.Birth, i.Handle) }

// NewNode returns the node of a file with a birth and a handle (see Handle); either may be unknown.
func NewNode(dev, ino uint64, birth int64, handle string) Node {
	n := Node{Dev: dev, Ino: ino, Birth: birth}
	if birth == 0 && isLasting(handle) {
		n.Again = xxhash.Sum64String(handle)
	}
	return n
}

// SameIn reports whether two nodes name one file of the same file system. Its device number can change at
// a reboot.
func (n Node) SameIn(o Node) bool {
	n.Dev, o.Dev = 0, 0
	return n == o
}

// Status is what one look at a file says.
type Status struct {
	Node
	Size  int64
	Mtime int64 // ns
	Ctime int64 // ns; of a deleted file, when it was deleted
	Links uint32
	mode  uint16
}

// IsRegular reports whether it is a regular file.
func (s Status) IsRegular() bool { return s.mode&unix.S_IFMT == unix.S_IFREG }

// IsDir reports whether it is a folder.
func (s Status) IsDir() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }

// At looks at a path, following links.
func At(path string) (Status, error) { return look(unix.AT_FDCWD, path, 0) }

// In looks at an open file, whatever its path is now. Another goroutine may close it
// meanwhile.
func In(f *os.File) (s Status, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return Status{}, err
	}
	if shut := raw.Control(func(fd uintptr) { s, err = look(int(fd), "", unix.AT_EMPTY_PATH) }); shut != nil {
		return Status{}, shut
	}
	return s, err
}

// LeadsElsewhere reports whether a path is gone, or names another file than n. It is false if the path
// cannot be examined.
func LeadsElsewhere(path string, n Node) bool {
	st, err := At(path)
	return err == nil && st.Node != n || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// HasAnother reports whether another file than n is at a path.
func HasAnother(path string, n Node) bool {
	st, err := At(path)
	return err == nil && st.Node != n
}

// Exists reports whether a path leads to something, also where it is a link that leads nowhere or where that
// cannot be told.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Second duplicates the descriptor of a file; nil: that failed, or the file is closed by now.
func Second(f *os.File) (dup *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			dup = os.NewFile(uintptr(n), f.Name())
		}
	})
	return dup
}

// IsLink reports whether a path is that of a link.
func IsLink(path string) bool {
	s, err := look(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && s.mode&unix.S_IFMT == unix.S_IFLNK
}

// look returns the status of a path below fd, or of fd itself if flags say so. The error is an
// *os.PathError.
func look(fd int, path string, flags int) (Status, error) {
	var x unix.Statx_t
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statx(fd, path, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x)
	}
	if err != nil {
		return Status{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	s := Status{
		Node:  Node{Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino},
		Size:  int64(x.Size),
		Mtime: x.Mtime.Sec*1e9 + int64(x.Mtime.Nsec),
		Ctime: x.Ctime.Sec*1e9 + int64(x.Ctime.Nsec),
		Links: x.Nlink,
		mode:  x.Mode,
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		s.Birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	switch {
	case s.Birth != 0:
		return s, nil
	case path != "": // another file may be there by now: status and handle have to be of one
		return lookOpen(fd, path, flags)
	}
	s.Node = NewNode(s.Dev, s.Ino, 0, handleOf(fd))
	return s, nil
}

// lookOpen is look for a path on a file system without times of birth.
func lookOpen(fd int, path string, flags int) (Status, error) {
	how := unix.O_PATH | unix.O_CLOEXEC
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how |= unix.O_NOFOLLOW
	}
	open, err := -1, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		open, err = unix.Openat(fd, path, how, 0)
	}
	if err != nil {
		return Status{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(open)
	return look(open, "", unix.AT_EMPTY_PATH)
}

// Open opens a path for reading without ever blocking: a FIFO would. Links are followed
// as trusted.Open does. If it leads to no regular file, the error is a *KindError.
func Open(path string) (*os.File, Status, error) {
	f, err := trusted.Open(path)
	if err != nil {
		return nil, Status{}, err
	}
	s, err := In(f)
	if err == nil {
		err = s.Kind()
	}
	if err != nil {
		f.Close()
		return nil, Status{}, err
	}
	return f, s, nil
}

// Kind returns a *KindError for what is no regular file, and nil for one.
func (s Status) Kind() error {
	if s.IsRegular() {
		return nil
	}
	return &KindError{s.mode & unix.S_IFMT}
}

// KindError is for a path that leads to something else than a regular file.
type KindError struct{ kind uint16 }

func (e *KindError) Error() string {
	switch e.kind {
	case unix.S_IFDIR:
		return "it is a directory"
	case unix.S_IFIFO:
		return "it is a FIFO"
	case unix.S_IFSOCK:
		return "it is a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "it is a device"
	}
	return "it is not a regular file"
}

// IsDir reports whether a folder is there.
func (e *KindError) IsDir() bool { return e.kind == unix.S_IFDIR }

// IsPipe reports whether records may come out of it that the agent does not read.
func (e *KindError) IsPipe() bool { return e.kind == unix.S_IFIFO || e.kind == unix.S_IFSOCK }

// atHandleFID asks for a handle that only identifies, which file systems give
// that do not export any other (name_to_handle_at(2)).
const atHandleFID = 0x200

// Handle returns the kernel's handle of an open file, which has the inode and its
// generation; empty: the file system has none, and the time of birth is used instead.
func Handle(f *os.File) string { return handleOf(int(f.Fd())) }

func handleOf(fd int) string {
	for _, flags := range []int{unix.AT_EMPTY_PATH, unix.AT_EMPTY_PATH | atHandleFID} {
		if h, _, err := unix.NameToHandleAt(fd, "", flags); err == nil {
			return string(append(binary.LittleEndian.AppendUint32(nil, uint32(h.Type())), h.Bytes()...))
		}
	}
	return ""
}

// FUSE has handles of these types. They last only as long as the kernel remembers the file: the next
// look at a file that nobody has open can give another.
const (
	fileIDIno64       = 0x81
	fileIDIno64Parent = 0x82
)

// isLasting reports whether a handle is there and the same for as long as its file exists.
func isLasting(handle string) bool {
	if len(handle) < 4 {
		return false
	}
	kind := binary.LittleEndian.Uint32([]byte(handle[:4]))
	return kind != fileIDIno64 && kind != fileIDIno64Parent
}

// IsOverlay reports whether a folder is on overlayfs. There, the first write to a file of a lower
// layer, and its renaming, give the file another node.
func IsOverlay(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && uint32(s.Type) == unix.OVERLAYFS_SUPER_MAGIC
}

// NewID derives the id of a new file from its inode, birth and handle. salt makes another id if that
// one is taken.
func NewID(n Node, handle string, salt uint64) record.FileID {
	b := make([]byte, 0, 64)
	for _, v := range []uint64{n.Dev, n.Ino, uint64(n.Birth), salt} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return record.FileID(xxhash.Sum64(append(b, handle...)))
}

// MostSalts is with how many salts IsID compares an id.
const MostSalts = 4

// IsID reports whether id is one that NewID makes of a node and a file handle with one of the first
// salts.
func IsID(id record.FileID, n Node, handle string) bool {
	for salt := range uint64(MostSalts) {
		if NewID(n, handle, salt) == id {
			return true
		}
	}
	return false
}
