package bench

import (
	"testing"
	"time"
)

// TestFar: what is sent to a far sink arrives whole, with TLS and without, and the
// distance is there.
func TestFar(t *testing.T) {
	dir := t.TempDir()
	rig := newRig(t, dir)
	in, err := Shape{Name: "few", Files: 3, Size: 1 << 20}.Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, secure := range []bool{false, true} {
		// Twelve or more requests of a table, one at a time: each waits for the answer before it.
		const delay = 20 * time.Millisecond
		res, err := rig.Far(in, Away{Delay: delay, TLS: secure, Batch: "max_size: 256kB", Send: "concurrency: 1"})
		if err != nil {
			t.Fatal(err)
		}
		if least := time.Duration(res.Sink.Requests-1) * delay; res.Wall < least || res.Sink.Requests < 12 {
			t.Errorf("%d requests in %v, want %v or more", res.Sink.Requests, res.Wall, least)
		}
	}
	res, err := rig.Far(in, Away{Rate: 4_000_000, Batch: "max_size: 256kB"})
	if err != nil {
		t.Fatal(err)
	}
	if least := time.Duration(float64(res.Sink.Body-slowPiece) / 4e6 * float64(time.Second)); res.Wall < least {
		t.Errorf("%d bytes in %v, want %v or more", res.Sink.Body, res.Wall, least)
	}
}
