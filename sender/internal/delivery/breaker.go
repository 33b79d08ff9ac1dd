package delivery

import (
	"time"

	"kusto-agent/internal/kusto"
)

// breaker is the circuit breaker of a route or a cluster: whether it is up, down
// or held, and when it may next be probed if it is not up.
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

func (b *breaker) blocked() bool { return b.down || b.hold != nil }

// began notes that a request leaves, and starts patience if no other request had started
// it.
func (b *breaker) began(now time.Time) {
	b.asking++
	if b.wanted.IsZero() {
		b.wanted = now
	}
}

// excuse takes back the patience that a request started at began: it failed for its own
// reason. Patience starts anew at now if other requests are under way.
func (b *breaker) excuse(began, now time.Time) {
	if !b.wanted.Equal(began) {
		return
	}
	b.wanted = time.Time{}
	if b.asking > 0 {
		b.wanted = now
	}
}

// succeeded notes that the service accepted a payload or answered soundly, and ends
// failures, hold and patience. It reports whether there was something to end.
func (b *breaker) succeeded(now time.Time) (recovered bool) {
	recovered = b.blocked()
	b.down, b.hold, b.failures, b.probes, b.told, b.last = false, nil, 0, 0, "", nil
	b.wanted, b.gate = time.Time{}, time.Time{}
	if b.asking > 0 {
		b.wanted = now
	}
	return recovered
}

// deadline is when the breaker opens unless the service accepts something before; zero: no
// request is waited for, or it is open.
func (b *breaker) deadline(patience time.Duration) time.Time {
	if b.down || b.wanted.IsZero() {
		return time.Time{}
	}
	return b.wanted.Add(patience)
}

// refuse holds the breaker for a refusal that a person has to fix, and sets when the next
// probe is made. It reports whether the hold, or its reason, is new.
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

// state names the state for status and metrics.
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

// earlier returns the earlier of two times; zero stands for never.
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
