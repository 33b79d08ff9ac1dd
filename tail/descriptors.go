package tail

import (
	"container/list"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"kusto-agent/tail/internal/inode"
)

// descriptors counts the open files of readers. Guarded by Tailer.mu.
type descriptors struct {
	open   atomic.Int64 // held; for any goroutine
	most   int          // to hold now
	few    bool         // it was logged that they are too few
	spares list.List    // of readers that could do without theirs, the one that rests longest first
}

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

// boundOpen sets how many files may be open now, and logs once that a limit of the process makes
// that too few. The caller holds mu.
func (t *Tailer) boundOpen() {
	most := allowed(t.o.OpenFiles)
	t.fds.most = most
	t.spareOthers()
	files := t.files()
	if few := most < t.o.OpenFiles && files > most; few != t.fds.few {
		t.fds.few = few
		if few {
			t.o.Logger.Warn("open file limit of the process is below limits.open_files: only some files are open at a time, and the agent opens the others as their turn comes", "files", files,
				"open", most, "fix", "raise LimitNOFILE of the unit; a file that is deleted while it is not open cannot be read to its end")
		}
	}
}

// atRest lists the file of a reader that is at its end as one that may be closed, since it
// can be opened again by its path. The caller holds mu.
func (t *Tailer) atRest(r *reader) {
	if r.f != nil && !r.life.IsGone() && !r.life.IsDeleted() && r.atEnd {
		r.own().spare = t.fds.spares.PushBack(r)
	}
}

// inUse takes the file of a reader off the list of those that may be closed. The caller holds mu.
func (t *Tailer) inUse(r *reader) {
	if r.spare != nil {
		t.fds.spares.Remove(r.spare)
		r.spare = nil
	}
}

// spareOthers closes files that may be closed, those longest idle first, while too many
// are open. It returns false if too many are still open. The caller holds mu.
func (t *Tailer) spareOthers() bool {
	for int(t.fds.open.Load()) > t.fds.most {
		first := t.fds.spares.Front()
		if first == nil {
			return false
		}
		r := first.Value.(*reader)
		t.inUse(r)
		t.closeIdle(r)
	}
	return true
}

// closeIdle closes the file of a reader until its next turn, unless it may not be found again. The
// caller holds mu.
func (t *Tailer) closeIdle(r *reader) {
	if r.f != nil && !r.life.IsGone() && !r.life.IsDeleted() {
		t.shut(r)
		t.endUnpacking(r)
		r.lighten()
	}
}

// shut closes the file of a reader, if it is open. The caller holds mu.
func (t *Tailer) shut(r *reader) {
	if r.f != nil {
		r.f.Close()
		r.f = nil
		t.fds.open.Add(-1)
	}
}

// isUnchanged reports, by a look at its path, whether a closed file is as it was when it was read
// to its end, and the turn has nothing else to do, so that it need not be opened.
func (w *worker) isUnchanged(r *reader) bool {
	path, life := w.job.path, w.job.life
	wanted := life.IsGone() || life.IsDeleted() || w.report.moved || life.IsDraining()
	if wanted || w.t.o.Once || r.Offset() != r.Size || r.old > 0 || r.z == nil && r.Mtime != r.Checked {
		return false
	}
	st, err := inode.At(path)
	if err != nil || st.Node != inode.Of(r.Info) {
		return false
	}
	if r.z != nil {
		return r.z.form().isOf(st)
	}
	return st.Size == r.Size && st.Mtime == r.Mtime
}

// stat is inode.In; tests can change the size it reports.
func (t *Tailer) stat(f *os.File) (inode.Status, error) {
	s, err := inode.In(f)
	if t.size != nil {
		s.Size = t.size(s.Size)
	}
	return s, err
}
