package tail

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
)

// anyAccess is lines of an access log, with others between.
func anyAccess(r *rand.Rand) string {
	var b strings.Builder
	for n := range r.IntN(100) + 1 {
		fmt.Fprintf(&b, "10.0.0.%d - - [01/Mar/2026:12:00:00 +0000] \"GET /%d HTTP/1.1\" 200 %d\n", n%256, n, r.IntN(1000))
		fmt.Fprintf(&b, "%s %2d 12:00:00 host app[%d]: message\n", time.Month(1 + r.IntN(12)).String()[:3], 1+r.IntN(29), n)
		if r.IntN(5) == 0 {
			b.WriteString("nonsense\n")
		}
	}
	return b.String()
}

// yearWorld is a world whose lines do not tell their year.
func yearWorld(t *testing.T) *world {
	w := newWorld(t)
	in := w.in()
	in.Format, in.Parse, in.OnError = record.JSON, "regex", "raw"
	in.Pattern = []string{`^(?P<time>\w+ +\d+ \S+) (?P<message>.*)$`}
	in.Time = &Time{Member: "time", Layout: "syslog", Zone: "utc"}
	return w
}

func (w *world) dateOf(name, date string) {
	w.t.Helper()
	at, err := time.Parse("2006-01-02", date)
	must(w.t, err)
	must(w.t, os.Chtimes(w.path(name), at, at))
}

// dated makes a file that has its date when it is first seen.
func (w *world) dated(name, date, text string) {
	w.t.Helper()
	must(w.t, os.WriteFile(w.path("new"), []byte(text), 0o644))
	w.dateOf("new", date)
	must(w.t, os.Rename(w.path("new"), w.path(name)))
}

// The year of lines that do not tell it is that of the date which the file had when it
// was first seen: whatever year it is now, whoever touches the file, and after a restart.
func TestYearsOfFiles(t *testing.T) {
	w := yearWorld(t)
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	w.dated("a.log", "2019-01-02", "Dec 31 23:59:59 a\nJan  1 00:00:00 b\n")
	w.look()
	w.taker.mu.Lock()
	p := w.taker.unsent[0]
	w.taker.mu.Unlock()
	const want = `{"time":"2018-12-31T23:59:59Z","message":"a"}` + "\n" + `{"time":"2019-01-01T00:00:00Z","message":"b"}` + "\n"
	if string(p.Body) != want {
		t.Errorf("sent %s", p.Body)
	}
	must(t, w.j.Begin(p))
	w.kill()
	w.dateOf("a.log", "2023-06-02")
	w.taker = nil
	w.start()
	body, err := w.tailer.ReadSpans(describe(p))
	must(t, err)
	if string(body) != want {
		t.Errorf("made again it is %s", body)
	}
}

// A file keeps its date over a restart, and gets another one when it is begun anew.
func TestYearsOfGenerations(t *testing.T) {
	w := yearWorld(t)
	w.start()
	year := func(year, text string) string {
		return `{"time":"` + year + `-02-01T00:00:00Z","message":"` + text + `"}`
	}
	w.dated("a.log", "2019-01-02", "Feb  1 00:00:00 a\nFeb  1 00:00:00 b\n")
	w.look()
	w.shut()
	w.appendTo("a.log", "Feb  1 00:00:00 c\n")
	w.start()
	w.look()
	w.shut()
	must(t, os.WriteFile(w.path("a.log"), []byte("Feb  1 00:00:00 d\n"), 0o644))
	w.dateOf("a.log", "2023-01-02")
	w.start()
	w.look()
	w.expect("in", year("2019", "a"), year("2019", "b"), year("2019", "c"), year("2023", "d"))
}
