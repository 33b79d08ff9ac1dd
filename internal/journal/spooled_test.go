package journal

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// TestSpoolHas: what the spool said last is known after a stop and after a kill, also where
// a newer segment has begun meanwhile.
func TestSpoolHas(t *testing.T) {
	disk := faultfs.New("/state")
	j, rec := open2(t, disk)
	if len(rec.Spool) > 0 {
		t.Fatalf("a new journal knows of segments %v", rec.Spool)
	}
	want := func(left *faultfs.FS, segments ...uint64) {
		t.Helper()
		j, rec := open2(t, left)
		defer j.Close()
		if !slices.Equal(rec.Spool, segments) {
			t.Errorf("segments %v, want %v", rec.Spool, segments)
		}
	}
	j.SpoolHas([]uint64{1})
	j.SpoolHas([]uint64{1, 5, 1 << 40})
	must(t, j.Sync())
	want(disk.Crash(faultfs.Kill, 0), 1, 5, 1<<40)
	for n, first := 1, newest(t, disk); newest(t, disk) == first; n++ {
		f := record.File{Input: "in", ID: record.FileID(n), Generation: 1}
		must(t, j.Register(f, record.FileInfo{Path: "/a"}.Facts()))
	}
	want(disk.Crash(faultfs.Kill, 0), 1, 5, 1<<40)
	j.SpoolHas([]uint64{5})
	j.SpoolHas(nil)
	j.SpoolHas([]uint64{7})
	must(t, j.Close())
	want(disk, 7)
}

// TestHoles: entries behind unreadable bytes are taken in, and Recovery says that others may
// be missing before them. A write that was cut short has none behind it.
func TestHoles(t *testing.T) {
	disk := faultfs.New("/state")
	j, _ := open2(t, disk)
	offsets := []int64{0, 0, 0}
	name := "/state/journal/0000000000000001.seg"
	for n := range offsets {
		f := record.File{Input: "in", ID: record.FileID(n + 1), Generation: 1}
		must(t, j.Register(f, record.FileInfo{Path: "/a", Size: int64(n)}.Facts()))
		offsets[n] = usedOf(t, disk, name)
	}
	for _, c := range []struct {
		name  string
		harm  func(b []byte) []byte
		holes bool
		files int
	}{
		{"nothing", func(b []byte) []byte { return b }, false, 3},
		{"the last entry is cut", func(b []byte) []byte { return b[:offsets[2]-3] }, false, 2},
		{"the second entry is damaged", func(b []byte) []byte { b[offsets[1]-9] ^= 1; return b }, true, 2},
	} {
		left := disk.Crash(faultfs.Kill, 0)
		left.Damage(name, c.harm)
		j, rec := open2(t, left)
		if n := len(j.Files("in")); rec.Holes != c.holes || n != c.files {
			t.Errorf("%s: holes %v, %d files, want %v, %d", c.name, rec.Holes, n, c.holes, c.files)
		}
		must(t, j.Close())
	}
}

// TestEndBehindAHole: of a batch of the spool that was replaced by another one there, behind a
// hole that holds what was told of that one, nobody knows that its records are there.
func TestEndBehindAHole(t *testing.T) {
	for _, c := range []struct {
		name    string
		harm    bool
		how     record.Outcome
		inSpool bool
	}{
		{"replaced", false, record.Replaced, false},
		{"replaced, a hole before", true, record.Replaced, true},
		{"divided, a hole before", true, record.Split, true},
		{"accepted, a hole before", true, record.Accepted, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := faultfs.New("/state")
			j, _ := open2(t, disk)
			name := "/state/journal/0000000000000001.seg"
			p, q := payload(1, file1(1), 0, 10), payload(2, file1(1), 0, 10)
			q.Replaces = p.ID
			must(t, j.Begin(p))
			must(t, j.End(p.ID, record.Spooled))
			from := usedOf(t, disk, name)
			must(t, j.Begin(q))
			to := usedOf(t, disk, name)
			must(t, j.End(q.ID, record.Spooled))
			must(t, j.EndReplay(p.ID, c.how))
			left := disk.Crash(faultfs.Kill, 0)
			if c.harm {
				left.Damage(name, func(b []byte) []byte { clear(b[from:to]); return b })
			}
			all, err := inSpool(left, "/state/journal", func(record.BatchID) bool { return true })
			must(t, err)
			if _, is := all[p.ID]; is != c.inSpool {
				t.Errorf("in the spool by the history: %v, want %v", is, c.inSpool)
			}
			must(t, j.Close())
			next, _ := open2(t, left) // which repeats what it read in its snapshot
			next.Removed([]record.BatchID{p.ID})
			all, err = next.InSpool(func(record.BatchID) bool { return true })
			must(t, err)
			if _, is := all[p.ID]; is != c.inSpool {
				t.Errorf("in the spool by the history after a start: %v, want %v", is, c.inSpool)
			}
			must(t, next.Close())
		})
	}
}

// usedOf is where the last entry of a segment ends.
func usedOf(t *testing.T, disk *faultfs.FS, name string) int64 {
	t.Helper()
	rep, err := durable.ReadSegment(disk, name, kind, major, true, func(*durable.Found) error { return nil })
	must(t, err)
	return rep.End
}

// TestInSpoolAfterRepeats: a payload whose first write to the spool failed and whose second
// did not is in the spool also where both is told again in the next segment, and its begin
// is not.
func TestInSpoolAfterRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		var sick atomic.Bool
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if op.Kind == "write" && sick.Swap(false) {
				v.Err = errors.New("input/output error")
			}
			return v
		}
		j, _ := open2(t, fs)
		must(t, j.Begin(payload(1, file1(1), 0, 10)))
		must(t, j.Sync())
		must(t, j.EndReplay(batchID(1), record.Replaced)) // the write may have reached the disk
		must(t, j.End(batchID(1), record.Spooled))
		sick.Store(true)
		_ = j.Skip(file1(2), record.Span{End: 10}, markAt(10))
		time.Sleep(time.Minute)
		left := fs.Crash(faultfs.Kill, 0)
		_ = j.Close()
		all, err := inSpool(left, "/state/journal", func(record.BatchID) bool { return true })
		must(t, err)
		if all[batchID(1)] == nil {
			t.Error("the history does not have it in the spool")
		}
	})
}
