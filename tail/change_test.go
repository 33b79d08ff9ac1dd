package tail

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// A file that waits for room of one route does not wait for it when its input goes
// elsewhere: nobody may ever have room there.
func TestRoomOfAnotherRoute(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log one\nstart\nexpect one\nfull\nappend a.log two\nlook")
	w.taker.mu.Lock()
	w.taker.full, w.taker.wakes = false, nil // those who wait are never called
	w.taker.mu.Unlock()
	s.run("set table elsewhere\nreload\nexpect two")
}

// A deleted file that is let go with its input has nobody else who remembers it:
// what is lost is counted and told.
func TestDeletedFileIsLetGo(t *testing.T) {
	w := newWorld(t)
	w.addInput("other", "*.txt")
	s := newScript(w)
	s.run(`
		append a.log one
		append b.log one
		start
		expect-of in one one
		full
		append a.log two
		look
		rm a.log
		rm b.log
		only other
		reload
		look
		counter abandoned 4
		logged 1 "deleted file closed before its end"
		logged 1 "file closed, its input no longer matches it; its checkpoint is kept" b.log
	`)
}

// TestInspectionOutlivesItsInput: an inspection that ends after its input was removed, or does not match
// the file any more, starts no reader.
func TestInspectionOutlivesItsInput(t *testing.T) {
	for _, by := range []string{"it was removed", "it matches others"} {
		w := newWorld(t)
		w.addInput("other", "*.txt")
		w.inputs[0].Paths[0] = w.path("*.gz")
		w.inputs[0].RotateQuiet = 0 // files are looked through at once
		s := newScript(w)
		must(t, s.write(os.O_APPEND, "a.log", "one\n"))
		must(t, s.pack("a.log", ".gz"))
		tailer := w.stepped()
		tailer.scan()
		var did inspection
		tailer.on(&did)
		did.facts, did.err = tailer.lookThrough(t.Context(), did.p, did.path)
		must(t, did.err)
		if by == "it was removed" {
			w.inputs = w.inputs[1:]
		} else {
			w.inputs[0].Paths = []string{w.path("*.none")}
		}
		tailer.reload()
		in := did.p.in
		tailer.on(&did)
		if n := in.readers.Len(); n > 0 {
			t.Errorf("%s: it has %d readers", by, n)
		}
		tailer.turnAll()
		if got := w.boxed.take("in"); len(got) > 0 {
			t.Errorf("%s: %q is sent", by, got)
		}
	}
}

// A file is rotated to a name that no pattern matches while the patterns of its input leave it
// out: when they match its path again, it is read to its end under that name.
func TestRotatedWhilePatternsLeaveItOut(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		w.in().Paths = []string{w.path("a.log")}
		s := newScript(w)
		s.run("append a.log one\nstart\nexpect one")
		w.in().Paths = []string{w.path("b.log")}
		s.run(`
			reload
			look
			append a.log two
			mv a.log a.log.1
			tick
			append a.log three
			look
			expect
		`)
		w.in().Paths = []string{w.path("a.log")}
		s.run("reload\nexpect two three")
	})
}

// What is wrong with new inputs is told before anything changes, and a change that
// comes when reading has ended does nothing.
func TestPrepare(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log one\nstart\nexpect one")
	bad := w.inputs[0]
	bad.Paths = []string{"/a/["}
	if _, err := w.tailer.Prepare([]Input{bad}, w.open); err == nil || !strings.Contains(err.Error(), "not a valid pattern") {
		t.Errorf("err is %v", err)
	}
	s.run("append a.log two\nexpect two")
	c, err := w.tailer.Prepare(nil, w.open)
	must(t, err)
	w.stop()
	<-w.stopped
	w.tailer.Apply(c)
	if got := len(w.tailer.Files()); got != 1 {
		t.Errorf("%d files", got)
	}
}

// A descriptor bound holds at once.
func TestFewerDescriptors(t *testing.T) {
	w := newWorld(t)
	s := newScript(w)
	s.run("append a.log a\nappend b.log b\nappend c.log c\nstart\nexpect a b c\nset open_files 1\nreload\nappend a.log a1\nappend b.log b1\nappend c.log c1\nexpect a1 b1 c1")
	w.await("descriptors to be given back", func() bool { return w.tailer.fds.open.Load() <= 1 })
}

// TestModelOfReloads does random things to files and to the agent, and reloads in
// between: the input goes to another table, has other settings, or is taken away and
// comes back.
func TestModelOfReloads(t *testing.T) {
	runs := 8
	switch {
	case os.Getenv("KUSTO_AGENT_LONG") != "":
		runs = 300
	case testing.Short():
		runs = 2
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, uint64(1000+seed))
			for range 60 {
				m.step()
				m.change()
			}
			m.finish()
			if t.Failed() {
				t.Logf("what happened:\n%s", strings.Join(m.boxed.log, "\n"))
			}
		})
	}
}

// change reloads, as a rule.
func (m *model) change() {
	in := m.in()
	switch m.r.IntN(8) {
	case 0, 1, 2:
		in.Table = fmt.Sprint("table", m.r.IntN(5))
	case 3:
		in.Validate = []string{"record", "none"}[m.r.IntN(2)]
	case 4:
		in.Watch = []string{"auto", "poll"}[m.r.IntN(2)]
	case 5:
		m.settle() // a deleted file is not found again
		was := slices.Clone(m.inputs)
		m.inputs = nil
		m.do("reload")
		if m.r.IntN(2) == 0 {
			m.do("look")
		}
		m.inputs = was
	default:
		return
	}
	m.do("reload")
}
