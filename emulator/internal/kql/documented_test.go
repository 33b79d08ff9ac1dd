package kql

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// nowhere has no tables.
type nowhere struct{}

func (nowhere) Table(name string) (*Table, error) { return nil, NoTable(name) }
func (nowhere) Database() string                  { return "Samples" }
func (nowhere) Principal() string                 { return "aadapp=someone" }

// answered are the rows of the first table, or the error.
func answered(t *testing.T, text string) []string {
	t.Helper()
	tables, err := Run(t.Context(), text, nil, nowhere{})
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	rows := []string{}
	for _, row := range tables[0].Rows {
		var cells []string
		for i, v := range row {
			cells = append(cells, string(Written(v, tables[0].Columns[i].Type)))
		}
		rows = append(rows, strings.Join(cells, " | "))
	}
	return rows
}

// TestDocumented: what the documentation of the service says of a query is what comes
// out here.
func TestDocumented(t *testing.T) {
	raw, err := os.ReadFile("testdata/documented.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, block := range strings.Split(string(raw), "\n@ ") {
		if i == 0 {
			continue // the words before
		}
		lines := strings.Split(strings.TrimSpace(block), "\n")
		page, text, want := lines[0], lines[1], []string{}
		for _, line := range lines[2:] {
			want = append(want, strings.TrimPrefix(line, "= "))
		}
		got := answered(t, text)
		if !strings.Contains(text, "sort by") && !strings.Contains(text, "order by") && !strings.Contains(text, "top ") {
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\n%s\ngives %s\nwant  %s", page, text, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
		}
		n++
	}
	if n < 150 {
		t.Errorf("%d cases, want 150 at least", n)
	}
	t.Logf("%d cases", n)
}
