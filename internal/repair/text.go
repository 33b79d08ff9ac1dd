package repair

import (
	"fmt"
	"io"
	"strings"

	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// listed is how many ranges are named in the text; --json has all.
const listed = 20

// Write prints a plan for a person: what would be sent again, and what cannot be, with the reason.
func (p *Plan) Write(w io.Writer) error {
	var b strings.Builder
	switch {
	case len(p.Send)+len(p.Not) == 0:
		b.WriteString("\nNothing is missing: there is nothing to repair.\n")
	case len(p.Send) == 0:
		b.WriteString("\nNothing can be sent again.\n")
	default:
		fmt.Fprintf(&b, "\nTo be sent again: %s, in %s.\n", units.Counted(p.Records(), "record"), units.Counted(len(p.all), "request"))
		list(&b, p.Send)
	}
	if len(p.Not) > 0 {
		fmt.Fprintf(&b, "\nNot to be repaired, though records are missing there: %s.\n", units.Counted(len(p.Not), "range"))
		list(&b, p.Not)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Write prints for a person what became of a plan: how much was accepted, and the ranges that were
// not, or perhaps.
func (r *Result) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nSent again, and accepted: %s.\n", units.Counted(r.Records, "record"))
	if len(r.Unknown) > 0 {
		b.WriteString("Sent again, and perhaps stored:\n")
		list(&b, r.Unknown)
	}
	if len(r.Failed) > 0 {
		b.WriteString("Not accepted:\n")
		list(&b, r.Failed)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// list writes the first listed ranges, each below the name of its file, input and table, and how
// many more there are.
func list(b *strings.Builder, all []Range) {
	last := ""
	for i := range all {
		r := &all[i]
		if i == listed {
			fmt.Fprintf(b, "  and %s; --json names all\n", units.Counted(len(all)-i, "more range"))
			return
		}
		name := r.Path
		if name == "" {
			name = "file " + r.File
		}
		title := fmt.Sprintf("%s  input %s  table %s", telemetry.Printable(name), telemetry.Printable(r.Input), telemetry.Printable(r.Table))
		if r.Generation > 0 {
			title += fmt.Sprintf("  generation %d", r.Generation)
		}
		if title != last {
			b.WriteString(title + "\n")
			last = title
		}
		fmt.Fprintf(b, "  bytes %d–%d", r.Start, r.End)
		if r.Records > 0 {
			b.WriteString(", " + units.Counted(r.Records, "record"))
		}
		fmt.Fprintf(b, ", accepted %s UTC", r.Accepted.UTC().Format("2006-01-02 15:04:05"))
		if r.Why != "" {
			b.WriteString(": " + telemetry.Printable(r.Why))
		}
		b.WriteString("\n")
	}
}
