package agent

import (
	"os"
	"runtime/debug"

	"kusto-agent/internal/config"
)

// BoundHeap sets the memory limit of the Go runtime: limits.memory, plus the size of the program,
// plus known, the bytes that the state of all known files takes. By default the heap would grow to
// twice its size before the garbage collector runs; a limit below the memory in use would make it
// run without end. With GOMEMLIMIT in the environment it does nothing.
func BoundHeap(cfg *config.Config, known int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapBound(int64(cfg.Limits.Memory), known))
	}
}

func heapBound(memory, known int64) int64 {
	const besides = 20 << 20 // with what is mapped of the program well below 64 MiB
	return memory + besides + known
}

// weigh adapts the memory limit of the Go runtime to known, the bytes that the state of all known
// files takes. The tailer calls it when that changes.
func (a *Agent) weigh(known int64) {
	a.known.Store(known)
	a.boundHeap()
}

// boundHeap sets the memory limit of the Go runtime by the configuration in force and by what is
// known of files. The lock keeps a call that has read older values from setting them last.
func (a *Agent) boundHeap() {
	a.mu.Lock()
	defer a.mu.Unlock()
	BoundHeap(a.config(), a.known.Load())
}
