package agent

import (
	"math"
	"runtime/debug"
	"testing"

	"kusto-agent/internal/config"
)

// TestBoundHeap: the limit of the heap follows limits.memory and what is known of files, and
// leaves what the environment says alone.
func TestBoundHeap(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	loaded := config.DefaultConfig()
	cfg := &loaded
	cfg.Limits.Memory = 100 << 20
	check := func(what string, want int64) {
		t.Helper()
		if got := debug.SetMemoryLimit(math.MaxInt64); got != want {
			t.Errorf("%s: heap bound %d, want %d", what, got, want)
		}
	}
	t.Setenv("GOMEMLIMIT", "")
	BoundHeap(cfg, 0)
	check("few files", 120<<20)
	BoundHeap(cfg, 16<<20)
	check("many files", 136<<20)
	t.Setenv("GOMEMLIMIT", "1GiB")
	BoundHeap(cfg, 0)
	check("GOMEMLIMIT is set", math.MaxInt64)
}
