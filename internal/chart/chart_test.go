package chart

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"kusto-agent/internal/kusto/query"
)

// built is a chart of rows; columns are name:type.
func built(t *testing.T, s Spec, columns string, rows ...string) (*Chart, error) {
	t.Helper()
	var all []query.Column
	for column := range strings.FieldsSeq(columns) {
		name, typ, _ := strings.Cut(column, ":")
		all = append(all, query.Column{Name: name, Type: typ})
	}
	var cells [][]json.RawMessage
	for _, row := range rows {
		var one []json.RawMessage
		if err := json.Unmarshal([]byte(row), &one); err != nil {
			t.Fatal(err)
		}
		cells = append(cells, one)
	}
	return Build(s, all, cells)
}

var storms = []string{`["2026-03-01T00:00:00Z","TEXAS",4]`, `["2026-03-01T06:00:00Z","TEXAS",9]`, `["2026-03-02T00:00:00Z","TEXAS",2]`, `["2026-03-01T00:00:00Z","KANSAS",1]`, `["2026-03-01T12:00:00Z","KANSAS",6]`, `["2026-03-02T00:00:00Z","KANSAS",null]`}

var states = []string{`["TEXAS",40]`, `["KANSAS",25.5]`, `["日本",12]`, `["<&>",7]`, `["IOWA",0]`}

func TestDraw(t *testing.T) {
	for _, one := range []struct {
		name    string
		s       Spec
		columns string
		rows    []string
		height  int
	}{
		{"time", Spec{Kind: Time, Title: "Storms"}, "at:datetime State:string n:long", storms, 14},
		{"line", Spec{Kind: Line}, "x:real y:long", []string{`[3,9]`, `[1,1]`, `[2,4]`, `[10,0]`}, 12},
		{"bar", Spec{Kind: Bar, Title: "By state"}, "State:string n:real", states, 14},
		{"bars", Spec{Kind: Bar}, "State:string n:long m:long", []string{`["a",1,-2]`, `["b",null,4]`}, 14},
		{"column", Spec{Kind: Column}, "State:string n:real", states, 14},
		{"columns", Spec{Kind: Column}, "at:datetime State:string n:long", storms, 14},
		{"pie", Spec{Kind: Pie}, "State:string n:real", states, 14},
	} {
		c, err := built(t, one.s, one.columns, one.rows...)
		if err != nil {
			t.Fatal(one.name, err)
		}
		var text strings.Builder
		if err := c.Draw(&text, Screen{Width: 70, Height: one.height}); err != nil {
			t.Fatal(err)
		}
		wantFile(t, one.name+".txt", text.String())
		text.Reset()
		if err := c.SVG(&text); err != nil {
			t.Fatal(one.name, err)
		}
		wantFile(t, one.name+".svg", text.String())
	}
}

// TestBuilt: what is drawn of rows, and what is said where nothing can be.
func TestBuilt(t *testing.T) {
	f := func(want string, s Spec, columns string, rows ...string) {
		t.Helper()
		c, err := built(t, s, columns, rows...)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(c.X)
			for _, one := range c.Series {
				got += " " + one.Name
				if one.At != nil {
					got += fmt.Sprint(one.At)
				}
				got += fmt.Sprint(one.Y)
			}
		}
		if got != want {
			t.Errorf("%+v of %s:\n got %s\nwant %s", s, columns, got, want)
		}
	}
	f("[] n[1 2][7 5]", Spec{Kind: Time}, "n:long t:datetime", `[2,"1970-01-01T00:00:01Z"]`, `[5,"1970-01-01T00:00:02.0000000Z"]`, `[5,"1970-01-01T00:00:01Z"]`, `[9,null]`)
	f("[] n[1 2 3][NaN 5 NaN]", Spec{Kind: Line}, "x:real n:decimal", `[1,null]`, `[2,"5"]`, `[3,"NaN"]`)
	f("[a b] p[1 NaN] q[NaN 2]", Spec{Kind: Bar}, "x:string s:string n:int", `["a","p",1]`, `["b","q",2]`)
	f("[a] p: n[1] p: m[2]", Spec{Kind: Bar}, "x:string s:string n:int m:int", `["a","p",1,2]`)
	f("[1] m[2]", Spec{Kind: Column, XColumn: "n", YColumns: []string{"m"}, Series: []string{"none"}}, "x:string n:int m:int", `["a",1,2]`)
	f("[2026-01-01 2026-01-02 03:00:00] n[2 1]", Spec{Kind: Column}, "t:datetime n:int", `["2026-01-02T03:00:00Z",1]`, `["2026-01-01T00:00:00.0000000Z",2]`)
	f("[null 0001-01-01 1700-01-01 2026-01-01 9999-01-01] n[4 3 5 2 1]", Spec{Kind: Bar}, "t:datetime n:int", `["9999-01-01T00:00:00Z",1]`, `["2026-01-01T00:00:00Z",2]`, `["0001-01-01T00:00:00Z",3]`, `[null,4]`, `["1700-01-01T00:00:00Z",5]`)
	f("[] n[-6.21355968e+10 2.533707648e+11][2 1]", Spec{Kind: Time}, "t:datetime n:long", `["9999-01-01T00:00:00Z",1]`, `["0001-01-01T00:00:00Z",2]`)
	f("[null a] n[1 2]", Spec{Kind: Pie}, "s:dynamic n:int m:int", `[null,1,5]`, `["a",2,6]`)
	f("timechart wants a datetime and a number; the result has s:string, n:long", Spec{Kind: Time}, "s:string n:long", `["a",1]`)
	f("barchart wants a column for its places and a number; the result has s:string", Spec{Kind: Bar}, "s:string", `["a"]`)
	f("linechart wants a datetime or a number for its places; s is string", Spec{Kind: Line, XColumn: "s"}, "s:string n:long", `["a",1]`)
	f("a piechart has no place for less than nothing, such as -1", Spec{Kind: Pie}, "s:string n:long", `["a",-1]`)
	f("there are no rows to draw", Spec{Kind: Pie}, "s:string n:long")
	f("no row has a number to draw", Spec{Kind: Pie}, "s:string n:long", `["a",null]`)
	f("no row has a value of t", Spec{Kind: Time}, "t:datetime n:long", `[null,1]`)
}

func TestParse(t *testing.T) {
	s, err := Parse(`{"Visualization":"timechart","Title":"T","XColumn":null,"YColumns":"a, b","Series":["s"],"Ymin":"NaN","Kind":null}`)
	if err != nil || s.Kind != Time || s.Title != "T" || len(s.YColumns) != 2 || s.YColumns[1] != "b" || len(s.Series) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := Parse(`{"Visualization":null,"Series":null}`); err != nil || IsDrawn(s.Kind) || len(s.Series) > 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Parse("["); err == nil {
		t.Error("it reads what is no JSON")
	}
}

// TestScreens: nothing that is drawn is wider than the screen, whatever there is to
// draw, and nothing steers it.
func TestScreens(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf(`["2026-03-%02dT00:00:00Z","a long name of a thing\u001b[2J %d",%d.25]`, i%28+1, i, i*i*1000))
	}
	for _, kind := range Kinds {
		for _, width := range []int{30, 80, 200} {
			columns := "s:datetime x:string n:real"
			if kind == Pie || kind == Bar {
				columns = "x:string s:string n:real"
			}
			c, err := built(t, Spec{Kind: kind}, columns, many...)
			if err != nil {
				t.Fatal(err)
			}
			if kind != Pie {
				c.Series = c.Series[:1]
			}
			var text strings.Builder
			if err := c.Draw(&text, Screen{Width: width, Height: 24}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(text.String()) {
				if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("%s on %d: a line of %d: %s", kind, width, n, line)
				}
			}
			if strings.Contains(text.String(), "\x1b") {
				t.Errorf("%s draws %q", kind, text.String())
			}
			var picture strings.Builder
			if err := c.SVG(&picture); err != nil || xml.Unmarshal([]byte(picture.String()), new(any)) != nil {
				t.Errorf("%s: %v: %.500s", kind, err, picture.String())
			}
		}
	}
}

// TestBarsOfUnequalSize: each value has a bar on its side of zero and within the screen, also one
// that is very small beside one of the other sign.
func TestBarsOfUnequalSize(t *testing.T) {
	for _, rows := range [][]string{
		{`["a",-0.001]`, `["b",1000]`},
		{`["a",-1000]`, `["b",0.001]`},
		{`["a",-1.7e308]`, `["b",1.7e308]`},
	} {
		c, err := built(t, Spec{Kind: Bar}, "s:string n:real", rows...)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		const width = 40
		if err := c.Draw(&text, Screen{Width: width, Height: 10}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(text.String(), "\n")
		var from, behind [2]int
		for i := range from {
			if n := ansi.StringWidth(lines[i]); n > width {
				t.Errorf("%v: a line of %d: %s", rows, n, lines[i])
			}
			_, bar, _ := strings.Cut(lines[i], "│")
			from[i] = strings.Index(bar, "█")
			behind[i] = from[i] + strings.Count(bar, "█")
		}
		below := slices.IndexFunc(rows, func(row string) bool { return strings.Contains(row, "-") })
		if from[below] < 0 || behind[below] != from[1-below] {
			t.Errorf("%v: the bar below 0 is at %d to %d, the other begins at %d\n%s", rows, from[below], behind[below], from[1-below], text.String())
		}
	}
}

// TestEndsOfTimeAxis: the ends of an axis are labelled with their dates, whatever the year is.
func TestEndsOfTimeAxis(t *testing.T) {
	c, err := built(t, Spec{Kind: Time}, "t:datetime n:long", `["0001-01-01T00:00:00Z",1]`, `["9999-01-01T00:00:00Z",2]`)
	if err != nil {
		t.Fatal(err)
	}
	first, last := c.ends()
	if got := c.place(first) + " " + c.place(last); got != "0001-01-01 9999-01-01" {
		t.Errorf("got %s", got)
	}
}

// wantFile fails unless text is that of a file in testdata.
func wantFile(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != text {
		t.Errorf("%s: got\n%s\nwant\n%s%v", name, text, want, err)
	}
}

// TestNullBreaksLine: between two values that follow each other is a line, and none
// where a null stands between them.
func TestNullBreaksLine(t *testing.T) {
	for rows, want := range map[string]string{
		`[0,1] [4,5]`:          "[1 2 3 4 5]",
		`[0,1] [2,null] [4,5]`: "[1 NaN NaN NaN 5]",
	} {
		c, err := built(t, Spec{Kind: Line}, "x:long n:long", strings.Fields(rows)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.onScreen(c.Series[0], 5)); got != want {
			t.Errorf("%s: %s, want %s", rows, got, want)
		}
	}
}
