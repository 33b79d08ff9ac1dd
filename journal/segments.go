package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/durable"
)

const (
	suffix     = ".seg"
	damagedDir = "damaged"
)

// segmentFile is a segment that is not written any more.
type segmentFile struct {
	name string
	seq  uint64
	size int64
	used int64     // what lies behind is preallocated space to give back; 0: not known
	end  time.Time // when the next one was begun; zero: not known
}

// listSegments returns the segments of a folder, oldest first.
func listSegments(fsys durable.FS, dir string) ([]segmentFile, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []segmentFile
	for _, name := range names { // sorted, and the numbers have a fixed width
		hex, ok := strings.CutSuffix(name, suffix)
		seq, err := strconv.ParseUint(hex, 16, 64)
		if ok && err == nil && len(hex) == 16 {
			out = append(out, segmentFile{name: name, seq: seq})
		}
	}
	return out, nil
}

// tidy runs after a new segment holds the whole state: damaged ones are moved
// away, and history above its bounds goes. The segment before the current one
// stays whatever the bounds say: it is what damage falls back to.
func (w *writer) tidy() {
	w.moveDamaged()
	w.trim()
	total := w.room
	for _, s := range w.closed {
		total += s.size
	}
	maxAge := w.j.cfg().MaxAge.D()
	removed := 0
	for len(w.closed) > 1 {
		old := w.closed[0]
		tooOld := maxAge > 0 && !old.end.IsZero() && w.j.o.Now().Sub(old.end) > maxAge
		if total <= int64(w.j.cfg().MaxSize) && !tooOld {
			break
		}
		if err := w.j.o.FS.Remove(filepath.Join(w.j.dir, old.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.log.Warn("journal history not removed", "file", old.name, "err", err)
			break
		}
		total -= old.size
		w.closed = w.closed[1:]
		removed++
	}
	if removed > 0 { // one that reappears after a power cut is removed again
		if err := w.j.o.FS.SyncDir(w.j.dir); err != nil {
			w.log.Warn("journal folder not synced", "file", w.j.dir, "err", err)
		}
	}
}

func (w *writer) moveDamaged() {
	for _, name := range w.damaged {
		if err := durable.Move(w.j.o.FS, filepath.Join(w.j.dir, name), filepath.Join(w.j.dir, damagedDir)); err != nil {
			w.log.Warn("damaged journal segment not moved", "file", name, "err", err)
			continue
		}
		w.log.Warn("damaged journal segment moved away", "file", filepath.Join(damagedDir, name))
	}
	w.damaged = nil
}

// trim gives back what a segment that was not closed had allocated in advance.
func (w *writer) trim() {
	for i := range w.closed {
		s := &w.closed[i]
		if s.used == 0 || s.used == s.size {
			continue
		}
		if err := truncate(w.j.o.FS, filepath.Join(w.j.dir, s.name), s.used); err != nil {
			w.log.Warn("space of a journal segment not given back", "file", s.name, "err", err)
		} else {
			s.size = s.used
		}
		s.used = 0
	}
}

func truncate(fsys durable.FS, path string, size int64) error {
	f, err := fsys.Open(path, os.O_RDWR)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// discard removes what a failed try for a segment left. Nothing was told to it
// that the state in memory does not hold; what cannot be removed does no harm.
func (w *writer) discard(name string) {
	for _, n := range []string{name, name + durable.TempSuffix} {
		_ = w.j.o.FS.Remove(filepath.Join(w.j.dir, n))
	}
}
