package archive

import "testing"

// TestPlaces: a place is for one reader until it leaves or is stalled while another waits, and those that
// wait come in their order.
func TestPlaces(t *testing.T) {
	var p Places[int]
	stalled := 0
	take := func(r int, has bool, from int) {
		t.Helper()
		if h, f := p.Take(r, func(o int) bool { return o == stalled }); h != has || f != from {
			t.Errorf("reader %d: %v, the place of %d; want %v, %d", r, h, f, has, from)
		}
	}
	leave := func(r, next int) {
		t.Helper()
		if n := p.Leave(r); n != next {
			t.Errorf("reader %d leaves: %d is next, want %d", r, n, next)
		}
	}
	for r := 1; r <= MostUnpacking; r++ {
		take(r, true, 0)
	}
	take(1, true, 0)
	take(10, false, 0)
	take(11, false, 0)
	take(10, false, 0)
	leave(12, 0) // it has none
	take(13, false, 0)
	leave(13, 0) // it is closed while it waits
	stalled = 2
	take(11, true, 2)
	take(2, false, 0) // it waits like any other
	leave(1, 10)
	take(10, true, 0)
	leave(3, 2) // and not 13
	leave(4, 0)
	leave(10, 0)
	leave(11, 0)
	for r := 20; r < 20+MostUnpacking; r++ { // all are free
		take(r, true, 0)
	}
	leave(20, 0) // and nobody waits
}
