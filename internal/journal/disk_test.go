package journal

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// While the disk is full delivery goes on from memory; when there is room again
// the journal comes back by itself, with all that ended meanwhile.
func TestFullDiskHealsByItself(t *testing.T) {
	for _, events := range []int{3, 60_000} { // within and above what is kept for the history
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.New("/state")
			var full atomic.Bool
			fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
				if full.Load() && (op.Kind == "write" || op.Kind == "allocate") {
					v.Err = faultfs.NoSpace
				}
				return v
			}
			healed := make(chan struct{}, 1)
			o := testOptions(fs)
			o.Logger = slog.New(logHook(func(m string) {
				if m == "journal writes succeed again" {
					healed <- struct{}{}
				}
			}))
			j, _, err := Open("/state/journal", testConfig, o)
			must(t, err)
			must(t, j.Sync())
			full.Store(true)
			f := file1(1)
			for i := range events {
				if err := j.Skip(f, record.Span{Start: int64(i), End: int64(i) + 1}, markAt(int64(i)+1)); !errors.Is(err, faultfs.NoSpace) {
					t.Fatalf("skip %d on a full disk: %v", i, err)
				}
			}
			if pos, _ := j.Position(f); pos != int64(events) {
				t.Errorf("position %d, want %d: the state goes on", pos, events)
			}
			if !errors.Is(j.Health(), faultfs.NoSpace) {
				t.Errorf("health %v, want the reason", j.Health())
			}
			if err := j.Sync(); !errors.Is(err, faultfs.NoSpace) {
				t.Errorf("sync: %v", err)
			}
			before := fs.Ops()
			for range 5 {
				_ = j.Register(f, record.FileInfo{Size: int64(before)}.Facts()) // told to a full disk
				synctest.Wait()
			}
			if fs.Ops() != before {
				t.Errorf("%d operations in no time: a full disk is tried again and again", fs.Ops()-before)
			}
			full.Store(false)
			<-healed
			must(t, j.Sync())
			must(t, j.Health())
			left := fs.Crash(faultfs.Drop, 0)
			must(t, j.Close())
			told := 0
			must(t, read(left, "/state/journal", func(e Entry) error {
				if e.Kind == Skip && !e.InSnapshot {
					told++
				}
				return nil
			}))
			if events < 1000 && told < events { // above the bound all of it is in the snapshot alone
				t.Errorf("the history tells of %d ranges, want %d", told, events)
			}
			j2, _, err := Open("/state/journal", testConfig, testOptions(left))
			must(t, err)
			if pos, _ := j2.Position(f); pos != int64(events) {
				t.Errorf("after the next start %d, want %d", pos, events)
			}
			must(t, j2.Close())
		})
	}
}

// hanging is a disk that hangs in the operations that in says, from hang until thaw.
func hanging(in func(faultfs.Op) bool) (fs *faultfs.FS, hang, thaw func()) {
	fs = faultfs.New("/state")
	var on atomic.Bool
	over := make(chan struct{})
	fs.Judge = func(op faultfs.Op) faultfs.Verdict {
		if on.Load() && in(op) {
			<-over
		}
		return faultfs.Verdict{}
	}
	thaw = func() {
		on.Store(false)
		close(over)
	}
	return fs, func() { on.Store(true) }, thaw
}

// A disk that hangs holds nobody longer than the bound, and the next one not at
// all; when it answers again everything is written.
func TestStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hanging(func(op faultfs.Op) bool { return op.Kind == "write" })
		o := testOptions(fs)
		o.Stall = 5 * time.Second
		j, _, err := Open("/state/journal", testConfig, o)
		must(t, err)
		f := file1(1)
		hang()
		start := time.Now()
		for n, want := range map[int]time.Duration{1: 5 * time.Second} {
			if err := j.Begin(payload(n, f, 0, 10)); !errors.Is(err, record.ErrStalled) {
				t.Errorf("begin: %v, want ErrStalled", err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("begin took %v, want %v", took, want)
			}
		}
		for _, err := range []error{j.End(batchID(1), record.Accepted), j.Sync(), j.Health()} {
			if !errors.Is(err, record.ErrStalled) || time.Since(start) != 5*time.Second {
				t.Errorf("%v after %v, want ErrStalled at once", err, time.Since(start))
			}
		}
		if pos, _ := j.Position(f); pos != 10 {
			t.Errorf("position %d, want 10", pos)
		}
		thaw()
		synctest.Wait()
		must(t, j.Health())
		must(t, j.Sync())
		left := fs.Crash(faultfs.Drop, 0)
		must(t, j.Close())
		j2, rec, err := Open("/state/journal", testConfig, testOptions(left))
		must(t, err)
		if pos, _ := j2.Position(f); pos != 10 || len(rec.Begun) > 0 {
			t.Errorf("after the next start %d and %v begun, want 10 and none", pos, rec.Begun)
		}
		must(t, j2.Close())
	})
}

// TestFoundDoesNotWait: Found and Forget return while the disk hangs, and take effect behind what was told
// before.
func TestFoundDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hanging(func(op faultfs.Op) bool { return op.Kind == "write" })
		j, _, err := Open("/state/journal", testConfig, testOptions(fs))
		must(t, err)
		f, g := file1(1), file1(2)
		was, is := record.FileInfo{Path: "/was"}.Facts(), record.FileInfo{Path: "/is"}.Facts()
		must(t, j.Register(g, was))
		hang()
		go func() { _ = j.Register(f, was) }()
		synctest.Wait()
		start := time.Now()
		must(t, j.Found(f, is))
		must(t, j.Forget(g))
		if took := time.Since(start); took > 0 {
			t.Errorf("they took %v", took)
		}
		thaw()
		synctest.Wait()
		st, _ := j.State(f)
		if _, known := j.State(g); st.Info != is || known {
			t.Errorf("%v is known, and the forgotten file: %v", st.Info.Info(), known)
		}
		must(t, j.Close())
	})
}

// TestOrderAroundAStall: what is told of a file while the disk hangs, and before that is known, is known in
// the order in which it was told, and by the next start too.
func TestOrderAroundAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hanging(func(op faultfs.Op) bool { return op.Kind == "write" })
		o := testOptions(fs)
		o.Stall = 5 * time.Second
		j, _, err := Open("/state/journal", testConfig, o)
		must(t, err)
		f, g, h := file1(1), file1(2), file1(3)
		one, two := record.FileInfo{Path: "/one"}.Facts(), record.FileInfo{Path: "/two"}.Facts()
		must(t, j.Register(g, one))
		must(t, j.Register(h, one))
		hang()
		must(t, j.Found(f, one))
		must(t, j.Forget(g))
		must(t, j.Forget(h))
		time.Sleep(6 * time.Second)
		must(t, j.Found(f, two))
		must(t, j.Found(g, two))
		_ = j.Register(h, one) // which it had before it was forgotten
		check := func() {
			t.Helper()
			for file, want := range map[record.File]record.Facts{f: two, g: two, h: one} {
				if st, ok := j.State(file); !ok || st.Info != want {
					t.Errorf("of %v is known %v", file, st.Info.Info())
				}
			}
		}
		check()
		thaw()
		synctest.Wait()
		must(t, j.Sync())
		check()
		must(t, j.Close())
		j, _, err = Open("/state/journal", testConfig, testOptions(fs))
		must(t, err)
		check()
		must(t, j.Close())
	})
}

// A long stall is kept within a bound of memory; what was above it is in the
// next snapshot, and one snapshot is enough.
func TestLongStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hanging(func(op faultfs.Op) bool { return op.Kind == "write" })
		o := testOptions(fs)
		o.Stall, o.SegmentSize = time.Second, 16<<20
		j, _, err := Open("/state/journal", testConfig, o)
		must(t, err)
		hang()
		const events = 60_000
		f := file1(1)
		for i := range int64(events) {
			_ = j.Skip(f, record.Span{Start: i, End: i + 1}, markAt(i+1)) // stalled, as told elsewhere
		}
		j.mu.Lock()
		queued, waiting := j.queued, len(j.queue)
		j.mu.Unlock()
		if queued > maxQueued || waiting >= events-1 {
			t.Errorf("%d entries of %d bytes wait, want at most %d bytes", waiting, queued, maxQueued)
		}
		thaw()
		synctest.Wait()
		for range 5 {
			must(t, j.Sync())
		}
		left := fs.Crash(faultfs.Drop, 0)
		must(t, j.Close())
		names, err := listSegments(left, "/state/journal")
		if must(t, err); len(names) != 2 {
			t.Errorf("%d segments, want the one that hung and one more", len(names))
		}
		j2, _, err := Open("/state/journal", testConfig, testOptions(left))
		must(t, err)
		if pos, _ := j2.Position(f); pos != events {
			t.Errorf("after the next start %d, want %d", pos, events)
		}
		must(t, j2.Close())
	})
}

// A hung disk does not hold the end of the agent.
func TestCloseOfStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hanging(func(faultfs.Op) bool { return true })
		o := testOptions(fs)
		o.Stall = time.Second
		j, _, err := Open("/state/journal", testConfig, o)
		must(t, err)
		hang()
		if err := j.Close(); !errors.Is(err, record.ErrStalled) {
			t.Errorf("close: %v, want ErrStalled", err)
		}
		thaw()
	})
}

// The journal syncs by itself once in a while, only while it grows.
func TestSyncsWhileItGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		var syncs atomic.Int32
		fs.Judge = func(op faultfs.Op) faultfs.Verdict {
			if op.Kind == "sync" {
				syncs.Add(1)
			}
			return faultfs.Verdict{}
		}
		o := testOptions(fs)
		o.SyncEvery = time.Second
		j, _, err := Open("/state/journal", testConfig, o)
		must(t, err)
		synctest.Wait()
		opened := syncs.Load()
		for _, step := range []struct {
			entries int
			wait    time.Duration
			want    int32
		}{{0, time.Hour, 0}, {3, 999 * time.Millisecond, 0}, {0, 2 * time.Millisecond, 1}, {0, time.Hour, 1}, {1, 2 * time.Second, 2}} {
			for range step.entries {
				must(t, j.Skip(file1(1), record.Span{Start: 5, End: 6}, 0))
			}
			<-time.After(step.wait) // the clock of the bubble
			synctest.Wait()
			if got := syncs.Load() - opened; got != step.want {
				t.Errorf("after %v: %d syncs, want %d", step.wait, got, step.want)
			}
		}
		must(t, j.Close())
	})
}

// That the disk hangs is told once, and that it answers again, also where it is
// the removal of history that hangs; an end that comes meanwhile waits no more.
func TestStallIsTold(t *testing.T) {
	for _, kind := range []string{"write", "sync", "create", "remove"} {
		for _, closes := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { testStallIsTold(t, kind, closes) })
		}
	}
}

func testStallIsTold(t *testing.T, kind string, closes bool) {
	fs, hang, thaw := hanging(func(op faultfs.Op) bool { return op.Kind == kind })
	var told, over atomic.Int32
	o := testOptions(fs)
	o.Stall, o.SyncEvery, o.SegmentSize = 5*time.Second, time.Second, 300
	o.Logger = slog.New(logHook(func(m string) {
		switch m {
		case "journal write failed: delivery continues, records acknowledged meanwhile may be sent again after a restart":
			told.Add(1)
		case "journal writes succeed again":
			over.Add(1)
		}
	}))
	j, _, err := Open("/state/journal", Config{MaxSize: 1}, o)
	must(t, err)
	fill := func() { // more than one segment
		for i := range int64(20) {
			_ = j.Skip(file1(1), record.Span{Start: i, End: i + 1}, 0)
		}
	}
	fill()
	hang()
	fill()
	<-time.After(10 * time.Second) // the clock of the bubble
	for range 3 {
		if err := j.Health(); !errors.Is(err, record.ErrStalled) {
			t.Errorf("%s hangs: health %v, want ErrStalled", kind, err)
		}
	}
	start := time.Now()
	if closes {
		if err := j.Close(); !errors.Is(err, record.ErrStalled) || time.Since(start) > 0 {
			t.Errorf("%s hangs: close %v after %v, want ErrStalled at once", kind, err, time.Since(start))
		}
	}
	thaw()
	synctest.Wait()
	must(t, j.Health())
	if told.Load() != 1 || over.Load() != 1 {
		t.Errorf("%s hangs: told %d times, and %d times that it is over", kind, told.Load(), over.Load())
	}
	must(t, j.Close())
}

// A segment has all that is to be repeated behind its snapshot when it gets its name:
// with some of it a start would know of a payload that it is in the spool, and not that it
// has ended there.
func TestKillWhileEntriesAreRepeated(t *testing.T) {
	for n := int64(1); ; n++ { // the operation at which the process is killed
		var sick, dead atomic.Bool
		over := false
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.New("/state")
			var ops atomic.Int64
			fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
				switch {
				case dead.Load() || sick.Load() && ops.Add(1) == n+1:
					dead.Store(true)
					return faultfs.Verdict{Err: faultfs.ErrKilled, Short: true}
				case sick.Load() && ops.Load() == 1: // the segment is abandoned
					return faultfs.Verdict{Err: errors.New("input/output error")}
				}
				return v
			}
			j, _ := open2(t, fs)
			must(t, j.Begin(payload(1, file1(1), 0, 10)))
			must(t, j.End(batchID(1), record.Spooled))
			must(t, j.Replay(batchID(1), 1))
			must(t, j.EndReplay(batchID(1), record.Accepted))
			sick.Store(true)
			_ = j.Skip(file1(2), record.Span{End: 10}, markAt(10))
			_ = j.Skip(file1(2), record.Span{Start: 10, End: 20}, markAt(20)) // waits, where no segment can be had
			time.Sleep(time.Minute)
			over = !dead.Load()
			left := fs.Crash(faultfs.Kill, 0)
			_ = j.Close()
			j, rec := open2(t, left)
			if rec.Ended[batchID(1)] != record.Accepted {
				t.Errorf("killed at operation %d: ended %v, replays %v, want that 1 was accepted", n, rec.Ended, rec.Replays)
			}
			must(t, j.Close())
		})
		if over {
			return
		}
	}
}

// What waits while the disk is full, and lost its end to the bound of the queue, is
// not repeated behind the snapshot that has all of it: the state would go back.
func TestOverflowRepeatsNothingOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		var full atomic.Bool
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if full.Load() && (op.Kind == "write" || op.Kind == "create") {
				v.Err = faultfs.NoSpace
			}
			return v
		}
		o := testOptions(fs)
		o.SegmentSize = 16 << 20
		j, _, err := Open("/state/journal", testConfig, o)
		must(t, err)
		f, g := file1(1), file1(2)
		parent, x := payload(1, f, 0, 100), payload(2, f, 100, 200)
		full.Store(true)
		_, _ = j.Begin(parent), j.Begin(x) // the disk is full, as told elsewhere
		_ = j.EndReplay(x.ID, record.Replaced)
		for i := range int64(60_000) {
			_ = j.Skip(g, record.Span{Start: i, End: i + 1}, markAt(i+1))
		}
		_ = j.Split(parent.ID, []*record.Payload{payload(3, f, 0, 50), payload(4, f, 50, 100)})
		_ = j.End(x.ID, record.Spooled)
		full.Store(false)
		<-time.After(2 * lastRetry)
		synctest.Wait()
		must(t, j.Health())
		must(t, j.Sync())
		left := fs.Crash(faultfs.Kill, 0)
		must(t, j.Close())
		j, rec := open2(t, left)
		var begun []record.BatchID
		for _, b := range rec.Begun {
			begun = append(begun, b.ID)
		}
		if len(begun) != 2 || begun[0] != batchID(3) || begun[1] != batchID(4) || len(rec.Ended) > 0 {
			t.Errorf("begun %v, ended %v, want both halves begun and nothing ended", begun, rec.Ended)
		}
		must(t, j.Close())
	})
}

// Nobody waits for the segment to come: where the disk hangs over it, entries are written
// to the one before, and a kill leaves all of them.
func TestNobodyWaitsForTheNextSegment(t *testing.T) {
	for _, kind := range []string{"create", "write", "allocate", "sync", "rename"} {
		synctest.Test(t, func(t *testing.T) {
			var hung atomic.Int32
			fs, hang, thaw := hanging(func(op faultfs.Op) bool {
				hangs := op.Kind == kind && strings.Contains(op.Name, "2.seg")
				if hangs {
					hung.Add(1)
				}
				return hangs
			})
			o := testOptions(fs)
			o.SegmentSize = 8 << 10
			j, _, err := Open("/state/journal", testConfig, o)
			must(t, err)
			hang()
			start := time.Now()
			const events = 100 // more than one segment, and less than two
			for i := range int64(events) {
				must(t, j.Skip(file1(1), record.Span{Start: i, End: i + 1}, markAt(i+1)))
				synctest.Wait()
			}
			if took := time.Since(start); took > 0 || hung.Load() == 0 {
				t.Errorf("%s hangs %d times: %d entries took %v", kind, hung.Load(), events, took)
			}
			left := fs.Crash(faultfs.Kill, 0)
			thaw()
			must(t, j.Sync())
			synctest.Wait()
			must(t, j.Health())
			names, err := listSegments(fs, "/state/journal")
			if must(t, err); len(names) < 2 {
				t.Errorf("%s hung: no segment follows", kind)
			}
			must(t, j.Close())
			for _, fs := range []*faultfs.FS{left, fs} {
				fs.Judge = nil
				j, _, err := Open("/state/journal", testConfig, testOptions(fs))
				must(t, err)
				if pos, _ := j.Position(file1(1)); pos != events {
					t.Errorf("%s hung: position %d, want %d", kind, pos, events)
				}
				must(t, j.Close())
			}
		})
	}
}

// nearlyFull is a disk that has room for so many bytes in a file.
type nearlyFull struct {
	durable.FS
	free int64
}

func (d nearlyFull) Open(name string, flag int) (durable.File, error) {
	f, err := d.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return nearlyFullFile{f, d.free}, nil
}

type nearlyFullFile struct {
	durable.File
	free int64
}

// Allocate takes what there is before it fails, as some file systems do.
func (f nearlyFullFile) Allocate(size int64) error {
	if size > f.free {
		return errors.Join(f.File.Allocate(f.free), faultfs.NoSpace)
	}
	return f.File.Allocate(size)
}

// TestLittleRoom: a disk that has not the room of a whole segment has a journal all the same.
func TestLittleRoom(t *testing.T) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	o.FS, o.SegmentSize = nearlyFull{fs, 300 << 10}, 16<<20
	j, _, err := Open("/state/journal", testConfig, o)
	must(t, err)
	must(t, j.Health())
	must(t, j.Begin(payload(1, file1(1), 0, 10)))
	must(t, j.End(batchID(1), record.Accepted))
	if size := len(fs.Content("/state/journal/0000000000000001.seg")); size < 150<<10 || size > 300<<10 {
		t.Errorf("%d bytes are set aside, want half of the disk at least and not all of it", size)
	}
	must(t, j.Close())
	j, _ = open2(t, fs)
	if pos, _ := j.Position(file1(1)); pos != 10 {
		t.Errorf("position %d after the next start", pos)
	}
}
