package tail

import (
	"golang.org/x/sys/unix"
)

// keptBack is how many descriptors of the process are not for files that are
// read: connections, the journal, the spool, watches, and looking around.
const keptBack = 256

// allowed returns how many of want descriptors readers may hold, so that enough are left
// for the rest of the process.
func allowed(want int) int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return want
	}
	soft := int(min(l.Cur, 1<<30))
	return min(want, max(soft-keptBack, soft/2))
}

// boundOpen sets how many files may be open now. It logs once that a limit of the process makes
// that fewer than configured, so that files are opened only for their turns (turns). The caller
// holds mu.
func (t *Tailer) boundOpen() {
	most := allowed(t.o.OpenFiles)
	t.most = most
	t.spareOthers()
	files := t.files()
	if turns := most < t.o.OpenFiles && files > most; turns != t.turns {
		t.turns = turns
		if turns {
			t.o.Logger.Warn("open file limit of the process is below limits.open_files: only some files are open at a time, and the agent opens the others as their turn comes", "files", files,
				"open", most, "fix", "raise LimitNOFILE of the unit; a file that is deleted while it is not open cannot be read to its end")
		}
	}
}

// atRest lists the file of a reader that is at its end as one that may be closed, since it
// can be opened again by its path. The caller holds mu.
func (t *Tailer) atRest(r *reader) {
	if r.f != nil && !r.life.IsGone() && !r.life.IsDeleted() && r.atEnd {
		r.own().spare = t.spares.PushBack(r)
	}
}

// inUse takes the file of a reader off the list of those that may be closed. The caller
// holds mu.
func (t *Tailer) inUse(r *reader) {
	if r.spare != nil {
		t.spares.Remove(r.spare)
		r.spare = nil
	}
}

// spareOthers closes files that may be closed, those longest idle first, while too many
// are open. It returns false if too many are still open. The caller holds mu.
func (t *Tailer) spareOthers() bool {
	for int(t.open.Load()) > t.most {
		first := t.spares.Front()
		if first == nil {
			return false
		}
		r := first.Value.(*reader)
		t.inUse(r)
		t.closeIdle(r)
	}
	return true
}

// isUnchanged reports, by a look at its path, whether a closed file is still as it was when it was
// read to its end. Then the file need not be opened. It returns false if the turn has more to do
// than to read on: the file was deleted or renamed, the run is --once, or bytes before the offset
// are to be compared.
func (w *worker) isUnchanged(r *reader) bool {
	path, life := w.job.path, w.job.life
	wanted := life.IsGone() || life.IsDeleted() || w.job.moved || life.IsDraining()
	if wanted || w.t.o.Once || r.offset != r.size || r.old > 0 || r.z == nil && r.mtime != r.checked {
		return false
	}
	st, err := statPath(path)
	if err != nil || st.node != nodeOf(r.info) {
		return false
	}
	if r.z != nil {
		return r.z.isOf(st)
	}
	return st.size == r.size && st.mtime == r.mtime
}
