package tail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"kusto-agent/internal/record"
)

// A tap shows somebody the records of inputs as they are handed over. It takes
// copies and never makes anybody wait: what its reader does not fetch in time is
// dropped from the tap, and counted, and delivered all the same.

// MaxTaps is how many taps there can be at a time: each may hold tapRoom bytes
// and one chunk, which limits.memory does not count.
const MaxTaps = 4

const tapRoom = 4 << 20

// ErrTaps says that there are MaxTaps taps already.
var ErrTaps = errors.New("too many taps are open")

// taps are the taps that are open.
type taps struct {
	on    atomic.Pointer[map[string][]*Tap] // by input; nil: nobody taps
	mu    sync.Mutex
	all   []*Tap
	ended bool
}

// Tap is one of them. Next and Close are for one goroutine.
type Tap struct {
	room   *taps
	inputs []string

	mu      sync.Mutex
	queue   []*passing
	held    int // bytes in queue, and of the chunk at hand
	dropped uint64
	ended   bool
	news    chan struct{}
}

// Tap opens a tap on the records of these inputs; a name that no input has gives no records. The
// error is ErrTaps if too many taps are open. The caller closes the tap.
func (t *Tailer) Tap(inputs ...string) (*Tap, error) {
	x := &t.taps
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.all) >= MaxTaps {
		return nil, ErrTaps
	}
	p := &Tap{room: x, inputs: inputs, ended: x.ended, news: make(chan struct{}, 1)}
	x.all = append(x.all, p)
	x.publish()
	return p, nil
}

// Inputs returns the inputs of the tailer as they were configured, in their order.
func (t *Tailer) Inputs() (all []Input) {
	for _, in := range t.inputsNow() {
		all = append(all, in.Input)
	}
	return all
}

// publish updates the list of taps that workers read. The caller holds mu.
func (x *taps) publish() {
	if len(x.all) == 0 {
		x.on.Store(nil)
		return
	}
	by := make(map[string][]*Tap)
	for _, p := range x.all {
		for _, name := range p.inputs {
			if !slices.Contains(by[name], p) {
				by[name] = append(by[name], p)
			}
		}
	}
	x.on.Store(&by)
}

// end marks every tap as ended and wakes its reader, because no more chunks are handed over. Chunks
// that are queued can still be fetched.
func (x *taps) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	for _, p := range x.all {
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.ring()
	}
}

// Close ends a tap: it gets no more records, and the worker that reads no longer copies any for it.
func (p *Tap) Close() {
	x := p.room
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = slices.DeleteFunc(x.all, func(o *Tap) bool { return o == p })
	x.publish()
}

// Dropped returns how many records were not shown because they were not fetched in time.
func (p *Tap) Dropped() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Next waits for the next chunk of records, calls each with every record of it, and returns. An
// error of each ends that, and Next returns it. io.EOF says that the tailer has ended and all
// chunks were shown. If ctx ends, the error is that of ctx.
func (p *Tap) Next(ctx context.Context, each func(*Passed) error) error {
	for {
		p.mu.Lock()
		if len(p.queue) > 0 {
			c := p.queue[0]
			p.queue = p.queue[1:]
			p.mu.Unlock()
			err := c.each(each)
			p.mu.Lock()
			p.held -= len(c.body)
			p.mu.Unlock()
			return err
		}
		ended := p.ended
		p.mu.Unlock()
		if ended {
			return io.EOF
		}
		select {
		case <-p.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ring wakes Next.
func (p *Tap) ring() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// tap offers a chunk that is about to be handed over to the taps on its input.
func (w *worker) tap(r *reader, c *record.Chunk) {
	by := w.t.taps.on.Load()
	if by == nil {
		return
	}
	for _, p := range (*by)[r.in.Name] {
		p.offer(r, c)
	}
}

// offer queues a copy of a chunk for the tap. If the tap holds tapRoom bytes already, offer drops the
// chunk and counts its records as dropped, so that the worker never waits.
func (p *Tap) offer(r *reader, c *record.Chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held >= tapRoom {
		p.dropped += uint64(c.Records)
		return
	}
	of := &passing{
		format: c.Route.Format, file: r.file, path: r.info.Path,
		body: bytes.Clone(c.Body), lens: bytes.Clone(c.Lens), stamp: c.Stamp,
	}
	for _, x := range c.Pieces {
		of.pieces = append(of.pieces, x.Span)
	}
	p.held += len(of.body)
	p.queue = append(p.queue, of)
	p.ring()
}
