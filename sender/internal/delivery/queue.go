package delivery

import (
	"container/heap"
	"slices"
	"time"
)

// queue is first in, first out. Its zero value is empty.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(v T) { q.items = append(q.items, v) }

// unpop puts a value at the head, so that the next pop returns it.
func (q *queue[T]) unpop(v T) {
	if q.head == 0 {
		q.items = slices.Insert(q.items, 0, v)
		return
	}
	q.head--
	q.items[q.head] = v
}

// pop removes and returns the value at the head. It must not be called on an empty queue. The
// values before the head are removed from the array once they are at least half of a large one.
func (q *queue[T]) pop() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head >= 64 && q.head*2 >= len(q.items):
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}

// schedule orders payloads by the time of their next attempt.
type schedule []*Payload

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].notBefore.Before(s[j].notBefore) }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)        { *s = append(*s, x.(*Payload)) }

// Pop implements heap.Interface and removes the last element of the slice; to get the earliest payload
// call pop.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	p := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return p
}

// due reports whether the time of the first payload has come. If not, it returns that time; zero if
// there is none.
func (s schedule) due(now time.Time) (bool, time.Time) {
	switch {
	case len(s) == 0:
		return false, time.Time{}
	case now.Before(s[0].notBefore):
		return false, s[0].notBefore
	}
	return true, time.Time{}
}

func (s *schedule) push(p *Payload) { heap.Push(s, p) }
func (s *schedule) pop() *Payload   { return heap.Pop(s).(*Payload) }

// alarms orders routes by the time they have to be looked at.
type alarms []*route

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].alarm.Before(a[j].alarm) }
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].at, a[j].at = i, j
}
func (a *alarms) Push(x any) {
	r := x.(*route)
	r.at = len(*a)
	*a = append(*a, r)
}

// Pop implements heap.Interface: it removes the last element of the slice, and sets the index of
// the route to -1, which says that it is in no heap.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	r := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	r.at = -1
	return r
}
