// Package batcher promises that records of one route leave together as one
// well-formed payload, no bigger and no older than asked, and that what is in
// hand never grows past a fixed number of bytes: a caller gets a Lease before
// it reads, or is woken when there is room.
package batcher

import (
	"runtime"
	"sync"
	"time"

	"kusto-agent/internal/logzip"
	"kusto-agent/internal/record"
)

// Limits are the batch settings of one route.
type Limits struct {
	MaxBytes   int           // of a body before gzip
	MaxRecords int           // 0: no limit
	MaxWait    time.Duration // a record waits no longer than this for company
	Gzip       bool
	Level      int     // of gzip
	Encoder    Encoder // of level 1; empty: Auto
}

// Next is what the batcher asks of whoever sends its payloads. Its methods are
// called with and without the batcher's lock held and must not call back.
type Next interface {
	// Credit is how many payloads the route may have sealed and not yet
	// ended, and whether the route is being served. One that is not served
	// may fill only half of the memory, so that the others go on.
	Credit(record.Route) (payloads int, served bool)
	// Largest is how many bytes before gzip a payload of the route may have, as far as its
	// service has shown by its answers; 0: no limit is known.
	Largest(record.Route) int
	// Put takes a payload over. Its Body belongs to the taker until Release.
	Put(*record.Payload)
}

// Options are what New needs.
type Options struct {
	Routes map[record.Route]Limits
	Memory int64 // bytes in hand: blocks being read, open and sealed payloads
	Next   Next
	// Sealed is told the size of each payload before and after gzip. May be nil.
	Sealed func(raw, body int)
	// InHand is told how many bytes are in hand, free buffers included, when these have grown by 48 MiB or
	// become half of what it was told last. May be nil.
	InHand func(int64)
	// GzipFault is told, once, why logzip was switched off: what it wrote was not
	// the payload. May be nil.
	GzipFault func(error)
}

// Batcher is safe for concurrent use.
type Batcher struct {
	next     Next
	onSealed func(raw, body int)
	onInHand func(int64)
	deflater deflater
	mostRaw  int // blocks of full size that are read into or sealed, at once

	mu        sync.Mutex
	blockSize int // of a full block: the largest MaxBytes of any configured route
	reserved  int // blocks of that size that Reserve has counted
	lanes     map[record.Route]*lane
	live      int // lanes that are configured, or hold something
	open      map[key]*block
	opened    int // bytes of memory that these have
	seals     int // blocks that were sealed so far
	memory    budget
	blocks    [][]byte              // free ones, each with record.MarkLen bytes of headroom
	rawOut    int                   // blocks leased, waiting for a compressor or with one
	steps     [stepClasses][][]byte // free buffers below full size
	bodies    [][]byte              // free output buffers
	waiting   []waiter              // for memory or a block
	waited    int                   // seals when a reader began to wait last

	sealed  []*block  // that wait for a compressor, the first first; the budget bounds them
	more    sync.Cond // of mu: there is one more of them, or none will come
	ended   bool      // no block is sealed any more
	busy    int       // blocks sealed, not yet given to next
	kick    chan struct{}
	closing chan struct{}
	once    sync.Once
	rescued time.Time // when wakeForgotten last did something

	dividing sync.Mutex // one payload is taken apart at a time: it costs its size before gzip
}

// key tells which records may share a body: those of one route that were
// shaped alike, have the same number of fields or the same prefix, and map back
// to their files in the same way.
type key struct {
	route   record.Route
	shaping uint64
	group   int
	lens    bool
	stamp   record.BatchID
}

// lane is what is known of a route. Guarded by Batcher.mu.
type lane struct {
	Limits
	route   record.Route
	wanted  bool          // it is configured; else it only ends what it holds
	held    int           // payloads sealed and not yet released
	filling *block        // the open block that had records last; nil: it was sealed
	last    int           // bytes in the open block that was sealed last
	largest int           // as Next told at the last lease; 0: no limit is known
	used    int64         // bytes of the budget
	waiting waiters       // for credit
	tables  logzip.Tables // that the payload before left for the next one
}

// New returns a batcher for the routes of o. It compresses nothing before Run is called.
func New(o Options) *Batcher {
	b := &Batcher{
		next:     o.Next,
		onSealed: o.Sealed,
		onInHand: o.InHand,
		deflater: deflater{onFault: o.GzipFault, fresh: newGzipper},
		mostRaw:  runtime.GOMAXPROCS(0) + 1, // one for each compressor, and one to read into meanwhile
		lanes:    make(map[record.Route]*lane),
		open:     make(map[key]*block),
		memory:   budget{limit: o.Memory},
		waited:   -waitedLately,
		kick:     make(chan struct{}, 1),
		closing:  make(chan struct{}),
	}
	b.more.L = &b.mu
	b.SetRoutes(o.Routes)
	return b
}

// SetRoutes replaces the routes and their settings, as a reload does. Open blocks whose
// settings change are sealed with the settings that they were begun with. A route that is
// no longer named keeps its settings, for records that still come.
func (b *Batcher) SetRoutes(routes map[record.Route]Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, blk := range b.open {
		if l, wanted := routes[blk.route]; !wanted || l != blk.lane.Limits {
			b.seal(blk)
		}
	}
	for r := range routes {
		if b.lanes[r] == nil {
			b.lanes[r] = &lane{route: r}
		}
	}
	b.live = 0
	largest := 0
	for r, ln := range b.lanes {
		l, wanted := routes[r]
		if ln.wanted = wanted; wanted {
			ln.Limits = l
			largest = max(largest, l.MaxBytes)
		}
		if ln.isLive() {
			b.live++
		}
	}
	b.resize(largest)
}

// resize changes the size of full-size blocks and drops the free blocks of the old size. The
// caller holds mu.
func (b *Batcher) resize(size int) {
	if size == b.blockSize {
		return
	}
	b.memory.used += int64(size-b.blockSize) * int64(b.reserved) // Reserve has charged that many blocks
	b.blockSize = size
	for len(b.blocks) > 0 {
		b.pop(&b.blocks)
	}
}

// SetMemory changes the limit of the memory in use to n bytes. If more is in use, new leases wait
// until enough was released. The batcher wakes readers for which there is room now.
func (b *Batcher) SetMemory(n int64) {
	b.mu.Lock()
	defer b.unlock(nil)
	b.memory.limit = n
	b.makeRoom()
}

// most returns the size limit of a payload in bytes before gzip: MaxBytes of the configuration, or
// less if the service has refused a payload for its size.
func (ln *lane) most() int {
	if ln.largest > 0 {
		return min(ln.largest, ln.MaxBytes)
	}
	return ln.MaxBytes
}

// isLive reports whether the route counts when memory is divided among the routes: it is configured or
// still uses memory.
func (ln *lane) isLive() bool { return ln.wanted || ln.used > 0 }

// Run compresses sealed blocks, on every core, and seals blocks that have waited for MaxWait. It
// returns after Close, once every block was sealed, compressed and passed to Next.
func (b *Batcher) Run() {
	var compressors sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		// Started here, ended by ended, awaited below.
		compressors.Go(b.compress)
	}
	b.age()
	b.Flush()
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.more.Broadcast()
	compressors.Wait()
}

// Close makes Run seal what is open, finish and return. Nothing may be appended afterwards.
func (b *Batcher) Close() { b.once.Do(func() { close(b.closing) }) }

// Flush seals every open block now: each becomes a payload, and gets no more records.
func (b *Batcher) Flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, blk := range b.open {
		b.seal(blk)
	}
}

// Idle reports whether no record is in the batcher, neither in an open block nor in one that waits for
// compression. Payloads that were passed to Next do not count.
func (b *Batcher) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open) == 0 && b.busy == 0
}

// Wake makes readers of a route that wait for a lease ask again. Call it after the route's
// credit, the number of payloads that it may have at once, has grown.
func (b *Batcher) Wake(r record.Route) {
	b.mu.Lock()
	b.unlock(b.lanes[r])
}

// Release returns to the budget the memory of a payload that was accepted, given up or split, and
// wakes readers that wait. The payload's Body must not be used afterwards.
func (b *Batcher) Release(p *record.Payload) {
	b.mu.Lock()
	ln := b.lane(p.Route)
	b.take(ln, -weight(p))
	b.keepBody(p.Body)
	p.Body = nil
	ln.held--
	b.unlock(ln)
}

// age seals open blocks in which a record has waited for MaxWait, and wakes forgotten readers,
// until Close.
func (b *Batcher) age() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(b.sealOld())
		b.tellInHand()
		select {
		case <-timer.C:
		case <-b.kick: // a new block or reader is waiting
		case <-b.closing:
			return
		}
	}
}
