package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
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
	lines   []queuedLine  // the first of them is being written
	bytes   int           // in lines
	owed    uint64        // lines that could not be written, and were not told yet
	dropped uint64        // lines that were not written, all in all
	trust   time.Time     // from when on callers wait for their line
	closed  bool          // nothing more is taken
	more    chan struct{} // holds one when there are lines, or when closed
	ended   chan struct{} // closed when all is written and nothing more is taken
}

// queuedLine is a line and what became of those behind it.
type queuedLine struct {
	text    []byte
	written chan struct{} // closed when it was, or could not be
	dropped uint64        // lines behind it that found no room
}

// NewQueuedLogger is NewLeveledLogger for a file whose reader may stall or go away.
// The queue is to be closed when nobody logs any more.
func NewQueuedLogger(cfg LogConfig, to *os.File, level slog.Leveler) (*slog.Logger, *LogQueue) {
	form := formOf(cfg, to)
	q := newLogQueue(to, func(dropped uint64) []byte {
		var b bytes.Buffer
		form.logger(&b, level).Warn("lines of the agent's own log were dropped: whatever reads its stderr is too slow or gone; no record is affected", "lines", dropped,
			"fix", "check what reads the agent's stderr: journald, the container runtime, or the program it is piped to")
		return b.Bytes()
	})
	return form.logger(q, level), q
}

// NewLogQueue is a queue for lines of plain text.
func NewLogQueue(to *os.File) *LogQueue {
	return newLogQueue(to, func(dropped uint64) []byte { return fmt.Appendf(nil, "%d lines were dropped\n", dropped) })
}

func newLogQueue(to io.Writer, notice func(dropped uint64) []byte) *LogQueue {
	q := &LogQueue{to: to, notice: notice, more: make(chan struct{}, 1), ended: make(chan struct{})}
	// Ended by Close, or with the process where a write does not return.
	go q.pass()
	return q
}

// Write takes one line, and never fails: what cannot be written is counted.
func (q *LogQueue) Write(p []byte) (int, error) {
	written, wait := q.put(p)
	if !wait {
		return len(p), nil
	}
	late := time.NewTimer(logPatience)
	defer late.Stop()
	select {
	case <-written:
	case <-late.C:
		q.mu.Lock()
		q.trust = time.Now().Add(logDistrust)
		q.mu.Unlock()
	}
	return len(p), nil
}

// put queues a line. wait says that its caller can expect it to be written at once.
func (q *LogQueue) put(p []byte) (written <-chan struct{}, wait bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch n := len(q.lines); {
	case q.closed:
		q.dropped++
		return nil, false
	case n > 0 && (q.bytes+len(p) > queuedLogBytes || q.lines[n-1].dropped > 0 && q.bytes > queuedLogBytes/2): // few gaps rather than many
		q.dropped++
		q.lines[n-1].dropped++
		return nil, false
	}
	line := queuedLine{text: bytes.Clone(p), written: make(chan struct{})}
	q.lines = append(q.lines, line)
	q.bytes += len(p)
	q.wake()
	return line.written, !time.Now().Before(q.trust)
}

func (q *LogQueue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// pass writes what is queued until the queue is closed and empty.
func (q *LogQueue) pass() {
	defer close(q.ended)
	for {
		q.mu.Lock()
		if len(q.lines) == 0 {
			closed := q.closed
			q.mu.Unlock()
			if closed {
				return
			}
			<-q.more
			continue
		}
		text, owed := q.lines[0].text, q.owed
		q.mu.Unlock()
		told := q.tell(owed)
		failed := !told
		if told {
			_, err := q.to.Write(text)
			failed = err != nil
		}
		q.pop(told, failed)
	}
}

// tell writes how many lines are missing before the next one, and reports whether the
// reader took it.
func (q *LogQueue) tell(owed uint64) bool {
	if owed == 0 {
		return true
	}
	line := q.notice(owed)
	if len(line) == 0 { // its level is not wanted
		return true
	}
	_, err := q.to.Write(line)
	return err == nil
}

// pop ends the line at the front. told says that nothing before it is owed any more.
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
	if len(q.lines) == 0 && line.dropped > 0 { // there is no line to tell it with
		q.lines = append(q.lines, queuedLine{written: make(chan struct{})})
	}
	close(line.written)
}

// Dropped is how many lines were not written, all in all.
func (q *LogQueue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Missing is how many lines were dropped of which the log does not say so yet: its
// reader has stalled or is gone.
func (q *LogQueue) Missing() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.owed
	for _, l := range q.lines {
		n += l.dropped
	}
	return n
}

// Close writes what is queued, but waits for that no longer than given. Lines that
// come afterwards are dropped.
func (q *LogQueue) Close(wait time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.wake()
	q.mu.Unlock()
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-q.ended:
	case <-late.C:
	}
}
