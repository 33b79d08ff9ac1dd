package queryshell

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/console"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/rows"
)

// TestDrawing: a query that renders what can be drawn is drawn on a terminal, and
// all else is printed, with a word where something else was asked for.
func TestDrawing(t *testing.T) {
	f := func(p Paper, visualization, columns string, prints, says string, all ...string) {
		t.Helper()
		var out, words strings.Builder
		p.out, p.words = console.Output{Writer: bufio.NewWriter(&out), Terminal: false}, &words
		about := &rows.About{Visualization: visualization}
		to, err := p.printer(about)
		if err != nil {
			t.Fatal(err)
		}
		table := &query.Table{Kind: query.PrimaryResult}
		for column := range strings.FieldsSeq(columns) {
			name, typ, _ := strings.Cut(column, ":")
			table.Columns = append(table.Columns, query.Column{Name: name, Type: typ})
		}
		err = to.Table(table)
		for _, row := range all {
			var cells []json.RawMessage
			if err := json.Unmarshal([]byte(row), &cells); err != nil {
				t.Fatal(err)
			}
			if err == nil {
				err = to.Row(table, cells)
			}
			for _, cell := range cells { // they belong to the caller again
				clear(cell)
			}
		}
		if err == nil {
			err = to.End()
		}
		p.out.Flush()
		if err != nil {
			words.WriteString(err.Error())
		}
		if !strings.HasPrefix(out.String(), prints) || (prints == "") != (out.Len() == 0) || strings.TrimSpace(words.String()) != says {
			t.Errorf("%s prints\n%s\nand says %s", visualization, out.String(), words.String())
		}
	}
	auto := Paper{Rows: rows.Options{Form: rows.Table}, auto: true}
	const pie = `{"Visualization":"piechart","Title":"Storms"}`
	f(auto, "", "s:string n:long", "s   n\n-  --\na  40\n", "", `["a",40]`)
	f(auto, `{"Visualization":null}`, "s:string n:long", "s   n\n-  --\na  40\n", "", `["a",40]`)
	f(auto, `{"Visualization":"table"}`, "s:string n:long", "s   n\n-  --\na  40\n", "", `["a",40]`)
	f(auto, `{"Visualization":"card"}`, "s:string n:long", "s   n\n-  --\na  40\n", "card is not drawn here; these are its rows", `["a",40]`)
	f(auto, pie, "s:string n:long", "Storms\n\n", "", `["a",40]`, `["b",2]`)
	f(auto, pie, "s:string t:string", "s  t\n-  -\na  b\n", "nothing is drawn: piechart wants a column for its places and a number; the result has s:string, t:string", `["a","b"]`)
	drawn := Paper{Rows: rows.Options{Form: FormChart}}
	f(drawn, "", "s:string n:long", "s   n\n-  --\na  40\n", "nothing is drawn: the query renders no chart; give one with --render", `["a",40]`)
	drawn.Render = "barchart"
	f(drawn, pie, "s:string n:long", "Storms\n\na │█", "", `["a",40]`)
	picture := Paper{Rows: rows.Options{Form: FormSVG}}
	f(picture, pie, "s:string n:long", "<svg", "", `["a",40]`)
	f(picture, "", "s:string n:long", "", "nothing is drawn: the query renders no chart; give one with --render", `["a",40]`)
}

// TestOutputFile: a file takes its place when all was printed, for its owner alone,
// and stays as it was after an error.
func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.csv")
	write := func(text string, err error) error {
		t.Helper()
		p := Paper{Output: path}
		if err := p.begin(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.out.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return p.end(err)
	}
	holds := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || string(got) != want {
			t.Errorf("it holds %q, %v; want %q", got, err, want)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) > 1 {
			t.Errorf("there are %v, %v", all, err)
		}
	}
	bad := errors.New("bad")
	if err := write("a\n", bad); !errors.Is(err, bad) {
		t.Error(err)
	}
	holds("")
	if err := write("a\n1\n", nil); err != nil {
		t.Error(err)
	}
	holds("a\n1\n")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	_ = write("b\n", bad)
	holds("a\n1\n")
	path = os.DevNull
	if err := write("b\n", nil); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().IsRegular() {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	for name, says := range map[string]string{"nodir/x.csv": "there is no folder ", "x/y.csv": "is no folder; name another file"} {
		if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		name = filepath.Join(dir, name)
		if err := (&Paper{Output: name}).begin(); err == nil || !strings.HasPrefix(err.Error(), "--output \""+name+"\": ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Paper{Output: dir}).begin(); err == nil {
		t.Error("it takes a folder")
	}
}
