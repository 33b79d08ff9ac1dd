package tail

import (
	"cmp"
	"os"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/notices"
	"kusto-agent/tail/internal/tracker"
)

// adopt starts reading the file at path, which no reader has yet; a compressed file it hands to
// meetPacked. Why a file is not read is logged. first is empty if a pattern matches the path. If none
// does, it is the path where one matched the file, or this one if that is not known: the next run
// knows by it that the file is wanted.
func (d *discovery) adopt(in *input, path, first string) {
	f, st, err := inode.Open(path)
	if err == nil && d.own.Holds(path, st.Node) {
		f.Close()
		err = notices.ErrOwn
	}
	if err == nil {
		switch how := archive.Packing(f, path, in.Compressed == "never"); {
		case how.IsForeign():
			f.Close()
			err = notices.Foreign(how)
		case how != compressed.Plain:
			d.meetPacked(in, path, f, st, how, first)
			f.Close()
			return
		}
	}
	d.t.tell(path, err)
	switch {
	case err == nil:
		d.adoptOpen(in, path, f, st, first)
	case first != "" && err != notices.ErrOwn: // no scan finds it by itself
		in.openLater(path, first)
	}
}

// unopened is a file that no pattern matches, so that no scan finds it by itself, and that could not be
// opened, or not be read as it is compressed.
type unopened struct{ path, first string }

// openLater notes an unopened file for the next scan; see adopt for first.
func (in *input) openLater(path, first string) {
	if st, err := inode.At(path); err == nil {
		in.scan.unopened[st.Node] = unopened{path, first}
	}
}

func (in *input) isUnopened(n inode.Node) bool {
	_, is := in.scan.unopened[n]
	return is
}

// adoptOpen is adopt for a file that is open as f, with the status st. It owns f, and closes it if
// the file is not read.
func (d *discovery) adoptOpen(in *input, path string, f *os.File, st inode.Status, first string) {
	if d.t.size != nil {
		st.Size = d.t.size(st.Size)
	}
	s := compare.Of(f, st, inode.Handle(f))
	m := d.t.recognise(in, s)
	if in.passesOld() && m.is == identity.Undecided {
		m = match{compared: m.compared, scan: m.scan} // it is passed over, whatever it is a copy of
	}
	real := d.leads(path, st.Node)
	info := record.FileInfo{Path: path, First: cmp.Or(first, path), Dev: st.Dev, Inode: st.Ino, Birth: st.Birth, Handle: s.Handle, Size: st.Size, Real: finder.Elsewhere(real, path)}
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	d.t.noteIntact(m)
	if first == "" {
		info.Seen = d.t.seenBy(uint32(d.t.scans.no))
	}
	if !d.admit(in, s, info, m) {
		return
	}
	d.t.endSuspicion(in, st.Node, f)
	r := d.newReader(in, path, f, st, placeOf(first == "", m.is >= identity.Continuation))
	r.Info = info
	if r.life.IsOutside() { // it is found again by that, and not by a name that no pattern matches
		r.Info.Path = m.of.Info.Path
		r.Info.Real = finder.Elsewhere(real, r.Info.Path)
		r.Info.Seen = m.of.Info.Seen
	}
	d.carryOut(r, s, m)
	d.t.fds.open.Add(1)
	if !d.t.spareOthers() {
		d.t.closeIdle(r)
	}
	r.rest() // until its turn comes
}

// passesOld reports whether files that are there now are not read: the input is new, and starts at
// the end of files.
func (in *input) passesOld() bool { return in.scan.isNew && in.StartAt == "end" }

// admit reports whether the file s is to have a reader now, with the verdict m. If not, because
// it has one, or the verdict is open or of what was known before, it keeps the file open as one that is
// doubted, or closes it, and sees to it that the file is asked about again. The caller holds mu.
func (d *discovery) admit(in *input, s *compare.Sample, info record.FileInfo, m match) bool {
	held := in.suspect[s.Node].f == s.File
	switch {
	case in.readers.Get(s.Node) != nil: // renamed between the look and the opening
		if !held {
			s.File.Close()
		}
		d.t.endSuspicion(in, s.Node, nil)
	case m.is == identity.Undecided:
		d.t.doubt(in, info, m, s.File)
		if m.of.reader != nil {
			d.t.readyLocked(m.of.reader) // it may have been truncated since its last turn
		}
		time.AfterFunc(finder.LookSlow, d.t.rescanSoon)
	case m.is == identity.Own || m.is == identity.Rewritten || m.of.stands():
		return true
	case m.is == identity.Same:
		if !held {
			s.File.Close()
		}
		d.t.rescanSoon()
	default:
		d.t.doubt(in, info, match{}, s.File) // until it is compared with what the other is by now
		d.t.rescanSoon()
	}
	return false
}

// newReader returns a reader for the open file f, with the status st, that has no generation yet. The
// caller holds mu.
func (d *discovery) newReader(in *input, path string, f *os.File, st inode.Status, at tracker.Place) *reader {
	h := readings.Get().(*reading)
	h.Size, h.Mtime, h.grown = st.Size, st.Mtime, agenda.Now()
	r := &reader{
		in: in, life: tracker.Found(d.t.scans.no, at), linked: inode.IsLink(path),
		busy: &busy{at: path, f: f, joint: &alone, reading: h},
	}
	r.active = r.grown.Add(-max(time.Since(time.Unix(0, st.Mtime)), 0))
	return r
}

// carryOut starts the reader of the file s as the verdict says. The caller holds mu.
func (d *discovery) carryOut(r *reader, s *compare.Sample, m match) {
	path := r.path()
	switch m.is {
	case identity.Same, identity.Continuation:
		d.t.resume(r, m.of)
	case identity.Rewritten:
		d.readAnew(r, m.of.k, s.Status)
	case identity.Copy, identity.Rest:
		d.t.begin(r)
		d.t.o.Logger.Info("file is a copy of a file that was then truncated; reading continues after the bytes that were read from the original", "file", path,
			"of", m.of.Info.Path, "offset", m.upTo.Offset, "bytes", s.Size)
		r.Info.Done, r.Info.Size = m.is == identity.Copy, m.upTo.Offset // see passOld
		d.t.passOver(r, m.upTo.Offset, s.Heads)
	default:
		d.t.begin(r)
		if r.in.passesOld() {
			d.t.passOver(r, r.Size, s.Heads)
			break
		}
		if len(s.Heads) > 0 {
			r.Info.Head = s.Heads[0]
		}
		d.t.noteFound(r)
		if m.of != nil {
			d.t.tellAlike(path, m.of.Info.Path, s.Size)
		}
	}
}

// readAnew makes r the reader of a new generation of its file, which was truncated or rewritten while
// nobody read it, after the generation k. The caller holds mu.
func (d *discovery) readAnew(r *reader, k *generation, st inode.Status) {
	d.t.o.Logger.Warn("file was truncated or rewritten while it was not being read, reading it from the start",
		"file", r.path(), "offset", k.position, "bytes", st.Size)
	r.Info.First = k.info.Info().First
	k.own().left = compare.TruncatedUnseen(st)
	in := r.in
	in.truncated, in.lost = append(in.truncated, k), append(in.lost, k) // a copy may have been made before
	d.t.start(r, in.nextOf(k.file()), newGeneration())
	d.t.rememberSoon(r.File, r.k.info) // what was known by this file may be known by its copy now
}

// tellAlike logs that a file is read from its start although it begins like the file like, which was
// read: if it is a copy of that after all, its records come twice. bytes is its size.
func (t *Tailer) tellAlike(path, like string, bytes int64) {
	t.o.Logger.Info("file begins like another file that was read but is not known to be a copy of it; it is read from its start as a file of its own", "file", path,
		"like", like, "bytes", bytes)
}

// placeOf returns where the tracker puts a newly found file. matched says that a pattern matches its
// path, known that it continues a file under whose path the journal keeps it.
func placeOf(matched, known bool) tracker.Place {
	switch {
	case matched:
		return tracker.Present
	case known:
		return tracker.Outside
	}
	return tracker.Gone
}

// resume makes r continue the generation c where reading of it stopped: its file is the same,
// perhaps under another path, or a copy. Another reader of the generation is dropped. The caller
// holds mu.
func (t *Tailer) resume(r *reader, c *candidate) {
	k, was := c.k, c.k.info.Info()
	if old := k.reader; old != nil {
		old.wake() // it restores its state from k, which belongs to r from now on
		t.apply(old, tracker.Wished{Wish: tracker.Drop})
	}
	switch {
	case k.node() != inode.Of(r.Info) && k.position < r.Size:
		t.o.Logger.Info("file begins with all that was read of a file that was truncated or is gone; reading continues after those bytes", "file", r.path(),
			"of", was.Path, "offset", k.position, "bytes", r.Size)
	case was.Path != r.path():
		t.o.Logger.Info("file was read before under another path; reading continues at its checkpoint", "file", r.path(), "was", was.Path, "offset", k.position)
	}
	r.Info.First, r.Info.Head, r.Info.Old, r.Info.Dated, r.Info.Lost = was.First, was.Head, was.Old, was.Dated, was.Lost
	if k.position == 0 { // what start_at: end leaves out is not skipped yet
		r.old, r.Info.Done = min(r.Info.Old, r.Size), r.Info.Old > 0 && was.Done
	}
	moved := was.Path != r.path() || k.node() != inode.Of(r.Info)
	r.Advance(k.position, k.mark)
	r.Skips = k.ahead
	if r.Offset() > r.Size && !c.Reached { // the file is a copy that ends before the offset: nothing in it is new
		mark := record.Mark(0)
		if r.z != nil {
			mark = r.z.end
		} else {
			mark, _ = fingerprint.MarkAt(r.f, r.Size) // 0, not known, if it cannot be read
		}
		r.Advance(r.Size, mark)
		r.Skips = nil
		r.Info.Done, r.Info.Size = true, r.Size
		t.rememberSoon(k.file(), r.Info.Facts())
	}
	if moved { // noted now: if the agent stops before the first turn of r, the next start finds the file by this entry
		t.apply(r, tracker.Moved{})
		r.Info.Size = r.Size
		t.rememberSoon(k.file(), r.Info.Facts())
		t.forgetEmpty(r, k.file())
	}
	if d := r.in.doubted(inode.Of(r.Info)); d != nil && d != k {
		r.in.known.Delete(d.file())
		r.in.byNode.remove(d.node())
		t.forget(d.file())
	}
	t.start(r, k.file(), k)
}

// forgetEmpty removes the journal's entry of r's file from the time when the file was empty, if it
// is not in use: the file is recognized as the known generation is. The caller holds mu.
func (t *Tailer) forgetEmpty(r *reader, is record.File) {
	id := inode.NewID(inode.Of(r.Info), r.Info.Handle, 0)
	if empty := r.in.file(id, 0); empty != is && r.in.known.Get(empty) == nil {
		t.forget(empty)
	}
}

// begin makes r the reader of a new file, under a new id, or under the one that it has since it was
// doubted. The caller holds mu.
func (t *Tailer) begin(r *reader) {
	if k := r.in.doubted(inode.Of(r.Info)); k != nil {
		r.Info.First = k.info.Info().First
		t.start(r, k.file(), k)
	} else {
		t.start(r, r.in.newFile(&r.Info), newGeneration())
	}
	r.empty = r.Size == 0 && !t.o.Once
}

// newFile returns the name of a new file. Its id is a hash of device, inode, birth time and file
// handle, with a salt that is increased while an earlier file has that id. The caller holds mu.
func (in *input) newFile(info *record.FileInfo) record.File {
	for salt := uint64(0); ; salt++ {
		if f := in.file(inode.NewID(inode.Of(*info), info.Handle, salt), 0); in.known.Get(f) == nil {
			return f
		}
	}
}

// noteFound tells the journal of a new file before its first turn. The caller holds mu.
func (t *Tailer) noteFound(r *reader) {
	r.Info.Size, r.headed = r.Size, fingerprint.HeadLen(r.Size)
	r.in.describe(r.k, r.Info)
	r.registered = t.o.Positions.Found(r.File, r.k.info) == nil
}

// passOver has the first turn of r skip the first size bytes of its file (see passOld). The journal
// gets that before it gets that the input was seen: after a kill in between, the next run neither
// skips new bytes nor sends old ones. heads are of the file, the longest first. The caller holds mu.
func (t *Tailer) passOver(r *reader, size int64, heads []record.Head) {
	r.old, r.Info.Old = size, size
	if len(heads) > 0 {
		r.Info.Head = heads[0]
	}
	r.in.describe(r.k, r.Info)
	t.rememberSoon(r.File, r.k.info)
}

// start makes r the reader of the generation f, of which k is known, and queues it for its first
// turn. The caller holds mu.
func (t *Tailer) start(r *reader, f record.File, k *generation) {
	r.File, r.k = f, k
	if r.Info.Dated == 0 && (r.in.DatesNeeded() || r.in.Carries()) { // lines of syslog do not tell their year, a compressed file not when it was begun
		r.Info.Dated = r.Mtime
	}
	r.in.describe(k, r.Info)
	k.setFile(r.in.files, f)
	k.reader = r
	k.revive()
	r.in.known.Put(k)
	r.in.byNode.put(k)
	r.in.readers.Put(r)
	t.byPath.Add(r)
	t.looks.silent.scans = 0
	t.joinStream(r)
	t.apply(r, tracker.Begun{Wait: r.show(tracker.Idle)})
}
