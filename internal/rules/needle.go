package rules

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// needle is a text that is searched for in many records at once.
type needle struct {
	text []byte
	fold bool // the letters of ASCII in any case; those of text are small then
	rare int  // index in text of the byte that logs have least of
	all  bool // of a value of JSON it is all

	named bool // it is looked for with a value behind it of which a condition may hold
}

// common are the bytes that logs are made of, the most frequent first.
const common = `"0123456789 :,-etaoinsrlcd.m/pufhb_gyw=v+TZ\[]{}();kAIxSERNDCOjqzPLMU`

// rarity ranks a byte: a higher number is rarer in logs.
func rarity(c byte) int {
	if i := strings.IndexByte(common, c); i >= 0 {
		return i
	}
	return len(common)
}

// useful is the rarity from which on a search for a byte goes over most of a record.
var useful = rarity('r')

// often is the rarity from which on a byte is so seldom that each record may have the name
// that has it, and a search for the name still finds less than one for other bytes.
var often = rarity('p')

// newNeedle returns the needle for a text, one of t. Its search looks for the byte of the text
// that is the rarest in logs.
func newNeedle(text string, t texts) needle {
	n := needle{text: []byte(text), fold: t.fold, all: t.all}
	for i, c := range n.text {
		if rarity(c) > rarity(n.text[n.rare]) {
			n.rare = i
		}
	}
	return n
}

// rarest is the rarity of the rarest byte.
func (n *needle) rarest() int { return rarity(n.text[n.rare]) }

// upper returns the text in upper case if letter case does not matter, else nil.
func (n *needle) upper() []byte {
	if !n.fold {
		return nil
	}
	return bytes.ToUpper(n.text)
}

// A byte is frequent where it is found in vain more often than this, and once in so many
// bytes.
const (
	leastVain = 16
	perVain   = 16
)

// index returns the first index of the needle in b; -1: it is not there. It searches for the
// rarest byte of the needle, and, once that byte was found in vain too often, for the whole text.
func (n *needle) index(b []byte) int {
	c := n.text[n.rare]
	last := len(b) - len(n.text) // where it can begin
	for i, vain := 0, 0; i <= last; i++ {
		var k int
		switch window := b[i+n.rare : last+n.rare+1]; {
		case n.fold && isLetter(c):
			k = indexFoldByte(window, c)
		case n.fold || vain <= leastVain+i/perVain:
			k = bytes.IndexByte(window, c)
			vain++
		default:
			k = bytes.Index(b[i:], n.text)
		}
		if k < 0 {
			return -1
		}
		if i += k; (n.fold || b[i] == n.text[0]) && n.isAt(b, i) {
			return i
		}
	}
	return -1
}

// isAt reports whether the needle is at index i of b. If n.all is set, it has to be a whole JSON
// value there.
func (n *needle) isAt(b []byte, i int) bool {
	part := b[i : i+len(n.text)]
	if n.fold {
		return equalFold(part, n.text)
	}
	return string(part) == string(n.text) && (!n.all || isValueAt(b, i, i+len(part)))
}

const (
	everyByte  = 0x0101010101010101
	eighthBits = 0x80 * everyByte
)

// isValueAt reports whether b[from:to] can be a whole JSON value: not a part of a longer
// word, and not the name of a member.
func isValueAt(b []byte, from, to int) bool {
	if from == 0 || to+1 >= len(b) {
		return true // b does not tell
	}
	switch before := b[from-1]; {
	case before == '"' || before == '\'':
		return b[to] == before && b[to+1] != ':'
	case isLetter(before), isDigit(before), isLetter(b[to]), isDigit(b[to]):
		return false
	}
	return true
}

// indexFoldByte returns the first index of a letter, given in lower case, in either case;
// -1: there is none.
func indexFoldByte(b []byte, c byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		// Zero where the letter is. Borrows can tell of more bytes than there are, but
		// only behind the first.
		x := binary.LittleEndian.Uint64(b[i:]) | 0x20*everyByte ^ uint64(c)*everyByte
		if hit := (x - everyByte) &^ x & eighthBits; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if b[i]|0x20 == c {
			return i
		}
	}
	return -1
}

// equalFold reports whether b equals a lower-case text, ignoring the case of ASCII
// letters.
func equalFold(b, text []byte) bool {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != text[i] {
			return false
		}
	}
	return true
}

// texts are such that whatever a condition holds of has one of them. Nil: nobody knows.
type texts struct {
	of   []string
	fold bool // in any letter case
	all  bool // they are all of a value
}

// mostTexts is how many texts are searched for instead of one that says less.
const mostTexts = 4

// weight scores how many records a search for these texts skips: the longer and rarer the
// texts and the fewer of them, the higher. 0: a search does not pay.
func (t texts) weight() int {
	if len(t.of) == 0 || len(t.of) > mostTexts {
		return 0
	}
	weight := 1 << 20
	for _, text := range t.of {
		if len(text) < 2 {
			return 0
		}
		n := newNeedle(text, t)
		rarest := n.rarest()
		if rarest < useful { // nearly every record has all of its bytes
			return 0
		}
		weight = min(weight, 16*min(len(text), 16)+rarest/4)
	}
	return weight - 24*(len(t.of)-1)
}

// rarest returns the rarity of that text which is the least rare, where a text is as rare as its
// rarest byte; 0: there are no texts.
func (t texts) rarest() (least int) {
	for i, text := range t.of {
		n := newNeedle(text, t)
		if rare := n.rarest(); i == 0 || rare < least {
			least = rare
		}
	}
	return least
}

// better returns t or other, whichever has the higher weight: a search for it skips more records.
func (t texts) better(other texts) texts {
	if other.weight() > t.weight() {
		return other
	}
	return t
}

// within returns, for each text, its longest part without control characters and without the
// characters in hidden, which a record may have in escaped form.
func (t texts) within(hidden string) texts {
	parts := texts{fold: t.fold, all: true}
	for _, text := range t.of {
		longest := ""
		for part := range strings.FieldsFuncSeq(text, func(c rune) bool { return c < ' ' || strings.ContainsRune(hidden, c) }) {
			if len(part) > len(longest) {
				longest = part
			}
		}
		parts.of, parts.all = append(parts.of, longest), parts.all && longest == text
	}
	return parts
}

// textsOf returns texts of which every match of a regular expression contains one; none if that
// is not known.
func textsOf(expression string) texts {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return texts{}
	}
	a := analysis{fold: folds(tree)}
	all, some := a.of(tree)
	return texts{of: all, fold: a.fold}.better(texts{of: some, fold: a.fold})
}

// folds reports whether an expression asks for something in any letter case.
func folds(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase != 0 || slices.ContainsFunc(re.Sub, folds)
}

// analysis finds what an expression asks for. With fold all of it is in small letters.
type analysis struct{ fold bool }

// mostWays is how many texts an analysis follows.
const mostWays = 16

// of returns, in all, every text that the expression re matches; or, in some, texts of which each
// match contains one. nil means that there are too many, or that they are not known.
func (a *analysis) of(re *syntax.Regexp) (all, some []string) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []string{""}, nil
	case syntax.OpLiteral:
		return a.literal(re)
	case syntax.OpCharClass:
		return a.class(re), nil
	case syntax.OpCapture:
		return a.of(re.Sub[0])
	case syntax.OpQuest:
		if all, _ = a.of(re.Sub[0]); all != nil {
			all = append(slices.Clone(all), "")
		}
		return all, nil
	case syntax.OpPlus, syntax.OpRepeat:
		if re.Op == syntax.OpRepeat && re.Min == 0 {
			return nil, nil
		}
		if all, some = a.of(re.Sub[0]); all != nil {
			some = all
		}
		return nil, some
	case syntax.OpConcat:
		return a.concat(re.Sub)
	case syntax.OpAlternate:
		return a.alternate(re.Sub)
	}
	return nil, nil
}

// literal returns, for a literal of a regular expression, the text that each match is (all), or else
// texts of which each match contains one (some). With a.fold they are in lower case. Both are nil if
// a match may be bytes that are no text.
func (a *analysis) literal(re *syntax.Regexp) (all, some []string) {
	text := string(re.Rune)
	if strings.ContainsRune(text, utf8.RuneError) { // that character also matches any invalid byte
		return nil, nil
	}
	if !a.fold {
		return []string{text}, nil
	}
	text = lower(text)
	if re.Flags&syntax.FoldCase == 0 {
		return []string{text}, nil
	}
	// Case folding by ASCII does not cover letters beyond ASCII, nor k and s, which also match the
	// Kelvin sign and the long s: the text is split at them.
	parts := texts{of: []string{text}}
	parts.of[0] = strings.Map(func(c rune) rune {
		if c >= utf8.RuneSelf || c == 'k' || c == 's' {
			return 0
		}
		return c
	}, text)
	if !strings.Contains(parts.of[0], "\x00") {
		return parts.of, nil
	}
	return nil, parts.within("").of
}

// lower returns a text with ASCII letters in lower case.
func lower(text string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		return c
	}, text)
}

// class returns the texts that a character class matches, one for each character; nil if there
// are too many or it matches bytes that are no text.
func (a *analysis) class(re *syntax.Regexp) (all []string) {
	for i := 0; i < len(re.Rune); i += 2 {
		for c := re.Rune[i]; c <= re.Rune[i+1]; c++ {
			text := string(c)
			if c == utf8.RuneError || len(all) == mostTexts {
				return nil
			}
			if a.fold {
				text = lower(text)
			}
			if !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// concat returns, for expressions that follow one another, all texts that they match together, or
// else in some the best texts of which each match contains one: those of one sub-expression, or
// of several neighbours joined.
func (a *analysis) concat(subs []*syntax.Regexp) (all, some []string) {
	all = []string{""}
	best := texts{fold: a.fold} // the best for some so far
	whole := true               // all is of all subs so far
	for _, sub := range subs {
		exact, part := a.of(sub)
		best = best.better(texts{of: part, fold: a.fold})
		if exact != nil && len(exact)*len(all) <= mostWays {
			var longer []string
			for _, one := range all {
				for _, next := range exact {
					longer = append(longer, one+next)
				}
			}
			all = longer
			continue
		}
		whole = false
		best = best.better(texts{of: all, fold: a.fold})
		if all = []string{""}; exact != nil {
			all = exact
		}
	}
	if whole {
		return all, nil
	}
	return nil, best.better(texts{of: all, fold: a.fold}).of
}

// alternate returns, for expressions of which one matches (a|b), all texts that they match, or
// else in some texts of which each match contains one. Both are nil if one of the expressions has
// no such texts, or there are too many.
func (a *analysis) alternate(subs []*syntax.Regexp) (all, some []string) {
	all = []string{}
	for _, sub := range subs {
		exact, part := a.of(sub)
		if exact == nil || len(all)+len(exact) > mostWays {
			all = nil
		}
		if all != nil {
			all = append(all, exact...)
		}
		if exact != nil {
			part = exact
		}
		if part == nil || len(some)+len(part) > mostWays {
			return nil, nil
		}
		some = append(some, part...)
	}
	return all, some
}
