package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/units"
)

// disks checks the folders in which the agent keeps its state: permissions and free space.
func (r *run) disks(context.Context) {
	r.writable("state_dir", r.cfg.StateDir)
	r.shared(config.Absolute(r.cfg.StateDir))
	if r.cfg.Spool.MaxSize == 0 {
		r.add(Finding{ID: "spool", Severity: Warning, What: "there is no spool: in an outage the files alone are the buffer", Fix: "give spool.max_size a size, unless that is meant"})
	} else {
		r.writable("spool.dir", r.cfg.Spool.Dir)
		r.spoolSpace()
	}
	r.quarantineSpace()
}

// writable adds a finding on whether the service may write to a folder, or create it if it does not
// exist. key is the key of the configuration that names the folder.
func (r *run) writable(key, dir string) {
	dir = config.Absolute(dir)
	at, what := dir, "can be written"
	var err error
	for { // up to the first folder that exists
		taken := r.Service.as(func() { err = mayKeep(at) })
		err = errors.Join(taken, err)
		if !errors.Is(err, unix.ENOENT) || at == filepath.Dir(at) {
			break
		}
		at, what = filepath.Dir(at), "is not there yet, and can be made"
	}
	switch {
	case err == nil:
		r.ok("state", "", dir, "%s %s", key, what)
	case r.Service.Unit != "" && inTree(dir, r.Service.StateDir()) && !inTree(at, r.Service.StateDir()):
		r.ok("state", "", dir, "%s is not there yet; systemd makes it at the start", key)
	case errors.Is(err, unix.ENOTDIR):
		r.add(Finding{ID: "state", Severity: Error, Where: dir, What: key + " is no folder, or is below a file", Exit: exit.Config,
			Fix: "set " + key + " to a folder, or remove the file that is in its place"})
	default:
		f := Finding{ID: "state", Severity: Error, Where: dir, What: fmt.Sprintf("%s may not write in %s: %v", r.Service.name(), key, err), Fix: "set " + key + " to a folder on a disk"}
		if errors.Is(err, fs.ErrPermission) {
			install := fmt.Sprintf("install -d -m 700 -o %s -g %s %s", config.Quoted(r.Service.account()), config.Quoted(r.Service.group()), config.Quoted(dir))
			f.Fix = strings.Join(append([]string{"make it, and give it to " + r.Service.account(), install}, r.enter(filepath.Dir(dir))...), "\n")
		}
		r.add(f)
	}
}

// inTree says whether path is folder, or lies below it.
func inTree(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// mayKeep returns an error if the current user cannot keep files in a folder, as far as that shows
// without creating one. Folders of the kernel, such as /proc, are an error too.
func mayKeep(dir string) error {
	var st unix.Stat_t
	var disk unix.Statfs_t
	err := unix.Stat(dir, &st)
	if err == nil {
		err = unix.Statfs(dir, &disk)
	}
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return unix.ENOTDIR
	case slices.Contains([]int64{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC}, int64(disk.Type)):
		return errors.New("this is a kernel file system (such as /proc), not a disk")
	}
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

// spoolSpace compares the free space of the disk with what the spool may still take of it, and adds
// a finding. spool.min_free of the disk has to stay free.
func (r *run) spoolSpace() {
	dir := config.Absolute(r.cfg.Spool.Dir)
	free, err := freeOf(dir)
	if err != nil {
		r.add(Finding{ID: "spool.space", Severity: Warning, Where: dir, What: "the disk was not looked at: " + err.Error(), Fix: "check that disk\ndf -h " + config.Quoted(dir)})
		return
	}
	used, _ := held(dir) // 0 if it cannot be read
	room, want := free-int64(r.cfg.Spool.MinFree), int64(r.cfg.Spool.MaxSize)-used
	f := Finding{ID: "spool.space", Where: dir, Severity: OK, What: fmt.Sprintf("%s free; the spool may take %v of it, and leaves %v", size(free), r.cfg.Spool.MaxSize, r.cfg.Spool.MinFree)}
	switch {
	case room <= 0:
		f.Severity = Error
		f.What = fmt.Sprintf("%s are free, and spool.min_free is %v: the spool would take nothing", size(free), r.cfg.Spool.MinFree)
		f.Fix = "make room, lower spool.min_free, or set spool.dir to another disk\ndf -h " + config.Quoted(dir)
	case room < want:
		f.Severity = Warning
		f.What = fmt.Sprintf("the disk has room for %s of the %v of spool.max_size, above min_free", size(room), r.cfg.Spool.MaxSize)
		f.Fix = "make room, lower spool.max_size, or set spool.dir to another disk\ndf -h " + config.Quoted(dir)
	}
	r.add(f)
}

// quarantineSpace adds a finding on how many records are in quarantine and how full it is. It is an
// error if quarantine is full and quarantine.when_full is block, since a file with a bad record
// then waits.
func (r *run) quarantineSpace() {
	dir, most := filepath.Join(config.Absolute(r.cfg.StateDir), "quarantine"), int64(r.cfg.Quarantine.MaxSize)
	used, err := held(dir)
	records := 0
	if err == nil {
		err = quarantine.List(dir, func(quarantine.Entry) error { records++; return nil })
	}
	look := "look at it, and remove what is no longer needed, or raise quarantine.max_size\nkusto-agent quarantine ls --config " + config.Quoted(r.Path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		r.add(Finding{ID: "quarantine", Severity: Warning, Where: dir, What: "quarantine was not looked at: " + err.Error(), Fix: "run it as root or as the user of the service\nsudo kusto-agent check --config " + config.Quoted(r.Path)})
	case err != nil:
		r.add(Finding{ID: "quarantine", Severity: Warning, Where: dir, What: "quarantine was not looked at: " + err.Error(), Fix: look})
	case used >= most && r.cfg.Quarantine.WhenFull == "block":
		r.add(Finding{ID: "quarantine", Severity: Error, Where: dir, What: fmt.Sprintf("quarantine is full: %s of %v; what meets a bad record waits", size(used), r.cfg.Quarantine.MaxSize), Fix: look})
	case records > 0:
		r.add(Finding{ID: "quarantine", Severity: Warning, Where: dir, What: fmt.Sprintf("%s in quarantine, %s of %v", units.Counted(records, "record"), size(used), r.cfg.Quarantine.MaxSize), Fix: look})
	default:
		r.ok("quarantine", "", dir, "quarantine is empty")
	}
}

// freeOf returns the number of bytes that an ordinary user can still store on the disk of a folder.
// If the folder does not exist, it is the disk on which it would be created.
func freeOf(dir string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	for ; errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir); err = unix.Statfs(dir, &st) {
		dir = filepath.Dir(dir)
	}
	return int64(st.Bavail) * st.Bsize, err
}

// held returns the total size in bytes of the files in a folder and below; 0 if the folder does not
// exist.
func held(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile, or never made
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total, err
}

// size returns a number of bytes as a text for people, such as "1.5 GiB".
func size(n int64) string {
	for _, u := range []struct {
		name string
		unit units.Size
	}{{"GiB", units.GiB}, {"MiB", units.MiB}, {"KiB", units.KiB}} {
		if n >= int64(u.unit) {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.unit), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
