package reads

import (
	"errors"
	"testing"

	"kusto-agent/internal/format"
)

var plenty = Limits{Most: 1 << 20, Block: 0}

// A read takes what is there, and no more than there is memory for; too little for a block is read into
// what is kept.
func TestWant(t *testing.T) {
	for _, c := range []struct {
		there int64
		l     Limits
		want  int64
	}{
		{100, plenty, 100},
		{2 << 20, plenty, 1 << 20},
		{100, Limits{Most: 30, Block: 50, Kept: 40}, 30},
		{100, Limits{Most: 45, Block: 50, Kept: 40}, 40},
		{100, Limits{Most: 60, Block: 50, Kept: 40}, 60},
		{45, Limits{Most: 60, Block: 50, Kept: 40}, 40},
	} {
		if got := new(Bounds).Want(c.there, c.l); got != c.want {
			t.Errorf("%d bytes and %+v: %d, want %d", c.there, c.l, got, c.want)
		}
	}
}

// A record that did not fit into a short read is read whole by the next, if it was the first of it.
func TestNoRecord(t *testing.T) {
	short := Limits{Most: 10}
	var b Bounds
	if b.Want(100, short); !b.NoRecord(false) || b.Want(100, short) != 10 {
		t.Error("after other records of a short read the next is no longer short")
	}
	if !b.NoRecord(true) || b.Want(100, short) != 100 {
		t.Error("the record is not read whole")
	}
	if b.NoRecord(true) {
		t.Error("it is read again though all that is there was read")
	}
	if b.Taken(1000); b.Want(100, short) != 10 {
		t.Error("after the record reads are not short again")
	}
}

// Whatever records quarantine takes, a reader comes as far as it can: up to the first one that is not
// taken.
func TestUnkeptComesToTheBadRecord(t *testing.T) {
	const size, each, most = 1000, 10, 400 // records of 10 bytes
	for _, bad := range [][]int{{0}, {50}, {0, 1, 2}, {7, 20, 21, 22, 80}, {99}, {}} {
		for taken := range len(bad) + 1 { // of the bad ones, in their order
			stop := size
			if taken < len(bad) {
				stop = bad[taken] * each
			}
			var b Bounds
			at := 0
			for turns := 0; at < size; turns++ {
				if turns > 200 {
					t.Fatalf("bad %v, %d of them taken: it is at %d after 200 turns", bad, taken, at)
				}
				next, err := read(&b, at, size, each, most, bad, stop)
				if at = next; err != nil {
					break
				}
			}
			if at != stop {
				t.Errorf("bad %v, %d of them taken: it comes to %d, want %d", bad, taken, at, stop)
			}
		}
	}
}

var errWaits = errors.New("quarantine does not take it")

// read is one read of a file of records of the same length, of which some are bad; quarantine takes
// those before stop.
func read(b *Bounds, at, size, each, most int, bad []int, stop int) (next int, err error) {
	n := int(b.Want(int64(min(size-at, most)), plenty)) / each * each
	if n == 0 {
		b.NoRecord(true)
		return at, nil
	}
	var rejected []format.Reject
	full := false
	for _, i := range bad {
		if start := i*each - at; start >= 0 && start < n {
			rejected = append(rejected, format.Reject{Start: start, End: start + each})
			full = full || i*each >= stop
		}
	}
	if full {
		if b.Unkept(rejected, false) {
			return at, nil
		}
		return at, errWaits
	}
	b.Taken(int64(most))
	return at + n, nil
}

// Nothing is tried again while the disk is stalled.
func TestUnkeptStalled(t *testing.T) {
	var b Bounds
	if b.Unkept([]format.Reject{{Start: 10, End: 20}, {Start: 30, End: 40}}, true) {
		t.Error("a shorter read is tried at once")
	}
	if b.Want(100, plenty) != 20 {
		t.Error("the next turn reads more than up to the first of them")
	}
}
