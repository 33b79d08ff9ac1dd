package check

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/config"
	"kusto-agent/internal/secretfile"
)

// Service is who runs the agent on this machine.
type Service struct {
	Unit  string // of systemd, without .service; empty: it knows none
	User  string // empty: whoever runs this
	Files uint64 // descriptors the unit allows; 0: not known

	Folder string // in which the unit starts the agent; empty: /

	uid, gid int
	groups   []int
	readsAll bool // by a capability, whatever the mode of a file says
}

const (
	serviceUser  = "kusto-agent"
	unitPatience = 5 * time.Second
)

// FindService finds out which user runs the agent with the configuration at path, from systemd and from
// the users of this machine. For a file that no unit reads it is that of kusto-agent.service, for which it may
// be meant. name takes precedence if it is not empty, and then has to exist. Without a known user, the
// field User of the result is empty.
func FindService(ctx context.Context, path, name string) (Service, error) {
	s := Service{}
	unit := cmp.Or(config.Unit(path), config.Unit(config.DefaultPath))
	told := unitSettings(ctx, unit)
	var extra []string
	if told["LoadState"] == "loaded" {
		s.Unit, s.Folder = unit, strings.TrimPrefix(told["WorkingDirectory"], "!") // !: it may be missing
		s.Files, _ = strconv.ParseUint(told["LimitNOFILE"], 10, 64)                // the value infinity gives 0: no limit is known
		extra = strings.Fields(told["SupplementaryGroups"])
		s.readsAll = name == "" && strings.Contains(told["AmbientCapabilities"], "cap_dac_read_search")
	}
	who := name
	if who == "" {
		who = serviceUser
		if s.Unit != "" && told["User"] != "" {
			who = told["User"]
		}
	}
	u, err := user.Lookup(who)
	if err != nil {
		if unknown := user.UnknownUserError(""); name != "" && errors.As(err, &unknown) {
			return s, fmt.Errorf("--user %q: this machine has no such user; name the one that the agent runs as, or leave the flag out", name)
		}
		if name != "" {
			return s, fmt.Errorf("--user %q: look up the user: %w", name, err)
		}
		return s, nil
	}
	s.User = who
	err = s.identify(u, extra)
	return s, err
}

// unitSettings returns the properties that systemd has for a unit of the agent; nil if systemctl
// fails or does not answer in time. Of a unit that does not exist, LoadState is not "loaded".
func unitSettings(ctx context.Context, unit string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, unitPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "show", unit+".service", "-p", "LoadState,User,SupplementaryGroups,LimitNOFILE,AmbientCapabilities,WorkingDirectory").Output()
	if err != nil {
		return nil
	}
	told := make(map[string]string)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		told[key] = value
	}
	return told
}

// identify sets the ids of the user u and of its groups in s. extra are names of groups that the
// systemd unit adds; unknown ones are ignored.
func (s *Service) identify(u *user.User, extra []string) (err error) {
	if s.uid, err = strconv.Atoi(u.Uid); err == nil {
		s.gid, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return fmt.Errorf("look up user %s: %w", u.Username, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return fmt.Errorf("look up the groups of %s: %w", u.Username, err)
	}
	for _, name := range extra {
		if g, err := user.LookupGroup(name); err == nil {
			ids = append(ids, g.Gid)
		}
	}
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return fmt.Errorf("look up the groups of %s: %w", u.Username, err)
		}
		s.groups = append(s.groups, n)
	}
	return nil
}

// StateDir returns the folder that the unit has systemd make.
func (s Service) StateDir() string { return "/var/lib/" + s.Unit }

// name returns, for display, the user with whose permissions the files are checked: the user of
// the service if this process can take its place, else the user who runs check.
func (s Service) name() string {
	if s.User != "" && !s.other() {
		return s.User
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Geteuid())
}

// account returns the user to whom the suggested commands give files and rights: the user of the
// service, also if check runs as an ordinary user who cannot take its place; without a known service
// the user who runs check.
func (s Service) account() string {
	if s.User != "" {
		return s.User
	}
	return s.name()
}

// group returns the primary group of account: that of the user of the service, if that is another
// user than the one who runs check; else the group of this process.
func (s Service) group() string {
	gid := os.Getegid()
	if s.assumed() || s.other() {
		gid = s.gid
	}
	return secretfile.Group(gid)
}

// assumed says that files can be looked at as the user of the service, who is
// another than ours.
func (s Service) assumed() bool { return s.User != "" && os.Geteuid() == 0 && s.uid != 0 }

// other says that the service has a user who is not ours, and cannot be assumed.
func (s Service) other() bool {
	return s.User != "" && os.Geteuid() != 0 && s.uid != os.Geteuid()
}

// reading calls f with the rights that the service has to read files. If the service has the
// capability to read all files, f runs as root. The error is that of taking on the user; then f was
// not called.
func (s Service) reading(f func()) error {
	if s.readsAll && os.Geteuid() == 0 {
		f()
		return nil
	}
	return s.as(f)
}

// as calls f with the file permissions of the user of the service, if this process is root and can
// take them on; otherwise it calls f as it is. It does so on a thread of its own, which ends with
// f. The error is that of taking on the user; then f was not called.
func (s Service) as(f func()) error {
	if !s.assumed() {
		f()
		return nil
	}
	done := make(chan error)
	// The goroutine ends with f and is awaited below. It never unlocks its thread, so that the
	// thread ends with it and nothing else runs with these permissions.
	go func() {
		runtime.LockOSThread()
		err := s.assume()
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}

// assume gives the calling thread the file permissions of the user of the service. The caller has
// locked its goroutine to the thread and never unlocks it, because the change is not undone. The
// kernel takes the capabilities that have to do with files from a thread whose user is no longer
// root.
func (s Service) assume() error {
	ids := make([]uint32, len(s.groups)+1)
	for i, id := range s.groups {
		ids[i] = uint32(id)
	}
	// Not unix.Setgroups, which changes all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(s.groups)), uintptr(unsafe.Pointer(&ids[0])), 0); errno != 0 {
		return fmt.Errorf("take on the groups of %s: %w", s.User, errno)
	}
	if err := unix.Setfsgid(s.gid); err != nil {
		return fmt.Errorf("take on the group of %s: %w", s.User, err)
	}
	if err := unix.Setfsuid(s.uid); err != nil {
		return fmt.Errorf("take on the user %s: %w", s.User, err)
	}
	return nil
}
