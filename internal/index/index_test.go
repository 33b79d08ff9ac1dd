package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type value struct {
	key  int
	next *value
}

func keyOf(v *value) int { return v.key }

// TestIndex compares an index with a map, through steps that are drawn.
func TestIndex(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x, want := New(keyOf), make(map[int]*value)
		keys := rapid.IntRange(0, rapid.SampledFrom([]int{3, 20, 200}).Draw(t, "keys"))
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			k := keys.Draw(t, "key")
			if rapid.IntRange(0, 2).Draw(t, "step") > 0 {
				v := &value{key: k}
				x.Put(v)
				want[k] = v
			} else {
				x.Delete(k)
				delete(want, k)
			}
			if got := x.Get(k); got != want[k] || x.Len() != len(want) {
				t.Fatalf("%d: %v of %d; want %v of %d", k, got, x.Len(), want[k], len(want))
			}
		}
		for k, v := range want {
			if x.Get(k) != v {
				t.Fatalf("%d is not found", k)
			}
		}
		if all := slices.Collect(x.All()); len(all) != len(want) {
			t.Fatalf("%d values, want %d", len(all), len(want))
		}
	})
}

// TestGroups compares groups with a map of slices, through steps that are drawn.
func TestGroups(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x, want := NewGroups(keyOf, func(v *value) **value { return &v.next }), make(map[int][]*value)
		var out []*value
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := rapid.IntRange(0, 4).Draw(t, "key")
			switch n := len(want[k]); {
			case n == 0 || rapid.IntRange(0, 2).Draw(t, "step") > 0:
				v := &value{key: k}
				x.Add(v)
				want[k] = append(want[k], v)
			default:
				i := rapid.IntRange(0, n-1).Draw(t, "which")
				out = append(out, want[k][i])
				x.Delete(want[k][i])
				if want[k] = slices.Delete(want[k], i, i+1); n == 1 {
					delete(want, k)
				}
			}
			for _, v := range out {
				x.Delete(v) // it is in no group
			}
			if got := slices.Collect(x.Get(k)); !slices.Equal(got, want[k]) || x.Has(k) != (len(got) > 0) || x.Len() != len(want) {
				t.Fatalf("%d: %v of %d; want %v of %d", k, got, x.Len(), want[k], len(want))
			}
		}
	})
}

// TestSize: an index takes little more than a pointer for a value.
func TestSize(t *testing.T) {
	t.Parallel()
	x := New(keyOf)
	for i := range 100_000 {
		x.Put(&value{key: i})
	}
	if most := x.Len() * 7 / 4; len(x.slots) > most {
		t.Errorf("%d slots for %d values, want at most %d", len(x.slots), x.Len(), most)
	}
}
