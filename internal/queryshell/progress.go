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

// watch returns a reader that passes results on to a printer (to). It also becomes the place to
// which out writes its buffered output, in front of below, so that it can flush the output and
// show progress while it waits for rows.
func watch(to rows.Printer, about *rows.About, out console.Output, below io.Writer) *watched {
	w := &watched{to: to, about: about, out: out, below: below, began: time.Now()}
	out.Reset(w)
	return w
}

// Table passes a table on.
func (w *watched) Table(t *query.Table) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Table(t)
}

// Row counts a row and passes it on.
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

// Progress notes how far the query is, for the progress line.
func (w *watched) Progress(percent float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = percent
}

// Write passes buffered output on. On a terminal it first removes the progress line, which does not
// come back after the first rows.
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

// begin starts to flush what has come every 250 ms, and to show progress, until the caller calls end.
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

// look flushes what has come and updates the progress line. Write errors are left to the next writer.
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

// say writes a line for a person who waits, in place of the progress line.
func (w *watched) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wipe()
	fmt.Fprintln(os.Stderr, telemetry.Printable(fmt.Sprintf(format, args...)))
}

// wipe removes the progress line.
func (w *watched) wipe() {
	if w.said != "" {
		fmt.Fprint(w.words, "\r\x1b[K")
		w.said = ""
	}
}
