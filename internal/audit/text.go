package audit

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"kusto-agent/internal/telemetry"
)

// width is that of the terminal the text is made for.
const width = 80

// shown is how many files without trouble are in the text, and listedRanges how many ranges
// or batches of a trouble; --json has all.
const (
	shown        = 20
	listedRanges = 5
)

// Sum is what all files of a report add up to.
type Sum struct {
	Files                                      int
	Accepted, Quarantined, Dropped, Gone       Account
	Skipped, UnderWay, InSpool, Unsent, Unread int64 // bytes
	InQuarantine                               int64 // records
	Failing, Overlaps, Doubts, FailedBytes     int64
	FailedFiles, OverlapFiles, DoubtFiles      int
}

// Sum returns the totals of all files of the report.
func (r *Report) Sum() (s Sum) {
	add := func(to *Account, a Account) {
		to.Records, to.Bytes, to.Batches = to.Records+a.Records, to.Bytes+a.Bytes, to.Batches+a.Batches
	}
	for i := range r.Files {
		f := &r.Files[i]
		s.Files++
		for _, d := range f.Routes {
			add(&s.Accepted, d.Accepted)
			add(&s.Quarantined, d.Quarantined)
			add(&s.Dropped, d.Dropped)
			add(&s.Gone, d.SourceGone)
		}
		s.Skipped += bytesOf(f.Skipped)
		s.UnderWay += bytesOf(f.UnderWay)
		s.InSpool += bytesOf(f.InSpool)
		s.Unsent += bytesOf(f.Unsent)
		s.Unread += f.Unread
		s.InQuarantine += f.Quarantined
		for j := range f.Troubles {
			t := &f.Troubles[j]
			switch {
			case t.Fails:
				s.Failing += int64(len(t.Ranges))
				s.FailedBytes += t.Bytes()
			case t.Problem == Doubled:
				s.Overlaps += int64(len(t.Batches) + t.More)
				s.OverlapFiles++
			case t.Problem == Unsure:
				s.Doubts += int64(len(t.Batches) + t.More)
				s.DoubtFiles++
			}
		}
		if f.rank() == 2 {
			s.FailedFiles++
		}
	}
	return s
}

// Headline returns the verdict in a sentence or two: that nothing can be audited yet, what did not
// reach the service, or how much was accepted and how much is still on the way.
func (r *Report) Headline() string {
	s := r.Sum()
	since := "since " + clock(r.From) + " UTC"
	switch {
	case r.From.IsZero():
		return "Nothing to audit: the journal has no entry yet."
	case !r.OK:
		return fmt.Sprintf("NOT OK: %s (%s) in %s did not reach the service %s.",
			counted(s.Failing, "range"), telemetry.BytesText(s.FailedBytes), counted(int64(s.FailedFiles), "file"), since)
	}
	text := fmt.Sprintf("OK: nothing is missing of what was read %s: %s accepted.", since, counted(s.Accepted.Records, "record"))
	if way := s.UnderWay + s.InSpool + s.Unsent + s.Unread; way > 0 {
		text += fmt.Sprintf(" %s still on the way.", telemetry.BytesText(way))
	}
	return text
}

// counted returns a number, with commas, and its noun in singular or plural. It knows only plurals
// with s, or es after ch.
func counted(n int64, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return number(n) + " " + noun
}

func number(n int64) string { return telemetry.CountText(uint64(n)) }

// Write writes the report as text for people; with all it lists every file, otherwise the first 20
// without trouble.
func (r *Report) Write(w io.Writer, all bool) error {
	p := &printer{w: w}
	p.wrapped("", r.Headline())
	p.speak(r)
	for i := range r.Files {
		if f := &r.Files[i]; len(f.Troubles) > 0 {
			p.troubles(f)
		}
	}
	p.table(r, all)
	p.totals(r)
	return p.err
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

// line writes one line, unless there was an error before.
func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

// wrapped writes a text in lines of at most width characters, if its words allow, each with the
// indent.
func (p *printer) wrapped(indent, text string) {
	line := indent
	for _, word := range strings.Fields(text) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width && strings.TrimSpace(line) != "" {
			p.line("%s", line)
			line = indent
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
	}
	p.line("%s", line)
}

// speak writes what the verdict is based on: how far the journal reaches back, and what could not be
// read.
func (p *printer) speak(r *Report) {
	if r.From.IsZero() {
		return
	}
	text := "The journal goes back to the first start of the agent"
	if !r.Whole {
		text = "What ended before is not judged: the journal keeps no more (journal.max_size, max_age), or --since asks for no more"
	}
	text += fmt.Sprintf("; its last entry is of %s UTC", clock(r.Until))
	if r.Running {
		text += ", and the agent is running"
	}
	p.wrapped("", text+".")
	for _, x := range []struct {
		n           int
		noun, where string
	}{{r.Unread, "range", "the journal"}, {r.BadRest, "range", "the spool"}, {r.BadLine, "line", "quarantine"}} {
		if x.n > 0 {
			they := "they"
			if x.n == 1 {
				they = "it"
			}
			p.wrapped("", fmt.Sprintf("%s of %s cannot be read; this report lacks what %s recorded.", counted(int64(x.n), x.noun), x.where, they))
		}
	}
}

// headings are what a trouble is, for a person.
var headings = map[Problem]string{
	Unproven:   "safe by a checkpoint, but nothing tells how",
	SpoolLost:  "went to the spool, and is not there",
	SourceGone: "outcome unknown, and the source is gone",
	Abandoned:  "given up before it was read",
	Forgotten:  "not delivered, and the file is forgotten",
	Vanished:   "not delivered, and the file is not to be found",
	Discarded:  "dropped by the spool",
	GivenUp:    "given up by a person",
	Evicted:    "dropped by a full quarantine",
	Doubled:    "accepted more than once",
	Unsure:     "perhaps stored twice",
	Refused:    "in quarantine",
}

// troubles prints the troubles of one file: the ranges, the batches and what to do.
func (p *printer) troubles(f *File) {
	p.line("")
	p.line("%s", f.title())
	for i := range f.Troubles {
		t := &f.Troubles[i]
		text := headings[t.Problem]
		if t.Fails {
			text = "NOT OK: " + text
		}
		if len(t.Ranges) > 0 {
			text += ": bytes " + rangesText(t.Ranges)
		}
		switch {
		case t.Records > 0 && len(t.Ranges) > 0:
			text += fmt.Sprintf(" (%s)", counted(t.Records, "record"))
		case t.Records > 0:
			text += ": " + counted(t.Records, "record")
		}
		p.wrapped("  ", text)
		for j, d := range t.Batches {
			if j == listedRanges {
				p.line("    and %s", counted(int64(len(t.Batches)-j+t.More), "more batch"))
				break
			}
			p.wrapped("    ", d.text())
		}
		p.wrapped("    ", "fix: "+t.Fix)
	}
}

// text describes a batch of which nobody knows whether the service stored it, and why that is so.
func (d *Doubt) text() string {
	text := "batch " + d.Batch
	switch d.Why {
	case NoAnswer:
		text += ": sent, and no answer came"
	case Killed:
		text += ": perhaps under way when the agent came to a sudden end"
	case MachineStopped:
		text += ": perhaps sent in the last moments before the machine stopped"
	}
	switch {
	case d.Ended == "":
		text += "; not ended yet"
	case d.Why != "":
		text += "; then " + d.Ended
	}
	return text
}

// title returns path, input and generation of a file.
func (f *File) title() string {
	text := telemetry.Printable(cmp.Or(f.Path, "file "+f.File)) + "  input " + telemetry.Printable(f.Input)
	if f.Generation > 0 {
		text += fmt.Sprintf(", generation %d", f.Generation)
	}
	return text
}

// rangesText returns the first ranges as text, such as 0–512, 900–1024, and how many more there
// are.
func rangesText(all []Span) string {
	var first []string
	for _, s := range all[:min(len(all), listedRanges)] {
		first = append(first, fmt.Sprintf("%d–%d", s.Start, s.End))
	}
	text := strings.Join(first, ", ")
	if left := len(all) - len(first); left > 0 {
		text += fmt.Sprintf(" and %s more", number(int64(left)))
	}
	return text
}

// table prints a line for each file and route. Of the files without trouble it prints only the
// first few (shown), unless all is true.
func (p *printer) table(r *Report, all bool) {
	if len(r.Files) == 0 {
		return
	}
	p.line("")
	p.row("", "FILE", "TABLE", "ACCEPTED", "REFUSED", "ON THE WAY")
	quiet := 0
	for i := range r.Files {
		f := &r.Files[i]
		if len(f.Troubles) == 0 {
			if quiet++; quiet > shown && !all {
				continue
			}
		}
		state := [...]string{"ok", "look", "NOT OK"}[f.rank()]
		way := bytesOf(f.UnderWay) + bytesOf(f.InSpool) + bytesOf(f.Unsent) + f.Unread
		name := cmp.Or(f.Path, f.File)
		if len(f.Routes) == 0 {
			p.row(state, name, "-", "-", orDash(f.Quarantined, number), orDash(way, telemetry.BytesText))
		}
		for n, d := range f.Routes {
			refused := d.Quarantined.Records
			if n == 0 {
				refused = max(refused, f.Quarantined)
			} else {
				state, name, way = "", "", 0
			}
			p.row(state, name, d.Table, orDash(d.Accepted.Records, number), orDash(refused, number), orDash(way, telemetry.BytesText))
		}
	}
	if left := quiet - shown; left > 0 && !all {
		p.line("        and %s without trouble; --all shows them", counted(int64(left), "more file"))
	}
}

func (p *printer) row(state, file, table, accepted, refused, way string) {
	p.line("%-6s  %s  %s  %12s  %8s  %10s", state, fit(telemetry.Printable(file), 24), fit(telemetry.Printable(table), 10), accepted, refused, way)
}

// fit returns s in n characters: padded with spaces, or with its beginning cut off, since the end
// of a path says more.
func fit(s string, n int) string {
	r := []rune(s)
	if len(r) > n {
		return "…" + string(r[len(r)-n+1:])
	}
	return s + strings.Repeat(" ", n-len(r))
}

// orDash returns the text of a number; "-" for 0.
func orDash(n int64, text func(int64) string) string {
	if n == 0 {
		return "-"
	}
	return text(n)
}

// totals prints the sums over all files, without those that are 0.
func (p *printer) totals(r *Report) {
	if len(r.Files) == 0 {
		return
	}
	s := r.Sum()
	p.line("")
	total := func(name, text string, any bool) {
		if any {
			p.line("%-14s%s", name, text)
		}
	}
	records := func(a Account) string {
		return fmt.Sprintf("%s, %s, in %s", counted(a.Records, "record"), telemetry.BytesText(a.Bytes), counted(a.Batches, "batch"))
	}
	total("accepted", records(s.Accepted), true)
	total("refused", records(s.Quarantined), s.Quarantined.Records > 0)
	total("quarantine", counted(s.InQuarantine, "record")+" held there", s.InQuarantine > 0)
	total("dropped", records(s.Dropped), s.Dropped.Batches > 0)
	total("source gone", records(s.Gone), s.Gone.Batches > 0)
	total("not sent", telemetry.BytesText(s.Skipped)+" that made no request: blank lines, headers,", s.Skipped > 0)
	total("", "what rules leave out, what went to quarantine at once", s.Skipped > 0)
	total("under way", telemetry.BytesText(s.UnderWay)+" in requests, or about to be", s.UnderWay > 0)
	total("in the spool", telemetry.BytesText(s.InSpool)+" of files", s.InSpool > 0)
	memory := "in memory"
	if !r.Running {
		memory = "to be read at the next start"
	}
	total("not yet sent", telemetry.BytesText(s.Unsent)+" "+memory, s.Unsent > 0)
	total("unread", telemetry.BytesText(s.Unread), s.Unread > 0)
	total("twice", fmt.Sprintf("%s stored records in %s once more", counted(s.Overlaps, "batch"), counted(int64(s.OverlapFiles), "file")), s.Overlaps > 0)
	total("unknown", fmt.Sprintf("%s of %s, perhaps stored twice", counted(s.Doubts, "batch"), counted(int64(s.DoubtFiles), "file")), s.Doubts > 0)
}
