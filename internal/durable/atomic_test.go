package durable_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
)

var modes = []faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random}

// eachCrash runs do once for every operation it makes, dies there, and hands
// every file system a crash may leave to check. finished says that do returned
// nil before the end.
func eachCrash(t *testing.T, setup func(*faultfs.FS), do func(*faultfs.FS) error, check func(name string, left *faultfs.FS, finished bool)) {
	t.Helper()
	for n := 1; ; n++ {
		for _, torn := range []bool{false, true} {
			fs := faultfs.New("/d")
			setup(fs)
			before := fs.Ops()
			fs.Judge = faultfs.KillAt(before+n, torn)
			err := do(fs)
			for seed := range uint64(20) {
				for _, m := range modes {
					check(fmt.Sprintf("killed at %d (torn %v), mode %d, seed %d", n, torn, m, seed), fs.Crash(m, seed), err == nil)
				}
			}
			if err == nil {
				return
			}
		}
	}
}

func write(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

func TestWriteAtomicIsOldOrNew(t *testing.T) {
	eachCrash(t,
		func(fs *faultfs.FS) { must(t, durable.WriteAtomic(fs, "/d/x", write("old content"))) },
		func(fs *faultfs.FS) error { return durable.WriteAtomic(fs, "/d/x", write("new")) },
		func(name string, left *faultfs.FS, finished bool) {
			got := string(left.Content("/d/x"))
			if got != "new" && (finished || got != "old content") {
				t.Fatalf("%s: %q", name, got)
			}
		})
}

func TestCreateIsAllOrNothing(t *testing.T) {
	eachCrash(t, func(*faultfs.FS) {},
		func(fs *faultfs.FS) error {
			_, err := durable.Create(fs, "/d/x", header(1), 128, frame(1, "a", "b"))
			return err
		},
		func(name string, left *faultfs.FS, finished bool) {
			b := left.Content("/d/x")
			if b == nil && !finished {
				return
			}
			if got, rep, err := read(t, b); err != nil || len(got) != 1 || len(rep.Bad) > 0 {
				t.Fatalf("%s: read %q, %+v, %v", name, got, rep, err)
			}
		})
}

func TestMkdirAllSurvives(t *testing.T) {
	eachCrash(t, func(*faultfs.FS) {},
		func(fs *faultfs.FS) error { return durable.MkdirAll(fs, "/d/a/b/c") },
		func(name string, left *faultfs.FS, finished bool) {
			if _, err := left.List("/d/a/b/c"); finished && err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
}

func TestMoveNeverLoses(t *testing.T) {
	eachCrash(t,
		func(fs *faultfs.FS) { must(t, durable.WriteAtomic(fs, "/d/x", write("content"))) },
		func(fs *faultfs.FS) error { return durable.Move(fs, "/d/x", "/d/aside") },
		func(name string, left *faultfs.FS, finished bool) {
			at, aside := string(left.Content("/d/x")), string(left.Content("/d/aside/x"))
			if aside != "content" && (finished || at != "content") {
				t.Fatalf("%s: %q and %q", name, at, aside)
			}
		})
}

// The real file system keeps the promises the fake one is built on.
func TestOS(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	must(t, durable.MkdirAll(durable.OS, dir))
	must(t, durable.MkdirAll(durable.OS, dir))
	path := filepath.Join(dir, "x")
	must(t, durable.WriteAtomic(durable.OS, path, write("content")))
	if b, err := os.ReadFile(path); err != nil || string(b) != "content" {
		t.Errorf("read %q, %v", b, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want private", st.Mode(), err)
	}
	must(t, os.Symlink(path, filepath.Join(dir, "link")))
	if _, err := durable.OS.Open(filepath.Join(dir, "link"), os.O_RDWR); err == nil {
		t.Error("a symbolic link was opened")
	}
	s, err := durable.Create(durable.OS, filepath.Join(dir, "s"), header(1), 1<<20)
	must(t, err)
	must(t, s.Append(frame(1, "m", "b")))
	must(t, s.Sync())
	if st, err := os.Stat(filepath.Join(dir, "s")); err != nil || st.Size() != 1<<20+64 {
		t.Errorf("size %d, %v, want it allocated", st.Size(), err)
	}
	must(t, s.Close())
	if _, err := durable.Create(durable.OS, filepath.Join(dir, "s"), header(2), 0); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second segment of one name: %v, want ErrExist", err)
	}
	n := 0
	rep, err := durable.ReadSegment(durable.OS, filepath.Join(dir, "s"), kind, 1, true, func(*durable.Found) error { n++; return nil })
	if must(t, err); n != 1 || rep.End != s.Size() || len(rep.Bad) > 0 {
		t.Errorf("%d frames, report %+v, want one that ends at %d", n, rep, s.Size())
	}
	if h, size, err := durable.ReadHeader(durable.OS, filepath.Join(dir, "s"), kind, 1); err != nil || h.Seq != 1 || size != s.Size() {
		t.Errorf("header %+v, size %d, %v", h, size, err)
	}
	if _, err := durable.OS.List(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("list of a missing folder: %v", err)
	}
}
