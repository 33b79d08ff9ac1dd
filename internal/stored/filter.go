// Package stored shows people what an agent keeps on disk, in the spool and in quarantine,
// and lets them choose what is to be done with it. It changes nothing itself and takes no
// lock: see package custody for that.
package stored

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

// Filter chooses payloads and records. What is empty chooses all. Check comes first.
type Filter struct {
	IDs     []string // batch ids or beginnings of them, or the IDs of lines
	Inputs  []string
	Tables  []string // Table, or Database.Table
	Cluster string   // URL
	Reasons []string // of records
	Since   string   // what came after this: a time such as 2h ago, or a moment as RFC 3339 has it
	Before  string   // what came before this

	since, before time.Time
	inputs        map[string]bool // that were seen where some are chosen
	tables        map[string]bool // likewise, as Database.Table
}

// Reasons are those that records are in quarantine for.
var Reasons = []record.Reason{record.TooLong, record.Malformed, record.Refused, record.Grown}

// Check validates the filter and parses its times; it must be called before the filter is used.
// Ages such as 2h count back from now. The error is one of usage.
func (f *Filter) Check(now time.Time) error {
	for _, reason := range f.Reasons {
		if !slices.Contains(Reasons, record.Reason(reason)) {
			return exit.Usagef("--reason %q: want too_long, malformed, refused or grown", reason)
		}
	}
	var err error
	if f.since, err = moment("since", f.Since, now); err == nil {
		f.before, err = moment("before", f.Before, now)
	}
	if err == nil && !f.since.IsZero() && !f.before.IsZero() && !f.since.Before(f.before) {
		err = exit.Usagef("--since %q is not before --before %q: nothing came after the one and before the other; exchange them", f.Since, f.Before)
	}
	return err
}

// moment parses the value of a time flag: an age before now, such as 2h, or a timestamp of RFC
// 3339. It returns the zero time for an empty text. flag is the name for the error.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := units.ParseDuration(text); err == nil {
		return now.Add(-d.D()), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, exit.Usagef("--%s %q: want a time ago such as 2h or 7d, or a moment such as 2026-01-02T15:04:05Z", flag, text)
	}
	return at, nil
}

// IsEmpty reports whether it chooses all.
func (f *Filter) IsEmpty() bool {
	return len(f.IDs)+len(f.Inputs)+len(f.Tables)+len(f.Reasons) == 0 && f.Cluster+f.Since+f.Before == ""
}

// Payload reports whether the filter selects an entry of the spool; false for one that is not a
// payload. A payload with records of several inputs is selected by each of them. It also notes
// inputs and table of the payload for Strangers.
func (f *Filter) Payload(e *spool.Entry) bool {
	p := e.Payload
	if p == nil {
		return false
	}
	chosen := len(f.Inputs) == 0
	p.Inputs(func(input string, _ int) {
		f.note(input, p.Route)
		chosen = chosen || slices.Contains(f.Inputs, input)
	})
	return chosen && among(f.IDs, p.ID.String()) && f.to(p.Route) && f.at(e.Spooled)
}

// Record reports whether the filter selects a record of quarantine; false for a line that cannot be
// read. It also notes input and table of the record for Strangers.
func (f *Filter) Record(e *quarantine.Entry) bool {
	if e.Err == nil {
		f.note(e.File.Input, e.Route)
	}
	return e.Err == nil && among(f.IDs, e.ID()) && among(f.Inputs, e.File.Input) && among(f.Reasons, string(e.Reason)) && f.to(e.Route) && f.at(e.Time)
}

// to reports whether the filter selects data for this route, by its cluster and table. A table is
// given as Table or Database.Table.
func (f *Filter) to(r record.Route) bool {
	return (f.Cluster == "" || f.Cluster == r.Cluster) && (among(f.Tables, r.Table) || slices.Contains(f.Tables, r.Database+"."+r.Table))
}

func (f *Filter) at(t time.Time) bool {
	return (f.since.IsZero() || !t.Before(f.since)) && (f.before.IsZero() || t.Before(f.before))
}

// note remembers an input and a table that occur in the spool or in quarantine, for Strangers. It
// does nothing if the filter names neither inputs nor tables.
func (f *Filter) note(input string, to record.Route) {
	if len(f.Inputs)+len(f.Tables) == 0 {
		return
	}
	if f.inputs == nil {
		f.inputs, f.tables = map[string]bool{}, map[string]bool{}
	}
	f.inputs[input], f.tables[to.Database+"."+to.Table] = true, true
}

// Strangers returns a line for each input and table that the filter names and that does not occur
// in the spool or in quarantine. The line lists those that do occur. It returns "" if there is
// nothing to say, or if nothing was listed at all. It is called after the listing.
func (f *Filter) Strangers() (text string) {
	if len(f.inputs) == 0 {
		return ""
	}
	tell := func(flag string, asked []string, there map[string]bool, is func(name, asked string) bool) {
		names := slices.Sorted(maps.Keys(there))
		for _, a := range asked {
			if !slices.ContainsFunc(names, func(name string) bool { return is(name, a) }) {
				text += fmt.Sprintf("--%s %q: no entries match; available: %s\n", flag, a, console.Shortened(strings.Join(names, ", "), 200))
			}
		}
	}
	tell("input", f.Inputs, f.inputs, func(name, asked string) bool { return name == asked })
	tell("table", f.Tables, f.tables, func(name, asked string) bool { return name == asked || strings.HasSuffix(name, "."+asked) })
	return text
}

func among(all []string, one string) bool { return len(all) == 0 || slices.Contains(all, one) }

// missing returns an error that names the IDs of the filter that are not in found; nil if all are.
// what begins the message, and command is the one that lists the IDs.
func (f *Filter) missing(found map[string]bool, what, command string) error {
	not := slices.DeleteFunc(slices.Clone(f.IDs), func(id string) bool { return found[id] })
	if len(not) == 0 {
		return nil
	}
	return exit.With(exit.Failed, fmt.Errorf("no %s %s; the IDs are those of: kusto-agent %s", what, strings.Join(not, ", "), command))
}
