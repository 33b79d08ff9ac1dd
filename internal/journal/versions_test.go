package journal

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
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
		info := record.FileInfo{Path: "/srv/a.log", First: "/srv/a.log", Dev: 1, Inode: 2, Birth: 3, Handle: "\x04\x05", Size: 6, Head: record.Head{Len: 16, Sum: 7}}
		if st.Info.Info() != info || st.Position != 40 || st.Mark != markAt(40) ||
			!reflect.DeepEqual(st.Ahead, []record.Extent{ahead(file1(1), 40, 80), ahead(file1(1), 90, 95)}) {
			t.Errorf("file %+v", st)
		}
		if st, ok := j.State(file1(2)); !ok || !st.Info.Info().Done || st.Position != 0 {
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
		must(t, j.Register(file1(2), record.FileInfo{Path: "/srv/b.log", Done: true, Old: 7}.Facts()))
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
		must(t, j.Register(f, record.FileInfo{Path: "/a"}.Facts()))
		must(t, j.Begin(payload(i, f, int64(i)*10, int64(i)*10+10)))
		now = now.Add(-time.Hour)
		must(t, j.End(batchID(i), record.Accepted))
		must(t, j.Close())
	}
}

// goldenEntries are one entry of each kind that a minor version writes, with every field
// that it has.
func goldenEntries(minor int) (all []Entry) {
	at := time.Unix(1_790_000_000, 5)
	p := payload(1, file1(1), 10, 30)
	p.Body, p.Replaces, p.Attempt, p.Gzip, p.CRC, p.Shaping, p.ReadAt = nil, batchID(9), 3, true, 0xfedcba98, 1<<60+3, time.Unix(1_780_000_000, 7)
	p.Cover = append(p.Cover, ahead(record.File{Input: "other", ID: 5, Generation: 2}, 1<<40, 1<<40+300))
	p.Pieces = append(p.Pieces, record.Piece{File: p.Cover[1].File, Span: record.Span{Start: 1<<40 + 10, End: 1<<40 + 300}, Records: 12})
	child := payload(2, file1(1), 10, 20)
	child.Body = nil
	all = []Entry{
		{Kind: Snapshot, Count: 2, BootID: "boot", Lines: []line{{batchID(40), 12}, {batchID(41), 0}}, Run: batchID(41)},
		{Kind: Input, Input: "app"},
		{Kind: FileSeen, File: file1(1), Info: record.FileInfo{Path: "/srv/a.log", First: "/srv/b.log", Dev: 1, Inode: 1 << 40, Birth: 3, Handle: "\x04\x05",
			Size: 6, Head: record.Head{Len: 16, Sum: 7}, Encoding: "utf-16", Done: true, Old: 8, Real: "/data/a.log", Dated: 9, Packed: record.Packed{Size: 10, Mtime: 11, Cut: true}}.Facts()},
		{Kind: Begin, Payload: p, HadLens: true, Batch: p.ID, Attempt: p.Attempt},
		{Kind: Attempt, Batch: p.ID, Attempt: 4},
		{Kind: Unknown, Batch: p.ID, Attempt: 4},
		{Kind: Split, Batch: p.ID, Children: []Begun{{Payload: *child, HadLens: true}}},
		{Kind: End, Batch: child.ID, Outcome: record.Spooled},
		{Kind: Skip, File: file1(1), Span: record.Span{Start: 30, End: 31}, Mark: markAt(31)},
		{Kind: Position, File: file1(2), Span: record.Span{End: 1 << 50}, Mark: markAt(1 << 50)},
		{Kind: Replay, Batch: child.ID, Attempt: 2},
		{Kind: ReplayEnd, Batch: child.ID, Outcome: record.Accepted},
		{Kind: Abandoned, File: file1(1), Span: record.Span{Start: 40, End: 50}},
		{Kind: SpoolHas, Segments: []uint64{7, 8, 300}},
		{Kind: Removed, File: file1(1), Span: record.Span{Start: 50, End: 60}},
		{Kind: Forget, File: file1(2)},
		{Kind: Synced},
		{Kind: Stopped},
	}
	if minor >= 3 {
		all = slices.Insert(all, 15, Entry{Kind: Removed, File: file1(1), Span: record.Span{Start: 60, End: 90}, Count: 3})
	}
	if minor >= 4 {
		all = slices.Insert(all, 11, Entry{Kind: Replay, Batch: batchID(3), Attempt: 5, Answered: true})
	}
	if minor < 2 {
		all = slices.DeleteFunc(all, func(e Entry) bool { return e.Kind == SpoolHas || e.Kind == Removed })
	} else {
		all[0].Segments = []uint64{3, 9}
	}
	for i := range all {
		e := &all[i]
		e.At, e.Segment, e.Number, e.InSnapshot = at.Add(time.Duration(i)), 1, uint64(i+1), i < 3
	}
	return all
}

var update = flag.Bool("update", false, "write the file of the current version in testdata anew")

const goldenSegment = "0000000000000001.seg"

func goldenFolder(minor int) string {
	return filepath.Join("testdata", fmt.Sprintf("version-%d.%d-entries-%d", major, minor, version))
}

// What is written now is, byte by byte, what a release of this version wrote. Who changes
// the format raises a version in writer.go or entry.go, keeps the file of the one before,
// and writes a new one with -update.
func TestWriterKeepsItsVersion(t *testing.T) {
	fs := faultfs.New("/state")
	var frames []durable.Frame
	seen := map[Kind]bool{}
	for _, e := range goldenEntries(minor) {
		frames = append(frames, e.frame())
		seen[e.Kind] = true
	}
	for k := Snapshot; k <= knownKind; k++ {
		if !seen[k] {
			t.Errorf("no entry of kind %v is in the file", k)
		}
	}
	put(t, fs, 1, func(h *durable.Header) { h.Agent, h.Created = [16]byte{7, 15: 9}, time.Unix(1_790_000_000, 5) }, frames...)
	got := fs.Content("/state/journal/" + goldenSegment)
	path := filepath.Join(goldenFolder(minor), goldenSegment)
	if *update {
		must(t, os.MkdirAll(goldenFolder(minor), 0o755))
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("what is written is not what %s has", path)
	}
}

// Every entry of the files that this version and those before wrote is read as it was meant.
func TestEveryVersionIsRead(t *testing.T) {
	for was := 1; was <= minor; was++ {
		content, err := os.ReadFile(filepath.Join(goldenFolder(was), goldenSegment))
		must(t, err)
		fs := faultfs.New("/state")
		must(t, durable.MkdirAll(fs, "/state/journal"))
		fs.SetContent("/state/journal/"+goldenSegment, content)
		var got []Entry
		must(t, read(fs, "/state/journal", func(e Entry) error { got = append(got, e); return nil }))
		want := goldenEntries(was)
		for i, e := range want {
			if i >= len(got) || !reflect.DeepEqual(got[i], e) {
				t.Errorf("1.%d: entry %d of kind %v was read as %+v, want %+v", was, i, e.Kind, got[min(i, len(got)-1)], e)
			}
		}
		if len(got) != len(want) {
			t.Errorf("1.%d: %d entries, want %d", was, len(got), len(want))
		}
	}
}

// What a later version wrote, in a way that this one does not know, is refused with the
// file, both versions and what to do, and stays byte by byte as it is.
func TestNewerVersionIsRefused(t *testing.T) {
	head := (&Entry{Kind: Snapshot}).frame()
	input := (&Entry{Kind: Input, Input: "app"}).frame()
	other := durable.Frame{Type: 99, Records: 1, Meta: []byte{1, 2, 3}}
	newer := input
	newer.Meta = append([]byte{version + 1}, input.Meta[1:]...)
	f := func(name, says string, change func(*durable.Header), frames ...durable.Frame) {
		t.Helper()
		fs := faultfs.New("/state")
		put(t, fs, 1, change, frames...)
		path := "/state/journal/0000000000000001.seg"
		before := fs.Content(path)
		_, _, err := Open("/state/journal", testConfig, testOptions(fs))
		if !errors.Is(err, durable.ErrVersion) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range []string{path, says, "run that version again, or move the folder away"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
		if names, err := fs.List("/state/journal"); err != nil || len(names) != 1 || !bytes.Equal(fs.Content(path), before) {
			t.Errorf("%s: the folder holds %v (%v), or the file was changed", name, names, err)
		}
		if err := historyOf(fs, "/state/journal", func(*Entry) error { return nil }); !errors.Is(err, durable.ErrVersion) {
			t.Errorf("%s: its history says %v", name, err)
		}
	}
	f("segment", fmt.Sprintf("version 2.%d, and this program knows up to 1", minor), func(h *durable.Header) { h.Major++ }, head)
	f("kind", fmt.Sprintf("entry of type 99, version 1, and this program knows up to type %d, version 1", knownKind), nil, head, input, other)
	f("entry", fmt.Sprintf("entry of type 2, version 2, and this program knows up to type %d, version 1", knownKind), nil, head, newer)
}
