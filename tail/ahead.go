package tail

import (
	"os"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// holdsAhead reports whether an open file still has the content of the ranges after its
// position that were safe or being sent. If not, the file was rewritten, and its content
// was never read.
func holdsAhead(f *os.File, ahead []record.Extent) bool {
	for _, x := range ahead {
		if m, err := fingerprint.MarkAt(f, x.End); err != nil || x.Mark != 0 && m != x.Mark {
			return false
		}
	}
	return true
}
