package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

// TestTableFitsTheSource: every text of the table is in its file exactly once, each entry
// has a name of its own, and every test that it names is there.
func TestTableFitsTheSource(t *testing.T) {
	t.Parallel()
	all, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Errorf("%d guards", len(all))
	}
	names := map[string]bool{}
	for _, g := range all {
		if names[g.Name] {
			t.Errorf("two guards are called %q", g.Name)
		}
		names[g.Name] = true
		tests := testsOf(t, g.Package)
		for name := range strings.SplitSeq(g.Tests, "|") {
			if !tests[name] {
				t.Errorf("guard %q: there is no test %s in %s", g.Name, name, g.Package)
			}
		}
	}
}

// TestPageIsCurrent: the page has a row for every entry, and no other, and the tests that
// it says caught them are there.
func TestPageIsCurrent(t *testing.T) {
	t.Parallel()
	all, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(inRoot(root, page))
	if err != nil {
		t.Fatal(err)
	}
	const again = "; run go run ./internal/guards"
	text, ok := strings.CutPrefix(string(b), head)
	if !ok {
		t.Error("the page begins otherwise" + again)
	}
	rows := map[string]string{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| Kind ") {
			row, caught, _ := strings.Cut(line, " | `Test")
			rows[row+" |"] = caught
		}
	}
	for _, g := range all {
		caught, there := rows[row(g)]
		if !there {
			t.Errorf("the page lacks %q"+again, g.Name)
			continue
		}
		delete(rows, row(g))
		if name, _, _ := strings.Cut(caught, "`"); !testsOf(t, g.Package)["Test"+name] {
			t.Errorf("guard %q was caught by Test%s, which is gone"+again, g.Name, name)
		}
	}
	for row := range rows {
		t.Errorf("the page has %q"+again, row)
	}
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)

// found are the tests of the packages that were looked at.
var found sync.Map

// testsOf are the tests of a package.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	if known, ok := found.Load(dir); ok {
		return known.(map[string]bool)
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(b), -1) {
			all[m[1]] = true
		}
	}
	found.Store(dir, all)
	return all
}

// TestParse: a line that means nothing, and an entry without a text, are errors.
func TestParse(t *testing.T) {
	const sound = "kind: sync\nguard: a name\nfile: x.go\ntest: ./x TestA|TestB\nwhy: Because.\n-\told\n-\tlines\n+\tnew\n"
	all, err := parse("# for people\n\n" + sound + "\n\n" + sound)
	if err != nil || len(all) != 2 || all[0].Old != "\told\n\tlines" || all[0].New != "\tnew" || all[1].Tests != "TestA|TestB" || all[1].Package != "./x" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, bad := range []string{"kind: x\n", sound + "kond: y\n", strings.Replace(sound, "-\told\n-\tlines\n", "", 1), strings.Replace(sound, "why: Because.\n", "", 1)} {
		if _, err := parse(bad); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}
