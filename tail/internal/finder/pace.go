package finder

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// How long a scan waits for the next: it alone must be enough, events or not. One that
// cost much waits longer, so that looking is never most of what is done.
const (
	scanHeard  = 10 * time.Second
	scanPolled = 2 * time.Second
	idlePart   = 140 // times what the last cost, where nothing changes
	busyPart   = 20  // the same where something changed lately
	newsPart   = 10  // the same after an event that says that names have changed
)

// A file that grew lately is looked at often, and less often the longer it rests. Where
// events tell of its growth it is looked at after one, no sooner than it would be
// without, and every LookSlow in case one was lost: looking costs more than hearing. One
// that rests for ActiveFor is left to events, where they can be had, and to glances.
const (
	LookFast  = 20 * time.Millisecond
	lookLate  = 40 * time.Millisecond
	LookSlow  = 250 * time.Millisecond
	LookIdle  = time.Second
	ActiveFor = 10 * time.Second
	lookCost  = 100 * time.Microsecond // looks come no closer, all files together
	waitPart  = 5                      // of how long a record waits for others: two of these it may wait to be seen
)

// Cost is what a scan took. On a busy machine it takes long and costs little, on a file
// system far away the other way round.
type Cost struct{ CPU, Time time.Duration }

// CostOf runs do and returns its CPU time and duration. do must not start goroutines.
func CostOf(do func()) Cost {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu, began := cpuTime(), time.Now()
	do()
	return Cost{cpuTime() - cpu, time.Since(began)}
}

// cpuTime returns the CPU time that the thread has used.
func cpuTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// rest is how long to do without what has such a cost, where it may be a part of all CPU
// time.
func (c Cost) rest(least, part time.Duration) time.Duration { return max(least, part*c.CPU, c.Time) }

// Pace is what decides when the next scan comes.
type Pace struct {
	Heard bool          // events tell of every new name
	Busy  bool          // one of the last scans has found that names had changed
	Most  time.Duration // bounds it; 0: nothing does
}

// ScanWait returns how long after a scan of this cost the next one comes, if nothing asks for one
// before. The wait grows with the cost, so that scans take only a small part of the CPU time; the
// part may be larger while names change (Busy). It has a least length, which is longer where events
// tell of new names (Heard), and Most bounds it.
func (p Pace) ScanWait(scan Cost) time.Duration {
	least, part := scanPolled, time.Duration(idlePart)
	if p.Heard {
		least = scanHeard
	}
	if p.Busy {
		part = busyPart
	}
	wait := scan.rest(least, part)
	if p.Most > 0 {
		wait = min(wait, p.Most)
	}
	return wait
}

// NewsWait is how long after the news that names have changed the next scan comes; without is how long
// it would be without them.
func NewsWait(scan Cost, without time.Duration) time.Duration {
	return min(scan.rest(0, newsPart), without)
}

// GlanceWait returns how long after a glance (a check of the files without events for growth) the
// next one comes. It grows with the cost of the glance, and less so if some files had grown
// (grown).
func GlanceWait(glance Cost, grown bool) time.Duration {
	part := time.Duration(idlePart)
	if grown {
		part = busyPart
	}
	return glance.rest(scanPolled, part)
}

// NeedsGlance reports whether files without events have to be checked for growth between two scans
// that are scanWait apart, because the scans alone would check them too seldom.
func (p Pace) NeedsGlance(scanWait time.Duration) bool {
	if p.Heard {
		return scanWait > scanPolled
	}
	return scanWait > scanHeard
}

// Without is a cost without a part of it.
func (c Cost) Without(part Cost) Cost {
	return Cost{max(c.CPU-part.CPU, 0), max(c.Time-part.Time, 0)}
}

// Add is the cost of both.
func (c Cost) Add(other Cost) Cost { return Cost{c.CPU + other.CPU, c.Time + other.Time} }

// LookEvery is how long a file that is written to all the time waits between two looks, where
// records wait for others as long as maxWait anyway: each look wakes the process up, which
// costs about as much as reading what was written meanwhile.
func LookEvery(maxWait time.Duration) time.Duration {
	return min(max(maxWait/waitPart*2, LookFast), lookLate)
}

// LookPace is the same when looks at so many are planned.
func LookPace(every time.Duration, planned int) time.Duration {
	return max(every, time.Duration(planned)*lookCost)
}

// LookState is what is known of a file after a look at it.
type LookState struct {
	For      time.Duration // since it changed
	Told     bool          // events tell of its growth
	Failed   bool          // it could not be read
	Pending  bool          // time alone may complete what is at its end, or it was rotated away
	Reserved bool          // it ends with room in which something may be written
}

// LookWait returns how long after a turn of a reader the next one comes; r: the state of the file after
// the turn. The longer the file has not changed, the longer the wait; it is longer too if events tell
// of growth. If the file could not be read, or time alone may complete its last record (Pending), a
// turn is always planned. planned is false if only an event or the check of files without events (a
// glance) brings one.
func LookWait(r LookState) (wait time.Duration, planned bool) {
	wait = min(max(r.For/4, LookFast), LookSlow)
	if r.Told {
		wait = LookSlow
	}
	switch {
	case r.Failed, r.Reserved && !r.Pending && r.For >= ActiveFor:
		return LookIdle, true
	case r.Pending:
		return max(wait, LookSlow), true
	}
	return wait, r.For < ActiveFor
}
