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

// listSegments returns the segments of the journal in the folder dir, oldest first, with name and
// number only. It passes over other files. A folder that does not exist has none.
func listSegments(fsys durable.FS, dir string) ([]segmentFile, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []segmentFile
	for _, name := range names { // sorted, and numbers of a fixed width: the oldest comes first
		hex, ok := strings.CutSuffix(name, suffix)
		seq, err := strconv.ParseUint(hex, 16, 64)
		if ok && err == nil && len(hex) == 16 {
			out = append(out, segmentFile{name: name, seq: seq})
		}
	}
	return out, nil
}

// history is what the folder holds besides the current segment.
type history struct {
	j       *Journal
	closed  []segmentFile // oldest first
	damaged []string      // to be moved away
	room    int64         // of the current one
}

// history returns the lists of old and damaged segments for tidy, which may run on another goroutine.
// The writer's own lists are empty until tidy is done and the caller takes h.closed back.
func (w *writer) history() *history {
	h := &history{j: w.j, closed: w.closed, damaged: w.damaged, room: w.room}
	w.closed, w.damaged = nil, nil
	return h
}

// tidy runs after a new segment has the whole state: it moves damaged segments to the
// folder damaged, and removes the oldest ones beyond max_size and max_age. It always
// keeps the segment before the current one, which recovery falls back to. After an error, which it
// logs, a later call tries again.
func (h *history) tidy() {
	h.moveDamaged()
	h.trim()
	total := h.room + h.j.segmentSize() // it may grow as much while the next one is made
	for _, s := range h.closed {
		total += s.size
	}
	maxAge := h.j.cfg().MaxAge.D()
	removed := 0
	for len(h.closed) > 1 {
		old := h.closed[0]
		tooOld := maxAge > 0 && !old.end.IsZero() && h.j.o.Now().Sub(old.end) > maxAge
		if total <= int64(h.j.cfg().MaxSize) && !tooOld {
			break
		}
		if err := h.j.o.FS.Remove(filepath.Join(h.j.dir, old.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.j.o.Logger.Warn("old journal segment could not be removed; it only takes up disk space, and the agent tries again later", "file", old.name, "err", err)
			break
		}
		total -= old.size
		h.closed = h.closed[1:]
		removed++
	}
	if removed > 0 { // one that reappears after a power cut is removed again
		if err := h.j.o.FS.SyncDir(h.j.dir); err != nil {
			h.j.o.Logger.Warn("removal of old journal segments was not synced; segments that reappear after a power failure are removed again", "file", h.j.dir, "err", err)
		}
	}
}

// moveDamaged moves the damaged segments to the folder damaged. One that cannot be moved stays where
// it is; both are logged.
func (h *history) moveDamaged() {
	for _, name := range h.damaged {
		if err := durable.Move(h.j.o.FS, filepath.Join(h.j.dir, name), filepath.Join(h.j.dir, damagedDir)); err != nil {
			h.j.o.Logger.Warn("damaged journal segment could not be moved to the folder damaged/; it stays where it is and is read again at the next start", "file", name, "err", err)
			continue
		}
		h.j.o.Logger.Warn("damaged journal segment was moved to the folder damaged/; batches that it recorded as accepted may be sent again and stored twice", "file", filepath.Join(damagedDir, name))
	}
	h.damaged = nil
}

// trim frees the space that a segment which was not closed had allocated in advance.
func (h *history) trim() {
	for i := range h.closed {
		s := &h.closed[i]
		if s.used == 0 || s.used == s.size {
			continue
		}
		if err := truncate(h.j.o.FS, filepath.Join(h.j.dir, s.name), s.used); err != nil {
			h.j.o.Logger.Warn("unused space of a closed journal segment could not be freed; it only takes up disk space", "file", s.name, "err", err)
		} else {
			s.size = s.used
		}
		s.used = 0
	}
}

// truncate truncates a file to size bytes.
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

// discard removes the files of a segment that could not be made. The state in memory has
// all its entries; a file that cannot be removed does no harm.
func (w *writer) discard(name string) {
	for _, n := range []string{name, name + durable.TempSuffix} {
		_ = w.j.o.FS.Remove(filepath.Join(w.j.dir, n))
	}
}
