package tail

import (
	"cmp"
	"fmt"
	"time"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

// NewPattern makes the pattern of parse: regex, with its types and its time. The
// error is a *format.PatternError, or one of *TimeError.
func (c InputConfig) NewPattern() (*format.Pattern, error) {
	if c.Time == nil {
		return format.NewPattern(c.Pattern, c.Types, "", nil)
	}
	zone, err := c.ZoneOfTimes()
	if err != nil {
		return nil, err
	}
	layout, err := format.NewLayout(c.Time.Layout, zone)
	if err != nil {
		return nil, &TimeError{"layout", err}
	}
	if c.Time.Member == "" {
		return nil, &TimeError{"member", fmt.Errorf("empty; want the name of the group that is the time")}
	}
	return format.NewPattern(c.Pattern, c.Types, c.Time.Member, layout)
}

// ZoneOfTimes is the zone of times that do not tell theirs. The error is a *TimeError.
func (c InputConfig) ZoneOfTimes() (*time.Location, error) {
	t := c.Time
	if t == nil {
		t = &Time{Zone: DefaultTime().Zone}
	}
	zone, err := format.ZoneOf(t.Zone)
	if err != nil {
		return nil, &TimeError{"zone", err}
	}
	return zone, nil
}

// TimeError says which key of time is wrong.
type TimeError struct {
	Key string
	Err error
}

func (e *TimeError) Error() string { return "time." + e.Key + ": " + e.Err.Error() }

func (e *TimeError) Unwrap() error { return e.Err }

// NewRules makes the rules that leave records out; nil: there are none. The error
// holds every mistake, each as a *rules.Error.
func (c InputConfig) NewRules() (*rules.Set, error) {
	all := c.ruleConfig()
	if all.Empty() {
		return nil, nil
	}
	how, _ := format.ParseOf(cmp.Or(c.Parse, "none"))
	kind, ok := format.RuleKind(c.Format, how)
	if !ok {
		return nil, fmt.Errorf("format %s is read in blocks, not in records", c.Format)
	}
	return rules.New(all, kind, filteredBlank, filteredHeader, filteredUnmatched, "joined")
}

func (c InputConfig) ruleConfig() rules.Config {
	return rules.Config{Keep: c.Keep, Drop: c.Drop, Sample: c.Sample}
}

// shapedBy is the part of the shaping hash of an input that says how lines are
// taken apart; empty where nothing does.
func (in *input) shapedBy() string {
	text := ""
	if in.rules != nil {
		all := in.ruleConfig()
		text = " " + all.Key()
	}
	if in.inner > format.ParseText {
		text += " " + in.inner.String()
	}
	if !in.taken().Parsed() {
		return text
	}
	text += fmt.Sprintf(" %q", in.onError)
	if in.pattern != nil {
		text += fmt.Sprintf(" %q %q", in.Pattern, in.Types)
	}
	if in.Time != nil {
		text += fmt.Sprintf(" %q", *in.Time)
	}
	return text
}

// datesNeeded reports whether the dates of files are kept: lines may not tell their
// year, which is found by a fact that stays, so that what is made again has the same.
func (in *input) datesNeeded() bool { return in.Time != nil || in.taken() == format.ParseSyslog }

// dated is the date of a file; where it is not kept, because it was known before the
// input needed it, that of its birth.
func dated(i *record.FileInfo) int64 { return cmp.Or(i.Dated, i.Birth) }
