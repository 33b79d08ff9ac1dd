package telemetry

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Printable returns s if it can be shown on one line, and otherwise quoted: file names and answers
// of the service may hold line ends, escape sequences and characters that turn the direction of
// text.
func Printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

// Lines returns a text of several lines in which each line with control characters is quoted. Tabs
// become spaces, and line ends at the end of the text are removed.
func Lines(s string) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range all {
		all[i] = Printable(strings.ReplaceAll(all[i], "\t", "    "))
	}
	return strings.Join(all, "\n")
}

// CountText returns n with commas between thousands, such as "1,234,567".
func CountText(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// BytesText returns a number of bytes as text with a decimal unit and at most three digits, such as
// "1.5 MB" or "37 kB".
func BytesText(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n), ""
	for _, unit = range []string{"kB", "MB", "GB", "TB", "PB", "EB"} {
		if v /= 1000; v < 999.5 {
			break
		}
	}
	digits := 0
	if v < 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + unit
}

// RateText returns a rate per second as text, such as "0.5/s" or "1,200/s".
func RateText(v float64) string {
	switch {
	case v <= 0:
		return "0/s"
	case v < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + "/s"
	}
	return CountText(uint64(v+0.5)) + "/s"
}

// secondsText returns a duration of v seconds as text: in ms below one second, such as "250 ms" or
// "1.5 s", and from a minute on in its two largest units.
func secondsText(v float64) string {
	switch {
	case v < 0.9995:
		return strconv.FormatFloat(v*1000, 'f', 0, 64) + " ms"
	case v < 60:
		return strconv.FormatFloat(v, 'f', 1, 64) + " s"
	}
	return spanText(time.Duration(v * float64(time.Second)))
}

// spanText returns a duration as text in its two largest units, rounded to seconds, such as "3h
// 5m". A negative duration is "0s".
func spanText(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd %dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// AgoText returns how long before now t was, such as "5m 3s ago"; a dash if t is the zero time.
func AgoText(now, t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return spanText(now.Sub(t)) + " ago"
}

// InText returns how long after now t is, such as "in 5m 3s": "now" if t is past, a dash if t is
// the zero time.
func InText(now, t time.Time) string {
	switch {
	case t.IsZero():
		return "–"
	case !t.After(now):
		return "now"
	}
	return "in " + spanText(t.Sub(now))
}
