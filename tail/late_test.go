package tail

import (
	"testing"

	"kusto-agent/tail/internal/recent"
)

func TestLatelyIsBounded(t *testing.T) {
	t.Parallel()
	var x Tailer
	all := make([]*generation, 100)
	for i := range all {
		all[i] = new(generation)
		x.keepLate(all[i], make([]byte, recent.Size/10))
	}
	for i, k := range all {
		if kept := i >= len(all)-10; kept != (k.late != nil) {
			t.Errorf("generation %d of %d: kept %v", i, len(all), !kept)
		}
	}
}
