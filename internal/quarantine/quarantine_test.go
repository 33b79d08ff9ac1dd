package quarantine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "/state/quarantine"

var blocking = Config{MaxSize: units.MiB, WhenFull: "block"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rejected(n int) record.Rejected {
	return record.Rejected{
		File: record.File{Input: "app", ID: 0xab, Generation: 2}, Path: "/log/app.json",
		Route:  record.Route{Cluster: "https://c", Database: "d", Table: "t", Format: record.JSON, Mapping: "m"},
		Offset: int64(n), Length: 5, Data: fmt.Appendf(nil, "{%d}", n), Reason: record.Refused, Code: "BadRequest", Message: "why",
	}
}

func open(t testing.TB, fs durable.FS, cfg Config) *Store {
	t.Helper()
	s, err := Open(dir, cfg, Options{FS: fs})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// offsets lists what is there by offset.
func offsets(t testing.TB, fs durable.FS) (got []int64, err error) {
	t.Helper()
	var unread error
	err = list(fs, dir, func(e Entry) error {
		if e.Err == nil {
			got = append(got, e.Offset)
		} else if !e.Torn {
			unread = fmt.Errorf("%s line %d: %w", e.Name, e.Line, e.Err)
		}
		return nil
	})
	return got, errors.Join(err, unread)
}

func TestLineOfTheContract(t *testing.T) {
	when := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	r := rejected(7)
	b, err := appendEntry(nil, &Entry{Time: when, Rejected: r})
	must(t, err)
	want := `{"time":"2026-01-02T02:04:05.000006Z","input":"app","cluster":"https://c","database":"d","table":"t","format":"JSON","mapping":"m",` +
		`"file":"00000000000000ab","path":"/log/app.json","generation":2,"offset":7,"length":5,"truncated":false,"reason":"refused","code":"BadRequest","message":"why","data":"{7}"}` + "\n"
	if string(b) != want {
		t.Errorf("line\n%s want\n%s", b, want)
	}
}

func TestDataComesBack(t *testing.T) {
	f := func(in string, truncated bool, want, field string) {
		t.Helper()
		r := rejected(1)
		r.Data, r.Truncated = []byte(in), truncated
		b, err := appendEntry(nil, &Entry{Time: time.Now(), Rejected: r})
		must(t, err)
		if strings.Count(string(b), "\n") != 1 || !strings.Contains(string(b), `"`+field+`":`) {
			t.Errorf("%q: line %s, want one with %s", in, b, field)
		}
		e, err := parseLine(b)
		must(t, err)
		if string(e.Data) != want || e.Truncated != truncated || e.File != r.File || e.Route != r.Route {
			t.Errorf("%q came back as %q in %+v", in, e.Data, e)
		}
	}
	f("", false, "", "data")
	f("plain\r\n\x00<&>\u2028", false, "plain\r\n\x00<&>\u2028", "data")
	f("caf\xe9", false, "caf\xe9", "data_base64")
	f("caf\xc3", false, "caf\xc3", "data_base64") // whole, so it is not text
	f("caf\xc3", true, "caf", "data")             // cut inside a character
	f("x\xf0\x9f\x98", true, "x", "data")
	f("x\xf0\x9f\x98\x80", true, "x\xf0\x9f\x98\x80", "data")
	f("\xff\xfe\xc3", true, "\xff\xfe\xc3", "data_base64")
}

func TestPutListAndGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quarantine")
	for run := range 3 {
		s, err := Open(path, blocking, Options{})
		must(t, err)
		must(t, s.Put([]record.Rejected{rejected(2 * run), rejected(2*run + 1)}))
		must(t, s.Put(nil))
		must(t, s.Close())
		if err := s.Put([]record.Rejected{rejected(9)}); !errors.Is(err, ErrClosed) {
			t.Errorf("put after close: %v", err)
		}
		var got []int64
		must(t, List(path, func(e Entry) error { got = append(got, e.Offset); return nil }))
		if len(got) != 2*run+2 || got[len(got)-1] != int64(2*run+1) {
			t.Errorf("run %d: %v", run, got)
		}
	}
	files, _ := os.ReadDir(path)
	if len(files) != 1 {
		t.Errorf("%d files, want one that was gone on with", len(files))
	}
}

// A crash in the middle of a line leaves it alone: neither the line before nor
// the one after is touched.
func TestTornLineIsLeft(t *testing.T) {
	for _, tail := range []string{`{"time":"20`, "\x00\x00\x00", "{\"half\":1}\n\x00"} {
		fs := faultfs.New("/state")
		s := open(t, fs, blocking)
		must(t, s.Put([]record.Rejected{rejected(1)}))
		must(t, s.Close())
		name := dir + "/0000000000000001.jsonl"
		torn := append(fs.Content(name), tail...)
		fs.SetContent(name, torn)
		s = open(t, fs, blocking)
		must(t, s.Put([]record.Rejected{rejected(2)}))
		if got, _ := offsets(t, fs); len(got) != 2 || got[0] != 1 || got[1] != 2 {
			t.Errorf("tail %q: %v, want both records", tail, got)
		}
		if string(fs.Content(name)) != string(torn) {
			t.Errorf("tail %q: the torn file was changed", tail)
		}
	}
}

func TestDamagedLineIsTold(t *testing.T) {
	fs := faultfs.New("/state")
	s := open(t, fs, blocking)
	must(t, s.Put([]record.Rejected{rejected(1), rejected(2), rejected(3)}))
	name := dir + "/0000000000000001.jsonl"
	lines := strings.SplitAfter(string(fs.Content(name)), "\n")
	fs.SetContent(name, []byte(lines[0]+"junk\n"+lines[2]))
	got, err := offsets(t, fs)
	if len(got) != 2 || err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v, %v, want the two sound ones and the damaged line named", got, err)
	}
}

func TestFullBlocks(t *testing.T) {
	fs := faultfs.New("/state")
	s := open(t, fs, Config{MaxSize: 1000, WhenFull: "block"})
	must(t, s.Put([]record.Rejected{rejected(1)}))
	size := s.State().Bytes
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = s.Put([]record.Rejected{rejected(2)})
	}
	if got := s.State(); !errors.Is(err, ErrFull) || got.Err != err || got.Bytes > 1000 || got.Bytes < size {
		t.Errorf("%v with %+v, want ErrFull below 1000", err, got)
	}
}

func TestDropOldest(t *testing.T) {
	fs := faultfs.New("/state")
	s := open(t, fs, Config{MaxSize: 4000, WhenFull: "drop_oldest"})
	told := 0
	s.o.OnDrop = func(_ record.File, _ record.Span, n int) { told += n }
	for n := range 50 {
		must(t, s.Put([]record.Rejected{rejected(n)}))
		if n := s.State().Bytes; n > 4000 {
			t.Fatalf("%d bytes, want at most 4000", n)
		}
	}
	got, err := offsets(t, fs)
	must(t, err)
	dropped := int(s.State().Dropped)
	if len(got)+dropped != 50 || got[0] != int64(dropped) || len(got) < 5 {
		t.Errorf("%v with %d dropped, want the newest and the others counted", got, dropped)
	}
	// More than the whole at once: the newest of it stay.
	var many []record.Rejected
	for n := range 100 {
		many = append(many, rejected(1000+n))
	}
	must(t, s.Put(many))
	got, err = offsets(t, fs)
	must(t, err)
	if n := s.State(); n.Bytes > 4000 || n.Err != nil || len(got)+int(n.Dropped) != 150 || len(got) < 5 || got[len(got)-1] != 1099 {
		t.Errorf("%v is left, and %+v", got, n)
	}
	// And one that never fits is counted, and holds nobody up.
	big := rejected(2000)
	big.Data = make([]byte, 5000)
	must(t, s.Put([]record.Rejected{big}))
	if n := s.State(); n.Err != nil || len(got)+int(n.Dropped) != 151 {
		t.Errorf("behind one that never fits: %+v", n)
	}
	if n := s.State().Dropped; told != int(n) {
		t.Errorf("told of %d records, and %d were dropped", told, n)
	}
}

// TestDropOldestDropsFew: what is put at once is not dropped at once, by one record that comes
// after it, and a record that never fits takes none of its neighbours along.
func TestDropOldestDropsFew(t *testing.T) {
	fs := faultfs.New("/state")
	s := open(t, fs, Config{MaxSize: 7000, WhenFull: "drop_oldest"})
	var told []record.Span
	s.o.OnDrop = func(_ record.File, s record.Span, _ int) { told = append(told, s) }
	var group []record.Rejected
	for n := range 20 { // of about 330 bytes each
		group = append(group, rejected(5*n))
	}
	must(t, s.Put(group))
	for n := range 5 {
		must(t, s.Put([]record.Rejected{rejected(1000 + 5*n)}))
	}
	got, err := offsets(t, fs)
	must(t, err)
	dropped := int(s.State().Dropped)
	if dropped == 0 || dropped > 8 || len(got)+dropped != 25 || got[0] != int64(5*dropped) {
		t.Errorf("%v is left and %d are dropped, want those of one file dropped, the oldest", got, dropped)
	}
	told = nil
	big := rejected(2000)
	big.Data = make([]byte, 9000)
	must(t, s.Put([]record.Rejected{rejected(1995), big, rejected(2005)}))
	if got, err = offsets(t, fs); err != nil || !slices.Contains(got, 1995) || !slices.Contains(got, 2005) || slices.Contains(got, 2000) {
		t.Errorf("beside one that never fits %v is left, %v", got, err)
	}
	if len(told) == 0 || told[len(told)-1] != (record.Span{Start: 2000, End: 2005}) {
		t.Errorf("told of %v, want the one that never fits", told)
	}
}

// TestNeverFitsIsToldOnce: a Put that failed is tried again, with the record for which there is never room.
func TestNeverFitsIsToldOnce(t *testing.T) {
	fs := faultfs.New("/state")
	s := open(t, fs, Config{MaxSize: 7000, WhenFull: "drop_oldest"})
	told := 0
	s.o.OnDrop = func(_ record.File, _ record.Span, n int) { told += n }
	big := rejected(0)
	big.Data = make([]byte, 9000)
	full := true
	fs.Judge = func(op faultfs.Op) faultfs.Verdict {
		if full && op.Kind == "write" {
			return faultfs.Verdict{Err: faultfs.NoSpace}
		}
		return faultfs.Verdict{}
	}
	for range 3 {
		if err := s.Put([]record.Rejected{big, rejected(5)}); err == nil {
			t.Fatal("it is kept on a full disk")
		}
	}
	full = false
	must(t, s.Put([]record.Rejected{big, rejected(5)}))
	if n := s.State().Dropped; n != 1 || told != 1 {
		t.Errorf("%d are counted and %d told, want one", n, told)
	}
}

// Whatever operation is the last: what Put returned nil for is there after a
// power cut, and every line that is there is whole.
func TestEveryCrash(t *testing.T) {
	for n := 1; ; n++ {
		for _, torn := range []bool{false, true} {
			fs := faultfs.New("/state")
			fs.Judge = faultfs.KillAt(n, torn)
			kept := int64(0)
			s, err := Open(dir, blocking, Options{FS: fs, FileSize: 700})
			for err == nil && kept < 6 {
				if err = s.Put([]record.Rejected{rejected(int(kept + 1))}); err == nil {
					kept++
				}
			}
			if s != nil {
				s.Close()
			}
			for seed, mode := range []faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random, faultfs.Random} {
				left := fs.Crash(mode, uint64(seed+n))
				again := open(t, left, blocking)
				must(t, again.Put([]record.Rejected{rejected(99)}))
				got, _ := offsets(t, left)
				for i := range kept {
					if int64(len(got)) <= i || got[i] != i+1 {
						t.Fatalf("killed at %d (torn %v), mode %d: %v, want 1 to %d", n, torn, mode, got, kept)
					}
				}
				if got[len(got)-1] != 99 {
					t.Fatalf("killed at %d, mode %d: %v, want 99 last", n, mode, got)
				}
			}
			if err == nil && fs.Ops() < n {
				return
			}
		}
	}
}

// A failed write or sync is told, and the next Put keeps its promise on its
// own: nothing is synced twice in the hope of success.
func TestEveryFault(t *testing.T) {
	for n := 3; n < 20; n++ {
		for _, short := range []bool{false, true} {
			fs := faultfs.New("/state")
			fs.Judge = faultfs.FailAt(n, faultfs.NoSpace, short)
			s := open(t, fs, blocking)
			var kept []int64
			for i := range 5 {
				if err := s.Put([]record.Rejected{rejected(i)}); err == nil {
					kept = append(kept, int64(i))
				} else if !errors.Is(err, faultfs.NoSpace) {
					t.Fatalf("fault at %d: %v", n, err)
				}
			}
			if len(kept) < 4 {
				t.Fatalf("fault at %d: only %v kept", n, kept)
			}
			got, _ := offsets(t, fs.Crash(faultfs.Drop, 0))
			for _, k := range kept {
				found := false
				for _, g := range got {
					found = found || g == k
				}
				if !found {
					t.Fatalf("fault at %d (short %v): %v is there, want %v", n, short, got, kept)
				}
			}
		}
	}
}

// A file whose sync failed is not synced again, nor written to.
func TestFailedSyncAbandons(t *testing.T) {
	fs := faultfs.New("/state")
	var failed string
	fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		switch {
		case op.Name == failed && (op.Kind == "sync" || op.Kind == "write"):
			t.Errorf("%s of %s after its sync failed", op.Kind, op.Name)
		case op.Kind == "sync" && op.N > 8 && failed == "":
			failed, v.Err = op.Name, faultfs.NoSpace
		}
		return v
	}
	s := open(t, fs, blocking)
	for n := range 10 {
		if err := s.Put([]record.Rejected{rejected(n)}); err != nil && !errors.Is(err, faultfs.NoSpace) {
			t.Fatal(err)
		}
	}
	if failed == "" {
		t.Error("no sync failed")
	}
}

// What a short write left is gone before the next line comes.
func TestShortWriteLeavesNothing(t *testing.T) {
	fs := faultfs.New("/state")
	fail := false
	fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		if fail && op.Kind == "write" {
			v = faultfs.Verdict{Err: faultfs.NoSpace, Short: true}
		}
		return v
	}
	s := open(t, fs, blocking)
	must(t, s.Put([]record.Rejected{rejected(1)}))
	long := rejected(2)
	long.Message = strings.Repeat("long ", 1000)
	fail = true
	if err := s.Put([]record.Rejected{long}); !errors.Is(err, faultfs.NoSpace) {
		t.Fatal(err)
	}
	fail = false
	must(t, s.Put([]record.Rejected{rejected(3)}))
	got, err := offsets(t, fs)
	if err != nil || len(got) != 2 || got[1] != 3 {
		t.Errorf("%v, %v, want 1 and 3 alone", got, err)
	}
	if n := int64(len(fs.Content(dir + "/0000000000000001.jsonl"))); n != s.State().Bytes {
		t.Errorf("%d bytes on disk, size says %d", n, s.State().Bytes)
	}
}

func TestStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		var hang atomic.Bool
		thaw := make(chan struct{})
		fs.Judge = func(faultfs.Op) faultfs.Verdict {
			if hang.Load() {
				<-thaw
			}
			return faultfs.Verdict{}
		}
		s, err := Open(dir, blocking, Options{FS: fs})
		must(t, err)
		hang.Store(true)
		for n := range 2 {
			if err := s.Put([]record.Rejected{rejected(n)}); !errors.Is(err, record.ErrStalled) {
				t.Errorf("put: %v, want ErrStalled", err)
			}
		}
		hang.Store(false)
		close(thaw)
		synctest.Wait()
		must(t, s.Put([]record.Rejected{rejected(2)}))
		must(t, s.Close())
	})
}

func FuzzParseLine(f *testing.F) {
	r := rejected(1)
	b, _ := appendEntry(nil, &Entry{Time: time.Unix(0, 0), Rejected: r})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseLine(b)
		if err != nil {
			return
		}
		if _, err := appendEntry(nil, &Entry{Time: e.Time, Rejected: e.Rejected}); err != nil && e.Time.Year() < 9999 {
			t.Fatal(err)
		}
	})
}

func BenchmarkPut(b *testing.B) {
	s, err := Open(b.TempDir(), Config{MaxSize: units.GiB, WhenFull: "drop_oldest"}, Options{})
	must(b, err)
	defer s.Close()
	recs := []record.Rejected{rejected(1)}
	for b.Loop() {
		must(b, s.Put(recs))
	}
}

// A path that is not UTF-8 is kept so that the file can be found.
func TestPathOfBytes(t *testing.T) {
	line, err := appendEntry(nil, &Entry{Rejected: record.Rejected{Path: "/log/a\xff.json"}})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := parseLine(line); err != nil || e.Path != `"/log/a\xff.json"` {
		t.Errorf("path %q, %v", e.Path, err)
	}
}
