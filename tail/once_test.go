package tail

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/inode"
)

// unreadOnce runs a tailer to its end and returns the paths of the input in whose files
// bytes are left that the journal does not have. Where there are some, the run has to
// tell, for its exit code.
func (w *world) unreadOnce() (unread []string) {
	w.t.Helper()
	w.once = true
	w.start()
	<-w.stopped
	w.taker.flush()
	refused := w.tailer.Refused()
	w.shut()
	w.once = false
	j, _, err := w.openJournal()
	must(w.t, err)
	defer j.Close()
	read := make(map[inode.Node]int64)
	for _, s := range j.Files("in") {
		n := inode.Of(s.Info.Info())
		read[n] = max(read[n], s.Position)
	}
	for _, pattern := range w.in().Paths {
		paths, err := filepath.Glob(pattern)
		must(w.t, err)
		for _, path := range paths {
			st, err := inode.At(path)
			must(w.t, err)
			if st.IsRegular() && read[st.Node] < st.Size {
				unread = append(unread, path)
			}
		}
	}
	if slices.ContainsFunc(unread, func(path string) bool { return !compressed.IsNamed(path) }) && !refused { // a compressed copy has no position
		w.t.Errorf("nothing is told of what was not read: %q", unread)
	}
	return unread
}

// TestOnceReadsAll: a run --once leaves no byte unread without telling, also of a file
// that was taken for a copy when it was found, of one that an earlier run had in doubt or
// had not come to when it was killed, of one whose last record has no end, and of one that
// cannot be read.
func TestOnceReadsAll(t *testing.T) {
	t.Parallel()
	f := func(name string, want []string, prepare func(w *world, s *script)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in().Paths[0] = w.path("*.log*")
			w.in().RotateQuiet = units.Duration(time.Hour) // nothing is decided by waiting
			prepare(w, newScript(w))
			got := w.unreadOnce()
			if len(got) != len(want) || len(got) > 0 && got[0] != w.path(want[0]) {
				t.Errorf("not read: %q, want %q", got, want)
			}
		})
	}
	banner := func(w *world, names ...string) {
		for _, name := range names {
			text, err := os.ReadFile(w.path("a.log"))
			must(w.t, err)
			must(w.t, os.WriteFile(w.path(name), text, 0o644))
		}
	}
	f("alike", nil, func(w *world, s *script) {
		s.run("append a.log time,level,host,message")
		banner(w, "b.log", "a.log.1", "a.log.2")
		s.run("append a.log 1..99")
	})
	f("in doubt before a kill", nil, func(w *world, s *script) {
		s.run("append a.log 1..999\nstart\nlook")
		banner(w, "a.log.1", "b.log")
		s.run("look\nlook\nkill")
	})
	f("in doubt before a stop, the original truncated since", nil, func(w *world, s *script) {
		s.run("append a.log 1..999\nstart\nlook")
		banner(w, "a.log.1")
		s.run("look\nstop\ntruncate a.log 0\nappend a.log 7..9")
	})
	f("not come to before a kill", nil, func(w *world, s *script) {
		s.run("start\nfull\nappend a.log 1..99\nappend b.log 1..99\nlook\nkill")
	})
	f("records without an end", nil, func(w *world, s *script) {
		w.in().Format = "CSV"
		s.run("partial a.log \"1,\\\"open\\n2,3\"\npartial b.log 4,5\npartial a.log.1 6")
	})
	f("compressed", nil, func(w *world, s *script) {
		s.run("append a.log 1..999")
		banner(w, "b.log")
		s.run("append c.log 1..999 and more\ngzip c.log")
	})
	f("broken off", []string{"b.log.gz"}, func(w *world, s *script) {
		s.run("append a.log 1..99\nappend b.log 5..99\ngzip b.log\ncut b.log.gz 5")
	})
}
