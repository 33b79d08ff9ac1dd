package rules

import (
	"bytes"
	"slices"
	"strings"
)

// path leads from an object to members, as walk.go says.
type path struct {
	member string // empty: it leads nowhere
	needle []byte // a part of every record that has the member, if its names are written without escapes

	// numbered says that a name with a number behind it stands for the name: parse makes
	// name_2 of one that comes again.
	numbered bool
	// flat says that a name that goes on behind the path, with a dot, is within the member.
	flat bool
}

const noPath = "not a path of a member; want names with dots between them, such as http.path"

// isPath reports whether a text is names with dots between them.
func isPath(text string) bool { return !slices.Contains(strings.Split(text, "."), "") }

// withheld returns the path as a redact rule uses it on records of this kind. To hide too much is
// better than too little, so the path also matches names that go on after a dot: token also hides the
// member "token.old". In parsed records it also matches names to which parse added a number because the
// name came twice, such as token_2.
func (p path) withheld(kind Kind) path {
	p.numbered, p.flat = kind == Parsed || kind == Message, true
	return p
}

// newPath returns the path of a member such as http.path. Its needle is the last name (path): a
// record without escapes that does not contain the needle cannot have the member, and is skipped.
// There is no needle if the name has a character that JSON writers escape: a control character,
// quote or slash.
func newPath(member string) path { return path{member: member, needle: []byte(lastName(member))} }

// lastName returns the last name of the path of a member; "" if it has a character that JSON
// writers escape.
func lastName(member string) string {
	last := member[strings.LastIndexByte(member, '.')+1:]
	if strings.ContainsFunc(last, func(r rune) bool { return r < ' ' || strings.ContainsRune(`"'/\`, r) }) {
		return ""
	}
	return last
}

// mayLead reports whether a record, whose names are written without escapes, may have
// the member.
func (p *path) mayLead(rec []byte) bool { return bytes.Contains(rec, p.needle) }

// dead is the place on a path from which there is no way on.
const dead = -1

// on returns the index in p.member up to which the path is matched after one more name; at is the
// index before it. The result len(p.member) means that the member is reached, dead (-1) that the
// name is not on the path. If p.numbered is set, name_2 counts as name.
func (p *path) on(at int, name []byte) int {
	if at == dead {
		return dead
	}
	for {
		if next := p.step(at, name); next != dead || !p.numbered {
			return next
		}
		short := bytes.TrimRight(name, "0123456789")
		if len(short) == len(name) || len(short) < 2 || short[len(short)-1] != '_' {
			return dead
		}
		name = short[:len(short)-1]
	}
}

// step matches one name, exactly as it is, with the path from the index at on. It returns the
// index after this name and its dot, len(p.member) if the member is reached, or dead (-1) if the
// name is not the next one on the path. If p.flat is set, a name that goes on after the path with
// a dot counts too.
func (p *path) step(at int, name []byte) int {
	rest := p.member[at:]
	switch n := len(name); {
	case p.flat && n > len(rest) && name[len(rest)] == '.' && string(name[:len(rest)]) == rest:
		return len(p.member)
	case n > len(rest) || rest[:n] != string(name):
		return dead
	case n == len(rest):
		return len(p.member)
	case rest[n] == '.' && n+1 < len(rest):
		return at + n + 1
	}
	return dead
}
