package schema

import (
	"slices"
	"strings"

	"kusto-agent/internal/record"
)

// Read is a column and the member that the mapping reads into it, as names with dots
// between them.
type Read struct{ Name, Member string }

// reads returns the columns that read a member of the records of a route, each with the member as
// names joined by dots. An empty member stands for the whole record. Without a mapping each column
// reads the member of its name.
func (t *Table) reads(of record.Route) (all []Read) {
	for _, e := range t.Elements(of) {
		if s, reads := e.source(); reads && s.ordinal < 0 {
			all = append(all, Read{e.Column, strings.Join(s.path, ".")})
		}
	}
	return all
}

// Reading returns the columns that read the given member of the records of a route, or something
// inside it. member is names joined by dots.
func (t *Table) Reading(of record.Route, member string) (all []Read) {
	for _, r := range t.reads(of) {
		if r.Member == member || strings.HasPrefix(r.Member, member+".") {
			all = append(all, r)
		}
	}
	return all
}

// Takes reports whether some column reads the given member of the records of a route, something
// inside it, or an object or record that contains it. member is names joined by dots.
func (t *Table) Takes(of record.Route, member string) bool {
	return slices.ContainsFunc(t.reads(of), func(r Read) bool {
		return r.Member == "" || r.Member == member || strings.HasPrefix(r.Member, member+".") || strings.HasPrefix(member, r.Member+".")
	})
}
