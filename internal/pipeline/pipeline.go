// Package pipeline reads files into payloads as the agent does, also for those who only
// look: they send nothing, write nothing and disturb no agent.
package pipeline

import (
	"kusto-agent/batcher"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
	"kusto-agent/tail"
)

// Sink lets tail hand chunks to the batcher.
type Sink struct{ *batcher.Batcher }

// Lease is that of the batcher.
func (s Sink) Lease(r record.Route, want int, wake func()) (tail.Lease, error) {
	l, err := s.Batcher.Lease(r, want, wake)
	if l == nil {
		return nil, err // a nil *Lease must not become an interface that is not nil
	}
	return l, err
}

// States are what the journal knows of files, as tail takes it.
func States(files []journal.FileState) (all []tail.State) {
	for _, s := range files {
		all = append(all, tail.State{File: s.File, Info: s.Info, Position: s.Position, Mark: s.Mark, Ahead: s.Ahead})
	}
	return all
}
