package batcher

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"

	"kusto-agent/internal/record"
)

// nextSealed waits for a sealed block and removes it. It returns nil once no more will come.
func (b *Batcher) nextSealed() *block {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.sealed) == 0 && !b.ended {
		b.more.Wait()
	}
	if len(b.sealed) == 0 {
		return nil
	}
	blk := b.sealed[0]
	b.sealed[0] = nil
	b.sealed = b.sealed[1:]
	return blk
}

// compress takes sealed blocks, makes each a payload with an id and a compressed body,
// and passes it to Next, until no more will come.
func (b *Batcher) compress() {
	for blk := b.nextSealed(); blk != nil; blk = b.nextSealed() {
		p := &record.Payload{
			ID:      record.BatchID(uuid.New()),
			Route:   blk.route,
			Cover:   blk.cover,
			Pieces:  blk.pieces,
			Records: blk.records,
			Lens:    blk.lens,
			Shaping: blk.shaping,
			ReadAt:  blk.readAt,
		}
		if blk.stamp != (record.BatchID{}) { // the records hold this text in place of the batch id
			restamp(blk.data, blk.stamp, p.ID)
		}
		b.pack(p, blk.sealed, blk.prefix, blk.data)
		b.finish(p, blk)
	}
}

// finish charges the budget with what the payload p needs instead of what its block blk needed,
// gives a full-size buffer back, and passes the payload to Next.
func (b *Batcher) finish(p *record.Payload, blk *block) {
	b.mu.Lock()
	b.take(blk.lane, weight(p)-blk.cost)
	if blk.out { // it is counted among the full-size blocks in use
		b.rawOut--
	}
	if blk.pooled {
		b.giveBlock(blk.raw)
	} else {
		b.giveStep(blk.data)
	}
	wake := b.wakeSome(nil)
	b.mu.Unlock()
	b.next.Put(p)
	b.mu.Lock()
	b.busy--
	b.mu.Unlock()
	call(wake)
}

// restamp replaces each occurrence of the batch id from by to. Use it only for an id that
// fields put into the records: one that is random, or was chosen after they were read.
func restamp(body []byte, from, to record.BatchID) {
	old, id := []byte(from.String()), to.String()
	for {
		i := bytes.Index(body, old)
		if i < 0 {
			return
		}
		body = body[i+copy(body[i:], id):]
	}
}

// pack sets body, sizes and checksum of a payload. raw has the parts of the body; they are
// compressed if the limits say so, with the Huffman tables of the route, which it updates for the
// next payload.
func (b *Batcher) pack(p *record.Payload, l Limits, raw ...[]byte) {
	p.RawBytes, p.Gzip = size(raw), l.Gzip
	b.mu.Lock()
	out, ln := b.takeBody(p.RawBytes), b.lane(p.Route)
	tables := ln.tables
	b.mu.Unlock()
	if l.Gzip {
		p.Body, p.CRC, tables = b.deflater.deflate(out, tables, l, raw)
		b.mu.Lock()
		ln.tables = tables // of two payloads at once those of the later one
		b.mu.Unlock()
	} else {
		p.CRC = Checksum(raw...)
		p.Body = slices.Grow(out, p.RawBytes)
		for _, part := range raw {
			p.Body = append(p.Body, part...)
		}
	}
	if b.onSealed != nil {
		b.onSealed(p.RawBytes, len(p.Body))
	}
}

// writers keeps gzip writers, one pool for each level: a new one costs more
// than a small payload.
var writers [gzip.BestCompression + 1]sync.Pool

// deflateKlauspost appends one gzip member to out, which holds the parts of raw compressed with the
// library klauspost/compress, and returns the longer slice.
func deflateKlauspost(out []byte, raw [][]byte, level int) []byte {
	buf := &output{bytes: out, raw: size(raw)}
	zw, _ := writers[level].Get().(*gzip.Writer)
	if zw == nil {
		var err error
		if zw, err = gzip.NewWriterLevel(buf, level); err != nil {
			panic(err) // the level was checked with the configuration
		}
	} else {
		zw.Reset(buf)
	}
	// Writing to memory does not fail.
	for _, part := range raw {
		if _, err := zw.Write(part); err != nil {
			panic(err)
		}
	}
	if err := zw.Close(); err != nil {
		panic(err)
	}
	writers[level].Put(zw)
	return buf.bytes
}

// output grows by half of what went in, so that it is seldom larger than that.
type output struct {
	bytes []byte
	raw   int
}

// Write appends p to the output buffer. The buffer grows in steps of half of the input, since how
// well the input compresses is not known before. It never fails.
func (o *output) Write(p []byte) (int, error) {
	if need := len(o.bytes) + len(p); need > cap(o.bytes) {
		most := o.raw + o.raw/1024 + 512 // of what does not compress
		size := min(cap(o.bytes)+o.raw/2, most)
		o.bytes = append(make([]byte, 0, max(size, need)), o.bytes...)
	}
	o.bytes = append(o.bytes, p...)
	return len(p), nil
}

// Raw returns the body of a payload before gzip, in memory that belongs to the caller. It fails if the
// body cannot be inflated or its checksum differs.
func Raw(p *record.Payload) ([]byte, error) {
	if !p.Gzip {
		return bytes.Clone(p.Body), nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(p.Body))
	if err != nil {
		return nil, fmt.Errorf("open body of batch %v: %w", p.ID, err)
	}
	raw := make([]byte, p.RawBytes)
	if _, err := io.ReadFull(zr, raw); err != nil {
		return nil, fmt.Errorf("inflate body of batch %v: %w", p.ID, err)
	}
	if Checksum(raw) != p.CRC {
		return nil, fmt.Errorf("inflate body of batch %v: checksum differs", p.ID)
	}
	return raw, nil
}
