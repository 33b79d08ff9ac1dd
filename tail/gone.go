package tail

import (
	"cmp"
	"container/list"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

// absence is a reader whose file a scan did not find, and what a look at it says.
type absence struct {
	r       *reader
	node    inode.Node
	path    string
	f       *os.File
	deleted bool  // no name is left
	pinned  int64 // its size, where that is known
	left    bool  // its path is gone, or names another file
}

// look finds out whether the file of an absent reader still has a name. Another goroutine may close
// a.f meanwhile; deleted then stays.
func (a *absence) look() {
	if a.f != nil {
		if st, err := inode.In(a.f); err == nil {
			a.deleted, a.pinned = st.Links == 0, st.Size
		}
	}
	a.left = leadsElsewhere(a.path, a.node)
}

// leadsElsewhere reports whether a path is gone, or names another file than n. It is false if the path
// cannot be examined.
func leadsElsewhere(path string, n inode.Node) bool {
	st, err := inode.At(path)
	return err == nil && st.Node != n || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// miss handles the files that the scan w did not find: the tracker decides about those with a
// reader, files that may be copies are compared by their descriptors, and generations without a
// file are forgotten after forget_after.
func (d *discovery) miss(in *input, w *finder.Walk) {
	absent, vanished := d.absent(in, w)
	for _, s := range vanished {
		d.missCopy(in, s)
	}
	if len(absent) > 0 {
		d.stirred = d.scans.no
	}
	for i := range absent {
		absent[i].look()
	}
	d.mu.Lock()
	for _, a := range absent {
		if a.pinned != a.r.pinned {
			a.r.own().pinned = a.pinned
		}
		d.apply(a.r, tracker.Unseen{Left: a.left, Deleted: a.deleted})
	}
	missing := d.longMissing(in, w)
	d.mu.Unlock()
	for _, c := range missing {
		if _, there := in.folders.FindInfo(c.Info); d.forgot(in, c, there) {
			d.forget(c.k.file())
		}
	}
}

// absent returns the readers, and the files that may be copies, that the scan w did not find.
// It forgets such compressed files.
func (d *discovery) absent(in *input, w *finder.Walk) (all []absence, vanished []suspicion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(in.packed, func(_ inode.Node, p *packed) bool { return p.scan != d.scans.no && !w.Unknown(p.path) })
	for r := range in.readers.All() {
		if r.life.Awaits(d.scans.no) && !w.Unknown(r.path()) {
			all = append(all, absence{r: r, node: r.node(), path: r.path(), f: r.f, deleted: r.life.IsDeleted(), pinned: r.pinned})
		}
	}
	return all, d.vanished(in, w)
}

// mostBegan is the number of scans whose start is remembered.
const mostBegan = 16

// beganScan returns when a scan began, of whose number these are the last bits; the zero time: it was
// too long ago. The caller holds mu.
func (t *Tailer) beganScan(scan uint32) time.Time {
	if ago := uint32(t.scans.no) - scan; ago < mostBegan {
		return t.scans.began[(t.scans.no-uint64(ago))%mostBegan]
	}
	return time.Time{}
}

// rotatedAway counts and logs that the file of r is gone from its path, and notes it for
// findRotated. The caller holds mu.
func (t *Tailer) rotatedAway(r *reader) {
	info := r.k.info.Info()
	info.Path = r.path()
	r.in.rotated = append(r.in.rotated, rotated{info: info, since: t.beganScan(r.life.FoundBy()), deleted: r.life.IsDeleted()})
	r.own().leftAt = agenda.Now()
	t.o.Metrics.Rotation(r.in.Name)
	t.o.Logger.Info("file was moved away or deleted; the agent keeps it open and reads it to its end", "file", r.path(), "bytes", r.shown.size-r.k.position)
}

// longMissing returns the generations that have had no reader since a scan at least forget_after
// ago. The time begins again if the folder cannot be examined. The caller holds mu.
func (d *discovery) longMissing(in *input, w *finder.Walk) (all []*candidate) {
	now := time.Now()
	for k := range in.known.All() {
		if k.reader != nil {
			continue
		}
		if k.missing.IsZero() || w.Unknown(k.info.Info().Path) {
			k.own().missing = now
		}
		if now.Sub(k.missing) >= in.ForgetAfter.D() {
			all = append(all, k.candidate(d.scans.no))
		}
	}
	return all
}

// forgot removes a generation from memory and reports whether it did: not if it has a reader, or if
// its file exists (there) and it is the newest of it, which then does not count as missing.
func (d *discovery) forgot(in *input, c *candidate, there bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := c.k
	last := in.byNode.has(k)
	if there && last {
		k.own().missing = time.Time{}
	}
	if there && last || k.reader != nil {
		return false
	}
	in.known.Delete(k.file())
	in.heads.remove(k)
	in.byNode.forget(k)
	return true
}

// pins is how many bytes of disk space a deleted file takes only because the agent has it
// open. The caller holds mu.
func (r *reader) pins() int64 {
	if r.z != nil {
		return r.z.file.Size
	}
	return max(r.pinned, r.shown.size)
}

// boundPinned abandons the deleted files of an input, those first that were written to the longest
// time ago, while all take more space than max_pinned_deleted. The caller holds mu.
func (t *Tailer) boundPinned() {
	for _, in := range t.inputs {
		var pinned int64
		var held []*reader
		for r := range in.readers.All() {
			if r.life.IsDeleted() && r.life.Wish() != tracker.Drop {
				pinned += r.pins()
				held = append(held, r)
			}
		}
		slices.SortFunc(held, func(a, b *reader) int {
			return cmp.Or(cmp.Compare(a.shown.mtime, b.shown.mtime), cmp.Compare(a.shown.grown, b.shown.grown))
		})
		for _, r := range held {
			if pinned <= int64(in.MaxPinnedDeleted) {
				break
			}
			pinned -= r.pins()
			t.abandon(r)
		}
	}
}

// abandon has a deleted file closed, so that its space on the disk is freed. Unread
// bytes of the file are lost, counted and logged. The caller holds mu.
func (t *Tailer) abandon(r *reader) {
	t.apply(r, tracker.Wished{Wish: tracker.Drop})
	end := r.shown.size
	if r.z == nil {
		end = max(end, r.pinned)
	}
	unread := max(end-r.k.position, 0)
	if unread == 0 {
		return // all of it was read, and only has to become safe
	}
	r.k.own().toldLost = true
	t.lose(r.k.file(), r.path(), r.k.position, unread, "deleted file abandoned, its unread bytes are lost: deleted files take more space than max_pinned_deleted",
		"end", end, "fix", "raise max_pinned_deleted of the input, or see why its records are not accepted")
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

// inUse takes the file of a reader off the list of those that may be closed. The caller
// holds mu.
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

// isUnchanged reports, by a look at its path, whether a closed file is as it was when it was read
// to its end, and the turn has nothing else to do, so that it need not be opened.
func (w *worker) isUnchanged(r *reader) bool {
	path, life := w.job.path, w.job.life
	wanted := life.IsGone() || life.IsDeleted() || w.job.moved || life.IsDraining()
	if wanted || w.t.o.Once || r.Offset() != r.size || r.old > 0 || r.z == nil && r.mtime != r.checked {
		return false
	}
	st, err := inode.At(path)
	if err != nil || st.Node != inode.Of(r.info) {
		return false
	}
	if r.z != nil {
		return r.z.isOf(st)
	}
	return st.Size == r.size && st.Mtime == r.mtime
}
