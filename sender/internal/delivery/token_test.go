package delivery

import (
	"math/rand/v2"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
)

// Data flows within 30 s of the return of an authority that was away, however the waits
// are drawn and whatever retry.max is.
func TestTokenIsThereSoon(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t)
		settings := b.m.settings
		settings.Max = []time.Duration{30 * time.Second, 5 * time.Minute}[seed%2]
		b.m = New(settings, []Target{{"c", "http://c"}}, seed)
		b.do(Start{})
		back := b.now.Add(2*time.Minute + time.Duration(rng.Int64N(int64(3*time.Minute))))
		var after time.Time // as kusto.Tokens has it
		var pause time.Duration
		var took time.Duration
		pending := b.do(Take{Data: b.data("A", 1)})
		for i := 0; took == 0; {
			for len(pending) > 0 && took == 0 {
				a := pending[0]
				pending = pending[1:]
				switch a := a.(type) {
				case Request:
					b.ask(a.P)
					pending = append(pending, b.actions...)
					switch {
					case !b.now.Before(after) && !b.now.Before(back):
						took = b.now.Sub(back)
						continue
					case !b.now.Before(after):
						pause = min(max(2*pause, 500*time.Millisecond), 15*time.Second)
						after = b.now.Add(pause - time.Duration(rng.Int64N(int64(pause/5))))
					}
					wait := after.Sub(b.now)
					pending = append(pending, b.do(Answered{a.P, kusto.Answer{Verdict: kusto.Auth, RetryAfter: wait,
						Err: &kusto.Error{NoToken: true, Status: 503, RetryAfter: wait}}})...)
				case Spill:
					pending = append(pending, b.do(Spilled{P: a.P, Result: NoRoom})...)
				}
			}
			if took > 0 {
				break
			}
			at := b.m.Alarm()
			if i++; i < 5 { // tables that come later
				at = b.now.Add(time.Duration(rng.Int64N(int64(30 * time.Second))))
				b.now = at
				pending = b.do(Take{Data: b.data(string(rune('A'+i)), 1)})
				continue
			}
			if at.IsZero() {
				t.Fatalf("seed %d: nothing is due", seed)
			}
			b.now = at
			pending = b.do(Tick{})
		}
		if took > 30*time.Second {
			t.Errorf("seed %d: a token %v after the authority is back", seed, took)
		}
	}
}
