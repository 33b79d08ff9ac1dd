// Package trusted promises that a file is opened for reading only by way of links
// whose makers may be trusted, without ever blocking on a FIFO.
package trusted

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Whoever may write to a folder can put a link there that leads to a file that only
// the agent may read, and has it sent to a table that he may read. The kernel refuses
// such links where fs.protected_symlinks is set, in folders like /tmp; the agent does
// so whatever the kernel is told, and with more rights than those of a user also in
// other folders that are shared.

// link is what there is to know of a link and of who is about to follow it.
type link struct {
	owner       uint32 // of the link
	folder      uint32 // the owner of the folder it is in
	mode        uint32 // of that folder
	follower    uint32 // the user whose rights open what it leads to
	mayReadMore bool   // the follower reads files whatever their mode says
}

// verdict is what becomes of a link.
type verdict int

const (
	followed verdict = iota
	refused
	followedHome // to what belongs to who made it, which he could read by himself
)

// verdict says whether a link may be followed. In a folder that others may write to, the link has
// to belong to the follower or to the owner of the folder. A folder counts as such if it is
// sticky and everyone may write to it, as for the kernel. For a follower who reads files whatever
// their mode says, it also counts if its group may write to it or if it is not sticky; there a
// link may lead to a file of the link's owner (followedHome).
func (l link) verdict() verdict {
	switch {
	case l.owner == l.follower, l.owner == l.folder:
		return followed
	case l.mode&unix.S_ISVTX != 0 && l.mode&unix.S_IWOTH != 0:
		return refused
	case l.mayReadMore && l.mode&(unix.S_IWOTH|unix.S_IWGRP) != 0:
		return followedHome
	}
	return followed
}

// us returns the user whose permissions this thread has on files, and whether the thread may read
// files whatever their mode says, as root or by a capability.
func us() (user uint32, mayReadMore bool) {
	user = uint32(os.Geteuid())
	if fs, err := unix.SetfsuidRetUid(-1); err == nil && fs >= 0 { // changes nothing, and says what it is
		user = uint32(fs)
	}
	if user == 0 {
		return user, true
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) != nil {
		return user, false
	}
	return user, data[0].Effective&(1<<unix.CAP_DAC_READ_SEARCH|1<<unix.CAP_DAC_OVERRIDE) != 0
}

// ErrPlanted says that a link is not followed because of who made it.
var ErrPlanted = errors.New("is not followed: others may write to its folder")

// PlantedError is ErrPlanted for one link.
type PlantedError struct {
	Path  string // of the link
	Owner string // name of the user it belongs to, or the number of one without a name
}

func (e *PlantedError) Error() string {
	return fmt.Sprintf("the link %s, which belongs to %s, %v", e.Path, e.Owner, ErrPlanted)
}

func (e *PlantedError) Unwrap() error { return ErrPlanted }

// Fix says what a person can do about it.
func (e *PlantedError) Fix() string {
	return "name the file itself in paths; or, if the link is wanted, have the owner of its folder make it, or end the right of others: chmod go-w " + filepath.Dir(e.Path)
}

// planted returns the error for a link that is not followed; it names the user who owns the link.
func planted(path string, l link) error {
	who := strconv.FormatUint(uint64(l.owner), 10)
	if u, err := user.LookupId(who); err == nil {
		who = u.Username
	}
	return &PlantedError{Path: path, Owner: who}
}

// statFd looks at an open file or folder.
func statFd(fd int) (st unix.Stat_t, err error) {
	err = ignoringEINTR(func() error { return unix.Fstat(fd, &st) })
	return st, err
}

// linkIn describes a link (of) in a folder that this thread is about to follow.
func linkIn(of, folder unix.Stat_t) link {
	l := link{owner: of.Uid, folder: folder.Uid, mode: folder.Mode}
	l.follower, l.mayReadMore = us()
	return l
}

const (
	reading  = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	mostHops = 40 // links in one path, as the kernel has it
)

// Open opens a path for reading, and follows no link in it whose maker may not be trusted. It
// looks up each name in the folder that it has open, without following links, so nobody can
// exchange a name between the check and the opening. Reading does not change the time of the last access
// of the file where the kernel allows that: to keep it costs more than a short read.
func Open(path string) (*os.File, error) {
	path = filepath.Clean(path)
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: reading, Resolve: unix.RESOLVE_NO_SYMLINKS})
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EAGAIN):
		if fd, err = openByNames(path); err != nil { // there is a link in it, or the kernel cannot tell
			return nil, asPathError(path, err)
		}
	default:
		return nil, asPathError(path, err)
	}
	// Refused, without harm, for files of others if the agent has no rights over them.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK|unix.O_NOATIME)
	return os.NewFile(uintptr(fd), path), nil
}

// asPathError returns err as an *os.PathError of opening path; a *PlantedError, which names its
// link, it returns as it is.
func asPathError(path string, err error) error {
	if errors.Is(err, ErrPlanted) {
		return err
	}
	return &os.PathError{Op: "open", Path: path, Err: err}
}

// steps is a path on the way through its names.
type steps struct {
	dir  int      // the folder that was reached, open
	at   string   // its path, for people
	rest []string // names still to go
	hops int
	home []met // links that may lead to what is their owner's alone
}

// met is a link on the way.
type met struct {
	link
	path string
}

// openByNames opens a path name by name, from one open folder to the next, and checks each link on
// the way. It returns the descriptor of the file. The error is a *PlantedError for a link that must
// not be followed.
func openByNames(path string) (fd int, err error) {
	s := steps{dir: -1}
	defer func() { s.leave() }()
	if err := s.lead(path); err != nil {
		return -1, err
	}
	for {
		name := s.rest[0]
		s.rest = s.rest[1:]
		last := len(s.rest) == 0
		const look = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
		next, err := -1, error(unix.ENOTDIR)
		if !last { // with O_DIRECTORY the kernel mounts a folder that is mounted on entry
			next, err = s.open(name, look|unix.O_DIRECTORY)
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			next, err = s.open(name, look)
		}
		if err != nil {
			return -1, err
		}
		st, err := statFd(next)
		switch {
		case err != nil:
			_ = unix.Close(next)
			return -1, err
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			fd, err := s.follow(name, next, st, last)
			_ = unix.Close(next)
			if err != nil || fd >= 0 {
				return fd, err
			}
		case last:
			_ = unix.Close(next)
			return s.arrive(name, reading|unix.O_NOFOLLOW)
		default:
			s.enter(next, filepath.Join(s.at, name))
		}
	}
}

// leave closes the folder that was reached, if there is one.
func (s *steps) leave() {
	if s.dir >= 0 {
		_ = unix.Close(s.dir)
	}
}

// enter makes the open folder dir the one that was reached, and closes the one before. path is its
// path, for messages.
func (s *steps) enter(dir int, path string) {
	s.leave()
	s.dir, s.at = dir, path
}

// open opens a name in the folder that was reached, with flags of openat.
func (s *steps) open(name string, flags int) (fd int, err error) {
	err = ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(s.dir, name, flags, 0)
		return err
	})
	return fd, err
}

// arrive opens the file at the end of the path. If a link on the way may lead only to files of
// its own owner, and the file belongs to somebody else, it fails with a *PlantedError.
func (s *steps) arrive(name string, flags int) (fd int, err error) {
	if fd, err = s.open(name, flags); err != nil || len(s.home) == 0 {
		return fd, err
	}
	st, err := statFd(fd)
	for _, l := range s.home {
		if err == nil && st.Uid != l.owner {
			err = planted(l.path, l.link)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// lead puts the names of a path before the names still to go. An absolute path begins at the root
// again.
func (s *steps) lead(path string) error {
	start := ""
	switch {
	case strings.HasPrefix(path, "/"):
		start = "/"
	case s.dir < 0:
		start = "."
	}
	if start != "" {
		dir, err := unix.Open(start, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.enter(dir, start)
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if s.rest = append(names, s.rest...); len(s.rest) == 0 {
		s.rest = []string{"."}
	}
	return nil
}

// follow continues at the target of the link that is open as fd. If the target can only be opened
// by the kernel (links in /proc, which nobody can plant), it returns the open file; otherwise
// file is -1.
func (s *steps) follow(name string, fd int, st unix.Stat_t, last bool) (file int, err error) {
	if s.hops++; s.hops > mostHops {
		return -1, unix.ELOOP
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil && fs.Type == unix.PROC_SUPER_MAGIC && last {
		return s.arrive(name, reading)
	}
	folder, err := statFd(s.dir)
	if err != nil {
		return -1, err
	}
	l := met{linkIn(st, folder), filepath.Join(s.at, name)}
	switch l.verdict() {
	case refused:
		return -1, planted(l.path, l.link)
	case followedHome:
		s.home = append(s.home, l)
	}
	to := make([]byte, unix.PathMax)
	var n int
	err = ignoringEINTR(func() (err error) {
		n, err = unix.Readlinkat(fd, "", to)
		return err
	})
	if err != nil {
		return -1, err
	}
	return -1, s.lead(string(to[:n]))
}

// ignoringEINTR calls call again until its error is not EINTR (a signal came), and returns that
// error.
func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Refused returns a *PlantedError if the path is a link that must not be followed, else nil. It
// only saves a caller that lists names the attempt: Open checks again.
func Refused(path string) error {
	var of, in unix.Stat_t
	if unix.Lstat(path, &of) != nil || of.Mode&unix.S_IFMT != unix.S_IFLNK || unix.Stat(filepath.Dir(path), &in) != nil {
		return nil
	}
	l := linkIn(of, in)
	v := l.verdict()
	if v == followedHome {
		var to unix.Stat_t
		if err := unix.Stat(path, &to); err == nil && to.Uid != l.owner {
			v = refused
		}
	}
	if v == refused {
		return planted(path, l)
	}
	return nil
}
