package tail

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/compare"
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
	a.left = inode.LeadsElsewhere(a.path, a.node)
}

// takeAbsent takes over the files that the scan w did not find: those with a reader, those that may be copies, and
// generations that had no reader for forget_after. The caller holds mu.
func (d *discovery) takeAbsent(in *input, w *finder.Walk) {
	in.known.dropFirsts()
	d.tellLost(in)
	for _, p := range in.packed {
		if p.scan != d.t.scans.no && p.first == "" && !w.Unknown(p.path) {
			in.dropPacked(p)
		}
	}
	p := &in.scan.pass
	p.absent, p.vanished, p.missing = d.absent(in, w), d.vanished(in, w), d.longMissing(in, w)
	if len(p.absent) > 0 {
		d.stirred = d.t.scans.no
	}
}

// lookAtAbsent looks what became of the files that the scan did not find. Those that may be copies are looked for
// and compared by their descriptors.
func (d *discovery) lookAtAbsent(in *input) {
	p := &in.scan.pass
	p.vanished = slices.DeleteFunc(p.vanished, func(v vanishing) bool { return d.findVanished(in, v) })
	for i := range p.absent {
		p.absent[i].look()
	}
	for i := range p.missing {
		p.missing[i].there = in.isThere(p.missing[i].info)
	}
}

// takeAway tells the tracker of readers whose files were not found, forgets what is missing for long, and
// takes over the files beside which others may have been rotated. The caller holds mu.
func (d *discovery) takeAway(in *input, _ *finder.Walk) {
	for _, a := range in.scan.absent {
		if a.pinned != a.r.pinned {
			a.r.own().pinned = a.pinned
		}
		d.t.apply(a.r, tracker.Unseen{Left: a.left, Deleted: a.deleted})
	}
	for _, v := range in.scan.vanished {
		d.t.missCopy(in, v.suspicion)
	}
	for _, m := range in.scan.missing {
		d.t.forgetMissing(in, m)
	}
	away := append(in.scan.rotated, in.rotated...)
	in.rotated, in.scan.rotated = nil, nil
	for i, g := range away {
		away[i].open = in.readers.Get(inode.Of(g.info)) != nil
		if k := in.byNode.get(inode.Of(g.info)); g.deleted && k != nil {
			away[i].gone = k.candidate(d.t.scans.no)
		}
	}
	in.scan.away = away
}

// absent returns the readers whose files the scan w did not find. The caller holds mu.
func (d *discovery) absent(in *input, w *finder.Walk) (all []absence) {
	for r := range in.readers.All() {
		if r.life.Awaits(d.t.scans.no) && !w.Unknown(r.path()) {
			all = append(all, absence{r: r, node: r.node(), path: r.path(), f: r.f, deleted: r.life.IsDeleted(), pinned: r.pinned})
		}
	}
	return all
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

// seenBy is beganScan for a file that the scan has found, as record.FileInfo.Seen. The caller holds mu.
func (t *Tailer) seenBy(scan uint32) int64 {
	if began := t.beganScan(scan); !began.IsZero() {
		return began.UnixNano()
	}
	return 0
}

// rotatedAway counts and logs that the file of r is gone from its path, and notes it for
// findRotated. The caller holds mu.
func (t *Tailer) rotatedAway(r *reader) {
	info := r.k.info.Info()
	info.Path = r.path()
	r.in.rotated = append(r.in.rotated, rotated{info: info, since: t.beganScan(r.life.FoundBy()), deleted: r.life.IsDeleted()})
	r.own().leftAt = agenda.Now()
	if r.stream != nil {
		r.joint.left = t.scans.no
	}
	t.o.Metrics.Rotation(r.in.Name)
	t.o.Logger.Info("file was moved away or deleted; the agent keeps it open and reads it to its end", "file", r.path(), "bytes", r.shown.size-r.k.position)
}

// missing is a generation that has had no reader for long.
type missing struct {
	k     *generation
	info  record.FileInfo
	there bool // its file is
}

// isThere reports whether a file is at its last path or in the folder of that, or in one to which rotation may
// have moved it.
func (in *input) isThere(info record.FileInfo) bool {
	at := info.Paths()
	dir, base := filepath.Split(info.Path)
	for _, near := range in.folders.Near(dir) {
		at = append(at, filepath.Join(near, base))
	}
	_, ok := in.folders.Find(at, inode.Of(info))
	return ok
}

// mostMissing is how many generations one scan looks for before it forgets them.
const mostMissing = 1000

// longMissing returns generations that have had no reader since a scan at least forget_after ago. The time
// begins again if the folder cannot be examined. The caller holds mu.
func (d *discovery) longMissing(in *input, w *finder.Walk) (all []missing) {
	now := time.Now()
	for k := range in.known.All() {
		if k.reader != nil {
			continue
		}
		if k.missing.IsZero() || w.Unknown(k.info.Info().Path) {
			k.own().missing = now
		}
		if now.Sub(k.missing) >= in.ForgetAfter.D() && len(all) < mostMissing {
			all = append(all, missing{k: k, info: k.info.Info()})
		}
	}
	return all
}

// forgetMissing forgets a generation unless it has a reader by now, or is the newest one of a file that is
// there, which then does not count as missing. The caller holds mu.
func (t *Tailer) forgetMissing(in *input, m missing) {
	k := m.k
	if m.there && in.byNode.has(k) {
		k.own().missing = time.Time{}
		return
	}
	if k.reader != nil {
		return
	}
	in.known.Delete(k.file())
	in.heads.remove(k)
	in.byNode.forget(k)
	t.forget(k.file())
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
	for _, in := range t.inputs() {
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
			t.apply(r, tracker.Wished{Wish: tracker.Drop}) // its next turn closes it, see closeDropped
		}
	}
}

// closeDropped ends the reader of a file that was dropped. Unless another reader goes on with what it has read,
// its unread bytes are lost, counted and logged.
func (w *worker) closeDropped(r *reader) tracker.Outcome {
	if w.job.succeeded {
		return tracker.Done
	}
	_, _ = w.lastLook(r) // if that fails, its size is that of the look before
	if w.t.lose(r.File, &r.Info, w.job.path, r.Offset(), r.Size, r.Skips, "deleted file abandoned, its unread bytes are lost: deleted files take more space than max_pinned_deleted",
		"end", r.Size, "fix", "raise max_pinned_deleted of the input, or see why its records are not accepted") {
		r.Info.Size = r.high
		w.report.left = &compare.Departure{Lost: true}
	} // else all of it was read, and only has to become safe
	return tracker.Done
}

// lastLook looks at a file that is to be closed before it was read to its end, and passes over what
// start_at: end leaves out: that is not lost, and must not be read when the input comes back.
func (w *worker) lastLook(r *reader) (inode.Status, error) {
	st, err := w.look(r)
	if err == nil && r.old > 0 {
		err = w.passOld(r)
	}
	return st, err
}
