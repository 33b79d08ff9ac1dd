package tail

import (
	"os"
	"testing"
)

// TestWatchFollowsFolder: a link to a folder is led elsewhere, as a deploy does, and a
// folder above is renamed and made anew. A file that is made there and renamed at once
// to a name that no pattern matches is known by its events alone.
func TestWatchFollowsFolder(t *testing.T) {
	t.Parallel()
	passing := func(w *world, name, line string) {
		must(w.t, os.WriteFile(w.path("current/"+name), []byte(line+"\n"), 0o644))
		must(w.t, os.Rename(w.path("current/"+name), w.path("current/"+name+".old")))
	}
	for name, replace := range map[string]func(w *world){
		"link": func(w *world) {
			must(w.t, os.Remove(w.path("current")))
			must(w.t, os.Symlink("run2/log", w.path("current")))
		},
		"folder": func(w *world) {
			must(w.t, os.Rename(w.path("run1"), w.path("run0")))
			must(w.t, os.MkdirAll(w.path("run1/log"), 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in().Paths = []string{w.path("current/*.log")}
			must(t, os.MkdirAll(w.path("run1/log"), 0o755))
			must(t, os.MkdirAll(w.path("run2/log"), 0o755))
			must(t, os.Symlink("run1/log", w.path("current")))
			w.start()
			w.look()
			passing(w, "a.log", "before")
			w.expect("in", "before")
			replace(w)
			w.look()
			passing(w, "b.log", "after")
			w.expect("in", "after")
		})
	}
}
