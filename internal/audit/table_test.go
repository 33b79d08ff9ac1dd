package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/record"
)

// fakeTable answers the questions of an audit from rows of one file; by generation and
// offset, how often each is there.
type fakeTable struct {
	rows  map[int64]int
	asked []string
}

func (t *fakeTable) Ask(_ context.Context, _ record.Route, text string, parameters []query.Parameter, row func(map[string]string)) error {
	values := map[string]int64{}
	for _, p := range parameters {
		values[p.Name], _ = strconv.ParseInt(p.Value, 10, 64)
	}
	t.asked = append(t.asked, text)
	for at, n := range t.rows {
		if n > 0 && at >= values["from_offset"] && at < values["to_offset"] {
			row(map[string]string{"at": fmt.Sprint(at), "copies": fmt.Sprint(n)})
		}
	}
	return nil
}

// findings are in one line.
func findings(r *TableReport) string {
	var all []string
	for what, list := range map[string][]Finding{"missing": r.Missing, "doubled": r.Doubled} {
		for _, x := range list {
			if x.Named {
				all = append(all, fmt.Sprintf("%s %d*%d", what, x.Offset, x.Records))
			} else {
				all = append(all, fmt.Sprintf("%s %d of %d-%d", what, x.Records, x.Offset, x.End))
			}
		}
	}
	slices.Sort(all)
	if r.Unclear > 0 {
		all = append(all, fmt.Sprint("unclear ", r.Unclear))
	}
	if r.Unstamped > 0 {
		all = append(all, fmt.Sprint("unstamped ", r.Unstamped))
	}
	return strings.Join(all, ", ")
}

// TestRowsOfAPiece: what rows say of the records of a piece, with the file and without it.
func TestRowsOfAPiece(t *testing.T) {
	stamped := Stamps{File: "f", Generation: "g", Offset: "o"}
	const text = "a\nbb\n\nccc\nd\n" // records at 0, 2, 6 and 10
	path := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	raw := st.Sys().(*syscall.Stat_t)
	here := record.FileInfo{Path: path, Dev: raw.Dev, Inode: raw.Ino, Size: int64(len(text))}
	records := 4
	f := func(name string, stamps Stamps, info record.FileInfo, rows map[int64]int, want string, tell ...func(*teller)) {
		t.Run(name, func(t *testing.T) {
			w := newTeller(time.Time{})
			w.h.pieces = true
			w.tell(journal.Entry{Kind: journal.FileSeen, File: fileOf(1), Info: info})
			p := batchOf(1, fileOf(1), 0, int64(len(text)))
			p.Records, p.Pieces[0].Records = records, records
			w.tell(journal.Entry{Kind: journal.Begin, Payload: p, Batch: p.ID, Attempt: 1})
			w.end(1, record.Accepted)
			for _, more := range tell {
				more(w)
			}
			x := &tables{h: w.h, out: &TableReport{}, o: TableOptions{Stamps: func(string) Stamps { return stamps }, Ask: &fakeTable{rows: rows}}}
			if err := x.file(t.Context(), w.h.file(fileOf(1))); err != nil {
				t.Fatal(err)
			}
			if got := findings(x.out); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	var gone record.FileInfo
	shared := stamped
	shared.Shared = true
	f("all there", stamped, here, map[int64]int{0: 1, 2: 1, 6: 1, 10: 1}, "")
	f("all there, the file gone", stamped, gone, map[int64]int{0: 1, 2: 1, 6: 1, 10: 1}, "")
	f("one missing, one doubled", stamped, here, map[int64]int{0: 1, 2: 3, 10: 1}, "doubled 2*2, missing 6*1")
	f("the same, the file gone", stamped, gone, map[int64]int{0: 1, 2: 3, 10: 1}, "doubled 2*2, missing 1 of 0-12")
	f("as many rows as records, the file gone", stamped, gone, map[int64]int{0: 1, 2: 2, 10: 1}, "doubled 2*1, missing 1 of 0-12")
	f("none there", stamped, gone, nil, "missing 4 of 0-12")
	f("the file holds something else", stamped, here, map[int64]int{0: 1, 3: 1, 6: 1}, "missing 1 of 0-12")
	f("several have one offset", shared, gone, map[int64]int{0: 1, 6: 3}, "unclear 4")
	f("several have one offset, and one is missing", shared, gone, map[int64]int{0: 1, 6: 2}, "missing 1 of 0-12")
	f("several have one offset, and one is too many", shared, gone, map[int64]int{0: 2, 6: 3}, "doubled 1 of 0-12")
	f("no stamps", Stamps{}, here, nil, "unstamped 4")
	again := func(w *teller) { // the same piece, stored twice by the agent itself
		p := batchOf(2, fileOf(1), 0, int64(len(text)))
		p.Records, p.Pieces[0].Records = 4, 4
		w.tell(journal.Entry{Kind: journal.Begin, Payload: p, Batch: p.ID, Attempt: 1})
		w.end(2, record.Accepted)
	}
	f("accepted twice", stamped, here, map[int64]int{0: 2, 2: 2, 6: 2, 10: 2}, "doubled 0*1, doubled 10*1, doubled 2*1, doubled 6*1", again)
	f("accepted twice, the file gone", stamped, gone, map[int64]int{0: 1, 2: 2, 6: 1}, "doubled 2*1, missing 1 of 0-12", again)
	part := func(w *teller) {
		w.begin(2, 6, 10)
		w.end(2, record.Accepted)
	}
	f("accepted twice in part", stamped, here, map[int64]int{0: 1, 2: 1, 6: 2}, "doubled 6*1, missing 10*1", part)
	f("accepted twice in part, the file gone", stamped, gone, map[int64]int{0: 1, 2: 1, 6: 2}, "doubled 6*1, unclear 4", part)
	records = 3
	f("lines are not what records are", stamped, here, map[int64]int{0: 1, 6: 1}, "missing 1 of 0-12")
	records = 4
	second := func(w *teller) {
		w.tell(journal.Entry{Kind: journal.FileSeen, File: record.File{Input: "app", ID: 1, Generation: 1}})
	}
	f("two generations without their stamp", Stamps{File: "f", Offset: "o"}, here, nil, "unstamped 4", second)
}

// TestQuestionsAreBounded: no question asks for many more records than an answer may have.
func TestQuestionsAreBounded(t *testing.T) {
	var all []sent
	for i := range int64(30) {
		all = append(all, sent{Span: record.Span{Start: i * 10, End: i*10 + 10}, records: most / 4})
	}
	seen := 0
	for _, w := range windows(joined(all)) {
		n := 0
		for _, s := range w {
			n += s.records
		}
		if seen += len(w); n > most {
			t.Errorf("a question for %d records", n)
		}
	}
	if seen != 30 {
		t.Errorf("%d pieces are asked for, want 30", seen)
	}
}
