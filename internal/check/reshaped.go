package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kusto-agent/internal/kusto"
)

// reshaped compares the settings rename, remove and add of an input with its mapping. It adds
// warnings for columns that read a member which records no longer have, and for new members that no
// column reads. input is the path of the input in the configuration, such as "inputs[0]".
func (v *view) reshaped(input string) {
	in := v.in
	warn := func(id, key, fix, what string) {
		v.add(Finding{ID: id, Severity: Warning, Input: in.Name, Where: v.traced.Place(input + "." + key), What: key + ": " + what,
			Fix: fix + "\n.show table " + kusto.EntityName(in.Table) + " ingestion mappings"})
	}
	made := slices.Concat(slices.Collect(maps.Keys(in.Add)), slices.Collect(maps.Keys(in.Fields)))
	for from, to := range in.Rename {
		made = append(made, renamed(from, to)...)
	}
	// lost returns the columns that read member, except members that the settings create again.
	lost := func(member string) (columns []string) {
		for _, column := range v.table.Reading(in.Route(), member) {
			if !slices.ContainsFunc(made, func(m string) bool { return within(column.Member, m) }) {
				columns = append(columns, fmt.Sprintf("%s (%s)", column.Name, column.Member))
			}
		}
		return columns
	}
	for i, member := range in.Remove {
		if columns := lost(member); len(columns) > 0 {
			warn("rules.gone", fmt.Sprintf("remove[%d]", i), "leave the member, or take the column out of the mapping", fmt.Sprintf("%s is removed, and the mapping reads it into %s", member, strings.Join(columns, ", ")))
		}
	}
	for _, member := range slices.Sorted(maps.Keys(in.Rename)) {
		to := renamed(member, in.Rename[member])
		key := "rename." + member
		taken := slices.ContainsFunc(to, func(m string) bool { return v.table.Takes(in.Route(), m) })
		switch columns := lost(member); {
		case len(columns) > 0:
			warn("rules.gone", key, "let the mapping read the new name", fmt.Sprintf("%s becomes %s, and the mapping reads the old name into %s", member, in.Rename[member], strings.Join(columns, ", ")))
		case !taken:
			warn("rules.unmapped", key, "map it to a column, or remove the member", fmt.Sprintf("%s becomes %s, which the mapping reads into no column", member, in.Rename[member]))
		}
	}
	for _, member := range slices.Sorted(maps.Keys(in.Add)) {
		if !v.table.Takes(in.Route(), member) {
			warn("rules.unmapped", "add."+member, "map it to a column, or leave it out", fmt.Sprintf("%s is added, and the mapping reads it into no column", member))
		}
	}
}

// renamed returns the paths that a member can have after it was renamed. from is a path with dots,
// but each dot may also belong to the name of a member: a.b becomes either to or a.to.
func renamed(from, to string) (all []string) {
	all = append(all, to)
	for i, c := range from {
		if c == '.' {
			all = append(all, from[:i+1]+to)
		}
	}
	return all
}

// within reports whether a member is another, or within that.
func within(member, other string) bool {
	return member == other || strings.HasPrefix(member, other+".")
}
