package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed guards.txt
var text string

// guard is one entry of the table.
type guard struct {
	Kind     string // sync, order, checksum, bound, lock, …
	Name     string // in few words
	File     string // from the root of the module, with slashes
	Package  string // whose tests are run, as ./path
	Tests    string // the expression that go test -run takes
	Why      string // what goes wrong without it, one sentence
	Old, New string // a text that is in the file exactly once, and what takes its place

	source  string // the file as it is
	changed string // the same without the guard
	caught  string // the test that failed; empty: none did
}

// parse returns the entries of guards.txt, which empty lines separate. An entry has lines "key:
// value". Its lines that begin with - are the text of the source to be replaced, those with + the
// text that replaces it, each without the first character. Lines that begin with # are comments.
// All keys are needed.
func parse(text string) (all []*guard, err error) {
	for i, part := range strings.Split(text, "\n\n") {
		g := &guard{}
		target := ""
		keys := map[string]*string{"kind": &g.Kind, "guard": &g.Name, "file": &g.File, "test": &target, "why": &g.Why}
		var was, is []string
		empty := true
		for line := range strings.Lines(part) {
			line = strings.TrimSuffix(line, "\n")
			key, value, found := strings.Cut(line, ": ")
			switch {
			case line == "" || line[0] == '#':
				continue
			case line[0] == '-':
				was = append(was, line[1:])
			case line[0] == '+':
				is = append(is, line[1:])
			case found && keys[key] != nil:
				*keys[key] = value
			default:
				return nil, fmt.Errorf("entry %d: line %q: want kind, guard, file, test, why, - or +", i+1, line)
			}
			empty = false
		}
		if empty {
			continue
		}
		g.Package, g.Tests, _ = strings.Cut(target, " ")
		g.Old, g.New = strings.Join(was, "\n"), strings.Join(is, "\n")
		if g.Kind == "" || g.Name == "" || g.File == "" || g.Tests == "" || g.Why == "" || g.Old == "" || g.Old == g.New {
			return nil, fmt.Errorf("entry %d (%q): something is missing", i+1, g.Name)
		}
		all = append(all, g)
	}
	return all, nil
}

// load returns the guards of guards.txt, each with the text of its source file and the same text
// without the guard. The text that an entry quotes must be in the file exactly once; the error
// names all entries of which that is not true. root is the folder of the module.
func load(root string) ([]*guard, error) {
	all, err := parse(text)
	if err != nil {
		return nil, err
	}
	var stale []error
	for _, g := range all {
		b, err := os.ReadFile(inRoot(root, g.File))
		if err != nil {
			stale = append(stale, err)
			continue
		}
		g.source = string(b)
		if n := strings.Count(g.source, g.Old); n != 1 {
			stale = append(stale, fmt.Errorf("the table is stale: the text of guard %q is %d times in %s, want once:\n%s", g.Name, n, g.File, g.Old))
			continue
		}
		g.changed = strings.Replace(g.source, g.Old, g.New, 1)
	}
	return all, errors.Join(stale...)
}

func inRoot(root, path string) string { return filepath.Join(root, filepath.FromSlash(path)) }
