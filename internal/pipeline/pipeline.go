package pipeline

import (
	"kusto-agent/batcher"
	"kusto-agent/journal"
	"kusto-agent/record"
	"kusto-agent/tail"
)

// Sink lets tail hand chunks to the batcher.
type Sink struct{ *batcher.Batcher }

func (s Sink) Lease(r record.Route, want int, wake func()) (tail.Lease, error) {
	l, err := s.Batcher.Lease(r, want, wake)
	if l == nil {
		return nil, err // a nil *Lease must not become an interface that is not nil
	}
	return l, err
}

func States(files []journal.FileState) (all []tail.State) {
	for _, s := range files {
		all = append(all, tail.State{File: s.File, Info: s.Info, Position: s.Position, Mark: s.Mark, Ahead: s.Ahead})
	}
	return all
}
