package telemetry

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logReader takes what is written once it is released, and nothing when it is gone.
type logReader struct {
	released chan struct{} // closed: it takes lines
	mu       sync.Mutex
	got      strings.Builder
	gone     bool
}

func newLogReader(stalled bool) *logReader {
	r := &logReader{released: make(chan struct{})}
	if !stalled {
		close(r.released)
	}
	return r
}

func (r *logReader) Write(p []byte) (int, error) {
	<-r.released
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return 0, errors.New("nobody is there")
	}
	return r.got.Write(p)
}

func (r *logReader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.String()
}

func (r *logReader) set(gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = gone
}

func missingLine(n uint64) []byte { return fmt.Appendf(nil, "%d missing\n", n) }

func TestLogLinesAreWrittenBeforeTheCallReturns(t *testing.T) {
	r := newLogReader(false)
	q := newLogQueue(r, missingLine)
	for i := range 100 {
		fmt.Fprintf(q, "%d\n", i)
		if !strings.HasSuffix(r.text(), fmt.Sprintf("%d\n", i)) {
			t.Fatalf("line %d is not written", i)
		}
	}
	q.Close(time.Hour)
	fmt.Fprintln(q, "too late")
	if q.Dropped() != 1 || q.Missing() != 0 || strings.Contains(r.text(), "late") {
		t.Errorf("%d dropped, %d missing", q.Dropped(), q.Missing())
	}
}

func TestStalledReaderOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLogReader(true)
		q := newLogQueue(r, missingLine)
		line := strings.Repeat("x", 99<<10) + "\n"
		began := time.Now()
		for range 15 {
			fmt.Fprint(q, line)
		}
		if waited := time.Since(began); waited != logPatience {
			t.Errorf("15 lines took %v, want no more than the first %v", waited, logPatience)
		}
		if q.Dropped() != 5 || q.Missing() != 5 {
			t.Errorf("%d dropped, %d missing, want 5", q.Dropped(), q.Missing())
		}
		close(r.released)
		time.Sleep(logDistrust)
		fmt.Fprint(q, "more\n")
		if want := strings.Repeat(line, 10) + "5 missing\nmore\n"; r.text() != want {
			t.Errorf("%d bytes were written, want %d; they end in %.40q", len(r.text()), len(want), r.text()[max(0, len(r.text())-40):])
		}
		if q.Dropped() != 5 || q.Missing() != 0 {
			t.Errorf("%d dropped, %d missing afterwards", q.Dropped(), q.Missing())
		}
		q.Close(time.Hour)
	})
}

// The notice comes also where nothing is logged any more.
func TestMissingLinesAreToldAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLogReader(true)
		q := newLogQueue(r, missingLine)
		fmt.Fprint(q, strings.Repeat("x", queuedLogBytes+1)) // what is alone is taken, whatever its size
		fmt.Fprint(q, "y\n")
		closed := time.Now()
		q.Close(time.Second)
		if waited := time.Since(closed); waited != time.Second {
			t.Errorf("close waited %v", waited)
		}
		close(r.released)
		synctest.Wait()
		if !strings.HasSuffix(r.text(), "x1 missing\n") {
			t.Errorf("ends in %.40q", r.text()[queuedLogBytes:])
		}
	})
}

func TestReaderOfTheLogThatIsGone(t *testing.T) {
	r := newLogReader(false)
	r.set(true)
	q := newLogQueue(r, missingLine)
	fmt.Fprint(q, "one\n")
	fmt.Fprint(q, "two\n")
	if q.Dropped() != 2 || q.Missing() != 2 {
		t.Errorf("%d dropped, %d missing", q.Dropped(), q.Missing())
	}
	r.set(false)
	fmt.Fprint(q, "three\n")
	q.Close(time.Hour)
	if want := "2 missing\nthree\n"; r.text() != want {
		t.Errorf("got %q, want %q", r.text(), want)
	}
}

func TestNoticeHasTheFormOfTheLog(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	f := func(cfg LogConfig, want string) {
		t.Helper()
		_, q := NewQueuedLogger(cfg, out, Level(cfg))
		defer q.Close(time.Hour)
		if got := string(q.notice(7)); !strings.Contains(got, want) || strings.Count(got, "\n") != min(len(got), 1) {
			t.Errorf("%+v: %q", cfg, got)
		}
	}
	f(LogConfig{Format: "auto"}, `"level":"WARN","msg":"lines of the agent's own log were dropped: whatever reads its stderr is too slow or gone; no record is affected","lines":7,"fix":"`)
	f(LogConfig{Format: "text"}, "lines=7")
	f(LogConfig{Format: "json", Level: "error"}, "")
}
