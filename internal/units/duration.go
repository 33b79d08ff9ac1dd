package units

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, never negative, in nanoseconds. It is written
// as Go writes one, and in days: 500ms, 1h30m, 7d, 1d12h. Only 0 needs no unit.
type Duration time.Duration

// Day is 24 hours.
const Day = 24 * time.Hour

var (
	errDurationForm     = errors.New("want a duration such as 500ms, 30s, 1h30m or 7d")
	errNegativeDuration = errors.New("negative; want a duration such as 500ms, 30s, 1h30m or 7d")
)

// ParseDuration reads a duration as it is written in the configuration, such as 500ms, 1h30m, 7d or
// 1d12h. Days come first and are whole. A number other than 0 needs a unit, and nothing is
// negative.
func ParseDuration(s string) (Duration, error) {
	if positive, minus := strings.CutPrefix(s, "-"); minus {
		if _, err := ParseDuration(positive); err == nil {
			return 0, errNegativeDuration
		}
		return 0, errDurationForm
	}
	if allDigits(s) && strings.Trim(s, "0") != "" {
		return 0, errors.New("a unit is missing; want a duration such as 500ms, 30s or 7d")
	}
	days, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		days, rest = "0", s
	}
	if !allDigits(days) || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
		return 0, errDurationForm
	}
	var d time.Duration
	if rest != "" || !hasDays {
		var err error
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, errDurationForm
		}
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n > int64((math.MaxInt64-d)/Day) {
		return 0, errors.New("longer than any duration can be")
	}
	return Duration(time.Duration(n)*Day + d), nil
}

// D is the duration as the standard library wants it.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String returns the duration as text that ParseDuration reads back: whole days as days, and
// without parts that are zero, such as 7d, 1h30m or 500ms.
func (d Duration) String() string {
	t := d.D()
	if t <= 0 {
		return "0s"
	}
	s := ""
	if t >= Day {
		s, t = strconv.FormatInt(int64(t/Day), 10)+"d", t%Day
		if t == 0 {
			return s
		}
	}
	text := t.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return s + text
}

// MarshalText writes what String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText sets d to the duration in text, as ParseDuration reads it. After an error d is
// unchanged.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	if err == nil {
		*d = v
	}
	return err
}
