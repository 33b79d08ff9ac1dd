package records

import (
	"log/slog"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/recent"
	"kusto-agent/tail/internal/tap"
)

// Lease is room for one read. Its methods are those of the batcher's.
type Lease interface {
	Block() []byte
	Seal(*record.Chunk)
	Append(*record.Chunk)
	Done()
}

// Sink takes chunks. Lease returns nil when there is no room, and calls wake
// once when it makes sense to ask again.
type Sink interface {
	Lease(r record.Route, want int, wake func()) (Lease, error)
	// Most is how many bytes it makes sense to want for now.
	Most(r record.Route) int
}

// Quarantine keeps refused records. Put returns after they are durable.
type Quarantine interface {
	Put(recs []record.Rejected) error
}

// Books count what is read.
type Books interface {
	Read(input string, records int, bytes int64)
	Filtered(input, reason string, records int)
	Changed(input, rule string, records int)
	Rejected(lot record.Lot, reason record.Reason)
}

// Contents counts what is met in files and is no record as it should be.
type Contents interface {
	InvalidUTF8(input string, records int)
	Unparsed(input string, records int)
	NULs(input string, bytes int64)
}

// Ports are where records go, and what is told on the way.
type Ports struct {
	Sink       Sink
	Quarantine Quarantine
	Books      Books
	Contents   Contents
	Logger     *slog.Logger
	Stamp      record.BatchID // see record.Chunk; of this run
	Taps       *tap.Taps
	Recent     *recent.Ring

	// Skip tells the journal that a range needs no reading, and waits for the disk.
	Skip func(f record.File, span record.Span, mark record.Mark)
}
