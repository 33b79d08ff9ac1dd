package tail

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// stuckQuarantine takes nothing and does not answer until it is opened.
type stuckQuarantine struct {
	Quarantine
	opened chan struct{}
}

func (q stuckQuarantine) Put(recs []record.Rejected) error {
	<-q.opened
	return q.Quarantine.Put(recs)
}

// TestSpareWorkers: turns that do not end, however many, stop no other file.
func TestSpareWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Format, w.in().Mapping, w.in().Validate = record.JSON, "m", "record"
	q := stuckQuarantine{w.boxed, make(chan struct{})}
	w.keeper = q
	bad := strings.Repeat("x", 20)
	for _, name := range []string{"a.log", "b.log", "c.log", "d.log"} {
		must(t, os.WriteFile(w.path(name), []byte(bad+"\n"), 0o600))
	}
	must(t, os.WriteFile(w.path("e.log"), []byte(`{"n":1}`+"\n"), 0o600))
	w.start()
	w.await("the file that can be read", func() bool { return w.boxed.count("in") == 1 })
	close(q.opened)
	w.await("the others", func() bool {
		w.boxed.mu.Lock()
		defer w.boxed.mu.Unlock()
		return len(w.boxed.refused) == 4
	})
	w.await("spare workers to go", func() bool { return w.tailer.turns.workers.all <= runtime.GOMAXPROCS(0) })
}

// TestIdleWorkerKeepsNoFile: a worker that waits for a turn has nothing of the file of the last one, which may be
// closed by then, and carried a message of up to max_record_size.
func TestIdleWorkerKeepsNoFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tailer := w.steppedOver("a.log", "one\n")
	appendTo(t, w.path("a.log"), "two\n")
	wk := tailer.begin(tailer.readerAt(w.path("a.log")))
	wk.work()
	if wk.at.Plain == nil {
		t.Fatal("it has read nothing")
	}
	tailer.turns.stopped = true
	if wk.takeJob() || wk.at.Reading != nil || wk.at.Src != nil || wk.at.Plain != nil || wk.at.Owner != nil {
		t.Errorf("it has another turn, or keeps %+v", wk.at)
	}
}
