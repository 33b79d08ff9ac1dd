package format

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Layout says how a log writes times. It is safe for concurrent use.
type Layout struct {
	text   string         // as package time has it; empty: one of those below
	iso    bool           // iso8601
	ticks  int64          // in a second, of numbers since 1970; 0: it is no number
	zone   *time.Location // of times that do not tell theirs
	noYear bool
}

// namedLayouts are layouts by name.
var namedLayouts = map[string]Layout{
	"iso8601": {iso: true},
	"common":  {text: "02/Jan/2006:15:04:05 -0700"},
	"syslog":  {text: "Jan _2 15:04:05"},
	"unix":    {ticks: 1},
	"unix_ms": {ticks: 1e3},
	"unix_us": {ticks: 1e6},
	"unix_ns": {ticks: 1e9},
}

// LayoutNames are the names of layouts.
func LayoutNames() []string {
	return []string{"iso8601", "common", "syslog", "unix", "unix_ms", "unix_us", "unix_ns"}
}

// ZoneOf returns the time zone of this name, for times that are written without one:
// local, utc, or a name such as Europe/Berlin.
func ZoneOf(name string) (*time.Location, error) {
	switch name {
	case "local":
		return time.Local, nil
	case "utc":
		return time.UTC, nil
	case "":
		return nil, errors.New("no zone; want local, utc or a name such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%q is not a zone that is known here; want local, utc or a name such as Europe/Berlin", name)
	}
	return zone, nil
}

// NewLayout returns the layout with the name text, or the one that text is an example of: 2
// January 2006, 15:04:05 at -0700, written as the log writes it. zone is that of times written
// without one. It fails if a time cannot be read back from this layout.
func NewLayout(text string, zone *time.Location) (*Layout, error) {
	what := "not a layout"
	if text == "" {
		what = "missing"
	}
	l, named := namedLayouts[text]
	l.zone = zone
	if !named {
		if strings.Contains(text, "MST") {
			return nil, errors.New("the letters of a zone do not tell which it is; want its hours, such as -0700, or leave it out and want zone")
		}
		l.text = text
	}
	if named && l.text == "" {
		return &l, nil
	}
	// Two dates in which month, day, hour and minute all differ: the layout must tell each of them.
	for _, t := range []time.Time{time.Date(2023, 11, 28, 22, 39, 51, 0, time.UTC), time.Date(2020, 10, 13, 4, 58, 12, 0, time.UTC)} {
		back, err := time.ParseInLocation(l.text, t.Format(l.text), time.UTC)
		if err != nil || back.Month() != t.Month() || back.Day() != t.Day() || back.Hour() != t.Hour() || back.Minute() != t.Minute() {
			return nil, fmt.Errorf(what+"; want 2 January 2006, 15:04:05 at -0700 as the log would write it, or %s", strings.Join(LayoutNames(), ", "))
		}
		l.noYear = back.Year() == 0
	}
	return &l, nil
}

// Append appends a time in RFC 3339. If it is written without a year, it gets the year
// that brings it nearest to dated, the date of its file in ns since 1970. It returns
// false, perhaps after appending something, if text is not a time of this layout.
func (l *Layout) Append(dst, text []byte, dated int64) (_ []byte, ok bool) {
	var t time.Time
	switch {
	case l.iso:
		t, ok = isoTime(text, l.zone)
	case l.ticks > 0:
		t, ok = l.number(text)
	default:
		var err error
		t, err = time.ParseInLocation(l.text, string(text), l.zone)
		if ok = err == nil; ok && l.noYear {
			t, ok = inYear(t, t.Location(), dated)
		}
	}
	if !ok || t.Year() < 1 || t.Year() > 9999 {
		return dst, false
	}
	return t.AppendFormat(dst, time.RFC3339Nano), true
}

// isoTime parses a time of ISO 8601 as logs have it: with T or a space before the hour, a
// fraction behind a point or a comma, and a zone, with or without a space before it, or none, for
// which zone is used. ok is false if text is no such time.
func isoTime(text []byte, zone *time.Location) (t time.Time, ok bool) {
	const date = "2006-01-02T15:04:05"
	if !isLike(text, "0000-00-00x00:00:00") || text[10] != 'T' && text[10] != ' ' {
		return t, false
	}
	end := text[len(date):]
	if len(end) > 0 && (end[0] == '.' || end[0] == ',') {
		n := digitsOf(end[1:])
		if n == 0 {
			return t, false
		}
		end = end[1+n:]
	}
	form := date[:10] + string(text[10]) + date[11:]
	if len(end) > 1 && end[0] == ' ' { // a space before the zone
		form, end = form+" ", end[1:]
	}
	switch {
	case len(end) == 0:
	case string(end) == "Z":
		form += "Z07:00"
	case len(end) == len("-07"):
		form += "-07"
	case len(end) == len("-0700"):
		form += "-0700"
	default:
		form += "-07:00"
	}
	t, err := time.ParseInLocation(form, string(text), zone)
	return t, err == nil
}

// number parses the time since 1970 that text gives as a number, with or without a fraction, in
// units of which l.ticks are a second. ok is false if text is no such number, or is after the
// year 9999.
func (l *Layout) number(text []byte) (t time.Time, ok bool) {
	whole, fraction, dot := bytes.Cut(text, []byte{'.'})
	if n := digitsOf(whole); n == 0 || n != len(whole) || n > mostDigits || dot && (len(fraction) == 0 || digitsOf(fraction) != len(fraction)) {
		return t, false
	}
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || n/l.ticks > 253402300799 { // the end of 9999
		return t, false
	}
	ns := n % l.ticks * (1e9 / l.ticks)
	unit := int64(1e9) / l.ticks
	for _, c := range fraction {
		unit /= 10
		ns += int64(c-'0') * unit
	}
	return time.Unix(n/l.ticks, ns).UTC(), true
}

// inYear returns t, which was written without a year, in the year that brings it nearest to
// dated, the date of the file in ns since 1970. zone is that of the time. ok is false if dated is
// 0 (not known), or if no year near has that day.
func inYear(t time.Time, zone *time.Location, dated int64) (best time.Time, ok bool) {
	if dated == 0 {
		return t, false
	}
	date := time.Unix(0, dated)
	year := date.In(zone).Year()
	away := func(a time.Time) time.Duration { return max(a.Sub(date), date.Sub(a)) }
	var all []time.Time
	for y := year - 1; y <= year+1; y++ {
		if a := time.Date(y, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone); a.Day() == t.Day() {
			all = append(all, a)
		}
	}
	if len(all) == 0 { // 29 February, without a leap year near
		return t, false
	}
	return slices.MinFunc(all, func(a, b time.Time) int { return int(min(1, max(-1, away(a)-away(b)))) }), true
}
