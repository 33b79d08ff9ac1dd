package rows

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"kusto-agent/internal/kusto/query"
)

// printed is what rows look like; columns are name:type.
func printed(t *testing.T, o Options, columns string, rows ...string) (string, Left) {
	t.Helper()
	var text strings.Builder
	w := bufio.NewWriter(&text)
	p := New(w, o)
	table := &query.Table{Kind: query.PrimaryResult}
	for column := range strings.FieldsSeq(columns) {
		name, typ, _ := strings.Cut(column, ":")
		table.Columns = append(table.Columns, query.Column{Name: name, Type: typ})
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(o.Check())
	about := &query.Table{Kind: "QueryProperties", Columns: []query.Column{{Name: "Value"}}}
	must(p.Table(about))
	must(p.Row(about, []json.RawMessage{[]byte(`"x"`)}))
	must(p.Table(table))
	for _, row := range rows {
		if row == "again" {
			table = &query.Table{Kind: query.PrimaryResult, Columns: table.Columns}
			must(p.Table(table))
			continue
		}
		var cells []json.RawMessage
		must(json.Unmarshal([]byte(row), &cells))
		must(p.Row(table, cells))
	}
	must(p.End())
	must(w.Flush())
	return text.String(), p.Left()
}

const mixed = "n:long s:string d:dynamic"

var mixedRows = []string{`[9007199254740993,"a, \"b\"",{"x": [1.10]}]`, `[-1,"",null]`, `[null,"line\nbreak\tand \\ |","null"]`}

func TestForms(t *testing.T) {
	f := func(o Options, want string, columns string, rows ...string) {
		t.Helper()
		if got, _ := printed(t, o, columns, rows...); got != want {
			t.Errorf("%+v prints\n%s\nwant\n%s", o, got, want)
		}
	}
	f(Options{Form: CSV}, "n,s,d\n9007199254740993,\"a, \"\"b\"\"\",\"{\"\"x\"\": [1.10]}\"\n-1,\"\",\n,\"line\nbreak\tand \\ |\",null\n", mixed, mixedRows...)
	f(Options{Form: CSV}, "a\n\"\"\n\"\"\n1\n\na\n2\n", "a", `[""]`, `[null]`, `[1]`, "again", `[2]`)
	f(Options{Form: CSV, NoHeader: true}, "1,\" \"\n", "a b", `[1," "]`)
	f(Options{Form: CSV, Types: true}, "a:long,b\n", "a:long b")
	f(Options{Form: TSV}, "n\ts\td\n9007199254740993\ta, \"b\"\t{\"x\": [1.10]}\n-1\t\t\\N\n\\N\tline\\nbreak\\tand \\\\ |\tnull\n", mixed, mixedRows...)
	f(Options{Form: JSON}, `{"n":9007199254740993,"s":"a, \"b\"","d":{"x":[1.10]}}`+"\n"+`{"n":-1,"s":"","d":null}`+"\n"+`{"n":null,"s":"line\nbreak\tand \\ |","d":"null"}`+"\n", mixed, mixedRows...)
	f(Options{Form: JSONArray}, "[{\"a\":1}\n,{\"a\":2}\n,{\"a\":3}\n]\n", "a", `[1]`, `[2]`, "again", `[3]`)
	f(Options{Form: JSONArray}, "[]\n", "a")
	f(Options{Form: Markdown}, "| n | s | d |\n| ---: | --- | --- |\n| 9007199254740993 | a, \"b\" | {\"x\": \\[1.10]} |\n| -1 |  | *null* |\n| *null* | line<br>break\tand \\\\ \\| | null |\n", mixed, mixedRows...)
	f(Options{Form: Vertical}, "-- row 1 --\nn:  1\nbb: \n-- row 2 --\nn:  null\nbb: x\n\n-- row 1 --\nn:  2\nbb: y\n", "n bb", `[1,""]`, `[null,"x"]`, "again", `[2,"y"]`)
	f(Options{Form: Table}, `               n  s                        d
----------------  -----------------------  -------------
9007199254740993  a, "b"                   {"x": [1.10]}
              -1                           null
            null  "line\nbreak\tand \\ |"  "null"
`, mixed, mixedRows...)
	f(Options{Form: Table, Types: true}, "a:long  b:string\n------  --------\n     1  x\n", "a:long b:string", `[1,"x"]`)
	f(Options{Form: Table, NoHeader: true}, "  1  x\n200  y\n", "a:long b:string", `[1,"x"]`, `[200,"y"]`)
	f(Options{Form: Table}, "a  b\n-  -\n", "a b")

	// A character may be wide, or made of several.
	f(Options{Form: Table}, "s       n\n------  -\n日本語  1\nabc     2\ne\u0301       3\n", "s:string n", `["日本語",1]`, `["abc",2]`, `["e\u0301",3]`)

	// Lines are cut to the terminal, the widest column first.
	long := `[1,"` + strings.Repeat("x", 50) + `","` + strings.Repeat("日", 30) + `"]`
	f(Options{Form: Table, Width: 30}, "n  s             d\n-  ------------  -------------\n1  xxxxxxxxxxx…  日日日日日日…\n", "n:long s:string d:string", long)
	f(Options{Form: Table, Color: true}, "   a\n----\n\x1b[2mnull\x1b[0m\n   1\n", "a:long", `[null]`, `[1]`)
}

// TestSteering: what could steer a terminal, or turn a text round on it, is written
// as what it is; elsewhere it is left alone.
func TestSteering(t *testing.T) {
	const steers = "\x1b\u202etxt\u009b\x07"
	cell, _ := json.Marshal([]string{steers})
	for _, form := range Forms {
		screen, _ := printed(t, Options{Form: form, Screen: true}, "a"+strings.ReplaceAll(steers, " ", ""), string(cell))
		if i := strings.IndexAny(screen, "\x1b\u202e\u009b\x07"); i >= 0 {
			t.Errorf("%s: %q", form, screen)
		}
		if file, _ := printed(t, Options{Form: form}, "a", string(cell)); form != Table && form != Vertical && form != JSON && form != JSONArray && !strings.Contains(file, steers) {
			t.Errorf("%s changes the text in a file: %q", form, file)
		}
	}
	if got, _ := printed(t, Options{Form: TSV, Screen: true}, "a", "[[\"\x9b\"]]"); got != "a\n[\"\ufffd\"]\n" {
		t.Errorf("%q", got)
	}
	if got, _ := printed(t, Options{Form: CSV, Screen: true}, "a", `["one\ntwo\tthree"]`); got != "a\n\"one\ntwo\tthree\"\n" {
		t.Errorf("%q", got)
	}
}

// TestCSVIsRead: another reader of CSV finds the same cells.
func TestCSVIsRead(t *testing.T) {
	rows := []string{`["a\"b", "c,d"]`, `[" e ", ""]`, `["f\r\ng", "\""]`}
	text, _ := printed(t, Options{Form: CSV}, "x y", rows...)
	got, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(got) != 4 || got[1][0] != `a"b` || got[2][0] != " e " || got[3][0] != "f\ng" || got[3][1] != `"` {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLeft(t *testing.T) {
	text, left := printed(t, Options{Form: CSV, MaxRows: 1}, "a", `[1]`, `[2]`, "again", `[3]`, `[4]`, `[5]`)
	if text != "a\n1\n\na\n3\n" || left != (Left{Rows: 3, Of: 5}) {
		t.Errorf("%q, %+v", text, left)
	}
	text, left = printed(t, Options{Form: Table, Width: 20}, "aaaaaaaa bbbbbbbb cccccccc dddddddd", `[1,2,3,4]`)
	if left.Columns != 1 {
		t.Errorf("%q, %+v", text, left)
	}
	for line := range strings.Lines(text) {
		if ansi.StringWidth(strings.TrimRight(line, "\n")) > 20 {
			t.Errorf("%q does not go on 20 columns", line)
		}
	}
}

// TestHeldRows: the rows of a table that is not over are seen when that is asked
// for, and those behind them fit below.
func TestHeldRows(t *testing.T) {
	var text strings.Builder
	w := bufio.NewWriter(&text)
	p := New(w, Options{Form: Table})
	table := &query.Table{Kind: query.PrimaryResult, Columns: []query.Column{{Name: "a"}, {Name: "b"}}}
	seen := func(want string) {
		t.Helper()
		_ = p.Flush()
		_ = w.Flush()
		if text.String() != want {
			t.Errorf("%q, want %q", text.String(), want)
		}
	}
	_ = p.Table(table)
	seen("")
	_ = p.Row(table, []json.RawMessage{[]byte(`"xx"`), []byte("1")})
	seen("a   b\n--  -\nxx  1\n")
	_ = p.Row(table, []json.RawMessage{[]byte(`"long"`), []byte("2")})
	seen("a   b\n--  -\nxx  1\nlong  2\n")
	for range 2 * measured {
		_ = p.Row(table, []json.RawMessage{[]byte(`"x"`), []byte("2")})
	}
	if n := len(p.(*printer).form.(*tableForm).held); n > 0 {
		t.Errorf("%d rows are held", n)
	}
}

type tableForm = table // the name is taken there

func TestNames(t *testing.T) {
	for name, want := range map[string]Form{"ndjson": JSON, "jsonl": JSON, "md": Markdown, "tsv": TSV} {
		if got, ok := FormOf(name); got != want || !ok {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, want := range map[string]Form{"a.CSV": CSV, "b.json": JSONArray, "c.ndjson": JSON, "d.md": Markdown, "e.txt": Table, "f": "", "g.svg": ""} {
		if got, ok := FormOfFile(name); got != want || ok != (want != "") {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, o := range []Options{{Form: JSON, NoHeader: true}, {Form: Vertical, Types: true}, {Form: Markdown, NoHeader: true}, {Form: CSV, NoHeader: true, Types: true}} {
		if o.Check() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, ok := FormOf("xml"); ok {
		t.Error("xml")
	}
}

func TestAbout(t *testing.T) {
	var a About
	note := func(kind, columns string, cells ...string) {
		table := &query.Table{Kind: kind}
		var row []json.RawMessage
		for i, name := range strings.Fields(columns) {
			table.Columns = append(table.Columns, query.Column{Name: name})
			cell, _ := json.Marshal(cells[i])
			row = append(row, cell)
		}
		a.Note(table, row)
	}
	note("QueryProperties", "TableId Key Value", "1", "Visualization", `{"Visualization":null}`)
	note("QueryProperties", "TableId Key Value", "1", "Cursor", `"x"`)
	note("QueryCompletionInformation", "EventTypeName Payload", "QueryInfo", `{"Count":1,"Text":"ok"}`)
	if got := a.Summary(1500*time.Millisecond, 1); a.Visualization != "" || got != "1.500 s, 1 row; the service told no statistics" {
		t.Errorf("%s, %s", a.Visualization, got)
	}
	note("QueryProperties", "TableId Key Value", "1", "Visualization", `{"Visualization":"piechart"}`)
	const payload = `{"ExecutionTime":0.25,"resource_usage":{"cpu":{"total cpu":"00:00:00.5"},"memory":{"peak_per_node":2097152}},"input_dataset_statistics":{"rows":{"total":1234567,"scanned":1000}}}`
	for _, column := range []string{"Payload", "StatusDescription"} {
		a.Resources = nil
		kind := map[string]string{"Payload": "QueryCompletionInformation", "StatusDescription": "QueryStatus"}[column]
		note(kind, column, payload)
		if got := a.Summary(time.Second, 2); got != "1.000 s, 2 rows; in the service: 0.250 s, CPU 00:00:00.5, 1,000 rows scanned of 1,234,567, memory 2.0 MiB" {
			t.Error(got)
		}
	}
	if a.Visualization != `{"Visualization":"piechart"}` {
		t.Error(a.Visualization)
	}
}
