package rules

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redaction is what of a record is not sent as it is, and what is sent in its place. It
// is about a member, with all values in it, or about a column, or about every value of a
// record and every name; and about all of a value, or about each part of its text that
// Match or one of Preset finds.
type Redaction struct {
	Name   string   `yaml:"name,omitempty"`   // empty: redact_1 for the first of the list, and so on
	Member string   `yaml:"member,omitempty"` // path of names with dots between them
	Column string   `yaml:"column,omitempty"` // number, from 1, or name in the header
	Match  string   `yaml:"match,omitempty"`  // regular expression, in RE2 syntax
	Preset []string `yaml:"preset,omitempty"` // words of Presets
	With   string   `yaml:"with"`             // text, or Hash
}

// Hash is the word of Redaction.With for a keyed hash: HMAC-SHA-256, in hex.
const Hash = "hash"

// LeastKey is how many bytes a key of hashes has at least.
const LeastKey = 16

// Presets are the words of Redaction.Preset.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// redaction is a Redaction ready to be asked.
type redaction struct {
	path
	column int     // 0: every one; see Set.names
	filter matcher // of re
	// escapable says that the text of filter has characters that are written as escapes.
	escapable bool
	re        *regexp.Regexp
	find      []finder
	names     []string // of find
	with      string
	hashed    bool
}

// whole reports whether all of a value is redacted.
func (r *redaction) whole() bool { return r.re == nil && r.find == nil }

// everywhere reports whether it is about every value.
func (r *redaction) everywhere() bool { return r.member == "" && r.column == 0 }

// newRedaction compiles the redact rule at index i for records of a kind. header says that files
// have a line with the names of columns. bad has all mistakes of the rule, each an *Error.
func (s *Set) newRedaction(c *Redaction, kind Kind, header bool, i int) (r redaction, bad []error) {
	wrong := func(key, value, format string, args ...any) {
		bad = append(bad, &Error{"redact", i, key, value, fmt.Errorf(format, args...)})
	}
	r = redaction{path: newPath(c.Member).withheld(kind), with: c.With, hashed: c.With == Hash}
	if c.Match != "" {
		m, err := newMatcher(c.Match)
		if err != nil {
			bad = append(bad, &Error{"redact", i, "match", c.Match, err})
		} else {
			r.filter, r.re = *m, regexp.MustCompile(c.Match)
			r.escapable = bytes.ContainsFunc(m.text, func(c rune) bool { return c < ' ' || c == '"' || c == '\'' || c == '\\' || c == '/' })
		}
	}
	for at, word := range c.Preset {
		if slices.Contains(c.Preset[:at], word) {
			wrong(fmt.Sprintf("preset[%d]", at), word, "%q is there already", word)
		} else if find := presets[word]; find != nil {
			r.find, r.names = append(r.find, find), append(r.names, word)
		} else {
			wrong(fmt.Sprintf("preset[%d]", at), word, "%q is not a preset; want some of %s", word, strings.Join(Presets(), ", "))
		}
	}
	switch {
	case c.Match != "" && len(c.Preset) > 0:
		wrong("preset", "", "match is given too; want two rules")
	case c.Member != "" && c.Column != "":
		wrong("column", "", "it is about a member already; leave one of the two out")
	case c.Member != "" && (kind == Line || kind == Row):
		wrong("member", c.Member, "records of this format have no members; want match or preset%s", map[Kind]string{Row: ", or column with the number of a column"}[kind])
	case c.Column != "" && kind != Row:
		wrong("column", "", "records of this format have no columns; want match or preset%s", map[bool]string{true: ", or member with the name of a member"}[kind != Line])
	case c.Member == "" && c.Column == "" && c.Match == "" && len(c.Preset) == 0:
		wrong("", "", "nothing is named; want match, preset, member or column, such as {preset: [email], with: '***'}")
	}
	if kind == Row && c.Column != "" {
		var err error
		if r.column, err = s.column(c.Column, header); err != nil {
			wrong("column", c.Column, "%v", err)
		}
	}
	switch {
	case c.Member != "" && !isPath(c.Member):
		wrong("member", c.Member, noPath)
	case !utf8.ValidString(c.Member):
		wrong("member", c.Member, "not UTF-8")
	case !utf8.ValidString(c.With) || strings.ContainsFunc(c.With, unicode.IsControl):
		wrong("with", c.With, "no text of one line; want one such as '***', or hash")
	case kind == Line && strings.TrimSpace(c.With) == "":
		wrong("with", c.With, "blank, which could leave an empty line; want a text such as '***', or hash")
	}
	return r, bad
}

// segment is a part of a text.
type segment struct{ from, to int }

// segments appends to all the parts of text that the rule replaces, in order. Parts that overlap,
// such as an email address within another match, become one.
func (r *redaction) segments(all []segment, text []byte) []segment {
	if r.re != nil {
		if !r.filter.matches(text) {
			return all
		}
		for _, at := range r.re.FindAllIndex(text, -1) {
			if at[1] > at[0] {
				all = append(all, segment{at[0], at[1]})
			}
		}
		return all
	}
	var room [4]hit
	next := room[:len(r.find)]
	for i, find := range r.find {
		next[i] = find(text, 0)
	}
	for found := len(all); ; { // take the first of what the presets find, again and again
		first := -1
		for i := range next {
			if next[i].from >= 0 && (first < 0 || next[i].from < next[first].from) {
				first = i
			}
		}
		if first < 0 {
			return all
		}
		one := next[first]
		if last := len(all) - 1; last >= found && one.from < all[last].to {
			all[last].to = max(all[last].to, one.to)
		} else {
			all = append(all, one.segment)
		}
		next[first] = r.find[first](text, one.next)
	}
}

// mayAct is a fast test: false means that the rule cannot act on rec, a record without \u
// escapes. escapes says that the record has other escapes.
func (r *redaction) mayAct(rec []byte, escapes bool) bool {
	switch {
	case r.member != "":
		return r.mayLead(rec)
	case r.column != 0:
		return true
	case r.re != nil:
		return r.filter.text == nil || escapes && r.escapable || bytes.Contains(rec, r.filter.text)
	}
	return slices.ContainsFunc(r.names, func(name string) bool { return hasHint(name, rec) })
}

// digester makes keyed hashes. It is for one goroutine.
type digester struct {
	mac hash.Hash
	sum [sha256.Size]byte
	hex [2 * sha256.Size]byte
}

func newDigester(key []byte) digester { return digester{mac: hmac.New(sha256.New, key)} }

// of returns the keyed hash of text in hex, valid until the next call.
func (d *digester) of(text []byte) []byte {
	d.mac.Reset()
	d.mac.Write(text)
	hex.Encode(d.hex[:], d.mac.Sum(d.sum[:0]))
	return d.hex[:]
}
