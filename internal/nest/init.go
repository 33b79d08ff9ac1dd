package nest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The init of the nest is this test binary. It runs in new pid, mount, net, ipc
// and uts namespaces, makes the root and becomes systemd. Nothing it mounts is
// seen outside, and all of it goes with the namespace.

// exitRefused is how it ends where the kernel does not let it.
const exitRefused = 77

// becomeInit does not return. base is an empty folder to mount on, and what is
// in the folder brought is in /nest afterwards.
func becomeInit(base, brought string) {
	runtime.LockOSThread() // the thread that leaves its cgroup namespace is the one that becomes systemd
	err := makeRoot(base, brought)
	if err == nil {
		err = fewerPowers()
	}
	if err == nil {
		err = bootSystemd()
	}
	fmt.Fprintln(os.Stderr, err)
	if refused(err) {
		os.Exit(exitRefused)
	}
	os.Exit(1)
}

// refused says that the kernel grants this to others, or to nobody.
func refused(err error) bool {
	no := []error{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.ENODEV, unix.EROFS}
	return slices.ContainsFunc(no, func(target error) bool { return errors.Is(err, target) })
}

// mounted is one mount below the new root.
type mounted struct {
	kind, at string
	flags    uintptr
	data     string
}

const quiet = unix.MS_NOSUID | unix.MS_NODEV

// makeRoot makes an overlay of the machine the root, with kernel folders of its
// own and nothing of the temporary folders of the machine.
func makeRoot(base, brought string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	root, err := overlay(base, brought)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare cgroups: %w", err)
	}
	for _, m := range []mounted{
		{"proc", "proc", quiet | unix.MS_NOEXEC, ""},
		{"sysfs", "sys", quiet | unix.MS_NOEXEC | unix.MS_RDONLY, ""},
		{"cgroup2", "sys/fs/cgroup", quiet | unix.MS_NOEXEC, ""},
		{"tmpfs", "dev", unix.MS_NOSUID, "mode=755"},
		{"tmpfs", "run", quiet, "mode=755"},
		{"tmpfs", "tmp", quiet, "mode=1777"},
		{"tmpfs", "var/tmp", quiet, "mode=1777"},
		{"tmpfs", "dev/shm", quiet, "mode=1777"},
		{"devpts", "dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"},
	} {
		if err := m.make(root); err != nil {
			return err
		}
	}
	if err := devices(filepath.Join(root, "dev")); err != nil {
		return err
	}
	// These belong to the whole machine.
	for _, name := range []string{"proc/sys", "proc/sysrq-trigger"} {
		if err := readOnly(filepath.Join(root, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return enter(root)
}

func (m mounted) make(root string) error {
	at := filepath.Join(root, m.at)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.kind, at, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.kind, at, err)
	}
	return nil
}

// overlay lays an empty tree in memory over the root of the machine, copies into
// it what was brought, and takes away what the machine itself would start.
func overlay(base, brought string) (root string, err error) {
	if err := (mounted{"tmpfs", "", 0, "mode=755"}).make(base); err != nil {
		return "", err
	}
	for _, dir := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o755); err != nil {
			return "", err
		}
	}
	data := fmt.Sprintf("lowerdir=/,upperdir=%s/upper,workdir=%[1]s/work", base)
	if err := (mounted{"overlay", "root", 0, data}).make(base); err != nil {
		return "", err
	}
	root = filepath.Join(base, "root")
	if err := os.CopyFS(filepath.Join(root, "nest"), os.DirFS(brought)); err != nil {
		return "", err
	}
	return root, strip(root)
}

// strip leaves systemd with its own units alone, and none of them started by
// itself: what runs is what the test starts.
func strip(root string) error {
	gone := []string{
		"etc/systemd/system", "etc/fstab", "etc/machine-id", "etc/credstore", "etc/credstore.encrypted",
		"etc/kusto-agent", "var/lib/kusto-agent", "var/log/journal", "var/lib/systemd",
		"usr/lib/systemd/system-generators", "lib/systemd/system-generators",
	}
	for _, units := range []string{"usr/lib/systemd/system", "lib/systemd/system"} {
		wants, err := filepath.Glob(filepath.Join(root, units, "*.wants"))
		if err != nil {
			return err
		}
		for _, w := range wants {
			gone = append(gone, strings.TrimPrefix(w, root))
		}
	}
	for _, name := range gone {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"etc/systemd/system", "var/lib/systemd"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
	}
	return os.CopyFS(filepath.Join(root, "etc/systemd/system"), os.DirFS(filepath.Join(root, "nest/units")))
}

// devices makes those that every program may expect.
func devices(dev string) error {
	for name, number := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := unix.Mknod(filepath.Join(dev, name), unix.S_IFCHR, int(unix.Mkdev(1, number))); err != nil {
			return fmt.Errorf("make device %s: %w", name, err)
		}
		if err := os.Chmod(filepath.Join(dev, name), 0o666); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// readOnly binds what is at path to itself, not to be written.
func readOnly(path string) error {
	err := unix.Mount(path, path, "", unix.MS_BIND, "")
	if err == nil {
		err = unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|quiet|unix.MS_NOEXEC, "")
	}
	if err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// enter makes root the root of the namespace and lets go of the old one. The
// mounts then propagate among themselves, as on a machine: without that the
// credentials that systemd mounts for a service never reach it.
func enter(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	return nil
}

// fewerPowers takes those over the clock, the kernel and its log, which no
// namespace holds apart.
func fewerPowers() error {
	for _, power := range []uintptr{unix.CAP_SYS_TIME, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYSLOG, unix.CAP_SYS_BOOT} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, power, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", power, err)
		}
	}
	return nil
}

// bootSystemd becomes systemd, which dies with the test whatever happens: the
// death signal of this thread is not that of the one the process began with.
func bootSystemd() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set death signal: %w", err)
	}
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "container=test"}
	err := unix.Exec(Manager, []string{Manager, "--unit=nest.target"}, env)
	return fmt.Errorf("execute %s: %w", Manager, err)
}
