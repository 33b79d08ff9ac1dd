// Package script cuts a text into the statements that are sent one by one, and
// changes none of them: quotes, comments and brackets are read as KQL reads them,
// so that nothing inside of them ends a statement.
//
// A semicolon ends a statement, and a blank line ends a block of them. What only
// prepares a query (let, set, declare, alias, restrict) goes before every query
// behind it in its block, or in the next block that has one.
package script

import (
	"slices"
	"strings"
)

// Statement is one query or command with what prepares it, as it was written.
type Statement struct {
	Text string // without the semicolon that ends it
	Line int    // in which it begins, from 1
}

// Split returns the statements of a text in their order; none for a text of
// comments and space.
func Split(text string) []Statement {
	var all []Statement
	var before []piece // what prepares
	used := false      // a query followed what prepares
	for _, p := range pieces(text) {
		if p.leads && used {
			before, used = nil, false
		}
		switch {
		case p.prepares():
			before, used = append(before, p), false
		case p.isCommand():
			all = append(all, joined([]piece{p}))
		default:
			all = append(all, joined(append(slices.Clone(before), p)))
			used = true
		}
	}
	if len(before) > 0 && !used {
		all = append(all, joined(before))
	}
	return all
}

// Complete reports whether a text that a person types is complete: its last statement ends with a
// semicolon or a blank line, and does not only prepare a query (such as let). After two blank
// lines every text is complete.
func Complete(text string) bool {
	if strings.HasSuffix(strings.ReplaceAll(text, "\r", ""), "\n\n\n") {
		return true
	}
	s := scanner{text: text}
	var all []piece
	for {
		p, ok := s.next(true)
		if !ok {
			break
		}
		all = append(all, p)
	}
	return len(all) == 0 || all[len(all)-1].closed && !all[len(all)-1].prepares()
}

// joined puts the pieces of a statement together: what prepares the query, and the query.
func joined(all []piece) Statement {
	var text []string
	for _, p := range all {
		text = append(text, p.text)
	}
	return Statement{strings.Join(text, ";\n"), all[0].line}
}

// piece is what stands between two ends.
type piece struct {
	text   string
	at     int    // where it begins
	line   int    // likewise, from 1
	word   string // its first, in lower case
	leads  bool   // it begins a block
	closed bool   // its end was written, and is not that of the text
}

func (p piece) isCommand() bool { return strings.HasPrefix(p.word, ".") }

func (p piece) prepares() bool {
	return slices.Contains([]string{"let", "set", "declare", "alias", "restrict"}, p.word)
}

// pieces divides a text at its semicolons and blank lines.
func pieces(text string) (all []piece) {
	s := scanner{text: text}
	for {
		p, ok := s.next(false)
		if !ok {
			return all
		}
		all = append(all, p)
	}
}

// scanner reads a text from piece to piece.
type scanner struct {
	text  string
	at    int
	block bool // a blank line was passed since the last piece
	some  bool // there was a piece
}

// next returns the next piece of the text; false: there is none. typed says that a person types
// the text: then a blank line ends the piece even if the next line could continue it.
func (s *scanner) next(typed bool) (piece, bool) {
	s.skip()
	if s.at == len(s.text) {
		return piece{}, false
	}
	p := piece{at: s.at, line: 1 + strings.Count(s.text[:s.at], "\n"), word: firstWord(s.text[s.at:]), leads: s.block || !s.some}
	s.block, s.some = false, true
	end := s.end(p.word, typed)
	p.text = strings.Trim(s.text[s.at:end], space)
	p.closed = end < len(s.text)
	s.at = end
	if s.at < len(s.text) && s.text[s.at] == ';' {
		s.at++
	}
	return p, true
}

// skip moves to the next statement: over space, semicolons, and comments that no statement
// follows in their block.
func (s *scanner) skip() {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '\n':
			if blank(s.text[s.at+1:]) {
				s.block = true
			}
			s.at++
		case isSpace(c), c == ';':
			s.at++
		case strings.HasPrefix(s.text[s.at:], "//") && firstWord(s.text[s.at:]) == "":
			s.at += lineEnd(s.text[s.at:])
		default:
			return
		}
	}
}

// end is where the piece that begins here does.
func (s *scanner) end(word string, typed bool) int {
	depth, semicolons := 0, true
	for i := s.at; i < len(s.text); {
		rest := s.text[i:]
		switch c := rest[0]; {
		case c == '\n' && blank(rest[1:]) && (typed || depth == 0 && !goesOn(rest)):
			return i
		case strings.HasPrefix(rest, "//"):
			i += lineEnd(rest)
		case strings.HasPrefix(rest, "<|") && strings.HasPrefix(word, "."):
			switch {
			case strings.HasPrefix(word, ".execute"): // a script of its own
				return len(s.text)
			case strings.HasPrefix(word, ".ingest"):
				return i + rows(rest)
			}
			semicolons = false // they are those of the query
			i += 2
		case c == ';' && depth == 0 && semicolons:
			return i
		case strings.IndexByte("([{", c) >= 0:
			depth++
			i++
		case strings.IndexByte(")]}", c) >= 0:
			depth = max(depth-1, 0)
			i++
		default:
			i += literal(rest)
		}
	}
	return len(s.text)
}

// rows is how long the rows are that begin a text: a blank line ends them.
func rows(text string) int {
	for i := range len(text) {
		if text[i] == '\n' && blank(text[i+1:]) {
			return i
		}
	}
	return len(text)
}

// literal returns the length of the string literal at the start of text, or 1 if text starts with
// something else. text is not empty. A string in quotes ends with its line at the latest.
func literal(text string) int {
	for _, fence := range []string{"```", "~~~"} {
		if strings.HasPrefix(text, fence) {
			if i := strings.Index(text[3:], fence); i >= 0 {
				return i + 6
			}
			return len(text)
		}
	}
	verbatim := text[0] == '@' && len(text) > 1
	start := 0
	if verbatim {
		start = 1
	}
	quote := text[start]
	if quote != '"' && quote != '\'' {
		return 1
	}
	for i := start + 1; i < len(text); i++ {
		switch {
		case text[i] == '\n':
			return i
		case text[i] == '\\' && !verbatim && i+1 < len(text) && text[i+1] != '\n':
			i++
		case text[i] == quote && verbatim && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

// goesOn reports whether the first line of a text that is not blank begins with a
// pipe, which no statement does.
func goesOn(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, space), "|")
}

// space is what KQL passes between words.
const space = " \t\r\n"

// blank reports whether a text begins with a line of space alone that ends.
func blank(text string) bool {
	line, _, ended := strings.Cut(text, "\n")
	return ended && strings.Trim(line, space) == ""
}

func isSpace(c byte) bool { return strings.IndexByte(space, c) >= 0 }

// lineEnd returns the length of the first line.
func lineEnd(text string) int {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}

// firstWord is the first word of the block behind comments and space, in lower
// case, with its dot if it has one; empty: there is none.
func firstWord(text string) string {
	for {
		trimmed := strings.TrimLeft(text, " \t\r")
		if !strings.HasPrefix(trimmed, "//") {
			text = trimmed
			break
		}
		end := lineEnd(trimmed)
		if end == len(trimmed) || blank(trimmed[end+1:]) {
			return ""
		}
		text = trimmed[end+1:]
	}
	n := strings.IndexFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n;(|<{", r) })
	if n < 0 {
		n = len(text)
	}
	if n == 0 {
		return text[:min(1, len(text))]
	}
	return strings.ToLower(text[:n])
}

// Quoted reports whether a text ends inside of a string or a comment, where its
// words are none of the language.
func Quoted(text string) bool {
	for i := 0; i < len(text); {
		rest := text[i:]
		n := literal(rest)
		if strings.HasPrefix(rest, "//") {
			n = lineEnd(rest)
		}
		if i += n; i == len(text) && (n > 1 || isQuote(rest[0])) {
			return strings.HasPrefix(rest, "//") || !isClosed(rest)
		}
	}
	return false
}

func isQuote(c byte) bool { return c == '"' || c == '\'' }

// isClosed reports whether a literal has its end. Behind one more character that
// would be inside of it, it would be longer.
func isClosed(text string) bool { return literal(text+"x") == len(text) }
