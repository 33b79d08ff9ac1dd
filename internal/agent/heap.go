package agent

import (
	"os"
	"runtime/debug"

	"kusto-agent/internal/config"
)

// besides is the memory that the agent needs beside records and what is known of files: with what is
// mapped of the program well below 64 MiB.
const besides = 20 << 20

// BoundHeap sets the memory limit of the Go runtime: limits.memory, plus the size of the program,
// plus known, the bytes that the state of all known files takes. By default the heap would grow to
// twice its size before the garbage collector runs; a limit below the memory in use would make it
// run without end. With GOMEMLIMIT in the environment it does nothing.
func BoundHeap(cfg *config.Config, known int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(cfg.Limits.Memory) + besides + known)
	}
}

// paceCollector sets how far the heap may grow before the garbage collector runs, by the bytes of records
// that are in hand and by what is known of files. With GOGC in the environment it does nothing.
func paceCollector(inHand, known int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth(inHand, known))
	}
}

// growth returns by how many percent the heap may grow before the garbage collector runs: as much again as what
// it has to look through, as the Go runtime does by default, and an eighth of the records in hand. These lie in
// buffers without pointers, which cost it nothing.
func growth(inHand, known int64) int {
	state := besides + known
	return int(100 * (state + inHand/8) / (state + inHand))
}

// weigh adapts the collector to known, the bytes that the state of all known files takes. The tailer calls it
// when that changes.
func (a *Agent) weigh(known int64) {
	a.known.Store(known)
	a.boundHeap()
}

// weighRecords adapts the collector to the bytes of records in hand. The batcher calls it when these have
// changed much.
func (a *Agent) weighRecords(inHand int64) {
	a.inHand.Store(inHand)
	a.boundHeap()
}

// boundHeap sets the memory limit and the pace of the garbage collector by the configuration in force, by what is
// known of files, and by the records in hand. The lock keeps a call that has read older values from setting
// them last.
func (a *Agent) boundHeap() {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.known.Load()
	BoundHeap(a.config(), known)
	paceCollector(a.inHand.Load(), known)
}
