package telemetry

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// SortFiles sorts files by path; entries without a path, such as that of an input that matches
// nothing, come first.
func SortFiles(files []File) {
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Input, b.Input), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Generation, b.Generation))
	})
}

// RenderFiles writes a list of files, sorted by SortFiles, as text: below each path a line for each
// input that reads it, and below that the reason if reading does not go on. Lines fit 80 characters
// if the names of inputs are short. Control characters are quoted; only color adds escape
// sequences.
func RenderFiles(w io.Writer, l *FileList, color bool) error {
	p := painter{color: color, now: l.Time}
	var behind int64
	width := len("INPUT")
	for _, f := range l.Files {
		behind += f.BehindBytes
		width = max(width, len([]rune(Printable(f.Input))))
	}
	if len(l.Files) > 0 {
		p.line("%s", p.paint(faint, fmt.Sprintf("FILE\n  %-*s  %-18s  %-8s  %6s  %6s  %6s  %6s  %s", width, "INPUT", "ID/GENERATION", "STATE", "SIZE", "READ", "SAFE", "BEHIND", "FOR")))
	}
	for i, f := range l.Files {
		if i == 0 || f.Path != l.Files[i-1].Path {
			p.line("%s", p.paint(bold, Printable(cmp.Or(f.Path, "no file"))))
		}
		p.file(f, width)
	}
	p.line("%s", p.paint(faint, fmt.Sprintf("%s, %s behind", number(len(l.Files), "entry", "entries"), BytesText(behind))))
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	return nil
}

// file writes what follows the path of one entry: a line with input, state and sizes, and lines
// with the reason and the remedy if it is not read on. width is the width of the column of inputs
// in characters.
func (p *painter) file(f File, width int) {
	const figures = "  %6s  %6s  %6s  "
	input := Printable(cmp.Or(f.Input, "-"))
	line := "  " + input + strings.Repeat(" ", width-min(width, len([]rune(input))))
	state := p.paint(fileStyle(f), fmt.Sprintf("%-8s", Printable(f.State)))
	if f.ID == "" { // nothing is known of the file but its path
		p.line("%s", strings.TrimRight(line+fmt.Sprintf("  %-18s  ", "-")+state, " "))
	} else {
		line += fmt.Sprintf("  %-18s  ", Printable(f.ID)+"/"+fmt.Sprint(f.Generation)) + state +
			fmt.Sprintf(figures, BytesText(f.Size), BytesText(f.Read), BytesText(f.Safe)) +
			p.paint(zeroStyle(f.BehindBytes == 0), fmt.Sprintf("%6s", BytesText(f.BehindBytes)))
		if f.BehindBytes > 0 {
			line += "  " + spanText(time.Duration(f.BehindSeconds*float64(time.Second)))
		}
		p.line("%s", line)
	}
	if f.Why != "" {
		p.line("    %s", p.paint(yellow, Printable(f.Why)))
	}
	if f.Pinned > 0 {
		p.line("    %s", p.paint(yellow, BytesText(f.Pinned)+" stay on the disk until all of it is safe"))
	}
	if f.Fix != "" {
		p.line("    %s %s", p.paint(bold, "what to do:"), Printable(f.Fix))
	}
}

// fileStyle returns the colour for the state of a file.
func fileStyle(f File) string {
	switch f.State {
	case "not read":
		return red
	case "idle", "remembered", "left out":
		return faint
	case "waiting", "deleted":
		return yellow
	}
	return plain
}
