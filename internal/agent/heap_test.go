package agent

import (
	"math"
	"runtime/debug"
	"testing"

	"kusto-agent/internal/config"
)

// TestBoundHeap: the collector runs early while little is known of files, keeps its own
// measure with much, and leaves what the environment says alone.
func TestBoundHeap(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	loaded := config.DefaultConfig()
	cfg := &loaded
	cfg.Limits.Memory = 100 << 20
	check := func(what string, wantPercent int, wantLimit int64) {
		t.Helper()
		if got := debug.SetMemoryLimit(-1); got != wantLimit {
			t.Errorf("%s: heap bound %d, want %d", what, got, wantLimit)
		}
		if got := debug.SetGCPercent(77); got != wantPercent {
			t.Errorf("%s: growth of %d%%, want %d", what, got, wantPercent)
		}
		debug.SetMemoryLimit(math.MaxInt64)
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	BoundHeap(cfg, 0)
	check("few files", 30, heapBound(100<<20, 0))
	BoundHeap(cfg, 16<<20)
	check("many files", 100, heapBound(100<<20, 16<<20))
	t.Setenv("GOGC", "50")
	BoundHeap(cfg, 0)
	check("GOGC is set", 77, heapBound(100<<20, 0))
	t.Setenv("GOMEMLIMIT", "1GiB")
	BoundHeap(cfg, 0)
	check("both are set", 77, math.MaxInt64)
}
