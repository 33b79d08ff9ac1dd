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

// add notes that the file has this size at this time, and drops the notes of bytes that
// are safe.
func (a *arrivals) add(size, mtime, safe int64) {
	all := *a
	for len(all) > 0 && all[0].size <= safe {
		all = all[1:]
	}
	n := len(all)
	if n > 0 && all[n-1].size > size { // it was cut short
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

// noteArrival notes how large the file of a reader is. The caller holds mu.
func (r *reader) noteArrival() {
	if r.arrivals == nil {
		r.arrivals = new(arrivals)
	}
	r.arrivals.add(r.size, r.mtime, r.k.safe)
	r.dropArrivals()
}

// dropArrivals forgets when bytes came that are safe by now, where that are all. The caller
// holds mu.
func (r *reader) dropArrivals() {
	if a := r.arrivals; a != nil && (len(*a) == 0 || (*a)[len(*a)-1].size <= r.k.safe) {
		r.arrivals = nil
	}
}

// of returns when the byte at pos was first seen in the file; zero: it is not known to be
// there.
func (a arrivals) of(pos int64) time.Time {
	for _, x := range a {
		if x.size > pos {
			return time.Unix(0, x.at)
		}
	}
	return time.Time{}
}
