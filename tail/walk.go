package tail

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"kusto-agent/tail/internal/trusted"
)

// walk finds what the patterns match at one time. Folders are read once,
// however many patterns pass through them, unless there is so much in them that
// it cannot be kept.
type walk struct {
	folders map[string][]fs.DirEntry
	kept    int              // entries in folders
	passed  map[string]bool  // folders to be watched, for a match can appear in them
	polled  bool             // the input at hand does without events
	errs    map[string]error // paths that could not be looked at: what is there is unknown
	found   []string
	seen    map[string]bool
}

func newWalk() *walk {
	return &walk{folders: make(map[string][]fs.DirEntry), passed: make(map[string]bool), errs: make(map[string]error)}
}

// newLook is a walk that has no folder watched.
func newLook() *walk {
	w := newWalk()
	w.polled = true
	return w
}

// match returns the paths one input reads, in the order of its patterns.
func (w *walk) match(in *input) []string {
	w.found, w.seen, w.polled = nil, make(map[string]bool), in.Watch == "poll"
	for _, p := range in.patterns {
		w.step(p.base, p.parts, in)
	}
	return w.found
}

// hears reports whether a walk would find a path of which events tell.
func (in *input) hears(path string) bool { return in.Watch != "poll" && in.matches(path) }

// matches reports whether a walk would find a path, were it there.
func (in *input) matches(path string) bool {
	for _, p := range in.patterns {
		rest, below := strings.CutPrefix(path, strings.TrimSuffix(p.base, "/")+"/")
		if ok, _ := doublestar.Match(strings.Join(p.parts, "/"), rest); below && ok {
			return !in.Excludes(path)
		}
	}
	return false
}

// step matches the names in one folder against the first of parts.
func (w *walk) step(folder string, parts []string, in *input) {
	name, rest := parts[0], parts[1:]
	switch {
	case name == "**":
		w.deep(folder, rest, in)
	case !strings.ContainsAny(name, `*?[{\`):
		path := filepath.Join(folder, name)
		w.pass(folder)
		if len(rest) > 0 {
			w.step(path, rest, in)
		} else if _, err := os.Lstat(path); err == nil {
			w.add(path, in)
		} else if !errors.Is(err, fs.ErrNotExist) {
			w.errs[path] = err
		}
	default:
		for _, e := range w.list(folder, func(e fs.DirEntry) bool { return matches(name, e.Name()) }) {
			path := filepath.Join(folder, e.Name())
			if len(rest) == 0 {
				if name == "*" && e.IsDir() {
					continue // whoever asks for all means the files
				}
				w.add(path, in)
			} else if w.isFolder(path, e) {
				w.step(path, rest, in)
			}
		}
	}
}

// deep matches parts in a folder and in all below it. Links to folders are not
// followed: they can lead round in a circle.
func (w *walk) deep(folder string, parts []string, in *input) {
	if len(parts) == 0 {
		parts = []string{"*"}
	}
	w.step(folder, parts, in)
	for _, e := range w.list(folder, fs.DirEntry.IsDir) {
		w.deep(filepath.Join(folder, e.Name()), parts, in)
	}
}

// matches is for names, where a star is nearly always all there is.
func matches(pattern, name string) bool {
	if pattern == "*" {
		return true
	}
	ok, _ := doublestar.Match(pattern, name)
	return ok
}

func (w *walk) add(path string, in *input) {
	if !w.seen[path] && !in.Excludes(path) {
		w.seen[path] = true
		w.found = append(w.found, path)
	}
}

// keptEntries is how many entries a walk remembers, and atATime how many it reads
// of a folder at once: of a tree of a million names nearly none may match.
const (
	keptEntries = 100_000
	atATime     = 4096
)

// list returns the entries of a folder that are wanted, by name. A folder that is
// not there is empty, one that cannot be read is unknown.
func (w *walk) list(folder string, wanted func(fs.DirEntry) bool) (found []fs.DirEntry) {
	w.pass(folder)
	choose := func(some []fs.DirEntry) {
		for _, e := range some {
			if wanted(e) {
				found = append(found, e)
			}
		}
	}
	if all, ok := w.folders[folder]; ok {
		choose(all)
		return found
	}
	f, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY, 0) // a FIFO would block
	if err != nil {
		w.unread(folder, err)
		return nil
	}
	defer f.Close()
	var all []fs.DirEntry
	keep := true
	for err == nil {
		var some []fs.DirEntry
		some, err = f.ReadDir(atATime)
		choose(some)
		if keep = keep && w.kept+len(all)+len(some) <= keptEntries; keep {
			all = append(all, some...)
		} else {
			all = nil
		}
	}
	byName := func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }
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

// beginning returns the entries of a folder whose names begin so.
func (w *walk) beginning(folder, prefix string) []fs.DirEntry {
	begins := func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), prefix) }
	all, ok := w.folders[folder]
	if !ok {
		found := w.list(folder, begins)
		if all, ok = w.folders[folder]; !ok { // it is too large to be kept
			return found
		}
	}
	i, _ := slices.BinarySearchFunc(all, prefix, func(e fs.DirEntry, p string) int { return strings.Compare(e.Name(), p) })
	n := slices.IndexFunc(all[i:], func(e fs.DirEntry) bool { return !begins(e) })
	if n < 0 {
		n = len(all) - i
	}
	return all[i : i+n]
}

// unread notes that a folder could not be read; one that is not there is empty.
func (w *walk) unread(folder string, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		w.errs[folder] = err
	}
}

// pass notes that a match can appear in a folder. Where the folder is still to
// come the one above it will tell.
func (w *walk) pass(folder string) {
	if w.polled {
		return
	}
	for up := filepath.Dir(folder); up != folder; folder, up = up, filepath.Dir(up) {
		if w.passed[folder] {
			return
		}
		if s, err := os.Stat(folder); err == nil && s.IsDir() {
			break
		}
	}
	w.passed[folder] = true
}

// unknown reports whether a path may exist though it was not found: it, or a
// folder above it, could not be looked at.
func (w *walk) unknown(path string) bool {
	for {
		if w.errs[path] != nil {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}

func (w *walk) isFolder(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	if err := trusted.Refused(path); err != nil {
		w.errs[path] = err
		return false
	}
	s, err := os.Stat(path)
	return err == nil && s.IsDir()
}
