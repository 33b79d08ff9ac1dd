package tail

import (
	"os"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
)

// holdsAhead reports whether the open file still has the content of the ranges in ahead. They lie
// after the read position and were safe or being sent in an earlier run. It compares the hash of
// the bytes before the end of each range; a range without a hash only has to be in the file. If it
// returns false, the file was rewritten and has to be read from its start.
func holdsAhead(f *os.File, ahead []record.Extent) bool {
	for _, x := range ahead {
		if m, err := fingerprint.MarkAt(f, x.End); err != nil || x.Mark != 0 && m != x.Mark {
			return false
		}
	}
	return true
}
