package batcher

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/internal/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	routeA = record.Route{Cluster: "http://c", Database: "d", Table: "a", Format: record.JSON}
	routeB = record.Route{Cluster: "http://c", Database: "d", Table: "b", Format: record.JSON}
	fileA  = record.File{Input: "in", ID: 1}
	fileB  = record.File{Input: "in", ID: 2}
)

// next collects payloads and gives as much credit as it is told.
type next struct {
	mu     sync.Mutex
	credit int
	served bool
	most   int // Largest
	got    chan *record.Payload
}

func (n *next) Credit(record.Route) (int, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.credit, n.served
}

func (n *next) Largest(record.Route) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.most
}

func (n *next) set(credit int, served bool) {
	n.mu.Lock()
	n.credit, n.served = credit, served
	n.mu.Unlock()
}

func (n *next) Put(p *record.Payload) { n.got <- p }

// start runs a batcher with the limits for both routes.
func start(t testing.TB, l Limits, memory int64) (*Batcher, *next) {
	n := &next{credit: 1000, served: true, got: make(chan *record.Payload, 10_000)}
	b := New(Options{Routes: map[record.Route]Limits{routeA: l, routeB: l}, Memory: memory, Next: n})
	done := make(chan struct{})
	// Ended by Close, awaited in the cleanup.
	go func() {
		defer close(done)
		b.Run()
	}()
	t.Cleanup(func() {
		b.Close()
		<-done
	})
	return b, n
}

// reader hands over lines of a file, one chunk a call.
type reader struct {
	t    testing.TB
	b    *Batcher
	r    record.Route
	file record.File
	at   int64
}

// lines is a chunk of records with these texts; a gap skips bytes before it.
func (r *reader) chunk(gap int64, lines ...string) *record.Chunk {
	var body []byte
	for _, l := range lines {
		body = append(append(body, l...), '\n')
	}
	span := record.Span{Start: r.at + gap, End: r.at + gap + int64(len(body))}
	cover := record.Extent{File: r.file, Span: record.Span{Start: r.at, End: span.End}, Mark: record.Mark(span.End)}
	r.at = span.End
	return &record.Chunk{Route: r.r, Cover: cover, Pieces: []record.Piece{{File: r.file, Span: span, Records: len(lines)}},
		Body: body, Records: len(lines), ReadAt: time.Now()}
}

func (r *reader) append(lines ...string) { r.t.Helper(); r.put(r.chunk(0, lines...)) }

func (r *reader) put(c *record.Chunk) {
	r.t.Helper()
	l, err := r.b.Lease(c.Route, len(c.Body), func() {})
	if l == nil || err != nil {
		r.t.Fatalf("no lease: %v", err)
	}
	l.Append(c)
	l.Done()
}

// body inflates a payload with another library than the one that made it.
func body(t testing.TB, p *record.Payload) string {
	t.Helper()
	if !p.Gzip {
		return string(p.Body)
	}
	z, err := gzip.NewReader(bytes.NewReader(p.Body))
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) != p.RawBytes || Checksum(raw) != p.CRC {
		t.Errorf("body has %d bytes and sum %x; payload says %d and %x", len(raw), Checksum(raw), p.RawBytes, p.CRC)
	}
	return string(raw)
}

func (b *Batcher) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.memory.used
}

func TestLimits(t *testing.T) {
	f := func(name string, l Limits, put func(r *reader), want ...string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l.MaxWait, l.Gzip, l.Level = time.Hour, true, 1
				b, n := start(t, l, 1<<20)
				put(&reader{t: t, b: b, r: routeA, file: fileA})
				var got []string // no order is promised between payloads
				for range want {
					p := <-n.got
					got = append(got, body(t, p))
					b.Release(p)
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("bodies are %q; want %q", got, want)
				}
				synctest.Wait()
				if len(n.got) > 0 {
					t.Errorf("one more: %q", body(t, <-n.got))
				}
				b.Flush()
				synctest.Wait()
				for len(n.got) > 0 {
					b.Release(<-n.got)
				}
				if b.used() != 0 || !b.Idle() {
					t.Errorf("%d bytes are held at the end, idle %v", b.used(), b.Idle())
				}
			})
		})
	}
	f("bytes: what does not fit waits for the next", Limits{MaxBytes: 10}, func(r *reader) {
		r.append("1234")
		r.append("5678")
		r.append("9")
	}, "1234\n5678\n")
	f("bytes: one that is not full leaves when the next is too large", Limits{MaxBytes: 10}, func(r *reader) {
		r.append("1234")
		r.append("567890")
	}, "1234\n")
	f("records", Limits{MaxBytes: 1000, MaxRecords: 3}, func(r *reader) {
		r.append("1", "2")
		r.append("3")
		r.append("4", "5")
		r.append("6", "7")
	}, "1\n2\n3\n", "4\n5\n")
	f("nothing leaves early", Limits{MaxBytes: 1000}, func(r *reader) { r.append("1", "2") })
}

func TestPieces(t *testing.T) {
	b, n := start(t, Limits{MaxBytes: 1 << 20, MaxWait: time.Hour}, 64<<20)
	r := &reader{t: t, b: b, r: routeA, file: fileA}
	for range record.MaxPieces + 1 {
		r.put(r.chunk(1, "x"))
	}
	p := <-n.got
	if len(p.Pieces) != record.MaxPieces || p.Records != record.MaxPieces || len(p.Cover) != 1 {
		t.Errorf("%d pieces, %d records, %d extents", len(p.Pieces), p.Records, len(p.Cover))
	}
	b.Release(p)
}

func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := start(t, Limits{MaxBytes: 1000, MaxWait: time.Second}, 1<<20)
		r := &reader{t: t, b: b, r: routeA, file: fileA}
		other := &reader{t: t, b: b, r: routeB, file: fileB}
		began := time.Now()
		r.append("1")
		time.Sleep(600 * time.Millisecond)
		r.append("2")
		other.append("x")
		if p := <-n.got; body(t, p) != "1\n2\n" || time.Since(began) != time.Second || !p.ReadAt.Equal(began) {
			t.Errorf("%q left after %v, read at %v", body(t, p), time.Since(began), p.ReadAt.Sub(began))
		}
		if p := <-n.got; body(t, p) != "x\n" || time.Since(began) != 1600*time.Millisecond {
			t.Errorf("%q left after %v", body(t, p), time.Since(began))
		}
	})
}

// Cover and pieces that follow each other are one; records of different
// routes, shapings, field counts and ways of mapping back never share a body.
func TestJoining(t *testing.T) {
	b, n := start(t, Limits{MaxBytes: 1000, MaxWait: time.Hour}, 1<<20)
	a := &reader{t: t, b: b, r: routeA, file: fileA}
	c := &reader{t: t, b: b, r: routeA, file: fileB}
	a.append("a1")
	a.append("a2")
	c.append("c1")
	a.append("a3")
	a.put(a.chunk(5, "a4"))
	b.Flush()
	p := <-n.got
	if got := fmt.Sprint(p.Cover); got != fmt.Sprint([]record.Extent{
		{File: fileA, Span: record.Span{Start: 0, End: 17}, Mark: 17},
		{File: fileB, Span: record.Span{Start: 0, End: 3}, Mark: 3},
	}) {
		t.Errorf("cover is %s", got)
	}
	if got := fmt.Sprint(p.Pieces); got != fmt.Sprint([]record.Piece{
		{File: fileA, Span: record.Span{Start: 0, End: 6}, Records: 2},
		{File: fileB, Span: record.Span{Start: 0, End: 3}, Records: 1},
		{File: fileA, Span: record.Span{Start: 6, End: 9}, Records: 1},
		{File: fileA, Span: record.Span{Start: 14, End: 17}, Records: 1},
	}) {
		t.Errorf("pieces are %s", got)
	}
	plain := a.chunk(0, "x")
	shaped := a.chunk(0, "x")
	shaped.Shaping = 1
	grouped := a.chunk(0, "x")
	grouped.Group = 2
	mapped := a.chunk(0, "x")
	mapped.Lens = []byte{2}
	elsewhere := c.chunk(0, "x")
	elsewhere.Route = routeB
	all := []*record.Chunk{plain, shaped, grouped, mapped, elsewhere}
	for range 2 {
		for _, c := range all {
			a.put(c)
		}
	}
	b.Flush()
	for range all {
		if p := <-n.got; p.Records != 2 || body(t, p) != "x\nx\n" || (p.Lens != nil) != (len(p.Lens) == 2) {
			t.Errorf("%d records, lens %v", p.Records, p.Lens)
		}
	}
}

// A record that begins in another file leaves alone, with the ranges of both.
func TestBefore(t *testing.T) {
	b, n := start(t, Limits{MaxBytes: 1000, MaxWait: time.Hour}, 1<<20)
	a := &reader{t: t, b: b, r: routeA, file: fileA}
	c := &reader{t: t, b: b, r: routeA, file: fileB}
	a.append("a1")
	joined := c.chunk(0, "joined")
	joined.Before = []record.Extent{{File: fileA, Span: record.Span{Start: 3, End: 9}, Mark: 9}}
	c.put(joined)
	c.append("c1")
	b.Flush()
	for range 3 {
		p := <-n.got
		want := map[string]string{"a1\n": "[[0,3)]", "joined\n": "[[3,9) [0,7)]", "c1\n": "[[7,10)]"}[body(t, p)]
		var spans []record.Span
		for _, x := range p.Cover {
			spans = append(spans, x.Span)
		}
		if fmt.Sprint(spans) != want || len(p.Pieces) != 1 {
			t.Errorf("%q covers %v with %d pieces", body(t, p), spans, len(p.Pieces))
		}
	}
}

// What is sealed where it lies comes behind what was open, and is not copied.
func TestSeal(t *testing.T) {
	b, n := start(t, Limits{MaxBytes: 100, MaxWait: time.Hour, Gzip: true, Level: 9}, 1<<20)
	r := &reader{t: t, b: b, r: routeA, file: fileA}
	r.append("short")
	l, err := b.Lease(routeA, 50, func() {})
	if err != nil || l.Block() == nil || len(l.Block()) != record.MarkLen+100+1 {
		t.Fatalf("block of %d bytes, %v", len(l.Block()), err)
	}
	c := r.chunk(0, "long enough to be sealed where it lies, without a copy")
	c.Body = append(l.Block()[record.MarkLen:record.MarkLen], c.Body...)
	l.Seal(c)
	l.Done()
	got := map[string]bool{}
	for range 2 {
		p := <-n.got
		got[body(t, p)] = true
		b.Release(p)
	}
	if !got["short\n"] || len(got) != 2 {
		t.Errorf("bodies are %v", got)
	}
	for !b.Idle() { // the worker that handed the last one over may not have said so yet
		runtime.Gosched()
	}
	if b.used() != 0 || b.rawOut != 0 {
		t.Errorf("%d bytes and %d blocks are held at the end", b.used(), b.rawOut)
	}
}

func TestLeaseBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := start(t, Limits{MaxBytes: 100, MaxWait: time.Hour}, 4000)
		r := &reader{t: t, b: b, r: routeA, file: fileA}
		woken := 0
		ask := func(route record.Route, want int) *Lease {
			t.Helper()
			l, err := b.Lease(route, want, func() { woken++ })
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		expect := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if woken != want {
				t.Errorf("%s: %d were woken; want %d", what, woken, want)
			}
			woken = 0
		}

		// Credit: the route has one payload sealed, and no more than that.
		n.set(1, true)
		r.append("x")
		b.Flush()
		p := <-n.got
		if ask(routeA, 10) != nil {
			t.Error("a lease beyond the credit")
		}
		if l := ask(routeB, 10); l == nil {
			t.Error("no lease for another route")
		} else {
			l.Done()
		}
		expect("done of another route", 0)
		b.Release(p)
		expect("release", 1)
		n.set(0, true)
		if ask(routeA, 10) != nil {
			t.Error("a lease without credit")
		}
		n.set(1, true)
		b.Wake(routeA)
		expect("wake", 1)
		n.set(0, true)
		ask(routeA, 10)
		n.set(1, true)
		time.Sleep(2 * time.Second)
		expect("credit that grew in silence", 1)

		// Memory: a route that is not served may have half of what is common.
		n.set(1000, true)
		half := ask(routeA, 40)
		if half == nil {
			t.Fatal("no lease of a little")
		}
		half.Done()
		n.set(1000, false)
		var held []*Lease
		for range 100 {
			l := ask(routeA, 49)
			if l == nil {
				break
			}
			held = append(held, l)
		}
		if got := b.used(); got > 1500 || got < 1400 {
			t.Errorf("a route that is not served holds %d of the 3000 that are common", got)
		}
		n.set(1000, true)
		l := ask(routeB, 49)
		if l == nil {
			t.Fatal("no lease for a route that is served")
		}
		l.Done()
		expect("room for the one that waits", 1)
		for _, l := range held {
			l.Done()
		}

		// Blocks: a few at once.
		held = nil
		for range 100 {
			l := ask(routeA, 100)
			if l == nil {
				break
			}
			held = append(held, l)
		}
		if len(held) != b.mostRaw {
			t.Errorf("%d blocks are out at once; want %d", len(held), b.mostRaw)
		}
		held[0].Done()
		expect("a block that came back", 1)
		for _, l := range held[1:] {
			l.Done()
		}
		if b.used() != 0 {
			t.Errorf("%d bytes are held at the end", b.used())
		}
	})
	b, _ := start(t, Limits{MaxBytes: 100, MaxWait: time.Hour}, 1<<20)
	if _, err := b.Lease(record.Route{Table: "none"}, 1, func() {}); err == nil {
		t.Error("a lease for a route that is not configured")
	}
}

// TestSealedBlocksCount: a block that short reads have filled counts among those of full size until
// it is compressed, one more than may be leased, and its memory is used again.
func TestSealedBlocksCount(t *testing.T) {
	n := &next{credit: 1000, served: true, got: make(chan *record.Payload, 10)}
	b := New(Options{Routes: map[record.Route]Limits{routeA: {MaxBytes: 100, MaxWait: time.Hour}}, Memory: 1 << 20, Next: n})
	woken := 0
	ask := func(want int) *Lease {
		t.Helper()
		l, err := b.Lease(routeA, want, func() { woken++ })
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	var held []*Lease
	for range b.mostRaw {
		held = append(held, ask(100))
	}
	if ask(100) != nil {
		t.Error("a block beyond the most")
	}
	r := &reader{t: t, b: b, r: routeA, file: fileA}
	r.append(strings.Repeat("x", 40))
	b.Flush() // to a compressor, and none runs yet
	if b.rawOut != b.mostRaw+1 {
		t.Errorf("%d blocks are out, want one more than %d", b.rawOut, b.mostRaw)
	}
	if ask(40) != nil {
		t.Error("a short read, which may need another block")
	}
	held[0].Done()
	if woken != 1 {
		t.Errorf("%d were woken by a block that came back, want the short read alone", woken)
	}
	l := ask(40)
	if l == nil {
		t.Fatal("no short read beside a block that came back")
	}
	l.Done()
	for _, l := range held[1:] {
		l.Done()
	}
	done := make(chan struct{})
	// Ended by Close, awaited below.
	go func() {
		defer close(done)
		b.Run()
	}()
	b.Release(<-n.got)
	b.Close()
	<-done
	if b.used() != 0 || b.rawOut != 0 || len(b.blocks) != b.mostRaw+1 {
		t.Errorf("%d bytes and %d blocks are held at the end, %d are free", b.used(), b.rawOut, len(b.blocks))
	}
}

// TestWaiters has many readers compete for little room and little credit: all
// of them come to their end, so that no wake-up is lost, and all that was taken
// is given back.
func TestWaiters(t *testing.T) {
	b, n := start(t, Limits{MaxBytes: 2000, MaxWait: time.Millisecond, Gzip: true, Level: 1}, 40_000)
	n.set(2, true)
	const readers, turns = 50, 40
	total := make(chan int)
	// Ended by the count of records, awaited below.
	go func() {
		sum := 0
		for sum < readers*turns {
			p := <-n.got
			sum += p.Records
			r := p.Route
			b.Release(p)
			b.Wake(r)
		}
		total <- sum
	}()
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			r := &reader{t: t, b: b, r: []record.Route{routeA, routeB}[i%2], file: record.File{Input: "in", ID: record.FileID(i)}}
			for turn := range turns {
				c := r.chunk(0, fmt.Sprint(i, " ", turn))
				woken := make(chan struct{}, 1)
				want := []int{10, 1500}[turn%2]
				l, err := b.Lease(r.r, want, func() { woken <- struct{}{} })
				for l == nil && err == nil {
					<-woken
					l, err = b.Lease(r.r, want, func() { woken <- struct{}{} })
				}
				if err != nil {
					t.Error(err)
					return
				}
				l.Append(c)
				l.Done()
			}
		})
	}
	all.Wait()
	<-total
	if b.used() != 0 || b.rawOut != 0 {
		t.Errorf("%d bytes and %d blocks are held at the end", b.used(), b.rawOut)
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := start(t, Limits{MaxBytes: 1000, MaxWait: time.Hour}, 1<<20)
		r := &reader{t: t, b: b, r: routeA, file: fileA}
		r.append("last")
		if b.Idle() {
			t.Error("idle with a record in hand")
		}
		b.Close()
		b.Close()
		synctest.Wait()
		if !b.Idle() || len(n.got) != 1 || body(t, <-n.got) != "last\n" {
			t.Error("what was open at Close did not leave")
		}
	})
}

// Settings may change while blocks are sealed.
func TestSetRoutes(t *testing.T) {
	b, n := start(t, Limits{MaxBytes: 1000, MaxWait: time.Hour}, 1<<20)
	r := &reader{t: t, b: b, r: routeA, file: fileA}
	r.append("one")
	b.Flush()
	r.append("open")
	b.SetRoutes(map[record.Route]Limits{routeA: {MaxBytes: 4, MaxWait: time.Hour, Gzip: true, Level: 1}})
	r.append("two")
	for range 3 {
		p := <-n.got
		if text := body(t, p); p.Gzip != (text == "two\n") {
			t.Errorf("%q: gzip %v", text, p.Gzip)
		}
		b.Release(p)
	}
	if b.used() != 0 {
		t.Errorf("%d bytes are held at the end", b.used())
	}
}

// A route that is taken away ends what it holds, and takes what comes late; a share
// of the memory it has only so long.
func TestRouteIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limits{MaxBytes: 1000, MaxWait: time.Second}
		b, n := start(t, l, 1<<20)
		r := &reader{t: t, b: b, r: routeA, file: fileA}
		late, err := b.Lease(routeA, 10, func() {})
		if late == nil || err != nil {
			t.Fatalf("no lease: %v", err)
		}
		r.append("open")
		b.SetRoutes(map[record.Route]Limits{routeB: l})
		first := <-n.got // at once: no company comes
		late.Append(r.chunk(0, "late"))
		late.Done()
		if got := b.common(); got != 3<<18 {
			t.Errorf("while it holds something %d bytes are common", got)
		}
		second := <-n.got
		if a, b := body(t, first), body(t, second); a != "open\n" || b != "late\n" {
			t.Errorf("payloads are %q and %q", a, b)
		}
		b.Release(first)
		b.Release(second)
		if got := b.common(); got != 1<<20 || b.used() != 0 {
			t.Errorf("afterwards %d bytes are common, %d held", got, b.used())
		}
		b.SetRoutes(map[record.Route]Limits{routeA: l, routeB: l})
		r.append("again")
		b.Flush()
		b.Release(<-n.got)
		if got := b.common(); got != 3<<18 {
			t.Errorf("when it is back %d bytes are common", got)
		}
	})
}

// The size of blocks and the memory change while some are out; the books close.
func TestSizesChange(t *testing.T) {
	b, n := start(t, Limits{MaxBytes: 1000, MaxWait: time.Hour}, 1<<20)
	limits := func(size int) map[record.Route]Limits {
		return map[record.Route]Limits{routeA: {MaxBytes: size, MaxWait: time.Hour}}
	}
	r := &reader{t: t, b: b, r: routeA, file: fileA}
	before, _ := b.Lease(routeA, 900, func() {})
	if !b.Reserve(false) {
		t.Fatal("no room")
	}
	b.SetRoutes(limits(4000))
	after, _ := b.Lease(routeA, 3900, func() {})
	if len(before.Block()) < 1000 || len(after.Block()) < 4000 {
		t.Errorf("blocks have %d and %d bytes", len(before.Block()), len(after.Block()))
	}
	b.SetRoutes(limits(500))
	if l, _ := b.Lease(routeA, 3900, func() {}); l == nil || l.Block() != nil {
		t.Errorf("a read by settings of former times gets %+v", l) // and no block that is too short
	} else {
		l.Done()
	}
	b.Unreserve()
	for _, l := range []*Lease{before, after} {
		c := r.chunk(0, "x")
		c.Body = append(l.Block()[record.MarkLen:record.MarkLen], c.Body...)
		l.Seal(c)
		l.Done()
		b.Release(<-n.got)
	}
	if b.used() != 0 {
		t.Errorf("%d bytes are held at the end", b.used())
	}
	b.SetMemory(100)
	woken := make(chan bool, 1)
	if l, _ := b.Lease(routeA, 400, func() { woken <- true }); l != nil {
		t.Error("a lease beyond the memory")
	}
	b.SetMemory(1 << 20)
	<-woken
}
