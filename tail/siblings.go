package tail

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kusto-agent/record"
)

// A file can be made and rotated away between two looks, or while nobody looks, to
// a name that no pattern matches. The file that was rotated before it was read, and
// shows the form of such names; if it was deleted since, or nobody ever saw it, they
// begin as its own.

// rotated is a file that is gone from its path.
type rotated struct {
	info  record.FileInfo // without an inode: an event told of it, and it may be one that nobody ever saw
	since time.Time       // it was at its path at that time; zero: nobody knows
	looks int             // that were taken beside it
}

// coarse is how far the clock of a file system may be behind: a tick of the kernel.
const coarse = 10 * time.Millisecond

// renamedAway notes that a file was renamed from a path. One that was made after the
// scans that are over have looked was seen by none.
func (t *Tailer) renamedAway(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.away) < atOnce {
		since := t.looked[0].Add(-coarse).UnixNano()
		t.away = append(t.away, rotated{info: record.FileInfo{Path: path, Birth: since}})
	}
}

// shareAway hands what was renamed to the inputs that would have read it.
func (t *Tailer) shareAway() {
	t.mu.Lock()
	away := t.away
	t.away = nil
	t.mu.Unlock()
	for _, a := range away {
		for _, in := range t.inputs {
			if in.Watch != "poll" && in.matches(a.info.Path) {
				in.noteAway(a)
			}
		}
	}
}

// noteAway has a rename looked into, with the others from that path.
func (in *input) noteAway(a rotated) {
	for i, r := range in.rotated {
		if r.info.Inode == 0 && r.info.Path == a.info.Path {
			in.rotated[i].looks = 0
			return
		}
	}
	in.rotated = append(in.rotated, a)
}

// mostLooks is how often is looked beside a file: names can change under the eyes
// of the first look.
const mostLooks = 3

// findRotated looks for what was rotated after files that are found gone.
func (t *Tailer) findRotated(in *input) {
	t.mu.Lock()
	gone := in.rotated
	in.rotated = nil
	t.mu.Unlock()
	w := newWalk()
	w.polled = true // no folder has to be watched for this
	for _, g := range gone {
		path := ""
		if g.info.Inode != 0 {
			path, _ = findNode(g.info)
		}
		if path != g.info.Path {
			t.findSiblings(in, w, g, path)
		}
		if g.looks++; g.looks < mostLooks {
			t.mu.Lock()
			in.rotated = append(in.rotated, g)
			t.mu.Unlock()
			t.rescanSoon()
		}
	}
}

// findSiblings reads the files beside one that was rotated to a path, or is gone
// where that is empty, that were rotated after it: they are younger, and nobody
// knows them.
func (t *Tailer) findSiblings(in *input, w *walk, was rotated, path string) {
	dir, old := filepath.Split(was.info.Path)
	isOne := rotatedFrom(old)
	if path != "" {
		if filepath.Dir(path) != filepath.Clean(dir) {
			return
		}
		isOne = likeRotated(old, filepath.Base(path))
	}
	type sibling struct {
		path  string
		birth int64
	}
	var found []sibling
	for _, e := range w.list(filepath.Clean(dir), func(e fs.DirEntry) bool { return e.Type().IsRegular() && isOne(e.Name()) }) {
		if in.Excludes(dir + e.Name()) {
			continue
		}
		if birth := t.strangerSince(in, dir+e.Name(), was); birth > 0 {
			found = append(found, sibling{dir + e.Name(), birth})
		}
	}
	slices.SortFunc(found, func(a, b sibling) int { return int(min(max(a.birth-b.birth, -1), 1)) })
	for _, s := range found {
		t.o.Logger.Info("file was rotated before it was seen, reading it", "file", s.path, "was", was.info.Path)
		t.adopt(in, s.path, true)
	}
}

// likeRotated tells names that are as one to which a file was rotated but for the
// digits. They begin as the old name does.
func likeRotated(old, rotated string) func(name string) bool {
	form, stem := formOf(rotated), strings.TrimSuffix(old, filepath.Ext(old))
	if !strings.HasPrefix(rotated, stem) || !strings.Contains(form, "0") || form == formOf(old) {
		return func(string) bool { return false }
	}
	return func(name string) bool { return name != rotated && formOf(name) == form }
}

// rotatedFrom tells names to which a file may have been rotated: its own, with a
// number behind it.
func rotatedFrom(old string) func(name string) bool {
	return func(name string) bool {
		more, ok := strings.CutPrefix(name, old)
		return ok && strings.Contains(formOf(more), "0") && !isCompressed(name)
	}
}

func isCompressed(name string) bool {
	return slices.Contains([]string{".gz", ".zst", ".bz2", ".xz"}, filepath.Ext(name))
}

// strangerSince returns the birth time of a file that was made after another, and
// that is neither known nor a copy of what is; 0: it is something else.
func (t *Tailer) strangerSince(in *input, path string, was rotated) int64 {
	f, st, err := openFile(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	// The clock of files may be a little behind.
	if st.birth <= was.info.Birth || !was.since.IsZero() && st.birth < was.since.Add(-time.Second).UnixNano() {
		return 0
	}
	s := newSample(f, st, nil)
	t.mu.Lock()
	known := in.readers[st.node] != nil || in.byNode[st.node] != nil || len(in.alike(s, t.scanNo)) > 0
	longer := in.trailsBeyond(st.size)
	t.mu.Unlock()
	if known || slices.ContainsFunc(longer, func(t trail) bool { return t.holds(f, st.size) }) {
		return 0
	}
	return st.birth
}

// trailsBeyond are the trails of what begins with more than a file of a size has: it
// may be a copy that was made when there was less. The caller holds mu.
func (in *input) trailsBeyond(size int64) (all []trail) {
	for _, k := range in.known {
		if int64(k.info.Head.Len) > size && len(k.trail) > 0 {
			all = append(all, slices.Clone(k.trail))
		}
	}
	return all
}

// formOf is a name with one zero for each number in it.
func formOf(name string) string {
	var b strings.Builder
	digits := false
	for _, c := range []byte(name) {
		isDigit := '0' <= c && c <= '9'
		if !isDigit {
			b.WriteByte(c)
		} else if !digits {
			b.WriteByte('0')
		}
		digits = isDigit
	}
	return b.String()
}
