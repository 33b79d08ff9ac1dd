package tail

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/settings"
	"kusto-agent/tail/internal/tracker"
)

// runOnce runs a tailer to its end and returns what it handed over.
func (w *world) runOnce() []string {
	w.t.Helper()
	w.once = true
	w.start()
	<-w.stopped
	w.taker.flush()
	refused := w.tailer.Refused()
	w.shut()
	if refused {
		w.boxed.add("told as refused", 1)
	}
	got := w.boxed.take("in")
	slices.Sort(got)
	return got
}

func wantRecords(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("records are %s, want %s", brief(got), brief(want))
	}
}

// TestCompressedRunOnce: more compressed files than are unpacked at a time, one
// that begins as the live file does, one that holds the same as it, and one that
// breaks off.
func TestCompressedRunOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths[0] = w.path("*.log*")
	w.in().RotateQuiet = units.Duration(time.Hour) // so that what breaks off is taken for unfinished
	s := newScript(w)
	var want []string
	for i := range 3*archive.MostUnpacking + 1 {
		name := fmt.Sprintf("many%d.log", i)
		for j := range 200 {
			want = append(want, fmt.Sprintf("%s %d", name, j))
		}
		must(t, s.write(os.O_APPEND, name, lined(want[len(want)-200:])...))
		must(t, s.pack(name, []string{".gz", ".zst"}[i%2]))
	}
	w.block = 1000
	s.run(`
		append x.log "a first line that every day begins with"
		keep-gzip x.log
		mv x.log.gz x.log.2.gz
		append x.log.1 "a first line that every day begins with" "and another"
		gzip x.log.1
		append b.log one two
		keep-gzip b.log
		append cut.log three
		gzip cut.log
		cut cut.log.gz 5
	`)
	want = append(want, "a first line that every day begins with", "a first line that every day begins with", "and another", "one", "two")
	wantRecords(t, w.runOnce(), want...)
	if n := w.boxed.counter("told as refused"); n != 1 {
		t.Error("nothing is told of the file that breaks off")
	}
	wantRecords(t, w.runOnce())
	if n := w.boxed.counter("abandoned"); n != 0 {
		t.Errorf("%d bytes abandoned", n)
	}
}

// TestCompressedDone: a copy that was compressed after all of it was read waits for nothing,
// and holds back nothing that is told of others.
func TestCompressedDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths[0] = w.path("*.json")
	w.in().RotateQuiet = units.Duration(50 * time.Millisecond)
	s := newScript(w)
	write := func(name, what string) (all []string) {
		for i := range 100 {
			all = append(all, fmt.Sprintf("%s of record %d, longer than it needs to be", what, i))
		}
		must(t, s.write(os.O_APPEND, name, lined(all)...))
		return all
	}
	w.start()
	w.expect("in", write("a.json", "first")...)
	s.run(`
		cp a.json a.json.1
		truncate a.json 0
	`)
	w.look()
	w.expect("in", write("a.json", "second")...)
	copied, err := os.Stat(w.path("a.json.1"))
	must(t, err)
	s.run(`
		cp a.json a.json.0
		gzip a.json.1
	`)
	// As gzip does: of what is younger than the truncation it is not a copy.
	must(t, os.Chtimes(w.path("a.json.1.gz"), copied.ModTime(), copied.ModTime()))
	s.run(`
		mv a.json.1.gz a.json.2.gz
		mv a.json.0 a.json.1
		truncate a.json 0
	`)
	w.look()
	// Of this one there is no copy, so that what it may have become is looked for in
	// every scan from now on.
	w.expect("in", write("a.json", "third")...)
	s.run(`truncate a.json 0`)
	w.look()
	in := w.tailer.inputs()[0]
	w.await("the compressed file to be read", func() bool {
		for k := range in.known.All() {
			if k.info.Info().Packed.Size > 0 && k.info.Info().Done && k.reader == nil {
				return true
			}
		}
		return false
	})
	w.expect("in")
	w.tailer.mu.Lock()
	if len(in.packed) != 1 {
		t.Errorf("%d compressed files are known to be beside", len(in.packed))
	}
	w.tailer.mu.Unlock()
	for _, f := range w.tailer.Files() {
		if f.Why != "" {
			t.Errorf("%s waits: %s", f.Path, f.Why)
		}
	}
	for level, want := range map[string]int{"WARN": 0, "INFO": 3} {
		if n := w.boxed.logged(level, "truncated"); n != want {
			t.Errorf("%d truncations told as %s, want %d", n, level, want)
		}
	}
	w.end()
}

// TestCompressedBomb: what unpacks to a thousand times its size goes through in
// pieces. A record without an end is looked behind, and costs itself.
func TestCompressedBomb(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths[0] = w.path("*.gz")
	size := 64 << 20
	text := append(bytes.Repeat([]byte("a"), size), "\nlast\n"...)
	text = append([]byte("first\n"), text...)
	must(t, os.WriteFile(w.path("x.gz"), packedBytes(".gz", text), 0o600))
	wantRecords(t, w.runOnce(), "first", "last")
	r := w.boxed.refused
	if len(r) != 1 || r[0].Reason != record.TooLong || r[0].Offset != 6 || r[0].Length != int64(size)+1 || !bytes.Equal(r[0].Data, text[6:6+settings.KeptHead]) {
		t.Errorf("%d refused", len(r))
	}
}

// TestPlacesToUnpackIn: a place is kept while there is progress, and given to another
// when it is given back or there is none for long.
func TestPlacesToUnpackIn(t *testing.T) {
	t.Parallel()
	tailer := &Tailer{}
	tailer.turns.work.L = &tailer.mu
	begin := func(r *reader) { tailer.apply(r, tracker.Taken{}) }
	end := func(r *reader) { tailer.apply(r, tracker.Ended{Outcome: tracker.Parked}) }
	var all []*reader
	for range archive.MostUnpacking + 2 {
		r := &reader{busy: &busy{z: &contents{}, joint: &alone, reading: &reading{}}}
		begin(r)
		all = append(all, r)
	}
	for _, r := range all[:archive.MostUnpacking] {
		if !tailer.mayUnpack(r) {
			t.Fatal("no place is free")
		}
		end(r)
	}
	late, last := all[archive.MostUnpacking], all[archive.MostUnpacking+1]
	if tailer.mayUnpack(late) || tailer.mayUnpack(last) || !tailer.mayUnpack(all[0]) {
		t.Error("a place is given twice")
	}
	end(late)
	end(last)
	tailer.endUnpacking(all[1])
	if late.life.Turn() != tracker.Queued || last.life.Turn() != tracker.Resting || !tailer.mayUnpack(late) || tailer.mayUnpack(last) {
		t.Error("the place is not that of the first who waits")
	}
	all[2].z.moved = time.Now().Add(-stalledAfter)
	all[3].z.moved = time.Now().Add(-stalledAfter)
	begin(all[3])
	if !tailer.mayUnpack(last) || !tailer.mayUnpack(all[3]) {
		t.Error("the place of one that does not go on is not given away, or that of one at work")
	}
	all[2].Advance(1, 0)
	if tailer.mayUnpack(all[2]) {
		t.Error("there are too many places, or one has lost its place that goes on")
	}
}

// TestPlacesAreGivenBack: readers that come to the end of their files, or are closed within, leave their
// places to unpack in to those that wait.
func TestPlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		w := newWorld(t)
		w.block = 1000
		w.in().Paths, w.in().RotateQuiet = []string{w.path("*.gz")}, 0 // files are looked through at once
		var want []string
		for n := range 3 * archive.MostUnpacking {
			var lines []string
			for i := range 200 {
				lines = append(lines, fmt.Sprint("line ", i, " of ", n))
			}
			must(t, os.WriteFile(w.path(fmt.Sprint(n, ".gz")), packedBytes(".gz", []byte(text(lines))), 0o644))
			want = append(want, lines...)
		}
		tailer := w.stepped()
		w.taker.set(func() { w.taker.full = closed }) // so they wait within their files
		tailer.scan()
		tailer.survey()
		tailer.turnAll()
		if closed {
			w.in().Paths, want = []string{w.path("*.log")}, nil
			tailer.reload()
			tailer.turnAll()
		}
		got := w.boxed.take("in")
		slices.Sort(got)
		wantRecords(t, got, want...)
		for range archive.MostUnpacking {
			if has, _ := tailer.unpacking.Take(new(reader), func(*reader) bool { return false }); !has {
				t.Errorf("closed: %v: a place is still taken", closed)
			}
		}
	}
}

// A run --once also finds what was rotated after a file whose rest it finds in a compressed one, in
// another folder, where nothing but the form of its name leads to it.
func TestOnceFindsWhatWasRotatedAfterACompressedFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScript(w)
	lines := func(name string) (all []string) {
		for n := range 100 {
			all = append(all, fmt.Sprint(name, " ", n, " of a hundred lines"))
		}
		return all
	}
	rotate := func(n int) {
		s.run(fmt.Sprintf("tick\nmv a.log old/a.log.%d\nkeep-time-gzip old/a.log.%d\ntick", n, n))
	}
	must(t, os.Mkdir(w.path("old"), 0o755))
	must(t, s.write(os.O_APPEND, "a.log", lined(lines("first"))...))
	wantRecords(t, w.runOnce(), lines("first")...)
	s.run("append a.log rest")
	rotate(3)
	for n, name := range []string{"second", "third"} {
		must(t, s.write(os.O_APPEND, "a.log", lined(lines(name))...))
		rotate(2 - n)
	}
	s.run("append a.log last")
	wantRecords(t, w.runOnce(), slices.Concat([]string{"rest", "last"}, lines("second"), lines("third"))...)
}

// TestOnceReadsBesideACompressedHeader: of files that were rotated and compressed between two runs, one that holds
// more than a header is not taken for a copy of one that holds just that.
func TestOnceReadsBesideACompressedHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths = []string{w.path("a.log")}
	s := newScript(w)
	s.run("append a.log time,level,message")
	wantRecords(t, w.runOnce(), "time,level,message")
	s.run(`mv a.log a.log.4
append a.log time,level,message
mv a.log a.log.3
append a.log time,level,message one
mv a.log a.log.2
append a.log time,level,message
mv a.log a.log.1
append a.log time,level,message two
gzip a.log.4
gzip a.log.3
gzip a.log.2
gzip a.log.1`)
	got := append(w.runOnce(), w.runOnce()...)
	for _, want := range []string{"one", "two"} {
		if n := len(slices.DeleteFunc(slices.Clone(got), func(r string) bool { return r != want })); n != 1 {
			t.Errorf("%s was read %d times: %q", want, n, got)
		}
	}
}
