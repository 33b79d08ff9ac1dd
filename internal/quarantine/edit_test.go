package quarantine

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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
