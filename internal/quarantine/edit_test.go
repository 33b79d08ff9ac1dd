package quarantine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// texts are the lines that are there, by ID, offset and what a requeue may have done.
func texts(t testing.TB, fs durable.FS) (got []string) {
	t.Helper()
	must(t, list(fs, dir, func(e Entry) error {
		if e.Err != nil {
			got = append(got, e.ID()+" unreadable")
			return nil
		}
		text := fmt.Sprint(e.ID(), " ", e.Offset, " ", e.Code)
		if e.Perhaps != "" {
			text += " perhaps " + e.Perhaps
		}
		got = append(got, text)
		return nil
	}))
	return got
}

func equal(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func remove(*Entry) bool { return false }

// filled has lines 0 to 5, three in a file.
func filled(t testing.TB, fs durable.FS) *Store {
	t.Helper()
	s, err := Open(dir, blocking, Options{FS: fs, FileSize: 700})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	for n := range 6 {
		must(t, s.Put([]record.Rejected{rejected(n)}))
	}
	equal(t, "filled", texts(t, fs), "1:1 0 BadRequest", "1:2 1 BadRequest", "1:3 2 BadRequest", "2:1 3 BadRequest", "2:2 4 BadRequest", "2:3 5 BadRequest")
	return s
}

// TestEdit: lines go and change, the others keep their IDs and their bytes, and the store
// goes on beside it.
func TestEdit(t *testing.T) {
	fs := faultfs.New("/state")
	s := filled(t, fs)
	raw := map[string]string{}
	note := func(e Entry) error { raw[e.ID()] = string(e.Raw); return nil }
	must(t, list(fs, dir, note))
	done, err := s.Edit(t.Context(), []string{"1:2", "2:1", "2:3", "7:7"}, func(e *Entry) bool {
		if e.Offset == 3 {
			e.Code, e.Perhaps = "Other", "b1"
			return true
		}
		return false
	})
	must(t, err)
	equal(t, "done", done, "1:2", "2:1", "2:3")
	equal(t, "after", texts(t, fs), "1:1 0 BadRequest", "1:3 2 BadRequest", "2:1 3 Other perhaps b1", "2:2 4 BadRequest")
	must(t, list(fs, dir, func(e Entry) error {
		if id := e.ID(); id != "2:1" && raw[id] != string(e.Raw) {
			t.Errorf("%s was %s and is %s", id, raw[id], e.Raw)
		}
		return nil
	}))
	must(t, s.Put([]record.Rejected{rejected(6)}))
	equal(t, "a new one", texts(t, fs)[4:], "3:1 6 BadRequest")
	if _, err := s.Edit(t.Context(), []string{"1:1", "1:3", "3:1"}, remove); err != nil {
		t.Fatal(err)
	}
	must(t, s.Close())
	names, _ := fs.List(dir)
	if slices.Contains(names, "0000000000000001.jsonl") || !slices.Contains(names, "0000000000000003.jsonl") {
		t.Errorf("files %v; want the first gone, and the newest kept for its number", names)
	}
	s = open(t, fs, blocking)
	if n := s.State().Bytes; n > 1000 {
		t.Errorf("%d bytes are counted", n)
	}
	must(t, s.Put([]record.Rejected{rejected(7)}))
	equal(t, "after another start", texts(t, fs), "2:1 3 Other perhaps b1", "2:2 4 BadRequest", "4:1 7 BadRequest")
}

// TestAKillLeavesEachFileAsItWasOrIsToBe: at every call of an Edit, a kill and a power cut
// leave each line of a file, or each change of it, and all that was not to change.
func TestAKillLeavesEachFileAsItWasOrIsToBe(t *testing.T) {
	for _, how := range []faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random} {
		cut := true
		for at := 1; cut; at++ {
			fs := faultfs.New("/state")
			s := filled(t, fs)
			n := 0
			var left *faultfs.FS
			fs.Judge = func(faultfs.Op) faultfs.Verdict {
				if n++; n == at {
					left = fs.Crash(how, uint64(at))
				}
				return faultfs.Verdict{}
			}
			done, err := s.Edit(t.Context(), []string{"1:2", "2:1"}, remove)
			must(t, err)
			equal(t, "done", done, "1:2", "2:1")
			if cut = left != nil; !cut {
				left = fs.Crash(how, 0)
				equal(t, "after the end", texts(t, left), "1:1 0 BadRequest", "1:3 2 BadRequest", "2:2 4 BadRequest", "2:3 5 BadRequest")
				continue
			}
			got := texts(t, left)
			for _, want := range []string{"1:1 0 BadRequest", "1:3 2 BadRequest", "2:2 4 BadRequest", "2:3 5 BadRequest"} {
				if !slices.Contains(got, want) {
					t.Errorf("%v at call %d: %q are left, %q is not", how, at, got, want)
				}
			}
		}
	}
}

// TestAFailedEditChangesNothing: a disk that is full leaves a file as it was.
func TestAFailedEditChangesNothing(t *testing.T) {
	fs := faultfs.New("/state")
	s := filled(t, fs)
	was := texts(t, fs)
	fs.Judge = func(op faultfs.Op) faultfs.Verdict {
		if strings.HasSuffix(op.Name, durable.TempSuffix) && op.Kind != "remove" {
			return faultfs.Verdict{Err: faultfs.NoSpace}
		}
		return faultfs.Verdict{}
	}
	done, err := s.Edit(t.Context(), []string{"1:2"}, remove)
	if len(done) > 0 || !errors.Is(err, faultfs.NoSpace) {
		t.Errorf("%v are done: %v", done, err)
	}
	fs.Judge = nil
	equal(t, "after", texts(t, fs), was...)
}

// TestWhatWasBeingSentAgainIsNamed: a process that came to an end before it knew what came
// of a requeue is told of by the next one, which has the lines say so.
func TestWhatWasBeingSentAgainIsNamed(t *testing.T) {
	fs := faultfs.New("/state")
	s := filled(t, fs)
	must(t, s.Begin(Requeue{Batch: "b7", Database: "d", Table: "t", Lines: []string{"1:2", "2:3"}}))
	left := fs.Crash(faultfs.Drop, 0)
	must(t, s.End())
	must(t, s.Close())
	var j journal
	s, err := Open(dir, blocking, Options{FS: left, Logger: j.logger()})
	must(t, err)
	must(t, s.Close())
	equal(t, "after the next start", texts(t, left), "1:1 0 BadRequest", "1:2 1 BadRequest perhaps b7", "1:3 2 BadRequest", "2:1 3 BadRequest", "2:2 4 BadRequest", "2:3 5 BadRequest perhaps b7")
	if j.count("b7") != 1 || j.count("records=2") != 1 {
		t.Error("it is not named")
	}
	if _, err := left.Open(filepath.Join(dir, requeueName), 0); err == nil {
		t.Error("the note is still there")
	}
	s, err = Open(dir, blocking, Options{FS: fs, Logger: j.logger()})
	must(t, err)
	must(t, s.Close())
	if j.count("b7") != 1 {
		t.Error("one whose outcome is known is named")
	}
}

// TestANoteThatOpenCouldNotSettleStays: if the disk does not let a start mark what was being sent
// again, nothing is sent in place of its note, and the next start marks it.
func TestANoteThatOpenCouldNotSettleStays(t *testing.T) {
	fs := faultfs.New("/state")
	s := filled(t, fs)
	must(t, s.Begin(Requeue{Batch: "b7", Lines: []string{"1:2", "2:3"}}))
	must(t, s.Close())
	fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		if op.Kind == "create" {
			v.Err = faultfs.NoSpace
		}
		return v
	}
	s = open(t, fs, blocking)
	fs.Judge = nil
	if err := s.Begin(Requeue{Batch: "b8", Lines: []string{"1:1"}}); !errors.Is(err, faultfs.NoSpace) || !strings.Contains(err.Error(), "the next start tries again") {
		t.Errorf("something else is sent again: %v", err)
	}
	must(t, s.Close())
	must(t, open(t, fs, blocking).Close())
	equal(t, "after the next start", texts(t, fs), "1:1 0 BadRequest", "1:2 1 BadRequest perhaps b7", "1:3 2 BadRequest", "2:1 3 BadRequest", "2:2 4 BadRequest", "2:3 5 BadRequest perhaps b7")
	const damaged = `{"batch":"b7"`
	fs.SetContent(dir+"/"+requeueName, []byte(damaged))
	s = open(t, fs, blocking)
	if err := s.Begin(Requeue{Batch: "b8", Lines: []string{"1:1"}}); err == nil || !strings.Contains(err.Error(), "requeue.json is damaged") {
		t.Errorf("beside a damaged note: %v", err)
	}
	if got := string(fs.Content(dir + "/" + requeueName)); got != damaged {
		t.Errorf("the damaged note is %q", got)
	}
}

// TestANoteIsNotWrittenOver: where the disk did not let a requeue note what was accepted, the note of
// Begin is all that tells of it, and the next requeue of the same process leaves it to the next start.
func TestANoteIsNotWrittenOver(t *testing.T) {
	fs := faultfs.New("/state")
	full := false
	fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		if full && op.Kind == "create" {
			v.Err = faultfs.NoSpace
		}
		return v
	}
	s := filled(t, fs)
	full = true
	if err := s.Begin(Requeue{Batch: "b6", Lines: []string{"1:1"}}); !errors.Is(err, faultfs.NoSpace) {
		t.Errorf("a note on a full disk: %v", err)
	}
	full = false
	must(t, s.Begin(Requeue{Batch: "b7", Lines: []string{"1:2", "2:3"}})) // b6 was not sent
	full = true
	if err := s.Accepted(t.Context(), []string{"1:2", "2:3"}); !errors.Is(err, faultfs.NoSpace) {
		t.Errorf("accepted on a full disk: %v", err)
	}
	full = false
	if err := s.Begin(Requeue{Batch: "b8", Lines: []string{"1:1"}}); err == nil || !strings.Contains(err.Error(), "the next start") {
		t.Errorf("something else is sent again: %v", err)
	}
	must(t, s.Close())
	s = open(t, fs, blocking)
	equal(t, "after the next start", texts(t, fs), "1:1 0 BadRequest", "1:2 1 BadRequest perhaps b7", "1:3 2 BadRequest", "2:1 3 BadRequest", "2:2 4 BadRequest", "2:3 5 BadRequest perhaps b7")
	must(t, s.Begin(Requeue{Batch: "b9", Lines: []string{"1:1"}}))
	must(t, s.Close())
}

// unmade is a disk that cannot tell whether a folder is there when it is to be made, and can be read.
type unmade struct{ *faultfs.FS }

func (unmade) Mkdir(dir string) error { return &os.PathError{Op: "mkdir", Path: dir, Err: syscall.EIO} }

// TestNotesStayWhereOpenKnowsNoFile: a start that could not list the files neither removes what
// says which lines were accepted, nor the note of those in doubt. The next start settles both.
func TestNotesStayWhereOpenKnowsNoFile(t *testing.T) {
	fs := faultfs.New("/state")
	s := filled(t, fs)
	must(t, s.Accepted(t.Context(), []string{"1:1", "2:1"}))
	must(t, s.Begin(Requeue{Batch: "b7", Lines: []string{"1:2", "2:3"}}))
	must(t, s.Close())
	was := texts(t, fs)
	s = open(t, unmade{fs}, blocking)
	equal(t, "after a start that listed no file", texts(t, fs), was...)
	if err := s.Begin(Requeue{Batch: "b8", Lines: []string{"1:3"}}); !errors.Is(err, syscall.EIO) {
		t.Errorf("something else is sent again: %v", err)
	}
	must(t, s.Close())
	must(t, open(t, fs, blocking).Close())
	equal(t, "after the next start", texts(t, fs), "1:2 1 BadRequest perhaps b7", "1:3 2 BadRequest", "2:2 4 BadRequest", "2:3 5 BadRequest perhaps b7")
	must(t, open(t, unmade{fs}, blocking).Begin(Requeue{Batch: "b9", Lines: []string{"1:3"}})) // there is no note any more
}

// TestAcceptedCostsItsIDs: what was accepted is gone at once, also from a listing, without a
// write to the file that it lay in; the next Edit removes its bytes, and so does Open.
func TestAcceptedCostsItsIDs(t *testing.T) {
	fs := faultfs.New("/state")
	s := filled(t, fs)
	must(t, s.Begin(Requeue{Batch: "b7", Lines: []string{"1:2", "2:3"}}))
	fs.Judge = func(op faultfs.Op) faultfs.Verdict {
		if strings.HasSuffix(op.Name, suffix) || strings.HasSuffix(op.Name, suffix+durable.TempSuffix) {
			t.Errorf("%s of %s", op.Kind, op.Name)
		}
		return faultfs.Verdict{}
	}
	must(t, s.Accepted(t.Context(), []string{"1:2", "2:3"}))
	fs.Judge = nil
	left := []string{"1:1 0 BadRequest", "1:3 2 BadRequest", "2:1 3 BadRequest", "2:2 4 BadRequest"}
	equal(t, "left", texts(t, fs), left...)
	later := fs.Crash(faultfs.Drop, 0)
	if done, err := s.Edit(t.Context(), []string{"1:2"}, remove); err != nil || len(done) > 0 {
		t.Errorf("a line that was accepted is removed once more: %v %v", done, err)
	}
	must(t, s.Close())
	s = open(t, later, blocking)
	must(t, s.Close())
	for _, fs := range []*faultfs.FS{fs, later} {
		equal(t, "left", texts(t, fs), left...)
		names, err := fs.List(dir)
		must(t, err)
		equal(t, "files", names, "0000000000000001.jsonl", "0000000000000002.jsonl")
		if text := string(fs.Content(dir + "/0000000000000001.jsonl")); strings.Count(text, "\n") != 3 || !strings.Contains(text, "\n\n") {
			t.Errorf("the first file has %q", text)
		}
	}
}

// TestACrashWhileSendingAgain: at every call of a requeue of three requests a kill and a
// power cut leave what was not accepted, remove what was, and mark what is in doubt.
func TestACrashWhileSendingAgain(t *testing.T) {
	requests := [][]string{{"1:1", "2:1"}, {"1:2"}, {"2:3"}}
	for _, how := range []faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random} {
		cut := true
		for at := 1; cut; at++ {
			fs := faultfs.New("/state")
			s := filled(t, fs)
			n := 0
			sent, ended := 0, 0 // requests, before the crash
			var left *faultfs.FS
			stage := func() (int, int) { return sent, ended }
			var sentBy, endedBy int
			fs.Judge = func(faultfs.Op) faultfs.Verdict {
				if n++; n == at {
					left = fs.Crash(how, uint64(at))
					sentBy, endedBy = stage()
				}
				return faultfs.Verdict{}
			}
			for i, ids := range requests {
				must(t, s.Begin(Requeue{Batch: fmt.Sprint("b", i), Lines: ids}))
				sent++
				must(t, s.Accepted(t.Context(), ids))
				ended++
			}
			_, err := s.Edit(t.Context(), []string{"2:2"}, func(e *Entry) bool { e.Code = "New"; return true })
			must(t, err)
			if cut = left != nil; !cut {
				equal(t, "after the end", texts(t, fs), "1:3 2 BadRequest", "2:2 4 New")
				continue
			}
			must(t, open(t, left, blocking).Close())
			got := map[string]string{}
			for _, line := range texts(t, left) {
				id, rest, _ := strings.Cut(line, " ")
				got[id] = rest
			}
			for i, ids := range requests {
				for _, id := range ids {
					rest, there := got[id]
					doubtful := strings.HasSuffix(rest, fmt.Sprint(" perhaps b", i))
					switch {
					case i < endedBy && there:
						t.Errorf("%v at call %d: %s was accepted, and is there: %s", how, at, id, rest)
					case i >= endedBy && i < sentBy && there && !doubtful:
						t.Errorf("%v at call %d: %s may be stored, and is not marked: %s", how, at, id, rest)
					case i >= sentBy && !there:
						t.Errorf("%v at call %d: %s was never sent, and is gone", how, at, id)
					}
				}
			}
			if got["1:3"] != "2 BadRequest" || !strings.HasPrefix(got["2:2"], "4 ") {
				t.Errorf("%v at call %d: %q", how, at, got)
			}
		}
	}
}

// TestWhatWasAcceptedIsKeptInItsVersion: byte by byte as in the release that wrote it; a
// line whose checksum is not right counts for nothing, and a later version is left as it
// is, with nothing sent again beside it.
func TestWhatWasAcceptedIsKeptInItsVersion(t *testing.T) {
	const golden = "testdata/requeue-version-1.accepted"
	fs := faultfs.New("/state")
	s := filled(t, fs)
	must(t, s.Accepted(t.Context(), []string{"1:2", "2:3"}))
	must(t, s.Accepted(t.Context(), []string{"2:1"}))
	name := dir + "/" + sentName
	want := wantGolden(t, golden, fs.Content(name))
	for i := range want {
		b := slices.Clone(want)
		b[i] ^= 1
		fs.SetContent(name, b)
		ids, err := readSent(fs, dir)
		if id := "1:1"; err == nil && (ids[id] || len(ids) == 3 && b[i] > ' ') {
			t.Errorf("with byte %d as %q: %v", i, b[i], ids)
		}
	}
	must(t, s.Close())
	const later = "\n2 00000000 1:1\n"
	fs.SetContent(name, []byte(later))
	s = open(t, fs, blocking)
	if err := s.Begin(Requeue{Batch: "b8", Lines: []string{"1:1"}}); !errors.Is(err, durable.ErrVersion) || !strings.Contains(err.Error(), "requeue.accepted has version 2, and this program knows 1") {
		t.Errorf("beside a later version: %v", err)
	}
	must(t, s.Close())
	if got := string(fs.Content(name)); got != later {
		t.Errorf("it holds %q", got)
	}
}

// TestTheNoteOfARequeueKeepsItsVersion: it is, byte by byte, as the first release wrote it; a
// later one stays as it is, and nothing is sent again beside it.
func TestTheNoteOfARequeueKeepsItsVersion(t *testing.T) {
	const golden = "testdata/requeue-version-1.json"
	fs := faultfs.New("/state")
	s := filled(t, fs)
	must(t, s.Begin(Requeue{Time: goldenTime(), Batch: "b7", Database: "D", Table: "T", Lines: []string{"1:2", "2:3"}}))
	name := dir + "/" + requeueName
	want := wantGolden(t, golden, fs.Content(name))
	must(t, s.Close())
	fs.SetContent(name, want)
	s = open(t, fs, blocking)
	must(t, s.Close())
	if got := strings.Join(texts(t, fs), "\n"); strings.Count(got, "perhaps b7") != 2 || !strings.Contains(got, "1:2 1 BadRequest perhaps b7") {
		t.Errorf("after the next start:\n%s", got)
	}
	const later = `{"version":2,"lines":"1:1"}`
	fs.SetContent(name, []byte(later))
	was := texts(t, fs)
	s = open(t, fs, blocking)
	if err := s.Begin(Requeue{Batch: "b8", Lines: []string{"1:1"}}); !errors.Is(err, durable.ErrVersion) || !strings.Contains(err.Error(), "requeue.json has version 2, and this program knows 1") {
		t.Errorf("beside a later version: %v", err)
	}
	must(t, s.Close())
	equal(t, "beside a later version", texts(t, fs), was...)
	if got := string(fs.Content(name)); got != later {
		t.Errorf("it holds %q", got)
	}
}
