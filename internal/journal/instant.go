package journal

import "time"

// instant is a time in ns since 1970; 0: the zero time.
type instant int64

// instantOf returns a time in nanoseconds since 1970, and 0 for the zero time.
func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixNano())
}

// time returns the instant as a time.Time; 0 is the zero time.
func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i))
}
