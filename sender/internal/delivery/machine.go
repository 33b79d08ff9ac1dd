package delivery

import (
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"kusto-agent/internal/record"
)

// Phase is how far the life of the machine is.
type phase uint8

const (
	waiting phase = iota // before Start
	serving
	halted // no request is made any more
	keeping
)

// Machine is the state of everything in hand. It is not safe for concurrent use.
type Machine struct {
	settings Settings
	rand     *rand.Rand
	now      time.Time // of the event being applied
	out      []Action

	phase    phase
	draining bool
	clusters map[string]*cluster
	order    []*cluster // as they were first named
	routes   map[record.Route]*route
	all      []*route // as they were first seen

	left     int // payloads in hand
	spilling int // of these on their way to the spool

	spool      Condition
	spoolAsked bool      // CheckSpool is not answered
	spoolSince time.Time // when the condition was told
	spoolWait  []*route  // these act on the answer
}

// spoolAgain is how long the condition of the spool is taken for granted.
const spoolAgain = time.Second

// Retries of a read from the spool: where memory is short, and where nothing could
// be read.
const (
	memoryAgain = 50 * time.Millisecond
	readAgain   = time.Second
)

// MaxPause is the most that a Retry-After counts for.
const MaxPause = 60 * time.Second

// New returns a machine that has nothing in hand. The seed determines its jitter.
func New(s Settings, clusters []Target, seed uint64) *Machine {
	m := &Machine{
		settings: s,
		rand:     rand.New(rand.NewPCG(seed, 0)),
		clusters: make(map[string]*cluster),
		routes:   make(map[record.Route]*route),
	}
	m.setClusters(clusters)
	return m
}

// Apply takes an event, which happened at the time now, and returns the actions that follow from
// it, in order. The slice is valid until the next call. Time must not run backwards from one event
// to the next.
func (m *Machine) Apply(now time.Time, e Event) []Action {
	m.now, m.out = now, m.out[:0]
	m.trip()
	e.apply(m)
	for _, c := range m.order {
		m.pump(c)
	}
	return m.out
}

// start handles Start, which lets requests be made.
func (m *Machine) start() {
	m.phase, m.draining = serving, false
	m.lookAll()
}

func (m *Machine) emit(a Action) { m.out = append(m.out, a) }

// Alarm returns when the caller has to apply a Tick if no other event comes before; zero: never.
func (m *Machine) Alarm() (at time.Time) {
	for _, c := range m.order {
		at = earlier(at, c.due(m))
	}
	return at
}

// jitter returns a random duration from 0 to d.
func (m *Machine) jitter(d time.Duration) time.Duration {
	return time.Duration(m.rand.Float64() * float64(d))
}

// delay returns the backoff after n failures in a row: from the initial delay, doubled each time,
// to the maximum, less up to a half at random. The library's limit on the whole time and its own
// jitter are off: retries have no end, and the seed alone determines the jitter of a machine.
func (m *Machine) delay(n int) time.Duration {
	schedule := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(m.settings.Initial),
		backoff.WithMaxInterval(m.settings.Max),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxElapsedTime(0),
	)
	d := schedule.NextBackOff()
	for ; n > 1 && d < m.settings.Max; n-- {
		d = schedule.NextBackOff()
	}
	d = min(d, m.settings.Max)
	return d - m.jitter(d/2)
}

// route returns the state of a route and creates it if it is new. If no cluster with this URL is
// configured, it adds one that is down and has no client: payloads for it are kept and never sent.
func (m *Machine) route(name record.Route) *route {
	r := m.routes[name]
	if r == nil {
		c := m.clusters[name.Cluster]
		if c == nil {
			c = m.addCluster(Target{URL: name.Cluster})
			c.served, c.down = false, true
		}
		r = &route{name: name, cluster: c, at: -1}
		m.routes[name] = r
		m.all = append(m.all, r)
		c.routes = append(c.routes, r)
	}
	return r
}

// addCluster adds a cluster that is up, has a client and is configured.
func (m *Machine) addCluster(t Target) *cluster {
	c := &cluster{name: t.Name, url: t.URL, served: true, configured: true}
	c.setMost(m.settings.Concurrency)
	m.clusters[t.URL] = c
	m.order = append(m.order, c)
	return c
}

// setClusters takes over the clusters of the configuration. A cluster that is no longer listed stays
// until all payloads for it are sent, and one that had no client is served from now on.
func (m *Machine) setClusters(targets []Target) {
	for _, c := range m.order {
		c.configured = false
	}
	for _, t := range targets {
		c := m.clusters[t.URL]
		switch {
		case c == nil:
			m.addCluster(t)
		case !c.served:
			c.served, c.configured, c.down, c.name = true, true, false, t.Name
		default:
			c.name, c.configured = t.Name, true
		}
	}
}

// configure takes over new settings and clusters, has held routes and clusters probed at once,
// forgets which sizes were refused, and wakes the readers of all routes.
func (m *Machine) configure(e Configure) {
	m.settings = e.Settings
	for _, c := range m.order {
		c.setMost(e.Settings.Concurrency)
	}
	m.setClusters(e.Clusters)
	for _, c := range m.order {
		if c.hold != nil {
			c.gate = m.now
		}
	}
	for _, r := range m.all {
		if r.hold != nil {
			r.gate = m.now
		}
		r.sizes = sizes{} // a person may have raised the limit
		m.emit(Wake{r.name})
	}
	m.lookAll()
}

// lookAll calls look for every route, which acts on its state, after a change that concerns all of
// them.
func (m *Machine) lookAll() {
	for _, r := range m.all {
		m.look(r)
	}
}
