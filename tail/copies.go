package tail

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/rotation"
	"kusto-agent/tail/internal/sources"
)

// findCopies looks for copies of truncated files, as copytruncate leaves them, which may have lines that
// were written after the last read, and then beside each for copies from later truncations.
func (d *discovery) findCopies(in *input) {
	w := sources.NewLook()
	var found []rotated
	for _, c := range in.scan.cut {
		last, isRead := d.copyOf(in, w, c)
		if last.path != "" {
			if last.st.Size > c.Position {
				d.adopt(in, last.path, c.Info.First)
				isRead = isRead || !in.isUnopened(last.st.Node)
			}
			found = append(found, copied(c.Info, last))
		}
		if isRead && c.Position == 0 {
			in.scan.settled = append(in.scan.settled, c)
		}
	}
	for _, was := range found {
		d.findSiblings(in, sources.NewLook(), was, was.at)
	}
}

// copied returns a file of which s is a copy: what was rotated after it was copied later.
func copied(info record.FileInfo, s sibling) rotated {
	info.Birth = max(s.st.Birth, s.st.Mtime) // it may have been copied over an older one
	return rotated{info: info, at: s.path}
}

// copyOf returns a copy of the truncated generation c which is not known yet, from the first of its folders
// that has one. Of several that begin alike, such as those of earlier truncations, it is one that holds more
// than was read, if there is any, and of these the one that was changed last; one without a path: there is
// none. isRead says that one is known, and has all that was seen of a generation of which nothing was read.
func (d *discovery) copyOf(in *input, w *sources.Look, c *candidate) (last sibling, isRead bool) {
	for _, dir := range in.copyFolders(w.Walk, c) {
		for _, path := range d.copyPaths(in, w, c, dir) {
			switch st, known, is := d.continues(in, c, path); {
			case is && known:
				isRead = isRead || c.isUnread() && st.Size >= c.Info.Size
			case is && cmp.Or(cmp.Compare(min(st.Size, c.Position+1), min(last.st.Size, c.Position+1)), cmp.Compare(st.Ctime, last.st.Ctime)) > 0:
				last = sibling{in, path, st}
			}
		}
		if last.path != "" || isRead {
			break
		}
	}
	return last, isRead
}

// copyFolders returns the folders in which copies of a generation may be: its own, and those in it and beside
// it to which rotation may move files (olddir), but not those of an empty one, which may be a mount point. One
// in which a file has its very name is that of another log, which may begin alike: it counts only if more was
// read than a header.
func (in *input) copyFolders(w *finder.Walk, c *candidate) (all []string) {
	for _, path := range c.Info.Paths() {
		all = append(all, filepath.Dir(path))
	}
	for _, own := range all {
		if len(w.Beginning(own, "")) == 0 {
			continue
		}
		for _, dir := range in.folders.Near(own) {
			if c.End() >= identity.Enough || !inode.Exists(filepath.Join(dir, filepath.Base(c.Info.Path))) {
				all = append(all, dir)
			}
		}
	}
	return all
}

// copyPaths returns the paths of the files in a folder that may be copies of a generation, by their names, and
// by how they begin where there are many. Where a file elsewhere has its very name and a pattern matches that,
// it is another log.
func (d *discovery) copyPaths(in *input, w *sources.Look, c *candidate, dir string) (all []string) {
	at := c.Info.Paths()
	for _, was := range append(at, c.Info.First) {
		all = append(all, w.Named(dir, filepath.Base(was), c.Info.Head)...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(path string) bool {
		was := slices.Contains(at, path) || filepath.Base(path) == filepath.Base(c.Info.Path) && in.Reads(path)
		return was || in.Excludes(path) || d.isOfAnother(in, path)
	})
}

// readCopies reads the copies of the generation c, whose file is gone, as rotation leaves them where it copies
// a file, perhaps to another file system, and deletes it (renamecopy), and what was rotated after each. It
// reports whether there is one: then what was left unread of the file is in it.
func (d *discovery) readCopies(in *input, w *sources.Look, c *candidate) (found bool) {
	for _, s := range d.copiesOfGone(in, w, c) {
		switch {
		case s.spent || d.t.knows(in, s.st.Node).is:
			found = found || c.End() >= identity.Enough // else it may be an earlier file with the same header
		case !in.Reads(s.path): // else a scan has met it, and leaves it out
			if d.adopt(in, s.path, c.Info.First); !in.isUnopened(s.st.Node) {
				found = true
				d.t.o.Logger.Info("file was copied before it was deleted, and no pattern matches the copy; it is read under its new path", "file", s.path,
					"of", c.Info.Path, "offset", c.Position, "bytes", s.st.Size)
			}
		}
		d.findSiblings(in, w, copied(c.Info, s.sibling), s.path)
	}
	if found {
		in.scan.settled = append(in.scan.settled, c)
	}
	return found
}

// findBesideCopies is findSiblings for a file that was deleted, beside the copies that rotation has made of
// it: the file itself is read to its end.
func (d *discovery) findBesideCopies(in *input, w *sources.Look, was rotated) {
	for _, s := range d.copiesOfGone(in, w, was.gone) {
		of := copied(was.info, s.sibling)
		of.deleted, of.since = was.deleted, was.since
		d.findSiblings(in, w, of, s.path)
	}
}

// spare is a copy of a file that is gone.
type spare struct {
	sibling
	spent bool // all that it holds was read
}

// copiesOfGone returns the copies of the generation c, whose file is gone: they begin with all that is known of
// it.
func (d *discovery) copiesOfGone(in *input, w *sources.Look, c *candidate) (all []spare) {
	if !c.isComparable() {
		return nil
	}
	for _, dir := range in.copyFolders(w.Walk, c) {
		for _, path := range d.copyPaths(in, w, c, dir) {
			f, st, err := inode.Open(path)
			if err != nil {
				continue
			}
			if c.isIn(f, st) {
				all = append(all, spare{sibling{in, path, st}, d.wasRead(in, compare.Of(f, st, ""))})
			}
			f.Close()
		}
	}
	return all
}

// isIn reports whether an open file begins with all that is known of a generation that can be compared.
func (c *candidate) isIn(f *os.File, st inode.Status) bool {
	return !c.IsOlder(st) && st.Size >= c.Position && fingerprint.BeginsAs(f, c.Info.Head) && c.Fits(f, st.Size)
}

// isComparable reports whether a file can be compared with what is known of a generation.
func (c *candidate) isComparable() bool {
	return c.Mark != 0 || c.Position == 0 && len(c.Ahead) > 0 || c.isUnread()
}

// isUnread reports whether nothing but the beginning of a generation is known, of which nothing was read.
func (c *candidate) isUnread() bool {
	return c.Position == 0 && len(c.Ahead) == 0 && c.Info.Head.Len > 0
}

// continues reports whether the file at path is a copy of the truncated generation c, which no reader has,
// and holds all that was read of that. known says that the file is known already. It also returns the status
// of the file.
func (d *discovery) continues(in *input, c *candidate, path string) (st inode.Status, known, is bool) {
	f, st, err := inode.Open(path)
	if err != nil {
		return st, false, false
	}
	defer f.Close()
	k := d.t.knows(in, st.Node)
	known = k.is && !k.doubted
	if c.reader != nil || !c.isComparable() || c.IsOlder(st) || st.Size < c.Position || !fingerprint.BeginsAs(f, c.Info.Head) {
		return st, known, false
	}
	if c.isUnread() { // another file with the same header was not written to so lately
		return st, known, st.Ctime >= c.changed-int64(in.RotateQuiet.D())
	}
	sample := compare.Of(f, st, "")
	facts := c.Compare(sample).Facts
	v := identity.Judge(facts)
	is = v == identity.Continuation || v == identity.Copy // it ends where reading stopped: others were rotated after it
	if isOf := facts.Content.IsAll() || facts.Content == identity.Little; !is && isOf && c.Left.Unseen && sample.Born() <= c.Left.At {
		// Perhaps another with the same header, or the clock does not tell what came first: it is read from its start.
		is = filepath.Base(path) != filepath.Base(c.Info.First) && !d.wasRead(in, sample)
	}
	return st, known, is
}

// isKeptElsewhere reports whether rotation has copied or compressed the deleted file of a generation since the
// file s was made that has its name now: then s is the next one, and may have the same header. What an editor
// saves anew leaves no such file.
func (in *input) isKeptElsewhere(c *candidate, s *compare.Sample) bool {
	name := filepath.Base(s.File.Name())
	if s.Birth == 0 || name != filepath.Base(c.Info.Path) && name != filepath.Base(c.Info.First) {
		return false
	}
	w, isRotated := finder.NewLook(), rotation.Gone{Name: name}.Names()
	for _, dir := range in.copyFolders(w, c) {
		for _, e := range w.Beginning(dir, rotation.Stem(name)) {
			if packed := isRotated(strings.TrimSuffix(e.Name, filepath.Ext(e.Name))); packed || isRotated(e.Name) {
				f, st, err := inode.Open(filepath.Join(dir, e.Name))
				if err != nil {
					continue
				}
				is := st.Node != s.Node && max(st.Birth, st.Mtime) >= s.Birth && (packed || c.isIn(f, st))
				if f.Close(); is {
					return true
				}
			}
		}
	}
	return false
}
