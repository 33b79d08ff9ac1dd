package tail

import "time"

// arrivals is how large a file was when, for as long as bytes of then are not
// safe: how long the oldest of them waits follows from it. Where it grew too
// large, neighbours are joined, and what came between is taken for younger than
// it is. So a wait is told as shorter than it was, never as longer. Guarded by
// Tailer.mu.
type arrivals []arrival

type arrival struct {
	size int64
	at   int64 // ns: when the last byte before size was written, as the file tells
}

// arrivalsLen is how many are kept.
const arrivalsLen = 16

// add notes that the file had size bytes when it was last changed at mtime (in ns), and drops the
// notes of bytes before the offset safe. From the notes follows how long the oldest byte that is
// not safe waits. If the list is full, each two neighbours become one with the later time, so a
// wait is never reported as too long. An unknown mtime, or one in the future, is replaced by the
// current time.
func (a *arrivals) add(size, mtime, safe int64) {
	all := *a
	for len(all) > 0 && all[0].size <= safe {
		all = all[1:]
	}
	n := len(all)
	if n > 0 && all[n-1].size > size { // the file was truncated
		all, n = nil, 0
	}
	now := time.Now().UnixNano()
	switch {
	case size <= safe || n > 0 && all[n-1].size == size:
		*a = all
		return
	case mtime <= 0 || mtime > now:
		mtime = now
	}
	if n > 0 {
		mtime = max(mtime, all[n-1].at)
	}
	if n == arrivalsLen {
		for i := range n / 2 {
			all[i] = all[2*i+1]
		}
		all = all[:n/2]
	}
	*a = append(all, arrival{size, mtime})
}

// noteArrival notes the current size of the reader's file and when the file was last changed, if
// some of its bytes are not safe yet. The status shows how long the oldest of these waits. The
// caller holds mu.
func (r *reader) noteArrival() {
	if r.arrivals == nil {
		r.arrivals = new(arrivals)
	}
	r.arrivals.add(r.size, r.mtime, r.k.safe)
	r.dropArrivals()
}

// dropArrivals frees the notes of when the bytes of the file were written, if all these bytes are
// safe by now. The caller holds mu.
func (r *reader) dropArrivals() {
	if a := r.arrivals; a != nil && (len(*a) == 0 || (*a)[len(*a)-1].size <= r.k.safe) {
		r.arrivals = nil
	}
}

// of returns when the byte at the offset pos was written, as far as the notes tell: the time of the
// first noted size beyond pos. Zero: no noted size is beyond pos.
func (a arrivals) of(pos int64) time.Time {
	for _, x := range a {
		if x.size > pos {
			return time.Unix(0, x.at)
		}
	}
	return time.Time{}
}
