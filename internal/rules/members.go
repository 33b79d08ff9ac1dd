package rules

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"kusto-agent/internal/jsontext"
)

// What the changes of members are counted by.
const (
	Renamed = "rename"
	Removed = "remove"
	Added   = "add"
)

// shape is what becomes of members: all of it at once, by the names that they have in
// the record. Of everything else not a byte changes.
type shape struct {
	ops []op

	renames, removes, adds int // indexes of Set.Changes
}

// op is one change of the members that a path leads to.
type op struct {
	path
	kind  string
	value string // the new name, or the text that is added

	quoted []byte // the new name as JSON has it
}

// newShape compiles the rules Rename, Remove and Add for records of a kind; nil: there are none.
// bad has all mistakes in them, each an *Error.
func newShape(c *Config, kind Kind) (s *shape, bad []error) {
	s = &shape{}
	wrong := func(list string, index int, key, value, text string) {
		bad = append(bad, &Error{list, index, key, value, errors.New(text)})
	}
	const noMembers = "records of this format have no members; leave it out"
	check := func(list string, index int, key, member string) {
		switch {
		case !isPath(member):
			wrong(list, index, key, member, noPath)
		case !utf8.ValidString(member):
			wrong(list, index, key, member, "not UTF-8")
		}
	}
	if len(c.Rename)+len(c.Remove)+len(c.Add) == 0 {
		return nil, nil
	}
	if kind == Line || kind == Row {
		for list, n := range map[string]int{"rename": len(c.Rename), "remove": len(c.Remove), "add": len(c.Add)} {
			if n > 0 {
				wrong(list, whole, "", "", noMembers)
			}
		}
		return nil, bad
	}
	for i, member := range c.Remove {
		check("remove", i, "", member)
		if slices.Contains(c.Remove[:i], member) {
			wrong("remove", i, "", member, "it is there already")
		}
		s.ops = append(s.ops, op{path: newPath(member).withheld(kind), kind: Removed})
	}
	for _, member := range slices.Sorted(maps.Keys(c.Rename)) {
		check("rename", whole, member, member)
		to := c.Rename[member]
		switch {
		case to == "":
			wrong("rename", whole, member, to, "missing; want the new name of the member")
		case !utf8.ValidString(to):
			wrong("rename", whole, member, to, "not UTF-8")
		case slices.Contains(c.Remove, member):
			wrong("rename", whole, member, to, "it is removed too; want one of the two")
		}
		s.ops = append(s.ops, op{path: newPath(member), kind: Renamed, value: to, quoted: appendQuoted(nil, to)})
	}
	added := slices.Sorted(maps.Keys(c.Add))
	for _, member := range added {
		check("add", whole, member, member)
		for _, other := range added {
			if strings.HasPrefix(member, other+".") {
				wrong("add", whole, member, c.Add[member], "it is within "+other+", which is a text; want one of the two")
			}
		}
		if !utf8.ValidString(c.Add[member]) {
			wrong("add", whole, member, c.Add[member], "not UTF-8")
		}
		s.ops = append(s.ops, op{path: newPath(member), kind: Added, value: c.Add[member]})
	}
	return s, bad
}

// changes appends to all the names under which changes are counted (rename, remove, add), as far
// as there are such rules, and keeps their indexes.
func (s *shape) changes(all []string) []string {
	for _, one := range []struct {
		kind string
		at   *int
	}{{Renamed, &s.renames}, {Removed, &s.removes}, {Added, &s.adds}} {
		if s.has(one.kind) {
			*one.at = len(all)
			all = append(all, one.kind)
		}
	}
	return all
}

// has reports whether there is a change of this kind. It may be asked of none.
func (s *shape) has(kind string) bool {
	return s != nil && slices.ContainsFunc(s.ops, func(o op) bool { return o.kind == kind })
}

// member is one of an object: b[from:to] with its name, which ends at name, and its
// value, which begins at value.
type member struct {
	from, name, value, to int
	plain                 []byte
	gone                  bool
	renamed               *op // nil: it is not
}

// isNamed reports whether the member has this name after renaming.
func (m *member) isNamed(name string) bool {
	if m.renamed != nil {
		return m.renamed.value == name
	}
	return string(m.plain) == name
}

// reshape returns rec, a JSON object, with the rules rename, remove and add applied: rec itself
// if none acts, else memory that is valid until the next call. ok is false if rec cannot be
// parsed.
func (e *Editor) reshape(rec []byte) (out []byte, ok bool) {
	s := e.set.shape
	may := bytes.IndexByte(rec, '\\') >= 0 // a name may be written with escapes
	for i := range s.ops {
		may = may || s.ops[i].kind == Added || s.ops[i].mayLead(rec)
	}
	if !may {
		return rec, true
	}
	i := jsontext.SkipSpace(rec, 0)
	if i == len(rec) || rec[i] != '{' {
		return nil, false
	}
	// What was redacted is in e.out, so that this needs memory of its own.
	was := e.out
	e.out, e.copied = e.shaped[:0], 0
	e.places = append(e.places[:0], make([]int, len(s.ops))...)
	i = e.reshapeObject(rec, i, 0, 0)
	if ok = i >= 0 && jsontext.SkipSpace(rec, i) == len(rec); ok && e.copied > 0 {
		e.out = append(e.out, rec[e.copied:]...)
		rec = e.out
	}
	e.shaped, e.out = e.out, was
	return rec, ok
}

// reshapeValue changes the objects in the value at i, and returns the index after it; -1: the
// value is not valid. e.places[level:] says how far the value is on the path of each rule, depth
// how deeply it is nested.
func (e *Editor) reshapeValue(b []byte, i, level, depth int) int {
	switch {
	case depth > mostDepth:
		return -1
	case b[i] == '{':
		return e.reshapeObject(b, i, level, depth)
	case b[i] != '[':
		return jsontext.ValueEnd(b, i)
	}
	for i++; ; {
		if i = jsontext.SkipSpace(b, i); i == len(b) {
			return -1
		}
		switch b[i] {
		case ']':
			return i + 1
		case ',':
			i++
			continue
		}
		if i = e.reshapeValue(b, i, level, depth+1); i < 0 {
			return -1
		}
	}
}

// reshapeObject changes the members of the object at i, and returns the index after it; -1: the
// object is not valid. e.places[level:] says how far the object is on the path of each rule,
// depth how deeply it is nested.
func (e *Editor) reshapeObject(b []byte, i, level, depth int) int {
	first := len(e.members)
	defer func() { e.members = e.members[:first] }()
	brace, end := i, e.listMembers(b, i+1)
	if end < 0 {
		return -1
	}
	count := len(e.members) - first
	e.decide(first, level)
	there, was := e.places[level:level+len(e.set.shape.ops)], len(e.elsewhere)
	e.elsewhere = append(e.elsewhere, there...) // restored for the next element of an array
	defer func() {
		copy(e.places[level:], e.elsewhere[was:])
		e.elsewhere = e.elsewhere[:was]
	}()
	e.endAdded(first, there)
	kept := brace + 1 // index after the last member that is kept, or after the brace
	any := false
	for k := range count {
		m := e.members[first+k]
		switch {
		case m.gone && any:
			e.replace(b, kept, m.to)
			kept = m.to
			e.acted[e.set.shape.removes] = true
			continue
		case m.gone:
			to := end - 1
			if k+1 < count {
				to = e.members[first+k+1].from
			}
			e.replace(b, m.from, to)
			e.acted[e.set.shape.removes] = true
			continue
		}
		any, kept = true, m.to
		if m.renamed != nil {
			e.replace(b, m.from, m.name, m.renamed.quoted...)
			e.acted[e.set.shape.renames] = true
		}
		if b[m.value] != '{' && b[m.value] != '[' {
			continue
		}
		if inner, alive := e.within(level, &m); alive && e.reshapeValue(b, m.value, inner, depth+1) < 0 {
			return -1
		}
		e.places = e.places[:level+len(e.set.shape.ops)]
	}
	e.addMembers(b, end-1, first, level, any)
	return end
}

// within appends to e.places, for each rule, how far the member m of an object is on the path of
// the rule; e.places[level:] says it of the object. inner is the index of the new places. alive
// says that the path of a rule continues in the member.
func (e *Editor) within(level int, m *member) (inner int, alive bool) {
	inner = len(e.places)
	for k := range e.set.shape.ops {
		o := &e.set.shape.ops[k]
		name := m.plain
		if o.kind == Added && m.renamed != nil {
			name = []byte(m.renamed.value)
		}
		at := o.on(e.places[level+k], name)
		if at == len(o.member) { // the rule is about the member itself
			at = dead
		}
		e.places = append(e.places, at)
		alive = alive || at != dead
	}
	return inner, alive
}

// listMembers adds the members of the object whose brace is before i to e.members. It returns the
// index after the object; -1: the object is not valid.
func (e *Editor) listMembers(b []byte, i int) int {
	for {
		if i = jsontext.SkipSpace(b, i); i == len(b) {
			return -1
		}
		switch b[i] {
		case '}':
			return i + 1
		case ',':
			i++
			continue
		case '"', '\'':
		default:
			return -1
		}
		m := member{from: i, name: jsontext.StringEnd(b, i)}
		if m.name-i < 2 || b[m.name-1] != b[i] {
			return -1
		}
		m.plain = plain(new([]byte), b[i+1:m.name-1]) // in memory of its own if it has an escape
		if i = jsontext.SkipSpace(b, m.name); i == len(b) || b[i] != ':' {
			return -1
		}
		if m.value = jsontext.SkipSpace(b, i+1); m.value == len(b) {
			return -1
		}
		m.to = jsontext.ValueEnd(b, m.value)
		e.members = append(e.members, m)
		if i = jsontext.SkipSpace(b, m.to); i == len(b) || b[i] != ',' && b[i] != '}' {
			return -1
		}
	}
}

// decide marks which of the members e.members[first:] are removed or renamed; e.places[level:]
// says how far their object is on the path of each rule. A rename is cancelled if another member
// has the new name, or gets it first. A member whose rename is cancelled keeps its old name,
// which may cancel another rename, so decide repeats until nothing changes.
func (e *Editor) decide(first, level int) {
	all := e.members[first:]
	wants := false
	for i := range all {
		m := &all[i]
		for k := range e.set.shape.ops {
			o := &e.set.shape.ops[k]
			if o.kind == Added || o.on(e.places[level+k], m.plain) != len(o.member) {
				continue
			}
			if o.kind == Removed {
				m.gone = true
			} else if o.value != string(m.plain) {
				m.renamed, wants = o, true
			}
		}
	}
	for again := wants; again; {
		again = false
		taken := e.taken(all)
		for i := range all {
			if m := &all[i]; !m.gone && m.renamed != nil && taken(i) {
				m.renamed, again = nil, true
			}
		}
	}
}

// fewMembers is how many of an object are compared one by one.
const fewMembers = 64

// taken returns a function that reports whether the new name of member i is already that of
// another member. Call it in the order of the members, and only for those that are renamed.
func (e *Editor) taken(all []member) func(i int) bool {
	if len(all) <= fewMembers {
		return func(i int) bool {
			name := all[i].renamed.value
			for k := range all {
				if o := &all[k]; !o.gone && (o.renamed == nil || k < i) && o.isNamed(name) {
					return true
				}
			}
			return false
		}
	}
	names := make(map[string]bool, len(all))
	for i := range all {
		if m := &all[i]; !m.gone && m.renamed == nil {
			names[string(m.plain)] = true
		}
	}
	return func(i int) bool {
		name := all[i].renamed.value
		was := names[name]
		names[name] = true
		return was
	}
}

// endAdded cancels the add rules whose member the object has already. The members of the object
// are e.members[first:]; places says how far the object is on the path of each rule, dead (-1):
// the rule does not act in it.
func (e *Editor) endAdded(first int, places []int) {
	for k := range e.set.shape.ops {
		o := &e.set.shape.ops[k]
		if o.kind == Added && slices.ContainsFunc(e.members[first:], func(m member) bool {
			return !m.gone && e.on(o, places[k], &m) == len(o.member)
		}) {
			places[k] = dead
		}
	}
}

// addMembers adds the members of the add rules that the object lacks. b[i] is the closing brace
// of the object, first the index in e.members of its first member, level the index in e.places of
// its place on the paths of the rules. more says that the object has other members.
func (e *Editor) addMembers(b []byte, i, first, level int, more bool) {
	s := e.set.shape
	add := e.add[:0] // rules that add here, each with the rest of its path
	for k := range s.ops {
		o := s.ops[k]
		at := e.places[level+k]
		if o.kind != Added || at == dead || at == len(o.member) {
			continue
		}
		// If the object has the next name of the path, the rule adds in that member, or not at all.
		if !slices.ContainsFunc(e.members[first:], func(m member) bool {
			return !m.gone && e.on(&o, at, &m) != dead
		}) {
			o.member = o.member[at:]
			add = append(add, o)
		}
	}
	if e.add = add; len(add) == 0 {
		return
	}
	e.replace(b, i, i)
	if more {
		e.out = append(e.out, ',')
	}
	e.out = appendAdded(e.out, add)
	e.acted[s.adds] = true
}

// appendAdded appends the members of the rules in add, whose paths are sorted. Those whose paths
// begin with the same name go into one object.
func appendAdded(dst []byte, add []op) []byte {
	for i := 0; i < len(add); {
		if i > 0 {
			dst = append(dst, ',')
		}
		name, rest, nested := strings.Cut(add[i].member, ".")
		dst = append(appendQuoted(dst, name), ':')
		if !nested {
			dst = append(appendEscaped(append(dst, '"'), []byte(add[i].value)), '"')
			i++
			continue
		}
		var inner []op
		for ; rest != ""; i++ {
			o := add[i]
			o.member = rest
			inner = append(inner, o)
			rest = ""
			if i+1 < len(add) {
				if next, on := strings.CutPrefix(add[i+1].member, name+"."); on {
					rest = next
				}
			}
		}
		dst = append(appendAdded(append(dst, '{'), inner), '}')
	}
	return dst
}

// on returns how far the path of the add rule o is matched after the member m, by the name that m
// has after renaming. at is the index before it; the result is as that of path.on.
func (e *Editor) on(o *op, at int, m *member) int {
	if m.renamed != nil {
		return o.path.on(at, []byte(m.renamed.value))
	}
	return o.path.on(at, m.plain)
}

// appendQuoted appends a name as JSON has it.
func appendQuoted(dst []byte, name string) []byte {
	return append(appendEscaped(append(dst, '"'), []byte(name)), '"')
}
