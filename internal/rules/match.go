package rules

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// matcher is a regular expression, with text that whatever it matches has. To look for
// a text is many times faster than to match an expression.
type matcher struct {
	re     *regexp.Regexp // nil: the text is all there is to it
	text   []byte
	begins bool // the text is where it matches, which is the beginning
}

// newMatcher compiles a regular expression. It keeps a text that every match contains, the
// longest that it finds, to rule out most records by a search for this text. An expression that
// is only a text, or ^ and a text, needs no regular expression at all.
func newMatcher(expression string) (*matcher, error) {
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	m := &matcher{re: re}
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	subs := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		subs = tree.Sub
	}
	if m.begins = subs[0].Op == syntax.OpBeginText; m.begins {
		if subs = subs[1:]; len(subs) > 0 {
			if m.text = literal(subs[0]); m.text != nil && len(subs) == 1 {
				m.re = nil
			}
		}
		m.begins = m.text != nil
		return m, nil
	}
	for _, sub := range subs {
		if text := literal(sub); len(text) > len(m.text) {
			m.text = text
		}
	}
	if len(subs) == 1 && m.text != nil {
		m.re = nil
	}
	return m, nil
}

// literal returns the only text that an expression matches; nil: it matches others too.
func literal(re *syntax.Regexp) []byte {
	if re.Op != syntax.OpLiteral || re.Flags&syntax.FoldCase != 0 {
		return nil
	}
	text := string(re.Rune)
	if strings.ContainsRune(text, utf8.RuneError) { // that character also matches any invalid byte
		return nil
	}
	return []byte(text)
}

// matches reports whether the expression matches somewhere in text.
func (m *matcher) matches(text []byte) bool {
	switch {
	case m.begins && !bytes.HasPrefix(text, m.text):
		return false
	case !m.begins && m.text != nil && !bytes.Contains(text, m.text):
		return false
	}
	return m.re == nil || m.re.Match(text)
}
