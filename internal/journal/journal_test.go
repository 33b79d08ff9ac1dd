package journal

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	goleak.VerifyTestMain(m)
}

var testConfig = Config{MaxSize: 64 * units.MiB}

// testOptions make every sync an explicit one, and segments small.
func testOptions(fs durable.FS) Options {
	return Options{FS: fs, SyncEvery: time.Hour, Stall: time.Hour, SegmentSize: 1 << 10, BootID: "boot"}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open2(t testing.TB, fs durable.FS) (*Journal, *Recovery) {
	t.Helper()
	j, rec, err := Open("/state/journal", testConfig, testOptions(fs))
	must(t, err)
	t.Cleanup(func() { j.Close() })
	return j, rec
}

// all1 wants every batch.
func all1(record.BatchID) bool { return true }

func file1(id int) record.File { return record.File{Input: "app", ID: record.FileID(id)} }

func batchID(n int) (id record.BatchID) {
	id[0], id[1], id[15] = 1, byte(n>>8), byte(n) // zero is no id
	return id
}

// payload covers [start, end) of a file.
func payload(n int, f record.File, start, end int64) *record.Payload {
	span := record.Span{Start: start, End: end}
	return &record.Payload{
		ID: batchID(n), Attempt: 1, Records: 1, RawBytes: int(span.Len()), Body: []byte("body"),
		Route:  record.Route{Cluster: "https://c", Database: "d", Table: "t", Format: record.JSON, Mapping: "m"},
		Cover:  []record.Extent{{File: f, Span: span, Mark: markAt(end)}},
		Pieces: []record.Piece{{File: f, Span: span, Records: 1}},
	}
}

// ahead is a range beyond a position, with its mark.
func ahead(f record.File, start, end int64) record.Extent {
	return record.Extent{File: f, Span: record.Span{Start: start, End: end}, Mark: markAt(end)}
}

func markAt(off int64) record.Mark { return record.Mark(off*31 + 7) }

func TestPositionIsTheUnbrokenPrefix(t *testing.T) {
	j, _ := open2(t, faultfs.New("/state"))
	f := file1(1)
	var mu sync.Mutex
	told := map[int64]bool{}
	j.OnSafe(func(all iter.Seq2[record.File, int64]) {
		mu.Lock()
		defer mu.Unlock()
		for _, pos := range all {
			told[pos] = true
		}
	})
	must(t, j.Register(f, record.FileInfo{Path: "/x"}.Facts()))
	for i := range 4 {
		must(t, j.Begin(payload(i, f, int64(i)*10, int64(i)*10+10)))
	}
	want := func(pos int64, ahead ...record.Extent) {
		t.Helper()
		st, _ := j.State(f)
		if st.Position != pos || !reflect.DeepEqual(st.Ahead, ahead) {
			t.Errorf("position %d, ahead %v, want %d, %v", st.Position, st.Ahead, pos, ahead)
		}
		if at, mark := j.Position(f); at != pos || pos > 0 && mark != markAt(pos) {
			t.Errorf("position %d with mark %d, want that of %d", at, mark, pos)
		}
	}
	want(0, ahead(f, 0, 40))
	must(t, j.End(batchID(1), record.Accepted))
	must(t, j.End(batchID(3), record.Quarantined))
	want(0, ahead(f, 0, 40))
	must(t, j.End(batchID(0), record.Spooled))
	want(20, ahead(f, 20, 40))
	must(t, j.Skip(f, record.Span{Start: 40, End: 45}, markAt(45)))
	must(t, j.End(batchID(2), record.Dropped))
	want(45)
	if !told[20] || !told[45] || len(told) != 2 {
		t.Errorf("told of %v, want 20 and 45", told)
	}
	if err := j.End(batchID(2), record.Accepted); !errors.Is(err, ErrNotBegun) {
		t.Errorf("a second end: %v, want ErrNotBegun", err)
	}
}

func TestSplitAndReplacedAreNotSafe(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	f := file1(1)
	must(t, j.Begin(payload(7, f, 0, 10)))
	must(t, j.End(batchID(7), record.Replaced))
	must(t, j.Begin(payload(8, f, 0, 10)))
	must(t, j.End(batchID(8), record.Split))
	if pos, _ := j.Position(f); pos != 0 {
		t.Errorf("position %d, want 0: nothing is safe yet", pos)
	}
	must(t, j.Begin(payload(1, f, 0, 100)))
	must(t, j.Split(batchID(1), []*record.Payload{payload(2, f, 0, 40), payload(3, f, 40, 100)}))
	must(t, j.End(batchID(2), record.Accepted))
	again := payload(4, f, 40, 100)
	again.Replaces = batchID(3)
	must(t, j.Begin(again))
	if pos, _ := j.Position(f); pos != 40 {
		t.Errorf("position %d, want 40", pos)
	}
	must(t, j.Close())
	j, rec := open2(t, fs)
	if len(rec.Begun) != 1 || rec.Begun[0].ID != batchID(4) || rec.Begun[0].Replaces != batchID(3) {
		t.Errorf("begun %+v, want the replacing batch alone", rec.Begun)
	}
	must(t, j.End(batchID(4), record.SourceGone))
	if pos, mark := j.Position(f); pos != 100 || mark != markAt(100) {
		t.Errorf("position %d, want 100", pos)
	}
}

func TestEverythingIsRememberedAcrossRuns(t *testing.T) {
	fs := faultfs.New("/state")
	j, rec := open2(t, fs)
	if !rec.Clean || len(rec.Problems) > 0 {
		t.Errorf("first start: %+v, want clean", rec)
	}
	f, g := file1(1), record.File{Input: "other", ID: 9, Generation: 3}
	info := record.FileInfo{Path: "/a", First: "/b", Dev: 1, Inode: 2, Birth: -3, Handle: "\x01\x02", Size: 5,
		Head: record.Head{Len: 4, Sum: 99}, Encoding: "utf-16le", Done: true, Old: 3, Packed: record.Packed{Size: 7, Mtime: -8, Cut: true}, Real: "/c/d", Dated: 10, Doubted: 11, Lost: 12, Told: true, Seen: 13}
	known, err := j.InputSeen("app")
	if must(t, err); known {
		t.Error("a new input was known")
	}
	must(t, j.Register(f, info.Facts()))
	must(t, j.Register(g, record.FileInfo{Path: "/g"}.Facts()))
	must(t, j.Skip(g, record.Span{Start: 10, End: 20}, markAt(20)))
	p := payload(1, f, 0, 50)
	p.Lens, p.Gzip, p.CRC, p.Shaping, p.ReadAt = []byte{1}, true, 0xdeadbeef, 42, time.Unix(5, 6)
	p.Cover = append(p.Cover, ahead(g, 30, 31))
	p.Pieces = append(p.Pieces, record.Piece{File: g, Span: record.Span{Start: 30, End: 31}, Records: 4}, record.Piece{File: f, Span: record.Span{Start: 50, End: 51}, Records: 1})
	must(t, j.Begin(p))
	for p.Attempt = 2; p.Attempt < 5; p.Attempt++ {
		must(t, j.Begin(p))
	}
	check := func() {
		t.Helper()
		st, ok := j.State(f)
		if !ok || st.Info.Info() != info || !reflect.DeepEqual(st.Ahead, []record.Extent{ahead(f, 0, 50)}) {
			t.Errorf("file %+v, want %+v", st, info)
		}
		files := j.Files("other")
		if len(files) != 1 || files[0].File != g || !reflect.DeepEqual(files[0].Ahead, []record.Extent{ahead(g, 10, 20), ahead(g, 30, 31)}) {
			t.Errorf("files %+v", files)
		}
		if known, _ := j.InputSeen("app"); !known {
			t.Error("the input is not known")
		}
	}
	check()
	for _, stop := range []func(){func() { must(t, j.Close()) }, func() { fs = fs.Crash(faultfs.Kill, 0) }} {
		stop()
		j, rec = open2(t, fs)
		check()
		want := Begun{Payload: *p, HadLens: true}
		want.Body, want.Lens, want.Attempt = nil, nil, 4
		if len(rec.Begun) != 1 || !reflect.DeepEqual(rec.Begun[0], want) {
			t.Errorf("begun %+v, want %+v", rec.Begun, want)
		}
	}
	if rec.Clean || len(rec.Problems) > 0 {
		t.Errorf("after a kill: %+v, want not clean and nothing damaged", rec)
	}
	must(t, j.Forget(g))
	must(t, j.Sync()) // Forget does not wait
	if _, ok := j.State(g); ok {
		t.Error("a forgotten file is known")
	}
	must(t, j.End(batchID(1), record.Accepted))
	if _, ok := j.State(g); ok {
		t.Error("a forgotten file came back with the end of a batch")
	}
}

// What became of batches in the spool is remembered, across segments and runs,
// until they are removed from there.
func TestReplaysAreRemembered(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	for n := 1; n <= 4; n++ {
		must(t, j.Begin(payload(n, file1(1), int64(n)*10-10, int64(n)*10)))
		must(t, j.End(batchID(n), record.Spooled))
		must(t, j.Replay(batchID(n), n+1))
	}
	must(t, j.Replay(batchID(1), 7))
	must(t, j.Answered(batchID(1), 2)) // of a request before that
	must(t, j.Answered(batchID(4), 5))
	must(t, j.Replay(batchID(4), 5)) // as it is repeated in another segment
	must(t, j.Answered(batchID(2), 3))
	must(t, j.EndReplay(batchID(2), record.Accepted))
	must(t, j.EndReplay(batchID(3), record.Quarantined))
	if pos, _ := j.Position(file1(1)); pos != 40 {
		t.Errorf("position %d, want 40", pos)
	}
	for n := range 200 { // more segments
		must(t, j.Skip(file1(2), record.Span{Start: int64(n), End: int64(n) + 1}, 1))
	}
	for range 2 {
		must(t, j.Close())
		var rec *Recovery
		j, rec = open2(t, fs)
		replays := map[record.BatchID]int{batchID(1): 7, batchID(4): 5}
		ended := map[record.BatchID]record.Outcome{batchID(2): record.Accepted, batchID(3): record.Quarantined}
		answered := map[record.BatchID]bool{batchID(4): true}
		if !reflect.DeepEqual(rec.Replays, replays) || !reflect.DeepEqual(rec.Answered, answered) || !reflect.DeepEqual(rec.Ended, ended) || len(rec.Begun) > 0 {
			t.Errorf("recovered %+v, want %v and %v", rec, replays, ended)
		}
	}
	j.Removed([]record.BatchID{batchID(1), batchID(2), batchID(3)})
	for n := range 200 {
		must(t, j.Skip(file1(3), record.Span{Start: int64(n), End: int64(n) + 1}, 1))
	}
	must(t, j.Close())
	if _, rec := open2(t, fs); len(rec.Ended) > 0 || len(rec.Replays) != 1 {
		t.Errorf("%v and %v are remembered of batches that were removed", rec.Ended, rec.Replays)
	}
}

// One that is put into the spool anew has not ended, whatever became of an older
// frame of it.
func TestSpooledAgain(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	must(t, j.Begin(payload(1, file1(1), 0, 10)))
	must(t, j.EndReplay(batchID(1), record.Replaced)) // a frame that was cut short
	must(t, j.End(batchID(1), record.Spooled))
	for range 2 {
		must(t, j.Close())
		var rec *Recovery
		if j, rec = open2(t, fs); len(rec.Ended) > 0 {
			t.Errorf("%v are remembered as ended", rec.Ended)
		}
	}
	// One whose frame was lost is sent from hand in the end.
	must(t, j.Replay(batchID(1), 2))
	must(t, j.Begin(payload(1, file1(1), 0, 10)))
	must(t, j.End(batchID(1), record.Accepted))
	must(t, j.Close())
	j, rec := open2(t, fs)
	if all, err := inSpool(fs, "/state/journal", all1); len(rec.Replays)+len(all) > 0 || err != nil {
		t.Errorf("%v and %v are remembered as in the spool: %v", rec.Replays, all, err)
	}
	must(t, j.Close())
}

// The history tells what should be in the spool.
func TestInSpool(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	for n := 1; n <= 6; n++ {
		must(t, j.Begin(payload(n, file1(1), int64(n)*10-10, int64(n)*10)))
	}
	must(t, j.Split(batchID(6), []*record.Payload{payload(7, file1(1), 50, 55), payload(8, file1(1), 55, 60)}))
	for n, how := range map[int]record.Outcome{1: record.Spooled, 2: record.Accepted, 3: record.Spooled, 4: record.Quarantined, 8: record.Spooled} {
		must(t, j.End(batchID(n), how))
	}
	must(t, j.EndReplay(batchID(3), record.Accepted))
	for n := range 200 { // more segments, with snapshots
		must(t, j.Skip(file1(2), record.Span{Start: int64(n), End: int64(n) + 1}, 1))
	}
	again := payload(5, file1(1), 40, 50)
	again.Attempt = 3
	must(t, j.Begin(again))
	must(t, j.End(batchID(5), record.Spooled))
	must(t, j.Replay(batchID(1), 7))
	got := map[int]record.Span{}
	if none, err := inSpool(fs, "/state/journal", func(record.BatchID) bool { return false }); len(none) > 0 || err != nil {
		t.Errorf("%d batches that nobody wants, %v", len(none), err)
	}
	all, err := inSpool(fs, "/state/journal", all1)
	must(t, err)
	for id, p := range all {
		got[int(id[15])] = p.Cover[0].Span
	}
	want := map[int]record.Span{1: {Start: 0, End: 10}, 5: {Start: 40, End: 50}, 8: {Start: 55, End: 60}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("in the spool: %v, want %v", got, want)
	}
	if a, b := all[batchID(1)].Attempt, all[batchID(5)].Attempt; a != 7 || b != 3 {
		t.Errorf("attempts %d and %d, want the last, 7 and 3", a, b)
	}
}

// TestInSpoolOfASickDisk: what the journal was told and could not write counts too, as far
// as it is about attempts and ends.
func TestInSpoolOfASickDisk(t *testing.T) {
	fs := faultfs.New("/state")
	var full atomic.Bool
	fs.Judge = func(faultfs.Op) (v faultfs.Verdict) {
		if full.Load() {
			v.Err = faultfs.NoSpace
		}
		return v
	}
	j, _ := open2(t, fs)
	for n := 1; n <= 2; n++ {
		must(t, j.Begin(payload(n, file1(1), int64(n)*10-10, int64(n)*10)))
		must(t, j.End(batchID(n), record.Spooled))
	}
	full.Store(true)
	for _, err := range []error{j.Replay(batchID(1), 3), j.EndReplay(batchID(2), record.Accepted)} {
		if !errors.Is(err, faultfs.NoSpace) {
			t.Errorf("told on a full disk: %v", err)
		}
	}
	all, err := j.InSpool(all1)
	must(t, err)
	if p := all[batchID(1)]; len(all) != 1 || p == nil || p.Attempt != 3 {
		t.Errorf("in the spool: %+v, want the first with 3 attempts", all)
	}
	full.Store(false)
	must(t, j.Close())
}

func TestRegisterWritesOnlyChanges(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	info := record.FileInfo{Path: "/a", Handle: "\x01"}
	must(t, j.Register(file1(1), info.Facts()))
	before := fs.Ops()
	must(t, j.Register(file1(1), info.Facts()))
	if fs.Ops() != before {
		t.Error("what was known was written again")
	}
	info.Size = 7
	must(t, j.Register(file1(1), info.Facts()))
	if fs.Ops() == before {
		t.Error("a change was not written")
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	j, _ := open2(t, faultfs.New("/state"))
	f := file1(1)
	bad, nameless := payload(1, f, 10, 5), payload(1, f, 0, 5)
	nameless.ID = record.BatchID{}
	for _, err := range []error{j.Begin(bad), j.Begin(nameless), j.Skip(f, record.Span{Start: -1, End: 4}, 0), j.Split(batchID(1), nil)} {
		if err == nil {
			t.Error("nonsense was taken in")
		}
	}
	must(t, j.Begin(payload(2, f, 0, 5)))
	if err := j.Split(batchID(2), []*record.Payload{bad}); err == nil {
		t.Error("a split into nonsense was taken in")
	}
	must(t, j.Close())
	if err := j.Begin(payload(3, f, 0, 5)); !errors.Is(err, ErrClosed) {
		t.Errorf("begin after close: %v", err)
	}
	must(t, j.Close())
}

// Segments follow one another, old ones go, and the state stays.
func TestHistoryIsBounded(t *testing.T) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	cfg := Config{MaxSize: 20 * units.KiB}
	j, _, err := Open("/state/journal", testConfig, o)
	must(t, err)
	j.SetConfig(cfg) // as a reload does
	f := file1(1)
	for i := range 500 {
		must(t, j.Begin(payload(i, f, int64(i), int64(i)+1)))
		must(t, j.End(batchID(i), record.Accepted))
	}
	must(t, j.Close())
	names, err := listSegments(fs, "/state/journal")
	must(t, err)
	total := 0
	for _, s := range names {
		total += len(fs.Content("/state/journal/" + s.name))
	}
	if len(names) < 3 || total > 20<<10 {
		t.Errorf("%d segments of %d bytes, want some and at most 20 KiB", len(names), total)
	}
	entries, last := 0, uint64(0)
	must(t, read(fs, "/state/journal", func(e Entry) error {
		if last > 0 && e.Number > last+1 { // less: told while the next segment was made, to both
			return fmt.Errorf("entry %d follows %d", e.Number, last)
		}
		last = e.Number
		entries++
		return nil
	}))
	j, rec, err := Open("/state/journal", cfg, o)
	must(t, err)
	defer j.Close()
	if pos, _ := j.Position(f); pos != 500 || !rec.Clean || entries < 50 {
		t.Errorf("position %d, recovery %+v, %d entries", pos, rec, entries)
	}
}

// What a restart may need stays whatever the bounds say.
func TestTheSegmentBeforeStays(t *testing.T) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	for range 4 {
		j, _, err := Open("/state/journal", Config{}, o)
		must(t, err)
		must(t, j.Close())
	}
	if names, _ := listSegments(fs, "/state/journal"); len(names) != 2 {
		t.Errorf("%d segments, want the newest and the one before", len(names))
	}
}

// A segment is durable before the next one follows it: a power cut leaves no
// hole in the history but at its end.
func TestHistoryHasNoHoles(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	for i := range 100 {
		must(t, j.Skip(file1(1), record.Span{Start: int64(i), End: int64(i) + 1}, 0))
	}
	left := fs.Crash(faultfs.Drop, 0)
	last := uint64(0)
	must(t, read(left, "/state/journal", func(e Entry) error {
		if e.Number > last+1 {
			t.Errorf("entry %d follows %d", e.Number, last)
		}
		last = e.Number
		return nil
	}))
	if last < 60 {
		t.Errorf("%d entries, want several segments of them", last)
	}
}

// What an unclean stop left allocated is given back at the next start.
func TestUnusedSpaceIsGivenBack(t *testing.T) {
	fs, path := damaged(t, script()[:3])
	before := len(fs.Content(path))
	open2(t, fs)
	if after := len(fs.Content(path)); after >= before || after%8 != 0 {
		t.Errorf("%d bytes of %d are left, want only those in use", after, before)
	}
}

// A batch whose cover is safe by other means has nothing left to send.
func TestCoveredBatchIsOver(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	f := file1(1)
	for n, at := range map[int]int64{1: 0, 2: 50} {
		must(t, j.Begin(payload(n, f, at, at+10)))
		must(t, j.Skip(f, record.Span{Start: at, End: at + 10}, 0))
	}
	must(t, j.Begin(payload(3, f, 60, 61)))
	if _, rec := open2(t, fs.Crash(faultfs.Kill, 0)); len(rec.Begun) != 1 || rec.Begun[0].ID != batchID(3) {
		t.Errorf("begun %+v, want the third alone", rec.Begun)
	}
}

func TestOldHistoryGoes(t *testing.T) {
	fs := faultfs.New("/state")
	now := time.Unix(1e9, 0)
	o := testOptions(fs)
	o.Now = func() time.Time { return now }
	cfg := Config{MaxSize: units.GiB, MaxAge: units.Duration(time.Hour)}
	for range 5 {
		j, _, err := Open("/state/journal", cfg, o)
		must(t, err)
		must(t, j.Close())
		now = now.Add(50 * time.Minute)
	}
	names, _ := listSegments(fs, "/state/journal")
	if len(names) != 3 { // the newest, the one before, and one that ended less than an hour ago
		t.Errorf("%d segments, want 3", len(names))
	}
}

func TestConcurrentUse(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			f := file1(w)
			for i := range 100 {
				n := w*100 + i
				if err := errors.Join(j.Begin(payload(n, f, int64(i), int64(i)+1)), j.End(batchID(n), record.Accepted)); err != nil {
					t.Error(err)
				}
				if i%30 == 0 {
					j.Files("app")
					if err := j.Sync(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	fs = fs.Crash(faultfs.Kill, 0)
	j2, rec := open2(t, fs)
	for w := range 8 {
		if pos, _ := j2.Position(file1(w)); pos != 100 {
			t.Errorf("file %d at %d, want 100", w, pos)
		}
	}
	if len(rec.Begun) > 0 {
		t.Errorf("%d batches begun, want none", len(rec.Begun))
	}
}
