package main

import (
	"fmt"
	"strings"
	"time"
)

// head is what stands above the table.
const head = `# Guards, and the tests that watch them

A guard is a line without which something would be lost, stored twice without a name in the log, or believed that nobody checked. A test suite that stays green without one proves nothing about it. ` + "`go run ./internal/guards`" + ` takes each of these out of the source, one at a time, runs the short form of the named tests, and fails if they pass; with all guards in place they have to pass. The changed file reaches the compiler by ` + "`go test -overlay`" + `; the source tree stays as it is. The command writes this page.

What is replaced by what is in ` + "`internal/guards/guards.txt`" + `. An ordinary test fails when a text there is no longer in the source exactly once, when a test named here is gone, and when this page and the table differ.

`

// render returns the text of docs/guards.md: a table of all guards (lines of code that a safety
// promise rests on), each with the test that failed without it. took is how long the run took.
func render(all []*guard, took time.Duration) []byte {
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "%d guards, each caught; the last run took %.0f minutes, one test at a time.\n\n", len(all), took.Minutes()+0.5)
	b.WriteString("| Kind | Guard | File | Without it | Caught by |\n|---|---|---|---|---|\n")
	for _, g := range all {
		fmt.Fprintf(&b, "%s `%s` %s |\n", row(g), g.caught, strings.TrimPrefix(g.Package, "./"))
	}
	return []byte(b.String())
}

// row is the line of a guard up to the test that caught it.
func row(g *guard) string {
	return fmt.Sprintf("| %s | %s | `%s` | %s |", g.Kind, g.Name, g.File, g.Why)
}
