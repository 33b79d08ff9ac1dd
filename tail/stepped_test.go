package tail

import (
	"os"
	"runtime"
	"sync"

	"kusto-agent/tail/internal/records"
	"kusto-agent/tail/internal/tracker"
)

// stepped is a tailer of which no goroutine runs: nothing happens between the steps that its test takes.
type stepped struct {
	*Tailer
	w *world
}

// stepped opens the journal and makes a tailer that has not scanned yet.
func (w *world) stepped() *stepped {
	w.t.Helper()
	w.prepare()
	t, ended := w.tailer, make(chan struct{})
	close(ended)
	w.stop = sync.OnceFunc(func() { // as at the end of Run
		t.watch.Close()
		t.on(stopped{})
	})
	w.giveUp, w.stopped = func() {}, ended
	return &stepped{t, w}
}

// steppedOver is stepped, and has read a new file with this text to its end.
func (w *world) steppedOver(name, text string) *stepped {
	w.t.Helper()
	must(w.t, os.WriteFile(w.path(name), []byte(text), 0o644))
	s := w.stepped()
	s.scan()
	s.turnAll()
	return s
}

// scan is one scan.
func (s *stepped) scan() { s.find.rescan() }

// scanWithout begins a scan that finds nothing by itself. Its test has it find what it should.
func (s *stepped) scanWithout() { s.locked(func() { s.scans.no++ }) }

// isScanWanted reports whether a scan is asked for since it was last asked.
func (s *stepped) isScanWanted() bool {
	select {
	case <-s.scans.wanted:
		return true
	default:
		return false
	}
}

// survey looks through the compressed files that wait for it.
func (s *stepped) survey() {
	var did inspection
	for s.on(&did); did.p != nil; s.on(&did) {
		did.facts, did.err = s.lookThrough(s.w.t.Context(), did.p, did.path)
	}
}

// turnAll gives turns until no reader waits for one.
func (s *stepped) turnAll() {
	s.turns.workers = workers{all: 1, idle: runtime.GOMAXPROCS(0)} // so many are idle that one without work ends
	s.workLoop()
}

// readerAt is the reader of the file at a path.
func (s *stepped) readerAt(path string) (r *reader) {
	s.w.t.Helper()
	for r = range s.byPath.Get(path) {
		return r
	}
	s.w.t.Fatal("nobody reads", path)
	return nil
}

// begin begins a turn of a reader as takeJob does. No other reader may wait for one.
func (s *stepped) begin(r *reader) *worker {
	s.w.t.Helper()
	wk := &worker{t: s.Tailer, records: records.New(&s.ports)}
	s.locked(func() {
		if s.readyLocked(r); s.nextTurn() != r {
			s.w.t.Fatal("another reader waits for a turn")
		}
		wk.begin(r)
	})
	return wk
}

// end ends the turn that a worker has begun.
func (s *stepped) end(wk *worker, next tracker.Outcome) {
	wk.report.next = next
	s.locked(func() { s.put(wk.job.r, &wk.report) })
}

// reload puts the inputs of the world in force as they are now.
func (s *stepped) reload() {
	s.w.t.Helper()
	s.find.change(s.w.prepareReload())
}

// locked calls do while mu is held.
func (t *Tailer) locked(do func()) { t.on(done(do)) }

type done func()

func (do done) happen(*Tailer) { do() }
