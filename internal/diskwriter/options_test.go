package diskwriter

import (
	"testing"
	"time"
)

// TestDefault: what is set stays, and what is not set gets the value.
func TestDefault(t *testing.T) {
	var call func() int
	stall := time.Second
	Default(&call, func() int { return 7 })
	Default(&call, func() int { return 8 })
	Default(&stall, time.Minute)
	if call() != 7 || stall != time.Second {
		t.Errorf("got %d and %v", call(), stall)
	}
}
