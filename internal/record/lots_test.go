package record

import (
	"slices"
	"testing"
)

func TestLots(t *testing.T) {
	f := func(name string, p Payload, want ...Lot) {
		t.Helper()
		var got []Lot
		p.Lots(func(l Lot) { got = append(got, l) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	to := Route{Database: "D", Table: "T"}
	of := func(input string, n int) Piece { return Piece{File: File{Input: input}, Records: n} }
	f("nothing", Payload{Route: to})
	f("one input in two pieces", Payload{Route: to, Records: 5, RawBytes: 101, Pieces: []Piece{of("a", 2), of("a", 3)}}, Lot{"a", to, 5, 101})
	f("by records", Payload{Route: to, Records: 6, RawBytes: 600, Pieces: []Piece{of("a", 1), of("b", 5)}}, Lot{"a", to, 1, 100}, Lot{"b", to, 5, 500})
	f("nothing is left over", Payload{Route: to, Records: 3, RawBytes: 100, Pieces: []Piece{of("a", 1), of("b", 1), of("c", 1)}},
		Lot{"a", to, 1, 33}, Lot{"b", to, 1, 33}, Lot{"c", to, 1, 34})
	f("unreadable", Payload{Route: to, Records: 3, Pieces: []Piece{of("a", 1), of("b", 2)}}, Lot{"a", to, 1, 0}, Lot{"b", to, 2, 0})
}

func TestShare(t *testing.T) {
	p := Payload{Records: 4, RawBytes: 10}
	if all, half, none := p.Share(4), p.Share(2), new(Payload).Share(3); all != 10 || half != 5 || none != 0 {
		t.Errorf("all %d, half %d, of nothing %d", all, half, none)
	}
}
