package tail

import (
	"time"

	"kusto-agent/record"
)

// FileStatus is how far one file is, for people.
type FileStatus struct {
	File    record.File
	Path    string
	Size    int64
	Read    int64 // bytes handed over
	Safe    int64 // bytes that are safe
	Gone    bool  // its path is gone or names another file
	Deleted bool
	Grown   time.Time
	Why     string // why it is not being read; empty: it is
}

// State says in a word how a file fares.
func (f FileStatus) State() string {
	switch {
	case f.Deleted:
		return "deleted"
	case f.Gone:
		return "rotated"
	case f.Why != "":
		return "waiting"
	case f.Read < f.Size:
		return "reading"
	}
	return "idle"
}

// show copies what the status tells, at the end of a turn. The caller holds
// mu.
func (r *reader) show(next after) {
	why := r.shown.failed
	switch {
	case next == parked:
		why = "what was read of it has to be accepted first"
	case why == "" && next == idle && r.stuck == r.size && r.offset < r.size:
		why = "its last record has no end yet"
	}
	r.k.trail.add(r.offset, r.mark)
	r.shown = shown{
		file: r.file, size: max(r.size, 0), offset: r.offset, mark: r.mark, mtime: r.mtime,
		grown: r.grown, atEnd: r.offset == r.size, why: why, failed: r.shown.failed,
	}
}

// Files tells how far every file is, in no order.
func (t *Tailer) Files() []FileStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []FileStatus
	for _, in := range t.inputs {
		for _, r := range in.readers {
			all = append(all, FileStatus{
				File: r.shown.file, Path: r.path, Size: r.shown.size, Read: r.shown.offset, Safe: min(r.safe, r.shown.size),
				Gone: r.gone, Deleted: r.deleted, Grown: r.shown.grown, Why: r.shown.why,
			})
		}
	}
	return all
}

// Problems tells what is not being read, by path, and why.
func (t *Tailer) Problems() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]string, len(t.told))
	for about, c := range t.told {
		all[about.String()] = c.why
	}
	return all
}

// Refused reports whether there is a file, or a folder, that could not be
// opened.
func (t *Tailer) Refused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.told {
		if c.file {
			return true
		}
	}
	return false
}

// Scanned reports whether the files were looked for at least once.
func (t *Tailer) Scanned() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scans > 0
}
