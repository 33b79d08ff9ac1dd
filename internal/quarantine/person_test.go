package quarantine

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// journal collects what is logged.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) count(what string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.b.String(), what)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

const (
	keepsNot = "quarantine write failed"
	keeps    = "quarantine writes succeed again"
)

// A person does something to the folder of a running store: what is put
// afterwards is kept under a name in that folder.
func TestPersonChangesTheFolder(t *testing.T) {
	f := func(name string, want []int64, do func(dir, newest string)) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state", "quarantine")
			s, err := Open(dir, blocking, Options{})
			must(t, err)
			defer s.Close()
			must(t, s.Put([]record.Rejected{rejected(1)}))
			do(dir, filepath.Join(dir, "0000000000000001.jsonl"))
			must(t, s.Put([]record.Rejected{rejected(2)}))
			must(t, s.Put([]record.Rejected{rejected(3)}))
			var got []int64
			var bytes int64
			must(t, List(dir, func(e Entry) error {
				must(t, e.Err)
				got = append(got, e.Offset)
				bytes += int64(len(e.Raw)) + 1
				return nil
			}))
			if len(got) != len(want) || got[len(got)-1] != 3 || got[len(got)-2] != 2 {
				t.Errorf("%v, want %v", got, want)
			}
			if n := s.State().Bytes; n != bytes {
				t.Errorf("%d bytes, want %d", n, bytes)
			}
		})
	}
	f("nothing", []int64{1, 2, 3}, func(_, _ string) {})
	f("removes the newest file", []int64{2, 3}, func(_, newest string) { must(t, os.Remove(newest)) })
	f("moves it away", []int64{2, 3}, func(dir, newest string) { must(t, os.Rename(newest, filepath.Join(dir, "..", "away"))) })
	f("cuts it", []int64{2, 3}, func(_, newest string) { must(t, os.Truncate(newest, 0)) })
	f("removes the folder", []int64{2, 3}, func(dir, _ string) { must(t, os.RemoveAll(dir)) })
	f("saves it with an editor", []int64{1, 2, 3}, func(_, newest string) {
		b, err := os.ReadFile(newest)
		must(t, err)
		must(t, os.WriteFile(newest+".new", b, 0o600))
		must(t, os.Rename(newest+".new", newest))
	})
	f("puts an old file back", []int64{1, 1, 2, 3}, func(dir, newest string) {
		b, err := os.ReadFile(newest)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "0000000000000009.jsonl"), b, 0o600))
	})
}

// Full is told once with what to do; when a person makes room it goes on by
// itself, and tells that once.
func TestGoesOnWhenAPersonMakesRoom(t *testing.T) {
	dir := t.TempDir()
	var log journal
	s, err := Open(dir, Config{MaxSize: 4000, WhenFull: "block"}, Options{Logger: log.logger()})
	must(t, err)
	defer s.Close()
	n := 0
	for err == nil {
		err = s.Put([]record.Rejected{rejected(n)})
		n++
	}
	for range 3 {
		if again := s.Put([]record.Rejected{rejected(n)}); again == nil || again.Error() != err.Error() {
			t.Errorf("says %v, then %v", err, again)
		}
	}
	if st := s.State(); !errors.Is(st.Err, ErrFull) || st.Since.IsZero() || log.count(keepsNot) != 1 || log.count("quarantine ls") != 1 {
		t.Errorf("%+v, log\n%s", st, &log.b)
	}
	must(t, os.Remove(filepath.Join(dir, "0000000000000001.jsonl")))
	if st := s.State(); st.Err != nil || !st.Since.IsZero() || st.Bytes > 3500 {
		t.Errorf("with room: %+v", st)
	}
	must(t, s.Put([]record.Rejected{rejected(n)}))
	if log.count(keeps) != 1 {
		t.Errorf("log\n%s", &log.b)
	}
	// Cutting a file makes room as well.
	for err = nil; err == nil; {
		err = s.Put([]record.Rejected{rejected(n)})
	}
	files, err := listFiles(s.o.FS, dir)
	must(t, err)
	must(t, os.Truncate(filepath.Join(dir, files[0].name), 0))
	must(t, s.Put([]record.Rejected{rejected(n)}))
}

// A record that never fits says that waiting does not help.
func TestOneThatNeverFits(t *testing.T) {
	s := open(t, faultfs.New("/state"), Config{MaxSize: 1000, WhenFull: "block"})
	r := rejected(1)
	r.Data = make([]byte, 2000)
	err := s.Put([]record.Rejected{r})
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "this alone is more than quarantine.max_size") {
		t.Errorf("says %v", err)
	}
}

// A disk that fails is told once, whatever names are tried, with what to do.
func TestFailingDiskIsToldOnce(t *testing.T) {
	f := func(kind string, recs ...record.Rejected) {
		t.Helper()
		fs := faultfs.New("/state")
		fails := false
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if fails && op.Kind == kind {
				v.Err = faultfs.NoSpace
			}
			return v
		}
		var log journal
		s, err := Open(dir, blocking, Options{FS: fs, Logger: log.logger()})
		must(t, err)
		defer s.Close()
		fails = true
		for range 5 {
			if err := s.Put(recs); !errors.Is(err, faultfs.NoSpace) {
				t.Errorf("%s of %d: %v", kind, len(recs), err)
			}
		}
		if st := s.State(); !errors.Is(st.Err, faultfs.NoSpace) || log.count(keepsNot) != 1 || log.count("make room on the disk") != 1 {
			t.Errorf("%s of %d: %+v, log\n%s", kind, len(recs), st, &log.b)
		}
		fails = false
		must(t, s.Put([]record.Rejected{rejected(2)}))
		if st := s.State(); st.Err != nil || log.count(keeps) != 1 {
			t.Errorf("%s: %+v, log\n%s", kind, st, &log.b)
		}
		if got, err := offsets(t, fs); err != nil || len(got) == 0 || got[len(got)-1] != 2 {
			t.Errorf("%s: %v %v", kind, got, err)
		}
	}
	for _, kind := range []string{"create", "write", "sync", "syncdir"} {
		f(kind, rejected(1))
		f(kind, rejected(1), rejected(3)) // recovery, for one, does not try again with fewer
	}
}

// A disk that hangs holds up neither State nor whoever puts, and is told once.
func TestStateOfAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		thaw := make(chan struct{})
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if op.Kind == "write" {
				<-thaw
			}
			return v
		}
		var log journal
		s, err := Open(dir, Config{MaxSize: units.MiB, WhenFull: "block"}, Options{FS: fs, Logger: log.logger()})
		must(t, err)
		for range 2 {
			if err := s.Put([]record.Rejected{rejected(1)}); !errors.Is(err, record.ErrStalled) {
				t.Errorf("put: %v", err)
			}
			if st := s.State(); !errors.Is(st.Err, record.ErrStalled) {
				t.Errorf("state %+v", st)
			}
		}
		close(thaw)
		synctest.Wait()
		if st := s.State(); st.Err != nil || st.Bytes == 0 || log.count(keepsNot) != 1 || log.count(keeps) != 1 {
			t.Errorf("state %+v, log\n%s", st, &log.b)
		}
		must(t, s.Close())
	})
}

// Lines that cannot be read come in their place, the others untouched.
func TestListTellsWhatCannotBeRead(t *testing.T) {
	fs := faultfs.New("/state")
	s := open(t, fs, blocking)
	must(t, s.Put([]record.Rejected{rejected(1), rejected(2)}))
	name := dir + "/0000000000000001.jsonl"
	lines := strings.SplitAfter(string(fs.Content(name)), "\n")
	fs.SetContent(name, []byte(lines[0]+"junk\n"+lines[1]+`{"time":"20`))
	var got []string
	must(t, list(fs, dir, func(e Entry) error {
		switch {
		case e.Torn:
			got = append(got, "torn "+string(e.Raw))
		case e.Err != nil:
			got = append(got, "bad "+string(e.Raw))
		default:
			if string(e.Raw)+"\n" != lines[len(got)/2] || e.Line != len(got)+1 || e.Name != "0000000000000001.jsonl" {
				t.Errorf("line %d of %s: %s", e.Line, e.Name, e.Raw)
			}
			got = append(got, "good")
		}
		return nil
	}))
	if want := `good bad junk good torn {"time":"20`; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	stop := errors.New("stop")
	if err := list(fs, dir, func(Entry) error { return stop }); err != stop {
		t.Errorf("ended with %v", err)
	}
	must(t, list(fs, "/nowhere", func(Entry) error { return stop }))
}

// A disk that cannot be written when the store is opened is told and tried
// again; the folder is durable when the first Put returns.
func TestOpensOnAFailingDisk(t *testing.T) {
	for _, kind := range []string{"mkdir", "syncdir"} {
		fs := faultfs.New("/state")
		fails := true
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if fails && op.Kind == kind {
				v.Err = faultfs.NoSpace
			}
			return v
		}
		var log journal
		s, err := Open(dir, blocking, Options{FS: fs, Logger: log.logger()})
		must(t, err)
		defer s.Close()
		if err := s.Put([]record.Rejected{rejected(1)}); !errors.Is(err, faultfs.NoSpace) || s.State().Err == nil || log.count(keepsNot) == 0 {
			t.Errorf("%s: %v, %+v", kind, err, s.State())
		}
		fails = false
		must(t, s.Put([]record.Rejected{rejected(2)}))
		if got, err := offsets(t, fs.Crash(faultfs.Drop, 0)); err != nil || len(got) == 0 || got[len(got)-1] != 2 {
			t.Errorf("%s: a power cut leaves %v, %v", kind, got, err)
		}
	}
}

// No room for several is not told: there may be for fewer.
func TestSeveralAreNoTrouble(t *testing.T) {
	var log journal
	s, err := Open(dir, Config{MaxSize: 1000, WhenFull: "block"}, Options{FS: faultfs.New("/state"), Logger: log.logger()})
	must(t, err)
	defer s.Close()
	for range 2 {
		if err := s.Put([]record.Rejected{rejected(1), rejected(2), rejected(3), rejected(4)}); !errors.Is(err, ErrFull) {
			t.Errorf("says %v", err)
		}
		if st := s.State(); st.Err != nil || log.count(keepsNot) != 0 {
			t.Errorf("%+v, log\n%s", st, &log.b)
		}
	}
	must(t, s.Put([]record.Rejected{rejected(1)}))
}

// A disk that takes nothing is told of once, whether it is met at the start or by
// a Put.
func TestBadDiskIsToldOnce(t *testing.T) {
	fs := faultfs.New("/state")
	fs.Judge = func(faultfs.Op) faultfs.Verdict { return faultfs.Verdict{Err: faultfs.NoSpace} }
	log := &journal{}
	s, err := Open("/state/quarantine", Config{MaxSize: 1 << 20}, Options{FS: fs, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Put([]record.Rejected{{Data: []byte("bad")}}); !errors.Is(err, faultfs.NoSpace) {
			t.Errorf("put: %v", err)
		}
	}
	if n := log.count(keepsNot); n != 1 {
		t.Errorf("told %d times", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
