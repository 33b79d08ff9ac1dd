package delivery

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// shop is a service and its customer in one history without a clock: payloads are made
// at some rate, as far as there is credit for them, and each request spends its
// time on the way and then with one of the servers.
type shop struct {
	distance func(at time.Duration) time.Duration // of each request, by when it begins
	servers  int                                  // requests that are worked on at once; 0: all of them
	serve    time.Duration                        // for each
	jitter   float64                              // the part of serve and distance that is random
	busy     int                                  // most requests under way, above it they are throttled; 0: all are taken
	make     time.Duration                        // between two payloads; 0: there is always one
	pass     time.Duration                        // between two requests that send.rate_limit lets pass; 0: it lets all
	tables   int
}

type visit struct {
	at       time.Duration
	p        *Payload // nil: one is to be made
	leaves   bool     // send.rate_limit lets it pass now
	throttle bool
}

type visits []visit

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].at < v[j].at }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(visit)) }
func (v *visits) Pop() any {
	x := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return x
}

// outcome is what a history came to.
type outcome struct {
	accepted  [2]int // before and after half of the time
	throttled int
	limits    []int // each second
}

// run plays a history so long with so many slots.
func (s shop) run(seed uint64, concurrency int, length time.Duration) (out outcome) {
	rng := rand.New(rand.NewPCG(seed, 3))
	start := time.Unix(1_000_000, 0)
	m := New(Settings{Concurrency: concurrency, Initial: 500 * time.Millisecond, Max: 30 * time.Second, Patience: 10 * time.Second}, []Target{{"c", "http://c"}}, seed)
	c := m.clusters["http://c"]
	var now time.Duration
	var due visits
	var id uint64
	free := make([]time.Duration, s.servers) // when each server is
	inHand, underway := make([]int, s.tables), 0
	var passed time.Duration // when the last request is let pass
	table := func(p *Payload) *int { return &inHand[int(p.Data.Route.Table[0]-'A')] }
	random := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * (1 + s.jitter*rng.NormFloat64()/2 + s.jitter*s.jitter/8))
	}
	var apply func(e Event)
	begin := func(p *Payload) {
		p.Data.Attempt++
		apply(Asked{p})
		underway++
		v := visit{at: now + max(random(s.distance(now)), 100*time.Microsecond), p: p}
		if v.throttle = s.busy > 0 && underway > s.busy; !v.throttle && s.servers > 0 {
			first := 0
			for i := range free {
				if free[i] < free[first] {
					first = i
				}
			}
			free[first] = max(free[first], v.at) + max(random(s.serve), 100*time.Microsecond)
			v.at = free[first]
		}
		heap.Push(&due, v)
	}
	apply = func(e Event) {
		for _, a := range append([]Action(nil), m.Apply(start.Add(now), e)...) {
			switch a := a.(type) {
			case Request:
				if s.pass == 0 {
					begin(a.P)
					continue
				}
				passed = max(passed+s.pass, now)
				heap.Push(&due, visit{at: passed, p: a.P, leaves: true})
			case End:
				*table(a.P)--
				apply(Ended{a.P})
			}
		}
	}
	supply := func(most int) {
		for range most {
			fewest := 0
			for i := range inHand {
				if inHand[i] < inHand[fewest] {
					fewest = i
				}
			}
			r := record.Route{Cluster: "http://c", Table: string(rune('A' + fewest))}
			if credit, _ := m.Credit(r); inHand[fewest] >= credit {
				return
			}
			id++
			inHand[fewest]++
			data := &record.Payload{Route: r, Records: 1}
			for i := range 8 {
				data.ID[i] = byte(id >> (8 * i))
			}
			apply(Take{Data: data})
		}
	}
	apply(Start{})
	if s.make > 0 {
		heap.Push(&due, visit{})
	}
	for now < length {
		if s.make == 0 {
			supply(math.MaxInt)
		}
		alarm := m.Alarm()
		if len(due) == 0 && alarm.IsZero() {
			return out // nothing will ever happen
		}
		if len(due) == 0 || !alarm.IsZero() && alarm.Before(start.Add(due[0].at)) {
			now = max(now, alarm.Sub(start))
			apply(Tick{})
			continue
		}
		v := heap.Pop(&due).(visit)
		for sec := len(out.limits); time.Duration(sec)*time.Second <= v.at; sec++ {
			out.limits = append(out.limits, c.limit)
		}
		now = v.at
		switch {
		case v.p == nil:
			supply(1)
			heap.Push(&due, visit{at: now + s.make})
		case v.leaves:
			begin(v.p)
		case v.throttle:
			underway--
			out.throttled++
			apply(Answered{v.p, said(kusto.Throttled, 429)})
		default:
			underway--
			out.accepted[min(1, 2*int(now/time.Millisecond)/int(length/time.Millisecond))]++
			apply(Answered{v.p, good})
		}
	}
	return out
}

func always(d time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return d }
}

const ms = time.Millisecond

// With what it finds by itself the agent gets through what it does with the best
// number there is, less a tenth, whatever sets the bound: the distance, the service,
// or its own processor.
func TestFoundIsAsGoodAsTheBest(t *testing.T) {
	shops := map[string]shop{}
	for name, d := range map[string]time.Duration{"no distance": 0, "10 ms": 10 * ms, "50 ms": 50 * ms, "200 ms": 200 * ms} {
		shops[name] = shop{distance: always(d), make: 9 * ms, tables: 1}
		shops[name+", 20 tables"] = shop{distance: always(d), make: 9 * ms, tables: 20}
		shops[name+", unsteady"] = shop{distance: always(d), jitter: 0.5, make: 5 * ms, tables: 1}
		shops[name+", 3 servers"] = shop{distance: always(d), servers: 3, serve: 40 * ms, jitter: 0.2, tables: 1}
		shops[name+", 30 servers"] = shop{distance: always(d), servers: 30, serve: 150 * ms, jitter: 0.2, tables: 3}
		shops[name+", one line"] = shop{distance: always(d), servers: 1, serve: 9 * ms, tables: 1}
	}
	for name, s := range shops {
		t.Run(name, func(t *testing.T) {
			best, with := 0, 0
			for _, n := range []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128} {
				if got := s.run(1, n, 6*time.Second); got.accepted[1] > best {
					best, with = got.accepted[1], n
				}
			}
			// The second half of a longer time: what it does once it has found them.
			got := s.run(2, Found, 24*time.Second)
			t.Logf("%.1f/s, %.1f with %d slots: %.2f of it; slots %v", float64(got.accepted[1])/12, float64(best)/3, with,
				float64(got.accepted[1])/float64(4*best), got.limits[len(got.limits)-1])
			if 10*got.accepted[1] < 4*9*best {
				t.Errorf("%d accepted in 12 s, %d with %d slots; slots by the second: %v", got.accepted[1], 4*best, with, got.limits)
			}
		})
	}
}

// The slots follow what they find: no more than pay, no more than there may be, and
// others when things change.
func TestFoundFollows(t *testing.T) {
	for _, c := range []struct {
		name        string
		shop        shop
		least, most int // from a third of the time on
	}{
		{"a slow agent needs no more", shop{distance: always(10 * ms), make: 9 * ms, tables: 1}, firstFound, firstFound},
		{"so does one that uses nearly all", shop{distance: always(70 * ms), make: 10 * ms, tables: 1}, firstFound, firstFound},
		{"send.rate_limit needs no more", shop{distance: always(10 * ms), pass: 9 * ms, tables: 1}, firstFound, firstFound},
		{"a slow service gets no more than it works on", shop{distance: always(ms), servers: 3, serve: 40 * ms, jitter: 0.2, tables: 1}, 2, 6},
		{"one that takes one at a time", shop{distance: always(0), servers: 1, serve: 10 * ms, tables: 1}, 1, 3},
		{"there is a most", shop{distance: always(100 * ms), tables: 1}, MostFound * 3 / 4, MostFound},
		{"a service that throttles", shop{distance: always(50 * ms), busy: 20, tables: 1}, 15, 21},
		{"one that throttles all but one", shop{distance: always(50 * ms), busy: 1, tables: 1}, 1, 2},
		{"a service that moves away", shop{distance: func(at time.Duration) time.Duration {
			if at < 2*time.Second {
				return 5 * ms
			}
			return 100 * ms
		}, make: 5 * ms, tables: 1}, 20, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.shop.run(1, Found, 24*time.Second)
			if got.accepted[1] == 0 {
				t.Fatal("nothing was accepted")
			}
			settled := got.limits[len(got.limits)/3:]
			if slices.Min(settled) < c.least || slices.Max(settled) > c.most {
				t.Errorf("slots by the second are %v, want %d to %d", settled, c.least, c.most)
			}
		})
	}
}

// lap has the finder measure n requests of the given latency, one after the other, and
// returns its slots.
func (b *finding) lap(n int, latency time.Duration, waited bool) int {
	for range n {
		began := b.now
		b.now = b.now.Add(latency)
		b.f.accepted(began, b.now, waited)
	}
	return b.f.limit
}

type finding struct {
	f   *finder
	now time.Time
}

// Rows of the table at finder.
func TestFinder(t *testing.T) {
	const settle = 1 // request that begins with other slots
	for _, c := range []struct {
		name string
		run  func(b *finding) int
		want int
	}{
		{"nothing waited", func(b *finding) int { return b.lap(100, ms, false) }, 8},
		{"too few were measured", func(b *finding) int { return b.lap(settle+7, ms, true) }, 8},
		{"slots in the way", func(b *finding) int { return b.lap(settle+8, ms, true) }, 16},
		{"more, faster", func(b *finding) int { b.lap(settle+8, ms, true); return b.lap(settle+16, ms, true) }, 32},
		{"more, a little faster", func(b *finding) int { b.lap(settle+8, 10*ms, true); return b.lap(settle+16, 15*ms, true) }, 32},
		{"more, not faster", func(b *finding) int { b.lap(settle+8, ms, true); return b.lap(settle+16, 2*ms, true) }, 8},
		{"more, and nothing waits any longer", func(b *finding) int { b.lap(settle+8, ms, true); return b.lap(settle+16, 2*ms, false) }, 16},
		{"it rests before it tries fewer", func(b *finding) int {
			b.lap(settle+8, ms, true)
			b.lap(settle+16, 2*ms, true)
			return b.lap(settle+2*16, ms, true)
		}, 8},
		{"then it tries fewer", func(b *finding) int {
			b.lap(settle+8, ms, true)
			b.lap(settle+16, 2*ms, true)
			return b.lap(settle+3*16, ms, true)
		}, 6},
		{"fewer, not slower", func(b *finding) int {
			b.f.climbing, b.f.down = false, true
			b.lap(settle+16, 8*ms, true)
			return b.lap(settle+16, 6*ms, true)
		}, 5},
		{"fewer, slower", func(b *finding) int {
			b.f.climbing, b.f.down = false, true
			b.lap(settle+16, 8*ms, true)
			return b.lap(settle+16, 8*ms, true)
		}, 8},
		{"never less than one", func(b *finding) int {
			b.f.climbing, b.f.down, b.f.limit = false, true, 1
			return b.lap(settle+3*16-1, ms, true)
		}, 1},
		{"never more than the most", func(b *finding) int {
			b.f.limit = 100
			return b.lap(settle+100, ms, true)
		}, MostFound},
		{"throttled", func(b *finding) int { b.f.throttled(8, b.now); return b.f.limit }, 4},
		{"throttled with few in use", func(b *finding) int { b.f.limit = 64; b.f.throttled(6, b.now); return b.f.limit }, 3},
		{"throttled with one", func(b *finding) int { b.f.throttled(1, b.now); return b.f.limit }, 1},
		{"not where it was throttled", func(b *finding) int {
			b.f.limit = 5
			b.f.throttled(5, b.now)
			b.lap(200, ms, true)
			return b.f.limit
		}, 4},
		{"until that is forgotten", func(b *finding) int {
			b.f.limit = 5
			b.f.throttled(5, b.now)
			b.lap(200, ms, true)
			b.now = b.now.Add(wallLife)
			b.lap(1000, ms, true)
			return min(b.f.limit, 5)
		}, 5},
		{"what began before says nothing", func(b *finding) int {
			b.lap(settle+8, ms, true)
			for range 100 {
				b.f.accepted(b.f.began.Add(-1), b.now.Add(time.Hour), true)
			}
			return b.f.limit
		}, 16},
		{"away and back", func(b *finding) int { b.f.limit = 100; b.f.restart(); return b.f.limit }, firstFound},
		{"away and back with few", func(b *finding) int { b.f.limit = 2; b.f.restart(); return b.f.limit }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.run(&finding{newFinder(), time.Unix(1000, 0)}); got != c.want {
				t.Errorf("%d slots, want %d", got, c.want)
			}
		})
	}
}

// A cluster that goes down begins anew, and so does one whose slots are to be found
// from now on; where they are configured again they are what is configured.
func TestFoundAndConfigured(t *testing.T) {
	b := newBench(t)
	c := b.m.clusters["http://c"]
	set := func(n int) {
		s := b.m.settings
		s.Concurrency = n
		b.do(Configure{s, []Target{{"c", "http://c"}}})
	}
	set(40)
	if set(Found); c.limit != firstFound || c.most != MostFound {
		t.Errorf("%d of %d slots, want %d of %d", c.limit, c.most, firstFound, MostFound)
	}
	if set(20); c.limit != 20 || c.finder != nil {
		t.Errorf("%d slots, want 20", c.limit)
	}
	set(Found)
	c.finder.limit, c.limit = 100, 100
	if set(Found); c.limit != 100 {
		t.Errorf("a configuration that says the same left %d slots, want 100", c.limit)
	}
	b.outage("T")
	if c.limit != firstFound {
		t.Errorf("%d slots after an outage, want %d", c.limit, firstFound)
	}
	if set(3); c.limit != 3 || c.most != 3 {
		t.Errorf("%d of %d slots, want 3 of 3", c.limit, c.most)
	}
}
