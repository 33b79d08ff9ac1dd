package tail

import (
	"os"
	"strings"
	"testing"

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
	w.prepare()
	f, st, err := inode.Open(w.path("b.log"))
	must(t, err)
	w.tailer.find.adoptOpen(w.tailer.inputs[0], w.path("b.log"), f, st, "")
	for _, s := range w.remembered() {
		if s.Info.Info().Path != w.path("b.log") || s.Position != 2100 {
			t.Errorf("the journal has %s, read to %d", s.Info.Info().Path, s.Position)
		}
	}
	w.tailer.closeFiles()
	w.taker.end()
	w.tailer = nil
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
