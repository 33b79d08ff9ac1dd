package tail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A run --once reads all that is there, also last lines without an end, copies
// and what earlier runs left, and then returns by itself.
func TestOnce(t *testing.T) {
	w := newWorld(t)
	w.once = true
	s := newScript(w)
	s.run(`
		append a.log "a line of some length" two
		cp a.log b.log
		partial a.log "no end"
		write empty.log
		set max_record_size 100
		append c.log x1..x2000
		start
	`)
	<-w.stopped
	want := append([]string{"no end", "two", "two", "a line of some length", "a line of some length"}, s.expand("x1..x2000")...)
	f := func(want []string) {
		t.Helper()
		got := w.boxed.take("in")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("records are %s; want %s", brief(got), brief(want))
		}
	}
	f(want)
	w.shut()
	s.run(`
		append a.log " now"
		mv c.log c.old
		append c.log y
		append c.old z
		start
	`)
	<-w.stopped
	f([]string{" now", "y", "z"})
}

// A tailer that was told to stop hands nothing over afterwards and holds no
// file.
func TestStop(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log x1..x100\nstart\nexpect x1..x100\nfull\nappend a.log y\nlook")
	w.stop()
	<-w.stopped
	s.run("room\nappend a.log z")
	if got := w.boxed.take("in"); len(got) > 0 {
		t.Errorf("came after the end: %q", got)
	}
	for _, r := range w.tailer.all() {
		if r.f != nil {
			t.Errorf("%s is still open", r.path())
		}
	}
}

// Two inputs that reach one file for one route: the first keeps it, and the
// other says so once.
func TestRival(t *testing.T) {
	w := newWorld(t)
	w.addInput("other", "*.log")
	w.inputs[0].Table, w.inputs[1].Table = "same", "same"
	s := newScript(w)
	s.run("append a.log one\nstart\nexpect-of in one\nexpect-of other\nlook\nlook")
	if n := w.boxed.logged("input in reads it for the same route"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// The agent's own folder is never read, whatever the patterns say.
func TestAvoid(t *testing.T) {
	w := newWorld(t)
	w.state = w.path("state/journal")
	w.in().Paths = []string{w.path("**/*")}
	s := newScript(w)
	s.run("append a.log one\nmkdir state\nappend state/own.log no\nstart\nexpect one\nappend state/own.log no\nlook\nfiles a.log")
	if n := w.boxed.logged("own.log", "belongs to the agent itself"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// What is told of paths is forgotten with them.
func TestProblems(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log one\nmkdir d.log\nsymlink nowhere l.log\nstart\nexpect one")
	f := func(want ...string) {
		t.Helper()
		var got []string
		for path := range w.tailer.Problems() {
			got = append(got, filepath.Base(path))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("problems with %q; want %q", got, want)
		}
	}
	f("d.log", "l.log")
	s.run("rm d.log\nlook")
	f("l.log")
	s.run("rm l.log\nlook")
	f()
}

// While there is no room a busy file asks for it once, not with each of its
// writes, and its truncation is seen all the same.
func TestAsksOnce(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log x1..x9\nstart\nexpect x1..x9\nfull")
	for n := range 50 {
		s.run(fmt.Sprintf("append a.log y%d\nlook", n))
	}
	s.run("truncate a.log 0\nlook\ncounter truncations 1\ncounter unread 190")
	w.taker.mu.Lock()
	refused := w.taker.refused
	w.taker.mu.Unlock()
	if refused != 1 {
		t.Errorf("it asked %d times", refused)
	}
	s.run("append a.log z\nroom\nexpect z")
}

// With little memory a file is read in small parts, and a record that is larger
// than these at once.
func TestLittleRoom(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("start")
	w.taker.mu.Lock()
	w.taker.most = 16
	w.taker.mu.Unlock()
	s.run("append a.log x1..x99\nexpect x1..x99")
	w.taker.mu.Lock()
	w.taker.most = 3 // less than any record takes
	w.taker.mu.Unlock()
	s.run("append a.log y1..y99\nexpect y1..y99")
}

// A large file and many small ones take turns: each small one has its turn before the large one has its
// second, also if all of them have waited for room.
func TestTurns(t *testing.T) {
	for _, full := range []bool{false, true} {
		w := newWorld(t)
		w.block = 4096
		s := newScript(w)
		s.run("append a.log big1..big20000")
		for n := range 100 {
			s.run(fmt.Sprintf("append s%d.log small%d", n, n))
		}
		tailer := w.stepped()
		if full {
			s.run("full")
		}
		tailer.scan()
		tailer.turnAll()
		if full {
			s.run("room")
			tailer.turnAll()
		}
		got := w.boxed.take("in")
		small, big := 0, 0
		for _, r := range got {
			if strings.HasPrefix(r, "small") {
				small++
			} else if small < 100 {
				big += len(r) + 1
			}
		}
		if len(got) != 20_100 || small != 100 || big >= w.block {
			t.Errorf("%d records, %d of small files, and %d bytes of the large one before the last of these", len(got), small, big)
		}
	}
}

// A file without permission is told once with what to do, and read when it has
// it. The owner of all files is never refused, so this needs another user.
func TestPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the kernel refuses root nothing")
	}
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log one\nappend b.log two")
	must(t, os.Chmod(w.path("a.log"), 0))
	s.run("start\nexpect two\nlook\nlook")
	if n := w.boxed.logged("WARN", "a.log", "setfacl"); n != 1 {
		t.Errorf("told %d times", n)
	}
	must(t, os.Chmod(w.path("a.log"), 0o644))
	s.run("look\nexpect one")
}
