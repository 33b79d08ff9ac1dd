package queryshell

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"kusto-agent/internal/async"
	"kusto-agent/internal/console"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/rows"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// watched is a result on its way to somebody who waits for it: what came is given
// out soon, and a terminal on which nothing came yet is told how long it has been
// and how much was read.
type watched struct {
	to    rows.Printer
	about *rows.About
	out   console.Output
	below io.Writer // where out goes
	words io.Writer // a terminal; nil: nobody reads it, or what it would be told by now would be among the rows
	began time.Time

	mu   sync.Mutex // of everything that writes, and of what is below
	rows int
	done float64 // percent
	said string  // the line on the terminal
}

// watch returns a reader that passes a result on to the printer to, and shows progress until the
// first rows are printed. The reader also takes the place of below as the writer behind out. So it
// can flush the output while it waits for rows, and remove the progress line before any of it.
func watch(to rows.Printer, about *rows.About, out console.Output, below io.Writer) *watched {
	w := &watched{to: to, about: about, out: out, below: below, began: time.Now()}
	out.Reset(w)
	return w
}

// Table passes a table on to the printer, under the lock that the flushing goroutine also takes.
func (w *watched) Table(t *query.Table) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Table(t)
}

// Row passes a row on to the printer and counts it. A row of a table about the request, not its
// result, is noted in w.about, and not counted.
func (w *watched) Row(t *query.Table, row []json.RawMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rows.IsAsked(t) {
		w.rows++
	} else {
		w.about.Note(t, row)
	}
	return w.to.Row(t, row)
}

// Progress notes how much of the query is done, in percent, for the progress line.
func (w *watched) Progress(percent float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = percent
}

// Write passes buffered output on to w.below. On a terminal it first removes the progress line,
// which is not shown again after the first output. The caller holds mu, or is the only one that
// uses w.
func (w *watched) Write(b []byte) (int, error) {
	if w.out.Terminal {
		w.wipe()
		w.words = nil
	}
	return w.below.Write(b)
}

const (
	// seenWithin is how long a row waits for others to be given out with.
	seenWithin = 250 * time.Millisecond
	// patientFor is how long a person waits without a word.
	patientFor = 2 * time.Second
)

// begin starts a goroutine that flushes the output and updates the progress line every 250 ms
// (seenWithin). The caller must call end, which stops it and removes the line.
func (w *watched) begin() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	// Ended and awaited by end.
	told := async.Start(func() {
		tick := time.NewTicker(seenWithin)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.look()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		<-told
		w.wipe()
	}
}

// look flushes the output so far and updates the progress line, which is shown once the query has
// taken patientFor. Write errors are ignored here: the next write of a row reports them.
func (w *watched) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.to.Flush()
	_ = w.out.Flush()
	if took := time.Since(w.began); w.words != nil && took >= patientFor {
		if line := w.line(took); line != w.said {
			w.said = line
			fmt.Fprintf(w.words, "\r\x1b[K%s", line)
		}
	}
}

// line returns the progress line: time, rows and percent.
func (w *watched) line(took time.Duration) string {
	s := fmt.Sprintf("%v, %s", took.Truncate(time.Second), units.Counted(w.rows, "row"))
	if n := int(w.done); n > 0 {
		s += fmt.Sprintf(", %d%%", n)
	}
	return s
}

// say writes a line on stderr for a person who waits. The progress line is removed first and comes
// back at its next update.
func (w *watched) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wipe()
	fmt.Fprintln(os.Stderr, telemetry.Printable(fmt.Sprintf(format, args...)))
}

// wipe removes the progress line from the terminal, if it is shown. The caller holds mu, unless the
// flushing goroutine has ended.
func (w *watched) wipe() {
	if w.said != "" {
		fmt.Fprint(w.words, "\r\x1b[K")
		w.said = ""
	}
}
