package tail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// walk finds what the patterns match at one time. Folders are read once,
// however many patterns pass through them.
type walk struct {
	folders map[string][]fs.DirEntry
	passed  map[string]bool  // folders to be watched, for a match can appear in them
	polled  bool             // the input at hand does without events
	errs    map[string]error // paths that could not be looked at: what is there is unknown
	found   []string
	seen    map[string]bool
}

func newWalk() *walk {
	return &walk{folders: make(map[string][]fs.DirEntry), passed: make(map[string]bool), errs: make(map[string]error)}
}

// match returns the paths one input reads, in the order of its patterns.
func (w *walk) match(in *input) []string {
	w.found, w.seen, w.polled = nil, make(map[string]bool), in.Watch == "poll"
	for _, p := range in.patterns {
		w.step(p.base, p.parts, in)
	}
	return w.found
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
		for _, e := range w.list(folder) {
			if ok, _ := doublestar.Match(name, e.Name()); !ok {
				continue
			}
			path := filepath.Join(folder, e.Name())
			if len(rest) == 0 {
				if name == "*" && e.IsDir() {
					continue // whoever asks for all means the files
				}
				w.add(path, in)
			} else if isFolder(path, e) {
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
	for _, e := range w.list(folder) {
		if e.IsDir() {
			w.deep(filepath.Join(folder, e.Name()), parts, in)
		}
	}
}

func (w *walk) add(path string, in *input) {
	if !w.seen[path] && !in.Excludes(path) {
		w.seen[path] = true
		w.found = append(w.found, path)
	}
}

// list reads a folder. One that is not there is empty, one that can not be
// read is unknown.
func (w *walk) list(folder string) []fs.DirEntry {
	if entries, ok := w.folders[folder]; ok {
		w.pass(folder)
		return entries
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.errs[folder] = err
	}
	if err == nil {
		w.folders[folder] = entries
	}
	w.pass(folder)
	return entries
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

func isFolder(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	s, err := os.Stat(path)
	return err == nil && s.IsDir()
}
