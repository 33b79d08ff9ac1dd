// Package agenda promises that what is planned comes up in the order of its times, and that nothing
// is planned twice. It knows no clock but the moments that it is handed.
package agenda

// Slot is when a value is due. It is part of the value, and zero as long as nothing is planned.
type Slot struct {
	At    Moment
	index int32 // in the heap, from 1; 0: not in it
}

// IsPlanned reports whether the value is in a queue.
func (s *Slot) IsPlanned() bool { return s.index > 0 }

// Queue holds values by the times of their slots. It is not for concurrent use.
type Queue[T any] struct {
	slot func(*T) *Slot
	all  []entry[T] // a heap: none is due before its parent
}

// entry is a planned value and the time of its slot. To compare two touches no value: of thousands few are in
// the cache of the processor. To move one touches it, so each has more than two children.
type entry[T any] struct {
	at Moment
	v  *T
}

const children = 4

// New returns an empty queue of values whose slots slot returns.
func New[T any](slot func(*T) *Slot) Queue[T] { return Queue[T]{slot: slot} }

// Len is how many values are planned.
func (q *Queue[T]) Len() int { return len(q.all) }

// Plan puts a value, which must not be planned, into the queue at a time, and reports whether it is the
// first of all.
func (q *Queue[T]) Plan(v *T, at Moment) (first bool) {
	s := q.slot(v)
	s.At = at
	q.all = append(q.all, entry[T]{})
	q.rise(len(q.all)-1, entry[T]{at, v})
	return s.index == 1
}

// Cancel takes a value out of the queue if it is planned.
func (q *Queue[T]) Cancel(v *T) {
	if s := q.slot(v); s.IsPlanned() {
		q.remove(int(s.index) - 1)
	}
}

// Due takes the first value whose time is not after now out of the queue; nil: there is none. Then
// next is the time of the first, if the queue holds any.
func (q *Queue[T]) Due(now Moment) (v *T, next Moment) {
	if q.Len() == 0 {
		return nil, 0
	}
	first := q.all[0]
	if first.at > now {
		return nil, first.at
	}
	q.remove(0)
	return first.v, 0
}

// remove takes what is at a place out of the heap. The last entry comes into the gap.
func (q *Queue[T]) remove(i int) {
	q.slot(q.all[i].v).index = 0
	last := q.all[len(q.all)-1]
	q.all[len(q.all)-1] = entry[T]{}
	q.all = q.all[:len(q.all)-1]
	switch {
	case i == len(q.all):
	case i > 0 && last.at < q.all[(i-1)/children].at:
		q.rise(i, last)
	default:
		q.sink(i, last)
	}
}

// rise puts an entry at the place i, which is free, or at that of one above that is due later and moves down.
func (q *Queue[T]) rise(i int, e entry[T]) {
	for i > 0 {
		parent := (i - 1) / children
		if q.all[parent].at <= e.at {
			break
		}
		q.put(i, q.all[parent])
		i = parent
	}
	q.put(i, e)
}

// sink puts an entry at the place i, which is free, or at that of one below that is due sooner and moves up.
func (q *Queue[T]) sink(i int, e entry[T]) {
	for i*children+1 < len(q.all) {
		least := i*children + 1
		for c := least + 1; c < min(i*children+1+children, len(q.all)); c++ {
			if q.all[c].at < q.all[least].at {
				least = c
			}
		}
		if q.all[least].at >= e.at {
			break
		}
		q.put(i, q.all[least])
		i = least
	}
	q.put(i, e)
}

func (q *Queue[T]) put(i int, e entry[T]) {
	q.all[i] = e
	q.slot(e.v).index = int32(i + 1)
}
