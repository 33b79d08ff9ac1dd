package sender

import (
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// newBackoff is the schedule of attempts: from initial to max with jitter,
// and no end. The library would give up after 15 minutes.
func newBackoff(r Retry) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(r.Initial.D()),
		backoff.WithMaxInterval(r.Max.D()),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0),
	)
}

// after is the next wait of a schedule, and no less than the service asked.
func after(b *backoff.ExponentialBackOff, asked time.Duration) time.Duration {
	return max(b.NextBackOff(), asked)
}

// pace knows whether a route or a cluster answers, and when it may next be
// asked if it does not.
type pace struct {
	retry  Retry
	wanted time.Time // start of the first attempt since the last acceptance; zero: none
	down   bool      // wanted for patience or longer
	hold   *Hold     // refused for a reason that only a person can mend
	gate   time.Time // while down or held: the next probe
	probe  *backoff.ExponentialBackOff

	asking   int    // requests that are not answered
	failures int    // since the last acceptance
	told     string // the last failure that was logged, in short
	last     error  // and in its own words
}

func newPace(r Retry) pace { return pace{retry: r, probe: newBackoff(r)} }

func (p *pace) blocked() bool { return p.down || p.hold != nil }

// began notes that a request is wanted.
func (p *pace) began(now time.Time) {
	p.asking++
	if p.wanted.IsZero() {
		p.wanted = now
	}
}

// succeeded notes an acceptance, or an answer that proves the service well. It
// reports whether this ended a bad time.
func (p *pace) succeeded(now time.Time) (recovered bool) {
	recovered = p.blocked()
	p.down, p.hold, p.failures, p.told, p.last = false, nil, 0, "", nil
	p.wanted, p.gate = time.Time{}, time.Time{}
	if p.asking > 0 {
		p.wanted = now
	}
	p.probe.Reset()
	return recovered
}

// overdue turns to down once nothing was accepted for patience. It reports
// whether that is new.
func (p *pace) overdue(now time.Time) bool {
	if p.down || p.wanted.IsZero() || now.Sub(p.wanted) < p.retry.Patience.D() {
		return false
	}
	p.down = true
	p.gate = now.Add(p.probe.NextBackOff())
	return true
}

// failed notes that a request was not accepted.
func (p *pace) failed(now time.Time, asked time.Duration) {
	p.failures++
	if p.down {
		p.gate = now.Add(after(p.probe, asked))
	}
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
// refusal, so the asking stays frequent; later it becomes rare.
const (
	holdFirst  = 10 * time.Second
	holdSteady = 10 * time.Minute
	holdMost   = 15 * time.Minute
)

// held notes a refusal. It reports whether the hold, or its reason, is new.
func (p *pace) held(now time.Time, h Hold, asked time.Duration) bool {
	p.failures++
	isNew := p.hold == nil || p.hold.Code != h.Code || p.hold.Message != h.Message
	h.Since = now
	if p.hold != nil {
		h.Since = p.hold.Since
	}
	p.hold = &h
	wait := holdFirst
	if age := now.Sub(h.Since); age > holdSteady && !h.Local {
		wait = min(age/8, holdMost)
	}
	wait += time.Duration(rand.Int64N(int64(wait / 10)))
	p.gate = now.Add(max(wait, asked))
	return isNew
}
