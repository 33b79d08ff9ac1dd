package delivery

import (
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// Settings hold at once, also for a cluster that is throttled: it has to earn more.
func TestConcurrencyFollowsTheConfiguration(t *testing.T) {
	for _, c := range []struct{ limit, to, want int }{{8, 16, 16}, {4, 20, 4}, {4, 3, 3}, {1, 1, 1}} {
		b := newBench(t)
		cl := b.m.clusters["http://c"]
		cl.limit = c.limit
		s := b.m.settings
		s.Concurrency = c.to
		b.do(Configure{s, []Target{{"c", "http://c"}}})
		if cl.limit != c.want || cl.most != c.to {
			t.Errorf("%d of 8 becomes %d of %d, want %d of %d", c.limit, cl.limit, cl.most, c.want, c.to)
		}
	}
}

// The wait after a failure doubles from initial to max and never exceeds it.
func TestDelay(t *testing.T) {
	b := newBench(t)
	for n, most := range []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		for range 100 {
			if d := b.m.delay(n); n > 0 && (d < most/2 || d > most) {
				t.Fatalf("%v after %d failures, want %v to %v", d, n, most/2, most)
			}
		}
	}
	if d := b.m.delay(1 << 20); d > 30*time.Second {
		t.Errorf("%v after a million failures", d)
	}
}

// serveAll answers the requests of the last actions at once, and those that follow,
// and counts them by table and origin.
func (b *bench) serveAll(rounds int, stock map[string]int, seen map[string]int) {
	pending := b.actions
	for len(pending) > 0 && rounds > 0 {
		a := pending[0]
		pending = pending[1:]
		switch a := a.(type) {
		case Request:
			rounds--
			p := a.P
			from := "/fresh"
			if p.Place.InSpool() {
				from = "/spool"
			}
			seen[p.Data.Route.Table+from]++
			p.Data.Attempt++
			b.do(Asked{p})
			pending = append(pending, b.actions...)
			b.do(Answered{p, good})
			pending = append(pending, b.actions...)
		case Fetch:
			r := a.Ticket.Route()
			stock[r.Table]--
			d := b.data(r.Table, 1)
			b.do(Fetched{Ticket: a.Ticket, Data: d, Frame: d.ID, Stock: Stock{Ready: stock[r.Table]}})
			pending = append(pending, b.actions...)
		case End:
			b.do(Ended{a.P})
			pending = append(pending, b.actions...)
		}
	}
}

// Routes take turns, and in each what is in hand with what is in the spool.
func TestTurns(t *testing.T) {
	b := newBench(t)
	tables := []string{"A", "B", "C", "D"}
	var first []Action
	for _, table := range tables {
		for range 200 {
			first = append(first, b.do(Take{Data: b.data(table, 1)})...)
		}
		first = append(first, b.do(Restock{record.Route{Cluster: "http://c", Table: table}, Stock{Ready: 200}})...)
	}
	seen, stock := map[string]int{}, map[string]int{"A": 200, "B": 200, "C": 200, "D": 200}
	b.actions = first
	b.serveAll(800, stock, seen)
	for _, table := range tables {
		fresh, spool := seen[table+"/fresh"], seen[table+"/spool"]
		if fresh < 80 || spool < 80 {
			t.Errorf("%s: %d requests for what is in hand and %d for what is in the spool, of 200", table, fresh, spool)
		}
	}
}

// A route that fails and is not down says when its next request is due, also when that is
// after a pause, and says no time while the request is in flight or once it was accepted.
func TestNextTry(t *testing.T) {
	b := newBench(t)
	next := func() time.Time { return b.m.Routes(nothingWaits)[0].NextTry }
	b.do(Take{Data: b.data("T", 1)})
	p := find[Request](b).P
	if at := next(); !at.IsZero() {
		t.Errorf("in flight the next try is at %v", at)
	}
	b.do(Asked{p})
	b.do(Answered{p, said(kusto.Retry, 500)})
	if r := b.m.Routes(nothingWaits)[0]; r.State != "retrying" || !r.NextTry.Equal(p.notBefore) || !r.NextTry.After(b.now) {
		t.Errorf("%s, next try %v, want retrying and %v", r.State, r.NextTry, p.notBefore)
	}
	b.m.all[0].paused = b.now.Add(time.Hour)
	if at := next(); !at.Equal(b.now.Add(time.Hour)) {
		t.Errorf("paused, the next try is at %v", at)
	}
	b.m.all[0].paused = time.Time{}
	b.now = p.notBefore
	b.do(Tick{})
	b.do(Asked{p})
	b.do(Answered{p, good})
	if r := b.m.Routes(nothingWaits)[0]; r.State != "up" || !r.NextTry.IsZero() {
		t.Errorf("%s, next try %v, want up and none", r.State, r.NextTry)
	}
}

// A route that is down with nothing but payloads in memory is not probed twice in a
// row with the same one.
func TestProbesInMemoryTakeTurns(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.do(Take{Data: b.data("T", 1)})
		p := find[Request](b).P
		b.ask(p)
		b.do(Answered{p, said(kusto.NotSent, 0)})
	}
	b.do(SpoolIs{Sick})
	var last *Payload
	probes := 0
	for range 400 {
		b.wait(time.Second)
		for _, a := range b.actions {
			switch a := a.(type) {
			case CheckSpool:
				b.do(SpoolIs{Sick})
			case Request:
				p := a.P
				b.ask(p)
				if p.route.isDown() {
					if probes++; p == last {
						t.Fatal("the same payload is probed twice in a row")
					}
					last = p
				}
				b.do(Answered{p, said(kusto.NotSent, 0)})
			}
		}
	}
	if probes < 10 {
		t.Errorf("%d probes in 400 s", probes)
	}
}

// A refused token is renewed once for all requests that had it.
func TestATokenIsRenewedOnceForAllRequests(t *testing.T) {
	b := newBench(t)
	var all []*Payload
	for range 4 {
		all = append(all, b.sending("T", 1))
	}
	b.now = b.now.Add(time.Second)
	for _, p := range all {
		b.do(Answered{p, said(kusto.Auth, 401)})
		find[Request](b)
	}
	for _, p := range all {
		b.ask(p)
		b.do(Answered{p, good})
		b.do(Ended{p})
	}
	if b.m.clusters["http://c"].hold != nil {
		t.Error("the cluster is held")
	}
}

// A payload on its way out of the spool is in progress, though it is neither in the spool
// nor in hand.
func TestFetchingIsProgress(t *testing.T) {
	b := newBench(t)
	b.do(Restock{record.Route{Cluster: "http://c", Table: "T"}, Stock{Ready: 1}})
	find[Fetch](b)
	p := b.m.Progress(b.now, time.Minute, nothingWaits) // it was taken out
	if p.Left+p.Spooled != 0 || p.Fetching != 1 || p.Stuck {
		t.Errorf("progress %+v", p)
	}
}

// What ended leaves nothing behind.
func TestNothingIsLeftBehind(t *testing.T) {
	b := newBench(t)
	p := b.replayed("T", 1)
	for range 5 {
		b.accepts("T")
		b.do(Answered{p, said(kusto.Retry, 500)})
		b.do(Returned{p})
		b.wait(31 * time.Second)
		b.do(Fetched{Ticket: find[Fetch](b).Ticket, Data: p.Data, Frame: p.Frame})
		if len(b.actions) == 1 {
			if _, back := b.actions[0].(Return); back {
				t.Fatal("it went back without a request")
			}
		}
		p = find[Request](b).P
		b.ask(p)
	}
	r := p.route
	if len(r.memos) != 1 || len(r.alone) != 1 {
		t.Errorf("%d memos, %d alone, want one each", len(r.memos), len(r.alone))
	}
	b.do(Answered{p, good})
	b.do(Ended{p})
	if len(r.memos)+len(r.alone)+r.queued+r.busy+r.inflight+r.tickets+r.asking != 0 || r.cluster.replaying+r.cluster.suspects+r.cluster.asking != 0 {
		t.Errorf("left: %+v, %+v", r, r.cluster)
	}
}

// A held route that is probed with a payload that hangs takes no turn from the suspects
// of other routes.
func TestProbesTakeNoTurnOfSuspects(t *testing.T) {
	b := newBench(t)
	fails := func(p *Payload, after time.Duration, ans kusto.Answer) *Ticket {
		for ; after > 0; after -= 5 * time.Second {
			b.wait(5 * time.Second)
			b.accepts("C")
		}
		b.do(Answered{p, ans})
		b.do(Returned{p})
		for range 31 {
			b.wait(time.Second)
			for _, a := range b.actions {
				if f, ok := a.(Fetch); ok {
					return f.Ticket
				}
			}
		}
		t.Fatal("it is not fetched again")
		return nil
	}
	suspect := func(table string) (*Payload, *Ticket) {
		p := b.replayed(table, 1)
		b.accepts(table)
		return p, fails(p, 0, said(kusto.Retry, 500))
	}
	again := func(p *Payload, t *Ticket) *Payload {
		b.do(Fetched{Ticket: t, Data: p.Data, Frame: p.Frame})
		p = find[Request](b).P
		b.ask(p)
		return p
	}
	other, turn := suspect("B")
	hangs, probe := suspect("A")
	hangs = again(hangs, probe)
	probe = fails(hangs, 0, said(kusto.Hold, 400))
	hangs = again(hangs, probe)
	fails(hangs, time.Minute, said(kusto.Unknown, 0))
	if s := hangs.route.state(); s != "held" {
		t.Fatalf("the route is %s", s)
	}
	again(other, turn)
}

// A payload that is known stays known when its route can remember no other.
func TestMemosAreRenewedAtTheirBound(t *testing.T) {
	b := newBench(t)
	p := b.replayed("T", 1)
	r := p.route
	fails := func() {
		b.accepts("T")
		b.do(Answered{p, said(kusto.Retry, 500)})
		b.do(Returned{p})
	}
	fails()
	for i := range maxMemos {
		r.memos[record.BatchID{1, byte(i >> 8), byte(i), 255}] = memo{trials: trials{failures: 1}}
	}
	first := r.memos[p.Frame].failures
	b.wait(31 * time.Second)
	b.do(Fetched{Ticket: find[Fetch](b).Ticket, Data: p.Data, Frame: p.Frame})
	p = find[Request](b).P
	b.ask(p)
	fails()
	if n := r.memos[p.Frame].failures; n != first+1 {
		t.Errorf("%d failures remembered after %d, want one more", n, first)
	}
}

// Throttling holds the route that was told so; the cluster when routes that differ
// are, with nothing accepted in between.
func TestThrottlingOfARouteAndOfACluster(t *testing.T) {
	b := newBench(t)
	busy := said(kusto.Throttled, 429)
	busy.RetryAfter = 8 * time.Second
	a, other, third := b.sending("A", 1), b.sending("B", 1), b.sending("C", 1)
	b.do(Answered{a, busy})
	b.now = b.now.Add(time.Second)
	b.do(Answered{b.sending("B", 1), good}) // B is not held, and proves the cluster well
	b.do(Answered{other, busy})
	b.do(Answered{b.sending("C", 1), good})
	b.do(Answered{third, busy})
	b.do(Answered{b.sending("D", 1), busy})
	b.do(Take{Data: b.data("E", 1)})
	if len(b.actions) != 0 {
		t.Errorf("%s while routes that differ are throttled", actionsOf(b.actions))
	}
	if at := b.m.Alarm(); at.After(b.now.Add(8 * time.Second)) {
		t.Errorf("asked again at %v, want within Retry-After", at)
	}
	b.now = b.now.Add(8 * time.Second)
	b.do(Tick{})
	find[Request](b)
}

// A service that throttles a route asks for a pause. That it takes a request which left
// before says nothing against it.
func TestAnEarlierRequestEndsNoPause(t *testing.T) {
	b := newBench(t)
	busy := said(kusto.Throttled, 429)
	busy.RetryAfter = 8 * time.Second
	first, second := b.sending("A", 1), b.sending("A", 1)
	b.wait(time.Second)
	b.do(Answered{first, busy})
	b.wait(time.Second)
	b.do(Answered{second, good})
	b.do(Take{Data: b.data("A", 1)})
	if len(b.actions) != 0 {
		t.Errorf("%s before Retry-After is over", actionsOf(b.actions))
	}
	b.wait(7 * time.Second)
	b.ask(find[Request](b).P)
}

// A cluster that is down is probed with one request at a time, however many routes it has.
func TestOneProbeForAllRoutes(t *testing.T) {
	b := newBench(t)
	b.do(SpoolIs{Sick}) // what fails stays in hand
	var sent []*Payload
	for _, table := range []string{"A", "B", "C"} {
		sent = append(sent, b.sending(table, 1))
	}
	b.wait(11 * time.Second)
	for _, p := range sent {
		b.do(Answered{p, said(kusto.NotSent, 0)})
	}
	var probes []*Payload
	for n := range 3 {
		for range 3 {
			b.wait(time.Minute)
			for _, a := range b.actions {
				if r, is := a.(Request); is {
					probes = append(probes, r.P)
				}
			}
			if len(probes) == n+1 && probes[n].asked.IsZero() {
				b.ask(probes[n])
			}
			b.do(SpoolIs{Sick})
		}
		if len(probes) != n+1 {
			t.Fatalf("%d probes are under way, want one", len(probes)-n)
		}
		b.do(Answered{probes[n], said(kusto.NotSent, 0)})
	}
}

// Requests of one time that are throttled halve the slots once; a later one does again.
func TestThrottledTogetherHalvesOnce(t *testing.T) {
	b := newBench(t)
	var sent []*Payload
	for range 8 {
		sent = append(sent, b.sending("A", 1))
	}
	b.wait(time.Second)
	c := b.m.clusters["http://c"]
	for _, p := range sent {
		if b.do(Answered{p, said(kusto.Throttled, 429)}); c.limit != 4 {
			t.Fatalf("%d slots of 8", c.limit)
		}
	}
	b.wait(time.Second)
	p := find[Request](b).P
	b.ask(p)
	b.wait(time.Second)
	if b.do(Answered{p, said(kusto.Throttled, 429)}); c.limit != 2 {
		t.Errorf("%d slots of 4", c.limit)
	}
}

// A payload that was shown to fail alone does not turn its route down, however
// seldom others come and however long its requests take.
func TestAPoisonousPayloadTurnsAQuietRouteDownOnce(t *testing.T) {
	for _, takes := range []time.Duration{0, 15 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) { quietRoute(t, takes) })
	}
}

func quietRoute(t *testing.T, takes time.Duration) {
	b := newBench(t)
	var hanging *Payload
	var until time.Time
	b.do(Take{Data: b.data("T", 1)})
	poison := find[Request](b).P.Data
	pending := b.actions
	down := 0
	inSpool := map[record.BatchID]*record.Payload{}
	rest := map[record.BatchID]time.Time{}
	r := record.Route{Cluster: "http://c", Table: "T"}
	stock := func() (s Stock) {
		for id := range inSpool {
			if b.now.Before(rest[id]) {
				s.Next = earlier(s.Next, rest[id])
			} else {
				s.Ready++
			}
		}
		return s
	}
	for second := range 3600 {
		if second%20 == 0 {
			pending = append(pending, b.do(Take{Data: &record.Payload{ID: record.BatchID{byte(second), byte(second >> 8), 1}, Route: r, Records: 1}})...)
		}
		pending = append(pending, b.do(Tick{})...)
		if hanging != nil && !b.now.Before(until) {
			p := hanging
			hanging = nil
			pending = append(pending, b.do(Answered{p, said(kusto.Retry, 500)})...)
		}
		for len(pending) > 0 {
			a := pending[0]
			pending = pending[1:]
			switch a := a.(type) {
			case Notice:
				if a.What == RouteDown || a.What == ClusterDown {
					down++
				}
			case Request:
				a.P.Data.Attempt++
				pending = append(pending, b.do(Asked(a))...)
				if a.P.Data == poison {
					hanging, until = a.P, b.now.Add(takes)
					continue
				}
				pending = append(pending, b.do(Answered{a.P, good})...)
			case Spill:
				if !a.Stay {
					inSpool[a.P.Data.ID], rest[a.P.Data.ID] = a.P.Data, a.NotBefore
				}
				pending = append(pending, b.do(Spilled{a.P, Kept})...)
			case Return:
				inSpool[a.P.Data.ID], rest[a.P.Data.ID] = a.P.Data, a.NotBefore
				pending = append(pending, b.do(Returned{a.P})...)
			case Fetch:
				var e Event = NotFetched{Ticket: a.Ticket, Stock: stock()}
				for id, d := range inSpool {
					if !b.now.Before(rest[id]) {
						delete(inSpool, id)
						e = Fetched{Ticket: a.Ticket, Data: d, Frame: id, Stock: stock()}
						break
					}
				}
				pending = append(pending, b.do(e)...)
			case End:
				pending = append(pending, b.do(Ended{a.P})...)
			}
		}
		b.now = b.now.Add(time.Second)
	}
	if down > 2 {
		t.Errorf("told %d times to be down, want once at most for the route and the cluster", down)
	}
	if least := int(time.Hour / (takes + 40*time.Second)); poison.Attempt < least {
		t.Errorf("asked %d times in an hour, want %d at least", poison.Attempt, least)
	}
}
