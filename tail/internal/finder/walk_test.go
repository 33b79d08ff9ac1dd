package finder

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes an empty file and the folders it is in.
func write(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, nil, 0o644))
	return path
}

// specOf is a spec of patterns below a folder.
func specOf(t testing.TB, dir string, patterns ...string) *Spec {
	t.Helper()
	s := &Spec{Heard: true}
	for _, p := range patterns {
		pat, err := NewPattern(filepath.Join(dir, p))
		must(t, err)
		s.Patterns = append(s.Patterns, pat)
	}
	return s
}

func paths(found []Sighting) (all []string) {
	for _, s := range found {
		all = append(all, s.Path())
	}
	return all
}

// TestWalkOfMany: a folder of more names than a walk remembers is walked all the
// same, and Matches agrees with a walk on every file.
func TestWalkOfMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"a.log", "b.txt", "x/a.log", "x/y/b.log", "x/y/c.txt", "z/a.log.1", "z/{b}.log", "z/.hidden.log"} {
		files = append(files, write(t, dir, name))
	}
	slices.Sort(files)
	f := func(pattern string, want int) {
		t.Helper()
		s := specOf(t, dir, pattern)
		s.Exclude = []string{"b.*"}
		whole, scant := NewWalk(), NewWalk()
		scant.kept = keptEntries - 1
		found, again := paths(slices.Collect(whole.Match(s))), paths(slices.Collect(scant.Match(s)))
		if len(found) != want || !slices.Equal(found, again) || len(scant.folders) > 1 {
			t.Errorf("%s: found %v, with little room %v, want %d", pattern, found, again, want)
		}
		slices.Sort(found)
		var matched []string
		for _, path := range files {
			if s.Matches(path) {
				matched = append(matched, path)
			}
		}
		if !slices.Equal(found, matched) {
			t.Errorf("%s: found %v, matched %v", pattern, found, matched)
		}
	}
	f("*.log", 1)
	f("a.log", 1)
	f("x/*", 1)
	f("**/*.log", 4)
	f("**", 6)
	f("*/*.log*", 4)
	f("{x,z}/a*", 2)
	f("**/y/*", 1)
	f("none/*", 0)
	f("**/**/*.log", 4)
	f("**/x/**", 2)
	f("**/{b}.log", 1) // itself, and what it means
}

// TestLookWatchesNothing: what is only looked for, by whatever patterns, costs no look at what is to be watched.
func TestLookWatchesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "x"), 0o755))
	must(t, os.Symlink(write(t, dir, "y/a.log"), filepath.Join(dir, "x/a.log")))
	s := specOf(t, dir, "x/*.log")
	f := func(w *Walk, want int) {
		t.Helper()
		found := slices.Collect(w.Match(s))
		if n := len(w.Passed); len(found) != 1 || n != want {
			t.Errorf("%d files are found, and %d folders are to be watched, want %d", len(found), n, want)
		}
		if found = w.Below(s, filepath.Join(dir, "x")); len(found) != 1 || len(w.Passed) != want {
			t.Errorf("%d files are found below, and %v is to be watched", len(found), w.Passed)
		}
	}
	f(NewWalk(), 2)
	f(NewLook(), 0)
}

// TestLookRemembersMore: a look lists a folder once where a scan, which asks for the names in it once, does not
// remember so many.
func TestLookRemembersMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.log")
	f := func(w *Walk, want int) {
		t.Helper()
		w.kept = keptEntries
		first := len(w.Beginning(dir, "a"))
		write(t, dir, "a.log.1")
		defer os.Remove(filepath.Join(dir, "a.log.1"))
		if again := len(w.Beginning(dir, "a")); first != 1 || again != want {
			t.Errorf("%d names are found, and then %d, want %d", first, again, want)
		}
	}
	f(NewWalk(), 2)
	f(NewLook(), 1)
}
