package tail

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
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
)

// findMoved looks at the start for the files in unread where no pattern matches, and has them read
// on. Those that are not found go to in.lost, since their content may be found in another file
// later. It also looks for files that were rotated after each.
func (d *discovery) findMoved(in *input, unread []unfinished) {
	w := finder.NewLook()
	for _, u := range unread {
		if u.at != "" && u.info.Doubted == 0 {
			d.findSiblings(in, w, rotated{info: u.info}, u.at)
		}
	}
	d.mu.Lock()
	lost := slices.DeleteFunc(unread, func(u unfinished) bool { return u.at != "" || in.readers.Get(inode.Of(u.info)) != nil })
	for i := range lost {
		lost[i].found = lost[i].reader != nil // its content goes on in another file, a copy
	}
	d.mu.Unlock()
	for _, u := range lost {
		if !in.Reads(u.info.Path) && !in.onceNamed(u.info) {
			continue // it was no longer wanted before it was moved
		}
		path, ok := in.folders.FindInfo(u.info)
		if !ok && !u.found {
			path, ok = in.folders.FindNear(u.info.Path, inode.Of(u.info))
		}
		switch {
		case !ok && !u.found:
			d.locked(func() {
				if !slices.Contains(in.lost, u.generation) {
					in.lost = append(in.lost, u.generation)
				}
			})
		case ok && path == u.info.Path && !in.onceNamed(u.info):
			continue // a scan finds it by itself
		case ok:
			d.adopt(in, path, u.info.First)
		}
		if u.info.Doubted == 0 {
			d.findSiblings(in, w, rotated{info: u.info}, path) // those rotated after it may be there though it is gone
		}
	}
}

// meetMoved reads files that an earlier run has not read to their end and that now have a
// name that no pattern matches. It runs before other files are read: a file that was
// truncated before it was renamed has to be in the journal before a copy of it continues
// its generation, or a kill in between would lose it.
func (d *discovery) meetMoved(in *input, unread []unfinished) {
	for i, u := range unread {
		if !in.Reads(u.info.Path) {
			continue
		}
		if path, ok := in.folders.FindInfo(u.info); ok && path != u.info.Path && !in.Reads(path) {
			d.adopt(in, path, u.info.First)
			unread[i].at = path
		}
	}
}

// unfinished is a file that no earlier run has read to its end.
type unfinished struct {
	*generation
	info  record.FileInfo
	found bool   // what it held goes on in another, which may be a copy of it
	at    string // where meetMoved has found it
}

// unreadOf returns the files of an input that no reader has and no earlier run has read to their
// end. Of those that were truncated since it has copies looked for.
func (d *discovery) unreadOf(in *input) (all []unfinished) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range in.known.All() {
		switch info := k.info.Info(); {
		case k.reader != nil || info.Done:
		case in.byNode.get(k.node()) == k:
			all = append(all, unfinished{generation: k, info: info})
		case k.position < info.Size && info.Packed.Size == 0 && k.truncated.IsZero():
			k.own().left = compare.Departure{At: time.Now().UnixNano(), Unseen: true}
			in.truncated, in.lost = append(in.truncated, k), append(in.lost, k)
		}
	}
	return all
}

// findCopies looks beside truncated files for copies, as copytruncate leaves them, which may have
// lines that were written after the last read, and then beside each for copies from later truncations.
func (d *discovery) findCopies(in *input) {
	var found []rotated
	for _, k := range take(d.Tailer, &in.truncated) {
		var c *candidate
		d.locked(func() { c = k.candidate(d.scans.no) })
		last, isRead := d.copyOf(in, c)
		if last.path != "" {
			d.adopt(in, last.path, c.Info.First)
			isRead = isRead || !in.isUnopened(last.st.Node)
			if info := c.Info; last.st.Birth > 0 {
				info.Birth = last.st.Birth
				found = append(found, rotated{info: info, at: last.path})
			}
		}
		d.locked(func() {
			if isRead && k.reader == nil && k.position == 0 { // the copy is read as a file of its own
				d.settle(k)
			}
		})
	}
	for _, was := range found {
		d.findSiblings(in, finder.NewLook(), was, was.at)
	}
}

// copyOf returns a copy of the truncated generation c which is not known yet. Of several that begin alike,
// such as those of earlier truncations, the one that was changed last is the copy; one without a path: there
// is none. isRead says that one is known, and has all that was seen of a generation of which nothing was
// read.
func (d *discovery) copyOf(in *input, c *candidate) (last sibling, isRead bool) {
	for _, path := range c.Info.Paths() {
		dir, _ := filepath.Split(path)
		entries, _ := os.ReadDir(dir) // an error is as if no copy was found: the loss was counted at the truncation
		for _, e := range entries {
			path := dir + e.Name()
			if !e.Type().IsRegular() || !compare.IsNameOf(path, c.Info) || in.Excludes(path) || d.isOfAnother(in, path) {
				continue
			}
			switch st, known, is := d.continues(in, c, path); {
			case is && known:
				isRead = isRead || c.isUnread() && st.Size >= c.Info.Size
			case is && st.Ctime > last.st.Ctime:
				last = sibling{in, path, st}
			}
		}
	}
	return last, isRead
}

// isUnread reports whether nothing but the beginning of a generation is known, of which nothing was read.
func (c *candidate) isUnread() bool {
	return c.Position == 0 && len(c.Ahead) == 0 && c.Info.Head.Len > 0
}

// continues reports whether the file at path is a copy of the truncated generation c, which no reader has,
// and holds more than was read of that. known says that the file is known already. It also returns the status
// of the file.
func (d *discovery) continues(in *input, c *candidate, path string) (st inode.Status, known, is bool) {
	f, st, err := inode.Open(path)
	if err != nil {
		return st, false, false
	}
	defer f.Close()
	d.locked(func() { known = in.byNode.get(st.Node) != nil && in.doubted(st.Node) == nil })
	if c.reader != nil || c.Mark == 0 && !c.isUnread() || st.Size <= c.Position || !fingerprint.BeginsAs(f, c.Info.Head) {
		return st, known, false
	}
	if c.isUnread() { // another file with the same header was not written to so lately
		return st, known, !compare.IsStale(st, c.Info.Birth) && st.Ctime >= c.changed-int64(in.RotateQuiet.D())
	}
	return st, known, identity.Judge(c.Compare(compare.Of(f, st, "")).Facts) == identity.Continuation
}

// A file can be made and rotated away between two looks, or while nobody looks, to
// a name that no pattern matches. The file that was rotated before it was read, and
// shows the form of such names; if it was deleted since, they begin as its own.

// rotated is a file that is gone from its path.
type rotated struct {
	info  record.FileInfo
	since time.Time // it was at its path at that time; zero: nobody knows
	looks int       // that were taken beside it

	deleted bool   // no name of it is left, as far as is known
	at      string // where a compressed copy of what it held is; empty: the file itself is looked for
}

// mostLooks is how often is looked beside a file: names can change under the eyes
// of the first look.
const mostLooks = 3

// findRotated looks for files that were rotated after one that was just rotated or deleted, and
// that no scan has found, several times, since names can change during a look.
func (d *discovery) findRotated(in *input) {
	w := finder.NewLook()
	for _, g := range take(d.Tailer, &in.rotated) {
		path := g.at
		if path == "" {
			path = in.whereIs(g)
		}
		if path != g.info.Path {
			d.findSiblings(in, w, g, path)
		}
		if g.looks++; g.looks < mostLooks {
			d.locked(func() { in.rotated = append(in.rotated, g) })
			d.rescanSoon()
		}
	}
}

// whereIs returns where a rotated file is now, in its folder or in one beside or below that; empty: it
// was not found.
func (in *input) whereIs(g rotated) string {
	path, ok := in.folders.FindInfo(g.info)
	if !ok && !g.deleted {
		path, _ = in.folders.FindNear(g.info.Path, inode.Of(g.info))
	}
	return path
}

// findSiblings starts to read files beside a rotated one (was) that were rotated after it: a second
// rotation before the next scan would lose them. path is where the rotated file is now; empty: it
// is gone.
func (d *discovery) findSiblings(in *input, w *finder.Walk, was rotated, path string) {
	at := slices.DeleteFunc(was.info.Paths(), func(p string) bool { return p == path }) // a run before may have found it there
	if len(at) == 0 {
		at = []string{was.info.First}
	}
	dir, old := filepath.Split(at[len(at)-1])
	if path != "" { // rotation may move files to another folder
		dir, _ = filepath.Split(path)
		if i := slices.IndexFunc(at, func(p string) bool { return filepath.Dir(p) == filepath.Dir(path) }); i >= 0 {
			old = filepath.Base(at[i])
		}
	}
	gone := rotation.Gone{
		Name: old, Born: was.info.Birth, Deleted: was.deleted,
		Replaced: was.info.Real != "" && finder.Leads(was.info.Path) != dir+old && !in.Reads(dir+old),
	}
	if path != "" {
		gone.Now = filepath.Base(path)
	}
	if isLink := inode.IsLink(was.info.Path); path != "" && isLink && (was.info.Real == "" || was.info.Real == path) { // it was not renamed
		gone.Name, gone.Replaced, gone.Kept = gone.Now, false, finder.Leads(was.info.Path) != path
	}
	if !was.since.IsZero() {
		gone.Seen = was.since.UnixNano()
	}
	gone.Lacks = d.lacks(in, was.info, dir, gone.Replaced)
	var found []sibling
	hasName := gone.Names()
	for _, e := range w.Beginning(filepath.Clean(dir), gone.Prefix()) {
		if s := (sibling{in: in, path: dir + e.Name}); e.Type.IsRegular() && hasName(e.Name) && d.judgeSibling(gone, hasName, &s) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b sibling) int { return cmp.Compare(a.st.Birth, b.st.Birth) })
	for _, s := range found {
		if in.isUnopened(s.st.Node) {
			continue // askAgain tries it
		}
		if d.adopt(in, s.path, was.info.First); in.isUnopened(s.st.Node) {
			continue
		}
		d.o.Logger.Info("file was rotated before the agent had opened it; it is read under its new path", "file", s.path, "rotated_from", was.info.Path)
	}
}

// lacks returns rotation.Gone.Lacks for a file beside which is looked in the folder dir. replaced says that
// a link led to it: then no pattern matches the names of others to which that led.
func (d *discovery) lacks(in *input, info record.FileInfo, dir string, replaced bool) func(name string) bool {
	home, _ := filepath.Split(info.First)
	return func(name string) bool {
		if !replaced && !in.Reads(home+name) {
			return false
		}
		if in.paths == nil {
			d.locked(func() { in.paths = in.knownPaths() })
		}
		return !in.paths[home+name] && !in.paths[dir+name]
	}
}

// knownPaths returns the paths of all files that are remembered. The caller holds mu.
func (in *input) knownPaths() map[string]bool {
	all := make(map[string]bool)
	for k := range in.known.All() {
		info := k.info.Info()
		for _, path := range append(info.Paths(), info.First) {
			all[path] = true
		}
	}
	return all
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
	b := rotation.Beside{Name: filepath.Base(s.path), Born: st.Birth, Written: st.Mtime, Elsewhere: s.in.Excludes(s.path) || d.isOfAnother(s.in, s.path)}
	d.locked(func() { b.Known = s.in.has(st.Node) })
	return b
}

// isOfAnother reports whether a path is one that another input reads.
func (d *discovery) isOfAnother(in *input, path string) bool {
	return slices.ContainsFunc(d.inputs, func(o *input) bool { return o != in && o.Spec.Matches(path) })
}

// wasRead reports whether all that the file s holds was read from other files, as far as can be told.
func (d *discovery) wasRead(in *input, s *compare.Sample) bool {
	var alike, longer []*candidate
	d.locked(func() { alike, longer = in.alike(s, d.scans.no), in.longer(s, d.scans.no) })
	if slices.ContainsFunc(longer, func(c *candidate) bool { return c.HeldAll(s) || c.GoesOnAs(s) }) {
		return true
	}
	return slices.ContainsFunc(alike, func(c *candidate) bool {
		return c.Compare(s).Facts.Content.Agrees() && (s.Size <= c.End() || c.GoesOnAs(s)) || c.MayBeCut(s)
	})
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

// A file can be made and renamed, to a name that no pattern matches, before anybody
// has looked. Events tell that it was where a pattern matched.

// meetRenamed reads files that were renamed before a scan found them, from a path that a pattern
// matches to one that none does.
func (d *discovery) meetRenamed() {
	wanted := func(path string) bool {
		return slices.ContainsFunc(d.inputs, func(in *input) bool { return in.Spec.Hears(path) })
	}
	for to, was := range d.origins.Follow(take(d.Tailer, &d.news.renames), time.Now(), wanted) {
		for _, in := range d.inputs {
			if in.Spec.Hears(was) && !in.Spec.Matches(to) && !in.Excludes(to) && !d.isKnown(in, to) {
				d.o.Logger.Info("file was renamed before the agent had opened it, and no input matches its new path; it is read under the new path", "file", to, "was", was)
				d.meet(in, to, was)
			}
		}
	}
}

// isKnown reports whether a path need not be read: no regular file is there, or the input knows the
// file already.
func (d *discovery) isKnown(in *input, path string) bool {
	st, err := inode.At(path)
	d.mu.Lock()
	defer d.mu.Unlock()
	return err != nil || !st.IsRegular() || in.has(st.Node)
}
