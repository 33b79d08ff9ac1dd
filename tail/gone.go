package tail

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
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
		d.stirred = d.t.scans.no
	}
	for i := range absent {
		absent[i].look()
	}
	d.t.mu.Lock()
	for _, a := range absent {
		if a.pinned != a.r.pinned {
			a.r.own().pinned = a.pinned
		}
		d.t.apply(a.r, tracker.Unseen{Left: a.left, Deleted: a.deleted})
	}
	missing := d.longMissing(in, w)
	d.t.mu.Unlock()
	for _, c := range missing {
		if _, there := in.folders.FindInfo(c.Info); d.forgot(in, c, there) {
			d.t.forget(c.k.file())
		}
	}
}

// absent returns the readers, and the files that may be copies, that the scan w did not find.
// It forgets such compressed files.
func (d *discovery) absent(in *input, w *finder.Walk) (all []absence, vanished []suspicion) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	maps.DeleteFunc(in.packed, func(_ inode.Node, p *packed) bool { return p.scan != d.t.scans.no && !w.Unknown(p.path) })
	for r := range in.readers.All() {
		if r.life.Awaits(d.t.scans.no) && !w.Unknown(r.path()) {
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
			all = append(all, k.candidate(d.t.scans.no))
		}
	}
	return all
}

// forgot removes a generation from memory and reports whether it did: not if it has a reader, or if
// its file exists (there) and it is the newest of it, which then does not count as missing.
func (d *discovery) forgot(in *input, c *candidate, there bool) bool {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
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
