package arrivals

import (
	"testing"
	"time"
)

// TestArrivals: a wait is told as what it is, or shorter.
func TestArrivals(t *testing.T) {
	var a Notes
	now := time.Now().UnixNano()
	began := now - int64(time.Hour)
	at := func(size int64) int64 { return began + size*int64(time.Second) }
	for size := int64(10); size <= 1000; size += 10 {
		a.Add(size, at(size), 0)
		if len(a) > most {
			t.Fatalf("%d are kept", len(a))
		}
	}
	for pos := range int64(1000) {
		written := (pos/10 + 1) * 10
		if got := a.Of(pos).UnixNano(); got < at(written) || got > at(1000) {
			t.Errorf("byte %d is there since %d, written at %d", pos, (got-began)/1e9, written)
		}
	}
	if !a.Of(1000).IsZero() {
		t.Error("what was not seen is there")
	}
	a.Add(1000, at(1000), 995)
	if len(a) != 1 || a.Of(999).UnixNano() != at(1000) {
		t.Errorf("of what is safe it keeps %v", a)
	}
	a.Add(1010, now+int64(time.Hour), 995) // a clock that is ahead
	if got := a.Of(1005).UnixNano(); got < now || got > time.Now().UnixNano() {
		t.Errorf("written in %v", time.Duration(got-now))
	}
	a.Add(5, at(5), 0) // another generation
	if len(a) != 1 || a.Of(0).UnixNano() != at(5) || !a.Of(5).IsZero() {
		t.Errorf("after a truncation: %v", a)
	}
	a.Add(5, at(5), 5)
	if len(a) != 0 {
		t.Errorf("when all is safe: %v", a)
	}
}
