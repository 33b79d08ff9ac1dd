package config

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/kusto"
)

// source is the text of one file with the places of what was read from it.
type source struct {
	name  string // as shown to people
	text  []byte // without a byte order mark
	lines []string
	out   *report

	places map[string]place // by path: every key that was given, known or not
	wrong  map[string]bool  // paths that were complained about: one mistake, one problem
	masks  []lineMask       // of the lines; nil until one is to be shown
}

// place is where a value stands.
type place struct {
	line, col int
	expanded  string // the value, where it was put together from variables
	written   string // the value before that; empty: it is no single value
}

// newSource returns a source for the text of a file, which may begin with a byte order mark. Problems
// are added to out.
func newSource(name string, text []byte, out *report) *source {
	out.order[name] = len(out.order)
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	return &source{
		name: name, text: text, out: out,
		lines:  strings.Split(string(text), "\n"),
		places: map[string]place{}, wrong: map[string]bool{},
	}
}

// mark stores where the value of path is written.
func (s *source) mark(path string, n *yaml.Node) {
	s.places[path] = place{line: n.Line, col: n.Column}
}

// given reports whether the file has the key, with a right or a wrong value.
func (s *source) given(path string) bool {
	_, ok := s.places[path]
	return ok
}

// bad reports a problem with the value at a path such as inputs[2].format; the message is made of
// format and args. Something that is missing is reported where its section begins. Further problems
// of the same path are ignored, since they follow from the first.
func (s *source) bad(path, format string, args ...any) {
	if s.wrong[path] {
		return
	}
	at := path
	for at != "" && !s.given(at) {
		at = parent(at)
	}
	p, ok := s.places[at]
	if !ok {
		p = place{line: 1, col: 1}
	}
	message := fmt.Sprintf(format, args...)
	if p.expanded != "" && at == path {
		// What a variable holds may be a secret that was meant for another key.
		message = strings.ReplaceAll(message, strconv.Quote(p.expanded), "the value of the variable")
	}
	if names := s.emptied(path); names != nil {
		// Who reads the line sees a value there.
		message = emptyWords(names) + "; " + strings.TrimPrefix(message, "missing; ")
	}
	s.badAt(p.line, p.col, path, message)
}

// emptied returns the names of the variables that a value is made of if it is empty, since they are;
// nil for any other value.
func (s *source) emptied(path string) []string {
	if p := s.places[path]; p.expanded == "" {
		return variablesIn(p.written)
	}
	return nil
}

// emptyWords says that variables, at least one, are empty.
func emptyWords(names []string) string {
	if len(names) == 1 {
		return "variable " + names[0] + " is empty"
	}
	return "variables " + strings.Join(names, ", ") + " are empty"
}

// badAt reports a problem with the text at a line and a column, both from 1. path names the key;
// empty: the file as a whole. Once a file has maxProblems problems, further ones are only counted.
func (s *source) badAt(line, col int, path, message string) {
	s.wrong[path] = true
	if s.out.full(s.name) {
		s.out.more++
		return
	}
	line = min(max(line, 1), len(s.lines))
	shown, caret := s.excerpt(line, max(col, 1))
	s.out.add(Problem{File: s.name, Line: line, Col: max(col, 1), Path: printable(path), Message: printable(message), Source: shown, caret: caret})
}

// parent is the path of the section that holds path.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// maxShown is the longest line that is shown, in bytes: what is longer was not
// written by hand, and costs too much to search for secrets.
const maxShown = 4096

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 120

// excerpt returns the part of a line that may be shown, at most excerptWidth characters without
// secrets, and how many characters of it come before col, for the caret. line and col count from 1.
// It returns "" for a line that is too long.
func (s *source) excerpt(line, col int) (shown string, caret int) {
	if len(s.lines[line-1]) > maxShown {
		return "", 0
	}
	raw, text := []rune(s.lines[line-1]), []rune(s.masked(line))
	for caret < min(col-1, len(text), len(raw)) && (raw[caret] == text[caret]) {
		caret++ // up to col, or to the mask that has replaced the text there
	}
	if from := caret - excerptWidth*3/4; from > 0 && len(text) > excerptWidth {
		text = append([]rune("…"), text[from:]...)
		caret -= from - 1
	}
	if len(text) > excerptWidth {
		text = append(text[:excerptWidth:excerptWidth], '…')
	}
	indent := 0
	for indent < caret && indent < len(text) && unicode.IsSpace(text[indent]) {
		indent++
	}
	return oneToOne(text[indent:]), caret - indent
}

// masked returns a line, numbered from 1, with its secrets replaced. What has to be hidden also
// depends on the lines before, so that the masks of all lines are computed once.
func (s *source) masked(line int) string {
	if s.masks == nil {
		s.masks = lineMasks(s.lines)
	}
	text, mask := s.lines[line-1], s.masks[line-1]
	if mask.all {
		return text[:indentOf(text)] + kusto.Mask
	}
	if mask.auth {
		text = maskAuth(text)
	}
	return maskLine(text)
}

// oneToOne returns text with a replacement for each character that a terminal would not show in one
// column, so that the caret below the line stays in place. It changes text.
func oneToOne(text []rune) string {
	for i, r := range text {
		switch {
		case r == '\t' || r == '\r':
			text[i] = ' '
		case !unicode.IsPrint(r):
			text[i] = '�'
		}
	}
	return strings.TrimRight(string(text), " ")
}

// printable escapes control characters, line ends and characters that turn the direction of text.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}
