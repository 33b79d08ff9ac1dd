package journal

import (
	"slices"
	"testing"

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
	first, err := disk.List("/state/journal")
	must(t, err)
	for n := 1; slices.ContainsFunc(first, func(name string) bool { _, err := disk.Open("/state/journal/"+name, 0); return err == nil }); n++ {
		f := record.File{Input: "in", ID: record.FileID(n), Generation: 1}
		must(t, j.Register(f, record.FileInfo{Path: "/a"}))
	}
	want(disk.Crash(faultfs.Kill, 0), 1, 5, 1<<40)
	j.SpoolHas([]uint64{5})
	j.SpoolHas(nil)
	j.SpoolHas([]uint64{7})
	must(t, j.Close())
	want(disk, 7)
}
