package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// faultTest is a test in the table of docs/faults.md: its package and its name.
var faultTest = regexp.MustCompile("([a-z0-9/]+) `((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// TestFaultsAreTested: each row of docs/faults.md has a number of its own and names tests,
// all of which are there, or says why it has none.
func TestFaultsAreTested(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(inRoot(root, "docs/faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(b), "|---|---|---|---|\n")
	if !ok {
		t.Fatal("the page has no table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	seen := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 4 {
			t.Errorf("%d cells: %s", len(cells), line)
			continue
		}
		if n := cells[0]; seen[n] {
			t.Errorf("two rows have the number %s", n)
		}
		seen[cells[0]] = true
		found := faultTest.FindAllStringSubmatch(cells[3], -1)
		if len(found) == 0 && (cells[3] != "—" || len(cells[2]) < 100) {
			t.Errorf("row %s has neither a test nor a reason", cells[0])
		}
		for _, m := range found {
			if !testsOf(t, "./"+m[1])[m[2]] {
				t.Errorf("row %s: there is no %s in %s", cells[0], m[2], m[1])
			}
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d rows", len(seen))
	}
}
