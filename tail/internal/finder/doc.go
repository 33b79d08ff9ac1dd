// Package finder promises to find every file that patterns match, as soon as events of
// the kernel tell of it and otherwise by looking, and never to name one twice in a walk.
// It says where files are and nothing of what becomes of them.
package finder

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Node names a file or a folder while it exists. Birth, in ns, tells it from an earlier
// one with the same inode number; it is 0 where the file system does not tell.
type Node struct {
	Dev, Ino uint64
	Birth    int64
}

// entry is what one look at a path says.
type entry struct {
	Node
	mtime   int64 // ns
	regular bool
	dir     bool
}

// look returns node, mtime and kind of what is at a path, following links. The birth time is 0 if
// the file system has none.
func look(path string) (entry, error) {
	x, err := Statx(unix.AT_FDCWD, path, 0)
	if err != nil {
		return entry{}, err
	}
	e := entry{
		Node:    Node{Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino},
		mtime:   x.Mtime.Sec*1e9 + int64(x.Mtime.Nsec),
		regular: x.Mode&unix.S_IFMT == unix.S_IFREG,
		dir:     x.Mode&unix.S_IFMT == unix.S_IFDIR,
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		e.Birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return e, nil
}

// Statx asks for the status of a path below fd, or of fd itself if flags say so, and asks again after
// EINTR. The error is an *os.PathError.
func Statx(fd int, path string, flags int) (x unix.Statx_t, err error) {
	for {
		err = unix.Statx(fd, path, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return x, &os.PathError{Op: "statx", Path: path, Err: err}
		}
		return x, nil
	}
}

// IsLink reports whether a path is that of a link.
func IsLink(path string) bool {
	x, err := Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && x.Mode&unix.S_IFMT == unix.S_IFLNK
}
