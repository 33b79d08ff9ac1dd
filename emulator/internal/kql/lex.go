package kql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// TokenKind is what a token of KQL is.
type TokenKind uint8

const (
	TokEnd   TokenKind = iota
	TokWord            // a name or a keyword, as it stands
	TokName            // a name in brackets: ['a b']
	TokText            // a string
	TokCount           // a number, with its unit if it has one
	TokSign            // an operator or a bracket
)

// Token is a piece of a text of KQL.
type Token struct {
	Kind TokenKind
	Text string // of a string or a name what it means
	At   int    // in the text
}

// is reports whether the token is one of these signs.
func (t Token) is(signs ...string) bool { return t.Kind == TokSign && slices.Contains(signs, t.Text) }

// isName reports whether the token can be a name: a word, or a name in brackets.
func (t Token) isName() bool { return t.Kind == TokWord || t.Kind == TokName }

// signs are the operators of more than one character.
var signs = []string{"==", "!=", "<=", ">=", "=~", "!~", "<|", ".."}

// lex cuts a text into tokens, without spaces and comments; the last token is always a TokEnd. In a
// command, words may contain dashes. The error is a syntax error, with its position.
func lex(text string, command bool) (all []Token, err error) {
	for i := 0; i < len(text); {
		rest := text[i:]
		if r, size := utf8.DecodeRuneInString(rest); unicode.IsSpace(r) {
			i += size
			continue
		}
		if strings.HasPrefix(rest, "//") {
			line, _, _ := strings.Cut(rest, "\n")
			i += len(line)
			continue
		}
		t, n, err := lexOne(rest, command)
		if err != nil {
			return nil, fmt.Errorf("%w at position %d", err, i)
		}
		t.At = i
		all = append(all, t)
		i += n
	}
	return append(all, Token{Kind: TokEnd, At: len(text)}), nil
}

// lexOne returns the token that text begins with, and its length in bytes. In a command, words may
// contain dashes.
func lexOne(text string, command bool) (Token, int, error) {
	if inner, n, ok, err := lexString(text); ok || err != nil {
		return Token{Kind: TokText, Text: inner}, n, err
	}
	if text[0] == '[' { // ['a name']; any other [ is a sign, below
		after := strings.TrimLeft(text[1:], " ")
		if inner, n, ok, err := lexString(after); ok && err == nil {
			if skipped := len(text) - len(after) + n; strings.HasPrefix(text[skipped:], "]") {
				return Token{Kind: TokName, Text: inner}, skipped + 1, nil
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
		return Token{Kind: TokWord, Text: text[:n]}, n, nil
	case isDigit(c):
		n := 1
		for n < len(text) && (isWordByte(text[n]) || text[n] == '.' && n+1 < len(text) && isDigit(text[n+1]) || isExponent(text[:n], text[n:])) {
			n++
		}
		return Token{Kind: TokCount, Text: text[:n]}, n, nil
	}
	for _, s := range signs {
		if strings.HasPrefix(text, s) {
			return Token{Kind: TokSign, Text: s}, len(s), nil
		}
	}
	if strings.IndexByte("()[]{},;|=<>+-*/%.:!~?", c) < 0 {
		return Token{}, 0, fmt.Errorf("SYN0002: Syntax error: unexpected %q", text[:1])
	}
	return Token{Kind: TokSign, Text: text[:1]}, 1, nil
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// isExponent reports whether rest begins with the sign of an exponent, as in 1e-3. number is the part
// of the number before rest; it is not empty.
func isExponent(number, rest string) bool {
	last := number[len(number)-1]
	return (rest[0] == '-' || rest[0] == '+') && len(rest) > 1 && isDigit(rest[1]) && (last == 'e' || last == 'E') &&
		strings.Trim(number[:len(number)-1], "0123456789.") == ""
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// lexString reads the string that text begins with: '…' or "…" with escapes, @'…' without, or any
// number of lines between three backticks. inner is its content, n its length in text. ok is false
// when text does not begin with a string; err is for one that is not valid.
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
	for i < len(text) && strings.IndexByte("hH@", text[i]) >= 0 && i < 2 { // h only hides the string in logs
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
			r, n := unescaped(text[i+1:])
			if n == 0 {
				return "", 0, false, fmt.Errorf("SYN0002: Syntax error: unknown escape sequence '\\%c' in a string", text[i+1])
			}
			b.WriteRune(r)
			i += n
		case c == '\n':
			return "", 0, false, unclosed
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false, unclosed
}

// unescaped returns the character of the escape sequence that text, the part behind a backslash,
// begins with, and the length of the sequence without the backslash; n is 0 for an unknown sequence.
func unescaped(text string) (r rune, n int) {
	if i := strings.IndexByte(`nrt0abfv\'"/`, text[0]); i >= 0 {
		return rune("\n\r\t\x00\a\b\f\v\\'\"/"[i]), 1
	}
	if size := map[byte]int{'u': 4, 'x': 2}[text[0]]; size > 0 && len(text) > size {
		if code, err := strconv.ParseUint(text[1:1+size], 16, 32); err == nil {
			return rune(code), 1 + size
		}
	}
	return 0, 0
}

// Cursor is a position in the tokens of a text. Its methods read the next token and move behind it;
// where they find another than they want, they panic with a Fault.
type Cursor struct {
	text    string
	command bool
	tokens  []Token
	i       int
}

// NewCursor cuts a text into tokens and returns a cursor at the first. In a command, words may contain
// dashes.
func NewCursor(text string, command bool) (*Cursor, error) {
	tokens, err := lex(text, command)
	if err != nil {
		return nil, err
	}
	return &Cursor{text: text, command: command, tokens: tokens}, nil
}

// Peek returns the next token without moving.
func (c *Cursor) Peek() Token { return c.tokens[c.i] }

// after returns the token behind the next one, without moving the cursor.
func (c *Cursor) after() Token { return c.tokens[min(c.i+1, len(c.tokens)-1)] }

// Next returns the next token and moves behind it. At the end it returns TokEnd again and again.
func (c *Cursor) Next() Token {
	t := c.tokens[c.i]
	if t.Kind != TokEnd {
		c.i++
	}
	return t
}

// Taken is the token that was taken last; there has to be one.
func (c *Cursor) Taken() Token { return c.tokens[c.i-1] }

// Rest is the text from the next token on.
func (c *Cursor) Rest() string { return c.text[c.Peek().At:] }

// Word moves behind the next token and returns true if that is the keyword w, in any letter case.
// Otherwise it does not move and returns false.
func (c *Cursor) Word(w string) bool {
	t := c.Peek()
	found := t.Kind == TokWord && strings.EqualFold(t.Text, w)
	c.i += count(found)
	return found
}

// Words moves behind the next tokens and returns true if they are the keywords ws, in this order and
// in any letter case. Otherwise it does not move and returns false.
func (c *Cursor) Words(ws ...string) bool {
	at := c.i
	for _, w := range ws {
		if !c.Word(w) {
			c.i = at
			return false
		}
	}
	return true
}

// Sign moves behind the next token and returns true if that is the operator or bracket s. Otherwise it
// does not move and returns false.
func (c *Cursor) Sign(s string) bool {
	found := c.Peek().is(s)
	c.i += count(found)
	return found
}

// Want moves behind the operator or bracket s, which has to come next; else it panics with a Fault.
func (c *Cursor) Want(s string) {
	if !c.Sign(s) {
		panic(c.Fault("want " + s))
	}
}

// Name reads the name of a table, column or the like, with or without brackets. It panics with a Fault
// if no valid name comes next.
func (c *Cursor) Name() string {
	t := c.Next()
	if !t.isName() || !ValidName(t.Text) {
		panic(c.Fault("want a name"))
	}
	return t.Text
}

// Column reads name:type and returns it with the type by its main name: bool for boolean. In a command
// the case of the type does not count. It panics with a Fault if the type is unknown.
func (c *Cursor) Column() Column {
	name := c.Name()
	c.Want(":")
	text := c.Peek().Text
	if c.command {
		text = strings.ToLower(text)
	}
	typ := Types[text]
	if typ == "" {
		panic(c.Fault("want a type"))
	}
	c.Next()
	return Column{name, typ}
}

// Str reads a string and returns its content. It panics with a Fault if no string comes next.
func (c *Cursor) Str() string {
	t := c.Next()
	if t.Kind != TokText {
		panic(c.Fault("want a string"))
	}
	return t.Text
}

// End panics with a Fault unless the text ends here, with or without a semicolon.
func (c *Cursor) End() {
	c.Sign(";")
	if c.Peek().Kind != TokEnd {
		panic(c.Fault("want the end"))
	}
}

// endOfStatement panics with a Fault unless the statement ends here.
func (c *Cursor) endOfStatement() {
	if t := c.Peek(); t.Kind != TokEnd && !t.is(";") {
		panic(c.Fault("want an operator behind |, or the end of the statement"))
	}
}

// List reads items with commas between them by calling item for each, up to and with the sign closing
// that ends the list. A comma behind the last item is allowed.
func (c *Cursor) List(closing string, item func()) {
	for !c.Sign(closing) {
		item()
		if !c.Sign(",") && !c.Peek().is(closing) {
			panic(c.Fault("want , or " + closing))
		}
	}
}

// commas reads one item or more with commas between them, by calling item for each.
func (c *Cursor) commas(item func()) {
	item()
	for c.Sign(",") {
		item()
	}
}

// either reads a text that is a scalar or else a table. When both functions end with a Fault, it panics
// with that of the one that has read further. Where both came as far, it is that of table if rather a
// table was meant (tables).
func (c *Cursor) either(scalar, table func(), tables bool) {
	begin := c.i
	err := try(scalar)
	if err == nil {
		return
	}
	reached := c.i
	c.i = begin
	if tableErr := try(table); tableErr != nil {
		if c.i > reached || c.i == reached && tables {
			err = tableErr
		}
		panic(Fault{err})
	}
}

// Fault returns a syntax error at the position of the cursor, for the caller to panic with. why says
// what was expected.
func (c *Cursor) Fault(why string) Fault {
	at := c.Peek().At
	near := c.text[at:]
	if len(near) > 24 {
		near = strings.ToValidUTF8(near[:24], "")
	}
	return Fault{fmt.Errorf("SYN0002: Syntax error: Query could not be parsed at '%s' on position %d: %s", near, at, why)}
}

// ValidName reports whether a name is one that the service gives to an entity: 1 to
// 1024 letters, digits, and _ space . -
func ValidName(name string) bool {
	if name == "" || utf8.RuneCountInString(name) > 1024 || !utf8.ValidString(name) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_ .-", r)
	})
}
