package delivery

import (
	"time"

	"kusto-agent/internal/kusto"
)

// breaker is the circuit breaker of a route or a cluster: whether it is up, down or held, and when it
// may next be probed if it is not up. It is up if down is false and hold is nil, down after failures
// for as long as patience, and held after a refusal that a person has to fix.
type breaker struct {
	wanted time.Time // begin of the first request since the last acceptance that failed or has no answer; zero: none
	down   bool      // wanted for patience or longer
	hold   *Hold     // refused for a reason that only a person can mend; nil: no
	gate   time.Time // while down or held: the next probe
	probes int       // failed since it went down

	asking   int          // requests that count and have no answer
	failures int          // since the last acceptance
	told     string       // the last failure that was told, in short
	last     *kusto.Error // the same in the service's words
}

// Hold is why a route or a cluster is not asked at full rate: the service
// refuses it for a reason outside the payloads, or something on this machine is in
// the way of what it refused.
type Hold struct {
	Since   time.Time
	Local   bool // it is something on this machine
	Refused bool // it is who asks, which is final for run --once
	Status  int
	Code    string
	Message string
	Fix     string

	Activity string // the service's name for the request; empty: it gave none
}

// Cool-downs of a hold. For the first minutes a schema cache may explain the
// refusal, so that probes are frequent; later they become rare.
const (
	holdFirst       = 10 * time.Second
	holdCredentials = 30 * time.Second
	holdSteady      = 10 * time.Minute
	holdMost        = 15 * time.Minute
)

// blocked reports whether the route or cluster is down or held, so that only probes are sent.
func (b *breaker) blocked() bool { return b.down || b.hold != nil }

// began counts a request that leaves now and has no answer yet. Patience, the time after which a
// route or cluster that accepts nothing is down, runs from the first such request.
func (b *breaker) began(now time.Time) {
	b.asking++
	if b.wanted.IsZero() {
		b.wanted = now
	}
}

// excuse removes the effect on patience of a request that failed through the fault of its payload. If
// patience runs since that request, which began at the time began, it runs from now if other requests
// have no answer yet, and otherwise not at all.
func (b *breaker) excuse(began, now time.Time) {
	if !b.wanted.Equal(began) {
		return
	}
	b.wanted = time.Time{}
	if b.asking > 0 {
		b.wanted = now
	}
}

// succeeded resets the breaker after an acceptance, or another answer that shows that the service
// works, and returns true if the route or cluster was down or held before. Patience begins anew if
// other requests have no answer yet.
func (b *breaker) succeeded(now time.Time) (recovered bool) {
	recovered = b.blocked()
	b.down, b.hold, b.failures, b.probes, b.told, b.last = false, nil, 0, 0, "", nil
	b.wanted, b.gate = time.Time{}, time.Time{}
	if b.asking > 0 {
		b.wanted = now
	}
	return recovered
}

// deadline returns when the route or cluster goes down unless a payload is accepted before; zero if it
// is down already, or if patience does not run.
func (b *breaker) deadline(patience time.Duration) time.Time {
	if b.down || b.wanted.IsZero() {
		return time.Time{}
	}
	return b.wanted.Add(patience)
}

// refuse holds the route or cluster for the reason h, and sets the time of the next probe: after a
// cool-down that grows with the age of the hold, and not before wait is over. It returns true if it
// was not held, or for another reason, so that the caller logs it once.
func (b *breaker) refuse(now time.Time, h Hold, wait time.Duration, jitter func(time.Duration) time.Duration) bool {
	b.failures++
	isNew := b.hold == nil || b.hold.Code != h.Code || b.hold.Message != h.Message
	h.Since = now
	if b.hold != nil {
		h.Since = b.hold.Since
	}
	b.hold = &h
	cool := holdFirst
	if age := now.Sub(h.Since); age > holdSteady && !h.Local {
		cool = min(age/8, holdMost)
	}
	b.gate = now.Add(max(cool+jitter(cool/10), wait))
	return isNew
}

// state returns the word for status and metrics: held, down, retrying or up.
func (b *breaker) state() string {
	switch {
	case b.hold != nil:
		return "held"
	case b.down:
		return "down"
	case b.failures > 0:
		return "retrying"
	}
	return "up"
}

// earlier returns the earlier of two times, of which zero stands for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two times; zero stands for long ago.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
