package tail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// listed is a listing as lines: input, path, state, position and why.
func (w *world) listed(all bool) (lines []string) {
	for _, f := range w.tailer.Listing(all) {
		name, err := filepath.Rel(w.dir, f.Path)
		if err != nil {
			name = f.Path
		}
		line := fmt.Sprintf("%s %s %s %d/%d/%d", f.File.Input, name, f.State(), f.Safe, f.Read, f.Size)
		if f.File.ID == 0 {
			line = fmt.Sprintf("%s %s %s -", f.File.Input, name, f.State())
		}
		if f.Why != "" {
			line += " " + strings.ReplaceAll(f.Why, w.dir+"/", "")
		}
		if f.Fix != "" {
			line += " FIX"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func (w *world) wantListed(all bool, want ...string) {
	w.t.Helper()
	got := w.listed(all)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestListing: every file that matches is listed, with what keeps it from being
// read.
func TestListing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScript(w)
	w.in().Exclude = []string{"x*"}
	s.run(`
		set ignore_older 1h
		append a.log x1..x3
		partial p.log "no end"
		append x.log x
		append old.log old
		age old.log 2h
		mkdir d.log
		mkfifo f.log
		symlink nowhere l.log
		symlink r.log r.log
		input rival *.log
		set exclude old.log
		input empty none/*.log
	`)
	w.inputs[1].Table = "in" // the same route
	s.run(`
		start
		look
	`)
	fifo, link := "not read - it is a FIFO FIX", "not read - statx l.log: no such file or directory FIX"
	const rival = "not read - input in reads it for the same route FIX"
	both := func(line string) []string { return []string{"in " + line, "rival " + line} }
	want := slices.Concat(
		both("f.log "+fifo), both("l.log "+link), both("d.log not read - it is a directory FIX"),
		both("r.log not read - statx r.log: too many levels of symbolic links FIX"),
		[]string{
			"empty  not read - no file matches its paths FIX",
			"in a.log idle 9/9/9",
			"in old.log left out - it was not changed for longer than ignore_older allows (1h)",
			"in p.log waiting 0/0/6 its last record has no end yet",
			"rival a.log " + rival, "rival p.log " + rival,
			"rival x.log idle 2/2/2",
		})
	w.wantListed(false, want...)
	if n := w.boxed.logged("input has no file, will look again", "empty", "no file matches its paths"); n != 1 {
		t.Errorf("that an input has no file is logged %d times", n)
	}
	w.wantListed(true, append(want, "in x.log left out - exclude leaves it out", "rival old.log left out - exclude leaves it out")...)
}

// TestListingOfWhatIsGone: what is rotated, deleted, truncated or forgotten is
// told by its state; what is only remembered, if it is asked for.
func TestListingOfWhatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScript(w)
	s.run(`
		start
		append a.log x1..x3
		append t.log t1..t3
		expect x1..x3 t1..t3
		full
		append b.log y1..y3
		append c.log z1..z9
		look
		rm b.log
		mv c.log c.old
		rm a.log
		look
	`)
	s.await("the end of a.log", func() bool { return len(w.tailer.all()) == 3 })
	const wait = " what was read of it has to be accepted first"
	w.wantListed(false, "in b.log deleted 0/0/9"+wait, "in c.log rotated 0/0/27"+wait, "in t.log idle 9/9/9")
	var pinned int64
	for _, f := range w.tailer.Files() {
		pinned += f.Pinned
		if (f.Path == w.path("b.log")) != (f.Pinned == 9) || f.Waits.IsZero() != (f.Safe == f.Size) {
			t.Errorf("%+v", f)
		}
	}
	if pinned != 9 {
		t.Errorf("%d bytes are pinned", pinned)
	}
	s.run(`
		room
		expect y1..y3 z1..z9
		released
		write t.log u1
		expect u1
	`)
	w.wantListed(false, "in t.log idle 3/3/3")
	w.wantListed(true, "in t.log idle 3/3/3",
		"in a.log remembered 9/9/9 it is gone, or no longer matched, and was read to its end",
		"in b.log remembered 9/9/9 it is gone, or no longer matched, and was read to its end",
		"in c.log remembered 27/27/27 it is gone, or no longer matched, and was read to its end",
		"in t.log remembered 9/9/9 the file has begun anew since")
}

// TestPinnedGrows: what is written to a deleted file that is read no further
// counts too, also without events.
func TestPinnedGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Watch = "poll"
	s := newScript(w)
	s.run(`
		set max_pinned_deleted 100
		start
		full
		grab w a.log
		say w x1..x9
		look
		rm a.log
		look
		look
		say w y1..y30
	`)
	scan := func() {
		w.tailer.mu.Lock()
		next := w.tailer.scans.no + 1
		w.tailer.mu.Unlock()
		w.tailer.rescanSoon()
		w.await("a scan", func() bool { return w.tailer.scans.done.Load() >= next })
	}
	scan()
	scan()
	s.run("released\ncounter abandoned 138")
	if n := w.boxed.logged("ERROR", "max_pinned_deleted", "input=in", "a.log", "offset=0", "end=138", "fix="); n != 1 {
		t.Errorf("logged %d times", n)
	}
	w.tailer.locked(func() { w.tailer.inputs()[0].unsought = true }) // as after a reload
	scan()
	scan()
	s.run("counter abandoned 138")
}

// TestDeletedIsHeld: a descriptor that is the only way to a file is not given
// back, also before the second scan has missed it.
func TestDeletedIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().RotateQuiet = 0
	s := newScript(w)
	s.run("append a.log x1..x9")
	tailer := w.stepped()
	s.run("full")
	tailer.scan()
	tailer.turnAll()
	s.run("rm a.log")
	tailer.scan()
	r := tailer.all()[0]
	if tailer.closeIdle(r); !r.life.IsDeleted() || r.life.IsGone() || r.f == nil {
		t.Errorf("deleted %v, missed twice %v, open %v", r.life.IsDeleted(), r.life.IsGone(), r.f != nil)
	}
	s.run("room")
	tailer.turnAll()
	wantRecords(t, w.boxed.take("in"), s.expand("x1..x9")...)
	tailer.scan()
	tailer.turnAll()
	s.run("counter abandoned 0")
	if n := len(tailer.all()); n > 0 {
		t.Errorf("%d files are not let go", n)
	}
}

// TestAbandonedInATurn: what a turn hands over of a file that is abandoned meanwhile does not count as lost.
func TestAbandonedInATurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScript(w)
	s.run("set max_pinned_deleted 100\nappend a.log x1..x90")
	tailer := w.stepped()
	tailer.scan()
	wk := tailer.begin(tailer.all()[0])
	s.run("rm a.log")
	tailer.scan()
	next, err := wk.turn(wk.job.r)
	must(t, err)
	tailer.end(wk, next)
	tailer.turnAll()
	if got := w.boxed.take("in"); !slices.Equal(got, s.expand("x1..x90")) {
		t.Errorf("records are %s", brief(got))
	}
	s.run("counter abandoned 0")
	if n := len(tailer.all()); n > 0 {
		t.Errorf("%d files are not let go", n)
	}
}

// A file that waits from before the start is there at least since it was last
// written.
func TestWaitsSinceBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScript(w)
	s.run("partial a.log x\nage a.log 2h\nstart\nlook")
	f := w.tailer.Files()
	if len(f) != 1 || time.Since(f[0].Waits).Round(time.Minute) != 2*time.Hour {
		t.Errorf("%+v", f)
	}
	s.run("append a.log y\nexpect xy")
	if f = w.tailer.Files(); !f[0].Waits.IsZero() {
		t.Errorf("%+v", f)
	}
}

// Files that are idle are counted, and all others are listed.
func TestFilesAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log one\nappend b.log two\nstart\nexpect one two\nsafe a.log 4\nsafe b.log 4\npartial c.log x\nlook")
	files, idle := w.tailer.FilesAtWork()
	if len(files) != 1 || files[0].Path != s.path("c.log") || idle["in"] != 2 || len(idle) != 1 {
		t.Errorf("%+v, idle %v", files, idle)
	}
	if n := len(w.tailer.Files()); n != 3 {
		t.Errorf("%d files are listed", n)
	}
}

// TestListingOfCompressed: a compressed file that waits for another says so.
func TestListingOfCompressed(t *testing.T) {
	s := newScript(newWorld(t))
	s.world.in().Paths = []string{s.path("*.log"), s.path("*.gz")}
	must(t, os.WriteFile(s.path("a.log"), []byte(strings.Repeat("a line\n", 300)), 0o644))
	s.start()
	s.look()
	must(t, commands["keep-gzip"](s, []string{"a.log"}))
	s.decided()
	for _, f := range s.tailer.Listing(false) {
		if f.Path == s.path("a.log.gz") {
			if f.Why != "what is in it is read from another file" {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("it is not listed")
}
