package tail

import (
	"cmp"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/arrivals"
	"kusto-agent/tail/internal/tracker"
)

// FileStatus is how far one file is, for people.
type FileStatus struct {
	File    record.File // its ID is zero where nothing is known of the file but its path
	Path    string
	Size    int64
	Read    int64     // bytes handed over
	Safe    int64     // bytes that are safe
	Waits   time.Time // since when at least the oldest byte that is not safe is there; zero: there is none
	Gone    bool      // its path is gone or names another file
	Deleted bool
	Pinned  int64 // bytes that are on disk only because the file is held open
	Grown   time.Time
	Unread  Unread // why nobody reads it; empty: somebody does
	Why     string // why it is not being read; empty: it is
	Fix     string // what to do about it; empty: nothing is to be done, or it is not known
}

// Unread is why nobody reads a file, in a word.
type Unread string

// The reasons for which nobody reads a file.
const (
	NotRead    Unread = "not read"   // something is in the way
	LeftOut    Unread = "left out"   // the configuration says so
	Remembered Unread = "remembered" // it is gone, or an older generation
)

// State names the state of a file, as in the table of docs/operations.md.
func (f FileStatus) State() string {
	switch {
	case f.Unread != "":
		return string(f.Unread)
	case f.Deleted:
		return "deleted"
	case f.Gone:
		return "rotated"
	case f.Why != "":
		return "waiting"
	case f.Read < f.Size:
		return "reading"
	case f.Safe < f.Size:
		return "sending" // all of it is read
	}
	return "idle"
}

// show stores, at the end of a turn that led to next, what the status reports until the next. It
// returns what the file waits for; 0: nothing, or only that it grows. The caller holds mu.
func (r *reader) show(next tracker.Outcome) (wait tracker.Wait) {
	switch {
	case r.seeks > 0 && r.Size > 0 && r.Offset() == 0:
		wait = tracker.ForPredecessor
	case r.lent != nil:
		wait = tracker.ForSuccessor
	case next.Waits():
		wait = tracker.ForRoom
	case r.failed != nil || !next.Rests() || r.Offset() >= r.Size:
	case r.Stuck == r.Size:
		wait = tracker.ForRecordEnd
	case r.Offset() == r.End(r.Size):
		wait = tracker.ForContent
	}
	r.noteRead()
	if r.Mtime != 0 { // it was looked at
		r.noteArrival()
	}
	r.shown = shown{
		size: max(r.Size, 0), mtime: r.Mtime,
		grown: r.grown, active: r.active,
	}
	r.ends = ends{atEnd: r.Offset() == r.Size, reserved: r.End(r.Size) < r.Size}
	return wait
}

// noteRead notes how far a reader has read its generation. It does nothing if another reader has
// taken the generation over. The caller holds mu.
func (r *reader) noteRead() {
	if r.k.reader == r {
		r.k.moveTo(r.Offset(), r.Mark())
	}
}

// Files returns the status of every file that is being read, in no order.
func (t *Tailer) Files() []FileStatus {
	all := statuses{without: func(*reader) bool { return false }}
	t.on(&all)
	return all.files
}

// FilesAtWork returns the status of every file that is being read and not idle, or has a problem
// with a fix, in no order, and the number of the others by input: of many files most are idle.
func (t *Tailer) FilesAtWork() (files []FileStatus, idle map[string]int) {
	all := statuses{without: t.isIdle}
	t.on(&all)
	return all.files, all.others
}

// statuses asks for the status of every file that is being read, but those for which without returns true are
// counted by input.
type statuses struct {
	without func(*reader) bool
	files   []FileStatus
	others  map[string]int
}

func (e *statuses) happen(t *Tailer) {
	e.files, e.others = []FileStatus{}, make(map[string]int)
	for _, in := range t.inputs() {
		for r := range in.readers.All() {
			if e.without(r) {
				e.others[in.Name]++
			} else {
				e.files = append(e.files, t.statusOf(r))
			}
		}
		e.files = in.appendPacked(e.files)
	}
}

// isIdle reports whether the status of a reader's file is "idle" and nothing has to be fixed, as
// statusOf says, at a fraction of its cost. The caller holds mu.
func (t *Tailer) isIdle(r *reader) bool {
	return r.k.position >= r.shown.size && r.k.safe >= r.shown.size && !r.life.IsGone() && !r.life.IsDeleted() &&
		r.life.Wait() == 0 && r.why() == "" && t.fixOf(r) == ""
}

// appendPacked adds each compressed file of the input that waits to be read. The caller holds mu.
func (in *input) appendPacked(files []FileStatus) []FileStatus {
	for _, p := range in.packed {
		if why := p.why(); why != "" && !p.barred {
			files = append(files, FileStatus{File: record.File{Input: in.Name}, Path: p.path, Grown: p.since, Why: why})
		}
	}
	return files
}

// fixOf returns what can be done about a file that cannot be read; empty: it can be. The caller holds mu.
func (t *Tailer) fixOf(r *reader) string {
	notice, _ := t.noticeOf(r)
	return notice.Fix
}

// statusOf returns the status of a reader's file. The caller holds mu.
func (t *Tailer) statusOf(r *reader) FileStatus {
	f := FileStatus{
		File: r.k.file(), Path: r.path(), Size: r.shown.size, Read: r.k.position, Safe: min(r.k.safe, r.shown.size),
		Gone: r.life.IsGone(), Deleted: r.life.IsDeleted(), Grown: r.shown.grown.Time(), Why: cmp.Or(r.life.Wait().String(), r.why()), Fix: t.fixOf(r),
	}
	if f.Safe < f.Size && r.arrivals != nil {
		f.Waits = r.arrivals.Of(f.Safe)
	}
	if r.life.IsDeleted() {
		f.Pinned = r.pins()
	}
	return f
}

// Problems returns why files, folders or inputs are not being read, by path.
func (t *Tailer) Problems() map[string]string {
	all := make(map[string]string)
	for about, n := range t.notices.All() {
		all[about.String()] = n.Why
	}
	return all
}

// Refused reports whether a file that ought to be read could not be read, or a folder not be
// examined, at the last try.
func (t *Tailer) Refused() bool {
	for _, n := range t.notices.All() {
		if n.Unread {
			return true
		}
	}
	return false
}

// Scanned reports whether at least one scan has ended.
func (t *Tailer) Scanned() bool { return t.scans.done.Load() > 0 }

// noteArrival notes the size of the file, if some of its bytes are not safe yet. The caller holds
// mu.
func (r *reader) noteArrival() {
	if r.arrivals == nil {
		r.arrivals = new(arrivals.Notes)
	}
	r.arrivals.Add(r.Size, r.Mtime, r.k.safe)
	r.dropArrivals()
}

// dropArrivals drops the notes of a file of which all is safe. The caller holds mu.
func (r *reader) dropArrivals() {
	if a := r.arrivals; a != nil && a.AreSafe(r.k.safe) {
		r.arrivals = nil
	}
}
