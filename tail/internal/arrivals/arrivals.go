// Package arrivals tells how long bytes of a file have waited, from notes of its size that take little
// memory; a wait is told as what it is, or shorter.
package arrivals

import "time"

// Notes are how large a file was when, as long as bytes of then are not safe: how long the oldest
// of them waits follows from them. Neighbours that are joined make a wait shorter than it was, never
// longer.
type Notes []note

type note struct {
	size int64
	at   int64 // ns: when the last byte before size was written, as the file tells
}

// most is how many are kept.
const most = 16

// Add notes that the file had size bytes when it was last changed at mtime (ns; one that is unknown
// or in the future is now), and drops the notes of bytes before safe. In a full list each two
// neighbours become one with the later time.
func (a *Notes) Add(size, mtime, safe int64) {
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
	if n == most {
		for i := range n / 2 {
			all[i] = all[2*i+1]
		}
		all = all[:n/2]
	}
	*a = append(all, note{size, mtime})
}

// AreSafe reports whether all bytes that the notes are of lie before safe.
func (a Notes) AreSafe(safe int64) bool { return len(a) == 0 || a[len(a)-1].size <= safe }

// Of returns when the byte at pos was written, as far as the notes tell; zero: they do not.
func (a Notes) Of(pos int64) time.Time {
	for _, x := range a {
		if x.size > pos {
			return time.Unix(0, x.at)
		}
	}
	return time.Time{}
}
