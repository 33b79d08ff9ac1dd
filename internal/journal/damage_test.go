package journal

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// damaged runs the script on a fresh disk and returns it as a kill left it,
// with the path of its newest segment.
func damaged(t testing.TB, steps []step) (*faultfs.FS, string) {
	t.Helper()
	fs := faultfs.New("/state")
	j, _, err := Open("/state/journal", testConfig, testOptions(fs))
	must(t, err)
	for _, s := range steps {
		must(t, s.do(j))
	}
	left := fs.Crash(faultfs.Kill, 0)
	must(t, j.Close())
	return left, newest(t, left)
}

func newest(t testing.TB, fs *faultfs.FS) string {
	t.Helper()
	names, err := listSegments(fs, "/state/journal")
	must(t, err)
	return "/state/journal/" + names[len(names)-1].name
}

// One flipped bit, anywhere in the newest segment, never moves a position or
// ends a batch that did not, and costs nothing of the other segments.
func TestOneFlippedBit(t *testing.T) {
	steps := script()
	steps = steps[:len(steps)-1]
	fs, path := damaged(t, steps)
	good := fs.Content(path)
	used := len(strings.TrimRight(string(good), "\x00"))
	step := 3 // each byte is met two or three times
	if testing.Short() {
		step = 13
	}
	for bit := 0; bit < used*8; bit += step {
		b := append([]byte{}, good...)
		b[bit/8] ^= 1 << (bit % 8)
		left := fs.Crash(faultfs.Kill, 0)
		left.SetContent(path, b)
		j, rec, err := Open("/state/journal", testConfig, testOptions(left))
		if err != nil {
			t.Fatalf("bit %d: %v", bit, err)
		}
		tr := after(steps)
		for _, f := range []record.File{file1(1), file1(2)} {
			if pos, mark := j.Position(f); pos > tr.position(f) || pos > 0 && mark != markAt(pos) {
				t.Fatalf("bit %d: position of %s is %d, want at most %d", bit, f, pos, tr.position(f))
			}
		}
		inPadding := len(rec.Problems) == 0
		if least := len(steps); inPadding {
			if err := checkRecovered(j, rec, steps, least, least); err != nil {
				t.Fatalf("bit %d is not reported: %v", bit, err)
			}
		}
		if left.Content(path) == nil {
			aside := strings.Replace(path, "journal/", "journal/damaged/", 1)
			if string(left.Content(aside)) != string(b) {
				t.Fatalf("bit %d: the damaged segment is gone", bit)
			}
		}
		must(t, j.Close())
	}
}

// A segment cut at any byte is the journal at some earlier moment.
func TestTornAtEveryByte(t *testing.T) {
	steps := script()
	steps = steps[:12]
	fs, path := damaged(t, steps)
	good := fs.Content(path)
	for cut := range good {
		left := fs.Crash(faultfs.Kill, 0)
		left.SetContent(path, good[:cut])
		j, rec, err := Open("/state/journal", testConfig, testOptions(left))
		must(t, err)
		if err := checkRecovered(j, rec, steps, 0, len(steps)); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		must(t, j.Close())
	}
}

func TestDamageFallsBack(t *testing.T) {
	steps := script()
	fs, path := damaged(t, steps[:len(steps)-1])
	names, err := listSegments(fs, "/state/journal")
	must(t, err)
	if len(names) < 3 {
		t.Fatalf("%d segments, want more", len(names))
	}
	for _, bad := range [][]byte{{}, make([]byte, 4096), []byte("junk")} {
		left := fs.Crash(faultfs.Kill, 0)
		left.SetContent(path, bad)
		j, rec, err := Open("/state/journal", testConfig, testOptions(left))
		must(t, err)
		pos, mark := j.Position(file1(1))
		if pos < 40 || mark != markAt(pos) || rec.Clean || len(rec.Problems) == 0 {
			t.Errorf("position %d, recovery %+v, want that of the segment before, reported", pos, rec)
		}
		if left.Content(strings.Replace(path, "journal/", "journal/damaged/", 1)) == nil {
			t.Error("the damaged segment was not moved away")
		}
		must(t, j.Close())
	}
}

// A snapshot with a hole is not trusted, and what can be read of its segment
// still counts: each entry is a fact of its own.
func TestSnapshotWithAHole(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	f := file1(1)
	must(t, j.Skip(f, record.Span{End: 40}, markAt(40)))
	must(t, j.Close())
	j, _ = open2(t, fs)
	must(t, j.Register(file1(2), record.FileInfo{Path: "/later"}.Facts()))
	left := fs.Crash(faultfs.Kill, 0)
	path := newest(t, left)
	var at int64
	_, err := durable.ReadSegment(left, path, kind, major, true, func(f *durable.Found) error {
		if Kind(f.Type) == Position {
			at = f.Offset
		}
		return nil
	})
	must(t, err)
	b := left.Content(path)
	b[at+45] ^= 1
	left.SetContent(path, b)
	j, rec := open2(t, left)
	if pos, mark := j.Position(f); pos != 40 || mark != markAt(40) {
		t.Errorf("position %d, want that of the segment before", pos)
	}
	if st, ok := j.State(file1(2)); !ok || st.Info.Info().Path != "/later" || rec.Clean {
		t.Errorf("file %+v, %+v, want what was told behind the hole", st, rec)
	}
}

// When nothing can be read every file is read from its beginning: no input may
// take itself for new and start at the end.
func TestAllLostMeansReplay(t *testing.T) {
	steps := script()
	fs, _ := damaged(t, steps[:len(steps)-1])
	names, _ := listSegments(fs, "/state/journal")
	for _, n := range names {
		fs.SetContent("/state/journal/"+n.name, make([]byte, 100))
	}
	j, rec := open2(t, fs)
	if pos, _ := j.Position(file1(1)); pos != 0 || rec.Clean {
		t.Errorf("position %d, %+v", pos, rec)
	}
	for _, name := range []string{"app", "never seen"} {
		if known, err := j.InputSeen(name); !known || err != nil {
			t.Errorf("input %q: known %v, %v, want it known", name, known, err)
		}
	}
}

// put writes a segment by hand, as another version might.
func put(t testing.TB, fs durable.FS, seq uint64, change func(*durable.Header), frames ...durable.Frame) {
	t.Helper()
	h := durable.Header{Kind: kind, Major: major, Minor: minor, Seq: seq, FirstRecord: 1}
	if change != nil {
		change(&h)
	}
	must(t, durable.MkdirAll(fs, "/state/journal"))
	s, err := durable.Create(fs, "/state/journal/"+strings.Repeat("0", 15)+string('0'+rune(seq))+suffix, h, 0, frames...)
	must(t, err)
	must(t, s.Close())
}

func TestOtherVersions(t *testing.T) {
	head := (&Entry{Kind: Snapshot}).frame()
	input := (&Entry{Kind: Input, Input: "app"}).frame()
	unknown := durable.Frame{Type: 99, Records: 1, Meta: []byte{1, 2, 3}}
	optional := unknown
	optional.Flags = durable.Optional
	newer := input
	newer.Meta = append([]byte{version + 1}, input.Meta[1:]...)
	f := func(name string, wantVersionError bool, change func(*durable.Header), frames ...durable.Frame) {
		t.Helper()
		fs := faultfs.New("/state")
		put(t, fs, 1, change, frames...)
		before := fs.Ops()
		j, rec, err := Open("/state/journal", testConfig, testOptions(fs))
		if errors.Is(err, durable.ErrVersion) != wantVersionError {
			t.Errorf("%s: %v, want a version error: %v", name, err, wantVersionError)
		}
		if err != nil {
			if n := fs.Ops() - before; n > 2 { // closing what was read
				t.Errorf("%s: %d operations on a journal that was refused", name, n)
			}
			return
		}
		if known, _ := j.InputSeen("app"); !known || len(rec.Problems) > 0 {
			t.Errorf("%s: known %v, %+v", name, known, rec)
		}
		must(t, j.Close())
	}
	f("this one", false, nil, head, input)
	f("a later major", true, func(h *durable.Header) { h.Major++ }, head, input)
	f("a later minor", false, func(h *durable.Header) { h.Minor++ }, head, input)
	f("an unknown kind", true, nil, head, input, unknown)
	f("an unknown kind that is optional", false, nil, head, input, optional)
	f("a later version of a kind", true, nil, head, newer)
}

func TestTwoAgentsInOneFolder(t *testing.T) {
	fs := faultfs.New("/state")
	head := (&Entry{Kind: Snapshot}).frame()
	put(t, fs, 1, nil, head)
	put(t, fs, 2, func(h *durable.Header) { h.Agent[0] = 1 }, head)
	if _, _, err := Open("/state/journal", testConfig, testOptions(fs)); err == nil {
		t.Error("a journal of two agents was opened")
	}
}

// After the machine stopped the files in doubt are named; after a kill none is
// in doubt.
func TestPowerCutNamesFiles(t *testing.T) {
	for _, boot := range []string{"boot", "another boot"} {
		fs, _ := damaged(t, script()[:9])
		o := testOptions(fs)
		o.BootID = boot
		j, rec, err := Open("/state/journal", testConfig, o)
		must(t, err)
		named := strings.Contains(strings.Join(rec.Problems, "\n"), file1(1).String())
		if named != (boot == "another boot") {
			t.Errorf("boot %q: problems %q", boot, rec.Problems)
		}
		must(t, j.Close())
	}
}

// A run that ended in good order did so, though the machine lost its power right after.
func TestCleanEndSurvivesAPowerCut(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	must(t, j.Register(file1(1), record.FileInfo{Path: "/a.log"}.Facts()))
	must(t, j.Close())
	o := testOptions(fs.Crash(faultfs.Drop, 0))
	o.BootID = "another boot"
	j, rec, err := Open("/state/journal", testConfig, o)
	must(t, err)
	if !rec.Clean || len(rec.Problems) > 0 {
		t.Errorf("clean %v, problems %q", rec.Clean, rec.Problems)
	}
	must(t, j.Close())
}

func TestReadTellsOfDamage(t *testing.T) {
	steps := script()
	fs, path := damaged(t, steps[:7]) // up to the first sync
	b := fs.Content(path)
	b[64+48+60] ^= 1
	fs.SetContent(path, b)
	unread, ends := 0, 0
	must(t, read(fs, "/state/journal", func(e Entry) error {
		switch e.Kind {
		case Unread:
			unread++
		case End:
			ends++
		}
		return nil
	}))
	if unread != 1 || ends != 1 {
		t.Errorf("%d unread ranges and %d ends, want one each", unread, ends)
	}
}

// A file that was read to its end just before the machine stopped is in doubt like
// the others, one that was long before is not, and what is in no snapshot is said.
func TestPowerCutNamesWhatEndedJustNow(t *testing.T) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	now := time.Unix(10_000, 0)
	o.Now = func() time.Time { return now }
	j, _, err := Open("/state/journal", testConfig, o)
	must(t, err)
	must(t, j.Register(file1(1), record.FileInfo{Path: "/long-ago", Done: true}.Facts()))
	now = now.Add(time.Hour)
	must(t, j.Register(file1(2), record.FileInfo{Path: "/just-now", Done: true}.Facts()))
	must(t, j.Sync())
	must(t, j.Register(file1(3), record.FileInfo{Path: "/nobody-knows"}.Facts()))
	left := fs.Crash(faultfs.Drop, 0)
	must(t, j.Close())
	o = testOptions(left)
	o.BootID = "another boot"
	j, rec, err := Open("/state/journal", testConfig, o)
	must(t, err)
	told := strings.Join(rec.Problems, "\n")
	if strings.Contains(told, "/long-ago") || !strings.Contains(told, "/just-now") || !strings.Contains(told, "first seen in its last moments") {
		t.Errorf("told:\n%s", told)
	}
	must(t, j.Close())
}

// A journal that is removed while it is open is written anew with all that it knows: at the next
// sync, or at the end where nothing was told since.
func TestRemovedWhileOpen(t *testing.T) {
	for _, idle := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.New("/state")
			j, _, err := Open("/state/journal", testConfig, testOptions(fs))
			must(t, err)
			f := file1(1)
			must(t, j.Skip(f, record.Span{End: 10}, markAt(10)))
			must(t, j.Sync())
			names, err := fs.List("/state/journal")
			must(t, err)
			for _, name := range names {
				fs.Vanish("/state/journal/" + name)
			}
			fs.Vanish("/state/journal")
			want := int64(10)
			if !idle {
				want = 20
				must(t, j.Skip(f, record.Span{Start: 10, End: 20}, markAt(20)))
				must(t, j.Sync())
				fs = fs.Crash(faultfs.Drop, 0)
			}
			must(t, j.Close())
			j, rec, err := Open("/state/journal", testConfig, testOptions(fs))
			must(t, err)
			if pos, _ := j.Position(f); pos != want || rec.Clean != idle {
				t.Errorf("idle %v: position %d, clean %v; want %d", idle, pos, rec.Clean, want)
			}
			must(t, j.Close())
		})
	}
}

// A journal that was removed is begun anew once its disk lets a file be made, and tells why it does not
// before: the folder may be of another process.
func TestRemovedAndOwnedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		o := testOptions(fs)
		inUse := errors.New("in use")
		var taken atomic.Bool
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if taken.Load() && (op.Kind == "create" || op.Kind == "mkdir") {
				v.Err = inUse
			}
			return v
		}
		j, _, err := Open("/state/journal", testConfig, o)
		must(t, err)
		must(t, j.Sync())
		names, err := fs.List("/state/journal")
		must(t, err)
		for _, name := range names {
			fs.Vanish("/state/journal/" + name)
		}
		taken.Store(true)
		must(t, j.Skip(file1(1), record.Span{End: 10}, markAt(10)))
		if err := j.Sync(); !errors.Is(err, inUse) || !errors.Is(j.Health(), inUse) {
			t.Errorf("sync: %v, health: %v", err, j.Health())
		}
		if names, err := listSegments(fs, "/state/journal"); err != nil || len(names) > 0 {
			t.Errorf("there are %v, %v", names, err)
		}
		taken.Store(false)
		time.Sleep(time.Minute)
		must(t, j.Sync())
		must(t, j.Close())
	})
}

// As long as payloads wait in the spool, a journal that was removed is not begun anew: what it knew
// of them is gone, and without a journal their files are read again.
func TestRemovedWithPayloadsInTheSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		j, _, err := Open("/state/journal", testConfig, testOptions(fs))
		must(t, err)
		f := file1(1)
		must(t, j.Skip(f, record.Span{End: 10}, markAt(10)))
		j.SpoolHas([]uint64{1})
		must(t, j.Sync())
		names, err := fs.List("/state/journal")
		must(t, err)
		for _, name := range names {
			fs.Vanish("/state/journal/" + name)
		}
		must(t, j.Replay(batchID(1), 1)) // it vanished from the spool and is looked for
		j.SpoolHas(nil)
		for range 2 {
			if err := j.Sync(); !errors.Is(err, durable.ErrRemoved) || !errors.Is(j.Health(), durable.ErrRemoved) {
				t.Errorf("sync: %v, health: %v", err, j.Health())
			}
			time.Sleep(time.Minute)
		}
		if names, err := listSegments(fs, "/state/journal"); err != nil || len(names) > 0 {
			t.Errorf("there are %v, %v", names, err)
		}
		_ = j.EndReplay(batchID(1), record.Accepted) // not on the disk yet
		time.Sleep(time.Minute)
		must(t, j.Sync())
		must(t, j.Close())
		j, _, err = Open("/state/journal", testConfig, testOptions(fs))
		must(t, err)
		if pos, _ := j.Position(f); pos != 10 {
			t.Errorf("position %d, want 10", pos)
		}
		must(t, j.Close())
	})
}
