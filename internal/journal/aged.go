package journal

import (
	"slices"

	"kusto-agent/internal/index"
)

// aged are values found by their keys that can be read as they were at one moment while they
// change: a value that changes before it was read is kept as it was. It holds no lock; between two
// calls the caller may let others change it.
type aged[K comparable, V any] struct {
	all     *index.Index[K, item[K, V]]
	copy    func(V) V // of a value that is changed in place; nil: the value itself is a copy
	view    uint32    // the number of the last view
	reading bool      // that one is being read
	saved   []*item[K, V]
}

// item is a value. The view of its number has it already, or never had it.
type item[K comparable, V any] struct {
	k    K
	v    V
	seen uint32
}

func newAged[K comparable, V any](copy func(V) V) aged[K, V] {
	return aged[K, V]{all: index.New(func(i *item[K, V]) K { return i.k }), copy: copy}
}

// len is how many values there are.
func (m *aged[K, V]) len() int { return m.all.Len() }

// get returns the value of k, which must not be changed; nil: there is none.
func (m *aged[K, V]) get(k K) *V {
	if i := m.all.Get(k); i != nil {
		return &i.v
	}
	return nil
}

// set adds the value of k, which has none.
func (m *aged[K, V]) set(k K, v V) *V {
	i := &item[K, V]{k, v, m.view}
	m.all.Put(i)
	return &i.v
}

func (m *aged[K, V]) remove(k K) {
	m.edit(k)
	m.all.Delete(k)
}

// edit returns the value of k to be changed; nil: there is none. It keeps a copy of the old value
// for a view (see freeze) that has not read it yet.
func (m *aged[K, V]) edit(k K) *V {
	i := m.all.Get(k)
	if i == nil {
		return nil
	}
	if m.reading && i.seen != m.view {
		was := *i
		if m.copy != nil {
			was.v = m.copy(was.v)
		}
		m.saved = append(m.saved, &was)
		i.seen = m.view
	}
	return &i.v
}

// freeze begins a view: read then returns all values as they are now, although they may change.
func (m *aged[K, V]) freeze() {
	m.view++
	m.reading, m.saved = true, nil
}

// thaw ends it.
func (m *aged[K, V]) thaw() { m.reading, m.saved = false, nil }

// read calls take once with each key and value as they were when the view began, at freeze. It calls
// pause after every few and at the end; others may change the values during pause only. If pause
// returns false, read ends.
func (m *aged[K, V]) read(take func(K, *V), pause func() bool) {
	const few = 64
	n := 0
	next := func() bool {
		n++
		return n%few != 0 || pause()
	}
	now := slices.AppendSeq(make([]*item[K, V], 0, m.len()), m.all.All())
	for _, i := range now {
		if i.seen != m.view {
			i.seen = m.view
			take(i.k, &i.v)
		}
		if !next() {
			return
		}
	}
	for _, i := range slices.Clip(m.saved) { // those changed or removed before they were read
		take(i.k, &i.v)
		if !next() {
			return
		}
	}
	pause()
}

// plain returns a copy as a map.
func (m *aged[K, V]) plain() map[K]V {
	out := make(map[K]V, m.len())
	for i := range m.all.All() {
		out[i.k] = i.v
	}
	return out
}
