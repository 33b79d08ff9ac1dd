package tail

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/fingerprint"
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

// lateEnd returns the place at an offset. late are the bytes before the offset position. False:
// they do not reach back that far, or the offset is after position.
func lateEnd(late []byte, position, offset int64) (place, bool) {
	n := int64(len(late)) - (position - offset)
	if n < min(offset, record.MarkLen) || offset > position {
		return place{}, false
	}
	return place{offset, fingerprint.MarkOf(late[max(n-record.MarkLen, 0):n])}, true
}

// endsLate compares the end of f, which has size bytes, with the bytes of late before that offset.
// late are the bytes that were read of another file before the offset position.
func endsLate(f io.ReaderAt, size int64, late []byte, position int64) (place, bool) {
	p, ok := lateEnd(late, position, size)
	if !ok {
		return place{}, false
	}
	late = late[:int64(len(late))-(position-size)]
	b := make([]byte, len(late))
	_, err := fingerprint.ReadFull(f, b, size-int64(len(b)))
	return p, err == nil && bytes.Equal(b, late)
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

// trail is where reading of a generation stood lately, with the mark of each
// place. What is written between a copy and the truncation that follows it is
// read from the file and missing in the copy; the trail knows such a copy, which
// is shorter than what was read, for what it is. Guarded by Tailer.mu.
type trail []place

type place struct {
	offset int64
	mark   record.Mark
}

// trailLen is how many places are kept; one is added by a turn at most.
const trailLen = 64

// add stores a place; nothing if the mark is not known.
func (t *trail) add(offset int64, mark record.Mark) {
	if n := len(*t); mark == 0 || n > 0 && (*t)[n-1].offset == offset {
		return
	} else if n == trailLen {
		for i := range n / 2 { // every second one will do for what is long past
			(*t)[i] = (*t)[2*i]
		}
		*t = (*t)[:n/2]
	}
	*t = append(*t, place{offset, mark})
}

// within returns the last place of the trail that an open file of this size reaches, and
// whether the file has the same content up to there.
func (t trail) within(f io.ReaderAt, size int64) (place, bool) {
	for _, p := range slices.Backward(t) {
		if p.offset <= size {
			m, err := fingerprint.MarkAt(f, p.offset)
			return p, err == nil && m == p.mark
		}
	}
	return place{}, false
}
