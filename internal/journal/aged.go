package journal

import "slices"

// aged is a map that can be read as it was at one moment while it changes: what
// changes before it was read is kept as it was. It holds no lock; between two calls
// the caller may let others change it.
type aged[K comparable, V any] struct {
	all     map[K]item[V]
	copy    func(V) V // of a value that is changed in place; nil: none is
	view    uint32    // the number of the last view
	reading bool      // that one is being read
	saved   []pair[K, V]
}

// item is a value. The view of its number has it already, or never had it.
type item[V any] struct {
	v    V
	seen uint32
}

type pair[K comparable, V any] struct {
	k K
	v V
}

func newAged[K comparable, V any](copy func(V) V) aged[K, V] {
	return aged[K, V]{all: map[K]item[V]{}, copy: copy}
}

func (m *aged[K, V]) get(k K) (V, bool) {
	i, ok := m.all[k]
	return i.v, ok
}

func (m *aged[K, V]) set(k K, v V) {
	m.save(k)
	m.all[k] = item[V]{v, m.view}
}

func (m *aged[K, V]) remove(k K) {
	m.save(k)
	delete(m.all, k)
}

// edit must be called before the value of k is changed in place: it keeps a copy of the old value
// for a view (see freeze) that has not read it yet.
func (m *aged[K, V]) edit(k K) {
	if m.reading {
		if v, ok := m.save(k); ok {
			m.all[k] = item[V]{v, m.view}
		}
	}
}

// save keeps the value of k for the view (see freeze) if the view has not read it yet, and returns the
// value. ok is false if there is no value or no view is being read.
func (m *aged[K, V]) save(k K) (v V, ok bool) {
	if !m.reading {
		return v, false
	}
	i, ok := m.all[k]
	if ok && i.seen != m.view {
		old := i.v
		if m.copy != nil {
			old = m.copy(old)
		}
		m.saved = append(m.saved, pair[K, V]{k, old})
	}
	return i.v, ok
}

// freeze begins a view: read then returns all values as they are now, although the map may change.
func (m *aged[K, V]) freeze() {
	m.view++
	m.reading, m.saved = true, nil
}

// thaw ends it.
func (m *aged[K, V]) thaw() { m.reading, m.saved = false, nil }

// read calls take once with each key and value as they were when the view began, at freeze. It calls
// pause after every few and at the end; others may change the map during pause only. If
// pause returns false, read ends.
func (m *aged[K, V]) read(take func(K, V), pause func() bool) {
	const few = 64
	n := 0
	next := func() bool {
		n++
		return n%few != 0 || pause()
	}
	for k, i := range m.all {
		if i.seen != m.view {
			m.all[k] = item[V]{i.v, m.view}
			take(k, i.v)
		}
		if !next() {
			return
		}
	}
	for _, p := range slices.Clip(m.saved) { // those changed or removed before they were read
		take(p.k, p.v)
		if !next() {
			return
		}
	}
	pause()
}

// plain returns a copy of the map.
func (m *aged[K, V]) plain() map[K]V {
	out := make(map[K]V, len(m.all))
	for k, i := range m.all {
		out[k] = i.v
	}
	return out
}
