package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Write writes the explanation of a key as text for people.
func (t Topic) Write(w io.Writer) error {
	var b strings.Builder
	if t.Key != "" {
		b.WriteString(t.Key + "\n")
	}
	b.WriteString(wrapped(t.About, "  ") + "\n")
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s%s\n", name, strings.TrimLeft(wrapped(text, strings.Repeat(" ", 11)), " "))
		}
	}
	if t.Key != "" {
		b.WriteByte('\n')
		line("type", t.Type)
		line("allowed", strings.Join(t.Allowed, ", "))
		line("range", t.Range)
		line("default", t.Default)
		for i, place := range t.Places {
			line([]string{"stands", "or"}[min(i, 1)], place)
		}
	}
	if t.Example != "" {
		b.WriteString("\n  for example\n    " + strings.ReplaceAll(t.Example, "\n", "\n    ") + "\n")
	}
	if len(t.Keys) > 0 {
		b.WriteString("\n  keys\n")
		longest := len(slices.MaxFunc(t.Keys, func(a, b Topic) int { return len(a.Key) - len(b.Key) }).Key)
		for _, k := range t.Keys {
			first, _, _ := strings.Cut(k.About, ". ")
			margin := strings.Repeat(" ", longest+6)
			fmt.Fprintf(&b, "    %-*s  %s\n", longest, k.Key, strings.TrimLeft(wrapped(strings.TrimSuffix(first, "."), margin), " "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrapped breaks a text into lines of at most 96 bytes, if its words allow, each with a margin
// before it. The last line has no line end.
func wrapped(text, margin string) string {
	const width = 96
	var b strings.Builder
	line := margin
	for _, word := range strings.Fields(text) {
		if len(line) > len(margin) && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = margin
		}
		if len(line) > len(margin) {
			line += " "
		}
		line += word
	}
	return b.String() + line
}
