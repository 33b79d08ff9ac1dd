package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// Owned returns OS for root to act in folders of another user: what it makes belongs to this user and
// group, who could not read it otherwise. What cannot be given to them stays with root.
func Owned(uid, gid int) FS { return ownedFS{uid: uid, gid: gid} }

type ownedFS struct {
	osFS
	uid, gid int
}

// Open is that of OS. A file that it makes is given away; one that was there stays whose it is, if it has
// another owner than this process or another name, by which it could be a file of somebody else.
func (o ownedFS) Open(name string, flag int) (File, error) {
	f, err := o.osFS.Open(name, flag)
	if err != nil || flag&os.O_CREATE == 0 {
		return f, err
	}
	var st unix.Stat_t
	if fd := int(f.(osFile).Fd()); unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && st.Nlink == 1 {
		_ = unix.Fchown(fd, o.uid, o.gid) // a process without the right to could use the folder before, too
	}
	return f, nil
}

// Mkdir is that of OS, and gives the folder away.
func (o ownedFS) Mkdir(dir string) error {
	err := o.osFS.Mkdir(dir)
	if err == nil {
		_ = os.Lchown(dir, o.uid, o.gid) // as above
	}
	return err
}
