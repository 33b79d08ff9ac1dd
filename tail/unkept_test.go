package tail

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// TestReadUpToTheRecordThatWaits: where quarantine takes no more, a file is read
// up to the bad record that has to wait, other files to their end, and all of it
// is told once; with room it goes on where it stopped.
func TestReadUpToTheRecordThatWaits(t *testing.T) {
	f := func(kind record.Format, good, bad, odd string) {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t)
			w.in().Format, w.in().Mapping = kind, "m"
			var want []string
			var text strings.Builder
			offsets := []int64{}
			add := func(n int, what string) {
				for range n {
					line := fmt.Sprintf(what, text.Len())
					if what == good {
						want = append(want, line)
					} else {
						offsets = append(offsets, int64(text.Len()))
					}
					text.WriteString(line + "\n")
				}
			}
			add(10, good)
			add(15, bad)
			add(1, odd)
			add(34, bad)
			add(10, good)
			before := len(want)
			add(1, bad)
			add(10, good)
			refused := func(n int) {
				t.Helper()
				w.look()
				w.boxed.mu.Lock()
				defer w.boxed.mu.Unlock()
				var got []int64
				for _, r := range w.boxed.refused {
					got = append(got, r.Offset)
				}
				if !slices.Equal(got, offsets[:n]) {
					t.Errorf("refused at %v, want %v", got, offsets[:n])
				}
			}
			room := func(n int) {
				w.boxed.mu.Lock()
				w.boxed.room = n
				w.boxed.mu.Unlock()
			}
			room(20)
			must(t, os.WriteFile(w.path("a.log"), []byte(text.String()), 0o600))
			must(t, os.WriteFile(w.path("b.log"), []byte(fmt.Sprintf(good, -1)+"\n"), 0o600))
			w.start()
			w.expect("in", append(want[:10:10], fmt.Sprintf(good, -1))...)
			refused(20)
			refused(20)
			told := func(n int) {
				t.Helper()
				if got := w.boxed.logged("file cannot be read", "a.log", "no room", "bad record at offset", "quarantine.max_size"); got != n {
					t.Errorf("told %d times, want %d: %q", got, n, w.boxed.log)
				}
			}
			told(1)
			if why := w.tailer.Problems()[w.path("a.log")+" for input in"]; !strings.Contains(why, fmt.Sprint("offset ", offsets[20], ": no room")) {
				t.Errorf("status says %q", why)
			}
			room(50)
			w.expect("in", want[10:before]...)
			refused(50)
			told(2) // it went on, and met the next
			room(51)
			w.expect("in", want[before:]...)
			refused(51)
			told(2)
			if n := w.boxed.logged("file can be read again"); n == 0 || len(w.tailer.Problems()) > 0 {
				t.Errorf("told %d times that it is over; problems %v", n, w.tailer.Problems())
			}
		})
	}
	f(record.JSON, `{"at":%d,"fill":"some more"}`, `no json %d`, `no json %d`)
	// A quote in the middle of a field leaves the end of its record in doubt.
	f(record.CSV, `%d,some more`, `%d,a"b`, `%d,"a"b`)
}

// What is longer than one read waits for room in quarantine like any record,
// and takes nothing of what follows it along.
func TestLongOneThatWaits(t *testing.T) {
	f := func(name, how, long, good string) {
		t.Run(name, func(t *testing.T) {
			w := parseWorld(t, how, nil)
			w.in().MaxRecordSize = 1000
			w.boxed.room = 0
			w.start()
			w.appendTo("a.log", long, good)
			w.look()
			w.appendTo("a.log", good, good)
			w.look()
			if n := len(w.boxed.refused); n != 0 {
				t.Fatalf("%d refused", n)
			}
			w.boxed.mu.Lock()
			w.boxed.room = 10
			w.boxed.mu.Unlock()
			want := message("good")
			if how == "cri" {
				want = criMessage("stdout", "good")
			}
			w.expect("in", want, want, want)
			if n := len(w.boxed.refused); n != 1 || w.boxed.refused[0].Length != int64(len(long)) {
				t.Errorf("refused %d: %.300v", n, w.boxed.refused)
			}
		})
	}
	f("line", "text", strings.Repeat("x", 100_000)+"\n", "good\n")
	f("message", "cri", strings.Repeat(criLine("stdout", "P", "x"), 3000)+criLine("stdout", "F", "x"), criLine("stdout", "F", "good"))
}
