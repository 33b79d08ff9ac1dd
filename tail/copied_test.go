package tail

import (
	"fmt"
	"os"
	"testing"
	"time"

	"kusto-agent/tail/internal/inode"
)

// TestCopiedWithinATick: a file is copied and truncated while the agent is stopped, so fast that the clock of
// the file system, which goes in steps, gives the copy and the truncation the same time. No pattern matches
// the copy, in which lines are that were not read.
func TestCopiedWithinATick(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{3, 300} { // so few that the copy may be another file with the same header, and more
		t.Run(fmt.Sprint(lines), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in().Paths = []string{w.path("a.log")}
			var all []string
			for i := range lines {
				all = append(all, fmt.Sprintf("line %d", i))
				w.appendTo("a.log", all[i]+"\n")
			}
			w.start()
			w.expect("in", all...)
			w.shut()
			w.appendTo("a.log", "unread\n")
			must(t, copyFile(w.path("a.log"), w.path("a.log.1")))
			must(t, os.Truncate(w.path("a.log"), 0))
			copied, err := inode.At(w.path("a.log.1"))
			must(t, err)
			if copied.Birth == 0 {
				t.Skip("the file system does not tell when a file was made")
			}
			must(t, os.Chtimes(w.path("a.log"), time.Time{}, time.Unix(0, copied.Birth)))
			w.start()
			w.expect("in", append(all, "unread")...)
		})
	}
}
