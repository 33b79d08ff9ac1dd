package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake and the place it stands in.
type Problem struct {
	File    string
	Line    int    // from 1; 0: the problem is the file itself
	Col     int    // from 1, in characters
	Path    string // as in inputs[2].mapping; empty: the file as a whole
	Message string // what is wrong; what was meant
	Source  string // the line, with secrets masked and nothing a terminal would act on

	caret int // characters of Source before the place
}

// String returns place and message, and below them the line of the file with a caret under the
// place.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(printable(p.File))
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Col)
	}
	if p.Path != "" {
		b.WriteString(": " + p.Path)
	}
	b.WriteString(": " + p.Message)
	if p.Source != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", p.Source, strings.Repeat(" ", p.caret))
	}
	return b.String()
}

// Errors is every mistake of a configuration and of the files it includes, in
// the order in which they are read.
type Errors struct {
	Problems []Problem
	More     int // found beyond those listed
}

// Error writes all problems, each as String does, one after the other.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

// maxProblems is how many are told of one file: nobody reads further, and a
// file made of mistakes must not cost more than one made of settings.
const maxProblems = 100

// report collects the problems of one run over all files.
type report struct {
	list  []Problem
	order map[string]int // of the files, as they were read
	told  map[string]int // problems per file
	more  int
}

// newReport returns a report without problems.
func newReport() *report {
	return &report{order: map[string]int{}, told: map[string]int{}}
}

// add adds a problem. It notes the order in which files first appear, by which err sorts, and how
// many problems each has.
func (r *report) add(p Problem) {
	if _, ok := r.order[p.File]; !ok {
		r.order[p.File] = len(r.order)
	}
	r.told[p.File]++
	r.list = append(r.list, p)
}

// full says that no more problems of a file are told, only counted.
func (r *report) full(file string) bool { return r.told[file] >= maxProblems }

// err returns nil if there are no problems, otherwise an *Errors with all of them: files in the
// order in which they were read, problems of a file by line and column.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(r.order[a.File], r.order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return &Errors{Problems: r.list, More: r.more}
}
