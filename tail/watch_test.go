package tail

import (
	"os"
	"testing"

	"kusto-agent/tail/internal/inode"
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

// TestWatchFollowsLinks: events tell what becomes of the names that links to files lead to, as those of
// Kubernetes do, also where nothing is there when a scan comes.
func TestWatchFollowsLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, dir := range []string{"links", "pods", "docker"} {
		must(t, os.Mkdir(w.path(dir), 0o755))
	}
	must(t, os.Symlink(w.path("docker/a.log"), w.path("pods/0.log")))
	must(t, os.Symlink("../pods/0.log", w.path("links/a.log")))
	w.in().Paths = []string{w.path("links/*.log")}
	w.start()
	w.look()
	for _, path := range []string{"pods/0.log", "docker/a.log"} {
		if !w.tailer.watch.Covers(w.path(path)) {
			t.Errorf("no event tells of %s", path)
		}
	}
	must(t, os.Symlink("/dev/null", w.path("links/b.log")))
	w.look()
	if w.tailer.watch.Covers("/dev/null") {
		t.Error("events tell of all that is written to devices")
	}
	w.appendTo("docker/a.log", "one\n")
	w.expect("in", "one")
	w.rename("docker/a.log", "docker/a.log.1")
	w.appendTo("docker/a.log", "two\n")
	w.expect("in", "two")
}

// TestLinkLedElsewhereDuringAScan: a deploy leads a link to another folder after a scan has found out
// where it led. The path of a new file is resolved anew: by that the file is found after the next deploy.
func TestLinkLedElsewhereDuringAScan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	tailer := w.tailer
	w.halt() // nobody else looks now
	find := func(folder string) string {
		must(t, os.Mkdir(w.path(folder), 0o755))
		must(t, os.Symlink(folder, w.path("link")))
		must(t, os.Rename(w.path("link"), w.path("current")))
		must(t, os.WriteFile(w.path("current/a.log"), []byte(folder+"\n"), 0o644))
		st, err := inode.At(w.path("current/a.log"))
		must(t, err)
		return tailer.find.leads(w.path("current/a.log"), st.Node)
	}
	for _, folder := range []string{"run0", "run1"} {
		if real, want := find(folder), w.path(folder+"/a.log"); real != want {
			t.Errorf("the file is in %s, want %s", real, want)
		}
	}
}
