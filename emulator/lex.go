package emulator

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is what a token of KQL is.
type tokenKind uint8

const (
	tokEnd   tokenKind = iota
	tokWord            // a name or a keyword, as it stands
	tokName            // a name in brackets: ['a b']
	tokText            // a string
	tokCount           // a number, with its unit if it has one
	tokSign            // an operator or a bracket
)

// token is a piece of a text of KQL.
type token struct {
	kind tokenKind
	text string // of a string or a name what it means
	at   int    // in the text
}

// signs are the operators of more than one character.
var signs = []string{"==", "!=", "<=", ">=", "=~", "!~", "<|"}

// lex cuts a text into tokens. In a command a word may have dashes in it.
func lex(text string, command bool) (all []token, err error) {
	for i := 0; i < len(text); {
		rest := text[i:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case unicode.IsSpace(r):
			i += size
			continue
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			i += n
			continue
		}
		t, n, err := lexOne(rest, command)
		if err != nil {
			return nil, fmt.Errorf("%w at position %d", err, i)
		}
		t.at = i
		all = append(all, t)
		i += n
	}
	return append(all, token{kind: tokEnd, at: len(text)}), nil
}

// lexOne reads the token that text begins with.
func lexOne(text string, command bool) (token, int, error) {
	if inner, n, ok, err := lexString(text); ok || err != nil {
		return token{kind: tokText, text: inner}, n, err
	}
	if text[0] == '[' {
		after := strings.TrimLeft(text[1:], " ")
		if inner, n, ok, err := lexString(after); ok && err == nil {
			if skipped := len(text) - len(after) + n; strings.HasPrefix(text[skipped:], "]") {
				return token{kind: tokName, text: inner}, skipped + 1, nil
			}
		}
	}
	c := text[0]
	switch {
	case isWordByte(c) && !isDigit(c):
		n := 1
		for n < len(text) && (isWordByte(text[n]) || command && text[n] == '-' && n+1 < len(text) && isWordByte(text[n+1])) {
			n++
		}
		return token{kind: tokWord, text: text[:n]}, n, nil
	case isDigit(c):
		n := 1
		for n < len(text) && (isWordByte(text[n]) || text[n] == '.' && n+1 < len(text) && isDigit(text[n+1])) {
			n++
		}
		return token{kind: tokCount, text: text[:n]}, n, nil
	}
	for _, s := range signs {
		if strings.HasPrefix(text, s) {
			return token{kind: tokSign, text: s}, len(s), nil
		}
	}
	if strings.IndexByte("()[]{},;|=<>+-*/%.:!", c) < 0 {
		return token{}, 0, fmt.Errorf("SYN0002: Syntax error: unexpected %q", text[:1])
	}
	return token{kind: tokSign, text: text[:1]}, 1, nil
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// lexString reads a string in any of its forms: '…', "…", with escapes, @'…'
// without, and of many lines between three backticks.
func lexString(text string) (inner string, n int, ok bool, err error) {
	unclosed := fmt.Errorf("SYN0002: Syntax error: a string is not closed")
	if body, found := strings.CutPrefix(text, "```"); found {
		end := strings.Index(body, "```")
		if end < 0 {
			return "", 0, false, unclosed
		}
		return body[:end], end + 6, true, nil
	}
	i, verbatim := 0, false
	for i < len(text) && strings.IndexByte("hH@", text[i]) >= 0 && i < 2 { // h hides it in logs
		verbatim = verbatim || text[i] == '@'
		i++
	}
	if i >= len(text) || text[i] != '\'' && text[i] != '"' {
		return "", 0, false, nil
	}
	quote := text[i]
	var b strings.Builder
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote && verbatim && i+1 < len(text) && text[i+1] == quote:
			b.WriteByte(c)
			i++
		case c == quote:
			return b.String(), i + 1, true, nil
		case c == '\\' && !verbatim && i+1 < len(text):
			i++
			b.WriteByte(unescaped(text[i]))
		case c == '\n':
			return "", 0, false, unclosed
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false, unclosed
}

func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// cursor walks through tokens.
type cursor struct {
	text   string
	tokens []token
	i      int
}

func newCursor(text string, command bool) (*cursor, error) {
	tokens, err := lex(text, command)
	if err != nil {
		return nil, err
	}
	return &cursor{text: text, tokens: tokens}, nil
}

func (c *cursor) peek() token { return c.tokens[c.i] }

func (c *cursor) next() token {
	t := c.tokens[c.i]
	if t.kind != tokEnd {
		c.i++
	}
	return t
}

// word takes a keyword in any case, if it comes next.
func (c *cursor) word(w string) bool {
	t := c.peek()
	if t.kind == tokWord && strings.EqualFold(t.text, w) {
		c.i++
		return true
	}
	return false
}

// words takes several keywords, if they come next in this order; else none.
func (c *cursor) words(ws ...string) bool {
	at := c.i
	for _, w := range ws {
		if !c.word(w) {
			c.i = at
			return false
		}
	}
	return true
}

// sign takes an operator, if it comes next.
func (c *cursor) sign(s string) bool {
	t := c.peek()
	if t.kind == tokSign && t.text == s {
		c.i++
		return true
	}
	return false
}

// want takes an operator that has to come next.
func (c *cursor) want(s string) error {
	if !c.sign(s) {
		return c.fault("want " + s)
	}
	return nil
}

// name takes the name of an entity, in brackets or not.
func (c *cursor) name() (string, error) {
	t := c.next()
	switch t.kind {
	case tokWord, tokName:
		if validName(t.text) {
			return t.text, nil
		}
	}
	return "", c.fault("want a name")
}

// str takes a string.
func (c *cursor) str() (string, error) {
	t := c.next()
	if t.kind != tokText {
		return "", c.fault("want a string")
	}
	return t.text, nil
}

// end expects that nothing comes any more.
func (c *cursor) end() error {
	c.sign(";")
	if c.peek().kind != tokEnd {
		return c.fault("want the end")
	}
	return nil
}

// fault is a syntax error where the cursor stands.
func (c *cursor) fault(why string) error {
	at := c.peek().at
	near := c.text[at:]
	if len(near) > 24 {
		near = near[:24]
	}
	return fmt.Errorf("SYN0002: Syntax error: Query could not be parsed at '%s' on position %d: %s", near, at, why)
}
