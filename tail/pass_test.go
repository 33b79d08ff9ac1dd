package tail

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestCopiedUpWhileOthersAreMet: a file on overlayfs is renamed, which gives it another inode, after a new one beside
// it was met and before the scan comes to it: it is known by the descriptor of its reader all the same, and not
// compared as a new file.
func TestCopiedUpWhileOthersAreMet(t *testing.T) {
	t.Parallel()
	below, many := mounted(t, "tmpfs", "tmpfs", ""), t.TempDir()
	must(t, os.WriteFile(filepath.Join(below, "a.log"), []byte(strings.Repeat("a line\n", 100)), 0o644))
	w := newWorldIn(t, overlaid(t, below, t.TempDir()))
	w.in().Paths = []string{many + "/*.log"}
	w.addInput("other", "*.log")
	tailer := w.stepped()
	tailer.scan()
	tailer.turnAll()
	for i := range freshEvery {
		must(t, os.WriteFile(filepath.Join(many, fmt.Sprint(i, ".log")), nil, 0o644))
	}
	taken := 0
	tailer.size = func(size int64) int64 {
		switch taken++; taken {
		case 1:
			must(t, os.WriteFile(w.path("b.log"), []byte("b\n"), 0o644))
			tailer.locked(func() { tailer.news.fresh = []string{w.path("b.log")} })
		case freshEvery + 1:
			must(t, os.Rename(w.path("a.log"), w.path("c.log")))
		}
		return size
	}
	tailer.scan()
	if taken != freshEvery+1 {
		t.Errorf("%d files were taken for new ones, want %d", taken, freshEvery+1)
	}
	tailer.size = nil
	tailer.turnAll()
	tailer.scan()
	tailer.readerAt(w.path("c.log"))
}

// TestScanKeepsNothing: what the phases of a scan hand on is not kept until the next scan: it may be large.
func TestScanKeepsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tailer := w.steppedOver("a.log", "one\n")
	must(t, os.Remove(w.path("a.log")))
	for range 3 {
		tailer.scan()
		if p := tailer.inputs()[0].scan.pass; !reflect.ValueOf(p).IsZero() {
			t.Errorf("%+v", p)
		}
		tailer.turnAll()
	}
}
