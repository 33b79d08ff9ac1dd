package rules

import (
	"bytes"
	"strings"
)

// path leads from an object to members, as walk.go says.
type path struct {
	member string // empty: it leads nowhere
	needle []byte // as in condition
}

func newPath(member string) path {
	p := path{member: member}
	last := member[strings.LastIndexByte(member, '.')+1:]
	if last != "" && strings.IndexFunc(last, func(r rune) bool { return r < ' ' || strings.ContainsRune(`"'/\`, r) }) < 0 {
		p.needle = []byte(last)
	}
	return p
}

// mayLead reports whether a record, whose names are written without escapes, may have
// the member.
func (p *path) mayLead(rec []byte) bool { return p.needle == nil || bytes.Contains(rec, p.needle) }

// dead is the place on a path from which there is no way on.
const dead = -1

// on is the place on a path behind a name that follows a place: len(member) where the
// path ends there.
func (p *path) on(at int, name []byte) int {
	if at == dead {
		return dead
	}
	rest := p.member[at:]
	switch n := len(name); {
	case n > len(rest) || rest[:n] != string(name):
		return dead
	case n == len(rest):
		return len(p.member)
	case rest[n] == '.' && n+1 < len(rest):
		return at + n + 1
	}
	return dead
}
