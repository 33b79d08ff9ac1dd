package tail

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
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
