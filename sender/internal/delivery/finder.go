package delivery

import "time"

// MostFound is the most slots that a cluster has where they are found.
const MostFound = 128

// firstFound is how many slots a finder begins with.
const firstFound = 8

// finder finds how many slots of a cluster pay: more, as long as requests get through
// faster with them, fewer where these only wait longer at the service, and half of
// those in use where that throttles.
//
// It works in trials. The latency of some requests is taken with the slots there are,
// then with others, and the two are compared: that many slots at that latency are so
// many requests a second. Only slots that were in the way count, that is those which
// were all in use while something waited for one. So a cluster whose requests come
// from a slow disk, a busy processor or send.rate_limit keeps the slots it has.
//
//	measured | compared with | next
//	nothing waited | - | measured again
//	slots in the way | nothing | a trial with twice as many at first, later with a quarter more or fewer
//	more, faster by moreGain of what they could bring | fewer | kept, and more tried
//	more, not faster | fewer | back, and after a rest fewer tried
//	fewer, slower by fewerLoss of what they could cost, or less | more | kept, and fewer tried
//	fewer, slower | more | back, and after a longer rest more tried
//	throttled | - | half of those in use, and for wallLife fewer than there were
type finder struct {
	limit int

	climbing bool      // no trial has failed yet
	down     bool      // the direction of the next trial
	rest     int       // measurements until then
	idle     int       // how long the next rest is
	base     *pace     // of the trial under way: what it is compared with; nil: there is none
	wall     int       // where the service throttled; 0: nowhere
	wallTill time.Time // when that is forgotten

	began   time.Time // requests that began before say nothing
	settled bool      // one that began with these slots was answered
	n       int       // requests measured
	waited  int       // of these, the ones after which another waited while the slots were in use
	sum     time.Duration
}

// pace is what was measured with some slots.
type pace struct {
	slots   int
	latency time.Duration
}

// rate returns how many requests a second that many slots make at that latency.
func (p pace) rate() float64 { return float64(p.slots) / max(p.latency, time.Microsecond).Seconds() }

const (
	moreGain  = 0.3
	fewerLoss = 0.2
	restLeast = 2
	restMost  = 16
	wallLife  = time.Minute
)

func newFinder() *finder { return &finder{limit: firstFound, climbing: true, idle: restLeast} }

// restart begins the search for the best number of slots (requests in flight) anew, with no more
// than firstFound. It is called when the cluster goes down: the measurements of the time before no
// longer hold.
func (f *finder) restart() {
	*f = finder{limit: min(f.limit, firstFound), climbing: true, idle: restLeast}
}

// accepted adds the latency of an accepted request to the measurement of the present number of
// slots, and acts on it once enough requests are measured. waited says that nearly all slots were
// in use and another payload waited for one. The first request that began after the number was
// changed is left out, and so are all that began before its answer.
func (f *finder) accepted(began, now time.Time, waited bool) {
	if began.Before(f.began) {
		return
	}
	if !f.settled {
		f.settled, f.began = true, now
		return
	}
	f.n++
	f.sum += now.Sub(began)
	if waited {
		f.waited++
	}
	enough := max(f.limit, 8)
	if !f.climbing { // the steps are small now, so that a good measurement takes more requests
		enough *= 2
	}
	if f.n < enough {
		return
	}
	got := pace{f.limit, f.sum / time.Duration(f.n)}
	inTheWay := 4*f.waited >= 3*f.n
	f.n, f.waited, f.sum, f.began = 0, 0, 0, now
	f.decide(got, inTheWay, now)
}

// decide ends a measurement: got is the latency with the present number of slots, and inTheWay says
// that payloads waited for slots most of the time. It keeps the number, starts a trial with another
// one, or ends a trial that did not pay and goes back to the number before it, for a rest of f.idle
// measurements. f.base is the measurement that a trial is compared with; nil: there is no trial.
func (f *finder) decide(got pace, inTheWay bool, now time.Time) {
	base := f.base
	f.base = nil
	switch {
	case !inTheWay: // the number of slots is not what limits the rate
		f.rest = 0
	case base == nil && f.rest > 0:
		f.rest--
	case base == nil:
		f.try(got, now)
	case f.pays(*base, got): // the next trial goes on in the same direction
		f.idle = restLeast
		f.try(got, now)
	default: // the next trial, after the rest, goes in the other direction
		f.set(base.slots, now)
		f.climbing = false // steps are a quarter from now on, no doubling
		if f.down {        // neither more nor fewer slots pay: the rests become longer
			f.idle = min(2*f.idle, restMost)
		}
		f.down, f.rest = !f.down, f.idle
	}
}

// pays reports whether a trial is to be kept, from the measurements before (base) and with it
// (got). More slots must bring at least moreGain of the requests a second that they could bring;
// fewer slots (f.down) may cost at most fewerLoss of those that they could cost.
func (f *finder) pays(base, got pace) bool {
	ratio := got.rate() / base.rate()
	change := float64(got.slots)/float64(base.slots) - 1
	if f.down {
		return ratio >= 1+fewerLoss*change
	}
	return ratio >= 1+moreGain*change
}

// try starts a trial with more slots than in base, the measurement of the present number, or with
// fewer if that is the direction (f.down). For wallLife after the service throttled, the number
// stays below that at which it did (f.wall). If the number cannot change in this direction, try
// turns the direction and rests.
func (f *finder) try(base pace, now time.Time) {
	most := MostFound
	if now.After(f.wallTill) {
		f.wall = 0
	} else if f.wall > 0 {
		most = max(f.wall-1, 1)
	}
	next := f.limit + max(f.limit/4, 1)
	switch {
	case f.down:
		next = f.limit - max(f.limit/4, 1)
	case f.climbing:
		next = 2 * f.limit
	}
	if next = min(max(next, 1), most); next == f.limit {
		f.down, f.rest = !f.down, f.idle
		return
	}
	f.base = &base
	f.set(next, now)
}

// set changes the number of slots and starts a new measurement with it.
func (f *finder) set(limit int, now time.Time) {
	f.limit, f.began, f.settled = limit, now, false
	f.n, f.waited, f.sum = 0, 0, 0
}

// throttled is called after a 429 with inUse requests in flight: it ends the trial under way,
// halves the number of slots that were in use, and keeps the number below them for wallLife.
func (f *finder) throttled(inUse int, now time.Time) {
	inUse = min(f.limit, max(inUse, 1))
	f.wall, f.wallTill = inUse, now.Add(wallLife)
	f.base, f.climbing, f.down, f.rest = nil, false, false, 0
	f.set(max(inUse/2, 1), now)
}
