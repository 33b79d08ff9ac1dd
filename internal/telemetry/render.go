package telemetry

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/units"
)

// Terminal colours, as few as there are things to tell apart.
const (
	plain  = ""
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// renderedFiles is how many files fit on the screen, those furthest behind.
const renderedFiles = 10

// Render writes the status as text that fits one screen if there are not many inputs. Unprintable
// text from outside is quoted, so that it cannot control a terminal; only color adds escape
// sequences.
func Render(w io.Writer, s *Status, color bool) error {
	p := painter{color: color, now: s.Clock()}
	p.head(s)
	p.problems(s)
	p.inputs(s)
	p.routes(s)
	p.clusters(s)
	p.files(s)
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// painter builds the text. Times are told by the clock of the agent, at the
// instant of the status.
type painter struct {
	strings.Builder
	color bool
	now   time.Time
}

// paint returns text in a colour or style, or as it is if colours are off.
func (p *painter) paint(style, text string) string {
	if !p.color || style == plain {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (p *painter) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// head writes a line with version, host and start of the agent, and below it the headline of the
// status in the colour of its tone.
func (p *painter) head(s *Status) {
	name := "kusto-agent"
	if s.Version != "" {
		name += " " + Printable(s.Version)
	}
	if s.Host != "" {
		name += " on " + Printable(s.Host)
	}
	if !s.Started.IsZero() {
		name += ", started " + s.StartedText()
	}
	tone := map[string]string{"good": green, "wait": yellow, "bad": red}[s.Headline.Tone]
	p.line("%s\n%s", p.paint(faint, name), p.paint(tone, Printable(s.Headline.Text)))
}

// problems writes what is wrong and what to do: first the problems of the agent, then clusters and
// routes that do not deliver, with the service's message and the time of the next try.
func (p *painter) problems(s *Status) {
	for _, text := range s.Problems {
		p.line("\n%s %s", p.paint(red, "problem"), strings.ReplaceAll(Lines(text), "\n", "\n        "))
	}
	for _, t := range s.Troubles() {
		what := t.What
		if t.Code != "" {
			what += ": " + Printable(t.Code)
		}
		if !t.Since.IsZero() {
			what += ", since " + AgoText(p.now, t.Since)
		}
		if !t.NextTry.IsZero() {
			what += ", next try " + InText(p.now, t.NextTry)
		}
		words := t.Message
		if t.Activity != "" {
			words += " (activity " + t.Activity + ")"
		}
		p.line("\n%s %s\n  %s", p.paint(stateStyle(t.State), t.State), what, Printable(words))
		if t.Fix != "" {
			p.line("  %s %s", p.paint(bold, "what to do:"), Printable(t.Fix))
		}
	}
}

// inputs writes the table of inputs, and a line about spool and quarantine if they hold something.
func (p *painter) inputs(s *Status) {
	t := newTable("INPUT", "TO", "READ>", "ACCEPTED>", "PENDING>", "FILTERED>", "QUARANTINED>", "DROPPED>", "SPOOLED>", "BEHIND>", "FILES")
	for _, in := range s.Inputs {
		b, to := in.Books, "no longer configured"
		if in.Table != "" {
			to = in.Database + "." + in.Table
		}
		t.row(cell{Printable(in.Name), bold}, cell{to, plain},
			number64(b.Read+b.Restored, plain), number64(b.Accepted, plain), number64(b.Pending, plain),
			number64(ledger.Total(b.Filtered), plain), number64(ledger.Total(b.Quarantined), yellow),
			number64(ledger.Total(b.Dropped), red), number64(b.Spooled, plain),
			cell{BytesText(in.LagBytes), zeroStyle(in.LagBytes == 0)}, cell{byState(in.Files), plain})
	}
	t.write(p)
	if sp := s.Spool; sp != nil && sp.Payloads > 0 {
		p.line("%s", p.paint(faint, fmt.Sprintf("spool holds %s, %s, the oldest put there %s", number(sp.Payloads, "batch", "batches"), BytesText(sp.Bytes), AgoText(p.now, sp.Oldest))))
	}
	if q := s.Quarantine; q.Bytes > 0 {
		p.line("%s", p.paint(faint, fmt.Sprintf("quarantine holds %s of %s", BytesText(q.Bytes), BytesText(q.MaxBytes))))
	}
}

// routes writes the table of routes: state, accepted records, and the batches that are queued,
// spooled and in flight. "fail alone" are batches that fail while others of the route are accepted.
func (p *painter) routes(s *Status) {
	t := newTable("ROUTE", "FORMAT", "STATE", "ACCEPTED>", "BATCHES QUEUED>", "BATCHES SPOOLED>", "BATCHES IN FLIGHT>", "LAST ACCEPTED>")
	for _, r := range s.Routes {
		state, style := r.State, stateStyle(r.State)
		if n := r.FailingAlone; n > 0 {
			state, style = fmt.Sprintf("%s, %d fail alone", state, n), yellow
		}
		t.row(cell{r.Database + "." + r.Table, bold}, cell{r.FormatText(), plain}, cell{state, style},
			number64(r.Accepted, plain), number64(uint64(r.Queued), plain), number64(uint64(r.Spooled), yellow), number64(uint64(r.InFlight), plain),
			cell{AgoText(p.now, r.LastAccepted), plain})
	}
	t.write(p)
}

// clusters writes the table of clusters: state, requests in flight of those allowed at a time, and
// when the token expires.
func (p *painter) clusters(s *Status) {
	t := newTable("CLUSTER", "URL", "STATE", "REQUESTS IN FLIGHT>", "TOKEN EXPIRES>")
	for _, c := range s.Clusters {
		expires := "no token"
		if !c.TokenExpires.IsZero() {
			expires = InText(p.now, c.TokenExpires)
		}
		t.row(cell{Printable(c.Name), bold}, cell{Printable(c.URL), plain}, cell{c.State, stateStyle(c.State)},
			cell{strconv.Itoa(c.InFlight) + " of " + strconv.Itoa(c.Concurrency), plain}, cell{expires, plain})
	}
	t.write(p)
}

// files writes a table of the files that are furthest behind, by which s.Files is sorted, and a
// line on how to list the others.
func (p *painter) files(s *Status) {
	t := newTable("FILE", "INPUT", "STATE", "SIZE>", "SAFE>", "BEHIND>", "")
	for _, f := range s.Files[:min(len(s.Files), renderedFiles)] {
		t.row(cell{Printable(f.Path), plain}, cell{Printable(f.Input), plain}, cell{f.State, plain},
			cell{BytesText(f.Size), plain}, cell{BytesText(f.Safe), plain},
			cell{BytesText(f.BehindBytes), zeroStyle(f.BehindBytes == 0)}, cell{Printable(f.Why), yellow})
	}
	t.write(p)
	rest := len(s.Files) - renderedFiles
	switch {
	case rest > 0:
		p.line("%s", p.paint(faint, "and "+units.Counted(rest, "more file")+" with no greater lag; to list all: kusto-agent files"))
	case len(s.Files) > 0:
		p.line("%s", p.paint(faint, "to list the files that are not read, with the reason: kusto-agent files"))
	}
}

// stateStyle returns the colour for the state of a route or cluster.
func stateStyle(state string) string {
	switch state {
	case Up:
		return green
	case Held, Down:
		return red
	}
	return yellow
}

// zeroStyle returns the style for a value: faint if it is zero.
func zeroStyle(zero bool) string {
	if zero {
		return faint
	}
	return plain
}

// number64 returns a table cell with the count n in this style. Zero is faint whatever the style,
// so that other values stand out.
func number64(n uint64, style string) cell {
	if n == 0 {
		style = faint
	}
	return cell{CountText(n), style}
}

// cell is a text and how it is painted, which takes no room.
type cell struct{ text, style string }

// table aligns its columns. A head that ends in > is that of a column of
// figures, which stand to the right.
type table struct {
	right []bool
	rows  [][]cell
}

// newTable returns a table without rows that has these headings. A heading that ends in > makes its
// column aligned to the right; the > is not shown.
func newTable(heads ...string) *table {
	t := &table{}
	var first []cell
	for _, head := range heads {
		name, right := strings.CutSuffix(head, ">")
		first = append(first, cell{name, faint})
		t.right = append(t.right, right)
	}
	t.rows = [][]cell{first}
	return t
}

func (t *table) row(cells ...cell) { t.rows = append(t.rows, cells) }

// write writes an empty line and the table, with columns as wide as their longest text; nothing if
// the table has only its headings.
func (t *table) write(p *painter) {
	if len(t.rows) == 1 {
		return
	}
	width := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	p.line("")
	for _, row := range t.rows {
		line := ""
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.text))
			if t.right[i] {
				line += pad + p.paint(c.style, c.text) + "  "
			} else {
				line += p.paint(c.style, c.text) + pad + "  "
			}
		}
		p.line("%s", strings.TrimRight(line, " "))
	}
}
