package format

import (
	"strings"
	"testing"
	"time"
)

// ofLayout is a time as a layout reads it; empty: it is none.
func ofLayout(t testing.TB, layout, zone, text string, dated time.Time) string {
	t.Helper()
	at, err := ZoneOf(zone)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLayout(layout, at)
	if err != nil {
		t.Fatalf("%s: %v", layout, err)
	}
	ns := int64(0)
	if !dated.IsZero() {
		ns = dated.UnixNano()
	}
	out, ok := l.Append(nil, []byte(text), ns)
	if !ok {
		return ""
	}
	return string(out)
}

func TestLayouts(t *testing.T) {
	f := func(layout, zone, text, want string) {
		t.Helper()
		if got := ofLayout(t, layout, zone, text, time.Time{}); got != want {
			t.Errorf("%s in %s: %q is %q, want %q", layout, zone, text, got, want)
		}
	}
	const berlin = "Europe/Berlin"
	f("iso8601", "utc", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z")
	f("iso8601", berlin, "2026-03-01T12:00:00.123456789-07:00", "2026-03-01T12:00:00.123456789-07:00")
	f("iso8601", berlin, "2026-03-01 12:00:00,5", "2026-03-01T12:00:00.5+01:00")
	f("iso8601", berlin, "2026-07-01 12:00:00", "2026-07-01T12:00:00+02:00")
	f("iso8601", "utc", "2026-03-01 12:00:00.120 +0530", "2026-03-01T12:00:00.12+05:30")
	f("iso8601", "utc", "2026-03-01 12:00:00+01", "2026-03-01T12:00:00+01:00")
	f("iso8601", berlin, "2026-03-01 12:00:00,5 Z", "2026-03-01T12:00:00.5Z")
	f("iso8601", berlin, "2026-03-01 12:00:00 +01", "2026-03-01T12:00:00+01:00")
	for _, none := range []string{"", "2026-03-01", "2026-02-29T12:00:00Z", "2026-03-01x12:00:00", "2026-03-01T12:00:00.", "2026-03-01T12:00:00 ", "2026-03-01T12:00:00  ", "2026-03-01T12:00:00 01", "2026-03-01T12:00:00  Z", "2026-03-01T12:00:00ZZ", "2026-03-01T12:00:00+0530x", "0000-03-01T12:00:00Z"} {
		f("iso8601", "utc", none, "")
	}
	f("common", "utc", "10/Oct/2000:13:55:36 -0700", "2000-10-10T13:55:36-07:00")
	f("Mon Jan 02 15:04:05.000000 2006", "utc", "Sun Mar 01 12:00:00.123456 2026", "2026-03-01T12:00:00.123456Z")
	f("2006/01/02 15:04:05", berlin, "2026/03/01 12:00:00", "2026-03-01T12:00:00+01:00")
	f("02.01.2006 15:04", "utc", "01.03.2026 12:30", "2026-03-01T12:30:00Z")
	f("syslog", "utc", "Mar  1 12:00:00", "")
	f("unix", "utc", "1772366400", "2026-03-01T12:00:00Z")
	f("unix", "utc", "1772366400.25", "2026-03-01T12:00:00.25Z")
	f("unix_ms", "utc", "1772366400123", "2026-03-01T12:00:00.123Z")
	f("unix_us", "utc", "1772366400123456", "2026-03-01T12:00:00.123456Z")
	f("unix_ns", "utc", "177236640012345678", "1975-08-14T08:24:00.012345678Z")
	f("unix_ms", "utc", "1772366400123.5", "2026-03-01T12:00:00.1235Z")
	for _, none := range []string{"", "-1", "1.", ".5", "1e9", "9999999999999999999", "253402300800"} {
		f("unix", "utc", none, "")
	}
	for _, text := range []string{"", "yyyy-MM-dd", "%Y-%m-%d", "2006-01-02", "15:04:05", "2026-03-01 12:00:00", "Jan 2 2006 15:04:05 MST", "iso"} {
		if _, err := NewLayout(text, time.UTC); err == nil || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%q is a layout: %v", text, err)
		}
	}
	for _, name := range []string{"", "CEST", "Local", "../etc/passwd"} {
		if _, err := ZoneOf(name); err == nil {
			t.Errorf("%q is a zone", name)
		}
	}
}

// A time without its year is of the year that brings it nearest to the date of its
// file, also over New Year, whatever year it is now.
func TestYears(t *testing.T) {
	f := func(dated, text, want string) {
		t.Helper()
		date, err := time.Parse("2006-01-02", dated)
		if err != nil {
			t.Fatal(err)
		}
		if got := ofLayout(t, "syslog", "utc", text, date); got != want {
			t.Errorf("%s in a file of %s is %s, want %s", text, dated, got, want)
		}
	}
	f("2019-03-01", "Mar  1 12:00:00", "2019-03-01T12:00:00Z")
	f("2019-01-02", "Dec 31 23:59:59", "2018-12-31T23:59:59Z")
	f("2019-12-30", "Jan  1 00:00:00", "2020-01-01T00:00:00Z")
	f("2019-12-30", "Dec 31 23:59:59", "2019-12-31T23:59:59Z")
	f("2019-03-01", "Feb 29 12:00:00", "2020-02-29T12:00:00Z") // the only one near
	f("2022-03-01", "Feb 29 12:00:00", "")
	f("2020-03-01", "Feb 29 12:00:00", "2020-02-29T12:00:00Z")
	f("2019-03-01", "Feb 30 12:00:00", "")
	f("2019-03-01", "Mar 01 12:00:00", "2019-03-01T12:00:00Z")
	for days := range 365 * 3 { // any time within 180 days of any date
		date := time.Date(2023, 1, 1, 6, 0, 0, 0, time.UTC).AddDate(0, 0, days)
		for _, away := range []int{-180, -31, -1, 0, 1, 100, 180} {
			at := date.AddDate(0, 0, away)
			if got := ofLayout(t, "syslog", "utc", at.Format(time.Stamp), date); got != at.Format(time.RFC3339) {
				t.Fatalf("%s in a file of %s is %s", at, date, got)
			}
		}
	}
}
