// Package index promises to find each of many values by a key that the value itself
// holds, and to take about twelve bytes for it: of a key it keeps nothing.
//
// A key of a value in an index must not change. An index holds no lock.
package index

import (
	"hash/maphash"
	"iter"
)

// Index finds values by a key that only one of them has. Make one with New.
type Index[K comparable, V any] struct {
	keyOf func(*V) K
	seed  maphash.Seed
	slots []*V // each value is at its home or behind it, with no nil in between
	n     int
}

// New returns an empty index of values by keyOf.
func New[K comparable, V any](keyOf func(*V) K) *Index[K, V] {
	return &Index[K, V]{keyOf: keyOf, seed: maphash.MakeSeed()}
}

// Len is how many values the index has.
func (x *Index[K, V]) Len() int { return x.n }

// Get returns the value with a key; nil: there is none.
func (x *Index[K, V]) Get(k K) *V {
	if x.n == 0 {
		return nil
	}
	return x.slots[x.find(k)]
}

// Put adds a value, in the place of the one with its key.
func (x *Index[K, V]) Put(v *V) {
	if x.n*4 >= len(x.slots)*3 {
		x.grow()
	}
	i := x.find(x.keyOf(v))
	if x.slots[i] == nil {
		x.n++
	}
	x.slots[i] = v
}

// Delete removes the value with a key, if there is one. Values behind it move up into the gap, as
// far as they stay at or behind the slot of their hash (home), so that find meets no empty slot
// before them.
func (x *Index[K, V]) Delete(k K) {
	if x.n == 0 {
		return
	}
	hole := x.find(k)
	if x.slots[hole] == nil {
		return
	}
	x.n--
	for i := x.after(hole); x.slots[i] != nil; i = x.after(i) {
		home := x.home(x.keyOf(x.slots[i]))
		if between := hole < i && hole < home && home <= i || i < hole && (hole < home || home <= i); !between {
			x.slots[hole] = x.slots[i]
			hole = i
		}
	}
	x.slots[hole] = nil
}

// All yields the values in no order. The index must not change meanwhile.
func (x *Index[K, V]) All() iter.Seq[*V] {
	return func(yield func(*V) bool) {
		for _, v := range x.slots {
			if v != nil && !yield(v) {
				return
			}
		}
	}
}

// find returns the slot of the value with a key, or the empty one where it would be. One
// slot at least is empty.
func (x *Index[K, V]) find(k K) int {
	i := x.home(k)
	for x.slots[i] != nil && x.keyOf(x.slots[i]) != k {
		i = x.after(i)
	}
	return i
}

func (x *Index[K, V]) home(k K) int {
	hash := maphash.Comparable(x.seed, k) >> 32
	return int(hash * uint64(len(x.slots)) >> 32)
}

// after returns the slot behind i; the first slot follows the last one.
func (x *Index[K, V]) after(i int) int {
	if i++; i == len(x.slots) {
		return 0
	}
	return i
}

// grow makes room for a quarter more.
func (x *Index[K, V]) grow() {
	was := x.slots
	x.slots = make([]*V, len(was)+len(was)/4+8)
	for _, v := range was {
		if v != nil {
			x.slots[x.find(x.keyOf(v))] = v
		}
	}
}

// Groups finds values by a key that several of them may have, in the order in which they
// were added. Make one with NewGroups.
type Groups[K comparable, V any] struct {
	last *Index[K, V] // of each group; its next is the first
	next func(*V) **V
}

// NewGroups returns an empty index of values by keyOf. next is a field of the value that
// the index has for its own; a value is in one index of the kind.
func NewGroups[K comparable, V any](keyOf func(*V) K, next func(*V) **V) *Groups[K, V] {
	return &Groups[K, V]{New(keyOf), next}
}

// Len is how many keys there are.
func (x *Groups[K, V]) Len() int { return x.last.Len() }

// Has reports whether a value has the key.
func (x *Groups[K, V]) Has(k K) bool { return x.last.Get(k) != nil }

// Get yields the values with a key. Their group must not change meanwhile.
func (x *Groups[K, V]) Get(k K) iter.Seq[*V] {
	return func(yield func(*V) bool) {
		last := x.last.Get(k)
		if last == nil {
			return
		}
		for v := *x.next(last); yield(v) && v != last; {
			v = *x.next(v)
		}
	}
}

// Add adds a value that is in no group to the group of its key, as the last one. The values of a
// group form a circle by their next fields; the index has the last of each.
func (x *Groups[K, V]) Add(v *V) {
	last := x.last.Get(x.last.keyOf(v))
	if last == nil {
		last = v
	} else {
		*x.next(v) = *x.next(last)
	}
	*x.next(last) = v
	x.last.Put(v)
}

// Delete removes a value from the group of its key, if it is there. It takes a time that grows with
// the size of the group.
func (x *Groups[K, V]) Delete(v *V) {
	k := x.last.keyOf(v)
	last := x.last.Get(k)
	if last == nil {
		return
	}
	before := last
	for *x.next(before) != v {
		if before = *x.next(before); before == last {
			return
		}
	}
	switch {
	case before == v:
		x.last.Delete(k)
	default:
		*x.next(before) = *x.next(v)
		if last == v {
			x.last.Put(before)
		}
	}
	*x.next(v) = nil
}
