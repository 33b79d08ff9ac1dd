package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// ExitCode returns the exit code of a command with these findings: 0 if there is no error. Of
// several errors the one that says most counts: configuration, refused, unreachable, any other.
func ExitCode(found []Finding) int {
	for _, code := range []int{exit.Config, exit.Refused, exit.Unreachable, exit.Failed} {
		if slices.ContainsFunc(found, func(f Finding) bool { return f.Severity == Error && cmp.Or(f.Exit, exit.Failed) == code }) {
			return code
		}
	}
	return 0
}

// textWidth is how many characters a line of words has at most. A command to paste is
// never broken.
const textWidth = 80

// Write prints the findings as text, each step under its name, and at the end the number of errors,
// warnings and ok.
func Write(out console.Output, found []Finding) error {
	counts := make(map[Severity]int)
	step := ""
	for _, f := range found {
		if f.Step != step {
			if step != "" {
				fmt.Fprintln(out)
			}
			step = f.Step
			fmt.Fprintln(out, out.Paint("1", step))
		}
		counts[f.Severity]++
		writeFinding(out, f)
	}
	_, err := fmt.Fprintf(out, "\n%s, %s, %d ok\n", units.Counted(counts[Error], "error"), units.Counted(counts[Warning], "warning"), counts[OK])
	return err
}

var styles = map[Severity]string{OK: "32", Warning: "33", Error: "31"}

// writeFinding prints the severity of a finding, where it is and what was found, and then the fix.
// Of the fix the first line is words; each further line is a command and is not wrapped.
func writeFinding(out console.Output, f Finding) {
	const margin = "           "
	var head []string
	if f.Input != "" {
		head = append(head, "input "+f.Input)
	}
	if f.Where != "" {
		head = append(head, f.Where)
	}
	text := telemetry.Printable(strings.Join(append(head, f.What), ": "))
	lines := console.Wrapped(text, textWidth-len(margin))
	fmt.Fprintf(out, "  %s%s%s\n", out.Paint(styles[f.Severity], string(f.Severity)), strings.Repeat(" ", len(margin)-2-len(f.Severity)), lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintln(out, margin+line)
	}
	if f.ID == "config" && f.Detail != "" {
		fmt.Fprintln(out, margin+"  "+telemetry.Printable(f.Detail))
	}
	for i, line := range strings.Split(f.Fix, "\n") {
		switch {
		case line == "":
		case i == 0:
			for _, part := range console.Wrapped("to fix it: "+telemetry.Printable(line), textWidth-len(margin)) {
				fmt.Fprintln(out, margin+part)
			}
		default:
			fmt.Fprintln(out, margin+"  "+telemetry.Printable(line))
		}
	}
}
