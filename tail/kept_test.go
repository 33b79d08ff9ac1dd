package tail

import (
	"slices"
	"strings"
	"testing"

	"kusto-agent/tail/internal/records"
)

// TestKeptRead: what is too little for a block is read in parts that fit into what a
// worker keeps; only a record that does not fit there is read at once.
func TestKeptRead(t *testing.T) {
	w := newWorld(t)
	w.block, w.in().MaxRecordSize = 8<<20, 2<<20
	var want []string
	for range 3 * records.Kept / 2 / 100 {
		want = append(want, strings.Repeat("x", 99))
	}
	want = append(want, strings.Repeat("y", 3*records.Kept/2))
	w.appendTo("a.log", strings.Join(want, "\n")+"\n")
	w.start()
	w.look()
	if got := w.boxed.take("in"); !slices.Equal(got, want) {
		t.Errorf("%d records came, want %d", len(got), len(want))
	}
	w.taker.mu.Lock()
	defer w.taker.mu.Unlock()
	large := slices.DeleteFunc(slices.Clone(w.taker.wants), func(n int) bool { return n <= records.Kept })
	if !slices.Equal(large, []int{len(want[len(want)-1]) + 1}) {
		t.Errorf("reads of %v bytes, of which only that of the long record may be larger than %d", w.taker.wants, records.Kept)
	}
}
