package spool

import (
	"errors"
	"io/fs"
	"sort"
	"strconv"
	"strings"

	"kusto-agent/internal/durable"
	"kusto-agent/record"
)

const (
	suffix     = ".seg"
	damagedDir = "damaged"
)

// segment is a file of payloads and what is known of them. Guarded by Spool.mu
// but for its name.
type segment struct {
	name    string
	seq     uint64
	size    int64 // bytes on disk
	damaged bool  // not to be removed but kept for people

	ids     []record.BatchID // of the payloads, in their order
	fate    []record.Outcome // how each has ended; 0: it has not
	unsound map[int]bool     // those whose body was found damaged at the start
	told    map[int]string   // what was told of those that cannot be read

	frames  int // not ended
	taken   int // of these, given out
	records map[string]int
	routes  map[route]*share
	waiting map[route]int // the sums of all segments

	index []entry // of those not ended when it was loaded; nil: not loaded
	used  uint64  // when the index was last asked, see Spool.turns
	pins  int     // readers without the lock: the file must stay
}

// share is what a route has in a segment.
type share struct {
	frames  int   // not ended
	waiting int   // of these, not taken
	resting int   // of these, not to be given out yet
	oldest  int64 // when the first of them came
	cursor  int   // none of those before it in the index is waiting
}

func newSegment(name string, seq uint64, waiting map[route]int) *segment {
	return &segment{name: name, seq: seq, records: map[string]int{}, routes: map[route]*share{}, waiting: waiting}
}

// add takes in a payload behind the others.
func (g *segment) add(e *entry) {
	e.ord = len(g.ids)
	g.ids = append(g.ids, e.id)
	g.fate = append(g.fate, 0)
	g.frames++
	g.count(e)
}

// count adds a payload that has not ended to the sums.
func (g *segment) count(e *entry) {
	for _, c := range e.inputs {
		g.records[c.input] += c.records
	}
	sh := g.routes[e.route]
	if sh == nil {
		sh = &share{oldest: e.spooled}
		g.routes[e.route] = sh
	}
	sh.oldest = min(sh.oldest, e.spooled)
	sh.frames++
	g.wait(e.route, 1)
}

// wait notes that n more payloads of a route are to be taken.
func (g *segment) wait(to route, n int) {
	g.routes[to].waiting += n
	if g.waiting[to] += n; g.waiting[to] == 0 {
		delete(g.waiting, to)
	}
}

// end notes how a payload that is not taken ended.
func (g *segment) end(e *entry, how record.Outcome) {
	g.fate[e.ord] = how
	g.frames--
	for _, c := range e.inputs {
		if g.records[c.input] -= c.records; g.records[c.input] == 0 {
			delete(g.records, c.input)
		}
	}
	g.wait(e.route, -1)
	sh := g.routes[e.route]
	if sh.frames--; sh.frames == 0 {
		delete(g.routes, e.route)
	}
}

// has says whether payloads of a route are to be taken.
func (g *segment) has(to route) bool {
	sh := g.routes[to]
	return sh != nil && sh.waiting > sh.resting
}

// dead says that the file can go.
func (g *segment) dead() bool { return g.frames == 0 && g.pins == 0 }

// lose gives up those payloads that have not ended and are neither in found,
// which was read, nor in taken. It returns their ids and how many records they
// had.
func (g *segment) lose(found, taken []entry) (ids []record.BatchID, what *record.Payload) {
	keep := map[int]*entry{}
	for _, part := range [][]entry{found, taken} {
		for i := range part {
			keep[part[i].ord] = &part[i]
		}
	}
	for ord, fate := range g.fate {
		if fate == 0 && keep[ord] == nil {
			g.fate[ord] = record.Replaced
			ids = append(ids, g.ids[ord])
			g.frames--
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	records, routes := g.records, g.routes
	for to, sh := range routes {
		g.wait(to, -sh.waiting)
	}
	g.records, g.routes = map[string]int{}, map[route]*share{}
	for ord, e := range keep {
		if g.fate[ord] == 0 {
			g.count(e)
		}
	}
	for i := range taken {
		g.wait(taken[i].route, -1)
	}
	var gone []count
	for input, n := range records {
		if n > g.records[input] {
			gone = append(gone, count{input, n - g.records[input]})
		}
	}
	var to record.Route
	for r, sh := range routes {
		if now := g.routes[r]; now == nil || now.frames < sh.frames {
			to = r.Value()
		}
	}
	return ids, unreadable(record.BatchID{}, to, gone)
}

// byOrd finds the entry of a payload in the index; nil: it had ended before.
func (g *segment) byOrd(ord int) *entry {
	i := sort.Search(len(g.index), func(i int) bool { return g.index[i].ord >= ord })
	if i < len(g.index) && g.index[i].ord == ord {
		return &g.index[i]
	}
	return nil
}

// listSegments returns the segments of a folder, oldest first, and the names of
// temporary files that a crash left.
func listSegments(fsys durable.FS, dir string, waiting map[route]int) (out []*segment, temp []string, err error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names { // sorted, and the numbers have a fixed width
		base, isTemp := strings.CutSuffix(name, durable.TempSuffix)
		hex, ok := strings.CutSuffix(base, suffix)
		seq, err := strconv.ParseUint(hex, 16, 64)
		switch {
		case !ok || err != nil || len(hex) != 16:
		case isTemp:
			temp = append(temp, name)
		default:
			out = append(out, newSegment(name, seq, waiting))
		}
	}
	return out, temp, nil
}
