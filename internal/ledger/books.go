package ledger

import (
	"fmt"
	"maps"
)

// Books are the accounts of one input at one instant, in records except for
// ReadBytes. All but Pending and Spooled only grow while the agent runs, and
// all start at zero with it.
type Books struct {
	Read        uint64            `json:"read"`
	Restored    uint64            `json:"restored"`
	Accepted    uint64            `json:"accepted"`
	Pending     uint64            `json:"pending"` // read or restored, not yet ended
	Spooled     uint64            `json:"spooled"`
	ReadBytes   uint64            `json:"read_bytes"`
	Quarantined map[string]uint64 `json:"quarantined"` // by reason
	Dropped     map[string]uint64 `json:"dropped"`     // by reason
	Filtered    map[string]uint64 `json:"filtered"`    // by reason

	Changed map[string]uint64 `json:"changed,omitempty"` // by rule; they are in the other accounts too
}

// Table names a table. Tables of that name in several clusters are one.
type Table struct{ Database, Table string }

// Ends are how the records for a table ended, in this run.
type Ends struct {
	Accepted    Sum `json:"accepted"`
	Quarantined Sum `json:"quarantined"`
	Dropped     Sum `json:"dropped"`
}

// Sum is a number of records and their bytes, as record.Lot has them.
type Sum struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"`
}

// clone returns a copy of the books that shares no map with them.
func (b Books) clone() Books {
	for _, m := range []*map[string]uint64{&b.Quarantined, &b.Dropped, &b.Filtered, &b.Changed} {
		*m = maps.Clone(*m)
	}
	return b
}

// Check returns an error unless
//
//	read + restored = accepted + quarantined + dropped + filtered + pending + spooled
//
// and neither pending nor spooled exceeds what came in. They do so when a record is ended twice: the
// unsigned count then wraps below zero.
func (b Books) Check() error {
	in := b.Read + b.Restored
	out := b.Accepted + Total(b.Quarantined) + Total(b.Dropped) + Total(b.Filtered) + b.Pending + b.Spooled
	if in != out || b.Pending > in || b.Spooled > in {
		return fmt.Errorf("books do not close: read %d + restored %d, but accepted %d + quarantined %d + dropped %d + filtered %d + pending %d + spooled %d",
			b.Read, b.Restored, b.Accepted, Total(b.Quarantined), Total(b.Dropped), Total(b.Filtered), int64(b.Pending), int64(b.Spooled))
	}
	return nil
}

// Total returns the sum over all reasons of an account that counts records by reason.
func Total(byReason map[string]uint64) (n uint64) {
	for _, v := range byReason {
		n += v
	}
	return n
}
