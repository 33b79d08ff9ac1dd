// Package pipeline reads files into payloads as the agent does, also for those who only
// look: they send nothing, write nothing and disturb no agent.
package pipeline

import (
	"iter"

	"kusto-agent/batcher"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
	"kusto-agent/tail"
)

// Sink lets tail hand chunks to the batcher.
type Sink struct{ *batcher.Batcher }

// Lease asks the batcher for a lease, room to read want bytes of the route r. If there is no
// room, it returns nil and no error, and calls wake when it makes sense to ask again.
func (s Sink) Lease(r record.Route, want int, wake func()) (tail.Lease, error) {
	l, err := s.Batcher.Lease(r, want, wake)
	if l == nil {
		return nil, err // a nil *Lease must not become an interface that is not nil
	}
	return l, err
}

// States converts what the journal knows of files to the form in which package tail takes it.
func States(files iter.Seq[journal.FileState]) iter.Seq[tail.State] {
	return func(yield func(tail.State) bool) {
		for s := range files {
			if !yield(tail.State{File: s.File, Info: s.Info, Position: s.Position, Mark: s.Mark, Ahead: s.Ahead}) {
				return
			}
		}
	}
}
