package tail

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/recent"
)

// eachWatch runs a test with events and without.
func eachWatch(t *testing.T, f func(t *testing.T, w *world)) {
	for _, watch := range []string{"auto", "poll"} {
		t.Run(watch, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in().Watch = watch
			f(t, w)
		})
	}
}

// TestRenameUnderTheEyes: files are renamed and made as fast as can be while the
// tailer looks at names and opens them. Each line comes once, and each file was
// read to its own end.
func TestRenameUnderTheEyes(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		w.in().Paths = append(w.in().Paths, w.path("a.log.*"))
		w.start()
		const rotations = 400
		done := make(chan struct{})
		// Ends by itself, awaited below.
		go func() {
			defer close(done)
			for n := range rotations {
				must(t, os.WriteFile(w.path("a.log"), fmt.Appendf(nil, "line %d\nline %d\nline %d\n", 3*n, 3*n+1, 3*n+2), 0o644))
				if err := os.Rename(w.path("a.log"), w.path(fmt.Sprintf("a.log.%d", n))); err != nil {
					t.Error(err)
				}
			}
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
				w.look()
			}
		}
		var want []string
		for n := range 3 * rotations {
			want = append(want, fmt.Sprintf("line %d", n))
		}
		w.expect("in", want...)
		w.wantReadToTheirEnds()
	})
}

// wantReadToTheirEnds compares how far each file was read with what it holds.
func (w *world) wantReadToTheirEnds() {
	w.t.Helper()
	paths, err := filepath.Glob(w.path("*"))
	must(w.t, err)
	w.tailer.mu.Lock()
	defer w.tailer.mu.Unlock()
	for _, path := range paths {
		st, err := inode.At(path)
		must(w.t, err)
		if r := w.tailer.inputs()[0].readers.Get(st.Node); r == nil || r.k.position != st.Size || r.path() != path {
			w.t.Errorf("%s of %d bytes is read as %+v", path, st.Size, r)
		}
	}
}

// TestRotatedAtTheStart: a rotation that gives all files other numbers comes while the first scan of a run goes
// on, after it has looked for the file that an earlier run has not read to its end: the one that was rotated
// after that is found too.
func TestRotatedAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths = []string{w.path("a.log")}
	w.appendTo("a.log", "one\n")
	w.stepped().scan()
	w.shut()
	w.rename("a.log", "a.log.1")
	w.appendTo("a.log", "two\n")
	tailer := w.stepped()
	size := tailer.size
	tailer.size = func(n int64) int64 { // when the first is opened
		tailer.size = size
		w.rename("a.log.1", "a.log.2")
		w.rename("a.log", "a.log.1")
		w.appendTo("a.log", "three\n")
		return size(n)
	}
	for tailer.scan(); tailer.isScanWanted(); {
		tailer.scan()
	}
	tailer.turnAll()
	if got := slices.Sorted(slices.Values(w.boxed.take("in"))); !slices.Equal(got, []string{"one", "three", "two"}) {
		t.Errorf("records are %q", got)
	}
}

// TestCopiedAndUnread: a log is copied and truncated while the agent is stopped, and the copy is compressed. It is
// looked through before what the log holds now is read, and waits for that. Until then nothing of the log is lost.
func TestCopiedAndUnread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths, w.in().RotateQuiet = []string{w.path("a.csv")}, 1
	w.steppedOver("a.csv", "time,level\n")
	w.shut()
	newScript(w).run("append a.csv one\ncp a.csv a.csv.1\nwrite a.csv two\ngzip a.csv.1")
	tailer := w.stepped()
	for range 5 {
		tailer.scan()
		tailer.survey()
	}
	for range 3 {
		tailer.turnAll()
		tailer.scan()
		tailer.survey()
	}
	if got := slices.Sorted(slices.Values(w.boxed.take("in"))); !slices.Equal(got, []string{"one", "time,level", "time,level", "two"}) {
		t.Errorf("records are %q", got)
	}
}

// TestRotatedLongBeforeTheNext: some scans after a file was rotated, when no other was at its path yet, two come one
// after the other. The first of them is found beside the file that is gone, which is still open.
func TestRotatedLongBeforeTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths, w.in().RotateQuiet = []string{w.path("a.log")}, units.Duration(time.Hour)
	tailer := w.stepped()
	step := func() {
		for range 3 * mostLooks {
			tailer.scan()
			tailer.turnAll()
		}
	}
	w.appendTo("a.log", "one\n")
	step()
	w.rename("a.log", "a.log.1")
	step()
	w.rename("a.log.1", "a.log.2")
	w.appendTo("a.log", "two\n")
	w.rename("a.log", "a.log.1")
	w.appendTo("a.log", "three\n")
	step()
	if got := slices.Sorted(slices.Values(w.boxed.take("in"))); !slices.Equal(got, []string{"one", "three", "two"}) {
		t.Errorf("records are %q", got)
	}
}

// TestRotatedWhileOpened: the file that a link leads to is rotated as it is opened, so that the link leads nowhere
// for a moment. The next run finds it in the folder of the file all the same.
func TestRotatedWhileOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, dir := range []string{"links", "pods", "docker"} {
		must(t, os.Mkdir(w.path(dir), 0o755))
	}
	w.in().Paths = []string{w.path("links/*.log")}
	w.appendTo("docker/a.log", "one\n")
	must(t, os.Symlink("../docker/a.log", w.path("pods/0")))
	must(t, os.Symlink(w.path("pods/0"), w.path("links/pod.log")))
	tailer := w.stepped()
	size := tailer.size
	tailer.size = func(n int64) int64 { // when it is open
		tailer.size = size
		w.rename("docker/a.log", "docker/a.log.1")
		return size(n)
	}
	tailer.scan()
	tailer.turnAll()
	w.shut()
	w.appendTo("docker/a.log.1", "two\n")
	w.appendTo("docker/a.log", "three\n")
	tailer = w.stepped()
	tailer.scan()
	tailer.turnAll()
	if got := slices.Sorted(slices.Values(w.boxed.take("in"))); !slices.Equal(got, []string{"one", "three", "two"}) {
		t.Errorf("records are %q", got)
	}
}

// TestRotateFast: a file is rotated far more often than names are looked at, to
// names that no pattern matches, and five are kept. Each is found before it is
// removed, and each line comes once.
func TestRotateFast(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		w.start()
		var want []string
		name := func(n int) string { return w.path(fmt.Sprintf("a.log.%d", n)) }
		known := func(path string) func() bool {
			st, err := inode.At(path)
			return func() bool { return err != nil || w.tailer.inputs()[0].byNode.get(st.Node) != nil }
		}
		for n := range 60 {
			var text []byte
			for i := range 50 {
				want = append(want, fmt.Sprintf("line %d of file %d", i, n))
				text = append(text, want[len(want)-1]+"\n"...)
			}
			must(t, os.WriteFile(w.path("a.log"), text, 0o644))
			if n == 0 {
				w.look() // from then on the others are found beside it
			}
			if _, err := os.Stat(name(5)); err == nil {
				w.tailer.rescanSoon()
				if !w.await("the oldest file", known(name(5))) {
					t.FailNow()
				}
				must(t, os.Remove(name(5)))
			}
			for k := 4; k > 0; k-- {
				_ = os.Rename(name(k), name(k+1)) // there are less at first
			}
			must(t, os.Rename(w.path("a.log"), name(1)))
		}
		must(t, os.WriteFile(w.path("a.log"), []byte("the last line\n"), 0o644))
		w.expect("in", append(want, "the last line")...)
	})
}

// TestRotatedBeforeSeen: files are made, written and renamed to names that no pattern
// matches before anybody has looked at them, and nothing was there before. Events
// tell that they were. Other rotations have names looked at all the time.
func TestRotatedBeforeSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, os.WriteFile(w.path("old.log.1"), []byte("of another time\n"), 0o644))
	w.start()
	w.await("events", func() bool { return w.tailer.scans.done.Load() > 1 && w.tailer.watch.Covers(w.path("a.log")) })
	var want []string
	line := func(f *os.File, what string, n int) {
		want = append(want, fmt.Sprintf("%s of %d", what, n))
		_, err := f.WriteString(want[len(want)-1] + "\n")
		must(t, err)
	}
	make := func(path string) *os.File {
		f, err := os.Create(path)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	line(make(w.path("x.log")), "first", -1)
	for n := range 40 {
		must(t, os.Rename(w.path("x.log"), w.path(fmt.Sprint("x.log.", n))))
		line(make(w.path("x.log")), "rotated", n)
		path := w.path(fmt.Sprintf("%d.log", n))
		for k := range 1 + n%3 {
			f := make(path)
			line(f, fmt.Sprintf("before %d", k), n)
			must(t, os.Rename(path, path+fmt.Sprint(".old-", k)))
			line(f, fmt.Sprintf("after %d", k), n)
			if k > 0 {
				must(t, os.Rename(path+fmt.Sprint(".old-", k), path+fmt.Sprint(".older-", k)))
			}
		}
		if n%2 == 0 {
			line(make(path), "last", n)
		}
	}
	w.expect("in", want...)
}

// TestManyRotated: thousands of files in one folder are rotated together, to names that
// no pattern matches, and each is made anew. What was read of none of them is missing
// afterwards, and the cost is not that of looking for each in all of the folder.
func TestManyRotated(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		const files = 1000
		name := func(n int) string { return w.path(fmt.Sprintf("%d.log", n)) }
		var want []string
		put := func(what string) {
			for n := range files {
				want = append(want, fmt.Sprintf("%06d: a %s line", n, what))
				must(t, os.WriteFile(name(n), []byte(want[len(want)-1]+"\n"), 0o644))
			}
		}
		put("first")
		w.start()
		w.expect("in", want...)
		want = nil
		for n := range files {
			f, err := os.OpenFile(name(n), os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			want = append(want, fmt.Sprintf("%06d: a late line", n))
			_, err = f.WriteString(want[len(want)-1] + "\n")
			must(t, errors.Join(err, f.Close(), os.Rename(name(n), name(n)+".1")))
		}
		put("new")
		w.expect("in", want...)
	})
}

// TestFiftyTruncations: each content that is on disk when it is read comes whole,
// and no record is made of two.
func TestFiftyTruncations(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		w.start()
		for n := range 50 {
			var want []string
			for i := range 3 + n {
				want = append(want, fmt.Sprintf("line %d of content %d, %d", i, n, n*i))
			}
			must(t, os.WriteFile(w.path("a.log"), []byte(strings.Join(want, "\n")+"\n"), 0o644))
			if w.expect("in", want...); t.Failed() {
				return
			}
		}
		if n := w.boxed.counter("truncations"); n != 49 {
			t.Errorf("%d truncations are counted", n)
		}
	})
}

// TestTruncatedKeepsBoundedBytes: of however many truncated files the bytes that were read last are kept, they
// take no more than what is kept of those that are read. The oldest go first.
func TestTruncatedKeepsBoundedBytes(t *testing.T) {
	t.Parallel()
	var x Tailer
	all := make([]*generation, 100)
	for i := range all {
		all[i] = new(generation)
		x.keepLate(all[i], make([]byte, recent.Size/10))
	}
	for i, k := range all {
		if kept := i >= len(all)-10; kept != (k.late != nil) {
			t.Errorf("generation %d of %d: kept %v", i, len(all), !kept)
		}
	}
}

// TestMoveAcrossFileSystems: a file goes on where it was, though it is another on
// another file system.
func TestMoveAcrossFileSystems(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		far, err := os.MkdirTemp("/dev/shm", "kusto-agent")
		if err != nil {
			t.Skip("there is no other file system: ", err)
		}
		defer os.RemoveAll(far)
		w.in().Paths = append(w.in().Paths, filepath.Join(far, "*.log"))
		w.start()
		must(t, os.WriteFile(w.path("a.log"), []byte("a line that is long enough to be known by\n"), 0o644))
		w.expect("in", "a line that is long enough to be known by")
		must(t, exec.Command("mv", w.path("a.log"), far).Run())
		f, err := os.OpenFile(filepath.Join(far, "a.log"), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		defer f.Close()
		_, err = f.WriteString("more\n")
		must(t, err)
		w.expect("in", "more")
	})
}

// TestWrittenAsMemory: what is written where room was reserved is read, though
// neither size nor time of the file tell of it.
func TestWrittenAsMemory(t *testing.T) {
	t.Parallel()
	eachWatch(t, func(t *testing.T, w *world) {
		w.start()
		must(t, os.WriteFile(w.path("a.log"), append([]byte("one\n"), make([]byte, 300<<10)...), 0o644))
		w.expect("in", "one")
		st, err := os.Stat(w.path("a.log"))
		must(t, err)
		for i, line := range []string{"two", "six"} {
			f, err := os.OpenFile(w.path("a.log"), os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte(line+"\n"), int64(4+4*i))
			must(t, errors.Join(err, f.Close(), os.Chtimes(w.path("a.log"), st.ModTime(), st.ModTime())))
			w.expect("in", line)
		}
		if n := w.boxed.counter("nuls"); n != 0 {
			t.Errorf("%d NULs are counted", n)
		}
	})
}

// TestIdleThenRenamed: a file that was idle for longer than rotate_quiet is renamed to what
// no pattern matches, or deleted, and its writer, who has it open, goes on. The quiet begins
// when the file has left its path.
func TestIdleThenRenamed(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(w *world) error{
		"renamed": func(w *world) error { return os.Rename(w.path("a.log"), w.path("a.old")) },
		"deleted": func(w *world) error { return os.Remove(w.path("a.log")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWatch(t, func(t *testing.T, w *world) {
				quiet := time.Second
				w.in().RotateQuiet = units.Duration(quiet)
				f, err := os.Create(w.path("a.log"))
				must(t, err)
				defer f.Close()
				_, err = f.WriteString("first\n")
				must(t, err)
				w.start()
				w.expect("in", "first")
				time.Sleep(quiet)
				must(t, take(w))
				w.look()
				w.look()
				_, err = f.WriteString("last\n")
				must(t, err)
				late := time.Now().Add(5 * quiet)
				for !w.boxed.has("in", "last") && time.Now().Before(late) {
					w.look()
				}
				if !w.boxed.has("in", "last") {
					t.Error("what was written after the file had left its path is not read")
				}
			})
		})
	}
}

// TestTinyCopy: a copy of a truncated file that was too short for a hash of its beginning is known by
// its name and what was read. Another file of such a name is read.
func TestTinyCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in().Paths = []string{w.path("a.log*")}
	w.appendTo("a.log", "one\n")
	w.start()
	w.expect("in", "one")
	w.appendTo("copy", "one\n")
	w.appendTo("longer", "two\nand a line that was not read\n")
	w.appendTo("other", "six\n")
	for _, text := range []string{"two\n", ""} { // truncated twice before the copies are seen
		must(t, os.Truncate(w.path("a.log"), 0))
		w.look()
		w.appendTo("a.log", text)
		w.look()
	}
	w.expect("in", "two")
	w.rename("copy", "a.log.3")
	w.rename("longer", "a.log.2")
	w.rename("other", "a.log.1")
	w.look()
	w.decided()
	w.expect("in", "and a line that was not read", "six")
}

// A copy of a file that was rotated, read to its end and let go is no file that was rotated after it: that it
// holds nothing new is seen by the file, which has another name.
func TestCopyOfALetGoFile(t *testing.T) {
	w := newWorld(t)
	w.in().RotateQuiet = 1
	tailer := w.stepped()
	w.appendTo("a.log", "one, and it is long\n")
	tailer.scan()
	tailer.turnAll()
	w.rename("a.log", "a.log.1")
	for tailer.files() > 0 { // a scan has to miss it twice
		tailer.scan()
		tailer.turnAll()
	}
	must(t, exec.Command("cp", w.path("a.log.1"), w.path("a.log.2")).Run())
	tailer.scan()
	tailer.turnAll()
	w.taker.flush()
	if got := w.boxed.take("in"); !slices.Equal(got, []string{"one, and it is long"}) {
		t.Errorf("records are %q", got)
	}
}

// TestCopiedTwiceBetweenLooks: a log is written to, copied and truncated, twice, between two looks at it, and no
// pattern matches the copies: the second, which nobody ever saw, is found by the form of its name, whether the
// first is compressed by then or not, and whether it holds more than was read or not.
func TestCopiedTwiceBetweenLooks(t *testing.T) {
	t.Parallel()
	rotate := func(s *script, from, to string) {
		s.run("tick\ncp " + from + " " + to + "\ntruncate " + from + " 0\ntick")
	}
	for unread, first := range map[string]string{"all of it was read": "", "some of it was not read": "append a.log x301"} {
		for name, packs := range map[string]string{
			"plain": "", "the first is compressed": "keep-time-gzip a.log.2", "compressed": "keep-time-gzip a.log.2\nkeep-time-gzip a.log.1",
		} {
			t.Run(unread+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.in().RotateQuiet = 0 // files are looked through at once
				s := newScript(w)
				s.run("append a.log x1..x300")
				tailer := w.stepped()
				tailer.scan()
				tailer.turnAll()
				if got := len(w.boxed.take("in")); got != 300 {
					t.Fatalf("%d records are read", got)
				}
				s.run(first)
				rotate(s, "a.log", "a.log.2")
				s.run("append a.log y1..y300")
				rotate(s, "a.log", "a.log.1")
				s.run("append a.log last\n" + packs)
				for range 2 * mostLooks {
					tailer.scan()
					tailer.turnAll()
					tailer.survey()
				}
				want := append(s.expand("y1..y300"), "last")
				if first != "" {
					want = append(want, "x301")
				}
				got := w.boxed.take("in")
				slices.Sort(got)
				wantRecords(t, got, want...)
			})
		}
	}
}
