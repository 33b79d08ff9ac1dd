package format

import (
	"errors"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
)

// Regex: each named group of the first pattern that matches is a member, in the
// order of the pattern; a group that took no part in the match has none. Of several
// groups of one name that took part, the later ones are told by a number: a, a_2. A value
// is a string, or what its type says: then "-" and the empty string are no value,
// and one that the type does not hold means that the line is not as it should be.

// Pattern is a list of regular expressions with named groups. It is safe for
// concurrent use.
type Pattern struct {
	all []expression
}

type expression struct {
	re     *regexp.Regexp
	groups []group
}

type group struct {
	index int // of the submatch
	name  string
	key   string // the name as it is written, up to the value of a string
	typ   valueType
	time  *Layout // the group is a time; nil: it is none

	again *namesakes // of a name that several groups of the expression have; nil: it is the only one
}

// namesakes are the groups of an expression that have one name.
type namesakes struct {
	names []string // of their members in turn, such as a, a_2, a_3
	keys  []string // the same as group.key
	most  int      // how many of them can take part in one match
}

// valueType is what a value is in JSON.
type valueType uint8

const (
	asString valueType = iota
	asLong
	asReal
	asBool
)

var valueTypes = []string{"string", "long", "real", "bool"}

// PatternError says which of several expressions is wrong, or which of the types or
// of the times.
type PatternError struct {
	Index int    // of the expression; -1: it is another setting
	Group string // the name that Types or the time has, where that is wrong
	Time  bool   // Group is that of the time
	Err   error  // a *syntax.Error where it is the syntax
}

func (e *PatternError) Error() string { return e.Err.Error() }

func (e *PatternError) Unwrap() error { return e.Err }

// NewPattern compiles regular expressions in RE2 syntax, which are tried in order. types has the
// types of groups (string, long, real, bool) by the name of the group. timeGroup is the group
// that is a time of the given layout, empty for none. The error joins all mistakes, each a
// *PatternError; of groups that no expression has nothing is said where an expression is wrong.
func NewPattern(expressions []string, types map[string]string, timeGroup string, layout *Layout) (*Pattern, error) {
	p := &Pattern{}
	var bad []error
	named := make(map[string]bool)
	for i, text := range expressions {
		re, err := regexp.Compile(text)
		if err != nil {
			bad = append(bad, &PatternError{Index: i, Err: err})
			continue
		}
		x := expression{re: re}
		for n, name := range re.SubexpNames() {
			if name == "" {
				continue
			}
			g := group{index: n, name: name, key: `"` + name + `":"`}
			g.typ = valueType(max(0, slices.Index(valueTypes, types[name])))
			if name == timeGroup {
				g.time = layout
			}
			x.groups, named[name] = append(x.groups, g), true
		}
		x.number(text)
		if len(x.groups) == 0 {
			bad = append(bad, &PatternError{Index: i, Err: errors.New("no group has a name; want at least one, such as (?P<message>.*)")})
		}
		p.all = append(p.all, x)
	}
	unknown := func(name string) bool { return !named[name] && len(bad) == 0 }
	var settings []error
	for _, name := range slices.Sorted(maps.Keys(types)) {
		why := ""
		switch typ := types[name]; {
		case unknown(name):
			why = "no group of pattern has this name"
		case !slices.Contains(valueTypes, typ):
			why = strconv.Quote(typ) + " is not a type; want string, long, real or bool"
		case name == timeGroup:
			why = "it is the time, which is a string in RFC 3339; leave it out"
		default:
			continue
		}
		settings = append(settings, &PatternError{Index: -1, Group: name, Err: errors.New(why)})
	}
	if timeGroup != "" && unknown(timeGroup) {
		settings = append(settings, &PatternError{Index: -1, Group: timeGroup, Time: true, Err: errors.New("no group of pattern has this name")})
	}
	if err := errors.Join(append(bad, settings...)...); err != nil {
		return nil, err
	}
	return p, nil
}

// number gives the groups of a name that comes more than once in the expression, whose text this
// is, the names of their members: those with a number that no other group has.
func (x *expression) number(text string) {
	byName := make(map[string]*namesakes)
	for _, g := range x.groups {
		same := byName[g.name]
		if same == nil {
			byName[g.name] = &namesakes{names: []string{g.name}}
			continue
		}
		same.names = append(same.names, "")
	}
	if len(byName) == len(x.groups) {
		return
	}
	var most map[string]int
	if tree, err := syntax.Parse(text, syntax.Perl); err == nil { // it has been compiled before
		most = together(tree, false)
	}
	for name, same := range byName {
		n := 2
		for i := range same.names {
			for free := i == 0; !free; n++ {
				same.names[i] = name + "_" + strconv.Itoa(n)
				free = byName[same.names[i]] == nil
			}
			same.keys = append(same.keys, `"`+same.names[i]+`":"`)
		}
		same.most = min(most[name], len(same.names))
	}
	for i := range x.groups {
		if same := byName[x.groups[i].name]; len(same.names) > 1 {
			x.groups[i].again = same
		}
	}
}

// together returns how many groups of each name can take part in one match at most: of the branches
// of an alternative only one does, unless it is repeated.
func together(tree *syntax.Regexp, repeated bool) map[string]int {
	repeated = repeated || tree.Op == syntax.OpStar || tree.Op == syntax.OpPlus || tree.Op == syntax.OpRepeat
	n := make(map[string]int)
	for _, sub := range tree.Sub {
		for name, of := range together(sub, repeated) {
			if tree.Op == syntax.OpAlternate && !repeated {
				n[name] = max(n[name], of)
			} else {
				n[name] += of
			}
		}
	}
	if tree.Op == syntax.OpCapture && tree.Name != "" {
		n[tree.Name]++
	}
	return n
}

// appendMatch appends to dst the JSON object of text, from the first pattern that matches. lossy
// says that invalid UTF-8 was replaced. If no pattern matches, or a value is not of its type, it
// returns a fault and dst as it was.
func (s *Scanner) appendMatch(dst, text []byte) (_ []byte, lossy bool, f fault) {
	p := s.opt.Pattern
	for i := range p.all {
		x := &p.all[i]
		if at := x.re.FindSubmatchIndex(text); at != nil {
			return s.appendGroups(dst, text, x.groups, at)
		}
	}
	return dst, false, malformed(nowhere, "it does not match the pattern")
}

// appendGroups appends to dst the JSON object of a match of text: a member for each group that
// took part. at has the start and end of each submatch, as of FindSubmatchIndex. An empty value
// or "-" of a group with a type is left out. If a value is not of its type, it returns a fault
// and dst as it was.
func (s *Scanner) appendGroups(dst, text []byte, groups []group, at []int) (_ []byte, lossy bool, f fault) {
	o := object{dst: append(dst, '{')}
	for i := range groups {
		g, key := &groups[i], groups[i].key
		from, to := at[2*g.index], at[2*g.index+1]
		if from < 0 {
			continue
		}
		value := text[from:to]
		if g.again != nil {
			key = g.again.keys[written(groups[:i], g, text, at)]
		}
		switch {
		case g.lacks(value):
		case g.time != nil:
			ok := false
			o.begin(key)
			if o.dst, ok = g.time.Append(o.dst, value, s.stamp.Dated); !ok {
				return dst, false, malformed(from, "the time "+g.name+" is not of its layout")
			}
			o.dst = append(o.dst, '"')
		case g.typ == asString:
			o.text(key, value)
		case !o.typed(g, key, value):
			return dst, false, malformed(from, "the value of "+g.name+" is no "+valueTypes[g.typ])
		}
	}
	o.dst = append(o.dst, '}')
	return o.dst, o.lossy, fault{}
}

// lacks reports whether value stands for none in the group: one of a type that is empty or "-".
func (g *group) lacks(value []byte) bool {
	return (g.time != nil || g.typ != asString) && (len(value) == 0 || string(value) == "-")
}

// written returns how many of the groups, which stand before g in the pattern, have the name of g
// and a member in the object of a match of text.
func written(groups []group, g *group, text []byte, at []int) (n int) {
	for i := range groups {
		if o := &groups[i]; o.again == g.again && at[2*o.index] >= 0 && !o.lacks(text[at[2*o.index]:at[2*o.index+1]]) {
			n++
		}
	}
	return n
}

// typed writes value as the member of the group g, in its type: a long, a real or a bool. key is
// the name of the member as group.key has it. It returns false, perhaps after writing a part, if value is not of that type.
func (o *object) typed(g *group, key string, value []byte) bool {
	o.begin(key[:len(key)-1])
	if g.typ == asBool {
		switch string(value) {
		case "true", "True", "TRUE", "1":
			o.dst = append(o.dst, "true"...)
		case "false", "False", "FALSE", "0":
			o.dst = append(o.dst, "false"...)
		default:
			return false
		}
		return true
	}
	sign := 0
	if value[0] == '-' || value[0] == '+' {
		sign = 1
	}
	digits := digitsOf(value[sign:])
	whole, rest := value[sign:sign+digits], value[sign+digits:]
	if digits == 0 || g.typ == asLong && (len(rest) > 0 || digits > mostDigits) {
		return false
	}
	for len(whole) > 1 && whole[0] == '0' { // which JSON does not have
		whole = whole[1:]
	}
	if value[0] == '-' {
		o.dst = append(o.dst, '-')
	}
	o.dst = append(o.dst, whole...)
	if len(rest) > 0 && rest[0] == '.' {
		n := digitsOf(rest[1:])
		if n == 0 {
			return false
		}
		o.dst, rest = append(o.dst, rest[:1+n]...), rest[1+n:]
	}
	if len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		n := 1
		if n < len(rest) && (rest[n] == '+' || rest[n] == '-') {
			n++
		}
		exponent := digitsOf(rest[n:])
		if exponent == 0 || exponent > 2 || digits > 200 { // more may not fit into a real
			return false
		}
		o.dst, rest = append(o.dst, rest[:n+exponent]...), rest[n+exponent:]
	}
	return len(rest) == 0 && len(value) <= 300
}

// digitsOf returns how many digits text begins with.
func digitsOf(text []byte) int {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

// columns returns the members that a match can have with their types, in the order of the patterns.
// A name that several patterns have counts once, and one of several groups of a pattern as often as
// they can take part in one match.
func (p *Pattern) columns() (all []Column) {
	add := func(c Column) {
		if !slices.ContainsFunc(all, func(o Column) bool { return o.Name == c.Name }) {
			all = append(all, c)
		}
	}
	for _, x := range p.all {
		for i, g := range x.groups {
			typ := valueTypes[g.typ]
			if g.time != nil {
				typ = "datetime"
			}
			name := g.name
			if g.again != nil {
				before := 0
				for _, o := range x.groups[:i] {
					if o.again == g.again {
						before++
					}
				}
				if before >= g.again.most {
					continue
				}
				name = g.again.names[before]
			}
			add(Column{name, typ})
		}
	}
	return all
}
