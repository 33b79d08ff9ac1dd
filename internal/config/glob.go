package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxMatches bounds the files looked at, so that a pattern over a whole disk
// does not hold up the start. Beyond it the same is seen while running.
const maxMatches = 100_000

var errEnough = errors.New("enough files seen")

// matching returns the files that exist and that an input would read, as absolute paths without
// symbolic links; at most maxMatches. Folders that cannot be read are left out.
func matching(in *Input) (files []string) {
	for _, pattern := range in.Paths {
		_ = glob("", pattern, func(file string) error {
			if !in.Excludes(file) {
				files = append(files, realName(file))
			}
			if len(files) >= maxMatches {
				return errEnough
			}
			return nil
		})
	}
	return files
}

// glob calls f for each file that matches the pattern. A relative pattern is below folder, whose name
// may hold pattern characters. It stops at the first error of f and returns it.
func glob(folder, pattern string, f func(file string) error) error {
	base, rest := doublestar.SplitPattern(filepath.ToSlash(filepath.Clean(pattern)))
	if !filepath.IsAbs(base) {
		base = filepath.Join(folder, base)
	}
	return doublestar.GlobWalk(os.DirFS(base), rest, func(name string, _ fs.DirEntry) error {
		return f(filepath.Join(base, name))
	}, doublestar.WithFilesOnly())
}

// realName returns the absolute path of a file with symbolic links resolved, or without that if it
// cannot be resolved, such as for a file that does not exist.
func realName(file string) string {
	if name, err := filepath.EvalSymlinks(file); err == nil {
		file = name
	}
	return Absolute(file)
}

// patternSigns are what makes a path a pattern.
const patternSigns = `\*?[]{}`

// EscapePattern is the pattern that matches one path alone, whatever characters it has.
var EscapePattern = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`).Replace
