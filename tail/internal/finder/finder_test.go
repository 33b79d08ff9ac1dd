package finder

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kusto-agent/tail/internal/inode"
)

// TestAsItIs: a path that is there is found as it is, whatever its name means in a
// pattern, and what the pattern means is found as well.
func TestAsItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a[1].log", "a1.log", "b[.log", "c].log", "d*.log", "dd.log", "e?.log", "e1.log", "[prod]/x.log", "p/x.log", "{f.log", "[x/y].log"} {
		write(t, dir, name)
	}
	f := func(pattern string, want ...string) {
		t.Helper()
		s := specOf(t, dir, pattern)
		var got []string
		for _, path := range paths(slices.Collect(NewWalk().Match(s))) {
			name, err := filepath.Rel(dir, path)
			must(t, err)
			got = append(got, name)
			if !s.Matches(path) {
				t.Errorf("%s: a walk finds %s, which does not match", pattern, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", pattern, got, want)
		}
	}
	f("a[1].log", "a1.log", "a[1].log")
	f(`a\[1].log`, "a[1].log")
	f("b[.log", "b[.log")
	f("c].log", "c].log")
	f("d*.log", "d*.log", "dd.log")
	f("e?.log", "e1.log", "e?.log")
	f("[prod]/*.log", "[prod]/x.log", "p/x.log")
	f("[prod]/x.log", "[prod]/x.log", "p/x.log")
	f("{f.log", "{f.log")
	f("[x/y].log", "[x/y].log")
	if _, err := NewPattern(filepath.Join(dir, "none[.log")); err == nil {
		t.Error("a path that is no pattern and is not there is taken")
	}
}

// TestOnce: a path is found once, however many patterns and ways lead to it.
func TestOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a/a/a/x.log")
	for _, patterns := range [][]string{{"**/a/**/*.log"}, {"**/*.log", "a/*/a/x.log"}, {"**/**/x.log"}, {"a/**", "a/a/**"}} {
		if got := slices.Collect(NewWalk().Match(specOf(t, dir, patterns...))); len(got) != 1 {
			t.Errorf("%q: found %v", patterns, got)
		}
	}
}

// TestBelow: what is in a folder that is new, and which new folders are looked into.
func TestBelow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"new/a.log", "new/a.txt", "new/x/b.log", "new/x/y/c.log", "new/z/d.log"} {
		write(t, dir, name)
	}
	f := func(pattern string, want ...string) {
		t.Helper()
		s := specOf(t, dir, pattern)
		var got []string
		if below := filepath.Join(dir, "new"); s.HearsBelow(below) {
			w := NewWalk()
			for _, path := range paths(w.Below(s, below)) {
				name, err := filepath.Rel(below, path)
				must(t, err)
				got = append(got, name)
				if !w.Passed[filepath.Dir(path)] {
					t.Errorf("%s: %s is not watched", pattern, filepath.Dir(path))
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	f("*.log")
	f("*/*.log", "a.log")
	f("*/x/*.log", "x/b.log")
	f("**/*.log", "a.log", "x/b.log", "x/y/c.log", "z/d.log")
	f("*/**", "a.log", "a.txt", "x/b.log", "x/y/c.log", "z/d.log")
	f("old/*.log")
	f("new/*/*.log", "x/b.log", "z/d.log")
	f("new/*.log", "a.log")
}

// TestLookWait: when a file is looked at next.
func TestLookWait(t *testing.T) {
	f := func(r LookState, wait time.Duration, planned bool) {
		t.Helper()
		if got, is := LookWait(r); is != planned || planned && got != wait {
			t.Errorf("%+v: %v, %v; want %v, %v", r, got, is, wait, planned)
		}
	}
	const long = time.Hour
	f(LookState{}, LookFast, true)
	f(LookState{For: 400 * time.Millisecond}, 100*time.Millisecond, true)
	f(LookState{For: 9 * time.Second}, LookSlow, true)
	f(LookState{Told: true}, LookSlow, true)
	f(LookState{For: long}, 0, false)
	f(LookState{For: long, Told: true}, 0, false)
	f(LookState{For: long, Failed: true}, LookIdle, true)
	f(LookState{Failed: true}, LookIdle, true)
	f(LookState{For: long, Pending: true}, LookSlow, true)
	f(LookState{Pending: true}, LookSlow, true)
	f(LookState{For: long, Pending: true, Reserved: true}, LookSlow, true)
	f(LookState{For: long, Reserved: true}, LookIdle, true)
	f(LookState{Reserved: true}, LookFast, true)
}

// TestScanWait: when the next scan comes, by what the last one cost.
func TestScanWait(t *testing.T) {
	cheap, dear, far := Cost{time.Millisecond, time.Millisecond}, Cost{2 * time.Second, 3 * time.Second}, Cost{time.Millisecond, time.Minute}
	f := func(got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	f(Pace{Heard: true}.ScanWait(cheap), scanHeard)
	f(Pace{}.ScanWait(cheap), scanPolled)
	f(Pace{Heard: true}.ScanWait(dear), idlePart*dear.CPU)
	f(Pace{Busy: true}.ScanWait(dear), busyPart*dear.CPU)
	f(Pace{Heard: true}.ScanWait(far), far.Time)
	f(Pace{Heard: true, Most: time.Second}.ScanWait(dear), time.Second)
	f(NewsWait(cheap, scanHeard), newsPart*cheap.CPU)
	f(NewsWait(dear, scanHeard), scanHeard)
	f(GlanceWait(cheap, false), scanPolled)
	f(GlanceWait(dear, false), idlePart*dear.CPU)
	f(GlanceWait(dear, true), busyPart*dear.CPU)
	if (Pace{}).NeedsGlance(scanHeard) || !(Pace{Heard: true}).NeedsGlance(scanHeard) || !(Pace{}).NeedsGlance(time.Minute) {
		t.Error("files are not looked at between two scans where they have to be")
	}
	f(LookPace(LookFast, 1), LookFast)
	f(LookPace(LookFast, 10_000), time.Second)
	f(LookEvery(0), LookFast)
	f(LookEvery(30*time.Millisecond), LookFast)
	f(LookEvery(50*time.Millisecond), 20*time.Millisecond)
	f(LookEvery(75*time.Millisecond), 30*time.Millisecond)
	f(LookEvery(time.Minute), 40*time.Millisecond)
}

// TestOrigins: a file is known by where it was first, through several renames, as long
// as the last of its names is in use.
func TestOrigins(t *testing.T) {
	wanted := func(path string) bool { return filepath.Ext(path) == ".log" }
	var o Origins
	now := time.Unix(0, 0)
	f := func(want map[string]string, renames ...Rename) {
		t.Helper()
		if got := o.Follow(renames, now, wanted); !maps.Equal(got, want) {
			t.Errorf("%v: %v, want %v", renames, got, want)
		}
	}
	f(map[string]string{"a.1": "a.log"}, Rename{"a.log", "a.1"})
	f(map[string]string{"a.2": "a.log", "a.1": "b.log"}, Rename{"a.1", "a.2"}, Rename{"b.log", "a.1"})
	f(map[string]string{}, Rename{"x", "y"})
	f(map[string]string{"d": "c.log"}, Rename{"c.log", "e"}, Rename{"e", "d"})
	now = now.Add(2 * remembered)
	f(map[string]string{}, Rename{"a.2", "a.3"}) // too long ago
}

// TestFind: a file is found where it was, by another name in its folder, and in a folder
// beside that was renamed.
func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "app/a.log")
	e, err := inode.At(path)
	must(t, err)
	var x Folders
	f := func(want string) {
		t.Helper()
		x.Forget()
		if got, ok := x.Find([]string{path}, e.Node); got != want || ok != (want != "") {
			t.Errorf("found at %q, want %q", got, want)
		}
	}
	f(path)
	must(t, os.Rename(path, filepath.Join(dir, "app/a.log.1")))
	f(filepath.Join(dir, "app/a.log.1"))
	write(t, dir, "app/a.log")
	f(filepath.Join(dir, "app/a.log.1"))
	must(t, os.Rename(filepath.Join(dir, "app/a.log.1"), path))
	must(t, os.Rename(filepath.Join(dir, "app"), filepath.Join(dir, "app.old")))
	f("")
	near := func(want string) {
		t.Helper()
		x.Forget()
		if at, ok := x.FindNear(path, e.Node); at != want || ok != (want != "") {
			t.Errorf("near it is at %q, want %q", at, want)
		}
	}
	near(filepath.Join(dir, "app.old/a.log"))
	for _, to := range []string{"app/old/a.log.1", "old/a.log-20260101", "app/old/a.log", "app/old/b.log"} {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(to)), 0o755))
		must(t, os.Rename(filepath.Join(dir, "app.old/a.log"), filepath.Join(dir, to)))
		if filepath.Base(to) != "b.log" {
			near(filepath.Join(dir, to))
		} else {
			near("")
		}
		must(t, os.Rename(filepath.Join(dir, to), filepath.Join(dir, "app.old/a.log")))
	}
}
