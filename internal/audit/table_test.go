package audit

import (
	"context"
	"fmt"
	"maps"
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
	records, now := 4, uint64(0)
	f := func(name string, stamps Stamps, info record.FileInfo, rows map[int64]int, want string, tell ...func(*teller)) {
		t.Run(name, func(t *testing.T) {
			w := newTeller(time.Time{})
			w.h.pieces = true
			w.tell(journal.Entry{Kind: journal.FileSeen, File: fileOf(1), Info: info.Facts()})
			p := batchOf(1, fileOf(1), 0, int64(len(text)))
			p.Records, p.Pieces[0].Records = records, records
			w.tell(journal.Entry{Kind: journal.Begin, Payload: p, Batch: p.ID, Attempt: 1})
			w.end(1, record.Accepted)
			for _, more := range tell {
				more(w)
			}
			x := newTables(TableOptions{
				Stamps: func(string) Stamps { return stamps }, Ask: &fakeTable{rows: rows},
				Shaped: func(_ string, _ record.Route, shaping uint64) bool { return shaping == now },
			}, w.h)
			if err := x.file(t.Context(), w.h.file(fileOf(1))); err != nil {
				t.Fatal(err)
			}
			for _, n := range x.unstamped {
				x.out.Unstamped += n
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
	now = 1
	f("sent without stamps", stamped, here, nil, "unstamped 4")
	f("sent in another shape, with stamps", stamped, here, map[int64]int{0: 1, 2: 1, 6: 1}, "missing 10*1")
	f("sent without stamps, and again without them", stamped, here, nil, "unstamped 8", again)
	now = 0
	records = 3
	f("lines are not what records are", stamped, here, map[int64]int{0: 1, 6: 1}, "missing 1 of 0-12")
	records = 4
	second := func(w *teller) {
		w.tell(journal.Entry{Kind: journal.FileSeen, File: record.File{Input: "app", ID: 1, Generation: 1}})
	}
	f("two generations without their stamp", Stamps{File: "f", Offset: "o"}, here, nil, "unstamped 4", second)
}

// TestOnceFunctions: each table has one function without its doubles, by the stamps of all inputs
// that write to it, and none if its stamps do not tell doubles from other records; the text says so.
func TestOnceFunctions(t *testing.T) {
	f := func(name string, inputs map[string]Stamps, want ...string) {
		t.Run(name, func(t *testing.T) {
			w := newTeller(time.Time{})
			w.h.pieces = true
			rows := map[int64]int{0: 1, 1: 1, 2: 2, 3: 1}
			for n, input := range slices.Sorted(maps.Keys(inputs)) {
				name := record.File{Input: input, ID: 1}
				if input == "later" {
					name.Generation = 1
				}
				p := batchOf(n, name, 0, 4)
				w.tell(journal.Entry{Kind: journal.Begin, Payload: p, Batch: p.ID, Attempt: 1})
				w.end(n, record.Accepted)
			}
			x := newTables(TableOptions{
				Stamps: func(input string) Stamps { return inputs[input] }, Ask: &fakeTable{rows: rows},
				Shaped: func(string, record.Route, uint64) bool { return true },
			}, w.h)
			for _, file := range w.h.files {
				if err := x.file(t.Context(), file); err != nil {
					t.Fatal(err)
				}
			}
			x.addOnceFunctions()
			var got []string
			for _, text := range x.out.Functions {
				_, body, _ := strings.Cut(text, ") ")
				got = append(got, body)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			var text strings.Builder
			if err := x.out.Write(&text); err != nil {
				t.Fatal(err)
			}
			doubled := len(x.out.Doubled) > 0
			for words, said := range map[string]bool{"make this function": doubled && len(want) > 0, "No query by stamps alone": doubled && len(want) == 0} {
				if strings.Contains(text.String(), words) != said {
					t.Errorf("says %q: %v, want %v, in\n%s", words, !said, said, &text)
				}
			}
		})
	}
	stamped := Stamps{File: "f", Generation: "g", Offset: "o"}
	const once = "['T_once']() { ['T'] | where isnotempty(['f']) and isnotnull(['g']) and isnotnull(['o']) | summarize take_any(*) by ['f'], ['g'], ['o'] | union (['T'] | where not(isnotempty(['f']) and isnotnull(['g']) and isnotnull(['o']))) }"
	f("no stamps", map[string]Stamps{"a": {}})
	f("one input", map[string]Stamps{"a": stamped}, once)
	f("two inputs with the same stamps", map[string]Stamps{"a": stamped, "b": stamped}, once)
	f("two inputs with other stamps", map[string]Stamps{"a": stamped, "b": {File: "f", Offset: "at"}},
		"['T_once']() { ['T'] | where isnotempty(['f']) and isnotnull(['g']) and isnotnull(['o']) or isnotempty(['f']) and isnotnull(['at']) | summarize take_any(*) by ['f'], ['g'], ['o'], ['at'] | "+
			"union (['T'] | where not(isnotempty(['f']) and isnotnull(['g']) and isnotnull(['o']) or isnotempty(['f']) and isnotnull(['at']))) }")
	shared := Stamps{File: "f", Generation: "g", Offset: "o", Shared: true}
	f("several have one offset", map[string]Stamps{"a": shared})
	f("several of one of two inputs have one offset", map[string]Stamps{"a": stamped, "b": shared})
	f("later generations without their stamp", map[string]Stamps{"a": stamped, "later": {File: "f", Offset: "o"}})
	f("later generations with their stamp", map[string]Stamps{"later": stamped}, once)
	f("one of two inputs has no stamps", map[string]Stamps{"a": {File: "f"}, "b": stamped}, once)
}

// countedTable answers with the number of rows that were stored at times.
type countedTable struct {
	rows     []time.Time
	timeless int
}

func (c *countedTable) Ask(_ context.Context, _ record.Route, text string, parameters []query.Parameter, row func(map[string]string)) error {
	n := 0
	if strings.Contains(text, "isnull(ingestion_time())") {
		n = c.timeless
	} else {
		between := [2]time.Time{}
		for i, p := range parameters {
			var err error
			if between[i], err = time.Parse(time.RFC3339, p.Value); err != nil || p.Type != "datetime" {
				return fmt.Errorf("parameter %+v: %w", p, err)
			}
		}
		for _, at := range c.rows {
			if !at.Before(between[0]) && at.Before(between[1]) {
				n++
			}
		}
	}
	row(map[string]string{"n": fmt.Sprint(n)})
	return nil
}

// TestNumbers: records without stamps are compared by numbers, in spans of time between
// which nothing was accepted; all that was sent to a table counts, and rows without times
// are said to tell nothing.
func TestNumbers(t *testing.T) {
	base := time.Unix(1_790_000_000, 0)
	f := func(name, want string, batches []int, rows []int, timeless int) {
		t.Helper()
		w := newTeller(time.Time{})
		w.h.pieces = true
		table := &countedTable{timeless: timeless}
		for i, minute := range batches { // of two records, of two inputs in turn
			p := batchOf(i+1, record.File{Input: fmt.Sprint("in", i%2), ID: 1}, int64(i)*10, int64(i)*10+10)
			p.Records, p.Pieces[0].Records = 2, 2
			at := base.Add(time.Duration(minute) * time.Minute)
			w.h.take(&journal.Entry{Kind: journal.Begin, Payload: p, Batch: p.ID, Attempt: 1, At: at})
			w.h.take(&journal.Entry{Kind: journal.End, Batch: p.ID, Outcome: record.Accepted, At: at})
		}
		for _, minute := range rows {
			table.rows = append(table.rows, base.Add(time.Duration(minute)*time.Minute))
		}
		x := newTables(TableOptions{
			Stamps: func(input string) Stamps {
				if input == "in0" {
					return Stamps{}
				}
				return Stamps{File: "f", Generation: "g", Offset: "o"}
			}, Ask: table,
		}, w.h)
		for _, file := range w.h.files {
			if file.name.Input == "in0" {
				if err := x.file(t.Context(), file); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := x.counts(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range x.out.Windows {
			got = append(got, fmt.Sprintf("%v-%v %d batches %d records %d rows", v.From.Sub(base), v.To.Sub(base), v.Batches, v.Records, v.Rows))
		}
		if x.out.Unstamped > 0 {
			got = append(got, fmt.Sprintf("unstamped %d of %v", x.out.Unstamped, x.out.Timeless))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: got %q, want %q", name, text, want)
		}
	}
	f("none", "", nil, nil, 0)
	f("all there", "-2m0s-2m0s 1 batches 2 records 2 rows", []int{0}, []int{0, 0}, 0)
	f("one missing", "-2m0s-2m0s 1 batches 2 records 1 rows", []int{0}, []int{1}, 0)
	f("those of a stamped input count", "-2m0s-5m0s 2 batches 4 records 3 rows", []int{0, 3}, []int{0, 0, 3}, 0)
	f("a pause", "-2m0s-2m0s 1 batches 2 records 2 rows, 8m0s-12m0s 1 batches 2 records 3 rows", []int{0, 10}, []int{0, 1, 9, 10, 11, 12}, 0)
	f("rows without a time", "unstamped 2 of [T]", []int{0, 1}, []int{0, 0}, 1)
}

// TestWindowsAreFew: however many pauses there are.
func TestWindowsAreFew(t *testing.T) {
	var all []*ended
	for i := range 10_000 {
		all = append(all, &ended{time.Unix(int64(i)*600, 0), 1})
	}
	records := int64(0)
	out := windowsOf(all)
	for i, w := range out {
		if records += w.Records; i > 0 && w.From.Before(out[i-1].To) {
			t.Fatalf("window %d begins before the end of the one before", i)
		}
	}
	if records != 10_000 || len(out) < mostWindows/2 || len(out) > mostWindows+1 {
		t.Errorf("%d windows with %d records", len(out), records)
	}
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
