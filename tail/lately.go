package tail

import (
	"bytes"
	"slices"
	"sync"

	"kusto-agent/internal/record"
)

// lately keeps the bytes that were read last, of all files together. Where a file is
// found truncated, they prove how much of a copy was read that ends between two places
// of the trail.
type lately struct {
	mu    sync.Mutex
	ring  []byte
	next  int64 // bytes that were ever put in
	reads []lateRead
}

// lateRead is one read in the ring.
type lateRead struct {
	of    record.File
	start int64 // offset in the file
	at    int64 // value of next before it was put in
	n     int64
}

const (
	lateRing = 4 << 20
	lateMost = 256 << 10 // of one read

	lateReads = 1 << 15 // that are known at most; of files of one line there may be more in the ring
)

// put stores the last bytes of data, at most lateMost, which was read at the offset of the file f.
// They replace the oldest bytes in the ring.
func (l *lately) put(f record.File, offset int64, data []byte) {
	cut := max(len(data)-lateMost, 0)
	data, offset = data[cut:], offset+int64(cut)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring == nil {
		l.ring = make([]byte, lateRing)
	}
	l.reads = append(l.reads, lateRead{f, offset, l.next, int64(len(data))})
	copy(l.ring, data[copy(l.ring[l.next%lateRing:], data):])
	l.next += int64(len(data))
	l.reads = l.reads[slices.IndexFunc(l.reads, func(r lateRead) bool { return r.at >= l.next-lateRing }):]
	l.reads = l.reads[max(len(l.reads)-lateReads, 0):]
}

// before returns the stored bytes of a file that end at the offset end, as far back as they are
// stored without a gap. The result is empty if there are none. The caller owns them.
func (l *lately) before(f record.File, end int64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	start, parts := end, [][]byte(nil)
	for _, r := range slices.Backward(l.reads) {
		n := start - r.start
		if r.of != f || n <= 0 || n > r.n {
			continue
		}
		part, from := make([]byte, n), r.at+start-r.start-n
		copy(part[copy(part, l.ring[from%lateRing:]):], l.ring)
		start, parts = start-n, append(parts, part)
	}
	slices.Reverse(parts)
	return bytes.Join(parts, nil)
}

// keepLate stores, with a generation that ends by a truncation, the bytes that were read of it
// last. If all store too much, the oldest lose theirs. The caller holds mu.
func (t *Tailer) keepLate(k *known, late []byte) {
	k.own().late = late
	t.lates = append(t.lates, k)
	all := 0
	for i, k := range slices.Backward(t.lates) {
		if all += len(k.late); all > lateRing {
			for _, old := range t.lates[:i+1] {
				old.own().late = nil
			}
			t.lates = slices.Delete(t.lates, 0, i+1)
			return
		}
	}
}
