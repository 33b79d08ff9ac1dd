package fleet

import (
	"fmt"
	"testing"
	"time"
)

// small is a fleet whose service takes six times what is made while it is there: after
// the outage it would need a fifth of that to catch up if no request came in vain.
func small(p Policy, seed uint64) Fleet {
	return Fleet{
		Agents: 60, Policy: p, Seed: seed, Outage: 20 * time.Minute, Every: 20 * time.Second, Limit: time.Hour,
		Slots: 2, Takes: 100 * time.Millisecond,
	}
}

// TestFleetCatchesUp: a throttled service is asked less than three times for each payload
// that it stores, no agent is left behind, and all of them are done within twice the time
// that the service needs for its work alone.
func TestFleetCatchesUp(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 5 * time.Second} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("Retry-After %v, seed %d", after, seed), func(t *testing.T) {
				t.Parallel()
				f := small(Ours, seed)
				f.RetryAfter = after
				h := f.Play()
				if len(h.Done) != f.Agents {
					t.Fatalf("%d of %d agents have delivered what they made in the outage", len(h.Done), f.Agents)
				}
				if each := float64(h.Requests) / float64(h.Accepted); each > 3 {
					t.Errorf("%.1f requests for each payload", each)
				}
				if most := 2 * f.Ideal(h); h.Done[f.Agents-1] > most {
					t.Errorf("the last agent is done after %v, want %v at most", h.Done[f.Agents-1], most)
				}
				if h.Fairness < 0.6 {
					t.Errorf("fairness %.2f when half is stored", h.Fairness)
				}
				if most := f.Agents * int(f.Outage/(20*time.Second)); h.Probes > most {
					t.Errorf("%d requests while the service was away, want %d at most", h.Probes, most)
				}
			})
		}
	}
}

// TestFleetAsksLessThanPlainRetries: what the policies are compared for.
func TestFleetAsksLessThanPlainRetries(t *testing.T) {
	t.Parallel()
	ours := small(Ours, 1).Play()
	for _, p := range []Policy{Plain, Even} {
		h := small(p, 1).Play()
		if len(h.Done) < 60 {
			t.Errorf("policy %d: %d agents are done", p, len(h.Done))
		}
		if ours.Requests > h.Requests || 4*ours.Probes > h.Probes {
			t.Errorf("policy %d: %d requests and %d in the outage; ours are %d and %d", p, h.Requests, h.Probes, ours.Requests, ours.Probes)
		}
	}
}

// TestSameFleetSameHistory: a seed stands for a history.
func TestSameFleetSameHistory(t *testing.T) {
	t.Parallel()
	f := small(Ours, 3)
	f.Agents, f.Outage = 20, 5*time.Minute
	if a, b := fmt.Sprint(*f.Play()), fmt.Sprint(*f.Play()); a != b {
		t.Errorf("two histories of one fleet:\n%s\n%s", a, b)
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		all  []int
		want float64
	}{{[]int{3, 3, 3, 3}, 1}, {[]int{4, 0, 0, 0}, 0.25}, {[]int{0, 0}, 1}, {[]int{2, 2, 0, 0}, 0.5}} {
		if got := jain(c.all); got != c.want {
			t.Errorf("%v: %v, want %v", c.all, got, c.want)
		}
	}
}
