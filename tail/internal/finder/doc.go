// Package finder promises to find every file that patterns match, as soon as events of
// the kernel tell of it and otherwise by looking, and never to name one twice in a walk.
// It says where files are and nothing of what becomes of them.
package finder

import (
	"errors"
	"io/fs"
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
	var x unix.Statx_t
	for {
		err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return entry{}, &os.PathError{Op: "statx", Path: path, Err: err}
		}
		break
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

func isLink(path string) bool {
	s, err := os.Lstat(path)
	return err == nil && s.Mode()&fs.ModeSymlink != 0
}
