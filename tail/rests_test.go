package tail

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/tracker"
)

// deleted leaves a world whose file was deleted with much unread, since nothing is
// taken, and another that still has its name.
func deleted(t *testing.T) (w *world, gone, named []string) {
	w = newWorld(t)
	w.start()
	w.taker.set(func() { w.taker.full = true })
	for n := range 20_000 {
		gone = append(gone, fmt.Sprint("gone ", n))
		named = append(named, fmt.Sprint("named ", n))
	}
	must(t, os.WriteFile(w.path("a.log"), []byte(strings.Join(gone, "\n")), 0o600)) // no last line end
	must(t, os.WriteFile(w.path("b.log"), []byte(strings.Join(named, "\n")+"\n"), 0o600))
	w.look()
	must(t, os.Remove(w.path("a.log")))
	w.look()
	w.stop()
	w.await("the stop", func() bool { return w.tailer.turns.drained != nil })
	return w, gone, named
}

// What is left in a deleted file is read before the stop, its last line too, and
// nothing of files that can be found again.
func TestDeletedFilesAreReadAtTheStop(t *testing.T) {
	w, gone, named := deleted(t)
	w.taker.set(func() { w.taker.full = false })
	w.shut()
	if got := w.boxed.take("in"); !slices.Equal(got, gone) {
		t.Errorf("records are %s; want %s", brief(got), brief(gone))
	}
	w.start()
	w.look()
	w.expect("in", named...)
}

// What cannot be read in time is lost, counted and named.
func TestRestOfADeletedFileIsNamed(t *testing.T) {
	w, gone, _ := deleted(t)
	w.giveUp()
	<-w.stopped
	if got := w.boxed.take("in"); len(got) > 0 {
		t.Errorf("records are %s, want none", brief(got))
	}
	size := int64(len(strings.Join(gone, "\n")))
	if n := w.boxed.counter("abandoned"); n != size {
		t.Errorf("%d bytes are counted as lost, want %d", n, size)
	}
	if w.boxed.logged("was not read to its end before the agent stopped", "a.log", "offset=0", fmt.Sprint("bytes=", size)) != 1 {
		t.Error("the loss is not named")
	}
}

// A turn that is under way when the time for deleted files is over still hands its records over: these are
// not counted as lost.
func TestTurnUnderWayAtTheStop(t *testing.T) {
	w, gone, _ := deleted(t)
	reads, ends := make(chan struct{}), make(chan struct{})
	w.taker.set(func() {
		w.taker.full = false
		w.taker.leasing = sync.OnceFunc(func() {
			close(reads)
			<-ends
		})
	})
	<-reads
	w.giveUp()
	w.await("the end of the workers", func() bool { return w.tailer.turns.stopped })
	close(ends)
	<-w.stopped
	got := w.boxed.take("in")
	if len(got) == 0 || len(got) == len(gone) {
		t.Fatalf("%d records arrived, want some and not all of %d", len(got), len(gone))
	}
	if n, lost := w.boxed.counter("abandoned"), int64(len(strings.Join(gone[len(got):], "\n"))); n != lost {
		t.Errorf("%d bytes are counted as lost, want %d: those behind the %d records that arrived", n, lost, len(got))
	}
}

// TestLose: what is lost counts once, and without what needs no reading.
func TestLose(t *testing.T) {
	w := newWorld(t)
	tailer := w.stepped()
	info := record.FileInfo{Lost: 10}
	lose := func(offset, size, want int64, ahead ...record.Extent) {
		t.Helper()
		before := w.boxed.counter("abandoned")
		is := tailer.lose(record.File{Input: "in"}, &info, "a.log", offset, size, ahead, "it is lost")
		if n := w.boxed.counter("abandoned") - before; n != want || is != (want > 0) {
			t.Errorf("from %d to %d: %d bytes count, want %d", offset, size, n, want)
		}
	}
	span := func(start, end int64) record.Extent {
		return record.Extent{Span: record.Span{Start: start, End: end}}
	}
	lose(0, 10, 0)
	if lose(5, 20, 10); info.Lost != 20 || !info.Told {
		t.Errorf("it is not noted: %+v", info)
	}
	lose(5, 20, 0)
	lose(30, 40, 10)
	lose(0, 60, 9, span(5, 10), span(38, 45), span(50, 55), span(59, 70))
	lose(0, 70, 0, span(60, 70))
}

// TestLossBeforeATruncation: what was lost of a file before it was truncated says nothing of what is lost of it
// since, also if the agent stops before it has read anything of that.
func TestLossBeforeATruncation(t *testing.T) {
	w := newWorld(t)
	w.appendTo("a.log", "a\n")
	tailer := w.stepped()
	tailer.scan()
	tailer.turnAll()
	wk := tailer.begin(tailer.readerAt(w.path("a.log")))
	r := wk.job.r
	r.Info.Lost, r.Info.Told, r.Info.Old, r.Info.Done = 100, true, 50, true
	was := r.k
	tailer.on(renewed{r, nil})
	if info := was.info.Info(); info.Lost != 100 || !info.Told {
		t.Errorf("of the generation before is known %+v", info)
	}
	if info := r.k.info.Info(); info.Lost != 0 || info.Told || info.Old != 0 || info.Done {
		t.Errorf("of the next generation is known %+v", info)
	}
	tailer.end(wk, tracker.Idle)
}

// What is not read of a deleted file that was given up just before the stop, in a turn, counts as lost once, but
// for what that turn hands over.
func TestGivenUpJustBeforeTheStop(t *testing.T) {
	text := strings.Repeat("line\n", 20_000)
	each := func(do func(t *Tailer, r *reader)) func(*world) {
		return func(w *world) {
			w.tailer.locked(func() {
				for _, r := range w.tailer.all() {
					do(w.tailer, r)
				}
			})
		}
	}
	for name, giveUp := range map[string]func(w *world){
		"abandoned for its space": each(func(t *Tailer, r *reader) { t.apply(r, tracker.Wished{Wish: tracker.Drop}) }),
		"unwanted":                each((*Tailer).leave),
		"its input is removed":    func(w *world) { w.inputs = nil; w.reload() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start()
			reads, ends := make(chan struct{}), make(chan struct{})
			w.taker.set(func() {
				w.taker.leasing = sync.OnceFunc(func() {
					close(reads)
					<-ends
				})
			})
			must(t, os.WriteFile(w.path("a.tmp"), []byte(text), 0o600))
			w.rename("a.tmp", "a.log") // it is first seen with all that it has
			<-reads
			must(t, os.Remove(w.path("a.log")))
			giveUp(w)
			w.stop()
			w.await("the stop", func() bool { return w.tailer.turns.drained != nil })
			close(ends)
			<-w.stopped
			read := int64(len(w.boxed.take("in")) * len("line\n"))
			if n, lost := w.boxed.counter("abandoned"), int64(len(text))-read; n != lost || read == 0 {
				t.Errorf("%d bytes were read and %d are counted as lost, want %d", read, n, lost)
			}
			if n := w.boxed.logged("ERROR", "a.log", fmt.Sprint("offset=", read), fmt.Sprint("bytes=", int64(len(text))-read)); n != 1 {
				t.Errorf("the loss is logged %d times", n)
			}
		})
	}
}

// leave has a reader leave its file, as a reload does whose input has other paths.
func (t *Tailer) leave(r *reader) { t.apply(r, tracker.Wished{Wish: tracker.Leave}) }

// A file that was moved where no pattern matches is read to its end, however often
// the agent is restarted meanwhile.
func TestMovedFileOverRestarts(t *testing.T) {
	w := newWorld(t)
	full := func() { w.taker.set(func() { w.taker.full = true }) }
	w.start()
	w.appendTo("a.log", "x\n")
	w.expect("in", "x")
	full()
	w.appendTo("a.log", "a\n")
	w.look()
	w.shut()
	w.rename("a.log", "old")
	for range 3 {
		w.start()
		full()
		w.look()
		w.shut()
	}
	w.start()
	w.expect("in", "a")
}
