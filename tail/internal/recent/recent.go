// Package recent promises that the last bytes that were read of all files are at hand, within
// the 4 MiB that they may take together. Where a file is found truncated, they prove how much of
// a copy was read that ends between two places where reading stood.
package recent

import (
	"bytes"
	"slices"
	"sync"

	"kusto-agent/internal/record"
)

// Ring keeps the bytes that were read last. Its methods are safe for concurrent use.
type Ring struct {
	mu    sync.Mutex
	ring  []byte
	next  int64 // bytes that were ever put in
	reads []read
}

// read is one read in the ring.
type read struct {
	of    record.File
	start int64 // offset in the file
	at    int64 // value of next before it was put in
	n     int64
}

const (
	Size       = 4 << 20   // of the ring, in bytes
	mostOfRead = 256 << 10 // of one read

	mostReads = 1 << 15 // that are known at most; of files of one line there may be more in the ring
)

// Put stores the last bytes of data, at most mostOfRead, which was read at the offset of the file f.
// They replace the oldest bytes in the ring.
func (x *Ring) Put(f record.File, offset int64, data []byte) {
	cut := max(len(data)-mostOfRead, 0)
	data, offset = data[cut:], offset+int64(cut)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ring == nil {
		x.ring = make([]byte, Size)
	}
	x.reads = append(x.reads, read{f, offset, x.next, int64(len(data))})
	copy(x.ring, data[copy(x.ring[x.next%Size:], data):])
	x.next += int64(len(data))
	x.reads = x.reads[slices.IndexFunc(x.reads, func(r read) bool { return r.at >= x.next-Size }):]
	x.reads = x.reads[max(len(x.reads)-mostReads, 0):]
}

// Before returns the stored bytes of a file that end at the offset end, as far back as they are
// stored without a gap. The result is empty if there are none. The caller owns them.
func (x *Ring) Before(f record.File, end int64) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	start, parts := end, [][]byte(nil)
	for _, r := range slices.Backward(x.reads) {
		n := start - r.start
		if r.of != f || n <= 0 || n > r.n {
			continue
		}
		part, from := make([]byte, n), r.at+start-r.start-n
		copy(part[copy(part, x.ring[from%Size:]):], x.ring)
		start, parts = start-n, append(parts, part)
	}
	slices.Reverse(parts)
	return bytes.Join(parts, nil)
}
