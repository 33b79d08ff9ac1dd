package journal

import (
	"slices"

	"kusto-agent/internal/record"
)

// safeSpan is a range known to be safe, with the mark of the bytes before its
// end.
type safeSpan struct {
	record.Span
	mark record.Mark
}

// spans are safe ranges: sorted, apart from each other (no two touch), none
// empty.
type spans []safeSpan

// add returns the sorted ranges s with n added and merged with those that it overlaps or touches. It
// may change s. A merged range has the fingerprint of the range that reaches furthest.
func (s spans) add(n safeSpan) spans {
	if n.Len() <= 0 {
		return s
	}
	i, _ := slices.BinarySearchFunc(s, n.Start, func(e safeSpan, start int64) int {
		return cmpInt(e.End, start) // the first that ends at n.Start or behind it
	})
	j := i
	for ; j < len(s) && s[j].Start <= n.End; j++ {
		n.Start = min(n.Start, s[j].Start)
		if s[j].End > n.End || s[j].End == n.End && n.mark == 0 {
			n.End, n.mark = s[j].End, s[j].mark
		}
	}
	return slices.Replace(s, i, j, n)
}

// holds reports whether all bytes of n are in one of the ranges; an empty n always is.
func (s spans) holds(n record.Span) bool {
	for _, e := range s {
		if e.Start <= n.Start && n.End <= e.End {
			return true
		}
	}
	return n.Len() <= 0
}

// union sorts and merges ranges of one file, and leaves out empty ones. A merged range has the
// fingerprint of the range that reaches furthest. The result uses the memory of in.
func union(in []record.Extent) []record.Extent {
	slices.SortFunc(in, func(a, b record.Extent) int { return cmpInt(a.Start, b.Start) })
	out := in[:0]
	for _, e := range in {
		switch last := len(out) - 1; {
		case e.Len() <= 0:
		case last >= 0 && e.Start <= out[last].End:
			if e.End > out[last].End || e.End == out[last].End && out[last].Mark == 0 {
				out[last].End, out[last].Mark = e.End, e.Mark
			}
		default:
			out = append(out, e)
		}
	}
	return out
}

// cmpInt returns -1, 0 or 1, as a is less than, equal to or greater than b.
func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
