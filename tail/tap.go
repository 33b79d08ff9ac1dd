package tail

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"kusto-agent/internal/format"
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

// Next waits for the next chunk of records, and calls each with every record of it. It returns an
// error of each, io.EOF when the tailer has ended and all chunks were shown, or the error of ctx.
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

// offer queues a copy of a chunk, or, if the tap holds tapRoom bytes, counts its records as
// dropped: the worker never waits.
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

// Passed is a record that was handed over, or a block of them in Avro.
type Passed struct {
	File    record.File
	Path    string
	Offset  int64  // of its first byte in the file
	Length  int64  // in the file, its line end included
	Records int    // in a block; else 1
	Block   bool   // of an Avro file
	Data    []byte // as it is sent, its line end included; valid until the function it was given to returns
}

// passing is a copy of a chunk.
type passing struct {
	format record.Format
	file   record.File
	path   string
	body   []byte
	lens   []byte
	pieces []record.Span
	stamp  record.BatchID
}

// each calls f with every record of a tapped chunk until f returns an error. The id of the batch
// (stamp) is replaced by zeros, because the batch does not exist yet.
func (c *passing) each(f func(*Passed) error) error {
	scan, err := format.New(format.Options{Format: c.format, MaxRecord: math.MaxInt32})
	if err != nil {
		return err
	}
	var stamp, none []byte
	if c.stamp != (record.BatchID{}) {
		stamp, none = []byte(c.stamp.String()), []byte(record.BatchID{}.String())
	}
	rec := Passed{File: c.file, Path: c.path, Block: c.format == record.Avro, Records: 1}
	place := sourcePlaces{pieces: c.pieces, lens: c.lens, measured: c.lens != nil}
	for body := c.body; len(body) > 0; {
		n := scan.Split(body, 1)
		rec.Data = body[:n]
		body = body[n:]
		rec.Offset, rec.Length = place.next(n)
		if rec.Block {
			rec.Records = scan.Count(rec.Data)
		}
		if stamp != nil {
			rec.Data = bytes.ReplaceAll(rec.Data, stamp, none)
		}
		if err := f(&rec); err != nil {
			return err
		}
	}
	return nil
}

// sourcePlaces tells where in their file the records of a chunk are.
type sourcePlaces struct {
	pieces   []record.Span
	lens     []byte // see record.Payload
	measured bool   // there are some
	at       int64  // in the first piece, from its start
}

// next returns the place in the file of the next record, which has n bytes in the body. A length of
// 0 in s.lens means that it was made of the same lines as the next one with a length: both have the
// same place.
func (s *sourcePlaces) next(n int) (offset, length int64) {
	for len(s.pieces) > 1 && s.at >= s.pieces[0].Len() {
		s.pieces, s.at = s.pieces[1:], 0
	}
	offset, length = s.pieces[0].Start+s.at, int64(n)
	step := length
	if s.measured {
		v, k := binary.Uvarint(s.lens)
		s.lens = s.lens[k:]
		step, length = int64(v), int64(v)
		for ahead := s.lens; length == 0 && len(ahead) > 0; ahead = ahead[k:] {
			v, k = binary.Uvarint(ahead)
			length = int64(v)
		}
	}
	s.at += step
	return offset, length
}
