package audit

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/spool"
)

// Options say what is judged.
type Options struct {
	State  string    // state_dir
	Spool  string    // folder of the spool
	Since  time.Time // what ended before is not judged; zero: all that the journal has
	Inputs []string  // none: all
	Drops  bool      // the configuration allows the spool to drop

	pieces bool // each piece that was accepted is wanted, which costs memory
}

// Read reports which records the journal, the spool, the quarantine and the source files account
// for, and which are lost. It takes no lock and writes nothing, and the agent may run. The report
// on a running agent is about a moment while Read reads. A payload that moved between two places
// meanwhile is looked for again before it is reported as lost. The error is one of reading, or
// durable.ErrVersion.
func Read(o Options) (*Report, error) {
	h, x, err := read(o)
	if err != nil {
		return nil, err
	}
	return h.report(x, o.Inputs), nil
}

// read collects what the folders contain: h is what the journal records, x what the spool, the
// quarantine and the files on disk tell. A payload that the journal says is in the spool, and that
// is not found there, may have ended meanwhile or moved to another file of the spool, so read tries
// up to three times.
func read(o Options) (h *history, x *facts, err error) {
	x = &facts{running: running(o.State), drops: o.Drops}
	for range 3 {
		h = newHistory(o.Since)
		h.pieces = o.pieces
		if err := journal.History(filepath.Join(o.State, "journal"), func(e *journal.Entry) error { h.take(e); return nil }); err != nil {
			return nil, nil, err
		}
		if x.spooled != nil && h.missing(x.spooled) == 0 {
			break
		}
		before := x.spooled
		if x.spooled, x.badSpool, err = listSpool(o.Spool); err != nil {
			return nil, nil, err
		}
		for id := range before { // a payload that moved may be in one of the two lists alone
			x.spooled[id] = true
		}
		if h.missing(x.spooled) == 0 || !x.running {
			break
		}
	}
	if x.quarantined, x.badLines, err = listQuarantine(filepath.Join(o.State, "quarantine"), o.Since); err != nil {
		return nil, nil, err
	}
	x.sources = look(h)
	return h, x, nil
}

// running reports whether an agent answers in a state folder. It is also true if that cannot be found
// out, as without permission to connect.
func running(dir string) bool {
	c, err := net.DialTimeout("unix", filepath.Join(dir, telemetry.SocketName), 5*time.Second)
	if err == nil {
		c.Close()
		return true
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOTDIR)
}

// listSpool returns the ids of the payloads in the spool, and how many of its ranges are damaged. The torn
// end of a segment, as a crash during a write leaves it, is no damage.
func listSpool(dir string) (ids map[record.BatchID]bool, bad int, err error) {
	ids = map[record.BatchID]bool{}
	err = spool.List(dir, func(e spool.Entry) error {
		switch {
		case e.Payload != nil:
			ids[e.Payload.ID] = true
		case !e.Torn:
			bad++
		}
		return nil
	})
	return ids, bad, err
}

// listQuarantine returns how many records of each file came to quarantine at the time since or
// later, and how many of its lines cannot be read. The torn end of a file, as a crash leaves it,
// does not count.
func listQuarantine(dir string, since time.Time) (all map[record.File]int64, bad int, err error) {
	all = map[record.File]int64{}
	err = quarantine.List(dir, func(e quarantine.Entry) error {
		switch {
		case e.Torn:
		case e.Err != nil:
			bad++
		case !e.Time.Before(since):
			all[e.File]++
		}
		return nil
	})
	return all, bad, err
}

// look finds the files of the journal on disk, by path and inode. It leaves out files of which the
// path is not known, of which nothing more is to come (Done), that the agent has forgotten, or that
// could not be looked for.
func look(h *history) map[record.File]source {
	out := map[record.File]source{}
	folders := map[string]map[uint64][]os.DirEntry{}
	for name, f := range h.files {
		if f.info.Path == "" || f.info.Done || f.forgotten {
			continue
		}
		if s, sure := lookFor(&f.info, folders); sure {
			out[name] = s
		}
	}
	return out
}

// pathOf returns the path at which the file with this path and inode is now; false if it was not
// found, or could not be looked for.
func pathOf(i *record.FileInfo) (string, bool) {
	s, _ := lookFor(i, map[string]map[uint64][]os.DirEntry{})
	return s.path, s.found
}

// lookFor finds one file by its paths, and by its inode in the folders of these. sure is false if
// it was not found and a folder or file could not be read, so that it may be there. folders caches
// the contents of folders; the caller may pass an empty map.
func lookFor(i *record.FileInfo, folders map[string]map[uint64][]os.DirEntry) (s source, sure bool) {
	sure = true
	for _, path := range i.Paths() {
		dir := filepath.Dir(path)
		inodes, known := folders[dir]
		if !known {
			entries, err := os.ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				sure = false
			}
			inodes = map[uint64][]os.DirEntry{}
			for _, e := range entries {
				if st, err := os.Lstat(filepath.Join(dir, e.Name())); err == nil {
					if raw, ok := st.Sys().(*syscall.Stat_t); ok {
						inodes[raw.Ino] = append(inodes[raw.Ino], e)
					}
				}
			}
			folders[dir] = inodes
		}
		candidates := []string{path}
		for _, e := range inodes[i.Inode] {
			candidates = append(candidates, filepath.Join(dir, e.Name()))
		}
		for _, c := range candidates {
			var x unix.Statx_t
			err := unix.Statx(unix.AT_FDCWD, c, unix.AT_STATX_SYNC_AS_STAT, unix.STATX_BASIC_STATS, &x)
			switch {
			case err == nil && x.Ino == i.Inode && unix.Mkdev(x.Dev_major, x.Dev_minor) == i.Dev:
				size := int64(x.Size)
				if i.Packed.Size > 0 { // compressed: offsets count the bytes inside
					size = i.Size
				}
				return source{found: true, size: size, path: c}, true
			case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
				sure = false
			}
		}
	}
	return source{}, sure
}
