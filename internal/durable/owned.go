package durable

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Owned returns OS for root to act in folders of another user: what it makes belongs to this user and
// group, who could not read it otherwise. What cannot be given to them stays with root, and so does what
// is made in a folder of somebody else, to which the user may have put a link in the place of a folder.
func Owned(uid, gid int) FS { return ownedFS{uid: uid, gid: gid} }

type ownedFS struct {
	osFS
	uid, gid int
}

// Open is that of OS. A file that it makes is given away; one that was there stays whose it is, if it has
// another owner than this process or another name, by which it could be a file of somebody else.
func (o ownedFS) Open(name string, flag int) (File, error) {
	if flag&os.O_CREATE == 0 {
		return o.osFS.Open(name, flag)
	}
	folder := o.folder(name)
	if folder == nil {
		return o.osFS.Open(name, flag)
	}
	defer folder.Close()
	f, err := openIn(folder, name, flag)
	if err != nil {
		return nil, err
	}
	o.give(f)
	return osFile{f}, nil
}

// Mkdir is that of OS, and gives the folder away.
func (o ownedFS) Mkdir(dir string) error {
	dir = filepath.Clean(dir) // without a slash at its end
	folder := o.folder(dir)
	if folder == nil {
		return o.osFS.Mkdir(dir)
	}
	defer folder.Close()
	if err := unix.Mkdirat(int(folder.Fd()), filepath.Base(dir), 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	if made, err := openIn(folder, dir, unix.O_DIRECTORY); err == nil {
		o.give(made)
		made.Close()
	}
	return nil
}

// folder opens the folder in which name is, if it belongs to the user; otherwise it returns nil.
func (o ownedFS) folder(name string) *os.File {
	folder, err := os.OpenFile(filepath.Dir(name), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstat(int(folder.Fd()), &st) != nil || int(st.Uid) != o.uid {
		folder.Close()
		return nil
	}
	return folder
}

// openIn opens what has the last part of name in this folder: the path may lead to another one by now.
func openIn(folder *os.File, name string, flag int) (*os.File, error) {
	fd := -1
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(int(folder.Fd()), filepath.Base(name), flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// give gives f to the user, if it is this process's.
func (o ownedFS) give(f *os.File) {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil && int(st.Uid) == os.Geteuid() && (st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Nlink == 1) {
		_ = unix.Fchown(int(f.Fd()), o.uid, o.gid) // a process without the right to could use the folder before, too
	}
}
