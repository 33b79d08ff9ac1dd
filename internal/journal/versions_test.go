package journal

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// A journal as the first version wrote it is read in full, and goes on in this one.
func TestFirstVersionIsRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	must(t, os.CopyFS(dir, os.DirFS("testdata/version-1")))
	wantFirst := func(begun ...record.BatchID) {
		t.Helper()
		o := testOptions(nil)
		o.FS = durable.OS
		j, rec, err := Open(dir, testConfig, o)
		must(t, err)
		defer func() { must(t, j.Close()) }()
		if len(rec.Problems) > 0 || !rec.Clean {
			t.Errorf("recovery %+v", rec)
		}
		if !j.InputKnown("app") || j.InputKnown("other") {
			t.Error("inputs are not those of the journal")
		}
		st, _ := j.State(file1(1))
		info := record.FileInfo{Path: "/srv/a.log", First: "/srv/a.log", Dev: 1, Inode: 2, Birth: 3, Handle: []byte{4, 5}, Size: 6, Head: record.Head{Len: 16, Sum: 7}}
		if !reflect.DeepEqual(st.Info, info) || st.Position != 40 || st.Mark != markAt(40) ||
			!reflect.DeepEqual(st.Ahead, []record.Extent{ahead(file1(1), 40, 80), ahead(file1(1), 90, 95)}) {
			t.Errorf("file %+v", st)
		}
		if st, ok := j.State(file1(2)); !ok || !st.Info.Done || st.Position != 0 {
			t.Errorf("file %+v", st)
		}
		if pos, _ := j.Position(file1(3)); pos != 10 {
			t.Errorf("position %d of what is in the spool", pos)
		}
		if _, ok := j.State(file1(4)); ok {
			t.Error("a forgotten file is there")
		}
		var got []record.BatchID
		for _, b := range rec.Begun {
			got = append(got, b.ID)
		}
		if !slices.Equal(got, begun) || rec.Replays[batchID(7)] != 2 || rec.Ended[batchID(8)] != record.Accepted {
			t.Errorf("begun %v, replays %v, ended %v", got, rec.Replays, rec.Ended)
		}
		must(t, j.Register(file1(2), record.FileInfo{Path: "/srv/b.log", Done: true, Old: 7}))
	}
	wantFirst(batchID(2), batchID(5), batchID(6))
	wantFirst(batchID(2), batchID(5), batchID(6)) // as this version wrote it
}

// What was left of a segment that was being made counts for nothing, whatever is in
// it, and is in nobody's way.
func TestTemporarySegment(t *testing.T) {
	for _, content := range []string{"", "junk", "newest"} {
		fs, path := damaged(t, script()[:9])
		newest := fs.Content(path)
		text := []byte(content)
		if content == "newest" {
			text = newest[:len(newest)/2]
		}
		later := strings.Replace(path, "1.seg", "f.seg", 1) + durable.TempSuffix
		same := path + durable.TempSuffix
		fs.SetContent(later, text)
		fs.SetContent(same, text)
		j, rec := open2(t, fs)
		if err := checkRecovered(j, rec, script()[:9], 9, 9); err != nil || len(rec.Problems) > 0 {
			t.Errorf("%q: %v, %q", content, err, rec.Problems)
		}
		must(t, j.Close())
	}
}

// A clock that jumps takes no history away before its time but by the bound on
// its size, and moves no position.
func TestClockJumps(t *testing.T) {
	fs := faultfs.New("/state")
	now := time.Unix(1_790_000_000, 0)
	o := testOptions(fs)
	o.Now = func() time.Time { return now }
	f := file1(1)
	for i, jump := range []time.Duration{0, -24 * time.Hour, 48 * time.Hour, -1000 * time.Hour, time.Hour} {
		now = now.Add(jump)
		j, rec, err := Open("/state/journal", testConfig, o)
		must(t, err)
		if pos, mark := j.Position(f); pos != int64(i)*10 || pos > 0 && mark != markAt(pos) || !rec.Clean {
			t.Errorf("run %d: position %d, %+v", i, pos, rec)
		}
		must(t, j.Register(f, record.FileInfo{Path: "/a"}))
		must(t, j.Begin(payload(i, f, int64(i)*10, int64(i)*10+10)))
		now = now.Add(-time.Hour)
		must(t, j.End(batchID(i), record.Accepted))
		must(t, j.Close())
	}
}

// A version error is told so that it can be acted on.
func TestNewerVersionIsRefused(t *testing.T) {
	fs := faultfs.New("/state")
	put(t, fs, 1, func(h *durable.Header) { h.Major++ }, (&Entry{Kind: Snapshot}).frame())
	_, _, err := Open("/state/journal", testConfig, testOptions(fs))
	if !errors.Is(err, durable.ErrVersion) || !strings.Contains(err.Error(), "/state/journal") {
		t.Errorf("error %v", err)
	}
	t.Log(err)
}
