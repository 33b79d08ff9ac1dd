package tail

import (
	"cmp"
	"os"
	"path/filepath"

	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
)

// findCopies looks beside truncated files for copies, as copytruncate leaves them, which may have
// lines that were written after the last read, and then beside each for copies from later truncations.
func (d *discovery) findCopies(in *input) {
	var cut []*candidate
	d.t.locked(func() {
		for _, k := range in.truncated {
			cut = append(cut, k.candidate(d.t.scans.no))
		}
		in.truncated = nil
	})
	var found []rotated
	var read []*generation // in copies that are files of their own
	for _, c := range cut {
		last, isRead := d.copyOf(in, c)
		if last.path != "" {
			if last.st.Size > c.Position {
				d.adopt(in, last.path, c.Info.First)
				isRead = isRead || !in.isUnopened(last.st.Node)
			}
			info := c.Info
			info.Birth = max(last.st.Birth, last.st.Mtime) // it may have been copied over an older one
			found = append(found, rotated{info: info, at: last.path})
		}
		if isRead && c.Position == 0 {
			read = append(read, c.k)
		}
	}
	d.t.locked(func() {
		for _, k := range read {
			if k.reader == nil && k.position == 0 {
				d.t.settle(k)
			}
		}
	})
	for _, was := range found {
		d.findSiblings(in, finder.NewLook(), was, was.at)
	}
}

// copyOf returns a copy of the truncated generation c which is not known yet. Of several that begin alike,
// such as those of earlier truncations, it is one that holds more than was read, if there is any, and of these
// the one that was changed last; one without a path: there is none. isRead says that one is known, and has all
// that was seen of a generation of which nothing was read.
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
			case is && cmp.Or(cmp.Compare(min(st.Size, c.Position+1), min(last.st.Size, c.Position+1)), cmp.Compare(st.Ctime, last.st.Ctime)) > 0:
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
// and holds all that was read of that. known says that the file is known already. It also returns the status
// of the file.
func (d *discovery) continues(in *input, c *candidate, path string) (st inode.Status, known, is bool) {
	f, st, err := inode.Open(path)
	if err != nil {
		return st, false, false
	}
	defer f.Close()
	known, doubted := d.knows(in, st.Node)
	known = known && !doubted
	if c.reader != nil || c.Mark == 0 && !c.isUnread() || st.Size < c.Position || !fingerprint.BeginsAs(f, c.Info.Head) {
		return st, known, false
	}
	if c.isUnread() { // another file with the same header was not written to so lately
		return st, known, !compare.IsStale(st, c.Info.Birth) && st.Ctime >= c.changed-int64(in.RotateQuiet.D())
	}
	return st, known, identity.Judge(c.Compare(compare.Of(f, st, "")).Facts) == identity.Continuation
}
