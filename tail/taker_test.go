package tail

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"kusto-agent/batcher"
	"kusto-agent/internal/record"
)

func checksum(b []byte) uint32 { return batcher.Checksum(b) }

// taker is the far side of a tailer: it takes payloads and has the journal
// know. Everything of it can be withheld.
type taker struct {
	w       *world
	batcher *batcher.Batcher // nil: chunks become payloads one by one
	done    chan struct{}    // closed when the batcher's Run has returned
	tailer  atomic.Pointer[Tailer]

	mu      sync.Mutex
	changed sync.Cond
	dead    bool              // killed: nothing is written any more
	most    int               // see Most; 0: no bound
	full    bool              // no lease is given
	hold    bool              // payloads wait unsent
	deaf    bool              // payloads are sent, their end is not heard of
	wakes   []func()          // of refused leases
	unsent  []*record.Payload // while hold
	unended []*record.Payload // while deaf
	ends    map[record.File]int64
	leased  int    // records put into leases
	put     int    // records that came out as payloads
	refused int    // leases refused
	wants   []int  // bytes, of the leases that were given
	leasing func() // called when a lease is given; nil: nothing is
}

func newTaker(w *world) *taker {
	k := &taker{w: w, ends: make(map[record.File]int64), done: make(chan struct{})}
	k.changed.L = &k.mu
	if !w.batch {
		close(k.done)
		return k
	}
	k.batcher = batcher.New(batcher.Options{Routes: k.routes(), Memory: 64 << 20, Next: k})
	// Ended by end, which waits.
	go func() {
		defer close(k.done)
		k.batcher.Run()
	}()
	return k
}

func (k *taker) routes() map[record.Route]batcher.Limits {
	routes := make(map[record.Route]batcher.Limits)
	for _, in := range k.w.inputs {
		routes[in.Route] = batcher.Limits{MaxBytes: k.w.block, MaxWait: cmp.Or(k.w.wait, time.Millisecond), Gzip: true, Level: 1}
	}
	return routes
}

func (k *taker) setRoutes() {
	if k.batcher != nil {
		k.batcher.SetRoutes(k.routes())
	}
}

func (k *taker) end() {
	if k.batcher != nil {
		k.batcher.Close()
	}
	<-k.done
	k.freeze(func() {})
}

// freeze runs f at a moment when nothing is being written, and lets nothing be
// written afterwards.
func (k *taker) freeze(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.dead {
		f()
	}
	k.dead = true
}

// flush waits until all that was put into leases came out as payloads.
func (k *taker) flush() {
	if k.batcher != nil {
		k.batcher.Flush()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.put < k.leased {
		k.changed.Wait()
	}
}

// set changes what is withheld, and catches up where it no longer is.
func (k *taker) set(f func()) {
	k.mu.Lock()
	f()
	var wakes []func()
	if !k.full {
		wakes, k.wakes = k.wakes, nil
	}
	if !k.hold {
		for _, p := range k.unsent {
			k.send(p)
		}
		k.unsent = nil
	}
	if !k.deaf {
		for _, p := range k.unended {
			k.accept(p)
		}
		k.unended = nil
	}
	k.mu.Unlock()
	for _, f := range wakes {
		f()
	}
}

// acceptOnly ends the n-th of the payloads whose end was not heard of.
func (k *taker) acceptOnly(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.accept(k.unended[n])
	k.unended = append(k.unended[:n:n], k.unended[n+1:]...)
}

func (k *taker) send(p *record.Payload) {
	if k.dead {
		return
	}
	p.Attempt++
	if err := k.w.j.Begin(p); err != nil {
		k.w.t.Errorf("begin: %v", err)
	}
	raw, err := batcher.Raw(p)
	if err != nil {
		k.w.t.Errorf("payload: %v", err)
	}
	q := *p
	q.Body = raw
	k.w.boxed.receive(&q)
	if k.deaf {
		k.unended = append(k.unended, p)
	} else {
		k.accept(p)
	}
}

func (k *taker) accept(p *record.Payload) {
	if !k.dead {
		if err := k.w.j.End(p.ID, record.Accepted); err != nil {
			k.w.t.Errorf("end: %v", err)
		}
	}
	if k.batcher != nil {
		k.batcher.Release(p)
	}
}

// Credit and Put are what the batcher asks of whoever sends.
func (k *taker) Credit(record.Route) (int, bool) { return 1000, true }
func (k *taker) Largest(record.Route) int        { return 0 }

func (k *taker) Put(p *record.Payload) {
	k.mu.Lock()
	k.put += p.Records
	if k.hold {
		k.unsent = append(k.unsent, p)
	} else {
		k.send(p)
	}
	k.changed.Broadcast()
	k.mu.Unlock()
	if t := k.tailer.Load(); t != nil {
		t.turns.ended.Broadcast()
	}
}

func (k *taker) sink() Sink { return k }

// Most is less than a record takes, where a test asks for it.
func (k *taker) Most(record.Route) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.most > 0 {
		return k.most
	}
	return math.MaxInt
}

func (k *taker) Lease(r record.Route, want int, wake func()) (Lease, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.full {
		k.wakes = append(k.wakes, wake)
		k.refused++
		return nil, nil
	}
	k.wants = append(k.wants, want)
	if k.leasing != nil {
		k.leasing()
	}
	l := &lease{k: k}
	if k.batcher != nil {
		b, err := k.batcher.Lease(r, want, wake)
		if b == nil {
			return nil, err
		}
		l.real = b
	} else if want >= k.w.block/2 {
		l.block = make([]byte, record.MarkLen+k.w.block+1)
	}
	return l, nil
}

// lease checks what a tailer puts into it.
type lease struct {
	k     *taker
	real  *batcher.Lease // nil: there is no batcher
	block []byte
}

func (l *lease) Block() []byte {
	if l.real != nil {
		return l.real.Block()
	}
	return l.block
}

func (l *lease) Done() {
	if l.real != nil {
		l.real.Done()
	}
}

func (l *lease) Seal(c *record.Chunk) {
	if l.real == nil {
		l.Append(c)
		return
	}
	l.k.check(c)
	l.real.Seal(c)
}

func (l *lease) Append(c *record.Chunk) {
	l.k.check(c)
	if l.real != nil {
		l.real.Append(c)
		return
	}
	id := record.BatchID(uuid.New())
	body := slices.Concat(c.Prefix, c.Body)
	if c.Stamp != (record.BatchID{}) {
		body = bytes.ReplaceAll(body, []byte(c.Stamp.String()), []byte(id.String()))
	}
	p := &record.Payload{
		ID: id, Route: c.Route, Shaping: c.Shaping,
		Cover: append(slices.Clone(c.Before), c.Cover), Pieces: append([]record.Piece(nil), c.Pieces...), Records: c.Records,
		Body: body, RawBytes: len(body), CRC: checksum(body), Lens: bytes.Clone(c.Lens), ReadAt: c.ReadAt,
	}
	l.k.Put(p)
}

// check holds a chunk against what a chunk must be: its pieces lie in its
// cover, and its cover begins where the last one of the file ended or beyond.
func (k *taker) check(c *record.Chunk) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leased += c.Records
	bad := func(format string, args ...any) {
		k.w.t.Errorf("chunk of %v: %s", c.Cover, fmt.Sprintf(format, args...))
	}
	if c.Cover.Start < k.ends[c.Cover.File] {
		bad("bytes before %d were handed over already", k.ends[c.Cover.File])
	}
	k.ends[c.Cover.File] = c.Cover.End
	for _, x := range c.Before {
		if x.Start < k.ends[x.File] || x.Len() <= 0 || x.Mark == 0 || c.Cover.Start > 0 {
			bad("what is before, %v %v, is not in place", x.File, x.Span)
		}
		k.ends[x.File] = x.End
	}
	k.w.boxed.logf("chunk %v %v", c.Cover.File, c.Cover.Span)
	at, n := c.Cover.Start, 0
	for _, p := range c.Pieces {
		if p.File != c.Cover.File || p.Start < at || p.End > c.Cover.End || p.Len() <= 0 || p.Records <= 0 {
			bad("piece %v is not in place", p)
		}
		at, n = p.End, n+p.Records
	}
	if n != c.Records || n == 0 || c.Prefix == nil && (c.Records > len(c.Body) || c.Body[len(c.Body)-1] != '\n') {
		bad("%d records, %d in its pieces, body %q", c.Records, n, c.Body)
	}
	if c.Cover.Mark == 0 {
		bad("it has no mark")
	}
	if c.Route.Format == record.TXT && bytes.Count(c.Body, []byte{'\n'}) != c.Records {
		bad("%d records in a body of %d lines", c.Records, bytes.Count(c.Body, []byte{'\n'}))
	}
}
