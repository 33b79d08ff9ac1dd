package tail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/identity"
)

// findMoved looks at the start for the files in unread: those that an earlier run has not read to
// their end. If such a file was rotated, so that no pattern matches it now, findMoved finds it by
// its inode, in the folders of the input or beside its old path, and has it read on. Files that are
// not found go to in.lost, since their content may be found in another file later. For each file it
// also looks for files that were rotated after it.
func (t *Tailer) findMoved(in *input, unread []unfinished) {
	w := finder.NewLook()
	for _, u := range unread {
		if u.at != "" && u.info.Doubted == 0 {
			t.findSiblings(in, w, rotated{info: u.info}, u.at)
		}
	}
	t.mu.Lock()
	lost := slices.DeleteFunc(unread, func(u unfinished) bool { return u.at != "" || in.readers.Get(nodeOf(u.info)) != nil })
	for i := range lost {
		lost[i].found = lost[i].reader != nil // its content goes on in another file, a copy
	}
	t.mu.Unlock()
	for _, u := range lost {
		if !in.reads(u.info.Path) && !in.onceNamed(u.info) {
			continue // it was no longer wanted before it was moved
		}
		path, ok := in.folders.findNode(u.info)
		if !ok && !u.found {
			path, ok = finder.FindBeside(u.info.Path, foundOf(u.info))
		}
		switch {
		case u.info.Doubted != 0 && ok:
			if path != u.info.Path {
				t.adopt(in, path, true)
			}
		case !ok && u.found:
			t.findSiblings(in, w, rotated{info: u.info}, "")
		case !ok:
			t.locked(func() { in.lost = append(in.lost, u.known) })
			if u.info.Doubted == 0 {
				t.findSiblings(in, w, rotated{info: u.info}, "") // those rotated after it may still be there
			}
		case path != u.info.Path || in.onceNamed(u.info):
			t.adopt(in, path, true)
			t.findSiblings(in, w, rotated{info: u.info}, path)
		}
	}
}

// meetMoved reads files that an earlier run has not read to their end and that now have a
// name that no pattern matches. It runs before other files are read: a file that was
// truncated before it was renamed has to be in the journal before a copy of it continues
// its generation, or a kill in between would lose it.
func (t *Tailer) meetMoved(in *input, unread []unfinished) {
	for i, u := range unread {
		if !in.reads(u.info.Path) {
			continue
		}
		if path, ok := in.folders.findNode(u.info); ok && path != u.info.Path && !in.reads(path) {
			t.adopt(in, path, true)
			unread[i].at = path
		}
	}
}

// unfinished is a file that no earlier run has read to its end.
type unfinished struct {
	*known
	info  record.FileInfo
	found bool   // what it held goes on in another, which may be a copy of it
	at    string // where meetMoved has found it
}

// unreadOf returns the files of an input that no reader has and that no earlier run has read to
// their end. Only the latest generation of a file counts.
func (t *Tailer) unreadOf(in *input) (all []unfinished) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range in.known.All() {
		if k.reader == nil && !k.info.Info().Done && in.byNode.get(k.node()) == k {
			all = append(all, unfinished{known: k, info: k.info.Info()})
		}
	}
	return all
}

// findCopies looks beside truncated files for copies, as copytruncate leaves them: under
// names that begin with the file's name, whether or not a pattern matches. A copy may have
// lines that were written after the last read.
func (t *Tailer) findCopies(in *input) {
	t.mu.Lock()
	lost := in.truncated
	in.truncated = nil
	paths := make([][]string, len(lost))
	for i, k := range lost {
		info := k.info.Info()
		paths[i] = info.Paths()
	}
	t.mu.Unlock()
	for i, k := range lost {
		for _, path := range paths[i] {
			dir, base := filepath.Split(path)
			entries, _ := os.ReadDir(dir) // an error is as if no copy was found: the loss was counted at the truncation
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), base) && e.Name() != base && e.Type().IsRegular() && t.continues(k, dir+e.Name()) {
					t.adopt(in, dir+e.Name(), true)
				}
			}
		}
	}
}

// continues reports whether the file at path holds all that was read of the generation k, and more,
// and is a copy of it. If k has a reader or no hash of its position, it returns false.
func (t *Tailer) continues(k *known, path string) bool {
	f, st, err := openFile(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var c *candidate
	t.locked(func() { c = k.candidate(t.scanNo) })
	if c.reader != nil || c.mark == 0 || st.size <= c.position || !beginsAs(f, c.info.Head) {
		return false
	}
	return identity.Judge(c.compare(newSample(f, st, "")).facts) == identity.Continuation
}
