package tail

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/rotation"
	"kusto-agent/tail/internal/sources"
)

// A file can be made and rotated away between two looks, or while nobody looks, to
// a name that no pattern matches. The file that was rotated before it was read, and
// shows the form of such names; if it was deleted since, they begin as its own.

// rotated is a file that is gone from its path.
type rotated struct {
	info  record.FileInfo
	since time.Time // it was at its path at that time; zero: only the journal knows when it was
	looks int       // that were taken beside it
	next  bool      // another file is at its path, or was
	open  bool      // a reader has it

	deleted bool       // no name of it is left, as far as is known
	gone    *candidate // what is known of a deleted one; nil: nothing is
	at      string     // where a compressed copy of what it held is; empty: the file itself is looked for
}

// mostLooks is how often is looked beside a file: names can change under the eyes
// of the first look.
const mostLooks = 3

// findRotated looks for files that were rotated after those that were just rotated or deleted (away), and
// that no scan has found, several times, since names can change during a look. Beside one that is still open it
// looks again when the next file is at its path: by then others may have been there.
func (d *discovery) findRotated(in *input) {
	w := sources.NewLook()
	for _, g := range in.scan.away {
		if !g.next && inode.HasAnother(g.info.First, inode.Of(g.info)) {
			g.next, g.looks = true, 0
		}
		if g.looks >= mostLooks {
			d.lookLater(in, g)
			continue
		}
		path := g.at
		if path == "" {
			path = in.whereIs(g)
		}
		if path != g.info.Path || !in.Reads(path) {
			d.findSiblings(in, w, g, path)
		}
		if path == "" && g.gone != nil {
			d.findBesideCopies(in, w, g)
		}
		if g.looks++; g.looks < mostLooks {
			in.scan.rotated = append(in.scan.rotated, g)
			d.t.rescanSoon()
		} else {
			d.lookLater(in, g)
		}
	}
}

// lookLater has findRotated look beside a rotated file again once the next file is at its path, unless that was
// so before, or it is closed before that. A run --once does not wait for it.
func (d *discovery) lookLater(in *input, g rotated) {
	if !g.next && g.open && !d.t.o.Once {
		in.scan.rotated = append(in.scan.rotated, g)
	}
}

// whereIs returns where a rotated file is now, in its folder or in one beside or below that; empty: it
// was not found.
func (in *input) whereIs(g rotated) string {
	if g.deleted {
		path, _ := in.folders.FindInfo(g.info)
		return path
	}
	return in.whereNow(g.info.Paths(), inode.Of(g.info))
}

// whereNow is whereIs for the file n, which was at these paths and was not deleted.
func (in *input) whereNow(was []string, n inode.Node) string {
	path, ok := in.folders.Find(was, n)
	if !ok {
		path, _ = in.folders.FindNear(was[0], n)
	}
	return path
}

// findSiblings starts to read files beside a rotated one (was) that were rotated after it: a second
// rotation before the next scan would lose them. path is where the rotated file is now; empty: it
// is gone.
func (d *discovery) findSiblings(in *input, w *sources.Look, was rotated, path string) {
	at := slices.DeleteFunc(was.info.Paths(), func(p string) bool { return p == path }) // a run before may have found it there
	if len(at) == 0 {
		at = []string{was.info.First}
	}
	dir, old := filepath.Split(at[len(at)-1])
	if path != "" { // rotation may move files to another folder
		dir, _ = filepath.Split(path)
		slices.Reverse(at) // rotation goes by where links led
		if i := slices.IndexFunc(at, func(p string) bool { return filepath.Dir(p) == filepath.Dir(path) }); i >= 0 {
			old = filepath.Base(at[i])
		}
	}
	gone := rotation.Gone{
		Name: old, Born: was.info.Birth, Deleted: was.deleted, Empty: was.info.Size == 0 && was.since.IsZero() && path == "",
		Replaced: was.info.Real != "" && finder.Leads(was.info.Path) != dir+old && !in.Reads(dir+old),
	}
	if path != "" {
		gone.Now = filepath.Base(path)
		if st, err := inode.At(path); err == nil {
			gone.Written = st.Mtime
		}
	}
	if isLink := inode.IsLink(was.info.Path); path != "" && isLink && (was.info.Real == "" || was.info.Real == path) { // it was not renamed
		gone.Name, gone.Replaced, gone.Kept = gone.Now, false, finder.Leads(was.info.Path) != path
	}
	switch seen := was.info.Seen; {
	case !was.since.IsZero():
		gone.Seen = was.since.UnixNano()
	case was.info.Birth != 0 && seen < time.Now().UnixNano(): // else the clock was set back since
		gone.Seen = seen
	}
	gone.Lacks = d.lacks(in, was.info, dir, gone.Replaced)
	var found []sibling
	hasName := gone.Names()
	for _, e := range namesBeside(w, gone, filepath.Clean(dir), filepath.Dir(was.info.First)) {
		if s := (sibling{in: in, path: dir + e.Name}); e.Type.IsRegular() && hasName(e.Name) && d.judgeSibling(gone, hasName, &s) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b sibling) int {
		return cmp.Or(cmp.Compare(a.st.Birth, b.st.Birth), cmp.Compare(a.st.Mtime, b.st.Mtime))
	})
	for _, s := range found {
		if in.isUnopened(s.st.Node) {
			continue // askAgain tries it
		}
		if d.adopt(in, s.path, was.info.First); in.isUnopened(s.st.Node) {
			continue
		}
		d.t.o.Logger.Info("file was rotated before the agent had opened it; it is read under its new path", "file", s.path, "rotated_from", was.info.Path)
	}
}

// namesBeside returns the entries of a folder whose names gone.Names may accept, sorted.
func namesBeside(w *sources.Look, gone rotation.Gone, dir, home string) []finder.Entry {
	all := w.Beginning(dir, gone.Prefix())
	form, is := gone.OtherDates()
	if form == "" {
		return all
	}
	own := w.Beginning(dir, rotation.Stem(gone.Name))
	all = slices.Concat(own, w.Which(sources.Question{Folder: dir, Home: home, Form: form, Replaced: gone.Replaced}, all, is))
	slices.SortFunc(all, func(a, b finder.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(all)
}

// lacks returns rotation.Gone.Lacks for a file beside which is looked in the folder dir. replaced says that
// a link led to it: then no pattern matches the names of others to which that led.
func (d *discovery) lacks(in *input, info record.FileInfo, dir string, replaced bool) func(name string) bool {
	home, _ := filepath.Split(info.First)
	return func(name string) bool {
		if in.scan.paths == nil {
			d.t.on(recalled{in})
		}
		return !in.scan.paths[home+name] && !in.scan.paths[dir+name] && (replaced || in.Reads(home+name))
	}
}

// recalled asks for the paths of all files that an input remembers.
type recalled struct{ in *input }

func (e recalled) happen(*Tailer) {
	all := make(map[string]bool)
	for k := range e.in.known.All() {
		info := k.info.Info()
		for _, path := range append(info.Paths(), info.First) {
			all[path] = true
		}
	}
	e.in.scan.paths = all
}

// sibling is a file beside one that is gone.
type sibling struct {
	in   *input
	path string
	st   inode.Status
}

// judgeSibling reports whether a sibling of the gone file is to be read: it is looked at, then opened and
// compared with what was read, unless the first look is enough.
func (d *discovery) judgeSibling(gone rotation.Gone, hasName func(string) bool, s *sibling) bool {
	st, err := inode.At(s.path)
	if err != nil || gone.Judge(d.factsOf(s, st), hasName) != rotation.Compare {
		return false
	}
	s.st = st
	f, st, err := inode.Open(s.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // adopt tells why it cannot be read, and has it asked about again
	}
	defer f.Close()
	facts := d.factsOf(s, st)
	if facts.Held = rotation.Unread; d.wasRead(s.in, compare.Of(f, st, "")) {
		facts.Held = rotation.Read
	}
	return gone.Judge(facts, hasName) == rotation.Take
}

// factsOf returns what the status of a file tells of it.
func (d *discovery) factsOf(s *sibling, st inode.Status) rotation.Beside {
	elsewhere, known := s.in.Excludes(s.path) || d.isOfAnother(s.in, s.path), d.t.knows(s.in, st.Node).is
	return rotation.Beside{Name: filepath.Base(s.path), Born: st.Birth, Written: st.Mtime, Elsewhere: elsewhere, Known: known}
}

// isOfAnother reports whether a path is one that another input reads.
func (d *discovery) isOfAnother(in *input, path string) bool {
	return slices.ContainsFunc(d.t.inputs(), func(o *input) bool { return o != in && o.Spec.Matches(path) })
}

// wasRead reports whether all that the file s holds was read from other files, as far as can be told: all of it was
// compared, and it was not made after the file that it may be a copy of was truncated.
func (d *discovery) wasRead(in *input, s *compare.Sample) bool {
	like := likenesses{in: in, of: s}
	d.t.on(&like)
	if slices.ContainsFunc(like.longer, func(c *candidate) bool { return c.HeldAll(s) || c.GoesOnAs(s) }) {
		return true
	}
	return slices.ContainsFunc(like.alike, func(c *candidate) bool {
		f := c.Compare(s).Facts
		isOf := f.Content.Agrees() && f.Content != identity.Part && (f.Fate != identity.Truncated || f.Node != identity.Younger)
		return isOf && (s.Size <= c.End() || c.GoesOnAs(s)) || c.IsCopiedAs(s)
	})
}

// likenesses asks for the generations from which the file of a sample may have what it holds.
type likenesses struct {
	in            *input
	of            *compare.Sample
	alike, longer []*candidate
}

func (l *likenesses) happen(t *Tailer) {
	l.alike, l.longer = l.in.alike(l.of, t.scans.no), l.in.longer(l.of, t.scans.no)
}

// longer returns the generations whose head needs more bytes than the file s has, and that s may be named
// after: it may be a copy from when such a file was shorter. The caller holds mu.
func (in *input) longer(s *compare.Sample, scan uint64) (all []*candidate) {
	if s.Size >= int64(fingerprint.HeadLens[0]) {
		return nil
	}
	for k := range in.known.All() {
		if int64(k.info.Head().Len) > s.Size && compare.IsOfStem(s.File.Name(), k.info.Info()) {
			c := k.candidate(scan)
			c.Trail = k.places()
			all = append(all, c)
		}
	}
	return all
}
