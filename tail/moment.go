package tail

import "time"

// moment is a time of this process in 8 bytes, in ns, for what is kept of every file. The
// zero moment is none. It keeps to the monotonic clock, as time.Time does.
type moment int64

// epoch is before all moments.
var epoch = time.Now().Add(-time.Hour)

func now() moment { return momentOf(time.Now()) }

// momentOf returns the time t as a moment, never 0, which stands for no time.
func momentOf(t time.Time) moment {
	if m := moment(t.Sub(epoch)); m != 0 {
		return m
	}
	return 1
}

// time returns a moment as a time.Time; the zero time if there is none.
func (m moment) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(m))
}

func (m moment) add(d time.Duration) moment   { return m + moment(d) }
func (m moment) since(o moment) time.Duration { return time.Duration(m - o) }
func (m moment) ago() time.Duration           { return now().since(m) }
