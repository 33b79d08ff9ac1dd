package delivery

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// histories is how many random histories the model test plays.
func histories(t *testing.T) (first, n uint64) {
	if s := os.Getenv("KUSTO_AGENT_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed, 1
	}
	if os.Getenv("KUSTO_AGENT_LONG") != "" {
		return 1, 100_000
	}
	return 1, 2_000
}

// TestMachineModel drives the machine through random histories of everything that
// can happen to it, with a world of its own around it: service, spool, quarantine,
// time. After each event it checks that nothing is lost, ended twice or worked on
// twice; and after the faults are over, that all that can be delivered is delivered
// within a bound of virtual time.
func TestMachineModel(t *testing.T) {
	first, n := histories(t)
	seeds := slices.Clone(found)
	for seed := first; seed < first+n; seed++ {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		if err := play(seed); err != nil {
			t.Fatalf("KUSTO_AGENT_SEED=%d: %v", seed, err)
		}
	}
}

// nothingWaits is a spool without payloads.
func nothingWaits(record.Route) int { return 0 }

// found are seeds above the first 2,000 that once found something.
var found = []uint64{3188, 7781}

// kind is what is the matter with the body of a payload.
type kind uint8

const (
	sound     kind = iota
	poisonous      // never gets a good answer
	slow           // the same, and takes a minute each time
	forbidden      // a proxy refuses its body
	bad            // the service refuses its data
)

// thing is a payload in the world.
type thing struct {
	kind      kind
	table     string
	data      *record.Payload
	inHand    int  // the machine has it: at most once
	inSpool   bool // its frame is there
	ghost     bool // its frame may come to light at the next start
	taken     bool // the spool gave it out
	notBefore time.Time
	ended     int
	cut       bool // its outcome at the stop is unknown
	named     bool
}

// pending is something that will happen.
type pending struct {
	at  time.Time
	seq int
	do  func()
}

type agenda []pending

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(pending)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	p := (*a)[last]
	*a = (*a)[:last]
	return p
}

// bound is the virtual time within which all is delivered once the faults are over. A
// payload that failed may have to wait for one turn of each that takes a minute, and
// these together may use one slot in suspectShare over time.
func (u *universe) bound() time.Duration {
	hanging := 0
	for _, x := range u.things {
		if x.kind == slow && x.ended == 0 {
			hanging++
		}
	}
	return 30*time.Minute + time.Duration(hanging)*suspectShare*time.Minute/time.Duration(u.m.order[0].limit)
}

// universe is the world around one machine.
type universe struct {
	rand   *rand.Rand
	sizes  *rand.Rand // of bodies and limits: a source of its own, so that seeds keep their histories
	m      *Machine
	now    time.Time
	todo   agenda
	seq    int
	things map[record.BatchID]*thing
	order  []record.BatchID // as frames came to the spool
	ids    uint16
	work   map[*Payload]string // what the shell does for a payload
	slots  int
	events int
	idle   int // ticks in a row that led to nothing
	err    error

	down, away, denied, fullQuarantine bool
	busy                               map[string]bool // tables that are throttled
	held                               map[string]bool
	limit                              map[string]int // of tables: bytes of a payload; 0: none
	spool                              Condition
	doubtful                           bool // writes to the spool fail or come late
	healed                             bool
	stopped                            bool
	settled                            bool // all that can be delivered is
}

var tables = []string{"A", "B", "C"}

const modelURL = "http://model"

func play(seed uint64) error {
	u := &universe{
		rand: rand.New(rand.NewPCG(seed, 7)), sizes: rand.New(rand.NewPCG(seed, 8)), now: time.Unix(1_000_000, 0), things: map[record.BatchID]*thing{},
		work: map[*Payload]string{}, busy: map[string]bool{}, held: map[string]bool{}, limit: map[string]int{}, spool: Healthy,
	}
	settings := Settings{Concurrency: 1 + u.rand.IntN(8), Initial: 500 * time.Millisecond, Max: 30 * time.Second, Patience: 10 * time.Second}
	if seed%4 == 0 {
		settings.Concurrency = Found
	}
	u.m = New(settings, []Target{{"model", modelURL}}, seed)
	u.apply(Start{})
	faults := time.Duration(30+u.rand.IntN(600)) * time.Second
	for at := time.Duration(0); at < faults; at += time.Duration(u.rand.IntN(20_000)) * time.Millisecond {
		u.after(at, u.disturb)
	}
	for range 5 + u.rand.IntN(40) {
		u.after(time.Duration(u.rand.Int64N(int64(faults))), u.arrive)
	}
	stop := u.rand.IntN(4) == 0
	end := u.now.Add(faults)
	u.after(faults, func() {
		u.heal()
		end = u.now.Add(u.bound())
	})
	if stop {
		u.after(time.Duration(u.rand.Int64N(int64(faults))), u.stop)
	}
	// A stop ends the history once nothing is under way.
	for u.err == nil && len(u.todo) > 0 && !u.now.After(end) && (!u.settled || u.stopped) {
		next := u.todo[0].at
		if at := u.m.Alarm(); !at.IsZero() && at.Before(next) {
			u.tick(at)
			continue
		}
		p := heap.Pop(&u.todo).(pending)
		u.now = p.at
		u.idle = 0
		p.do()
	}
	for u.err == nil && !u.stopped && u.now.Before(end) && !u.settled {
		at := u.m.Alarm()
		switch {
		case len(u.todo) > 0 && (at.IsZero() || !at.Before(u.todo[0].at)):
			p := heap.Pop(&u.todo).(pending)
			u.now, u.idle = p.at, 0
			p.do()
		case at.IsZero():
			end = u.now
		default:
			u.tick(at)
		}
	}
	if u.err == nil {
		u.judge()
	}
	if u.err != nil {
		return fmt.Errorf("at %v: %w", u.now.Sub(time.Unix(1_000_000, 0)), u.err)
	}
	return nil
}

func (u *universe) fail(format string, args ...any) {
	if u.err == nil {
		u.err = fmt.Errorf(format, args...)
	}
}

func (u *universe) after(d time.Duration, do func()) {
	u.seq++
	heap.Push(&u.todo, pending{u.now.Add(d), u.seq, do})
}

// soon has something happen after a short while.
func (u *universe) soon(do func()) { u.after(time.Duration(u.rand.IntN(300))*time.Millisecond, do) }

func (u *universe) tick(at time.Time) {
	if at.After(u.now) {
		u.now = at
	}
	if u.idle++; u.idle > 1000 {
		u.fail("alarm %v leads to nothing a thousand times", at)
	}
	u.apply(Tick{})
}

func (u *universe) apply(e Event) {
	actions := append([]Action(nil), u.m.Apply(u.now, e)...)
	for _, a := range actions {
		u.carryOut(a)
	}
	if u.events++; u.events%16 == 0 {
		u.check(e)
	}
	if c := u.m.order[0]; u.slots != c.inflight {
		u.fail("%d slots in use, the machine counts %d", u.slots, c.inflight)
	}
}

// check looks at all payloads.
func (u *universe) check(e Event) {
	inHand, open := 0, 0
	for id, x := range u.things {
		inHand += x.inHand
		if x.ended == 0 && (x.kind == sound || x.kind == bad || !x.inSpool) {
			open++
		}
		switch {
		case x.inHand > 1 || x.inHand < 0:
			u.fail("%x is in hand %d times", id[:2], x.inHand)
		case x.inHand == 0 && x.ended == 0 && !x.inSpool:
			u.fail("%x is lost", id[:2])
		case x.ended > 1:
			u.fail("%x ended %d times", id[:2], x.ended)
		}
	}
	u.settled = u.healed && open == 0
	if left, _ := u.m.Left(); left != inHand && u.err == nil {
		u.fail("the machine has %d in hand, the world %d after %T", left, inHand, e)
	}
}

// begin notes that the shell works on a payload in the stage it is to be in.
func (u *universe) begin(p *Payload, what string, stage Stage) {
	if u.work[p] != "" {
		u.fail("%s while there is %s for the same payload", what, u.work[p])
	}
	if p.stage != stage {
		u.fail("%s of a payload that is %v", what, p.stage)
	}
	u.work[p] = what
}

func (u *universe) done(p *Payload) { delete(u.work, p) }

func (u *universe) of(p *Payload) *thing { return u.things[p.Data.ID] }

func (u *universe) carryOut(a Action) {
	switch a := a.(type) {
	case Request:
		u.begin(a.P, "request", Sending)
		u.slots++
		if u.slots > u.m.order[0].most {
			u.fail("%d slots in use", u.slots)
		}
		u.soon(func() { u.ask(a.P) })
	case Fetch:
		u.slots++
		u.soon(func() { u.fetch(a) })
	case Spill:
		stage := Spilling
		if a.Stay {
			stage = Holding
		}
		u.begin(a.P, "spill", stage)
		u.soon(func() { u.spill(a) })
	case Return:
		u.begin(a.P, "return", Returning)
		u.soon(func() { u.giveBack(a) })
	case Divide:
		u.begin(a.P, "divide", Bisecting)
		u.soon(func() { u.divide(a.P) })
	case Quarantine:
		u.begin(a.P, "quarantine", Quarantining)
		u.soon(func() {
			u.done(a.P)
			if u.fullQuarantine {
				u.apply(NotQuarantined{a.P, errors.New("full")})
				return
			}
			u.apply(Quarantined{a.P})
		})
	case End:
		u.begin(a.P, "end", Ending)
		x := u.of(a.P)
		if x.ghost && a.P.Place == Memory {
			u.fail("a payload ends without a word on the frame that may be left of it")
		}
		u.soon(func() {
			u.done(a.P)
			x.ended++
			x.inHand--
			x.inSpool, x.ghost = false, false
			u.apply(Ended{a.P})
		})
	case CheckSpool:
		u.soon(func() { u.apply(SpoolIs{u.spool}) })
	case Notice:
		if a.What == UnknownAtStop {
			u.things[a.Batch.ID].named = true
		}
	}
}

func (u *universe) ask(p *Payload) {
	x := u.of(p)
	if u.stopped {
		u.slots--
		u.done(p)
		u.apply(BrokenOff{P: p})
		return
	}
	p.Data.Attempt++
	u.apply(Asked{p})
	ans := u.judgeRequest(x)
	takes := time.Duration(u.rand.IntN(500)) * time.Millisecond
	if x.kind == slow {
		takes = time.Minute
	}
	u.after(takes, func() {
		u.slots--
		u.done(p)
		if u.stopped && ans.Verdict != kusto.Accepted {
			x.cut = x.cut || ans.Wrote
			u.apply(BrokenOff{p, ans.Wrote})
			return
		}
		u.apply(Answered{p, ans})
	})
}

func answer(v kusto.Verdict, status int) kusto.Answer {
	return kusto.Answer{Verdict: v, Status: status, Wrote: true, Err: &kusto.Error{Status: status}}
}

// judgeRequest is the service.
func (u *universe) judgeRequest(x *thing) kusto.Answer {
	switch {
	case u.away:
		return kusto.Answer{Verdict: kusto.Auth, Err: &kusto.Error{NoToken: true, Status: 503}}
	case u.down:
		return answer(kusto.NotSent, 0)
	case u.denied:
		return answer(kusto.Auth, 401)
	case u.busy[x.table]:
		a := answer(kusto.Throttled, 429)
		a.RetryAfter = time.Duration(u.rand.IntN(200)) * time.Second
		return a
	case u.held[x.table]:
		return answer(kusto.Hold, 400)
	case u.limit[x.table] > 0 && x.data.RawBytes > u.limit[x.table]:
		return answer(kusto.TooLarge, 413)
	case x.kind == poisonous:
		return answer(kusto.Retry, 500)
	case x.kind == slow:
		return answer(kusto.Unknown, 0)
	case x.kind == forbidden:
		return answer(kusto.Hold, 403)
	case x.kind == bad:
		return answer(kusto.BadData, 400)
	case !u.healed && u.rand.IntN(20) == 0:
		return answer(kusto.Unknown, 502)
	}
	return kusto.Answer{Verdict: kusto.Accepted, Status: 200}
}

func (u *universe) stock(table string) (s Stock) {
	u.order = slices.DeleteFunc(u.order, func(id record.BatchID) bool { return u.things[id].ended > 0 })
	for _, id := range u.order {
		x := u.things[id]
		switch {
		case x.table != table || !x.inSpool || x.taken || x.ended > 0:
		case !u.now.Before(x.notBefore):
			s.Ready++
		default:
			s.Next = earlier(s.Next, x.notBefore)
		}
	}
	return s
}

func (u *universe) fetch(a Fetch) {
	u.slots--
	table := a.Ticket.Route().Table
	if !a.Must && u.rand.IntN(4) == 0 {
		u.apply(NotFetched{Ticket: a.Ticket, NoMemory: true, Stock: u.stock(table)})
		return
	}
	for _, id := range u.order {
		x := u.things[id]
		if x.table != table || !x.inSpool || x.taken || x.ended > 0 || u.now.Before(x.notBefore) {
			continue
		}
		x.taken = true
		x.inHand++
		// The slot stays in use: the machine makes a request of it, or gives it up.
		actions := append([]Action(nil), u.m.Apply(u.now, Fetched{Ticket: a.Ticket, Data: x.data, Frame: id, Stock: u.stock(table)})...)
		for _, act := range actions {
			u.carryOut(act)
		}
		u.apply(Tick{})
		return
	}
	u.apply(NotFetched{Ticket: a.Ticket, Stock: u.stock(table)})
}

func (u *universe) spill(a Spill) {
	x := u.of(a.P)
	u.done(a.P)
	switch {
	case u.spool == Sick:
		u.apply(Spilled{a.P, NoRoom})
	case u.doubtful:
		x.ghost = true
		u.apply(Spilled{a.P, Doubtful})
	default:
		x.inSpool, x.taken, x.notBefore = true, a.Stay, a.NotBefore
		u.order = append(u.order, a.P.Data.ID)
		if !a.Stay {
			x.inHand--
		}
		u.apply(Spilled{a.P, Kept})
	}
}

func (u *universe) giveBack(a Return) {
	x := u.of(a.P)
	u.done(a.P)
	x.inHand--
	x.taken, x.notBefore = false, a.NotBefore
	if x.cut && !x.named {
		u.fail("a payload whose outcome is unknown goes back without a name")
	}
	u.apply(Returned{a.P})
}

func (u *universe) divide(p *Payload) {
	u.done(p)
	x := u.of(p)
	if u.rand.IntN(8) == 0 {
		u.apply(NotDivided{P: p, Why: IsWhole})
		return
	}
	if p.Place.InSpool() && u.spool == Sick {
		u.apply(NotDivided{P: p, Why: SpoolFull})
		return
	}
	var halves []*record.Payload
	for i := range 2 {
		half := u.add(x.table, kind(0), p.Data.Records/2)
		half.data.RawBytes = p.Data.RawBytes / 2
		if i == 0 && (x.kind != sound || u.limit[x.table] == 0) {
			half.kind = bad
		}
		if half.inHand = 1; p.Place.InSpool() {
			half.inSpool, half.taken = true, true
			u.order = append(u.order, half.data.ID)
		}
		halves = append(halves, half.data)
	}
	x.ended++
	x.inHand--
	x.inSpool, x.ghost = false, false
	u.apply(Divided{p, halves})
}

func (u *universe) add(table string, k kind, records int) *thing {
	u.ids++
	d := &record.Payload{
		ID:      record.BatchID{byte(u.ids >> 8), byte(u.ids), 1},
		Route:   record.Route{Cluster: modelURL, Table: table},
		Records: max(records, 1),
	}
	x := &thing{kind: k, table: table, data: d}
	u.things[d.ID] = x
	return x
}

func (u *universe) arrive() {
	if u.stopped {
		return
	}
	k := sound
	if u.rand.IntN(4) == 0 {
		k = kind(u.rand.IntN(5))
	}
	x := u.add(tables[u.rand.IntN(len(tables))], k, 1+u.rand.IntN(8))
	x.data.RawBytes = u.sizes.IntN(4_000_000)
	x.inHand = 1
	u.apply(Take{Data: x.data, Durable: u.rand.IntN(4) == 0})
}

// disturb begins or ends a fault.
func (u *universe) disturb() {
	if u.healed {
		return
	}
	table := tables[u.rand.IntN(len(tables))]
	if u.sizes.IntN(4) == 0 {
		if u.limit[table] = 0; u.sizes.IntN(3) > 0 {
			u.limit[table] = 1 + u.sizes.IntN(4_000_000)
		}
	}
	switch u.rand.IntN(10) {
	case 0:
		u.down = !u.down
	case 1:
		u.away = !u.away
	case 2:
		u.denied = !u.denied
	case 3:
		u.fullQuarantine = !u.fullQuarantine
	case 4:
		u.busy[table] = !u.busy[table]
	case 5:
		u.held[table] = !u.held[table]
	case 6:
		u.spool = Healthy + Sick - u.spool
	case 7:
		u.doubtful = !u.doubtful
	case 8:
		u.apply(Configure{u.m.settings, []Target{{"model", modelURL}}})
	case 9:
		u.arrive()
	}
}

func (u *universe) heal() {
	u.healed = true
	u.down, u.away, u.denied, u.fullQuarantine, u.doubtful, u.spool = false, false, false, false, false, Healthy
	clear(u.busy)
	clear(u.held)
}

// stop ends the run: what is under way is broken off, and what is left is kept.
func (u *universe) stop() {
	u.stopped = true
	u.apply(Halt{})
	var keep func()
	keep = func() {
		if u.slots > 0 {
			u.after(time.Minute, keep)
			return
		}
		u.apply(SpoolIs{u.spool})
		u.apply(Keep{})
	}
	u.after(2*time.Minute, keep)
}

// judge looks at the end of a history.
func (u *universe) judge() {
	u.check(nil)
	for id, x := range u.things {
		switch {
		case u.stopped:
			if x.cut && !x.named && x.ended == 0 {
				u.fail("%x: its unknown outcome at the stop is named nowhere", id[:2])
			}
			if x.inHand > 0 && x.inSpool {
				u.fail("%x is in the spool and did not go back at the stop", id[:2])
			}
		case x.kind == sound || x.kind == bad:
			if x.ended != 1 {
				u.fail("%x (%s, kind %d) is not delivered, attempt %d, in hand %d, in the spool %v; %+v; %+v",
					id[:2], x.table, x.kind, x.data.Attempt, x.inHand, x.inSpool, u.m.Routes(nothingWaits), u.m.Clusters(nothingWaits))
			}
		default:
			if x.ended == 0 && !x.inSpool {
				u.fail("%x (kind %d) fails alone and does not rest in the spool after %d attempts", id[:2], x.kind, x.data.Attempt)
			}
		}
	}
	for _, r := range u.m.all {
		if r.queued < 0 || r.busy < 0 || r.tickets < 0 || r.inflight < 0 || r.asking < 0 {
			u.fail("route counts %d queued, %d busy, %d tickets, %d slots, %d asking", r.queued, r.busy, r.tickets, r.inflight, r.asking)
		}
	}
}
