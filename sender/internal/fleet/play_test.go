package fleet

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// Policy is how an agent decides when to ask.
type Policy uint8

// The policies.
const (
	// Ours is package delivery, as the agent runs it.
	Ours Policy = iota
	// Plain tries each payload by itself: eight at a time, each with a wait of its own
	// that doubles from retry.initial to retry.max, less up to a half at random. It
	// does not heed Retry-After.
	Plain
	// Even is Plain without chance.
	Even
)

// Fleet is what is played.
type Fleet struct {
	Agents int
	Policy Policy
	Seed   uint64
	Outage time.Duration // how long the service is out of reach
	Every  time.Duration // an agent makes a payload so often
	Limit  time.Duration // the history ends so long after the outage, whatever is left

	Slots      int           // requests that the service works on at once; above it they are throttled
	Takes      time.Duration // that the service takes for one
	RetryAfter time.Duration // that it asks for when it throttles; 0: it asks for none
}

// Second is what the service saw in one second.
type Second struct {
	Requests, Accepted, Throttled int
	Backlog                       int // payloads that were made and are not stored, at its end
}

// History is what came of a fleet. Times count from the end of the outage.
type History struct {
	Requests int // since then
	Accepted int // since then
	Probes   int // requests during the outage
	Made     int // payloads until the end of the outage

	// Done is when each agent had delivered what it made until the end of the outage,
	// ascending; an agent that has not is missing.
	Done []time.Duration
	// Fairness is Jain's index of what the agents had delivered when half of what was
	// made until the end of the outage was stored: 1 where all had as much, 1/n where
	// one had it all.
	Fairness float64
	Seconds  []Second
}

// Peak returns the number of requests in the second that had the most.
func (h *History) Peak() int {
	return slices.MaxFunc(h.Seconds, func(a, b Second) int { return a.Requests - b.Requests }).Requests
}

// Ideal returns the shortest time in which the service can work off what piled up until the end
// of the outage, together with what the agents make meanwhile. It has no meaning for agents that
// make more than the service can take.
func (f Fleet) Ideal(h *History) time.Duration {
	rate := float64(f.Slots)/f.Takes.Seconds() - float64(f.Agents)/f.Every.Seconds()
	return time.Duration(float64(h.Made) / rate * float64(time.Second))
}

// client is one simulated agent. It makes requests by calling the function ask that it was made with.
type client interface {
	// made has one more payload to be delivered; payloads are numbered from 0.
	made(now time.Duration, number int)
	// answered ends a request.
	answered(now time.Duration, request any, a answer)
	// tick says that the time alarm named has come.
	tick(now time.Duration)
	// alarm is when tick is due; negative: not before something else happens.
	alarm() time.Duration
}

// answer is what the service says.
type answer uint8

const (
	stored answer = iota
	throttled
	unreachable
)

// What may happen.
type kind uint8

const (
	making kind = iota
	alarming
	arriving
	answering
)

type event struct {
	at      time.Duration
	order   uint64 // of events of one time
	kind    kind
	agent   int
	request any
	answer  answer
	stale   *bool // of an alarm: another one took its place
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }

// Pop implements heap.Interface: it removes and returns the last element.
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// way is what a request, and its answer, take to get to the other side.
const way = 10 * time.Millisecond

// play is a fleet under way.
type play struct {
	Fleet
	rand    *rand.Rand
	now     time.Duration // from the beginning of the outage
	due     events
	order   uint64
	agents  []client
	alarms  []*bool         // the alarm of each agent that is due; nil: none is
	alarmAt []time.Duration // when
	numbers []int           // of the next payload of each
	busy    int

	before    []int // payloads that each agent made until the end of the outage
	old       []int // of these, those that are not stored
	oldLeft   int
	delivered []int // since the outage
	backlog   int
	out       History
}

// Play runs the simulation until everything made during the outage is stored, or the time Limit after
// the outage is over, and returns what happened. It takes events in the order of their times.
func (f Fleet) Play() *History {
	p := &play{
		Fleet: f, rand: rand.New(rand.NewPCG(f.Seed, 1)),
		alarms: make([]*bool, f.Agents), alarmAt: make([]time.Duration, f.Agents), numbers: make([]int, f.Agents),
		before: make([]int, f.Agents), old: make([]int, f.Agents), delivered: make([]int, f.Agents),
	}
	for i := range f.Agents {
		p.agents = append(p.agents, p.newClient(i))
		p.push(event{at: time.Duration(p.rand.Int64N(int64(f.Every))), kind: making, agent: i})
		p.watch(i)
	}
	for len(p.due) > 0 && p.due[0].at < f.Outage+f.Limit && (p.due[0].at < f.Outage || p.oldLeft > 0) {
		e := heap.Pop(&p.due).(event)
		p.now = e.at
		p.happen(&e)
		p.watch(e.agent)
	}
	slices.Sort(p.out.Done)
	return &p.out
}

// newClient returns agent number i, with the policy of the fleet for its retries. Its requests arrive
// at the service after the network delay (way); p.store counts each payload that it knows to be
// stored.
func (p *play) newClient(i int) client {
	seed := p.rand.Uint64()
	ask := func(request any) {
		p.push(event{at: p.now + way, kind: arriving, agent: i, request: request})
	}
	store := func(number int) { p.store(i, number) }
	if p.Policy == Ours {
		return newAgent(seed, p.RetryAfter, ask, store)
	}
	return newPlain(seed, p.Policy == Plain, ask, store)
}

// push schedules an event. Events of the same time happen in the order in which they were pushed.
func (p *play) push(e event) {
	e.order = p.order
	p.order++
	heap.Push(&p.due, e)
}

// watch schedules the alarm of agent i, the time at which it wants its method tick to be called. An
// alarm that was scheduled for another time is marked as stale, and ignored when it comes. watch is
// called after every event of the agent.
func (p *play) watch(i int) {
	at := p.agents[i].alarm()
	if stale := p.alarms[i]; stale != nil {
		if p.alarmAt[i] == at {
			return
		}
		*stale = true
		p.alarms[i] = nil
	}
	if at < 0 {
		return
	}
	p.alarms[i], p.alarmAt[i] = new(bool), at
	p.push(event{at: max(at, p.now), kind: alarming, agent: i, stale: p.alarms[i]})
}

// happen carries out an event: an agent makes a payload, its alarm is due, a request arrives at the
// service, or an answer arrives at an agent. Payloads made during the outage are counted apart.
func (p *play) happen(e *event) {
	switch e.kind {
	case making:
		p.push(event{at: p.now + p.Every, kind: making, agent: e.agent})
		number := p.numbers[e.agent]
		p.numbers[e.agent]++
		p.backlog++
		if p.now < p.Outage {
			p.before[e.agent]++
			p.old[e.agent]++
			p.oldLeft++
			p.out.Made++
		}
		p.agents[e.agent].made(p.now, number)
	case alarming:
		if *e.stale { // the agent has another alarm now
			return
		}
		p.alarms[e.agent] = nil
		p.agents[e.agent].tick(p.now)
	case arriving:
		p.arrive(e)
	case answering:
		if e.answer == stored { // the other answers took no slot of the service
			p.busy--
		}
		p.agents[e.agent].answered(p.now, e.request, e.answer)
	}
}

// arrive lets the service answer a request: unreachable during the outage, throttled if all its slots
// are in use, otherwise stored after the time Takes, more or less a tenth. The answer arrives at the
// agent after the network delay, and a slot is free again only then.
func (p *play) arrive(e *event) {
	back := event{at: p.now + way, kind: answering, agent: e.agent, request: e.request}
	switch {
	case p.now < p.Outage:
		p.out.Probes++
		back.answer = unreachable
	case p.busy >= p.Slots:
		p.out.Requests++
		p.second().Requests++
		p.second().Throttled++
		back.answer = throttled
	default:
		p.out.Requests++
		p.second().Requests++
		p.busy++
		back.at += p.Takes - p.Takes/10 + time.Duration(p.rand.Int64N(int64(p.Takes/5)))
		back.answer = stored
	}
	p.push(back)
}

// store counts payload number of agent i, which the agent knows to be stored. It records when an agent
// has delivered all payloads that it made during the outage, and the fairness at the moment when half
// of all payloads made during the outage are stored.
func (p *play) store(i, number int) {
	p.out.Accepted++
	p.second().Accepted++
	p.backlog--
	p.second().Backlog = p.backlog
	p.delivered[i]++
	if number >= p.before[i] { // it was made after the outage
		return
	}
	p.oldLeft--
	if p.old[i]--; p.old[i] == 0 {
		p.out.Done = append(p.out.Done, p.now-p.Outage)
	}
	if p.oldLeft == p.out.Made/2 {
		p.out.Fairness = jain(p.delivered)
	}
}

// second returns the counters of the present second, counted from the end of the outage. It first adds
// those of seconds in which nothing happened. It must not be called before the end of the outage.
func (p *play) second() *Second {
	for n := int((p.now - p.Outage) / time.Second); len(p.out.Seconds) <= n; {
		p.out.Seconds = append(p.out.Seconds, Second{Backlog: p.backlog})
	}
	return &p.out.Seconds[len(p.out.Seconds)-1]
}

// jain returns Jain's index of fairness: 1 if all numbers are equal, 1/n if all but one are 0.
func jain(all []int) float64 {
	sum, squares := 0.0, 0.0
	for _, n := range all {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(all)) * squares)
}
