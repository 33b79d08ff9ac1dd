package spool

import (
	"fmt"
	"slices"
	"time"
	"unique"

	"kusto-agent/internal/diskwriter"
	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

const (
	// overhead is the most a frame takes besides its meta and its body, and
	// what a segment's header takes.
	overhead = 64
	// segmentCost is what a new segment takes besides its frames and their slots:
	// its header, its seal, the seal of the one before, and the head of its index.
	segmentCost = 3*overhead + indexHeader + 16
)

// request is a payload on its way to the disk.
type request struct {
	p       *record.Payload // its Body is not used
	route   route
	spooled int64
	at      int64 // where its frame was written, and how long it is
	size    int64
	frame   durable.Frame
	cost    int64 // bytes on disk, at most

	hold    *record.Payload // to be given out once it is durable; nil: it waits
	second  bool            // there is another frame of it, which ends now
	done    chan error      // gets one value
	written bool            // a segment may hold a frame of it; the writer's
	// Guarded by Spool.mu.
	copied bool // the writer has the bytes and needs the caller's no more
	gaveUp bool // the caller has gone on without it
}

// Put keeps a payload until Done: once it returned nil the payload survives a power cut.
// Payloads put at the same time share one sync. A payload that Next gave out is not written again
// but returned, as by Return.
//
// Put returns ErrFull if max_size or min_free leaves no room, ErrOff if max_size is 0, ErrClosed, or
// the disk's error. It returns record.ErrStalled if the disk does not answer in time. After an error
// the payload is not in the spool of this run. It may be there at the next start: the write may have
// reached the disk. The bytes of p are not used after Put returned.
func (s *Spool) Put(p *record.Payload) error {
	if s.isInHand(p.ID) && s.giveBack(p.ID, time.Time{}) {
		return nil
	}
	return s.write(p, nil, false)
}

// isInHand reports whether the caller of Next has a payload. A payload that the spool is still
// reading or making again counts as not in hand: what is put under its id meanwhile is another
// copy.
func (s *Spool) isInHand(id record.BatchID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.out[id]
	return t != nil && t.given && t.payload != nil
}

// Hold keeps a payload, as Put does and with the same errors. Afterwards the payload counts
// as given out by Next: the caller has it, and calls Return or Done.
func (s *Spool) Hold(p *record.Payload) error { return s.write(p, p, false) }

// write hands a payload to the writer and waits, at most Options.Stall, until it is durable.
// With hold the payload then counts as given out. second says that the spool has another
// frame (stored copy) of the payload, which the caller ends. The errors are those of Put.
func (s *Spool) write(p, hold *record.Payload, second bool) error {
	if s.cfg().MaxSize <= 0 {
		return ErrOff
	}
	now := s.o.Now()
	r := &request{p: p, route: unique.Make(p.Route), spooled: s.age.now().UnixNano(), hold: hold, second: second, done: make(chan error, 1)}
	r.frame = durable.Frame{Type: typePayload, Records: uint32(p.Records), Meta: encodeMeta(p, now), Body: p.Body}
	n := len(r.frame.Meta) + len(p.Body)
	if n > durable.MaxFrame {
		return fmt.Errorf("spool payload of %d bytes: %w", n, durable.ErrTooLarge)
	}
	r.cost = int64(n) + overhead + indexCost(p)
	if err := s.submit(r); err != nil {
		return err
	}
	if err, ok := diskwriter.Wait(r.done, s.o.Stall); ok {
		return err
	}
	return s.giveUp(r)
}

// submit queues the request r for the writer and wakes it. The error is ErrClosed, or
// record.ErrStalled if the disk hangs already; then r is not queued.
func (s *Spool) submit(r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.disk.Closed():
		return ErrClosed
	case s.disk.Stalls():
		return record.ErrStalled
	}
	s.queue, s.used = append(s.queue, r), true
	s.disk.Wake()
	return nil
}

// giveUp withdraws a request whose caller has waited for Options.Stall, and returns
// record.ErrStalled, or the result of the request if there is one by now. If the writer has begun
// with the request, OnUnwanted is called first: the payload may reach the disk.
func (s *Spool) giveUp(r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-r.done:
		return err
	default:
	}
	if r.gaveUp = true; !r.copied { // still in the queue
		s.queue = slices.DeleteFunc(s.queue, func(q *request) bool { return q == r })
		return record.ErrStalled
	}
	s.mu.Unlock()
	s.o.OnUnwanted([]record.BatchID{r.p.ID})
	s.mu.Lock()
	return record.ErrStalled
}
