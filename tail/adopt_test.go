package tail

import (
	"os"
	"strings"
	"testing"
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
	f, st, err := openFile(w.path("b.log"))
	must(t, err)
	w.tailer.adoptOpen(w.tailer.inputs[0], w.path("b.log"), f, st, false)
	for _, s := range w.j.Files("in") {
		if s.Info.Path != w.path("b.log") || s.Position != 2100 {
			t.Errorf("the journal has %s, read to %d", s.Info.Path, s.Position)
		}
	}
	w.tailer.closeFiles()
	w.taker.end()
	w.tailer = nil
}
