package tail

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/inode"
)

// cutWorld has read a file of three lines into payloads of one each when the power is
// cut, which leaves of the journal what left tells it of these, and no file.
func cutWorld(t *testing.T, left func(w *world, j *journal.Journal, made []*record.Payload)) (w *world, id record.FileID) {
	return cutWorldOf(t, func(w *world) {
		for _, line := range []string{"one\n", "two\n", "three\n"} {
			w.appendTo("a.log", line)
			w.look()
		}
	}, left)
}

// cutWorldOf is cutWorld with three payloads of what fill writes.
func cutWorldOf(t *testing.T, fill func(*world), left func(w *world, j *journal.Journal, made []*record.Payload)) (w *world, id record.FileID) {
	t.Parallel()
	w = newWorld(t)
	w.block = 2000
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	fill(w)
	w.taker.mu.Lock()
	made := slices.Clone(w.taker.unsent)
	w.taker.mu.Unlock()
	if len(made) != 3 {
		t.Fatalf("%d payloads were made, want 3", len(made))
	}
	w.kill()
	w.state = filepath.Join(t.TempDir(), "journal")
	j, _, err := journal.Open(w.state, journal.DefaultConfig(), journal.Options{})
	must(t, err)
	left(w, j, made)
	must(t, j.Close())
	return w, made[0].Cover[0].File.ID
}

// onlyFile expects that the journal knows one file, by its id, and returns it.
func (w *world) onlyFile(id record.FileID) (last journal.FileState) {
	w.t.Helper()
	for _, s := range w.remembered() {
		if s.File.ID != id || s.Info.Info().Path != w.path("a.log") {
			w.t.Errorf("the journal knows %v at %q, want only %v", s.File, s.Info.Info().Path, id)
		}
		last = s
	}
	return last
}

// TestFileIsClaimedByItsID: a file of which the journal has lost the name, and has
// ranges, gets the same id, and these are not read again.
func TestFileIsClaimedByItsID(t *testing.T) {
	t.Run("spooled", func(t *testing.T) {
		w, id := cutWorld(t, func(w *world, j *journal.Journal, made []*record.Payload) {
			for _, p := range made[:2] {
				must(t, j.Begin(p))
				must(t, j.End(p.ID, record.Spooled))
			}
		})
		w.appendTo("a.log", "four\n")
		w.start()
		w.look()
		w.expect("in", "three", "four")
		w.onlyFile(id)
		w.shut()
		w.start() // and is known by its name from then on
		w.appendTo("a.log", "five\n")
		w.look()
		w.expect("in", "five")
		w.onlyFile(id)
	})
	t.Run("with a gap before", func(t *testing.T) {
		w, id := cutWorld(t, func(w *world, j *journal.Journal, made []*record.Payload) {
			must(t, j.Begin(made[1]))
			must(t, j.End(made[1].ID, record.Spooled))
		})
		w.start()
		w.look()
		w.expect("in", "one", "three")
		w.onlyFile(id)
	})
	t.Run("begun", func(t *testing.T) { // made again before files are looked for
		w, id := cutWorld(t, func(w *world, j *journal.Journal, made []*record.Payload) {
			made[0].Attempt = 1
			must(t, j.Begin(made[0]))
		})
		w.start()
		w.look()
		w.expect("in", "one", "two", "three")
		w.onlyFile(id)
	})
	t.Run("rewritten", func(t *testing.T) {
		w, id := cutWorld(t, func(w *world, j *journal.Journal, made []*record.Payload) {
			must(t, j.Begin(made[0]))
			must(t, j.End(made[0].ID, record.Spooled))
		})
		must(t, os.WriteFile(w.path("a.log"), []byte("other\n"), 0o600)) // the same inode
		w.start()
		w.look()
		w.expect("in", "other")
		for _, s := range w.remembered() {
			if s.File.ID != id {
				t.Errorf("the journal knows %v, want generations of %v", s.File, id)
			}
		}
	})
	t.Run("not comparable", func(t *testing.T) { // what was read is not skipped without a look at it
		w, _ := cutWorld(t, func(w *world, j *journal.Journal, made []*record.Payload) {
			made[0].Cover[0].Mark = 0
			must(t, j.Begin(made[0]))
			must(t, j.End(made[0].ID, record.Spooled))
		})
		w.start()
		w.look()
		w.expect("in", "one", "two", "three")
	})
	t.Run("replaced", func(t *testing.T) { // by a file that has another node
		w, _ := cutWorld(t, func(w *world, j *journal.Journal, made []*record.Payload) {
			must(t, j.Begin(made[0]))
			must(t, j.End(made[0].ID, record.Spooled))
		})
		must(t, os.WriteFile(w.path("new"), []byte("one\ntwo\n"), 0o600))
		w.rename("new", "a.log")
		w.start()
		w.look()
		w.expect("in", "one", "two")
	})
	t.Run("compressed", func(t *testing.T) {
		lines := []string{strings.Repeat("1", 1500), strings.Repeat("2", 1500), strings.Repeat("3", 1500)}
		w, id := cutWorldOf(t, func(w *world) {
			must(t, os.WriteFile(w.path("a.log"), packedBytes(".gz", []byte(strings.Join(lines, "\n")+"\n")), 0o600))
			for {
				w.look()
				w.taker.mu.Lock()
				n := len(w.taker.unsent)
				w.taker.mu.Unlock()
				if n == len(lines) {
					return
				}
			}
		}, func(w *world, j *journal.Journal, made []*record.Payload) {
			must(t, j.Begin(made[0]))
			must(t, j.End(made[0].ID, record.Spooled))
		})
		w.start()
		w.await("the file", func() bool { return w.boxed.count("in") == 2 })
		w.expect("in", lines[1:]...)
		w.onlyFile(id)
	})
	t.Run("second generation", func(t *testing.T) { // of a file whose first one is known
		w, id := cutWorld(t, func(w *world, j *journal.Journal, made []*record.Payload) {
			f, st, err := inode.Open(w.path("a.log"))
			must(t, err)
			defer f.Close()
			must(t, j.Register(made[0].Cover[0].File, record.FileInfo{Path: w.path("a.log"), Dev: st.Dev, Inode: st.Ino, Birth: st.Birth, Handle: inode.Handle(f)}.Facts()))
			must(t, j.Skip(made[0].Cover[0].File, record.Span{End: 1000}, 1))
			made[0].Cover[0].File.Generation, made[0].Pieces[0].File.Generation = 1, 1
			must(t, j.Begin(made[0]))
			must(t, j.End(made[0].ID, record.Spooled))
		})
		w.start()
		w.look()
		w.expect("in", "two", "three")
		if s := w.onlyFile(id); s.File.Generation != 1 || s.Position != 14 {
			t.Errorf("the journal knows %v up to %d, want generation 1 up to 14", s.File, s.Position)
		}
	})
	t.Run("unclear", func(t *testing.T) { // a file that cannot be opened may be the one
		var begun *record.Payload
		w, _ := cutWorld(t, func(w *world, j *journal.Journal, made []*record.Payload) {
			begun = made[0]
			must(t, j.Begin(begun))
			must(t, j.End(begun.ID, record.Spooled))
		})
		w.rename("a.log", "away")
		tailer := w.stepped()
		if _, err := w.tailer.ReadSpans(begun); !errors.Is(err, errUnscanned) {
			t.Errorf("before a scan: %v, want %v", err, errUnscanned)
		}
		tailer.scan()
		if _, err := w.tailer.ReadSpans(begun); !errors.Is(err, ErrSourceGone) {
			t.Errorf("where no file matches: %v, want %v", err, ErrSourceGone)
		}
		must(t, os.Symlink("a.log", w.path("a.log")))
		if _, err := w.tailer.ReadSpans(begun); err == nil || errors.Is(err, ErrSourceGone) {
			t.Errorf("where one cannot be opened: %v, want another error than that it is gone", err)
		}
		must(t, os.Remove(w.path("a.log")))
		w.rename("away", "a.log")
		if body, err := w.tailer.ReadSpans(begun); err != nil || string(body) != "one\n" {
			t.Errorf("where it is there: %q, %v", body, err)
		}
	})
}
