package tail

import (
	"os"
	"testing"
)

// What belongs to the agent is never read, whatever path leads to it.
func TestOwn(t *testing.T) {
	f := func(name, watch string) {
		t.Run(name+"/"+watch, func(t *testing.T) {
			w := newWorld(t)
			w.state = w.path("own/state/journal")
			w.in().Paths, w.in().Watch = []string{w.path("logs/**/*.log"), w.path("logs/*/*.log"), w.path("logs/*/*/*.log")}, watch
			s := newScript(w)
			s.run(`
				mkdir own/state/sub
				append own/state/sub/a.log no
				append own/state/b.log no
				append own/out.log no
				mkdir logs/d
				append logs/d/a.log one
				symlink ../own/state/b.log logs/link.log
				symlink ../own/out.log logs/out.log
				ln own/out.log logs/d/hard.log
				symlink ../own/state logs/folder
				symlink ../../own/state/sub logs/d/deeper
				symlink ../own logs/above
			`)
			var err error
			w.own, err = os.OpenFile(w.path("own/out.log"), os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			defer w.own.Close()
			s.run(`
				start
				expect one
				append own/state/sub/a.log no
				append own/out.log no
				append logs/d/a.log two
				expect two
				files logs/d/a.log
				stop
				start
				append logs/d/a.log three
				expect three
				files logs/d/a.log
			`)
			for _, path := range []string{"logs/link.log", "logs/out.log", "logs/d/hard.log", "logs/folder/b.log"} {
				if n := w.boxed.logged("belongs to the agent itself", w.path(path)); n != 2 { // once in each run
					t.Errorf("%s: told %d times", path, n)
				}
			}
		})
	}
	f("links", "auto")
	f("links", "poll")
}

// A log that was followed before it became the agent's own is let be, also where
// no pattern matches it any more.
func TestOwnSinceLately(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log one\nstart\nexpect one\nkill\nappend a.log no\nmv a.log a.old")
	var err error
	w.own, err = os.OpenFile(w.path("a.old"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer w.own.Close()
	s.run("start\nappend a.log two\nexpect two\nfiles a.log")
}
