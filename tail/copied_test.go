package tail

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"kusto-agent/tail/internal/inode"
)

// TestCopyOfBeforeItGrew: a copy holds what was read of a log, and no more, as it was made before the log grew. Then
// the log is copied again, where no pattern matches, and truncated: what was not read is in the second copy. The first
// one may come too, if it is compared when the second goes on: it is only the beginning of that.
func TestCopyOfBeforeItGrew(t *testing.T) {
	t.Parallel()
	const header = "time,level,host,message"
	for name, first := range map[string][2]string{"plain": {"1m", "look"}, "compressed": {"50ms", "gzip a.log.12\nlook\ndecided"}} {
		text := fmt.Sprintf("set paths *.log *.log.1*\nset rotate_quiet %s\nappend a.log %s\nstart\nexpect %[2]s\nlook\ncp a.log a.log.12\n%s\n"+
			"cp a.log a.log-7\nappend a.log-7 x1..x3\ntruncate a.log 0\n", first[0], header, first[1])
		for _, v := range variants(text) {
			t.Run(name+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				s := v.script(newWorld(t))
				s.run(text)
				var got []string
				for late := time.Now().Add(patience); !slices.Contains(got, "x3") && time.Now().Before(late) && !t.Failed(); {
					s.look()
					got = append(got, s.boxed.take("in")...)
				}
				if got = slices.DeleteFunc(got, func(r string) bool { return r == header }); !slices.Equal(got, []string{"x1", "x2", "x3"}) {
					t.Errorf("records are %q\n%s", got, s.boxed.text())
				}
			})
		}
	}
}

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
