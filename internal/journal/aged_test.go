package journal

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// A view has what was there at its moment, once each, whatever changes while it is
// read.
func TestViewModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newAged[int](slices.Clone[[]int])
		change := func() bool {
			for range rapid.IntRange(0, 5).Draw(t, "changes") {
				k, v := rapid.IntRange(0, 199).Draw(t, "key"), rapid.Int().Draw(t, "value")
				switch p := m.edit(k); {
				case rapid.Bool().Draw(t, "remove"):
					m.remove(k)
				case p != nil:
					(*p)[0] = v
				default:
					m.set(k, []int{v})
				}
			}
			return true
		}
		for k := range rapid.IntRange(0, 200).Draw(t, "first") {
			m.set(k, []int{0})
		}
		for range 3 {
			change()
			want := map[int]int{}
			for k, v := range m.plain() {
				want[k] = v[0]
			}
			m.freeze()
			change()
			got := map[int]int{}
			m.read(func(k int, v *[]int) {
				if _, twice := got[k]; twice {
					t.Fatalf("%d comes twice", k)
				}
				got[k] = (*v)[0]
			}, change)
			m.thaw()
			if !maps.Equal(got, want) {
				t.Fatalf("the view has %v, want %v", got, want)
			}
		}
	})
}

// A view that is given up leaves nothing behind for the next.
func TestViewGivenUp(t *testing.T) {
	m := newAged[int, int](nil)
	for k := range 1000 {
		m.set(k, k)
	}
	for rounds := range 3 {
		m.freeze()
		n := 0
		m.read(func(int, *int) { n++ }, func() bool { return n < 300*rounds })
		m.thaw()
	}
	m.freeze()
	n := 0
	m.read(func(int, *int) { n++ }, func() bool { return true })
	if n != 1000 {
		t.Errorf("%d values, want 1000", n)
	}
}

// A snapshot is the state of the moment it was taken, and says how much that is,
// whatever is told while it is written.
func TestSnapshotModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &Journal{state: newState()}
		j.o.fill()
		var entries []*Entry
		next := 0
		tell := func() {
			for range rapid.IntRange(0, 6).Draw(t, "entries") {
				next += 2
				open := j.state.open() // an end without a begin is none
				id := batchID(0)
				if len(open) > 0 {
					id = rapid.SampledFrom(open).Draw(t, "begun").ID
				}
				at := rapid.Int64Range(0, 50).Draw(t, "at")
				f := file1(rapid.IntRange(0, 200).Draw(t, "file"))
				old := file1(rapid.IntRange(300, 310).Draw(t, "old")) // a batch may bring back a file that is forgotten
				outcome := rapid.SampledFrom([]record.Outcome{record.Accepted, record.Spooled, record.Replaced, record.Split}).Draw(t, "outcome")
				was := batchID(rapid.IntRange(0, next).Draw(t, "batch"))
				kinds := []*Entry{
					{Kind: Input, Input: "app"},
					{Kind: FileSeen, File: f, Info: record.FileInfo{Size: at}.Facts()},
					{Kind: Begin, Payload: payload(next, f, at, at+5), Batch: batchID(next)},
					{Kind: Skip, File: f, Span: record.Span{Start: at, End: at + 3}, Mark: markAt(at + 3)},
					{Kind: Forget, File: old},
					{Kind: Skip, File: old, Span: record.Span{Start: at, End: at + 3}, Mark: markAt(at + 3)},
					{Kind: Replay, Batch: was, Attempt: int(at)},
					{Kind: ReplayEnd, Batch: was, Outcome: outcome},
				}
				if len(open) > 0 {
					kinds = append(kinds, &Entry{Kind: End, Batch: id, Outcome: outcome}, &Entry{Kind: End, Batch: id, Outcome: outcome},
						&Entry{Kind: Split, Batch: id, Children: []Begun{{Payload: *payload(next, f, at, at+1)}, {Payload: *payload(next+1, f, at+1, at+2)}}})
				}
				e := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]
				j.mu.Lock()
				j.state.apply(e)
				j.mu.Unlock()
				entries = append(entries, e)
			}
		}
		for range 20 {
			tell()
		}
		want := newState()
		for _, e := range entries {
			want.apply(e)
		}
		since := rapid.IntRange(0, len(entries)).Draw(t, "since")
		j.mu.Lock()
		snap := j.freeze()
		j.mu.Unlock()
		tell()
		got, n := newState(), 0
		err := snap.write(func(frames []durable.Frame) error {
			tell()
			for i := range frames {
				e, err := decode(&durable.Found{Frame: frames[i]})
				if err != nil {
					t.Fatal(err)
				}
				got.apply(e)
				n++
			}
			return nil
		})
		snap.thaw()
		if err != nil || n != 1+snap.count {
			t.Fatalf("%d frames, want %d: %v", n, 1+snap.count, err)
		}
		sameState(t, got, want)
		for _, e := range entries[since:] { // what is repeated behind it leads to the state there is
			got.apply(e)
		}
		sameState(t, got, j.state)
	})
}

func sameState(t *rapid.T, got, want *state) {
	pieces := 0
	for i := range want.files.all.All() {
		name := i.k
		pieces += i.v.pieces()
		g := got.files.get(name)
		if g == nil {
			t.Fatalf("file %v is not known", name)
		}
		if g.position != i.v.position || g.info != i.v.info || len(g.ahead()) != len(i.v.ahead()) {
			t.Fatalf("file %v is at %v ahead %v, want %v ahead %v", name, g.position, g.ahead(), i.v.position, i.v.ahead())
		}
		for k := range g.ahead() {
			if g.ahead()[k] != i.v.ahead()[k] {
				t.Fatalf("file %v is at %v ahead %v, want %v ahead %v", name, g.position, g.ahead(), i.v.position, i.v.ahead())
			}
		}
	}
	if got.files.len() != want.files.len() || want.pieces != pieces || got.pieces != pieces {
		t.Fatalf("%d files of %d and %d pieces, want %d of %d", got.files.len(), got.pieces, want.pieces, want.files.len(), pieces)
	}
	if !maps.Equal(got.replays.plain(), want.replays.plain()) || !maps.Equal(got.ended.plain(), want.ended.plain()) || !maps.Equal(got.inputs, want.inputs) {
		t.Fatalf("replays %v ended %v, want %v and %v", got.replays.plain(), got.ended.plain(), want.replays.plain(), want.ended.plain())
	}
	for id := range want.begun {
		if got.begun[id] == nil {
			t.Fatalf("batch %v is not begun", id)
		}
	}
	if len(got.begun) != len(want.begun) {
		t.Fatalf("%d are begun, want %d", len(got.begun), len(want.begun))
	}
}
