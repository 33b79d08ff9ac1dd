package audit

import (
	"slices"

	"kusto-agent/internal/record"
)

// spans are ranges of one file: sorted, apart from each other (no two touch), none empty.
type spans []record.Span

// add returns s with the range n added, joined with the ranges that it overlaps or touches. It may
// change s. A range behind all others, the usual case, is appended.
func (s spans) add(n record.Span) spans {
	if n.Len() <= 0 {
		return s
	}
	if len(s) == 0 || s[len(s)-1].End < n.Start {
		return append(s, n)
	}
	i, _ := slices.BinarySearchFunc(s, n.Start, func(e record.Span, start int64) int {
		if e.End < start {
			return -1
		}
		return 1 // the first that ends at n.Start or behind it
	})
	j := i
	for ; j < len(s) && s[j].Start <= n.End; j++ {
		n.Start, n.End = min(n.Start, s[j].Start), max(n.End, s[j].End)
	}
	return slices.Replace(s, i, j, n)
}

// with returns the union of s and o, as a new list.
func (s spans) with(o spans) spans {
	out := slices.Clone(s)
	for _, n := range o {
		out = out.add(n)
	}
	return out
}

// within returns the parts of the range n that are in s, as a new list.
func (s spans) within(n record.Span) (out spans) {
	i, _ := slices.BinarySearchFunc(s, n.Start, func(e record.Span, start int64) int {
		if e.End <= start {
			return -1
		}
		return 1
	})
	for ; i < len(s) && s[i].Start < n.End; i++ {
		out = append(out, record.Span{Start: max(n.Start, s[i].Start), End: min(n.End, s[i].End)})
	}
	return slices.DeleteFunc(out, func(e record.Span) bool { return e.Len() <= 0 })
}

// without returns the parts of s that are not in o, as a new list.
func (s spans) without(o spans) (out spans) {
	for _, n := range s {
		for _, cut := range o.within(n) {
			if cut.Start > n.Start {
				out = append(out, record.Span{Start: n.Start, End: cut.Start})
			}
			n.Start = cut.End
		}
		if n.Len() > 0 {
			out = append(out, n)
		}
	}
	return out
}

// end returns the end of the last range; 0 if there is none.
func (s spans) end() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].End
}
