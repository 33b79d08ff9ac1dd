package spool

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/durable"
)

const (
	suffix     = ".seg"
	damagedDir = "damaged"
)

// segment is a file of payloads and what is known of them. Guarded by Spool.mu
// but for its name, its number and its place. Slots, inputs and mixes are only ever
// appended to, by the writer.
type segment struct {
	name    string
	seq     uint64
	place   uint64   // by which payloads are ordered: seq, or after a compaction that of the oldest segment merged into it
	size    int64    // bytes on disk
	aside   int64    // of these, the index
	damaged bool     // not to be removed but kept for people
	open    bool     // it is being written
	leaving bool     // all of it has ended, and it is about to be removed
	stuck   bool     // part of it cannot be read: it is not copied
	lost    bool     // all was given up that nobody has in hand, whatever its index says later
	doubted bool     // its end may have been cut or damaged, which nothing but itself shows; see settleDoubts
	token   [24]byte // of its index; see Options.Vouch
	vouched bool     // it holds
	agreed  bool     // all in it that waits is known elsewhere, or will be before the next Vouch returns

	n     int  // payloads
	ended bits // those that have ended, by slot.ord
	moved bits // those of which a newer copy counts
	told  map[int]string
	base  int64     // slot.when counts from here
	live  int       // payloads that have not ended
	bytes int64     // of the frames of these
	given int       // of these, given out and not returned
	calm  time.Time // when the last of them ended

	shares map[route]*share
	order  []*share // as their slots lie in the index
	inputs []string
	mixes  [][]count
	index  *index // nil: all slots are in memory

	pins int // how many read the file without the lock; while it is above 0 the file is not removed
}

// share is what a route has in a segment.
type share struct {
	g       *segment
	to      route
	n       int    // slots
	first   int    // where in the index they begin
	slots   []slot // those in memory
	from    int    // where in the share these begin
	next    int    // all before it were given out or have ended
	waiting int    // neither ended nor ever given out
	live    int    // not ended
	sums    []count
	oldest  int64 // when the first of them came
	listed  bool  // in lane.shares
}

// bits are a set of small numbers; nil is empty.
type bits []uint64

func (b bits) has(i uint32) bool { return int(i/64) < len(b) && b[i/64]&(1<<(i%64)) != 0 }

// set adds the number i to the set. It grows the set to have room for the numbers below n.
func (b *bits) set(i uint32, n int) {
	if want := max(n, int(i)+1)/64 + 1; len(*b) < want {
		*b = append(*b, make(bits, want-len(*b))...)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// newSegment returns an empty segment that has its place in the order by its number.
func newSegment(name string, seq uint64) *segment {
	return &segment{name: name, seq: seq, place: seq, shares: map[route]*share{}}
}

// add appends the index entry e of a payload to a segment whose entries are in memory, with the next
// position (ord), and adds it to the totals. It returns the share of its route (all payloads of the
// route in this segment).
func (g *segment) add(to route, e slot) *share {
	e.ord = uint32(g.n)
	g.n++
	sh := g.shares[to]
	if sh == nil {
		sh = &share{g: g, to: to}
		g.shares[to] = sh
		g.order = append(g.order, sh)
	}
	sh.slots = append(sh.slots, e)
	sh.n++
	g.count(sh, &e)
	return sh
}

// count adds the payload of index entry e, which has not ended, to the totals of the segment. It also
// adds it to those of sh, the share of its route (the payloads of the route in this segment).
func (g *segment) count(sh *share, e *slot) {
	g.live++
	g.bytes += e.length()
	if sh.live == 0 || g.when(e) < sh.oldest {
		sh.oldest = g.when(e)
	}
	sh.live++
	sh.waiting++
	if e.input&mixed == 0 { // of one input: as g.counts, but faster, since a start does this for each payload
		sh.sum(g.inputs[e.input], int(e.records))
		return
	}
	g.counts(e, sh.sum)
}

// sum adds n, which may be negative, to the number of records that the share (the payloads of a
// route in one segment) has of an input.
func (sh *share) sum(input string, n int) {
	for i := range sh.sums {
		if sh.sums[i].input == input {
			sh.sums[i].records += n
			return
		}
	}
	sh.sums = append(sh.sums, count{input, n})
}

// end marks a payload of the segment as ended, and subtracts it from the counts of the segment
// and of its share (the payloads of its route in this segment). share.waiting is left to the
// caller. Needs mu of the spool.
func (g *segment) end(sh *share, e *slot) {
	g.ended.set(e.ord, g.n)
	g.live--
	g.bytes -= e.length()
	sh.live--
	g.counts(e, func(input string, n int) { sh.sum(input, -n) })
}

// dead reports whether the file can be removed: all payloads have ended and nobody reads it.
func (g *segment) dead() bool { return g.live == 0 && g.pins == 0 }

// disk returns how many bytes the segment and its index take on disk.
func (g *segment) disk() int64 { return g.size + g.aside }

// placed is a slot together with its share, and so with its segment and route.
type placed struct {
	sh *share
	slot
}

// all returns the index entry of every payload of a segment, in the order of the frames,
// including payloads that have ended. It reads the index from the disk if the entries are not in
// memory.
func (s *Spool) all(g *segment) (out []placed, err error) {
	s.mu.Lock()
	out = make([]placed, 0, g.n)
	s.mu.Unlock()
	err = s.eachSlot(g, func(sh *share, e *slot) { out = append(out, placed{sh, *e}) })
	slices.SortFunc(out, func(a, b placed) int { return cmp.Compare(a.ord, b.ord) })
	return out, err
}

// eachSlot calls fn with the index entry of every payload of a segment, route by route, without
// holding a lock. The entry is valid until fn returns. The error is errIndex (the index cannot be
// used) or one of the disk.
func (s *Spool) eachSlot(g *segment, fn func(sh *share, e *slot)) error {
	s.mu.Lock()
	x, order := g.index, slices.Clone(g.order)
	ns, slots := make([]int, len(order)), make([][]slot, len(order))
	for i, sh := range order {
		if ns[i] = sh.n; x == nil {
			slots[i] = slices.Clone(sh.slots)
		}
	}
	s.mu.Unlock()
	if x == nil {
		for i, sh := range order {
			for j := range slots[i] {
				fn(sh, &slots[i][j])
			}
		}
		return nil
	}
	i := -1 // the index has the entries of order[0] first, ns[0] of them, then those of order[1], …
	left := 0
	return x.read(g, 0, x.n, func(e *slot) {
		for ; left == 0; left = ns[i] {
			i++
		}
		left--
		fn(order[i], e)
	})
}

// listing is what a folder holds.
type listing struct {
	segments []*segment          // oldest first
	indexes  map[string]*segment // the segments that have an index, there or not, by name
	numbers  []uint64            // of all of these, in no order
	temp     []string            // what a crash left unfinished
}

// listSegments sorts the names in the folder of a spool into segments, indexes and
// temporary files, and opens none of them. It passes over other files. A folder that does not
// exist gives an empty listing.
func listSegments(fsys durable.FS, dir string) (l listing, err error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.indexes = map[string]*segment{}
	for _, name := range names { // sorted, and numbers of a fixed width: the oldest segment comes first
		base, isTemp := strings.CutSuffix(name, durable.TempSuffix)
		base, isIndex := strings.CutSuffix(base, suffixOfIndex)
		hex, ok := strings.CutSuffix(base, suffix)
		seq, err := strconv.ParseUint(hex, 16, 64)
		switch {
		case !ok || err != nil || len(hex) != 16:
		case isTemp:
			l.temp = append(l.temp, name)
		case isIndex:
			l.indexes[base], l.numbers = newSegment(base, seq), append(l.numbers, seq)
		default:
			l.segments, l.numbers = append(l.segments, newSegment(name, seq)), append(l.numbers, seq)
		}
	}
	return l, nil
}
