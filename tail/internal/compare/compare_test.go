package compare

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
)

var (
	banner = strings.Repeat("# the same banner in each file\n", 100)
	read   = banner + "one\ntwo\nthree\n"
)

// write makes a file and returns its sample. It is closed at the end of the test.
func write(t *testing.T, path, text string) *Sample {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func open(t *testing.T, path string) *Sample {
	t.Helper()
	f, st, err := inode.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return Of(f, st, inode.Handle(f))
}

// nextTick returns when the clock of the file system tells a later time than that at which the file was made.
func nextTick(t *testing.T, path string) {
	t.Helper()
	made, err := inode.At(path)
	for now := made; err == nil && now.Ctime == made.Ctime; {
		err = os.Chmod(path, 0o600)
		if err == nil {
			now, err = inode.At(path)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// original returns what is known of a file of which so many bytes were read.
func original(t *testing.T, s *Sample, position int64) *Original {
	t.Helper()
	mark, err := fingerprint.MarkAt(s.File, position)
	if err != nil {
		t.Fatal(err)
	}
	head, err := fingerprint.HeadOf(s.File, s.Size)
	if err != nil {
		t.Fatal(err)
	}
	path := s.File.Name()
	return &Original{
		Info:     record.FileInfo{Path: path, First: path, Dev: s.Dev, Inode: s.Ino, Birth: s.Birth, Size: s.Size, Head: head},
		Position: position, Mark: mark,
	}
}

// TestGone compares files with one that was read and is not read any more.
func TestGone(t *testing.T) {
	now := func() int64 { return time.Now().Add(time.Hour).UnixNano() } // later than all files of the test
	type world struct {
		o    *Original
		dir  string
		path string
	}
	f := func(name string, change func(w *world), file, text string, node identity.Node, fate identity.Fate, content identity.Content) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := &world{dir: dir, path: filepath.Join(dir, "app.log")}
			s := write(t, w.path, read)
			w.o = original(t, s, s.Size)
			change(w)
			got := w.o.Compare(write(t, filepath.Join(dir, file), text))
			if got.Facts.Node != node || got.Facts.Fate != fate || got.Facts.Content != content {
				t.Errorf("got %+v", got)
			}
		})
	}
	truncated := func(w *world) {
		_ = os.Truncate(w.path, 0)
		w.o.Truncated, w.o.Left = time.Now(), Departure{At: now()}
	}
	deleted := func(w *world) {
		_ = os.Remove(w.path)
		w.o.Left = Departure{At: now(), Deleted: true}
	}
	f("a copy of a truncated file", truncated, "app.log.1", read, identity.Older, identity.Truncated, identity.Ends)
	f("a copy with more than was read", truncated, "app.log.1", read+"four\n", identity.Older, identity.Truncated, identity.Holds)
	f("another of equal length", truncated, "app.log.1", read[:len(read)-2]+"x\n", identity.Older, identity.Truncated, identity.Differs)
	f("a copy from before the last read, and nothing that proves it", truncated, "app.log.1", banner+"one\n", identity.Older, identity.Truncated, identity.Unknown)
	f("the same, and reading stood there", func(w *world) {
		truncated(w)
		at := int64(len(banner + "one\n"))
		mark := fingerprint.MarkOf([]byte(read[at-record.MarkLen : at]))
		w.o.Trail.Add(at, mark)
	}, "app.log.1", banner+"one\n", identity.Older, identity.Truncated, identity.Prefix)
	f("the same, and it goes on otherwise", func(w *world) {
		truncated(w)
		at := int64(len(banner))
		w.o.Trail.Add(at, fingerprint.MarkOf([]byte(read[at-record.MarkLen:at])))
	}, "app.log.1", banner+"ONE\n", identity.Older, identity.Truncated, identity.Part)
	f("the same, and the bytes that were read last are kept", func(w *world) {
		truncated(w)
		w.o.Late = []byte(read)
	}, "app.log.1", banner+"one\n", identity.Older, identity.Truncated, identity.Prefix)
	f("made after the truncation", func(w *world) { truncated(w); w.o.Left.At = 1 }, "app.log.1", read, identity.Younger, identity.Truncated, identity.Ends)
	f("the name of another, of a deleted file", deleted, "other.log", read, identity.Older, identity.Unlinked, identity.Little)
	f("saved anew in place of a deleted file", deleted, "app.log.new", read+"four\n", identity.Older, identity.Unlinked, identity.Holds)
	f("renamed to where no pattern matches", func(w *world) { w.o.Left = Departure{There: true} }, "app.log.1", read, identity.Older, identity.Renamed, identity.Differs)
	f("still there as it was read", func(*world) {}, "app.log.1", read, identity.Older, identity.Untouched, identity.Ends)
	f("gone since nobody knows when", func(w *world) { _ = os.Remove(w.path) }, "app.log.1", read, identity.Older, identity.Past, identity.Ends)
	f("found in its folder, rewritten", func(w *world) {
		w.o.Latest, w.o.Find = true, func(record.FileInfo) (string, bool) { return w.path + ".0", true }
		_ = os.Rename(w.path, w.path+".0")
		_ = os.WriteFile(w.path+".0", []byte(banner), 0o600)
		_ = os.Chtimes(w.path+".0", time.Unix(0, now()), time.Unix(0, now()))
	}, "app.log.1", read, identity.Younger, identity.Truncated, identity.Ends)
	f("a short file that was read", func(w *world) {
		deleted(w)
		w.o.Position, w.o.Mark = 10, fingerprint.MarkOf([]byte(read[:10]))
	}, "app.log.1", read, identity.Older, identity.Unlinked, identity.Little)
	f("written to last before the original was made", func(w *world) { truncated(w); w.o.Info.Birth = now() }, "app.log.1", read, identity.Stale, identity.Truncated, identity.Ends)
	f("no hash of it", func(w *world) { truncated(w); w.o.Mark = 0 }, "app.log.1", read, identity.Older, identity.Truncated, identity.Unknown)
}

// TestRead compares files with one that is being read.
func TestRead(t *testing.T) {
	f := func(name string, change func(r *Reader, path string), text string, fate identity.Fate, content identity.Content) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "app.log")
			s := write(t, path, read)
			o := original(t, s, s.Size)
			o.Reader = &Reader{File: s.File, Path: path, Resting: true}
			change(o.Reader, path)
			got := o.Compare(write(t, filepath.Join(dir, "app.log.1"), text))
			if got.Facts.Fate != fate || got.Facts.Content != content {
				t.Errorf("got %+v", got)
			}
		})
	}
	f("a copy", func(*Reader, string) {}, read, identity.Untouched, identity.Ends)
	f("a copy that is still written", func(*Reader, string) {}, banner+"one\n", identity.Untouched, identity.Prefix)
	f("of a file that is not open", func(r *Reader, _ string) { r.File = nil }, banner, identity.Untouched, identity.Prefix)
	f("of a file that is closed meanwhile", func(r *Reader, _ string) { r.File.Close() }, banner+"one\n", identity.Untouched, identity.Prefix)
	f("of one that is not at its path either", func(r *Reader, path string) { _ = errors.Join(r.File.Close(), os.Remove(path)) }, banner+"one\n", identity.Changing, identity.Unknown)
	f("of one that is closed and was rewritten", func(r *Reader, path string) {
		_ = errors.Join(r.File.Close(), os.WriteFile(path, []byte("new\n"), 0o600))
	}, banner+"one\n", identity.Changing, identity.Unknown)
	f("another", func(*Reader, string) {}, banner+"ONE\n", identity.Untouched, identity.Differs)
	f("a copy of what was rewritten meanwhile", func(_ *Reader, path string) { _ = os.WriteFile(path, []byte("new\n"), 0o600) }, read, identity.Changing, identity.Unknown)
	f("a copy of a deleted file with a rest", func(r *Reader, path string) {
		r.Deleted, r.Resting = true, false
		_ = os.WriteFile(path+".1", nil, 0o600)
		nextTick(t, path+".1")
		_ = os.Remove(path)
	}, read, identity.Changing, identity.Ends)
}

// TestSame compares a file with what was read of it before.
func TestSame(t *testing.T) {
	f := func(name, text string, want identity.Content) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.log")
			s := write(t, path, read)
			o := original(t, s, s.Size)
			if got := o.Same(write(t, path, text)).Facts; got.Node != identity.SameNode || got.Content != want {
				t.Errorf("got %+v", got)
			}
		})
	}
	f("it has grown", read+"four\n", identity.Holds)
	f("it was rewritten", banner+"ONE\nTWO\nTHREE and more\n", identity.Differs)
	f("it was truncated", banner, identity.Differs)
	path := filepath.Join(t.TempDir(), "app.log")
	o := original(t, write(t, path, read), int64(len(read)))
	if got := o.Same(write(t, path+".1", read)).Facts; got.Node != identity.HandedOver {
		t.Errorf("of another node: %+v", got)
	}
}

// TestShortCopy compares a file that is too short for a head with the file whose name it has.
func TestShortCopy(t *testing.T) {
	f := func(name, all, text string, change func(o *Original), fate identity.Fate, content identity.Content) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.log")
			s := write(t, path, all)
			o := original(t, s, s.Size)
			o.Reader = &Reader{File: s.File, Path: path, Resting: true}
			change(o)
			got := o.ShortCopy(write(t, path+".1", text), time.Minute)
			if got.Facts.Fate != fate || got.Facts.Content != content {
				t.Errorf("got %+v", got)
			}
		})
	}
	asIs := func(*Original) {}
	f("a copy", read, read[:1000], asIs, identity.Untouched, identity.Prefix)
	f("a copy that is still written", read, read[:10], asIs, identity.Untouched, identity.Prefix)
	f("another", read, "another", asIs, identity.Untouched, identity.Differs)
	f("just after a truncation", read, read[:10], func(o *Original) { o.Reader.Anew = time.Now() }, identity.Changing, identity.Unknown)
	f("of a file that nobody reads any more", read, read[:10], func(o *Original) { o.Reader = nil }, identity.Past, identity.Differs)
	f("nothing was read", read, read[:10], func(o *Original) { o.Mark, o.Position = 0, 0 }, identity.Untouched, identity.Differs)
}

// TestPacked compares what is in compressed files.
func TestPacked(t *testing.T) {
	facts := func(text string, at ...int64) *archive.Facts {
		x := &archive.Facts{Size: int64(len(text)), Marks: map[int64]record.Mark{}, End: fingerprint.MarkOf([]byte(text[max(len(text)-record.MarkLen, 0):]))}
		for _, n := range at {
			x.Marks[n] = fingerprint.MarkOf([]byte(text[max(n-record.MarkLen, 0):n]))
		}
		return x
	}
	all := int64(len(read))
	s := write(t, filepath.Join(t.TempDir(), "app.log"), read)
	f := func(name string, o *Original, x *archive.Facts, want identity.Content, goesOn bool) {
		t.Helper()
		if got, _ := o.IsIn(x); got != want || o.GoesOnAfter(x) != goesOn {
			t.Errorf("%s: %v, goes on %t", name, got, o.GoesOnAfter(x))
		}
	}
	o := original(t, s, all)
	f("all of it", o, facts(read, all), identity.Ends, false)
	f("with more", o, facts(read+"four\n", all), identity.Holds, false)
	f("not looked at", o, facts(read), identity.Unknown, false)
	f("another", o, facts(strings.ToUpper(read), all), identity.Differs, false)
	f("less", o, facts(banner), identity.Differs, false)
	cut := original(t, s, all)
	cut.Truncated = time.Now()
	at := int64(len(banner))
	cut.Trail.Add(at, fingerprint.MarkOf([]byte(banner[at-record.MarkLen:])))
	f("the beginning of a truncated file", cut, facts(banner, at), identity.Prefix, true)
	f("the same and something else", cut, facts(banner+"ONE\n", at), identity.Part, true)
	cut.Late = bytes.Clone([]byte(read))
	f("up to where its last bytes prove it", cut, facts(banner+"one\n", at), identity.Prefix, true)
}

// TestDiffers: the first bytes of a file tell that it has others before an offset, and nothing beyond them.
func TestDiffers(t *testing.T) {
	s := write(t, filepath.Join(t.TempDir(), "app.log"), read)
	f := func(offset int64, of string, want bool) {
		t.Helper()
		b := []byte(of[max(offset-record.MarkLen, 0):offset])
		for range 2 {
			if got := s.Differs(offset, fingerprint.MarkOf(b)); got != want {
				t.Errorf("at %d: %v, want %v", offset, got, want)
			}
		}
	}
	f(10, read, false)
	f(1000, read, false)
	f(10, "another text", true)
	f(1000, strings.ToUpper(read), true)
	f(2000, strings.ToUpper(read), false)
	f(0, read, false)
}

// TestTrail: a trail has no more places than it may, the last one among them.
func TestTrail(t *testing.T) {
	var all Trail
	for i := range int64(1000) {
		all.Add(i, record.Mark(i+1))
		all.Add(i, record.Mark(i+1))
		if n := len(all); n > trailLen || all[n-1].Offset != i {
			t.Fatalf("after %d: %d places, the last %+v", i, n, all[n-1])
		}
	}
	if n := len(all); n < trailLen/2 {
		t.Errorf("%d places are left", n)
	}
}

func TestIsNameOf(t *testing.T) {
	f := func(path string, name, stem bool) {
		t.Helper()
		info := record.FileInfo{Path: "/var/log/app.log", First: "/var/log/app.log"}
		if IsNameOf(path, info) != name || IsOfStem(path, info) != stem {
			t.Errorf("%s: name %t, stem %t", path, !name, !stem)
		}
	}
	f("/var/log/app.log.1", true, true)
	f("/var/log/app-20260101.log.gz", true, true)
	f("/var/log/app.log", false, true)
	f("/var/log/old/app.log.1", false, true)
	f("/var/log/other.log", false, false)
}
