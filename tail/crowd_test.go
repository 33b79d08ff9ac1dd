package tail

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"kusto-agent/internal/units"

	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/tracker"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	must(t, err)
}

// TestRotatedFilesAreForgotten: however many files come and go, what is remembered
// of them does not grow, and what is there is not forgotten.
func TestRotatedFilesAreForgotten(t *testing.T) {
	t.Parallel()
	rounds := 6
	if os.Getenv("KUSTO_AGENT_LONG") != "" {
		rounds = 600
	}
	const each = 50
	w := newWorld(t)
	w.in().ForgetAfter, w.in().RotateQuiet = units.Duration(time.Millisecond), units.Duration(time.Millisecond)
	w.open = 20
	must(t, os.WriteFile(w.path("kept.log"), []byte("kept\n"), 0o644))
	w.start()
	w.expect("in", "kept")
	for round := range rounds {
		var want []string
		for i := range each {
			text := fmt.Sprintf("%d-%d", round, i)
			want = append(want, text)
			must(t, os.WriteFile(w.path(text+".log"), []byte(text+"\n"), 0o644))
		}
		w.expect("in", want...)
		for _, text := range want {
			must(t, os.Remove(w.path(text+".log")))
		}
		tailer := w.tailer
		forgotten := func() bool {
			if in := tailer.inputs()[0]; in.known.Len() > 1 || in.readers.Len() > 1 {
				tailer.rescanSoon()
				return false
			}
			return true
		}
		if !w.await("what is gone to be forgotten", forgotten) {
			return
		}
	}
	w.look()
	in := w.tailer.inputs()[0]
	if n := in.known.Len() + in.byNode.now.Len() + len(in.byNode.former) + in.readers.Len() + in.heads.Len() + w.tailer.byPath.Len(); n > 6 {
		t.Errorf("%d entries are left of one file", n)
	}
	if files := w.remembered(); len(files) != 1 {
		t.Errorf("the journal has %d files: %v", len(files), files)
	}
	appendTo(t, w.path("kept.log"), "more\n")
	w.expect("in", "more")
}

// TestMovedFilesAreForgotten: nothing is left of where a file was before it went on in another one.
func TestMovedFilesAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths = []string{w.path("*.log*")}
	w.in().ForgetAfter, w.in().RotateQuiet = units.Duration(time.Millisecond), units.Duration(time.Hour) // nothing is decided by waiting
	s := newScript(w)
	w.start()
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprint("a line of a file that moves ", i))
	}
	must(t, s.write(os.O_APPEND, "a.log", lined(lines)...))
	w.expect("in", lines...)
	s.run(`
		cp a.log a.log.1
		tick
		rm a.log
		expect
		cp a.log.1 a.log.2
		tick
		rm a.log.1
		expect
	`) // as to another file system
	in := w.tailer.inputs()[0]
	w.tailer.locked(func() {
		if len(in.byNode.former) != 2 {
			t.Fatalf("its former files are %v, want 2", in.byNode.former)
		}
	})
	must(t, os.Remove(w.path("a.log.2")))
	w.in().RotateQuiet = units.Duration(time.Millisecond)
	w.reload()
	w.await("it to be forgotten", func() bool {
		w.tailer.rescanSoon()
		return in.known.Len() == 0
	})
	w.tailer.locked(func() {
		if n := len(in.byNode.former); n > 0 {
			t.Errorf("%d former files are left of none", n)
		}
	})
}

// TestDescriptorsGoRound: no more files are open than may be, and each that is open
// and rests can be asked for its descriptor.
func TestDescriptorsGoRound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.open = 8
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprint("a", i))
		must(t, os.WriteFile(w.path(fmt.Sprintf("%02d.log", i)), fmt.Appendf(nil, "a%d\n", i), 0o644))
	}
	w.start()
	w.expect("in", want...)
	for i := range 20 {
		appendTo(t, w.path(fmt.Sprintf("%02d.log", i)), fmt.Sprintf("b%d\n", i))
		w.await("the record", func() bool { return w.boxed.count("in") > 0 })
		w.boxed.take("in")
		w.await("rest", func() bool {
			return !slices.ContainsFunc(w.tailer.all(), func(r *reader) bool { return r.life.Turn() != tracker.Resting })
		})
		w.tailer.mu.Lock()
		held := 0
		for _, r := range w.tailer.all() {
			if r.f != nil {
				held++
			}
			if r.f == nil != (r.spare == nil) {
				t.Errorf("%s: open %v, can be spared %v", r.path(), r.f != nil, r.spare != nil)
			}
		}
		if held > w.open || int(w.tailer.fds.open.Load()) != held {
			t.Errorf("%d are open, %d counted, %d allowed", held, w.tailer.fds.open.Load(), w.open)
		}
		w.tailer.mu.Unlock()
	}
}

// TestGlance: a file that rests, of which no event tells, is looked at between two
// scans too.
func TestGlance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Watch = "poll"
	must(t, os.WriteFile(w.path("a.log"), []byte("one\n"), 0o644))
	tailer := w.stepped()
	tailer.scan()
	rest := func(name string) *reader { // in a moment at which no other look at it is planned
		tailer.turnAll()
		r := tailer.readerAt(w.path(name))
		tailer.looks.queue.Cancel(r)
		return r
	}
	r := rest("a.log")
	tailer.find.glance()
	if r.life.Turn() != tracker.Resting {
		t.Error("it has not changed")
	}
	appendTo(t, w.path("a.log"), "two\n")
	if tailer.find.glance(); r.life.Turn() != tracker.Queued {
		t.Error("that it grew was not seen")
	}
	must(t, os.WriteFile(w.path("b.log"), []byte("one\n"), 0o644))
	tailer.find.meet(tailer.inputs()[0], w.path("b.log"), "") // between two scans
	r = rest("b.log")
	appendTo(t, w.path("b.log"), "two\n")
	if tailer.find.glance(); r.life.Turn() != tracker.Queued {
		t.Error("that a file grew that is new since the last scan was not seen")
	}
}

// TestHeard: a file of whose growth events tell is looked at after one, but no sooner
// than a file that is polled, and seldom without.
func TestHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tailer := w.steppedOver("a.log", "one\n")
	r := tailer.readerAt(w.path("a.log"))
	if !tailer.hears(r) {
		t.Fatal("no event would tell of a write")
	}
	const soon, late = finder.LookFast, finder.LookSlow
	const before = -time.Hour // just now, however slow the machine is
	rested := time.Duration(0)
	f := func(name string, turn tracker.Turn, heard bool, since, want time.Duration, watch string) {
		t.Helper()
		tailer.looks.queue.Cancel(r)
		r.in.Watch, r.own().failed, r.shown.active, r.atEnd = watch, nil, agenda.Now().Add(-rested), true
		if turn == tracker.Running {
			tailer.begin(r)
			if heard {
				listener{tailer.Tailer}.Heard([]finder.Event{{What: finder.Written, Path: r.path()}})
			}
			tailer.apply(r, tracker.Ended{Outcome: tracker.Idle})
		} else {
			tailer.poll(r)
			r.polled.looked, r.polled.At = r.polled.looked.Add(-since), r.polled.At.Add(-since)
			if heard {
				listener{tailer.Tailer}.Heard([]finder.Event{{What: finder.Written, Path: r.path()}})
			}
		}
		switch next := r.polled.At.Since(r.polled.looked); {
		case want == 0:
			if r.life.Turn() != tracker.Queued || r.polled.IsPlanned() {
				t.Errorf("%s: it has no turn, or is to be looked at besides", name)
			}
		case r.life.Turn() != tracker.Resting || !r.polled.IsPlanned() || next != want:
			t.Errorf("%s: it is looked at %v after the last time, want %v", name, next, want)
		}
		tailer.turnAll()
	}
	f("nothing is heard", tracker.Resting, false, 0, late, "auto")
	f("polled", tracker.Resting, false, 0, soon, "poll")
	f("a write just after a turn", tracker.Resting, true, before, soon, "auto")
	f("a write some time after one", tracker.Resting, true, finder.LookFast, 0, "auto")
	f("a write about as long after one as it takes", tracker.Resting, true, finder.LookFast*3/4, 0, "auto")
	r.in.MaxWait = 75 * time.Millisecond
	f("a write just after a turn, a wait for others", tracker.Resting, true, before, 30*time.Millisecond, "auto")
	r.in.MaxWait = 0
	f("no write during a turn", tracker.Running, false, 0, late, "auto")
	f("a write during a turn", tracker.Running, true, 0, soon, "auto")
	rested = finder.ActiveFor
	f("a write during a turn of a file that was idle", tracker.Running, true, 0, soon, "auto")
	rested = 0
	f("polled, a write", tracker.Resting, true, before, soon, "poll")
}

// TestPollLoopIsWoken: a planned look wakes the loop of polls only if the loop would come
// too late by itself.
func TestPollLoopIsWoken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tailer := w.steppedOver("a.log", "one\n")
	r := tailer.readerAt(w.path("a.log"))
	now := agenda.Now()
	tailer.looks.queue.Cancel(r)
	var due looking
	if tailer.on(&due); due.next != time.Hour {
		t.Errorf("with nothing planned it comes after %v", due.next)
	}
	f := func(in time.Duration, want bool) {
		t.Helper()
		select {
		case <-tailer.looks.tick:
		default:
		}
		tailer.looks.queue.Cancel(r)
		tailer.lookAt(r, now.Add(in))
		if got := len(tailer.looks.tick) > 0; got != want {
			t.Errorf("a look in %v: woken: %v", in, got)
		}
	}
	f(2*time.Hour, false)
	f(10*time.Minute, true)
	tailer.on(new(looking))
	f(11*time.Minute, false)
	f(9*time.Minute, true)
	if every := lookEvery(tailer.inputs()); every != finder.LookFast {
		t.Errorf("files are looked at every %v", every)
	}
	if every := lookEvery(nil); every != finder.LookEvery(time.Hour) {
		t.Errorf("with no input every %v", every)
	}
}
