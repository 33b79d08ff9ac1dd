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

// TestPaceCollector: the heap may double while it holds no records, and grows by less the more of it are records.
// What the environment says is left alone.
func TestPaceCollector(t *testing.T) {
	percent := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	check := func(what string, inHand, known int64, want int) {
		t.Helper()
		paceCollector(inHand, known)
		if got := debug.SetGCPercent(77); got != want {
			t.Errorf("%s: GOGC %d, want %d", what, got, want)
		}
	}
	t.Setenv("GOGC", "")
	check("no records", 0, 0, 100)
	check("records of 60 MiB", 60<<20, 0, 34)
	check("many files", 60<<20, 100<<20, 70)
	check("all memory", 4<<30, 0, 12)
	t.Setenv("GOGC", "off")
	check("GOGC is set", 0, 0, 77)
}
