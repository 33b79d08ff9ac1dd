package tail

import (
	"cmp"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/records"
	"kusto-agent/tail/internal/tracker"
)

// readPacked starts a reader for the compressed file p, whose inspection has found x, by what it
// resembles. The caller holds mu.
func (t *Tailer) readPacked(p *packed, x *archive.Facts, by resemblance) {
	in, k, is := p.in, by.of, by.is
	delete(in.packed, p.st.Node)
	if t.readBy(in, p.st.Node) != nil {
		return // another input of the route reads it, which the next scan logs
	}
	r := &reader{
		in: in, life: tracker.Found(p.scan, placeOf(p.matched, is != identity.Own)),
		busy: &busy{at: p.path, joint: &alone, reading: &reading{
			Reading: records.Reading{Size: x.Size, Mtime: p.st.Mtime, Checked: p.st.Mtime},
			sight:   sight{grown: agenda.Now(), active: agenda.Now(), high: x.Size, highest: x.Size},
		}},
	}
	r.z = &contents{Source: archive.NewSource(p.how, p.st.Size, x.Size), end: x.End, file: record.Packed{Size: p.st.Size, Mtime: p.st.Mtime, Cut: x.Cut != nil}}
	if len(x.Heads) > 0 {
		r.z.head = x.Heads[0]
	}
	newForm := is == identity.Own || k.info.Info().Packed != r.z.file
	goesOn := is == identity.Same || is == identity.Continuation
	if goesOn && !newForm {
		r.z.file = k.info.Info().Packed
	}
	r.Info = record.FileInfo{
		Path: p.path, First: cmp.Or(p.first, p.path), Dev: p.st.Dev, Inode: p.st.Ino, Birth: p.st.Birth, Handle: p.handle,
		Size: x.Size, Head: r.z.head, Packed: r.z.file,
	}
	if p.matched {
		r.Info.Seen = t.seenBy(uint32(p.scan))
	}
	if r.life.IsOutside() { // it is found again by the name that a pattern matches
		r.Info.Path, r.Info.Seen = k.info.Info().Path, k.info.Info().Seen
	}
	r.Info.Real = finder.Elsewhere(p.real, r.Info.Path)
	hasRest := is == identity.Own && p.mayHoldRest(k)
	if is == identity.Continuation || hasRest || is == identity.Copy && k != nil { // others may have been rotated after it, see findRotated
		info := k.info.Info()
		fate := compare.FateOf(k.reader != nil, k.left, k.truncated)
		if fate == identity.Truncated {
			info.Birth = p.st.Mtime // a copy: the file may have been copied and truncated again since
		}
		if fate == identity.Truncated || fate == identity.Past { // it shows the form of their names
			in.rotated = append(in.rotated, rotated{info: info, at: p.path})
			t.rescanSoon()
		}
	}
	switch is {
	case identity.Same, identity.Continuation:
		t.resume(r, k.candidate(t.scans.no))
		if newForm {
			t.apply(r, tracker.Moved{})
		}
	case identity.Rewritten:
		t.o.Logger.Warn("compressed file was rewritten, reading it from the start", "file", p.path, "offset", k.position, "bytes", x.Size)
		t.o.Metrics.Truncation(in.Name, 0)
		r.Info.First = k.info.Info().First
		t.start(r, in.nextOf(k.file()), newGeneration())
	default:
		t.begin(r)
		r.empty, r.old = false, by.upTo.Offset
		if p.old {
			t.passOver(r, x.Size, x.Heads)
		} else if is == identity.Own && k != nil {
			t.tellAlike(p.path, k.info.Info().Path, x.Size)
			if hasRest {
				t.settle(k) // what was left of it is in p
			}
		}
	}
	t.tellFlaw(p, x)
}

// tellFlaw logs that a compressed file is truncated or damaged. The caller holds mu.
func (t *Tailer) tellFlaw(p *packed, x *archive.Facts) {
	about := []any{"input", p.in.Name, "file", p.path, "bytes", x.Size}
	switch {
	case x.Cut != nil:
		t.o.Metrics.Abandoned(p.in.Name, x.Left)
		t.o.Logger.Error("compressed file is cut off, sending the records before the cut; the rest is lost unless the file is completed", append(about,
			"err", x.Cut, "left", x.Left, "fix", "nothing, if its writer was killed; else see that its disk is sound, or put a sound copy in its place")...)
	case x.Flaw != nil:
		t.o.Logger.Error("compressed file is damaged, sending its readable part", append(about,
			"err", x.Flaw, "fix", "see that its disk is sound; compare it with a sound copy if there is one")...)
	}
}

// settlePacked decides after the first scan on compressed files that had to wait until all plain files were
// known, and returns what is in the way of reading them, by path. The caller holds mu.
func (t *Tailer) settlePacked() map[string]error {
	if t.surveys.compared {
		return nil
	}
	t.surveys.compared = true
	why := make(map[string]error)
	for _, p := range t.surveyedPacked() {
		t.advance(p)
		why[p.path] = p.err
	}
	return why
}

// surveyedPacked returns the compressed files that were inspected and are not being read. The
// caller holds mu.
func (t *Tailer) surveyedPacked() (all []*packed) {
	for _, in := range t.inputs() {
		for _, p := range in.packed {
			if p.facts != nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// readWaiting decides again, in a run --once in which all other files were read, on compressed files that
// waited for them. busy says that something is left to read, rotated that there may be files that were
// rotated after a compressed one that has just been recognised, which a scan finds.
type readWaiting struct{ busy, rotated bool }

func (e *readWaiting) happen(t *Tailer) {
	if e.busy = t.isBusy(); e.busy {
		return
	}
	for _, p := range t.surveyedPacked() {
		if p.readElsewhere {
			t.advance(p)
		}
	}
	e.busy, e.rotated = t.isBusy(), slices.ContainsFunc(t.inputs(), func(in *input) bool { return len(in.rotated)+len(in.scan.rotated)+len(in.truncated) > 0 })
}

// loseBarred counts and logs the unread bytes of a file whose compressed copy must not be
// read (exclude, compressed: never). The caller holds mu.
func (t *Tailer) loseBarred(p *packed, k *generation) {
	info := k.info.Info()
	if info.Done {
		return
	}
	why := "exclude"
	if p.in.Compressed == "never" {
		why = "compressed: never"
	}
	t.lose(k.file(), &info, info.Path, k.position, p.facts.Size, k.ahead, "file was compressed before it was read to its end, and its input does not read the compressed file: the unread bytes are lost",
		"in", p.path, "err", why+" forbids it",
		"fix", "compress files later (delaycompress), or let the input read compressed files")
	info.Done = true
	t.restate(k, info)
}

// settle notes that nothing more is to be read of a generation. The caller holds mu, and no reader has it.
func (t *Tailer) settle(k *generation) {
	info := k.info.Info()
	info.Done = true
	t.restate(k, info)
}

// restate changes what is known of the file of a generation, but neither its node nor its head, in the journal
// too. The caller holds mu.
func (t *Tailer) restate(k *generation, info record.FileInfo) {
	k.info = info.Facts()
	t.rememberSoon(k.file(), k.info)
}
