package tail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
)

// TestRecognisedBeforeAStop: the journal knows where a file is from the moment it is
// recognised, not from its first turn on: a stop may come in between, and what it was
// recognised by, such as a truncation, is not there any more at the next start.
func TestRecognisedBeforeAStop(t *testing.T) {
	w := newWorld(t)
	must(t, os.WriteFile(w.path("a.log"), []byte(strings.Repeat("a line\n", 300)), 0o644))
	w.start()
	w.look()
	w.shut()
	must(t, os.Rename(w.path("a.log"), w.path("b.log")))
	w.stepped()
	f, st, err := inode.Open(w.path("b.log"))
	must(t, err)
	w.tailer.find.adoptOpen(w.tailer.inputs()[0], w.path("b.log"), f, st, "")
	for _, s := range w.remembered() {
		if s.Info.Info().Path != w.path("b.log") || s.Position != 2100 {
			t.Errorf("the journal has %s, read to %d", s.Info.Info().Path, s.Position)
		}
	}
}

// TestCopySeenWhileEmpty: a copy is found before anything is in it, and is registered
// as a file of its own. Once it is recognised the journal knows it by one entry alone:
// by the other one it would be read once more after a restart.
func TestCopySeenWhileEmpty(t *testing.T) {
	w := newWorld(t)
	text := []byte(strings.Repeat("a line\n", 300))
	must(t, os.WriteFile(w.path("a.log"), text, 0o644))
	w.start()
	w.look()
	must(t, os.WriteFile(w.path("b.log"), nil, 0o644))
	w.look()
	if n := len(w.remembered()); n != 2 {
		t.Fatalf("the journal knows %d files", n)
	}
	must(t, os.WriteFile(w.path("b.log"), text, 0o644))
	must(t, os.Truncate(w.path("a.log"), 0))
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	w.expect("in", lines...)
	st, err := inode.At(w.path("b.log"))
	must(t, err)
	n := 0
	for _, s := range w.remembered() {
		if s.Info.Info().Inode == st.Ino {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the journal knows the copy by %d entries", n)
	}
	w.shut()
	w.start()
	w.look()
	w.expect("in")
}

// TestCopyOfADeletedFileSeenWhileEmpty: a file that is found empty, and then has what was read of a file that was
// deleted, and no proof that it is a copy, is read, and the log names it.
func TestCopyOfADeletedFileSeenWhileEmpty(t *testing.T) {
	w := newWorld(t)
	text := []byte("service is starting\na line\n")
	must(t, os.WriteFile(w.path("a.log"), text, 0o644))
	w.start()
	w.look()
	must(t, os.WriteFile(w.path("a-20260101.log"), nil, 0o644))
	w.look()
	must(t, os.Remove(w.path("a.log")))
	w.look()
	w.look()
	must(t, os.WriteFile(w.path("a-20260101.log"), text, 0o644))
	w.look()
	w.expect("in", "service is starting", "a line", "service is starting", "a line")
	if n := w.boxed.logged("begins like another file", w.path("a-20260101.log"), "like="+w.path("a.log"), "bytes=27"); n != 1 {
		t.Errorf("the log names the copy %d times", n)
	}
}

// TestDoubtedWithoutDescriptor: a file at a path that no pattern matches and that may be a copy is
// asked about at each scan, also if it cannot be held open, until it is decided or gone.
func TestDoubtedWithoutDescriptor(t *testing.T) {
	w := newWorld(t)
	text := []byte(strings.Repeat("a line\n", 300))
	must(t, os.WriteFile(w.path("a.log"), text, 0o644))
	w.start()
	w.look()
	w.shut()
	must(t, os.WriteFile(w.path("a.old"), text, 0o644))
	w.open, w.in().RotateQuiet = 0, units.Duration(time.Hour) // nothing is decided by waiting
	tailer := w.stepped()
	d, in := tailer.find, tailer.inputs()[0]
	tailer.scan()
	f, st, err := inode.Open(w.path("a.old"))
	must(t, err)
	d.t.locked(func() {
		for original := range d.t.byPath.Get(w.path("a.log")) {
			m := match{is: identity.Copy, of: original.k.candidate(d.t.scans.no)} // which has a turn since
			if d.admit(in, compare.Of(f, st, ""), record.FileInfo{Path: w.path("a.old"), Dev: st.Dev, Inode: st.Ino, Birth: st.Birth}, m) {
				t.Error("it was decided by what was")
			}
		}
	})
	asked := func(when string, want bool) {
		t.Helper()
		if s, is := in.suspect[st.Node]; is != want || is && (s.f != nil || s.scan != d.t.scans.no) {
			t.Errorf("%s: it is doubted: %v, and was at scan %d of %d", when, is, s.scan, d.t.scans.no)
		}
	}
	asked("at first", true)
	tailer.scan()
	asked("a scan later", true)
	tailer.scan()
	asked("two scans later", true)
	tailer.scanWithout()
	for _, p := range phases[3:] {
		d.do(p, in, finder.NewWalk()) // it could not be opened
	}
	if len(in.suspect) == 0 || len(in.lost) > 0 {
		t.Error("it is there, and counts as lost")
	}
	away := filepath.Join(t.TempDir(), "far", "away", "a.old")
	must(t, os.MkdirAll(filepath.Dir(away), 0o755))
	must(t, os.Rename(w.path("a.old"), away))
	tailer.scan() // as if the file was renamed while its folder was listed
	must(t, os.Rename(away, w.path("a.older")))
	tailer.scan()
	asked("it has another name", true)
	must(t, os.Remove(w.path("a.older")))
	for range mostLooks {
		tailer.scan()
	}
	asked("it was deleted", false)
}

// TestShorterFilesThatBeginAlike: what a file begins with is read once in a scan for all new files that are
// shorter, and of these the one that may be a copy of it is found.
func TestShorterFilesThatBeginAlike(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log the_same_beginning_and_a_line_that_is_longer_than_others")
	tailer := w.stepped()
	tailer.scan()
	tailer.turnAll()
	s.run("append b.log the_same_beginning_b\nappend c.log the_same_beginning_c")
	must(t, os.WriteFile(w.path("d.log"), []byte("the_same_beginning_and"), 0o600))
	tailer.scan()
	in := tailer.inputs()[0]
	if len(in.suspect) != 1 {
		t.Errorf("%d files may be copies, want one", len(in.suspect))
	}
	for name, want := range map[string]int{"b.log": 0, "d.log": 1} {
		f, st, err := inode.Open(w.path(name))
		must(t, err)
		tailer.locked(func() {
			all := in.alike(compare.Of(f, st, ""), tailer.scans.no)
			if n := len(slices.DeleteFunc(all, func(c *candidate) bool { return c.Info.Path != w.path("a.log") })); n != want {
				t.Errorf("%s is compared with a.log %d times more in the scan, want %d", name, n, want)
			}
		})
		must(t, f.Close())
	}
	tailer.turnAll()
	wantRecords(t, w.boxed.take("in"), "the_same_beginning_and_a_line_that_is_longer_than_others", "the_same_beginning_b", "the_same_beginning_c")
}
