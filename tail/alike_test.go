package tail

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

// What applications write begins alike: a header, a banner, a line that repeats.

// TestGrowsBeyondIdle: a file begins with all that an idle file holds, and grows
// without a pause. It holds more than that file, so it is no copy, and is read
// while it grows.
func TestGrowsBeyondIdle(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		must(t, os.WriteFile(w.path("a.log"), []byte("service is starting\n"), 0o644))
		w.start()
		w.expect("in", "service is starting")
		f, err := os.OpenFile(w.path("b.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		must(t, err)
		defer f.Close()
		_, err = f.WriteString("service is starting\nfirst\n")
		must(t, err)
		want := []string{"service is starting", "first"}
		for late := time.Now().Add(patience); w.boxed.count("in") == 0; {
			if time.Now().After(late) {
				t.Fatal("nothing of it was read while it grew")
			}
			want = append(want, fmt.Sprint("line ", len(want)))
			_, err := fmt.Fprintln(f, want[len(want)-1])
			must(t, err)
			w.look()
		}
		w.expect("in", want...)
	})
}

// TestDeletedWhileFoundEmpty: a file that is empty when it is found, and begins with all
// that an idle one holds once its reader looks at it, is deleted or renamed meanwhile.
func TestDeletedWhileFoundEmpty(t *testing.T) {
	t.Parallel()
	const content = "service is starting\none\n"
	for name, take := range map[string]func(w *world) error{
		"deleted": func(w *world) error { return os.Remove(w.path("b.log")) },
		"renamed": func(w *world) error { return os.Rename(w.path("b.log"), w.path("b.old")) },
		"there":   func(w *world) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWatch(t, func(t *testing.T, w *world) {
				must(t, os.WriteFile(w.path("a.log"), []byte("service is starting\n"), 0o644))
				w.hidden.Store(int64(len(content)))
				w.start()
				w.expect("in", "service is starting")
				must(t, os.WriteFile(w.path("b.log"), []byte(content), 0o644))
				w.tailer.rescanSoon()
				w.await("a reader", func() bool { return w.tailer.inputs()[0].readers.Len() == 2 })
				must(t, take(w))
				w.hidden.Store(0)
				w.expect("in", "service is starting", "one")
			})
		})
	}
}

// TestDeletedWhileSuspected: a file that begins with all that an idle one holds is
// deleted, or renamed to what no pattern matches, before it is clear that it is no copy.
func TestDeletedWhileSuspected(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(w *world) error{
		"deleted": func(w *world) error { return os.Remove(w.path("b.log")) },
		"renamed": func(w *world) error { return os.Rename(w.path("b.log"), w.path("b.old")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWatch(t, func(t *testing.T, w *world) {
				w.in().RotateQuiet = units.Duration(500 * time.Millisecond)
				must(t, os.WriteFile(w.path("a.log"), []byte("service is starting\n"), 0o644))
				w.start()
				w.expect("in", "service is starting")
				must(t, os.WriteFile(w.path("b.log"), []byte("service is starting\none\n"), 0o644))
				w.tailer.rescanSoon()
				w.await("a suspicion", func() bool { return w.tailer.suspects() || w.boxed.count("in") > 0 })
				must(t, take(w))
				w.expect("in", "service is starting", "one")
			})
		})
	}
}

// TestRepeatingLinesTruncated: a file of lines that are all alike is truncated and
// written anew with fewer of them. What was there before is met at every block, so
// it does not prove that the beginning of the file was cut off.
func TestRepeatingLinesTruncated(t *testing.T) {
	t.Parallel()
	for _, period := range []int{16, 64, 256, 1024} {
		t.Run(fmt.Sprint(period), func(t *testing.T) {
			t.Parallel()
			eachWatch(t, func(t *testing.T, w *world) {
				var lines []string
				for n := range 8192 / period {
					lines = append(lines, strings.Repeat(string(rune('a'+n%max(period/256, 1))), period/max(period/256, 1)-1))
				}
				text := func(n int) []byte { return []byte(strings.Join(lines[:n], "\n") + "\n") }
				must(t, os.WriteFile(w.path("a.log"), text(len(lines)), 0o644))
				w.start()
				w.expect("in", lines...)
				must(t, os.WriteFile(w.path("a.log"), text(len(lines)*5/8), 0o644))
				w.expect("in", lines[:len(lines)*5/8]...)
			})
		})
	}
}

// TestDeletedWithARest: a file was written to, renamed and deleted before its reader looked
// at it again, as by a rotation that compresses at once. The next file was made before that,
// and begins with all that was read of it. What is left of the deleted one is read first.
func TestDeletedWithARest(t *testing.T) {
	t.Parallel()
	const banner = "a banner that each file begins with\n"
	w := newWorld(t)
	must(t, os.WriteFile(w.path("a.log"), []byte(banner), 0o644))
	tailer := w.stepped()
	tailer.scan()
	tailer.turnAll()
	r := tailer.readerAt(w.path("a.log"))
	appendTo(t, w.path("a.log"), "rest\n")
	must(t, os.Rename(w.path("a.log"), w.path("old")))
	must(t, os.WriteFile(w.path("a.log"), []byte(banner), 0o644))
	must(t, commands["tick"](newScript(w), nil))
	must(t, os.Remove(w.path("old")))
	tailer.apply(r, tracker.Unseen{Left: true, Deleted: true})
	next, st, err := inode.Open(w.path("a.log"))
	must(t, err)
	defer next.Close()
	if m := tailer.recognise(r.in, compare.Of(next, st, "")); m.is != identity.Undecided {
		t.Errorf("the next file is %v", m.is)
	}
}
