package tail

import (
	"os"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
)

// suspicion is that a file is a copy of one that is being read.
type suspicion struct {
	node  inode.Node
	since int64  // ns
	turn  bool   // a turn of the reader of that tells more, and was asked for
	scan  uint64 // number of the last scan that had it
	path  string
	of    *generation   // what it may be a copy of
	upTo  compare.Place // so far it was found equal to that, while that was as it was read
	f     *os.File      // holds it open, in case it is deleted or renamed meanwhile; nil: there are too few descriptors
	looks int           // how often it was looked for in vain since its path is gone
}

// doubt notes that a file may be a copy of the one that m says, or repeats the note at a later
// scan. It owns the open file f, and keeps it open until that is decided, unless too many files are
// open. The journal is told, so that the next run finds the file under another name too. The caller
// holds mu.
func (t *Tailer) doubt(in *input, info record.FileInfo, m match, f *os.File) {
	n := inode.Of(info)
	s := in.suspect[n]
	if s.since == 0 {
		s.node, s.since = n, t.noteDoubt(in, info)
	}
	s.turn, s.scan, s.path = m.turn, t.scans.no, info.Path
	if m.of != nil && m.upTo.Offset > 0 {
		s.of, s.upTo = m.of.k, m.upTo
	}
	switch {
	case s.f == f:
	case s.f == nil && int(t.fds.open.Load()) < t.fds.most:
		s.f = f
		t.fds.open.Add(1)
	default:
		f.Close()
	}
	in.suspect[n] = s
}

// noteDoubt tells the journal of a file that may be a copy, and returns since when that is so, in ns:
// an earlier run may have doubted it before. The caller holds mu.
func (t *Tailer) noteDoubt(in *input, info record.FileInfo) (since int64) {
	if k := in.doubted(inode.Of(info)); k != nil {
		return k.info.Info().Doubted
	}
	info.Doubted = time.Now().UnixNano()
	info.Head = record.Head{} // nothing is compared with it
	k := newGeneration()
	k.setFile(in.files, in.newFile(&info))
	k.info = info.Facts()
	in.known.Put(k)
	in.byNode.put(k)
	t.rememberSoon(k.file(), k.info)
	return info.Doubted
}

// doubted returns what is known of a file that may be a copy and that no reader has; nil: the file is
// none of these. The caller holds mu.
func (in *input) doubted(n inode.Node) *generation {
	if k := in.byNode.now.Get(n); k != nil && k.reader == nil && k.info.Info().Doubted != 0 {
		return k
	}
	return nil
}

// endSuspicion forgets that a file may be a copy, and closes it unless a reader has taken it. The
// caller holds mu.
func (t *Tailer) endSuspicion(in *input, n inode.Node, taken *os.File) {
	if s := in.suspect[n]; s.f != nil {
		if s.f != taken {
			s.f.Close()
		}
		t.fds.open.Add(-1)
	}
	delete(in.suspect, n)
}

// vanishing is a file that may be a copy and that a scan did not find.
type vanishing struct {
	suspicion
	info *record.FileInfo // what the journal knows of it; nil: nothing
}

// vanished returns the files that may be copies and that the scan w did not find. The caller holds mu.
func (d *discovery) vanished(in *input, w *finder.Walk) (all []vanishing) {
	for _, s := range in.suspect {
		if s.scan == d.t.scans.no || w.Unknown(s.path) {
			continue
		}
		v := vanishing{suspicion: s}
		if k := in.doubted(s.node); k != nil {
			info := k.info.Info()
			v.info = &info
		}
		all = append(all, v)
	}
	return all
}

// findVanished looks for a file that may be a copy and that the scan did not find: it is compared by its
// descriptor. If it is not held open, because there was no descriptor, it is asked about again while its
// path is there; when that is gone it is looked for as a rotated one is. It returns false if that was in
// vain.
func (d *discovery) findVanished(in *input, v vanishing) bool {
	if v.f != nil {
		if st, err := inode.In(v.f); err == nil {
			d.adoptOpen(in, v.path, v.f, st, v.path)
		}
		return true
	}
	if !inode.LeadsElsewhere(v.path, v.node) {
		return true
	}
	if v.info != nil {
		if path := in.whereIs(rotated{info: *v.info}); path != "" {
			d.adopt(in, path, v.info.First)
			return true
		}
	}
	return false
}

// missCopy notes that a file that may be a copy was looked for in vain: if that was as often as a rotated
// one is looked for, it counts as lost. The caller holds mu.
func (t *Tailer) missCopy(in *input, s suspicion) {
	k := in.doubted(s.node)
	if s.looks++; k != nil && s.looks < mostLooks {
		in.suspect[s.node] = s
		t.rescanSoon()
		return
	}
	if k != nil {
		in.lost = append(in.lost, k)
	}
	t.endSuspicion(in, s.node, nil)
}

// endIfCopy looks at a file that was empty when it was found and now has content: a copy begins as
// an empty file too. If it may be one, or is compressed, it returns true: its reader has to end with
// tracker.Yielded, and a scan decides.
func (w *worker) endIfCopy(r *reader, st inode.Status) bool {
	r.empty = false
	grown := &grown{size: st.Size, packed: archive.Packing(r.f, w.job.path, r.in.Compressed == "never") != compressed.Plain}
	if !grown.packed {
		grown.match = w.t.recognise(r.in, compare.Of(r.f, st, r.Info.Handle))
	}
	w.report.grown = grown
	return grown.mayBeCopy()
}

// grown is what a file that was found empty has become.
type grown struct {
	size   int64
	packed bool // it is compressed
	match  match
}

func (g *grown) mayBeCopy() bool { return g.packed || g.match.is != identity.Own }

// tookShape takes over what the turn of a reader has found out of its file, which was empty before. The caller
// holds mu.
func (t *Tailer) tookShape(r *reader, g *grown) {
	t.noteIntact(g.match)
	if !g.mayBeCopy() {
		if g.match.of != nil {
			t.tellAlike(r.path(), g.match.of.Info.Path, g.size)
		}
		return
	}
	r.in.known.Delete(r.File)
	r.in.byNode.remove(r.node())
	if g.packed {
		return
	}
	r.in.readers.Delete(r.node())
	info := r.Info
	info.Path = r.path()
	t.doubt(r.in, info, g.match, r.f)
	if r.in.suspect[r.node()].f == r.f {
		t.fds.open.Add(-1) // doubt has counted the file, which was counted for the reader before
		r.f = nil
	}
}
