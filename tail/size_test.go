package tail

import (
	"testing"
	"unsafe"
)

// TestSizes: what is kept of each file stays small; each is a size class of the allocator.
func TestSizes(t *testing.T) {
	if r, k := unsafe.Sizeof(reader{}), unsafe.Sizeof(generation{}); r > 96 || k > 96 {
		t.Errorf("a reader at rest takes %d bytes and a generation %d, want at most 96 each", r, k)
	}
}
