package tail

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/settings"
)

func patternOf(t *testing.T, path string) finder.Pattern {
	t.Helper()
	p, err := finder.NewPattern(path)
	must(t, err)
	return p
}

// TestFreshNames: where there are many files, and a scan takes its time, a new name is looked at by itself,
// also in a folder that is new, and no file of a new input is taken for an old one.
func TestFreshNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths = []string{w.path("**/*.log")}
	tailer := w.stepped()
	tailer.scan()
	in := tailer.inputs()[0]
	reads := func(path string) bool {
		tailer.mu.Lock()
		defer tailer.mu.Unlock()
		return tailer.byPath.Has(w.path(path))
	}
	f := func(crowd int, isNew bool, name, path string, want bool) {
		t.Helper()
		tailer.news.crowd = crowd
		in.scan.isNew = isNew
		listener{tailer.Tailer}.Heard([]finder.Event{{What: finder.Appeared, Path: w.path(name)}})
		tailer.find.meetFresh()
		if got := reads(path); got != want {
			t.Errorf("%s, a crowd from %d on, new %v: it is read: %v", path, crowd, isNew, got)
		}
	}
	write := func(path string) {
		must(t, os.MkdirAll(filepath.Dir(w.path(path)), 0o755))
		must(t, os.WriteFile(w.path(path), []byte("one\n"), 0o644))
	}
	write("a.log")
	f(1, false, "a.log", "a.log", false)
	f(0, true, "a.log", "a.log", false)
	f(0, false, "a.log", "a.log", true)
	write("d/e/b.log")
	f(0, false, "d", "d/e/b.log", true)
	if !tailer.watch.Covers(w.path("d/e/b.log")) || !tailer.watch.Covers(w.path("d/c.log")) {
		t.Error("a new folder is not watched")
	}
	write("c.log.gz")
	in.Spec.Patterns = append(in.Spec.Patterns, patternOf(t, w.path("*.gz")))
	f(0, false, "c.log.gz", "c.log.gz", false)
	write("f.txt")
	f(0, false, "f.txt", "f.txt", false)
}

// TestWeigh: what is known of files is told when it is a MiB more or less.
func TestWeigh(t *testing.T) {
	t.Parallel()
	var told []int64
	tailer, err := New(Options{Known: func(bytes int64) { told = append(told, bytes) }})
	must(t, err)
	in, err := newInput(Input{InputConfig: InputConfig{Name: "in", Destination: settings.Destination{Format: record.TXT}}, MaxSize: 1 << 20})
	must(t, err)
	tailer.configured.Store(&configured{inputs: []*input{in}})
	f := func(read, remembered int, want ...int64) {
		t.Helper()
		in.readers, in.known = newReaders(), newGenerations()
		for n := range read {
			in.readers.Put(&reader{busy: &unbusy, k: &generation{info: record.FileInfo{Inode: uint64(n) + 1}.Facts()}})
		}
		for n := range read + remembered {
			in.known.Put(&generation{of: in.files, id: record.FileID(n)})
		}
		told = nil
		tailer.find.estimate()
		tailer.find.weigh()
		if !slices.Equal(told, want) {
			t.Errorf("%d read and %d remembered: told %d, want %d", read, remembered, told, want)
		}
	}
	f(0, 0)
	f(100, 100)
	f(6000, 0, 6000*bytesRead)
	f(6000, 500)
	f(0, 20000, 20000*bytesRemembered)
	f(0, 0, 0)
}

// TestRenamesThatWait: of the renames that events tell of between two scans no more are kept than is said, also
// where new names are looked at meanwhile.
func TestRenamesThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tailer := w.stepped()
	tailer.scan()
	renames := make([]finder.Event, atOnce)
	for i := range renames {
		renames[i] = finder.Event{What: finder.Renamed, From: w.path("a"), Path: w.path("b")}
	}
	for range 3 {
		listener{tailer.Tailer}.Heard(renames)
		tailer.find.meetFresh()
	}
	if n := len(tailer.find.heard.renames); n != atOnce {
		t.Errorf("%d renames wait, want %d", n, atOnce)
	}
	tailer.scan()
	if n := len(tailer.find.heard.renames); n != 0 {
		t.Errorf("%d renames are left after a scan", n)
	}
}
