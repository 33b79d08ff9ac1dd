package identity

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// documented reads the table of docs/design.md: the cells by row and column.
func documented(t *testing.T) map[[2]string]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Which file is it\n")
	if !found {
		t.Fatal("no section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	cells := make(map[[2]string]string)
	var columns []string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") {
			continue
		}
		row := strings.Split(strings.Trim(line, "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		if columns == nil {
			columns = row
			continue
		}
		for i, cell := range row[1:] {
			cells[[2]string{row[0], columns[i+1]}] = cell
		}
	}
	return cells
}

// each calls f with all facts there are.
func each(f func(Facts)) {
	for n := SameNode; n <= Younger; n++ {
		for fate := Untouched; fate <= Past; fate++ {
			for c := Differs; c <= Unknown; c++ {
				for i := range 4 {
					f(Facts{Node: n, Fate: fate, Content: c, Compressed: i&1 > 0, Late: i&2 > 0})
				}
			}
		}
	}
}

// TestTableIsAsDocumented: every cell is in docs/design.md, nothing else is, and facts
// lead to each.
func TestTableIsAsDocumented(t *testing.T) {
	cells := documented(t)
	if len(cells) != len(rowWords)*len(contentWords) {
		t.Errorf("%d cells are documented, and there are %d", len(cells), len(rowWords)*len(contentWords))
	}
	reached := make(map[[2]string]bool)
	each(func(f Facts) {
		if f.Late {
			return
		}
		key := [2]string{rowWords[f.row()], contentWords[f.Content]}
		reached[key] = true
		if is := Judge(f).String(); cells[key] != is {
			t.Errorf("%q × %q is %q, and documented as %q", key[0], key[1], is, cells[key])
		}
	})
	for key := range cells {
		if !reached[key] {
			t.Errorf("no facts lead to %q × %q", key[0], key[1])
		}
	}
}

// TestSkipsOnlyWhatIsProved: bytes of another file are skipped only if they agree with
// what was read, the original came to its end, and the file is not younger than that.
func TestSkipsOnlyWhatIsProved(t *testing.T) {
	each(func(f Facts) {
		is := Judge(f)
		switch {
		case f.Node <= HandedOver || is != Copy && is != Rest && is != Continuation:
		case !f.Content.Agrees(), f.Content == Little:
			t.Errorf("%+v: %v", f, is)
		case f.Fate == Untouched && f.Compressed && is == Copy: // it is read when that file is gone
		case f.Fate == Past && f.Compressed: // compressing leaves no other trace
		case f.Fate == Untouched, f.Fate == Changing, f.Fate == Renamed, f.Fate == Past, f.Node == Younger, f.Node == Stale:
			t.Errorf("%+v: %v", f, is)
		}
	})
}

// TestUndecidedEnds: with Late, no file is undecided but one that has the inode of a file that was read, or
// that is compressed: these may not be read before they were compared. What is not undecided any more is
// read from its start, and Late changes no other verdict.
func TestUndecidedEnds(t *testing.T) {
	waits := make(map[string]bool)
	each(func(f Facts) {
		if !f.Late {
			return
		}
		soon := f
		soon.Late = false
		switch was, is := Judge(soon), Judge(f); {
		case is == Undecided:
			waits[fmt.Sprintf("%s × %s, compressed: %v", rowWords[f.row()], contentWords[f.Content], f.Compressed)] = true
		case was == Undecided && is != Own, was != Undecided && is != was:
			t.Errorf("%+v: %v, and %v without Late", f, is, was)
		}
	})
	want := []string{
		"changing × a prefix in part, compressed: true",
		"changing × a prefix, compressed: true",
		"changing × ends with that, compressed: true",
		"changing × holds all that was read, compressed: true",
		"changing × holds the little that was read, compressed: true",
		"changing × not compared, compressed: true",
		"same node × not compared, compressed: false",
		"same node × not compared, compressed: true",
		"untouched, the file compressed × not compared, compressed: true",
	}
	if got := slices.Sorted(maps.Keys(waits)); !slices.Equal(got, want) {
		t.Errorf("undecided for good are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSameNode: the file itself is never taken for another, whatever became of it.
func TestSameNode(t *testing.T) {
	each(func(f Facts) {
		is := Judge(f)
		if own := is != Same && is != Rewritten && is != Undecided; f.Node <= HandedOver && own {
			t.Errorf("%+v: %v", f, is)
		}
		if f.Node > HandedOver && (is == Same || is == Rewritten) {
			t.Errorf("%+v: %v", f, is)
		}
	})
}
