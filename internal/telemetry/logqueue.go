package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"kusto-agent/internal/async"
	"kusto-agent/internal/units"
)

const (
	queuedLogBytes = 1 << 20                // of lines that wait for the reader of the log
	logPatience    = 500 * time.Millisecond // for which a caller waits until its line is written
	logDistrust    = 30 * time.Second       // for which no caller waits after one has waited in vain
)

// LogQueue passes the lines of a log on to a reader that may stall or go away, and
// never keeps who logs waiting for it. While the reader takes lines, each is written
// before the call that logs it returns, so that a crash takes no line away. Where a
// line is not written within half a second, it waits in the queue, and so do those behind it;
// above 1 MiB of them, lines are dropped. Where lines are missing, the log says how
// many, as soon as it is read again. A LogQueue is safe for concurrent use.
type LogQueue struct {
	to     io.Writer
	notice func(dropped uint64) []byte // a line of the log, or nothing

	mu      sync.Mutex
	lines   []queuedLine    // the first of them is being written
	bytes   int             // in lines
	owed    uint64          // lines that could not be written, and were not told yet
	dropped uint64          // lines that were not written, all in all
	trust   time.Time       // from when on callers wait for their line
	closed  bool            // nothing more is taken
	more    sync.Cond       // of mu: there is a line, or closed
	ended   <-chan struct{} // closed when all is written and nothing more is taken
}

// queuedLine is a line and what became of those behind it.
type queuedLine struct {
	text    []byte
	written chan struct{} // closed when it was, or could not be
	dropped uint64        // lines behind it that found no room
}

// NewQueuedLogger returns a logger that writes to a file whose reader may stall or go away, such as
// stderr, and the queue between them. The caller closes the queue after the last message. level may
// change while the logger is used.
func NewQueuedLogger(cfg LogConfig, to *os.File, level slog.Leveler) (*slog.Logger, *LogQueue) {
	form := formOf(cfg, to)
	q := newLogQueue(to, func(dropped uint64) []byte {
		var b bytes.Buffer
		form(&b, level).Warn("lines of the agent's own log were dropped: whatever reads its stderr is too slow or gone; no record is affected", "lines", dropped,
			"fix", "check what reads the agent's stderr: journald, the container runtime, or the program it is piped to")
		return b.Bytes()
	})
	return form(q, level), q
}

// NewLogQueue returns a queue for lines of plain text. Close it when nobody writes any more.
func NewLogQueue(to *os.File) *LogQueue {
	return newLogQueue(to, func(dropped uint64) []byte { return fmt.Appendf(nil, "dropped %s\n", units.Counted(dropped, "line")) })
}

// newLogQueue returns a queue and starts the goroutine that writes its lines to to. notice returns
// the line that says how many lines were dropped; if notice returns nothing, no such line is
// written.
func newLogQueue(to io.Writer, notice func(dropped uint64) []byte) *LogQueue {
	q := &LogQueue{to: to, notice: notice}
	q.more.L = &q.mu
	q.ended = async.Start(q.pass) // ended by Close, or with the process where a write does not return
	return q
}

// Write queues one line of the log and waits until it is written, at most logPatience (0.5 s).
// After a wait in vain, calls do not wait at all for logDistrust (30 s). Write never fails: lines
// that cannot be written are counted as dropped.
func (q *LogQueue) Write(p []byte) (int, error) {
	written, wait := q.put(p)
	if !wait {
		return len(p), nil
	}
	select {
	case <-written:
	case <-time.After(logPatience):
		q.mu.Lock()
		q.trust = time.Now().Add(logDistrust)
		q.mu.Unlock()
	}
	return len(p), nil
}

// put queues a line and returns a channel that is closed when it was written, or could not be. wait
// is false if the caller must not wait for that: the queue is closed or full, or its reader has
// stalled.
func (q *LogQueue) put(p []byte) (written <-chan struct{}, wait bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch n := len(q.lines); {
	case q.closed:
		q.dropped++
		return nil, false
	// After a drop lines are taken again only below half of the bound: one large gap instead of many small.
	case n > 0 && (q.bytes+len(p) > queuedLogBytes || q.lines[n-1].dropped > 0 && q.bytes > queuedLogBytes/2):
		q.dropped++
		q.lines[n-1].dropped++
		return nil, false
	}
	line := queuedLine{text: bytes.Clone(p), written: make(chan struct{})}
	q.lines = append(q.lines, line)
	q.bytes += len(p)
	q.more.Signal()
	return line.written, !time.Now().Before(q.trust)
}

// next waits for a line and returns it, with how many lines are missing in the log before it. ok is
// false when the queue is closed and empty.
func (q *LogQueue) next() (text []byte, owed uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 {
		if q.closed {
			return nil, 0, false
		}
		q.more.Wait()
	}
	return q.lines[0].text, q.owed, true
}

// pass writes queued lines to the log until the queue is closed and empty. It runs in a goroutine of
// its own. If lines before a line were dropped (owed), it first writes how many. A line stays in the
// queue while it is written, and pop removes it.
func (q *LogQueue) pass() {
	for text, owed, ok := q.next(); ok; text, owed, ok = q.next() {
		told := q.writeMissing(owed)
		failed := !told
		if told {
			_, err := q.to.Write(text)
			failed = err != nil
		}
		q.pop(told, failed)
	}
}

// writeMissing writes a line to the log that says that owed lines are missing there. It writes
// nothing if owed is 0 or if the log level excludes such a line. It returns false if writing
// failed.
func (q *LogQueue) writeMissing(owed uint64) bool {
	if owed == 0 {
		return true
	}
	line := q.notice(owed)
	if len(line) == 0 { // the log level excludes it
		return true
	}
	_, err := q.to.Write(line)
	return err == nil
}

// pop removes the first line of the queue and wakes the Write call that waits for it. told says
// that the log now mentions all lines missing before it, failed that the line itself was not
// written.
func (q *LogQueue) pop(told, failed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[0]
	q.lines[0] = queuedLine{}
	q.lines = q.lines[1:]
	q.bytes -= len(line.text)
	if told {
		q.owed = 0
	}
	if failed && len(line.text) > 0 {
		q.owed++
		q.dropped++
	}
	q.owed += line.dropped
	if len(q.lines) == 0 && line.dropped > 0 { // an empty line, so that pass reports the missing ones now
		q.lines = append(q.lines, queuedLine{written: make(chan struct{})})
	}
	close(line.written)
}

// Dropped returns how many lines were not written since the start; 0 for nil.
func (q *LogQueue) Dropped() uint64 {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Missing returns how many lines were dropped that the log has not mentioned yet, because its
// reader has stalled or is gone; 0 for nil.
func (q *LogQueue) Missing() uint64 {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.owed
	for _, l := range q.lines {
		n += l.dropped
	}
	return n
}

// Close ends the queue: it waits until the queued lines are written, but at most for wait. Lines
// that are logged later are dropped.
func (q *LogQueue) Close(wait time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.more.Signal()
	select {
	case <-q.ended:
	case <-time.After(wait):
	}
}
