package journal

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// told is the history of a folder, each entry in words, as History gives it.
func told(t testing.TB, fs durable.FS) (all []string) {
	t.Helper()
	must(t, historyOf(fs, "/state/journal", func(e *Entry) error {
		all = append(all, words(e))
		return nil
	}))
	return all
}

// words are all that an entry says, so that two can be compared though their memory is
// used again.
func words(e *Entry) string {
	c := *e
	c.Payload = nil
	s := fmt.Sprintf("%+v", c)
	if e.Payload != nil {
		s += fmt.Sprintf(" of %+v", *e.Payload)
	}
	return s
}

// TestHistoryTellsAllThatWasTold: the quick reader tells what the plain one tells, with
// whatever memory it uses again, of a journal that a kill left with its last write torn.
func TestHistoryTellsAllThatWasTold(t *testing.T) {
	fs, path := damaged(t, script()[:30])
	content := fs.Content(path)
	fs.SetContent(path, content[:len(content)-7])
	var want []string
	must(t, read(fs, "/state/journal", func(e Entry) error {
		want = append(want, words(&e))
		return nil
	}))
	if got := told(t, fs); !reflect.DeepEqual(got, want) || len(got) < 30 {
		t.Errorf("History tells %d entries, read %d:\n%q\n%q", len(got), len(want), got, want)
	}
}

// TestWhatIsForTheHistoryAlone: unknown outcomes and ranges that were given up are in the
// history, move nothing, and are skipped by a version that does not know them.
func TestWhatIsForTheHistoryAlone(t *testing.T) {
	fs := faultfs.New("/state")
	j, _ := open2(t, fs)
	f := file1(1)
	must(t, j.Begin(payload(1, f, 0, 10)))
	must(t, j.Unknown(batchID(1), 1))
	must(t, j.Abandoned(f, record.Span{Start: 10, End: 25}))
	if err := j.Abandoned(f, record.Span{Start: 10, End: 5}); err == nil {
		t.Error("a range that ends before it begins was taken")
	}
	must(t, j.GivenUp(f, record.Span{Start: 3, End: 7}))
	if err := j.GivenUp(f, record.Span{Start: 7, End: 3}); err == nil {
		t.Error("a record that ends before it begins was taken")
	}
	must(t, j.Evicted(f, record.Span{Start: 7, End: 9}, 2))
	if err := j.Evicted(f, record.Span{Start: 9, End: 7}, 1); err == nil {
		t.Error("records that end before they begin were taken")
	}
	must(t, j.Close())
	if err := j.Unknown(batchID(1), 2); err == nil {
		t.Error("a closed journal took an entry")
	}
	var got []string
	must(t, historyOf(fs, "/state/journal", func(e *Entry) error {
		switch e.Kind {
		case Unknown:
			got = append(got, fmt.Sprint("unknown ", e.Batch == batchID(1), e.Attempt))
		case Abandoned:
			got = append(got, fmt.Sprint("abandoned ", e.File == f, e.Span))
		case Removed:
			got = append(got, fmt.Sprint("removed ", e.File == f, e.Span, e.Count))
		}
		return nil
	}))
	if want := []string{"unknown true 1", "abandoned true [10,25)", "removed true [3,7) 0", "removed true [7,9) 2"}; !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
	j, rec := open2(t, fs)
	if pos, _ := j.Position(f); pos != 0 || len(rec.Begun) != 1 || len(rec.Problems) > 0 {
		t.Errorf("position %d, %+v: want nothing moved", pos, rec)
	}
	for _, k := range []Kind{Unknown, Abandoned, Removed} {
		fr := (&Entry{Kind: k}).frame()
		if fr.Flags&durable.Optional == 0 {
			t.Errorf("an earlier version refuses a journal with an entry %v", k)
		}
	}
}

// TestAHoleInTheHistoryIsTold: where a segment between two others is missing, the history
// says so.
func TestAHoleInTheHistoryIsTold(t *testing.T) {
	fs, _ := damaged(t, script())
	segments, err := listSegments(fs, "/state/journal")
	must(t, err)
	if len(segments) < 4 {
		t.Fatalf("%d segments, want more to take one out", len(segments))
	}
	holes := func() (n int) {
		must(t, historyOf(fs, "/state/journal", func(e *Entry) error {
			if e.Kind == Unread {
				n++
			}
			return nil
		}))
		return n
	}
	if n := holes(); n != 0 {
		t.Fatalf("%d holes in a whole history", n)
	}
	must(t, fs.Remove("/state/journal/"+segments[len(segments)/2].name))
	if n := holes(); n != 1 {
		t.Errorf("%d holes, want one", n)
	}
	must(t, fs.Remove("/state/journal/"+segments[0].name))
	if n := holes(); n != 1 {
		t.Errorf("%d holes after the oldest segment went, want one", n)
	}
}
