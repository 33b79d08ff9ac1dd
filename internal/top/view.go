package top

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"kusto-agent/internal/telemetry"
)

// The colours are those of the terminal, so that they suit a light and a dark one.
var (
	strong = lipgloss.NewStyle().Bold(true)
	faint  = lipgloss.NewStyle().Faint(true)
	cursor = lipgloss.NewStyle().Reverse(true)
	tones  = map[string]lipgloss.Style{
		"good": lipgloss.NewStyle().Foreground(lipgloss.Color("2")),
		"wait": lipgloss.NewStyle().Foreground(lipgloss.Color("3")),
		"bad":  lipgloss.NewStyle().Foreground(lipgloss.Color("1")),
	}
	states = map[string]string{telemetry.Up: "good", telemetry.Retrying: "wait", telemetry.Down: "bad", telemetry.Held: "bad"}
)

const (
	flowLines = 5
	headLines = 2 + flowLines + 2 // title, headline, flow, tabs, heads of the columns
	footLines = 1
)

// room is how many rows of a list fit in the window.
func (m *model) room() int { return max(1, m.height-headLines-footLines) }

// View returns the whole screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen = true
	v.WindowTitle = "kusto-agent top"
	return v
}

// screen returns the text of the whole window: exactly as many lines as it has, none of them wider.
// Lines that do not fit are cut.
func (m *model) screen() string {
	lines := append(m.head(), m.flow()...)
	rows := m.rows()
	lines = append(lines, m.tabs(len(rows)))
	if m.opened != "" {
		lines = append(lines, m.detail(rows)...)
	} else {
		lines = append(lines, m.table(rows)...)
	}
	body := max(1, m.height-footLines)
	for len(lines) < body {
		lines = append(lines, "")
	}
	lines = append(lines[:body], m.foot())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// head returns the first two lines: the title, and the headline of the agent's status, or why the last
// question got no answer.
func (m *model) head() []string {
	s := m.now
	title := strong.Render("kusto-agent top")
	if s.Host != "" {
		title += " on " + telemetry.Printable(s.Host)
	}
	title += faint.Render(fmt.Sprintf("  %s, started %s, version %s", telemetry.Printable(s.State), s.StartedText(), telemetry.Printable(s.Version)))
	if m.paused {
		title += "  " + tones["wait"].Render("PAUSED")
	}
	headline := tones[s.Headline.Tone].Render(telemetry.Printable(s.Headline.Text))
	if m.failed != nil {
		headline = tones["bad"].Render("no answer, this is old: " + telemetry.Printable(m.failed.Error()))
	}
	return []string{title, headline}
}

// flow returns five lines with the path of the records: four stages in a row, from files to the
// service, and below them where records branch off: quarantine, spool, and dropped ones.
func (m *model) flow() []string {
	f := telemetry.FlowOf(m.now)
	const gap = 3 // for the arrow
	width := max(8, (m.width-3*gap)/4)
	cell := func(text string, style lipgloss.Style) string {
		text = ansi.Truncate(text, width, "…")
		return style.Render(text) + strings.Repeat(" ", width-ansi.StringWidth(text))
	}
	stages := []telemetry.Stage{f.Files, f.Batches, f.Requests, f.Service}
	lines := make([]string, 3)
	for i, st := range stages {
		joint := []string{"   ", " → ", "   "}
		if i == 0 {
			joint = []string{"", "", ""}
		}
		figure := st.Figure + " " + st.Of
		if ansi.StringWidth(figure) > width {
			figure = st.Figure + " " + st.Brief
		}
		style := toneOr(st.Tone, strong)
		for l, text := range []string{cell(st.Name, faint), cell(figure, style), cell(strings.Join(st.Notes, ", "), faint)} {
			lines[l] += joint[l] + text
		}
	}
	branches := []telemetry.Stage{f.Quarantine, f.Spool}
	if f.Dropped != nil {
		branches = append(branches, *f.Dropped)
	}
	var below []string
	for _, st := range branches {
		text := st.Name + " " + st.Figure + " " + st.Brief + fill(st)
		if m.width >= 120 { // there is room for the long form
			text = st.Name + " " + st.Figure + " " + st.Of + ", " + strings.Join(st.Notes, ", ")
		}
		below = append(below, toneOr(st.Tone, faint).Render(strings.TrimSuffix(text, ", ")))
	}
	return append(lines, " └ "+strings.Join(below, "   "), "")
}

// toneOr returns the style of a tone; other if there is none.
func toneOr(tone string, other lipgloss.Style) lipgloss.Style {
	if style, known := tones[tone]; known {
		return style
	}
	return other
}

// fill returns how full a stage is, in percent and in brackets; "" below one percent.
func fill(st telemetry.Stage) string {
	if st.Fill < 0.01 {
		return ""
	}
	return fmt.Sprintf(" (%d%% full)", int(st.Fill*100))
}

// tabs returns the line with the names of the lists and their numbers of rows, and the order and the
// filter of the current list. found is how many rows the filter lets through.
func (m *model) tabs(found int) string {
	names := [listCount]string{
		routes:   fmt.Sprintf("1 Routes %d", len(m.now.Routes)),
		files:    fmt.Sprintf("2 Files %d", len(m.now.Files)),
		troubles: fmt.Sprintf("3 Errors %d", len(m.now.Problems)+len(m.now.Troubles())),
	}
	var out []string
	for i, name := range names {
		if list(i) == m.list {
			out = append(out, cursor.Render(" "+name+" "))
		} else {
			out = append(out, " "+name+" ")
		}
	}
	at := m.lists[m.list]
	line := strings.Join(out, " ") + faint.Render("   by "+orders[m.list][at.sort])
	if at.reversed {
		line += faint.Render(", reversed")
	}
	switch {
	case m.typing:
		line += "   filter: " + telemetry.Printable(at.filter) + "▏"
	case at.filter != "":
		line += fmt.Sprintf("   filter: %s (%d)", telemetry.Printable(at.filter), found)
	}
	return line
}

// table returns the heads of the columns and those of rows, the current list, that fit into the
// window. The first column gets the width that the others leave.
func (m *model) table(rows []row) []string {
	at := m.place(len(rows))
	shown := rows[min(at.top, len(rows)):min(at.top+m.room(), len(rows))]
	all := columns[m.list]
	width := make([]int, len(all))
	left := m.width
	for i, c := range all {
		if i == 0 || m.width < c.from { // the window is too narrow for the column
			continue
		}
		width[i] = len(c.head)
		for _, r := range shown {
			width[i] = max(width[i], ansi.StringWidth(r.cells[i]))
		}
		width[i] = min(width[i], m.width/3)
		left -= width[i] + 2
	}
	width[0] = max(8, left)
	line := func(cells []string) string {
		var b strings.Builder
		for i, c := range all {
			if m.width < c.from {
				continue
			}
			if i > 0 {
				b.WriteString("  ")
			}
			text := shortened(cells[i], width[i], i == 0)
			pad := strings.Repeat(" ", max(0, width[i]-ansi.StringWidth(text)))
			if c.right {
				b.WriteString(pad + text)
			} else {
				b.WriteString(text + pad)
			}
		}
		return b.String()
	}
	var heads []string
	for _, c := range all {
		heads = append(heads, c.head)
	}
	out := []string{faint.Render(line(heads))}
	for i, r := range shown {
		text := line(r.cells)
		switch tone := states[r.state]; {
		case at.top+i == at.cursor:
			text = cursor.Render(text)
		case tone != "" && tone != "good":
			text = tones[tone].Render(text)
		}
		out = append(out, text)
	}
	switch {
	case len(rows) == 0 && at.filter != "":
		out = append(out, faint.Render("nothing with "+telemetry.Printable(at.filter)))
	case len(rows) == 0:
		out = append(out, faint.Render("nothing"))
	}
	return out
}

// shortened cuts a text to a width. An absolute path (path is true) loses its beginning, since its end
// tells more.
func shortened(text string, width int, path bool) string {
	over := ansi.StringWidth(text) - width
	if over <= 0 {
		return text
	}
	if path && strings.HasPrefix(text, "/") {
		return ansi.TruncateLeft(text, over+1, "…")
	}
	return ansi.Truncate(text, width, "…")
}

// detail returns all lines about the row with the key m.opened, wrapped to the width of the window. It
// says so if rows no longer has it.
func (m *model) detail(rows []row) []string {
	i := slices.IndexFunc(rows, func(r row) bool { return r.key == m.opened })
	if i < 0 {
		return []string{"", "it is no longer there"}
	}
	out := []string{""}
	for _, text := range rows[i].detail {
		const margin = 11 // the width of the label that each line begins with
		if ansi.StringWidth(text) <= m.width || len(text) < margin {
			out = append(out, text)
			continue
		}
		label := text[:margin]
		for part := range strings.SplitSeq(ansi.Wrap(text[margin:], max(20, m.width-margin), ""), "\n") {
			out = append(out, label+part)
			label = strings.Repeat(" ", margin)
		}
	}
	return out
}

// foot returns the line with the keys.
func (m *model) foot() string {
	switch {
	case m.typing:
		return faint.Render("type to filter · enter keep · esc drop")
	case m.opened != "":
		return faint.Render("esc back · p pause · q quit")
	}
	return faint.Render("1 2 3 list · ↑↓ · enter open · / filter · s sort · r reverse · p pause · q quit")
}
