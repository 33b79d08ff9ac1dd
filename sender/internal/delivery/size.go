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

// refuse notes a payload that was refused for its size, and reports whether payloads are
// to be smaller than before.
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

// accept notes a payload that was accepted. One as large as another that was refused
// shows that there is no such limit any more.
func (s *sizes) accept(size int) {
	switch {
	case s.refused == 0:
	case size >= s.refused:
		*s = sizes{}
	default:
		s.taken = max(s.taken, size)
	}
}

// forget drops what was learned too long ago.
func (s *sizes) forget(now time.Time) {
	if !now.Before(s.until) {
		*s = sizes{}
	}
}

// largest is how large a payload may be as far as is known; 0: no limit is known.
func (s *sizes) largest(now time.Time) int {
	if s.refused == 0 || !now.Before(s.until) {
		return 0
	}
	return max(s.taken, s.refused/2, leastSize)
}

// isOver reports whether a payload is surely refused for its size. One of which a request
// was made keeps its id, and is never among them: its outcome may be unknown.
func (m *Machine) isOver(p *Payload) bool {
	s := &p.route.sizes
	s.forget(m.now)
	return s.refused > 0 && p.Data.RawBytes >= s.refused && p.Data.Records > 1 && p.Data.Attempt == 0 && !p.asIs && !p.route.blocked()
}

// Largest is how many bytes before gzip a payload of a route may have, as far as the
// answers of the service have told lately; 0: they have told of no limit.
func (m *Machine) Largest(name record.Route, now time.Time) int {
	if r := m.routes[name]; r != nil {
		return r.sizes.largest(now)
	}
	return 0
}
