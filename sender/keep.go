package sender

import (
	"errors"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/record"
	"kusto-agent/spool"
)

// maxKeepers is how many payloads are brought to the spool at a time: they share
// its syncs.
const maxKeepers = 8

// again is when a spool that could not be written or read is asked once more.
const again = time.Second

// noRoom is when memory that was too short for a payload out of the spool is
// asked once more.
const noRoom = 50 * time.Millisecond

// toKeep is a payload on its way to the spool.
type toKeep struct {
	*lane
	*item
	hold bool // it stays in hand, to be sent
}

// begin tells the journal of a request that is about to be made. A begin that
// could not be written suspends the bound on duplicates, which the journal tells;
// it is no reason to stop delivering.
func (s *Sender) begin(it *item) {
	if it.asSpooled() {
		_ = s.o.Journal.Replay(it.ID, it.Attempt)
		return
	}
	_ = s.o.Journal.Begin(it.Payload)
}

// end tells the journal how a payload ended, and then the spool, where it has it.
func (s *Sender) end(it *item, how record.Outcome) {
	if !it.asSpooled() {
		_ = s.o.Journal.End(it.ID, how)
		how = record.Replaced
	}
	if !it.spooled() {
		return
	}
	_ = s.o.Journal.EndReplay(it.frame, how)
	s.o.Spool.Done(it.frame, how)
}

// gone notes that a payload is no longer in hand. The caller holds mu.
func (s *Sender) gone(l *lane, it *item) {
	s.items--
	if it.spooled() {
		l.replays--
	}
}

// fetch takes the next payload of a lane out of the spool. It returns false, and
// has settled, where there is none to be had now.
func (s *Sender) fetch(l *lane, it *item) bool {
	later := func(wait time.Duration) bool {
		s.finish(l, func() {
			l.replays--
			l.unread = time.Now().Add(wait)
		})
		return false
	}
	if !s.o.Sealer.Reserve(s.isOnlyReplay(l)) {
		return later(noRoom)
	}
	defer s.o.Sealer.Unreserve()
	it.Payload, it.frame = s.o.Spool.Next(l.route)
	if it.Payload == nil {
		return later(again)
	}
	s.awaitKept(it.frame)
	it.Inputs(s.o.Books.Unspooled)
	s.o.Sealer.Adopt(it.Payload)
	s.mu.Lock()
	s.items++
	s.mu.Unlock()
	return true
}

// awaitKept waits until who brought a payload to the spool has told books and
// journal of it: the spool may give it out before.
func (s *Sender) awaitKept(frame record.BatchID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.onWay[frame] {
		changed := s.changed
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
}

// isOnlyReplay says whether a lane asks for the only payload out of the spool
// that its cluster has in hand: that one is read whether there is memory or not,
// so that what is kept comes to its turn.
func (s *Sender) isOnlyReplay(l *lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, other := range l.cluster.lanes {
		n += other.replays
	}
	return n == 1
}

// failsAlone says whether a payload was tried often and long enough to rest in
// the spool though its route works. One that is throttled is not at fault. The caller holds mu.
func (s *Sender) failsAlone(it *item, now time.Time) bool {
	const attempts = 3
	return !it.spooled() && !it.tooLarge && it.Attempt >= attempts && now.Sub(it.first) >= s.o.Config.Retry.Patience.D() &&
		s.o.Spool.Health() == nil
}

// shed sends what waits for routes that are down to the spool, so that reading
// goes on. Where the spool cannot take it, it returns when to look again. To one
// that is full what came from there goes back all the same: in hand it keeps room
// from being made. The caller holds mu.
func (s *Sender) shed(c *cluster, now time.Time) (later time.Time) {
	for _, l := range c.lanes {
		if !l.down && !c.down || len(l.queue) == 0 {
			continue
		}
		err := s.o.Spool.Health()
		if err == nil || errors.Is(err, spool.ErrFull) {
			s.keepAll(l, err == nil)
		}
		if err != nil {
			later = now.Add(again)
		}
	}
	return later
}

// keepAll sends the queue of a lane to the spool; without room, what is there
// already. The caller holds mu.
func (s *Sender) keepAll(l *lane, room bool) {
	stay := l.queue[:0]
	for _, it := range l.queue {
		if it.tooLarge || !room && !it.spooled() {
			stay = append(stay, it)
			continue
		}
		s.keep(l, it, false)
	}
	clear(l.queue[len(stay):])
	l.queue = stay
}

// keep sends a payload to the spool, to rest there or to be sent from hand. The
// caller holds mu.
func (s *Sender) keep(l *lane, it *item, hold bool) {
	s.keeping = append(s.keeping, toKeep{l, it, hold})
	if s.keepers < maxKeepers {
		s.keepers++
		// Started here, ends when nothing is left to keep; Keep waits.
		go s.keepLoop()
	}
}

func (s *Sender) keepLoop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.keeping) > 0 {
		k := s.keeping[0]
		s.keeping = s.keeping[1:]
		frame := k.frame
		if !k.spooled() {
			frame = k.ID
		}
		s.onWay[frame] = true
		s.mu.Unlock()
		err := s.toSpool(k)
		rests := err == nil && !k.hold
		if rests {
			k.Inputs(s.o.Books.Spooled)
			s.o.Sealer.Release(k.Payload)
		}
		s.mu.Lock()
		delete(s.onWay, frame)
		if rests {
			s.gone(k.lane, k.item)
		} else {
			s.stays(k, err)
		}
		s.announce()
		k.cluster.wake()
	}
	s.keepers--
	s.announce()
}

// toSpool brings one payload to the spool.
func (s *Sender) toSpool(k toKeep) error {
	if k.spooled() {
		s.o.Spool.Return(k.frame)
		return nil
	}
	_ = s.o.Journal.Begin(k.Payload) // so that its end is known to cover something
	put := s.o.Spool.Put
	if k.hold {
		put = s.o.Spool.Hold
	}
	if err := put(k.Payload); err != nil {
		return err
	}
	_ = s.o.Journal.End(k.ID, record.Spooled)
	return nil
}

// stays queues a payload that is to be sent from hand, or could not be kept: the
// spool tells why, and Health until that is over. The caller holds mu.
func (s *Sender) stays(k toKeep, err error) {
	if err == nil {
		k.frame = k.ID
		k.replays++
	}
	k.tooLarge = errors.Is(err, durable.ErrTooLarge)
	k.queue = append(k.queue, k.item)
}

// halve puts the halves of a refused payload in its place.
func (s *Sender) halve(it *item, children []*record.Payload) ([]*item, error) {
	if !it.spooled() {
		_ = s.o.Journal.Split(it.ID, children)
		return []*item{{Payload: children[0]}, {Payload: children[1]}}, nil
	}
	var halves []*item
	for _, c := range children {
		c.Replaces = it.frame // so that a restart knows which of them to leave out
		_ = s.o.Journal.Begin(c)
		if err := s.o.Spool.Hold(c); err != nil {
			s.takeBack(halves, children)
			return nil, err
		}
		_ = s.o.Journal.End(c.ID, record.Spooled)
		halves = append(halves, &item{Payload: c, frame: c.ID})
	}
	s.end(it, record.Split)
	return halves, nil
}

// takeBack gives up halves that could not all be kept.
func (s *Sender) takeBack(halves []*item, children []*record.Payload) {
	for _, h := range halves {
		s.end(h, record.Replaced)
	}
	for _, c := range children {
		_ = s.o.Journal.End(c.ID, record.Replaced) // if it was begun and no more
		s.o.Sealer.Release(c)
	}
}

// Keep brings what is left in hand to the spool, after Run has returned, and
// returns how many payloads that were and how many stay as they were: begun, or
// unread, in the journal.
func (s *Sender) Keep() (kept, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.items
	for _, l := range s.lanes {
		if s.o.Spool.Health() != nil {
			continue // what stays begun is named by the next start
		}
		for _, it := range l.queue {
			if it.cut {
				s.o.Logger.Warn("outcome of a batch is unknown at the stop, it is sent again after the next start and may be stored twice",
					"database", l.route.Database, "table", l.route.Table, "batch", it.ID.String(), "attempt", it.Attempt, "records", it.Records)
			}
		}
		s.keepAll(l, true)
	}
	for s.keepers > 0 {
		changed := s.changed
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
	return before - s.items, s.items
}
