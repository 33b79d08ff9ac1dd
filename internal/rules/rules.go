// Package rules decides which records are sent, and what of them: the same record meets
// the same fate whatever was read before it, each record that is left out is told by the
// one reason it is left out for, and of a record that is sent no byte changes that no
// rule is about.
package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// Kind is what rules can see of a record.
type Kind uint8

// The kinds of records.
const (
	Line    Kind = iota // text
	Object              // a JSON object
	Row                 // fields between delimiters
	Parsed              // text, and the JSON object that was made of it
	Message             // a JSON object that was made of one line or of several
)

// Condition is what a record is asked for. It is about the record as it is in the
// file, or about a member, or about a column; all that it says must hold of the
// same value.
type Condition struct {
	Match  string   `yaml:"match,omitempty"`  // regular expression, in RE2 syntax
	Member string   `yaml:"member,omitempty"` // path of names with dots between them
	Column string   `yaml:"column,omitempty"` // number, from 1, or name in the header
	In     []string `yaml:"in,omitempty"`     // values, as they are written
	Below  string   `yaml:"below,omitempty"`  // number
	Above  string   `yaml:"above,omitempty"`  // number
}

// Rule is a condition with a name.
type Rule struct {
	Name      string `yaml:"name,omitempty"` // empty: drop_1 for the first of the list, and so on
	Condition `yaml:",inline"`
}

// Sample is how much of the records is sent. It goes by keys: records that have the
// same meet the same fate, wherever they are read, and a key that is sent at one rate
// is sent at every higher one.
type Sample struct {
	Rate string `yaml:"rate"` // of the keys that are sent, above 0 and below 1
	By   string `yaml:"by"`   // path of the member, or number or name of the column, that is the key; empty, or where a record has none: the record
}

// Config says which records are sent, and what of them.
type Config struct {
	Keep   []Condition // a record is left out where none of these holds; nil: none is
	Drop   []Rule      // a record is left out where one of these holds
	Sample *Sample     // nil: all others are sent

	Redact []Redaction       // in this order, each of what those before it left
	Rename map[string]string // paths of members, and their new names
	Remove []string          // paths of members
	Add    map[string]string // paths of members, and the texts that they get

	HashKey []byte `json:"-"` // of what Redact hashes
	Header  bool   `json:"-"` // files of a Row begin with a header, so that columns have names
}

// Empty reports whether every record is sent as it is.
func (c *Config) Empty() bool {
	return len(c.Keep) == 0 && len(c.Drop) == 0 && c.Sample == nil && len(c.Redact)+len(c.Rename)+len(c.Remove)+len(c.Add) == 0
}

// Hashes reports whether a key is needed.
func (c *Config) Hashes() bool {
	return slices.ContainsFunc(c.Redact, func(r Redaction) bool { return r.With == Hash })
}

// Key returns a text that is equal for equal rules only. It does not contain HashKey.
func (c *Config) Key() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic("rules: " + err.Error()) // there is nothing in them but texts and numbers
	}
	return string(text)
}

// Reasons that are no names of rules.
const (
	NotKept    = "keep"   // no condition of Keep holds
	NotSampled = "sample" // its key is not sent
)

// Error says which key of which rule is wrong.
type Error struct {
	List  string // keep, drop, sample, redact, rename, remove or add
	Index int    // in the list; whole: it is none, or all of it
	Key   string // of the rule; empty: the rule as a whole
	Value string // of Key, where it is one text
	Err   error  // a *syntax.Error where it is the syntax of Match
}

func (e *Error) Error() string {
	at := e.Path()
	return at + ": " + e.Err.Error()
}

// Path returns the path of the wrong key in the configuration of the input, such as
// drop[2].match.
func (e *Error) Path() string {
	at := e.List
	if e.Index != whole {
		at += fmt.Sprintf("[%d]", e.Index)
	}
	if e.Key != "" {
		at += "." + e.Key
	}
	return at
}

func (e *Error) Unwrap() error { return e.Err }

// whole is the index where a mistake is of no item of a list.
const whole = -1

// Set is rules ready to be asked. It is safe for concurrent use.
type Set struct {
	keep    []condition
	drop    []condition
	sample  *sample // nil: all that is left is sent
	reasons []string

	redact  []redaction
	shape   *shape // nil: members stay as they are
	key     []byte // nil: nothing is hashed
	changes []string

	names []string // of columns, which -1, -2 and so on stand for in the place of a number

	needles []needle   // of conditions
	hidden  characters // of needles that may be written in another way
	guarded bool       // no condition holds of a record that has none of needles
	calm    int        // what Judge.Of returns then
}

// sample is a Sample ready to be asked.
type sample struct {
	key   condition // whose value is the key, of whatever holds
	most  uint64    // a key is sent if its hash is no more
	whole bool      // the record is the key
}

// New compiles rules for records of a kind; c has at least one rule. words are names that have
// another meaning already, so that no rule may have them. The error joins all mistakes, each an
// *Error.
func New(c Config, kind Kind, words ...string) (*Set, error) {
	s := &Set{}
	var bad []error
	for i := range c.Keep {
		x, errs := s.compile(&c.Keep[i], kind, c.Header, "keep", i)
		s.keep, bad = append(s.keep, x), append(bad, errs...)
	}
	if len(c.Keep) > 0 {
		s.reasons = append(s.reasons, NotKept)
	}
	taken := append(slices.Clone(words), NotKept, NotSampled)
	for i := range c.Drop {
		x, errs := s.compile(&c.Drop[i].Condition, kind, c.Header, "drop", i)
		name, err := newName("drop", i, c.Drop[i].Name, &taken)
		s.reasons = append(s.reasons, name)
		s.drop, bad = append(s.drop, x), append(append(bad, errs...), err...)
	}
	if c.Sample != nil {
		var errs []error
		s.sample, errs = s.newSample(c.Sample, kind, c.Header)
		s.reasons, bad = append(s.reasons, NotSampled), append(bad, errs...)
	}
	bad = append(bad, s.addChanges(&c, kind)...)
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	s.addNeedles()
	return s, nil
}

// addNeedles collects the texts (needles) that a record must contain for a condition to hold, so
// that records can be searched for all of them at once. s.guarded says that each condition has
// such a text and nothing is sampled; s.calm is what Judge.Of then returns for a record that has
// none of the texts.
func (s *Set) addNeedles() {
	s.guarded = s.sample == nil
	if s.calm = -1; len(s.keep) > 0 {
		s.calm = 0
	}
	for _, list := range [][]condition{s.keep, s.drop} {
		for i := range list {
			c := &list[i]
			// The name of the member is rarer than its values: search for the name.
			if c.name != nil && c.name.rarest() >= often && c.asks.rarest() < often {
				c.needles = []int{len(s.needles)}
				s.needles = append(s.needles, *c.name)
				s.needles[c.needles[0]].named = true
				s.hidden.add(c.name.text)
				continue
			}
			for _, text := range c.asks.of {
				n := newNeedle(text, c.asks)
				at := slices.IndexFunc(s.needles, func(o needle) bool { return !o.named && o.fold == n.fold && o.all == n.all && string(o.text) == text })
				if at < 0 {
					at = len(s.needles)
					s.needles = append(s.needles, n)
				}
				c.needles = append(c.needles, at)
				if c.member != "" {
					s.hidden.add(n.text)
					s.hidden.add(n.upper())
				}
			}
			if c.name != nil {
				s.hidden.add(c.name.text)
			}
			s.guarded = s.guarded && len(c.needles) > 0
		}
	}
}

// addChanges compiles the rules that change records (redact, rename, remove, add) and collects
// the names under which their changes are counted. bad has all mistakes.
func (s *Set) addChanges(c *Config, kind Kind) (bad []error) {
	taken := []string{Renamed, Removed, Added}
	for i := range c.Redact {
		x, errs := s.newRedaction(&c.Redact[i], kind, c.Header, i)
		name, err := newName("redact", i, c.Redact[i].Name, &taken)
		s.changes = append(s.changes, name)
		s.redact, bad = append(s.redact, x), append(append(bad, errs...), err...)
	}
	if c.Hashes() {
		s.key = c.HashKey
		if len(s.key) < LeastKey {
			bad = append(bad, fmt.Errorf("redact: with: hash needs a key of at least %d bytes", LeastKey))
		}
	}
	shape, errs := newShape(c, kind)
	if s.shape = shape; shape != nil {
		s.changes = shape.changes(s.changes)
	}
	return append(bad, errs...)
}

// newSample compiles the rule that keeps only a part of the records. header says that files have
// a line with the names of columns. bad has all mistakes of the rule, each an *Error.
func (set *Set) newSample(c *Sample, kind Kind, header bool) (s *sample, bad []error) {
	s = &sample{whole: c.By == ""}
	rate, ok := number([]byte(c.Rate))
	if !ok || rate <= 0 || rate >= 1 {
		why := "not a rate"
		if c.Rate == "" {
			why = "missing"
		}
		bad = append(bad, &Error{List: "sample", Index: whole, Key: "rate", Value: c.Rate, Err: errors.New(why + "; want a number above 0 and below 1, such as 0.1 for a tenth")})
	} else {
		s.most = uint64(rate*(1<<63)) << 1 // keys are sent up to this hash
	}
	by := func(text string) {
		bad = append(bad, &Error{List: "sample", Index: whole, Key: "by", Value: c.By, Err: errors.New(text)})
	}
	switch {
	case s.whole:
	case kind == Line:
		by("records of this format have no members; leave it out: the record is the key then")
	case kind == Row:
		var err error
		if s.key.column, err = set.column(c.By, header); err != nil {
			by(err.Error())
		}
	case !utf8.ValidString(c.By):
		by("not UTF-8")
	default:
		s.key.member = c.By
	}
	return s, bad
}

// Reasons are the reasons that Judge.Of tells by their index.
func (s *Set) Reasons() []string { return s.reasons }

// KeyID returns a text that identifies the key for hashes without revealing it: another key has another
// KeyID.
func (s *Set) KeyID() string {
	d := newDigester(s.key)
	return string(d.of([]byte("key of redact")))
}

// Changes are the names of the rules that Editor.Acted tells of, by their index: those
// of redact, then Renamed, Removed and Added where there are such. Empty: records are
// sent as they are.
func (s *Set) Changes() []string { return s.changes }

// Changing reports whether records are changed. It may be asked of none.
func (s *Set) Changing() bool { return s != nil && len(s.changes) > 0 }

// Withholds reports whether what the file holds must not get out as it is: something of
// a record is redacted or removed. It may be asked of none.
func (s *Set) Withholds() bool {
	return s != nil && (len(s.redact) > 0 || s.shape.has(Removed))
}

// Members reports whether only members of a record tell what of it must not get out, so
// that nothing may of one that could not be taken apart. It may be asked of none.
func (s *Set) Members() bool { return s != nil && s.aboutMembers() >= 0 }

// aboutMembers returns the index in Changes of the first rule that hides or removes
// members; -1: there is none.
func (s *Set) aboutMembers() int {
	// Names of redact rules come first in Changes, in their order.
	i := slices.IndexFunc(s.redact, func(r redaction) bool { return r.member != "" })
	if i < 0 && s.shape.has(Removed) {
		i = s.shape.removes
	}
	return i
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// NameOf returns the name of the rule at index i of a list: the given one, or if it is empty that
// of its place, such as drop_1 for index 0.
func NameOf(list string, i int, given string) string {
	return cmp.Or(given, fmt.Sprintf("%s_%d", list, i+1))
}

// newName returns the name of a rule, as NameOf, and adds it to taken. bad is the *Error of a name
// that has the wrong form or was taken before.
func newName(list string, i int, given string, taken *[]string) (name string, bad []error) {
	name = NameOf(list, i, given)
	switch {
	case !nameForm.MatchString(name):
		bad = append(bad, &Error{list, i, "name", name, errors.New("not a name of a rule; want up to 40 small letters, digits and _, such as health_checks")})
	case slices.Contains(*taken, name):
		bad = append(bad, &Error{list, i, "name", name, fmt.Errorf("%q is counted for something else already; want another name", name)})
	}
	*taken = append(*taken, name)
	return name, bad
}

// condition is a Condition ready to be asked.
type condition struct {
	member  string  // empty: it is not about a member
	name    *needle // which every name that the path ends in ends with; nil: it may be written in another way
	asks    texts   // of which a record has one where it holds; none: nobody knows
	needles []int   // of asks, in Set.needles
	column  int     // 0: it is not about a column; see Set.names
	match   *matcher
	in      []string
	below   *float64
	above   *float64
}

// column returns the number of the column that text names: from 1, or a negative number that
// stands for a name. header says that files have a line with the names of columns; else only
// numbers are allowed.
func (s *Set) column(text string, header bool) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err == nil && n > 0:
		return n, nil
	case err == nil:
		return 0, fmt.Errorf("%d is not a column; the first is 1", n)
	case !header:
		return 0, errors.New("not the number of a column; the first is 1, and for a name want header: skip, so that the files tell it")
	case !utf8.ValidString(text):
		return 0, errors.New("not UTF-8")
	}
	i := slices.Index(s.names, text)
	if i < 0 {
		i = len(s.names)
		s.names = append(s.names, text)
	}
	return -1 - i, nil
}

// Named reports whether columns are known by names, so that the header is needed. It may
// be asked of none.
func (s *Set) Named() bool { return s != nil && len(s.names) > 0 }

// compile compiles condition i of a list of rules (keep or drop) for records of a kind. header
// says that files have a line with the names of columns. bad has all mistakes of the condition,
// each an *Error.
func (s *Set) compile(c *Condition, kind Kind, header bool, list string, i int) (x condition, bad []error) {
	wrong := func(key, value, format string, args ...any) {
		bad = append(bad, &Error{list, i, key, value, fmt.Errorf(format, args...)})
	}
	x = condition{member: c.Member, in: c.In}
	if c.Match != "" {
		m, err := newMatcher(c.Match)
		if err != nil {
			bad = append(bad, &Error{list, i, "match", c.Match, err})
		}
		x.match = m
	}
	for _, b := range []struct {
		key, text string
		to        **float64
	}{{"below", c.Below, &x.below}, {"above", c.Above, &x.above}} {
		if b.text == "" {
			continue
		}
		v, ok := number([]byte(b.text))
		if !ok {
			wrong(b.key, b.text, "not a number; want one such as 400")
		}
		*b.to = &v
	}
	asks := c.Match != "" || len(c.In) > 0 || c.Below != "" || c.Above != ""
	switch about := c.Member != "" || c.Column != ""; {
	case c.Member != "" && c.Column != "":
		wrong("column", "", "it is about a member already; leave one of the two out")
	case c.Member != "" && (kind == Line || kind == Row):
		wrong("member", c.Member, "records of this format have no members; want match%s", map[Kind]string{Row: ", or column with the number of a column"}[kind])
	case c.Column != "" && kind != Row:
		wrong("column", "", "records of this format have no columns; want match%s", map[bool]string{true: ", or member with the name of a member"}[kind != Line])
	case !about && kind == Message && c.Match != "":
		wrong("match", c.Match, "a record may be several lines here; want the member it is about, such as {member: message, match: '^DEBUG'}")
	case !about && (len(c.In) > 0 || c.Below != "" || c.Above != ""):
		wrong("", "", "in, below and above are about a value; want member%s too", map[bool]string{true: " or column"}[kind == Row])
	case !asks:
		wrong("", "", "nothing is asked; want match, in, below or above, such as {match: '^DEBUG'} or {member: level, in: [debug]}")
	}
	if kind == Row && c.Column != "" {
		var err error
		if x.column, err = s.column(c.Column, header); err != nil {
			wrong("column", c.Column, "%v", err)
		}
	}
	if !utf8.ValidString(c.Member) {
		wrong("member", c.Member, "not UTF-8")
	}
	if last := lastName(c.Member); last != "" {
		name := newNeedle(last, texts{})
		x.name = &name
	}
	x.asks = x.asksFor(c)
	return x, bad
}

// asksFor returns texts of which a record has to contain one for the condition to hold; none if
// they are not known, or if a search for them does not pay.
func (x *condition) asksFor(c *Condition) texts {
	hidden := "" // characters that a value may have in escaped form
	switch {
	case x.member != "":
		hidden = `"'/\\`
	case x.column != 0:
		hidden = `"`
	}
	var t texts
	if x.match != nil {
		t = textsOf(c.Match)
	}
	if hidden != "" {
		in := texts{of: c.In}.within(hidden)
		in.all = in.all && x.member != ""
		t = t.within(hidden)
		t.all = false // what an expression asks for can be part of a value
		t = t.better(in)
	}
	switch {
	case x.member == "" && x.column == 0 && x.match != nil && x.match.begins: // faster than a search
		return texts{}
	case t.weight() == 0:
		return texts{}
	}
	return t
}

// columns are the columns of a header that have names.
type columns struct {
	by  [][]int // the numbers, by the index in Set.names; empty: the header is not known
	all int     // how many the header has; 0: it is not known
	one [1]int
}

// of returns the numbers, from 1, of the columns that a condition means: column is such a number,
// or a negative one that stands for a name. Several columns can have that name; none if the
// header is not known. The result is valid until the next call.
func (c *columns) of(column int) []int {
	switch {
	case column > 0:
		c.one[0] = column
		return c.one[:]
	case -column <= len(c.by):
		return c.by[-1-column]
	}
	return nil
}

// set reads the names of columns from header, a header line without its line end; nil: it is not
// known. sep is the delimiter.
func (c *columns) set(s *Set, header []byte, sep byte) {
	if c.by, c.all = c.by[:0], 0; header == nil {
		return
	}
	c.by = append(c.by, make([][]int, len(s.names))...)
	j := Judge{sep: sep}
	for n := 1; ; n++ {
		field, ok := j.field(header, n)
		if !ok {
			return
		}
		c.all = n
		if i := slices.Index(s.names, string(bytes.TrimSpace(field))); i >= 0 {
			c.by[i] = append(c.by[i], n)
		}
	}
}

// SetHeader says which columns the rows from here on have: the header without its line
// end; nil: it is not known, so that no condition on a name holds.
func (j *Judge) SetHeader(header []byte) { j.columns.set(j.set, header, j.sep) }

// Judge asks the rules about one record after another. It keeps scratch memory, so
// that only one goroutine may use it at a time.
type Judge struct {
	set     *Set
	kind    Kind
	sep     byte
	scratch []byte // the text of a value
	name    []byte // the text of a name
	value   []byte // of which the last condition held
	columns columns

	look       lookout
	looks      bool // the record at hand is in its block, at
	start, end int
}

// NewJudge returns a judge of records of a kind; sep is between the fields of a Row.
func NewJudge(s *Set, kind Kind, sep byte) *Judge {
	j := &Judge{set: s, kind: kind, sep: sep}
	if j.look.ahead = farAhead; s != nil {
		j.look.marks = make([]mark, len(s.needles))
	}
	return j
}

// Of returns the index (in Set.Reasons) of the reason for which a record is filtered; -1: it is
// sent. text is the record without its line end; object is the JSON object that it is or that was
// made of it, empty if there is none. Neither is kept.
func (j *Judge) Of(text, object []byte) int {
	first := 0
	if s := j.set; len(s.keep) > 0 {
		if !j.any(s.keep, text, object) {
			return 0
		}
		first = 1
	}
	for i := range j.set.drop {
		if j.holds(&j.set.drop[i], text, object) {
			return first + i
		}
	}
	if s := j.set.sample; s != nil && xxhash.Sum64(j.key(s, text, object)) > s.most {
		return len(j.set.reasons) - 1
	}
	return -1
}

// key returns the bytes whose hash decides whether sampling keeps a record: the value of the
// configured member or column, or else the whole record.
func (j *Judge) key(s *sample, text, object []byte) []byte {
	switch {
	case s.whole:
	case s.key.member != "":
		if j.anyAt(&s.key, object) {
			return j.value
		}
	default:
		for _, column := range j.columns.of(s.key.column) {
			if field, ok := j.field(text, column); ok {
				return field
			}
		}
	}
	if j.kind == Message {
		return object
	}
	return text
}

// any reports whether at least one of the conditions holds for a record; text and object are as
// in Of.
func (j *Judge) any(all []condition, text, object []byte) bool {
	for i := range all {
		if j.holds(&all[i], text, object) {
			return true
		}
	}
	return false
}

// holds reports whether the condition c holds for a record; text and object are as in Of.
func (j *Judge) holds(c *condition, text, object []byte) bool {
	if j.looks && len(c.needles) > 0 && !j.near(c) { // it lacks every text that c requires
		return false
	}
	switch {
	case c.member != "":
		return j.mayHold(c, object) && j.anyAt(c, object)
	case c.column > 0:
		field, ok := j.field(text, c.column)
		return ok && c.of(field)
	case c.column < 0:
		for _, column := range j.columns.of(c.column) {
			if field, ok := j.field(text, column); ok && c.of(field) {
				return true
			}
		}
		return false
	}
	return c.match.matches(text)
}

// of reports whether the condition holds for a value: all of In, Below, Above and Match that are
// set.
func (c *condition) of(text []byte) bool {
	if len(c.in) > 0 && !slices.ContainsFunc(c.in, func(one string) bool { return one == string(text) }) {
		return false
	}
	if c.below != nil || c.above != nil {
		v, ok := number(text)
		if !ok || c.below != nil && v >= *c.below || c.above != nil && v <= *c.above {
			return false
		}
	}
	return c.match == nil || c.match.matches(text)
}

// number parses a number as in JSON; it may also begin with a plus or with zeros. It returns
// false if text is no number.
func number(text []byte) (float64, bool) {
	if len(text) == 0 || len(text) > 64 {
		return 0, false
	}
	whole := 0 // its value, as long as it has only digits; else -1
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9':
			if whole >= 0 {
				whole = 10*whole + int(c-'0')
			}
		case c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E':
			whole = -1
		default:
			return 0, false
		}
	}
	if whole >= 0 && len(text) <= 15 {
		return float64(whole), true
	}
	v, err := strconv.ParseFloat(string(text), 64)
	return v, err == nil
}

// field returns the text of a column (from 1) of a row, without quotes; ok is false if the row
// has no such column.
func (j *Judge) field(row []byte, column int) (text []byte, ok bool) {
	for i := 0; ; column-- { // a field begins at i
		end, quoted := fieldEnd(row, i, j.sep)
		switch {
		case column == 1:
			return bare(row[i:end], quoted), true
		case end == len(row):
			return nil, false
		}
		i = end + 1
	}
}

// fieldEnd returns the index of the delimiter sep after the field that begins at i, or len(row);
// quoted says that the field is in quotes.
func fieldEnd(row []byte, i int, sep byte) (end int, quoted bool) {
	if quoted = i < len(row) && row[i] == '"'; quoted {
		i = behindQuoted(row, i)
	}
	if n := bytes.IndexByte(row[i:], sep); n >= 0 {
		return i + n, quoted
	}
	return len(row), quoted
}

// behindQuoted returns the index after the quoted field that begins at i; len(row): it is not
// closed.
func behindQuoted(row []byte, i int) int {
	for i++; i < len(row); i++ {
		if row[i] != '"' {
			continue
		}
		if i+1 == len(row) || row[i+1] != '"' {
			return i + 1
		}
		i++
	}
	return len(row)
}

// bare returns the text of a field without its quotes; two quotes within stand for one.
func bare(field []byte, quoted bool) []byte {
	if !quoted {
		return field
	}
	field = bytes.TrimSuffix(field[1:], []byte{'"'})
	if bytes.IndexByte(field, '"') < 0 {
		return field
	}
	return bytes.ReplaceAll(field, []byte(`""`), []byte{'"'})
}
