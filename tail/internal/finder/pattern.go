package finder

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Spec says which files are wanted. Its values do not change.
type Spec struct {
	Patterns []Pattern
	Exclude  []string // globs; one without a slash matches the last name alone
	Heard    bool     // events are to tell of its files
}

// Pattern is a glob, cut into the names of its folders.
type Pattern struct {
	base  string // the folder to start from
	parts []string
}

// meta are the characters by which a name is a glob.
const meta = `*?[{\`

// NewPattern parses a path of the configuration as a glob, cut into the folder to start from and
// the names below it. A path that exists is always accepted, whatever characters it has. The error
// says why any other path is no valid glob.
func NewPattern(path string) (Pattern, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Pattern{}, err
	}
	wrong := valid(path, abs)
	if wrong == nil {
		base, rest := doublestar.SplitPattern(abs)
		return Pattern{base: filepath.Clean(base), parts: strings.Split(rest, "/")}, nil
	}
	if _, err := os.Lstat(abs); err != nil {
		return Pattern{}, wrong
	}
	return Pattern{base: filepath.Dir(abs), parts: []string{filepath.Base(abs)}}, nil
}

// valid returns why a path cannot be a pattern; nil: it can. abs is the absolute form of
// path.
func valid(path, abs string) error {
	if !doublestar.ValidatePathPattern(path) {
		return errors.New("not a valid pattern")
	}
	depth := 0
	for _, c := range abs {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '/' && depth > 0:
			return errors.New("a slash between braces is not supported; write the paths out")
		}
	}
	return nil
}

// Excluded reports whether one of the globs matches a path. A glob without a slash is
// compared with the file name.
func Excluded(globs []string, path string) bool {
	for _, p := range globs {
		name := path
		if !strings.Contains(p, "/") {
			name = filepath.Base(path)
		}
		if ok, _ := doublestar.PathMatch(p, name); ok {
			return true
		}
	}
	return false
}

// Matches reports whether a walk would find a path if it existed.
func (s *Spec) Matches(path string) bool {
	for _, p := range s.Patterns {
		rest, below := strings.CutPrefix(path, strings.TrimSuffix(p.base, "/")+"/")
		if below && matchAll(p.parts, strings.Split(rest, "/")) {
			return !Excluded(s.Exclude, path)
		}
	}
	return false
}

// Hears reports whether events are to tell of a path that a walk would find.
func (s *Spec) Hears(path string) bool { return s.Heard && s.Matches(path) }

// HearsBelow reports whether events are needed for files in a folder or below it: the patterns can
// match files there, and the input does not poll (Heard).
func (s *Spec) HearsBelow(dir string) bool {
	if !s.Heard {
		return false
	}
	for _, p := range s.Patterns {
		rest, below := strings.CutPrefix(dir, strings.TrimSuffix(p.base, "/")+"/")
		if dir == p.base || below && leads(p.parts, strings.Split(rest, "/")) {
			return true
		}
	}
	return false
}

// leads reports whether a folder can hold files that a pattern matches, in it or below it. parts
// are the pattern and names the path of the folder, both below the first folder of the pattern and
// cut at slashes.
func leads(parts, names []string) bool {
	for i, name := range names {
		switch {
		case i >= len(parts)-1 && parts[len(parts)-1] != "**":
			return false
		case i >= len(parts) || parts[i] == "**":
			return true
		case !matches(parts[i], name):
			return false
		}
	}
	return true
}

// matchAll reports whether the names of a path match the parts of a pattern. A part ** stands for
// any number of folders, also none; as the last part it needs at least one name.
func matchAll(parts, names []string) bool {
	for i, part := range parts {
		if part == "**" {
			if i == len(parts)-1 {
				return len(names) > i
			}
			for skip := i; skip < len(names); skip++ {
				if matchAll(parts[i+1:], names[skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(names) || !matches(part, names[i]) {
			return false
		}
	}
	return len(parts) == len(names)
}

// matches matches one name with one part of a pattern. A name always matches itself.
func matches(pattern, name string) bool {
	if pattern == "*" || pattern == name {
		return true
	}
	ok, _ := doublestar.Match(pattern, name)
	return ok
}

// ways returns in how many ways the patterns can find the same path. With more than one, a walk has
// to look for duplicates. A pattern with two ** counts twice.
func (s *Spec) ways() int {
	n := 0
	for _, p := range s.Patterns {
		deep := slices.Index(p.parts, "**")
		if n++; deep >= 0 && slices.Contains(p.parts[deep+1:], "**") {
			n++
		}
	}
	return n
}
