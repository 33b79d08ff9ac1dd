package fleet

import (
	"math/rand/v2"
	"time"
)

// workers is how many payloads a plain client has under way.
const workers = 8

// plain is a client that knows nothing but retries: each worker takes the oldest payload
// and tries it until it is stored.
type plain struct {
	rand   *rand.Rand // nil: it waits as long as it is said
	ask    func(request any)
	store  func(number int)
	files  []int
	worker [workers]worker
}

// worker has one payload.
type worker struct {
	number   int           // of its payload
	busy     bool          // it has one
	next     time.Duration // when it is to be tried; 0: a request is under way
	failures int
}

// newPlain returns a client with plain exponential back-off. It calls ask with the index of a worker
// for each request, and store for each payload that is stored. Without jitter its waits do not depend
// on the seed.
func newPlain(seed uint64, jitter bool, ask func(any), store func(int)) *plain {
	p := &plain{ask: ask, store: store}
	if jitter {
		p.rand = rand.New(rand.NewPCG(seed, 2))
	}
	return p
}

func (p *plain) made(_ time.Duration, number int) {
	p.files = append(p.files, number)
	p.give()
}

// give hands each idle worker the oldest payload that waits, and starts a request for it, as long as
// payloads wait.
func (p *plain) give() {
	for i := range p.worker {
		if w := &p.worker[i]; !w.busy && len(p.files) > 0 {
			*w = worker{number: p.files[0], busy: true}
			p.files = p.files[1:]
			p.ask(i)
		}
	}
}

// answered frees the worker of a stored payload, or sets the time of the next attempt: after a wait
// that doubles with each failure up to settings.Max, and with jitter is up to a half shorter. request
// is the index of the worker.
func (p *plain) answered(now time.Duration, request any, is answer) {
	w := &p.worker[request.(int)]
	if is == stored {
		w.busy = false
		p.store(w.number)
		p.give()
		return
	}
	d := settings.Initial
	for n := 0; n < w.failures && d < settings.Max; n++ {
		d *= 2
	}
	if d = min(d, settings.Max); p.rand != nil {
		d -= time.Duration(p.rand.Float64() * float64(d/2))
	}
	w.failures++
	w.next = now + d
}

// tick starts a request in each worker whose next attempt is due; next is 0 while a request is under
// way. now counts from the start of the outage.
func (p *plain) tick(now time.Duration) {
	for i := range p.worker {
		if w := &p.worker[i]; w.next > 0 && w.next <= now {
			w.next = 0
			p.ask(i)
		}
	}
}

// alarm returns the time of the first attempt that is due; -1: no worker waits for one.
func (p *plain) alarm() time.Duration {
	first := time.Duration(-1)
	for i := range p.worker {
		if at := p.worker[i].next; at > 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}
