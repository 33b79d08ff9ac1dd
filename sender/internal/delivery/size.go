package delivery

import (
	"time"

	"kusto-agent/internal/record"
)

// sizes is what the answers tell about how large a payload of a route may be, in bytes
// before gzip.
type sizes struct {
	refused int       // the smallest that was refused for its size; 0: none is known
	taken   int       // the largest below it that was accepted since
	until   time.Time // when this is forgotten
}

const (
	// sizeFor is how long a size that was refused is kept to. A limit can be raised: one
	// payload of full size in this time asks whether it was.
	sizeFor = 15 * time.Minute
	// leastSize is the size that no limit is below: a smaller payload that is refused for
	// its size says nothing of others.
	leastSize = 16 << 10
)

// refuse records that a payload of this size, in bytes before gzip, was refused for its size, and
// returns true if the known limit is lower than before. A size below leastSize changes nothing,
// since it says nothing about other payloads.
func (s *sizes) refuse(size int, now time.Time) bool {
	s.forget(now)
	if size < leastSize || s.refused > 0 && size >= s.refused {
		return false
	}
	if s.refused = size; s.taken >= size {
		s.taken = 0
	}
	s.until = now.Add(sizeFor)
	return true
}

// accept records that a payload of this size, in bytes before gzip, was accepted. If one of the
// same or a smaller size was refused before, the limit was raised, and what is known is reset.
func (s *sizes) accept(size int) {
	switch {
	case s.refused == 0:
	case size >= s.refused:
		*s = sizes{}
	default:
		s.taken = max(s.taken, size)
	}
}

// forget drops the learned limit when it is too old.
func (s *sizes) forget(now time.Time) {
	if !now.Before(s.until) {
		*s = sizes{}
	}
}

// largest returns how many bytes before gzip a payload should have at most, 0 if no limit is known.
// It is the largest of three: the largest size below the refused one that was accepted, half of the
// refused size, and leastSize, below which no service limits a payload.
func (s *sizes) largest(now time.Time) int {
	if s.refused == 0 || !now.Before(s.until) {
		return 0
	}
	return max(s.taken, s.refused/2, leastSize)
}

// isOver reports whether the service would surely refuse the payload for its size, so that it is to
// be halved before a request is made. It is false for a payload of which a request was made before:
// the service may have stored it, and would not recognize the halves, which have other ids. It is
// also false for one that cannot be divided, and while the route or its cluster is down or held.
func (m *Machine) isOver(p *Payload) bool {
	s := &p.route.sizes
	s.forget(m.now)
	return s.refused > 0 && p.Data.RawBytes >= s.refused && p.Data.Records > 1 && p.Data.Attempt == 0 && !p.asIs && !p.route.blocked()
}

// Largest returns the most bytes before gzip that a payload of a route should have, as learned from
// recent answers of the service; 0 means that no limit is known.
func (m *Machine) Largest(name record.Route, now time.Time) int {
	if r := m.routes[name]; r != nil {
		return r.sizes.largest(now)
	}
	return 0
}
