package durable

import (
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// FS is the part of a file system that durable stores use, so that tests can
// put a disk below them that fails, stalls or loses its power. OS is the real
// one. An FS is safe for concurrent use.
type FS interface {
	// Open opens a file for the flags of package os; a new one is private to
	// its owner. A symbolic link as the last part of name is refused.
	Open(name string, flag int) (File, error)
	// List returns the names in a folder, sorted.
	List(dir string) ([]string, error)
	// Mkdir makes one folder, private to its owner.
	Mkdir(dir string) error
	Rename(from, to string) error
	// RenameNew is Rename, but where to is there already it changes nothing and
	// returns an fs.ErrExist.
	RenameNew(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in a folder durable: what was created, renamed
	// or removed there survives a power cut once it returned nil.
	SyncDir(dir string) error
	// Lock takes a folder for this process alone, until Close or the end of the
	// process. It returns ErrLocked where another one has it; the folder is
	// locked, whatever name leads there.
	Lock(dir string) (Lock, error)
}

// Lock is a folder that is locked.
type Lock interface {
	// Holds says whether dir is that folder still, and not another one made in
	// its place.
	Holds(dir string) bool
	io.Closer // ends the lock
}

// ErrLocked is returned for a folder that another process has locked.
var ErrLocked = errors.New("folder is in use")

// ErrRemoved is returned for an open file that somebody has removed.
var ErrRemoved = errors.New("file was removed while it was open")

// File is an open file. There is no current offset: every access names one.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Size is the length in bytes.
	Size() (int64, error)
	Truncate(size int64) error
	// Allocate makes the file size bytes long, zeroed and backed by the disk
	// where the file system can promise that, so that a full disk shows now.
	Allocate(size int64) error
	// Sync makes the content durable. After an error nothing is known of what
	// was written since the last good Sync, and no later Sync can tell: the
	// kernel marks the pages clean all the same. A file that has no name any
	// more cannot be made durable: the error is then ErrRemoved.
	Sync() error
	Close() error
}

// OS is the file system of the machine.
var OS FS = osFS{}

type osFS struct{}

// Open opens a file that is not a symbolic link; a new one is readable by its owner only.
func (osFS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) // what is read comes in large reads, and see Sparse
	return osFile{f}, nil
}

// List returns the names in a folder, sorted.
func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (osFS) Mkdir(dir string) error       { return os.Mkdir(dir, 0o700) }
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

// RenameNew renames a file unless the new name exists. A file system without such a call gets a hard
// link instead, and the old name is removed then.
func (osFS) RenameNew(from, to string) error {
	switch err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE); err {
	case nil:
		return nil
	case unix.EINVAL, unix.ENOSYS: // a file system or a kernel without it
		if err := os.Link(from, to); err != nil {
			return err
		}
		return os.Remove(from)
	default:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
}

// Lock takes an flock on the folder without waiting. The error is ErrLocked if another process has it.
func (osFS) Lock(dir string) (Lock, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = ignoringEINTR(func() error { return unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return osLock{d}, nil
	}
	d.Close()
	if err == unix.EWOULDBLOCK {
		return nil, ErrLocked
	}
	return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
}

type osLock struct{ dir *os.File }

// Holds reports whether dir still is the locked folder, by its inode.
func (l osLock) Holds(dir string) bool {
	mine, err := l.dir.Stat()
	there, err2 := os.Stat(dir)
	return err == nil && err2 == nil && os.SameFile(mine, there)
}

func (l osLock) Close() error { return l.dir.Close() }

// SyncDir syncs a folder, so that the names created, renamed or removed in it survive a power cut.
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type osFile struct{ *os.File }

// Size returns the length of the file in bytes.
func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Sparse is a File that knows which of its bytes were written. What was not reads as zeros.
type Sparse interface {
	// DataAt returns the first offset from off on at which something was written; see the function.
	DataAt(off, size int64) int64
	// DataEnd returns the offset from which on nothing was written; size, if the file system cannot
	// tell. Pages that the kernel has read ahead count as written: Open has it do without, and DataEnd
	// is to be called before the file is read.
	DataEnd(size int64) int64
}

// DataAt is the function DataAt for this file.
func (f osFile) DataAt(off, size int64) int64 { return DataAt(f.File, off, size) }

func (f osFile) DataEnd(size int64) (end int64) {
	for from := int64(0); from < size; from = end {
		data, err := unix.Seek(int(f.Fd()), from, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return end
		}
		if err == nil {
			end, err = unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
		}
		if err != nil {
			return size
		}
	}
	return min(end, size)
}

// DataAt returns the first offset from off on that is not in a hole of the file, nor in space that was
// only allocated: both read as zeros, and need not be read. It is size if there is none, and off if the
// file system cannot tell.
func DataAt(f *os.File, off, size int64) int64 {
	to, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return off
	}
	return min(max(to, off), size)
}

// Allocate reserves disk space up to size bytes. A file system that cannot do that only gets the
// length.
func (f osFile) Allocate(size int64) error {
	err := ignoringEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	switch err {
	case nil:
		return nil
	case unix.EOPNOTSUPP, unix.ENOSYS: // no promise to be had here: the length alone
		return f.Truncate(size)
	}
	return &os.PathError{Op: "allocate", Path: f.Name(), Err: err}
}

// Sync makes the content of the file durable (fdatasync). The error is ErrRemoved if the file has no
// name any more.
func (f osFile) Sync() error {
	err := ignoringEINTR(func() error { return unix.Fdatasync(int(f.Fd())) })
	var st unix.Stat_t
	if err == nil && unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 0 {
		err = ErrRemoved
	}
	if err != nil {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	return nil
}

// ignoringEINTR repeats a system call while it is interrupted by a signal, and returns its error.
func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
