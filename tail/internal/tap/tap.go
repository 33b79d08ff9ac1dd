// Package tap promises that somebody can watch the records of inputs as they are handed
// over, and that nobody waits for it: a tap takes copies, and what its reader does not
// fetch in time is dropped from the tap, and counted, and delivered all the same.
package tap

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

// Most is how many taps there can be at a time: each may hold room bytes, one chunk
// of each worker and the chunk at hand, which limits.memory does not count.
const Most = 4

const (
	room   = 4 << 20
	chunks = 1 << 13 // that a tap holds at most, however small they are
)

// ErrTooMany says that there are Most taps already.
var ErrTooMany = errors.New("too many taps are open")

// Taps are the taps that are open. Its methods are safe for concurrent use. The zero
// Taps has none.
type Taps struct {
	on    atomic.Pointer[map[string][]*Tap] // by input; nil: there is none
	mu    sync.Mutex
	all   []*Tap
	ended bool
}

// Tap is one of them. Next and Close are for one goroutine.
type Tap struct {
	of      *Taps
	inputs  []string
	queue   chan *passing // closed when no more comes
	held    atomic.Int64  // bytes in queue, and of the chunk at hand
	dropped atomic.Uint64
}

// Open opens a tap on the records of these inputs; a name that no input has gives no records. The
// error is ErrTooMany if there are Most. The caller closes the tap.
func (x *Taps) Open(inputs ...string) (*Tap, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.all) >= Most {
		return nil, ErrTooMany
	}
	p := &Tap{of: x, inputs: inputs, queue: make(chan *passing, chunks)}
	if x.ended {
		close(p.queue)
	}
	x.all = append(x.all, p)
	x.publish()
	return p, nil
}

// publish updates the list of taps that Offer reads. The caller holds mu.
func (x *Taps) publish() {
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

// End says that nothing is offered any more: the reader of a tap gets what is queued, and then
// io.EOF. No Offer may be under way or follow.
func (x *Taps) End() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	for _, p := range x.all {
		close(p.queue)
	}
}

// Offer shows a chunk that is about to be handed over to the taps on an input. file and path say
// where it is from. Nothing of the chunk is kept.
func (x *Taps) Offer(input string, file record.File, path string, c *record.Chunk) {
	by := x.on.Load()
	if by == nil {
		return
	}
	for _, p := range (*by)[input] {
		p.offer(file, path, c)
	}
}

// offer queues a copy of a chunk, or, if the tap holds as much as it may, counts its records as
// dropped: the worker never waits.
func (p *Tap) offer(file record.File, path string, c *record.Chunk) {
	if p.held.Load() < room {
		of := &passing{
			format: c.Route.Format, file: file, path: path,
			body: bytes.Clone(c.Body), lens: bytes.Clone(c.Lens), stamp: c.Stamp,
		}
		for _, x := range c.Pieces {
			of.pieces = append(of.pieces, x.Span)
		}
		p.held.Add(int64(len(of.body)))
		select {
		case p.queue <- of:
			return
		default:
			p.held.Add(-int64(len(of.body)))
		}
	}
	p.dropped.Add(uint64(c.Records))
}

// Close ends a tap: it gets no more records, and nobody copies any for it.
func (p *Tap) Close() {
	x := p.of
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = slices.DeleteFunc(x.all, func(o *Tap) bool { return o == p })
	x.publish()
}

// Dropped returns how many records were not shown because they were not fetched in time.
func (p *Tap) Dropped() uint64 { return p.dropped.Load() }

// Next waits for the next chunk of records, and calls each with every record of it. It returns an
// error of each, io.EOF when nothing more comes, or the error of ctx if that has ended and nothing
// is queued.
func (p *Tap) Next(ctx context.Context, each func(*Passed) error) error {
	var c *passing
	select {
	case c = <-p.queue:
	default:
		select {
		case c = <-p.queue:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c == nil {
		return io.EOF
	}
	defer p.held.Add(-int64(len(c.body)))
	return c.each(each)
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
