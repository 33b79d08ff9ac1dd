package recent

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"kusto-agent/internal/record"
)

// TestRing: what is kept of a file are bytes of it, up to the offset that is asked for,
// whatever else was read; and the end of what was read last is never lacking.
func TestRing(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var x Ring
	files := make([][]byte, 5) // as far as they were read
	for range 800 {
		i := r.IntN(len(files))
		f, at := record.File{ID: record.FileID(i)}, len(files[i])
		data := make([]byte, 1+r.IntN(1<<r.IntN(19)))
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		if back := r.IntN(at + 1); r.IntN(3) == 0 { // of the last read not all was taken
			at = max(at-64, back)
		}
		files[i] = append(files[i][:at], data...)
		x.Put(f, int64(at), data)
		end := at + r.IntN(len(data)+1)
		late := x.Before(f, int64(end))
		if !bytes.HasSuffix(files[i][:end], late) {
			t.Fatalf("kept before %d are %d bytes that were not read there", end, len(late))
		}
		if least := min(end-at, mostOfRead-(len(data)-(end-at))); len(late) < least {
			t.Fatalf("kept before %d of a read at %d of %d bytes are %d bytes", end, at, len(data), len(late))
		}
	}
}
