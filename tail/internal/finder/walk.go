package finder

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kusto-agent/tail/internal/trusted"
)

// Walk finds what patterns match at one time. Folders are read once, however many
// patterns pass through them, unless there is so much in them that it cannot be kept.
// It belongs to one goroutine.
type Walk struct {
	Passed map[string]bool  // folders to be watched, for a match can appear in them
	Errs   map[string]error // paths that could not be looked at: what is there is unknown

	folders map[string][]Entry
	kept    int  // entries in folders
	most    int  // of these
	look    bool // its folders are not to be watched
	polled  bool // those at hand do without events
}

// Sighting is a file that patterns match. The path is made when it is asked for: of many
// files it would take most of the memory.
type Sighting struct{ dir, name string }

// Path is where the file is.
func (s Sighting) Path() string { return filepath.Join(s.dir, s.name) }

// Entry is a name in a folder.
type Entry struct {
	Name string
	Type fs.FileMode // of what has the name, which may be a link
}

// IsDir reports whether it is a folder.
func (e Entry) IsDir() bool { return e.Type.IsDir() }

// NewWalk is a walk that has read no folder yet.
func NewWalk() *Walk {
	return &Walk{folders: make(map[string][]Entry), most: keptEntries, Passed: make(map[string]bool), Errs: make(map[string]error)}
}

// NewLook returns a walk whose folders are not to be watched. It is for looking for many files in the same folders,
// and remembers more of them.
func NewLook() *Walk {
	w := NewWalk()
	w.most, w.look, w.polled = keptByLooks, true, true
	return w
}

// Match yields the paths that the spec matches, in the order of its patterns, each once. A folder
// is read when the first path in it is asked for.
func (w *Walk) Match(s *Spec) iter.Seq[Sighting] {
	return func(yield func(Sighting) bool) {
		w.polled = w.look || !s.Heard
		m := &matching{w: w, s: s, yield: yield}
		if s.ways() > 1 {
			m.seen = make(map[string]bool)
		}
		for _, p := range s.Patterns {
			if !m.step(p.base, p.parts) {
				return
			}
		}
	}
}

// matching is a Match under way. Its methods return false when the caller wants no more.
type matching struct {
	w     *Walk
	s     *Spec
	yield func(Sighting) bool
	seen  map[string]bool // paths; nil: none can be met twice
}

// Below returns the paths below one folder that the spec matches, by name. It lists the
// folders anew. The caller owns the slice.
func (w *Walk) Below(s *Spec, dir string) (found []Sighting) {
	clear(w.folders)
	w.kept, w.polled = 0, w.look || !s.Heard
	return w.below(s, dir, nil)
}

// below adds to found what Below returns for one folder, and goes on in the folders in it.
func (w *Walk) below(s *Spec, dir string, found []Sighting) []Sighting {
	for _, e := range w.list(dir, func(Entry) bool { return true }) {
		path := filepath.Join(dir, e.Name)
		switch {
		case e.IsDir() && s.HearsBelow(path):
			found = w.below(s, path, found)
		case !e.IsDir() && s.Matches(path):
			found = append(found, Sighting{dir, e.Name})
		}
	}
	return found
}

// step matches the entries of one folder with the first of parts (the names of a pattern, cut at
// slashes), and goes on with the rest in the folders that match. With the last part it yields what
// matches. A name without glob characters is looked up, so that the folder need not be listed.
func (m *matching) step(folder string, parts []string) bool {
	name, rest := parts[0], parts[1:]
	switch {
	case name == "**":
		return m.deep(folder, rest)
	case !strings.ContainsAny(name, meta):
		path := filepath.Join(folder, name)
		m.w.pass(folder)
		if len(rest) > 0 {
			return m.step(path, rest)
		}
		if st, err := os.Lstat(path); err == nil {
			return m.add(folder, Entry{name, st.Mode().Type()})
		} else if !errors.Is(err, fs.ErrNotExist) {
			m.w.Errs[path] = err
		}
		return true
	}
	for _, e := range m.w.list(folder, func(e Entry) bool { return matches(name, e.Name) }) {
		more := true
		if len(rest) > 0 {
			if path := filepath.Join(folder, e.Name); m.w.isFolder(path, e) {
				more = m.step(path, rest)
			}
		} else if name != "*" || !e.IsDir() { // whoever asks for all means the files
			more = m.add(folder, e)
		}
		if !more {
			return false
		}
	}
	return true
}

// deep matches parts in a folder and in all folders below it. It does not follow links,
// which can form a circle.
func (m *matching) deep(folder string, parts []string) bool {
	if len(parts) == 0 {
		parts = []string{"*"}
	}
	if !m.step(folder, parts) {
		return false
	}
	for _, e := range m.w.list(folder, Entry.IsDir) {
		if !m.deep(filepath.Join(folder, e.Name), parts) {
			return false
		}
	}
	return true
}

// add yields a path, unless the spec excludes it or, where two patterns may find the same path, it
// was yielded already.
func (m *matching) add(dir string, e Entry) bool {
	at := Sighting{dir, e.Name}
	if m.seen != nil || len(m.s.Exclude) > 0 {
		path := at.Path()
		if m.seen[path] || Excluded(m.s.Exclude, path) {
			return true
		}
		if m.seen != nil {
			m.seen[path] = true
		}
	}
	if e.Type&fs.ModeSymlink != 0 && !m.w.polled {
		m.w.passTargets(at.Path())
	}
	return m.yield(at)
}

// passTargets notes the folders that a link to a file leads to, so that they are watched: there rotation
// puts another file at the name that the link leads to. Those of a link to a device are not: there are events of
// whatever is written to any of these.
func (w *Walk) passTargets(link string) {
	if trusted.Refused(link) != nil {
		return
	}
	if st, err := os.Stat(link); err == nil && !st.Mode().IsRegular() {
		return
	}
	for range mostHops {
		to, err := os.Readlink(link)
		if err != nil { // it is no link
			return
		}
		to = beside(link, to)
		if dir := filepath.Dir(to); !w.Passed[dir] {
			if st, err := os.Stat(dir); err != nil || !st.IsDir() {
				return
			}
			w.Passed[dir] = true
		}
		link = to
	}
}

// keptEntries is how many entries a walk remembers, keptByLooks how many a look does, and atATime how many are read
// of a folder at once: of a tree of a million names nearly none may match.
const (
	keptEntries = 100_000
	keptByLooks = 400_000
	atATime     = 4096
)

// list returns the wanted entries of a folder, sorted by name. It keeps the listing for the next
// call, unless there are too many entries. A missing folder is empty; one that cannot be read is
// noted in Errs.
func (w *Walk) list(folder string, wanted func(Entry) bool) (found []Entry) {
	w.pass(folder)
	if all, ok := w.folders[folder]; ok {
		for _, e := range all {
			if wanted(e) {
				found = append(found, e)
			}
		}
		return found
	}
	f, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY, 0) // a FIFO would block
	if err != nil {
		w.unread(folder, err)
		return nil
	}
	defer f.Close()
	var all []Entry
	keep := true
	for err == nil {
		var some []fs.DirEntry
		some, err = f.ReadDir(atATime)
		if keep = keep && w.kept+len(all)+len(some) <= w.most; !keep {
			all = nil
		}
		for _, d := range some {
			e := Entry{d.Name(), d.Type()}
			if wanted(e) {
				found = append(found, e)
			}
			if keep {
				all = append(all, e)
			}
		}
	}
	byName := func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(found, byName)
	if err != io.EOF {
		w.unread(folder, err)
	} else if keep {
		slices.SortFunc(all, byName)
		w.folders[folder] = all
		w.kept += len(all)
	}
	return found
}

// Beginning returns the entries of a folder whose names begin with prefix, sorted by name. The
// caller only reads the slice.
func (w *Walk) Beginning(folder, prefix string) []Entry {
	begins := func(e Entry) bool { return strings.HasPrefix(e.Name, prefix) }
	all, ok := w.folders[folder]
	if !ok {
		found := w.list(folder, begins)
		if all, ok = w.folders[folder]; !ok { // it is too large to be kept
			return found
		}
	}
	i, _ := slices.BinarySearchFunc(all, prefix, func(e Entry, p string) int { return strings.Compare(e.Name, p) })
	n := slices.IndexFunc(all[i:], func(e Entry) bool { return !begins(e) })
	if n < 0 {
		n = len(all) - i
	}
	return all[i : i+n]
}

// unread notes that a folder could not be read; one that is not there is empty.
func (w *Walk) unread(folder string, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		w.Errs[folder] = err
	}
}

// pass notes a folder in which a match can appear, so that it is watched. If it does not
// exist, the folder above is noted.
func (w *Walk) pass(folder string) {
	if w.polled {
		return
	}
	for up := filepath.Dir(folder); up != folder; folder, up = up, filepath.Dir(up) {
		if w.Passed[folder] {
			return
		}
		if s, err := os.Stat(folder); err == nil && s.IsDir() {
			break
		}
	}
	w.Passed[folder] = true
}

// Unknown reports whether a path may exist although the walk did not find it: it, or a
// folder above it, could not be examined.
func (w *Walk) Unknown(path string) bool {
	for {
		if w.Errs[path] != nil {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}

// isFolder reports whether an entry is a folder, or a link to one. A link that must not be
// followed, because another user may have planted it, is noted in Errs and counts as none.
func (w *Walk) isFolder(path string, e Entry) bool {
	if e.Type&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	if err := trusted.Refused(path); err != nil {
		w.Errs[path] = err
		return false
	}
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
