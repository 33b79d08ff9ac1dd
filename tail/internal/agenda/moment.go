package agenda

import "time"

// Moment is a time of this process in 8 bytes, in ns, for what is kept of every file. The zero moment
// is none. It keeps to the monotonic clock, as time.Time does.
type Moment int64

// epoch is before all moments.
var epoch = time.Now().Add(-time.Hour)

// Now is the moment at which it is called.
func Now() Moment {
	if m := Moment(time.Since(epoch)); m != 0 { // 0 stands for no time
		return m
	}
	return 1
}

// Time returns a moment as a time.Time; the zero time if there is none.
func (m Moment) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(m))
}

// Add returns the moment d later.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Since returns how long after o the moment is.
func (m Moment) Since(o Moment) time.Duration { return time.Duration(m - o) }

// Ago returns how long ago the moment is.
func (m Moment) Ago() time.Duration { return Now().Since(m) }
