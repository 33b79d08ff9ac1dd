package tail

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/reread"
)

// generation is what is remembered of one generation of a file. Guarded by
// Tailer.mu.
type generation struct {
	of         *files
	id         record.FileID
	generation uint32
	intact     uint32 // number of the last scan that found its file as its reader left it

	info     record.Facts
	position int64       // all before was read; of its reader, at the end of its last turn
	safe     int64       // all before is safe
	mark     record.Mark // of the position
	reader   *reader     // who reads it; nil: nobody
	alike    *generation // of heads
	*past                // never nil, and changed by own alone
}

// past is what is remembered of few generations: of most it is uneventful.
type past struct {
	ahead    []record.Extent // beyond the position, in need of no reading
	trail    compare.Trail   // where reading stood before the position
	late     []byte          // what was read before the position, where that ends with a truncation; see keepLate
	missing  time.Time       // when it was first found to have no file
	toldLost bool
	was      []inode.Node // where it was before it went on in other files, see nodes
	left     compare.Departure

	anew      time.Time // when its file was found truncated or rewritten, and this generation began
	truncated time.Time // when reading ended with a truncation; zero: it did not, or in an earlier run
	changed   int64     // ns: when its file was last seen to change before that
}

// uneventful is the past of all generations that have no own. It is never written.
var uneventful past

// file is the generation's name for other rooms.
func (k *generation) file() record.File {
	return record.File{Input: k.of.name, ID: k.id, Generation: k.generation}
}

// setFile makes k what is known of the generation f, of an input with these files.
func (k *generation) setFile(of *files, f record.File) {
	k.of, k.id, k.generation = of, f.ID, f.Generation
}

// newGeneration returns a generation of which nothing was read.
func newGeneration() *generation { return &generation{past: &uneventful} }

// own returns the past of a generation for writing. The caller holds mu.
func (k *generation) own() *past {
	if k.past == nil || k.past == &uneventful {
		k.past = new(past)
	}
	return k.past
}

// moveTo notes up to which offset a generation was read, with the mark there.
func (k *generation) moveTo(offset int64, mark record.Mark) {
	if offset > k.position && k.mark != 0 {
		k.own().trail.Add(k.position, k.mark)
	}
	k.position, k.mark = offset, mark
}

// places returns the trail with the position at its end. The caller owns the slice.
func (k *generation) places() compare.Trail {
	all := slices.Clone(k.trail)
	all.Add(k.position, k.mark)
	return all
}

// revive forgets how a generation ended, because a reader continues it.
func (k *generation) revive() {
	if k.past != &uneventful {
		k.anew, k.truncated, k.missing, k.left = time.Time{}, time.Time{}, time.Time{}, compare.Departure{}
	}
}

// recall loads what the journal remembers of the generations of an input, in the order of their
// files and generations. One whose file the journal lost in a power cut is of the same file as the
// one before if both have the same id; else it is found later by its id (see claim).
func (in *input) recall(states iter.Seq[State]) {
	var before *generation // the generation before, of the same file or another
	for s := range states {
		k := newGeneration()
		k.setFile(in.files, s.File)
		k.info, k.position, k.safe, k.mark = s.Info, s.Position, s.Position, s.Mark
		if len(s.Ahead) > 0 {
			k.own().ahead = s.Ahead
		}
		in.known.Put(k)
		if k.isUnnamed() && before != nil && before.id == k.id && !before.isUnnamed() && k.isComparable() {
			was := before.info.Info()
			k.name(was.Path, before.node(), was.Handle)
		}
		before = k
		if k.isUnnamed() {
			in.unnamed[k.id] = append(in.unnamed[k.id], k)
			continue
		}
		in.heads.add(k)
		// The latest generation of an id counts. If one file has two ids, the one that was read
		// counts: the other was given to it while it was empty, and a kill prevented its removal.
		o := in.byNode.get(k.node())
		if o == nil || o.id == k.id && o.generation < k.generation || o.id != k.id && o.position < k.position {
			in.byNode.put(k)
		}
	}
}

// match is what an open file was recognised as.
type match struct {
	is   identity.Verdict
	of   *candidate    // nil: it is like no file that is known
	upTo compare.Place // Rest, Copy: all before it was read of that
	turn bool          // Undecided: a turn of the reader of that tells more

	compared []*candidate // see noteIntact
}

// recognise finds out whether the open file s continues a known generation, is a copy of one, or is
// new.
func (t *Tailer) recognise(in *input, s *compare.Sample) match {
	quiet := in.RotateQuiet.D() // so long it may be undecided whether s is a copy
	t.mu.Lock()
	in.claim(s.File.Name(), s.Node, s.Handle)
	same, alike, named := in.sameFile(s, t.scans.no), in.alike(s, t.scans.no), t.namesakes(in, s)
	if s.Size > 0 {
		alike = append(alike, in.before(named, t.scans.no)...)
	}
	doubt := in.suspect[s.Node]
	t.mu.Unlock()
	if same != nil {
		same.NoteReached(s)
		return match{is: identity.Judge(same.Same(s).Facts), of: same}
	}
	for _, c := range alike {
		if c.k == doubt.of {
			c.Equal = doubt.upTo
		}
	}
	// The clock may have been set back since.
	waited := time.Since(time.Unix(0, doubt.since)).Abs()
	late := func(c *candidate, f identity.Facts) bool {
		switch {
		case t.o.Once: // there is no other time to ask
			return true
		case f.Fate == identity.Changing && (c.turning || !doubt.turn):
			return false // the reader of the original has to look at it first
		}
		return doubt.since > 0 && waited >= quiet
	}
	m := likest(alike, late, func(c *candidate) compare.Finding { return c.Compare(s) })
	if m.is == identity.Own && s.Size > 0 { // an empty file is compared when it grows, see endIfCopy
		if short := likest(named, late, func(c *candidate) compare.Finding { return c.ShortCopy(s, quiet) }); short.of != nil {
			m = short
		}
	}
	if m.is == identity.Continuation {
		m.of.NoteReached(s)
	}
	m.compared = alike
	return m
}

// likest compares a file with the candidates and returns the strongest verdict, at once if one says
// that the file, or part of it, needs no reading. late reports whether a finding may not remain
// undecided.
func likest(candidates []*candidate, late func(*candidate, identity.Facts) bool, held func(*candidate) compare.Finding) (m match) {
	for _, c := range candidates {
		f := held(c)
		f.Facts.Late = late(c, f.Facts)
		is := identity.Judge(f.Facts)
		if is > m.is || is == m.is && f.Facts.Content != identity.Differs {
			m = match{is: is, of: c, upTo: f.UpTo, turn: f.Facts.Fate == identity.Changing}
		}
		if m.is > identity.Undecided {
			return m
		}
	}
	return m
}

// noteIntact remembers, for the rest of the scan, which of the files that m was compared with still had
// what was read (see compare.Reader). The caller holds mu.
func (t *Tailer) noteIntact(m match) {
	for _, c := range m.compared {
		if c.Reader != nil && c.Reader.Intact && c.k.reader == c.reader {
			c.k.intact = uint32(t.scans.no)
		}
	}
}

// sameFile returns the generation that was read under the inode of the file s, if no reader has it;
// nil: there is none. The caller holds mu.
func (in *input) sameFile(s *compare.Sample, scan uint64) *candidate {
	switch k := in.byNode.get(s.Node); {
	case k == nil, in.doubted(s.Node) != nil: // what was doubted is compared as a new file is
	case k.node() != s.Node: // a rotation copied its content, and the generation goes on in the copy
		return k.candidate(scan)
	case k.reader == nil && !otherHandle(k.info.Info().Handle, s.Handle):
		return k.candidate(scan)
	}
	if s.Birth == 0 {
		return nil
	}
	// Device numbers change over a reboot; all else together does not.
	for _, h := range s.Heads {
		for k := range in.heads.Get(h) {
			if n := k.node(); k.reader == nil && n.Ino == s.Ino && n.Birth == s.Birth {
				return k.candidate(scan)
			}
		}
	}
	return nil
}

// alike returns the generations that begin with the same bytes as the file s. Of those that are
// being read and have the same content up to the same offset, which may be thousands, it returns
// one. The caller holds mu.
func (in *input) alike(s *compare.Sample, scan uint64) (all []*candidate) {
	told := make(map[compare.Place]bool)
	for _, h := range s.Heads {
		for k := range in.heads.Get(h) {
			// Each of them, if this scan has found it intact, leads to the same verdict.
			if r := k.reader; r != nil && !r.life.IsDeleted() && k.intact == uint32(scan) && k.position <= s.Size {
				at := compare.Place{Offset: k.position, Mark: k.mark}
				if told[at] {
					continue
				}
				told[at] = true
			}
			c := k.candidate(scan)
			c.Find, c.Latest = in.folders.FindInfo, in.byNode.has(k)
			all = append(all, c)
		}
	}
	return all
}

// before returns the generations of the given files before their truncations that were too short to
// have a head, by which alike finds others. The caller holds mu.
func (in *input) before(files []*candidate, scan uint64) (all []*candidate) {
	for _, c := range files {
		for f := c.k.file(); f.Generation > 0; {
			f.Generation--
			k := in.known.Get(f)
			if k == nil {
				break // those before it are forgotten too
			}
			if k.position > 0 && !k.truncated.IsZero() && k.info.Head().Len == 0 {
				all = append(all, k.candidate(scan))
			}
		}
	}
	return all
}

func otherHandle(a, b string) bool { return a != "" && b != "" && a != b }

// A power cut can take the entry by which the journal knows a file, and leave a payload
// of it that the spool had synced. Of such a generation the journal has ranges and no
// node. The id of a file follows from its node, so the file is found by that.

// isUnnamed reports whether nothing is known by which the file of a generation could be
// found, but its id.
func (k *generation) isUnnamed() bool {
	info := k.info.Info()
	return info.Path == "" && info.Inode == 0
}

// isComparable reports whether a file can be compared with what was read of a generation.
func (k *generation) isComparable() bool {
	return (k.position == 0 || k.mark != 0) && !slices.ContainsFunc(k.ahead, func(x record.Extent) bool { return x.Mark == 0 })
}

// name notes what file a generation is of.
func (k *generation) name(path string, n inode.Node, handle string) {
	info := k.info.Info()
	info.Path, info.First = path, path
	info.Dev, info.Inode, info.Birth, info.Handle = n.Dev, n.Ino, n.Birth, handle
	k.info = info.Facts()
}

// claim notes an open file with the generations whose file the journal does not know, if they bear
// its id: a power cut can leave such. A file without birth time and handle is left out, because its
// id may be that of an earlier file. The caller holds mu.
func (in *input) claim(path string, n inode.Node, handle string) {
	if len(in.unnamed) == 0 || in.byNode.get(n) != nil || n.Birth == 0 && handle == "" {
		return
	}
	for salt := range uint64(inode.MostSalts) {
		id := inode.NewID(n, handle, salt)
		for _, k := range in.unnamed[id] { // sorted by generation
			if in.known.Get(k.file()) == k && k.isComparable() { // not one that was forgotten or has no marks to compare
				k.name(path, n, handle)
				in.byNode.put(k)
			}
		}
		delete(in.unnamed, id)
		if in.byNode.get(n) != nil {
			return
		}
	}
}

// errUnscanned is why a file that is known by its id alone does not count as gone yet: a
// scan also finds files that were rotated, and compressed ones.
var errUnscanned = errors.New("files were not looked for yet")

// findUnnamed finds the file of the range x if the journal knows only its id, among those that the
// patterns match, and returns it open. The error is ErrSourceGone only if a scan has ended, because
// scans also find rotated and compressed files, and if every match could be examined.
func (t *Tailer) findUnnamed(in *input, x record.Extent) (reread.Source, error) {
	f, unclear := in.search().OpenByID(x)
	switch {
	case f != nil:
		return f, nil
	case !t.Scanned():
		return nil, errUnscanned
	case unclear != nil:
		return nil, unclear
	}
	return nil, fmt.Errorf("%w: no file has its id", ErrSourceGone)
}
