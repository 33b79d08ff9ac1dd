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

// Split returns the queries and commands in text, in their order; none if it has only comments and
// space. Statements that prepare a query (let, set, declare, alias, restrict) are put before every
// query after them in their block, or in the next block that has a query. They are a statement of
// their own if no query follows.
func Split(text string) []Statement {
	var all []Statement
	var before []piece // statements that prepare the next queries
	used := false      // a query followed them
	for _, p := range pieces(text, false) {
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
	all := pieces(text, true)
	return len(all) == 0 || all[len(all)-1].closed && !all[len(all)-1].prepares()
}

// joined returns the statement that is sent for a query: the pieces that prepare it and the query
// itself, joined by semicolons.
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

// pieces returns the parts of text between semicolons and blank lines, without empty ones. Those
// inside of strings, comments and brackets do not count. typed is that of scanner.next.
func pieces(text string, typed bool) (all []piece) {
	s := scanner{text: text}
	for p, ok := s.next(typed); ok; p, ok = s.next(typed) {
		all = append(all, p)
	}
	return all
}

// scanner reads a text from piece to piece.
type scanner struct {
	text  string
	at    int
	block bool // a blank line was passed since the last piece
	some  bool // there was a piece
}

// next returns the next piece (the text up to a semicolon or a blank line) and moves behind it;
// false if there is none. typed says that a person types the text: then a blank line always ends
// the piece, also inside of brackets or before a line that begins with a pipe.
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

// skip moves s.at to the next statement: over space, semicolons, and comments that no statement
// follows in their block. It sets s.block if it passes a blank line, which ends a block.
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

// end returns the offset at which the piece that begins at s.at ends: that of a semicolon outside
// of brackets, strings and comments, that of a blank line, or the length of the text. word is the
// first word of the piece; commands with <| have an end of their own. typed is that of next.
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
			case strings.HasPrefix(word, ".execute"): // .execute script: all that follows is its script
				return len(s.text)
			case strings.HasPrefix(word, ".ingest"): // .ingest inline: rows of data follow
				return i + rows(rest)
			}
			semicolons = false // they separate statements of the query after <|
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

// rows returns the length of the rows of data at the start of text, which a blank line or the end
// of text ends.
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

// lineEnd returns the length of the first line of text, without its line feed.
func lineEnd(text string) int {
	line, _, _ := strings.Cut(text, "\n")
	return len(line)
}

// firstWord returns the first word of text after comments and space, in lower case, with a leading
// dot; "" if a blank line or the end of text comes first. If text begins with another character,
// such as a bracket, it returns that.
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

// Quoted reports whether the end of text is inside of a string literal or a comment, where words
// are not words of KQL.
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
