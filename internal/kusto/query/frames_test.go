package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// member is a key of an object with its value, so that tests choose the order.
type member struct{ key, value string }

func object(members ...member) string {
	var list []string
	for _, m := range members {
		list = append(list, fmt.Sprintf("%q:%s", m.key, m.value))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// permuted calls f with every order of members.
func permuted(members []member, f func([]member)) {
	var from func(int)
	from = func(i int) {
		if i == len(members) {
			f(slices.Clone(members))
			return
		}
		for j := i; j < len(members); j++ {
			members[i], members[j] = members[j], members[i]
			from(i + 1)
			members[i], members[j] = members[j], members[i]
		}
	}
	from(0)
}

// frames of an answer with everything that version 2 has.
func frames(progressive string) [][]member {
	columns := member{"Columns", `[{"ColumnName":"a","ColumnType":"int"}]`}
	return [][]member{
		{{"FrameType", `"DataSetHeader"`}, {"IsProgressive", progressive}, {"Version", `"v2.0"`}, {"IsFragmented", "true"}},
		{{"FrameType", `"DataTable"`}, {"TableId", "0"}, {"TableKind", `"PrimaryResult"`}, {"TableName", `"P"`}, columns, {"Rows", `[[1],[2]]`}},
		{{"FrameType", `"TableHeader"`}, {"TableId", "1"}, {"TableKind", `"PrimaryResult"`}, {"TableName", `"Q"`}, columns},
		{{"FrameType", `"TableFragment"`}, {"TableId", "1"}, {"TableFragmentType", `"DataAppend"`}, {"FieldCount", "1"}, {"Rows", `[[3]]`}},
		{{"FrameType", `"TableFragment"`}, {"TableId", "1"}, {"TableFragmentType", `"DataAppend"`}, {"Rows", `[[4]]`}},
		{{"FrameType", `"TableCompletion"`}, {"TableId", "1"}, {"RowCount", "2"}},
		{{"FrameType", `"DataSetCompletion"`}, {"HasErrors", "false"}, {"Cancelled", "false"}},
	}
}

func framed(all [][]member) string {
	var list []string
	for _, f := range all {
		list = append(list, object(f...))
	}
	return "[" + strings.Join(list, "\n,") + "]"
}

var framedLines = []string{"PrimaryResult P (a:int)", "P: 1", "P: 2", "PrimaryResult Q (a:int)", "Q: 3", "Q: 4"}

func read(answer string, q Query) (lines []string, err error) {
	var got transcript
	err = readResult(strings.NewReader(answer), &q, &got)
	return got.lines, err
}

// TestFramesInAnyOrder: JSON has no order of keys, so every order of those of every
// frame gives the same rows.
func TestFramesInAnyOrder(t *testing.T) {
	for _, progressive := range []string{"false", "true"} {
		all := frames(progressive)
		for i, own := range all {
			permuted(own, func(in []member) {
				changed := slices.Clone(all)
				changed[i] = in
				if got, err := read(framed(changed), Query{}); err != nil || !slices.Equal(got, framedLines) {
					t.Fatalf("%s gives %q, %v", object(in...), got, err)
				}
			})
		}
	}
}

// tables1 is an answer of version 1: two results, of which the second has the form
// of the properties, and what is of the service behind them.
func tables1() [][]member {
	one := func(name, columns, rows string) []member {
		var list []string
		for _, c := range strings.Split(columns, ",") {
			list = append(list, fmt.Sprintf(`{"ColumnName":%q,"DataType":"String"}`, c))
		}
		return []member{{"TableName", `"` + name + `"`}, {"Columns", "[" + strings.Join(list, ",") + "]"}, {"Rows", rows}}
	}
	return [][]member{
		one("Table_0", "a", `[["1"],["2"]]`),
		one("Table_1", "Value", `[["3"]]`),
		one("Table_2", "a", `[["4"]]`),
		one("Table_3", "Value", `[["{}"]]`),
		one("Table_4", statusColumns+",ActivityId", `[["","4","Info","0","well","1","r","a"]]`),
		one("Table_5", contentsColumns, `[[0,"QueryResult","P","",""],[1,"QueryResult","P","",""],[2,"QueryResult","P","",""],[3,"QueryProperties","@ExtendedProperties","",""],[4,"QueryStatus","QueryStatus","",""]]`),
	}
}

func version1(all [][]member) string {
	var list []string
	for _, t := range all {
		list = append(list, object(t...))
	}
	return `{"Tables":[` + strings.Join(list, ",") + `]}`
}

// results are the lines of primary tables.
func results(lines []string) (own []string) {
	primary := false
	for _, l := range lines {
		if kind, _, isHead := strings.Cut(l, " ("); isHead {
			primary = strings.HasPrefix(kind, PrimaryResult)
		}
		if primary {
			own = append(own, l)
		}
	}
	return own
}

var tables1Lines = []string{"PrimaryResult Table_0 (a:string)", `Table_0: "1"`, `Table_0: "2"`,
	"PrimaryResult Table_1 (Value:string)", `Table_1: "3"`, "PrimaryResult Table_2 (a:string)", `Table_2: "4"`}

// TestTablesInAnyOrder: so in version 1, whose table of contents says which tables
// are results.
func TestTablesInAnyOrder(t *testing.T) {
	all := tables1()
	for i, own := range all {
		permuted(own, func(in []member) {
			changed := slices.Clone(all)
			changed[i] = in
			for _, call := range []Call{QueryV1, Mgmt} {
				if got, err := read(version1(changed), Query{Call: call}); err != nil || !slices.Equal(results(got), tables1Lines) {
					t.Fatalf("%s gives %q, %v", object(in...), results(got), err)
				}
			}
		})
	}
}

// TestCutResults: an answer that ends early, wherever, is an error, and the rows
// that came before are those of the whole.
func TestCutResults(t *testing.T) {
	cut := func(answer string, want []string, q Query) {
		t.Helper()
		for n := range len(answer) {
			got, err := read(answer[:n], q)
			if err == nil {
				t.Errorf("cut after %s: no error", answer[:n])
			}
			if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
				t.Errorf("cut after %s: %q", answer[:n], got)
			}
		}
	}
	cut(framed(frames("false")), framedLines, Query{})
	cut(framed(frames("true")), framedLines, Query{})
	whole, err := read(version1(tables1()), Query{Call: QueryV1})
	if err != nil {
		t.Fatal(err)
	}
	cut(version1(tables1()), whole, Query{Call: QueryV1})
}

// TestNothingIsLost: what cannot be shown is an error.
func TestNothingIsLost(t *testing.T) {
	f := func(name, answer string, ok bool, want ...string) {
		t.Run(name, func(t *testing.T) {
			got, err := read(answer, Query{Call: QueryV1})
			if (err == nil) != ok || !slices.Equal(results(got), want) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	const end = `,{"FrameType":"DataSetCompletion","HasErrors":false}]`
	const head = `{"FrameType":"TableHeader","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a"}]}`
	rows := []string{"PrimaryResult P (a:)", "P: 1"}
	f("no kind", `[{"FrameType":"DataTable","TableName":"P","Columns":[{"ColumnName":"a"}],"Rows":[[1]]}`+end, false)
	f("a kind nobody knows", `[{"FrameType":"DataTable","TableKind":"Strange","TableName":"P","Columns":[{"ColumnName":"a"}],"Rows":[[1]]}`+end, true, rows...)
	f("no columns", `[{"FrameType":"DataTable","TableKind":"PrimaryResult","TableName":"P","Rows":[[1]]}`+end, false)
	f("columns behind", `[{"FrameType":"DataTable","TableKind":"PrimaryResult","TableName":"P","Rows":[[1]],"Columns":[{"ColumnName":"a"}]}`+end, true, rows...)
	f("keys in small letters", `[{"frametype":"DataTable","tablekind":"PrimaryResult","tablename":"P","columns":[{"columnname":"a"}],"rows":[[1]]},{"frameType":"DataSetCompletion"}]`, true, rows...)
	f("rows twice", `[{"FrameType":"DataTable","TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a"}],"Rows":[[1]],"Rows":[[2]]}`+end, false, rows...)
	f("no type of the frame", `[{"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a"}],"Rows":[[1]]}`+end, false)
	f("an unknown frame", `[{"FrameType":"New","Hello":[1,{"a":[]}]}`+end, true)
	f("an unknown frame with rows", `[{"FrameType":"New","Rows":[[1]]}`+end, false)
	f("a fragment of no table", `[{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataAppend","Rows":[[1]]}`+end, false)
	f("a fragment that does not say what it does", `[`+head+`,{"FrameType":"TableFragment","TableId":1,"Rows":[[1]]}`+end, false, rows[0])
	f("a fragment of an unknown kind", `[`+head+`,{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataMerge","Rows":[[1]]}`+end, false, rows[0])
	f("a table without its end", `[`+head+`,{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataAppend","Rows":[[1]]}`+end, false, rows...)
	f("fewer rows than told", `[`+head+`,{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataAppend","Rows":[[1]]},{"FrameType":"TableCompletion","TableId":1,"RowCount":2}`+end, false, rows...)
	f("a frame behind the end", `[{"FrameType":"DataSetCompletion"},{"FrameType":"DataTable","TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a"}],"Rows":[[1]]}]`, false)
	f("another answer behind", `[{"FrameType":"DataSetCompletion"}][]`, false)
	f("tables twice", `{"Tables":[],"Tables":[]}`, false)
	f("a table of version 1 without columns", `{"Tables":[{"TableName":"P","Rows":[[1]]}]}`, false)
	f("an empty error for a row", `{"Tables":[{"TableName":"P","Columns":[{"ColumnName":"a"}],"Rows":[[1],{"OneApiErrors":[]}]}]}`, false, rows...)
	f("a failure told among the information", `[{"FrameType":"DataTable","TableKind":"QueryCompletionInformation","TableName":"I","Columns":[{"ColumnName":"Level"},{"ColumnName":"Payload"}],"Rows":[[2,"{\"Text\":\"too much\"}"]]}`+end, false)
	f("an empty frame", `[{}`+end, false)
	f("a frame whose type is told behind its rows", `[{"Rows":[[1]],"FrameType":"TableProgress"}`+end, false)
	f("a header twice", `[`+head+`,`+head+`,{"FrameType":"TableCompletion","TableId":1}`+end, false, rows[0])
	f("a header with rows", `[`+strings.TrimSuffix(head, "}")+`,"Rows":[[1]]},{"FrameType":"TableCompletion","TableId":1}`+end, false)
	f("a header with rows told before its type", `[{"Rows":[[1]],`+head[1:]+`,{"FrameType":"TableCompletion","TableId":1}`+end, false)
	f("a byte order mark", "\xef\xbb\xbf[{\"FrameType\":\"DataSetCompletion\"}]", true)
	contents := func(rows string) []member {
		return []member{{"TableName", `"C"`}, {"Columns", `[{"ColumnName":"Ordinal"},{"ColumnName":"Kind"},{"ColumnName":"Name"},{"ColumnName":"Id"},{"ColumnName":"PrettyName"}]`}, {"Rows", rows}}
	}
	value := func(row string) []member {
		return []member{{"TableName", `"P"`}, {"Columns", `[{"ColumnName":"Value"}]`}, {"Rows", `[[` + row + `]]`}}
	}
	values := []string{"PrimaryResult P (Value:)", "P: 1", "PrimaryResult P (Value:)", "P: 2", "PrimaryResult P (Value:)", "P: 3"}
	f("contents that leave a table out", version1([][]member{value("1"), value("2"), value("3"), contents(`[[0,"QueryResult","","",""],[1,"QueryResult","","",""]]`)}),
		true, append(slices.Clone(values), "PrimaryResult C (Ordinal:, Kind:, Name:, Id:, PrettyName:)", `C: 0 | "QueryResult" | "" | "" | ""`, `C: 1 | "QueryResult" | "" | "" | ""`)...)
	f("contents", version1([][]member{value("1"), value("2"), value("3"), contents(`[[2,"QueryResult","","",""],[0,"QueryResult","","",""],[1,"QueryResult","","",""]]`)}), true, values...)
	f("a first table with the columns of the contents", version1([][]member{
		{{"TableName", `"P"`}, {"Columns", `[{"ColumnName":"a"}]`}, {"Rows", `[[1]]`}},
		{{"TableName", `"P"`}, {"Columns", `[{"ColumnName":"Ordinal"},{"ColumnName":"Kind"},{"ColumnName":"Name"},{"ColumnName":"Id"},{"ColumnName":"PrettyName"}]`}, {"Rows", `[[0,"x","","",""]]`}},
	}), true, append(slices.Clone(rows), "PrimaryResult P (Ordinal:, Kind:, Name:, Id:, PrettyName:)", `P: 0 | "x" | "" | "" | ""`)...)
}

// TestTablesBegun: how many tables can be begun and not ended is bounded.
func TestTablesBegun(t *testing.T) {
	var answer strings.Builder
	answer.WriteString(`[{"FrameType":"DataSetHeader"}`)
	for id := range maxTables + 1 {
		fmt.Fprintf(&answer, `,{"FrameType":"TableHeader","TableId":%d,"TableKind":"PrimaryResult","TableName":"T","Columns":[]}`, id)
	}
	var got discard
	if err := readResult(strings.NewReader(answer.String()), &Query{}, &got); !errors.Is(err, errShape) {
		t.Errorf("error %v", err)
	}
}

// TestInterleavedFragments: rows come under the head of their own table.
func TestInterleavedFragments(t *testing.T) {
	table := func(id int) string {
		return fmt.Sprintf(`{"FrameType":"TableHeader","TableId":%d,"TableKind":"PrimaryResult","TableName":"T%d","Columns":[{"ColumnName":"a","ColumnType":"int"}]}`, id, id)
	}
	rows := func(id int, change, rows string) string {
		return fmt.Sprintf(`{"FrameType":"TableFragment","TableId":%d,"TableFragmentType":%q,"Rows":%s}`, id, change, rows)
	}
	end := func(id, count int) string {
		return fmt.Sprintf(`{"FrameType":"TableCompletion","TableId":%d,"RowCount":%d}`, id, count)
	}
	f := func(progressive bool, want ...string) {
		t.Helper()
		answer := "[" + strings.Join([]string{fmt.Sprintf(`{"FrameType":"DataSetHeader","IsProgressive":%v}`, progressive),
			table(1), rows(1, dataAppend, "[[1]]"), table(2), rows(2, dataAppend, "[[7]]"), rows(1, dataAppend, "[[2]]"),
			rows(2, dataReplace, "[[8]]"), rows(1, dataAppend, "[[3]]"), end(2, 1), end(1, 3), `{"FrameType":"DataSetCompletion"}`}, ",") + "]"
		if got, err := read(answer, Query{}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v", got, err)
		}
	}
	one, two := []string{"PrimaryResult T1 (a:int)", "T1: 1", "T1: 2", "T1: 3"}, []string{"PrimaryResult T2 (a:int)", "T2: 8"}
	f(false, append(slices.Clone(one), two...)...)
	f(true, append(slices.Clone(one), two...)...)
}

// TestProgressiveRows: the rows of a progressive table are held until they are the last.
func TestProgressiveRows(t *testing.T) {
	const answer = `[{"FrameType":"DataSetHeader","IsProgressive":true},
{"FrameType":"TableHeader","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}]},
{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataReplace","Rows":[[1]]},
{"FrameType":"TableProgress","TableId":1,"TableProgress":50},
{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataReplace","Rows":[[2]]},
{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataAppend","Rows":[[3]]},
{"FrameType":"TableCompletion","TableId":1,"RowCount":2},{"FrameType":"DataSetCompletion"}]`
	if got, err := read(answer, Query{}); err != nil || !slices.Equal(got, []string{"progress 50", "PrimaryResult P (a:int)", "P: 2", "P: 3"}) {
		t.Errorf("held: %q, %v", got, err)
	}
}

// full is a Reader that takes no row.
type full struct{ Collector }

var errFull = errors.New("no room")

func (*full) Row(*Table, []json.RawMessage) error { return errFull }

// TestReaderFails: what the Reader says is returned as it is.
func TestReaderFails(t *testing.T) {
	if err := readResult(strings.NewReader(framed(frames("false"))), &Query{}, &full{}); err != errFull {
		t.Errorf("error %v", err)
	}
}

// discard is a Reader that keeps nothing.
type discard struct{ rows int }

func (d *discard) Table(*Table) error                  { return nil }
func (d *discard) Row(*Table, []json.RawMessage) error { d.rows++; return nil }
func (d *discard) Progress(float64)                    {}

// TestCollectorIsBounded: rows that are kept are bounded in bytes.
func TestCollectorIsBounded(t *testing.T) {
	cell := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	var c Collector
	table := &Table{Kind: PrimaryResult, Columns: []Column{{Name: "a"}}}
	err := c.Table(table)
	rows := 0
	for ; err == nil && rows < 100; rows++ {
		err = c.Row(table, []json.RawMessage{cell})
	}
	if rows != 64 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
