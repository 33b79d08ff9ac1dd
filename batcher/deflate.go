package batcher

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"

	"kusto-agent/internal/logzip"
)

// An Encoder of gzip at level 1. Higher levels are klauspost's in any case.
type Encoder string

const (
	Auto      Encoder = "auto"      // logzip, until it was found to be wrong
	Klauspost Encoder = "klauspost" // never logzip
)

// One payload in verifyEvery is inflated and compared before it is sent, and the first verifyFirst bytes
// of the first payload of a run: an encoder that is wrong on this machine shows that there. To inflate
// 4 MB costs twice what it takes to compress them.
const (
	verifyEvery = 1000
	verifyFirst = 256 << 10
)

// deflater compresses bodies. Its encoders are checked while they work: what one of them wrote is
// inflated and compared, in part for the first payload of all, and wholly for every verifyEvery'th. At
// the first difference logzip is not used any more.
type deflater struct {
	onFault func(error) // may be nil
	// fresh makes another encoder, which calls each with what it compresses.
	fresh    func(each func([]byte)) gzipper
	off      atomic.Bool  // there was a fault
	payloads atomic.Int64 // that were given to encoders
	mu       sync.Mutex
	free     []*worker
}

// gzipper is *logzip.Encoder. Tests have a faulty one in its place.
type gzipper interface {
	Append(dst []byte, t *logzip.Tables, parts ...[]byte) []byte
}

func newGzipper(each func([]byte)) gzipper { return &logzip.Encoder{Each: each} }

// worker is one encoder with what is needed to verify its output. There are as many as payloads were
// ever compressed at the same time.
type worker struct {
	gzipper
	sum     uint32 // of what the encoder has compressed of the payload
	summed  int    // bytes of that
	inflate gzip.Reader
	piece   [16 << 10]byte
}

// deflate appends the parts of raw, as one gzip member, to out. t has the Huffman tables that the
// route's previous payload left. It returns the body, the checksum of raw, which the encoder
// computes on the way, and the tables for the next payload. At the first error of logzip it
// switches to another encoder.
func (d *deflater) deflate(out []byte, t logzip.Tables, l Limits, raw [][]byte) ([]byte, uint32, logzip.Tables) {
	if l.Level > 1 || l.Encoder == Klauspost || d.off.Load() {
		return deflateKlauspost(out, raw, l.Level), Checksum(raw...), t
	}
	w := d.take()
	next := t
	body, err := w.deflate(out, &next, raw, toVerify(d.payloads.Add(1)))
	sum := w.sum
	if err != nil {
		// The worker is not used again: it may be the cause.
		if !d.off.Swap(true) && d.onFault != nil {
			d.onFault(err)
		}
		return deflateKlauspost(out, raw, l.Level), Checksum(raw...), t
	}
	d.give(w)
	return body, sum, next
}

// toVerify returns how many bytes of payload n, from 1, are inflated and compared.
func toVerify(n int64) int {
	switch {
	case n%verifyEvery == 0:
		return math.MaxInt
	case n == 1:
		return verifyFirst
	}
	return 0
}

// take returns a free worker, or a new one.
func (d *deflater) take() *worker {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.free)
	if n == 0 {
		w := new(worker)
		w.gzipper = d.fresh(w.add)
		return w
	}
	w := d.free[n-1]
	d.free = d.free[:n-1]
	return w
}

// give returns an encoder for reuse.
func (d *deflater) give(w *worker) {
	d.mu.Lock()
	d.free = append(d.free, w)
	d.mu.Unlock()
}

// add updates checksum and size with bytes that the encoder has consumed.
func (w *worker) add(p []byte) {
	w.sum = crc32.Update(w.sum, castagnoli, p)
	w.summed += len(p)
}

// deflate compresses the parts of raw and appends them to out. It returns an error if the encoder
// panics or did not read all of the payload, or if the output does not decompress to the payload, of
// which that many bytes are compared. t has the Huffman tables of the route, which it updates.
func (w *worker) deflate(out []byte, t *logzip.Tables, raw [][]byte, compared int) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("compress a payload: panic: %v", p)
		}
	}()
	w.sum, w.summed = 0, 0
	body = w.Append(out, t, raw...)
	if left := size(raw) - w.summed; left != 0 {
		return nil, fmt.Errorf("compress a payload: the encoder has %d bytes not seen", left)
	}
	if compared > 0 {
		err = w.verify(body[len(out):], raw, compared)
	}
	return body, err
}

// size returns the total length of the parts.
func size(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// verify inflates a gzip member and returns an error unless it equals the parts in raw. It stops after
// most bytes.
func (w *worker) verify(member []byte, raw [][]byte, most int) error {
	if w.sum != Checksum(raw...) {
		return errors.New("verify a payload: the encoder has seen other bytes")
	}
	in := bytes.NewReader(member)
	if err := w.inflate.Reset(in); err != nil {
		return fmt.Errorf("verify a payload: %w", err)
	}
	w.inflate.Multistream(false)
	at := 0
	for i, part := range raw {
		for len(part) > 0 {
			if at >= most {
				return nil
			}
			n, err := io.ReadFull(&w.inflate, w.piece[:min(len(part), len(w.piece))])
			if !bytes.Equal(w.piece[:n], part[:n]) {
				return fmt.Errorf("verify a payload: it differs within %d bytes from byte %d of part %d on", n, at, i)
			}
			if err != nil {
				return fmt.Errorf("verify a payload: from byte %d on: %w", at, err)
			}
			at += n
			part = part[n:]
		}
	}
	switch n, err := w.inflate.Read(w.piece[:1]); {
	case n > 0:
		return fmt.Errorf("verify a payload: more than its %d bytes", at)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("verify the end of a payload: %w", err)
	case in.Len() > 0:
		return fmt.Errorf("verify a payload: %d bytes follow it", in.Len())
	}
	return nil
}
