package tail

import (
	"os"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// holdsAhead reports whether an open file still holds what was safe or begun
// beyond its position. Where other bytes are by now, the file was rewritten, and
// what is there was never read.
func holdsAhead(f *os.File, ahead []record.Extent) bool {
	for _, x := range ahead {
		if m, err := fingerprint.MarkAt(f, x.End); err != nil || x.Mark != 0 && m != x.Mark {
			return false
		}
	}
	return true
}
