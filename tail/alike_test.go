package tail

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// What applications write begins alike: a header, a banner, a line that repeats.

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
