package format

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// inOrderSlowly puts the bit of byte i where bit i is, one bit after the other.
func inOrderSlowly(x uint64) (ordered uint64) {
	for n := range 64 {
		ordered |= x >> n & 1 << bitOf(n)
	}
	return ordered
}

// TestPlanes: a plane has the bits of all bytes, and what is made of planes is what a loop over
// bytes makes.
func TestPlanes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var block [64]byte
		for i := range block {
			block[i] = byte(r.Uint32())
		}
		var p [8]uint64
		p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7] = planes(&block)
		for n, plane := range p {
			var want, even uint64
			odd := false
			for i, c := range block {
				bit := uint64(c >> n & 1)
				want |= bit << i
				if odd = odd != (bit > 0); odd {
					even |= 1 << i
				}
				if got := inOrderSlowly(below(i)); got != 1<<i-1 {
					t.Fatalf("below %d: %x", i, got)
				}
			}
			if got := inOrderSlowly(plane); got != want {
				t.Fatalf("plane %d of % x: %x, want %x", n, block, got, want)
			}
			if got := inOrder(plane); got != want {
				t.Fatalf("%x in order: %x, want %x", plane, got, want)
			}
			if got := inOrderSlowly(after(plane)); got != want<<1 {
				t.Fatalf("after %x: %x, want %x", plane, got, want<<1)
			}
			if got := inOrderSlowly(evenOut(plane)); got != even {
				t.Fatalf("even of %x: %x, want %x", plane, got, even)
			}
		}
	}
	if n := bits.OnesCount64(below(63)); n != 63 {
		t.Errorf("%d bits below 63", n)
	}
}
