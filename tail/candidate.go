package tail

import (
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/tracker"
)

// candidate is a generation that a file may continue, as it stood when the comparing began. Comparing reads
// files, without Tailer.mu: what it finds may be applied only if stands returns true by then.
type candidate struct {
	compare.Original
	k       *generation
	reader  *reader // nil: nobody reads it
	turning bool    // a turn of that is under way, or to come
	changed int64   // see past
}

// candidate copies the state of the generation k and of its reader. scan is the number of the scan
// under way. The caller holds Tailer.mu.
func (k *generation) candidate(scan uint64) *candidate {
	c := &candidate{Original: k.original(), k: k, reader: k.reader, changed: k.changed}
	c.Trail, c.Late = nil, nil
	if r := k.reader; r != nil {
		c.turning = r.life.Turn() == tracker.Queued || r.life.IsRunning()
		c.Ahead = nil
		c.Reader = &compare.Reader{
			File: r.f, Path: r.path(), Deleted: r.life.IsDeleted(), Missing: r.life.IsMissing(), Packed: r.z != nil,
			Resting: r.atEnd && r.life.Turn() == tracker.Resting, InTurn: r.life.IsRunning(),
			Intact: k.intact == uint32(scan), Anew: k.anew,
		}
	} else if !k.truncated.IsZero() {
		c.Trail, c.Late = k.places(), k.late // by which a copy is recognized that is shorter than what was read
	}
	return c
}

// original returns what is known of the generation k. The caller holds Tailer.mu, and keeps the
// result no longer than that.
func (k *generation) original() compare.Original {
	return compare.Original{
		Info: k.info.Info(), Truncated: k.truncated, Left: k.left,
		Position: k.position, Mark: k.mark, Ahead: k.ahead, Trail: k.trail, Late: k.late,
	}
}

// stands reports whether the generation is still as it was when the candidate was copied. The
// caller holds Tailer.mu.
func (c *candidate) stands() bool {
	r := c.k.reader
	return r == c.reader && c.k.position == c.Position && (r == nil || r.life.Turn() == tracker.Resting)
}
