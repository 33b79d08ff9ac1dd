// Package agenda promises that what is planned comes up in the order of its times, and that nothing
// is planned twice. It knows no clock but the moments that it is handed.
package agenda

import "container/heap"

// Slot is when a value is due. It is part of the value, and zero as long as nothing is planned.
type Slot struct {
	At    Moment
	index int32 // in the heap, from 1; 0: not in it
}

// IsPlanned reports whether the value is in a queue.
func (s *Slot) IsPlanned() bool { return s.index > 0 }

// Queue holds values by the times of their slots. It is not for concurrent use.
type Queue[T any] struct{ planned slots[T] }

// New returns an empty queue of values whose slots slot returns.
func New[T any](slot func(*T) *Slot) Queue[T] { return Queue[T]{slots[T]{slot: slot}} }

// Len is how many values are planned.
func (q *Queue[T]) Len() int { return len(q.planned.all) }

// Plan puts a value, which must not be planned, into the queue at a time, and reports whether it is the
// first of all.
func (q *Queue[T]) Plan(v *T, at Moment) (first bool) {
	s := q.planned.slot(v)
	s.At = at
	heap.Push(&q.planned, v)
	return s.index == 1
}

// Cancel takes a value out of the queue if it is planned.
func (q *Queue[T]) Cancel(v *T) {
	if s := q.planned.slot(v); s.IsPlanned() {
		heap.Remove(&q.planned, int(s.index)-1)
	}
}

// Due takes the first value whose time is not after now out of the queue; nil: there is none. Then
// next is the time of the first, if the queue holds any.
func (q *Queue[T]) Due(now Moment) (v *T, next Moment) {
	if q.Len() == 0 {
		return nil, 0
	}
	v = q.planned.all[0]
	if at := q.planned.slot(v).At; at > now {
		return nil, at
	}
	heap.Pop(&q.planned)
	return v, 0
}

// slots is a heap of values by the times of their slots.
type slots[T any] struct {
	slot func(*T) *Slot
	all  []*T
}

func (x *slots[T]) Len() int           { return len(x.all) }
func (x *slots[T]) Less(i, j int) bool { return x.slot(x.all[i]).At < x.slot(x.all[j]).At }
func (x *slots[T]) Swap(i, j int) {
	x.all[i], x.all[j] = x.all[j], x.all[i]
	x.slot(x.all[i]).index, x.slot(x.all[j]).index = int32(i+1), int32(j+1)
}

// Push appends an element, as package heap asks for it.
func (x *slots[T]) Push(v any) {
	x.all = append(x.all, v.(*T))
	x.slot(v.(*T)).index = int32(len(x.all))
}

// Pop removes the last element, as package heap asks for it.
func (x *slots[T]) Pop() any {
	last := len(x.all) - 1
	v := x.all[last]
	x.all[last] = nil
	x.all = x.all[:last]
	x.slot(v).index = 0
	return v
}
