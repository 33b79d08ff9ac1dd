package recovery

import (
	"os"
	"strings"
	"testing"
)

// tables reads the tables under a heading of docs/design.md: the cells by row and column.
func tables(t *testing.T, heading string) (all []map[[2]string]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var columns []string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			columns = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case columns == nil:
			columns = cells
			all = append(all, map[[2]string]string{})
		case strings.HasPrefix(cells[0], "-"):
		default:
			for i, cell := range cells[1:] {
				all[len(all)-1][[2]string{cells[0], columns[i+1]}] = cell
			}
		}
	}
	return all
}

// TestTablesAreAsDocumented: every cell of both tables is in docs/design.md, and nothing
// else is.
func TestTablesAreAsDocumented(t *testing.T) {
	docs := tables(t, "Recovery")
	if len(docs) != 2 {
		t.Fatalf("%d tables", len(docs))
	}
	check := func(name string, table map[[2]string]string, row, column, is string) {
		t.Helper()
		key := [2]string{row, column}
		if table[key] != is {
			t.Errorf("%s: %q × %q is %q, and documented as %q", name, row, column, is, table[key])
		}
		delete(table, key)
	}
	for k := range Known(len(knownWords)) {
		for f := range Frame(len(frameWords)) {
			check("frames", docs[0], k.String(), f.String(), JudgeFrame(k, f).String())
		}
	}
	for k := range Kind(len(kindWords)) {
		for c := range Settings(len(settingsWords)) {
			for f := range Finding(len(findingWords)) {
				row := k.String() + ", " + c.String()
				switch {
				case k == Forgotten:
					row = k.String()
				case c == Absent || c == Unserved:
					row = c.String()
				case c == Reshaped:
					row = c.String()
				}
				key := [2]string{row, f.String()}
				is := Judge(k, c, f).String()
				if docs[1][key] != is {
					t.Errorf("batches: %q × %q is %q, and documented as %q", row, f, is, docs[1][key])
				}
			}
		}
	}
	if len(docs[0]) > 0 {
		t.Errorf("documented, and in no table: %v", docs[0])
	}
	rows := map[string]bool{}
	for key := range docs[1] {
		rows[key[0]] = true
	}
	if len(rows) != 6 || len(docs[1]) != 6*len(findingWords) {
		t.Errorf("rows %v, %d cells", rows, len(docs[1]))
	}
}

// TestNothingIsGivenUpThatIsThere: only a look that found nothing, or a payload of which
// nobody knows the ranges, ends as source gone; and nothing is sent by settings it was not
// read for.
func TestNothingIsGivenUpThatIsThere(t *testing.T) {
	for k := range Kind(len(kindWords)) {
		for c := range Settings(len(settingsWords)) {
			for f := range Finding(len(findingWords)) {
				act := Judge(k, c, f)
				if act == EndGone && k != Forgotten && (f != Gone || c == Absent || c == Unserved) {
					t.Errorf("%v, %v, %v: %v", k, c, f, act)
				}
				switch act {
				case Resend, ResendAs, ResendPart, Restore, RestoreAs, RestorePart:
					if c != Same {
						t.Errorf("%v, %v, %v: %v", k, c, f, act)
					}
				case Wait:
					if f != NotNow && c != Absent && c != Unserved {
						t.Errorf("%v, %v, %v: %v", k, c, f, act)
					}
				}
			}
		}
	}
	for k := range Known(len(knownWords)) {
		for f := range Frame(len(frameWords)) {
			act := JudgeFrame(k, f)
			if (k == Over || k == OverBegun) && act.Sends() {
				t.Errorf("%v, %v: an end is sent again: %v", k, f, act)
			}
			if f == Half && act.Sends() {
				t.Errorf("%v, %v: sent beside its whole: %v", k, f, act)
			}
			if k == Tried && act.Sends() && act != TakeNamed {
				t.Errorf("%v, %v: not named: %v", k, f, act)
			}
		}
	}
}
