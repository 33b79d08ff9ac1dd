package queryshell

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/console"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/rows"
)

// screen is what a terminal is sent, or a file.
type screen struct {
	t   *testing.T
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

// sent is what it was sent since it was asked last.
func (s *screen) sent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.buf.Reset()
	return s.buf.String()
}

// shows lets time pass and compares what was written in it.
func (s *screen) shows(took time.Duration, want string) {
	s.t.Helper()
	time.Sleep(took)
	synctest.Wait()
	if got := s.sent(); got != want {
		s.t.Errorf("in %v it is sent %q, want %q", took, got, want)
	}
}

type about = rows.About

func printerTo(form string, out console.Output) rows.Printer {
	return rows.New(out, rows.Options{Form: rows.Form(form), Screen: out.Terminal})
}

// TestRowsAreSeenSoon: rows are given out with others, and soon; the line about
// progress makes room for them.
func TestRowsAreSeenSoon(t *testing.T) {
	f := func(name, format string, terminal bool, test func(t *testing.T, w *watched, rows, words *screen, row func(int))) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rows, words := &screen{t: t}, &screen{t: t}
				if terminal {
					words = rows
				}
				out := console.Output{Writer: bufio.NewWriter(nil), Terminal: terminal}
				to := printerTo(format, out)
				w := watch(to, new(about), out, rows)
				w.words = words
				table := &query.Table{Kind: query.PrimaryResult, Columns: []query.Column{{Name: "a"}}}
				end := w.begin()
				time.Sleep(time.Millisecond) // so that no look is at the same time as the test's
				if err := w.Table(table); err != nil {
					t.Error(err)
				}
				test(t, w, rows, words, func(n int) {
					if err := w.Row(table, []json.RawMessage{json.RawMessage(fmt.Sprint(n))}); err != nil {
						t.Error(err)
					}
				})
				end()
				if err := to.End(); err != nil {
					t.Error(err)
				}
				if err := out.End(nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
	const wipe = "\r\x1b[K"
	f("both on a terminal", "json", true, func(_ *testing.T, w *watched, rows, _ *screen, row func(int)) {
		rows.shows(patientFor-time.Second, "")
		rows.shows(time.Second, wipe+"2s, 0 rows")
		w.Progress(50)
		rows.shows(time.Second, wipe+"2s, 0 rows, 50%"+wipe+"3s, 0 rows, 50%")
		row(1)
		row(2)
		rows.shows(0, "")
		rows.shows(seenWithin, wipe+"{\"a\":1}\n{\"a\":2}\n")
		rows.shows(time.Hour, "")
		row(3)
		rows.shows(seenWithin, "{\"a\":3}\n")
	})
	f("a full buffer", "json", true, func(t *testing.T, w *watched, rows, _ *screen, row func(int)) {
		rows.shows(patientFor, wipe+"2s, 0 rows")
		got := ""
		for n := 0; got == ""; n++ {
			row(n)
			got = rows.sent()
		}
		if !strings.HasPrefix(got, wipe+"{\"a\":0}\n") || strings.Count(got, wipe) != 1 {
			t.Errorf("begins %q", got[:40])
		}
	})
	f("rows into a file", "csv", false, func(_ *testing.T, w *watched, rows, words *screen, row func(int)) {
		rows.shows(patientFor, "a\n")
		row(1)
		row(2)
		rows.shows(seenWithin, "1\n2\n")
		words.shows(time.Second, wipe+"2s, 0 rows"+wipe+"2s, 2 rows"+wipe+"3s, 2 rows")
	})
	f("a table", "table", true, func(_ *testing.T, w *watched, rows, _ *screen, row func(int)) {
		rows.shows(patientFor, wipe+"2s, 0 rows")
		row(10)
		rows.shows(seenWithin, wipe+"a\n--\n10\n")
		row(2)
		rows.shows(seenWithin, "2\n")
	})
}
