package batcher

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/logzip"
	"kusto-agent/internal/record"
)

// A route whose payloads nobody accepts may hold all that is common; the others
// then read what their own share has room for, and none of the wake-ups goes to
// one that could not use it.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		routes := map[record.Route]Limits{}
		for i := range 4 {
			routes[record.Route{Database: "d", Table: fmt.Sprint(i), Format: record.JSON}] = Limits{MaxBytes: 100_000, MaxWait: time.Hour}
		}
		n := &next{credit: 1000, served: true, got: make(chan *record.Payload, 1000)}
		const memory = 1_600_000 // a quarter is set aside: 100,000 bytes for each route
		b := New(Options{Routes: routes, Memory: memory, Next: n})
		done := make(chan struct{})
		go func() { // ended by Close, awaited below
			defer close(done)
			b.Run()
		}()
		route := func(i int) record.Route {
			return record.Route{Database: "d", Table: fmt.Sprint(i), Format: record.JSON}
		}
		if got := b.Most(route(0)); got != 100_000 {
			t.Errorf("with all memory free %d bytes make sense, want a payload", got)
		}
		hog := &reader{t: t, b: b, r: route(0), file: fileA}
		for size := 49_000; size > 1000; {
			l, err := b.Lease(route(0), size, func() {})
			if err != nil {
				t.Fatal(err)
			}
			if l == nil {
				size /= 2
				continue
			}
			l.Append(hog.chunk(0, string(bytes.Repeat([]byte("x"), size-1))))
			l.Done()
			b.Flush()
			synctest.Wait()
		}
		if used := b.used(); used < memory/2 || used > memory*3/4 {
			t.Errorf("one route holds %d of %d", used, memory)
		}
		most := b.Most(route(1))
		if most < 4<<10 || most > 50_000 {
			t.Errorf("%d bytes make sense", most)
		}
		woken := make([]int, 4)
		ask := func(i, want int) *Lease {
			l, err := b.Lease(route(i), want, func() { woken[i]++ })
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		for range 5 * wokenAtOnce {
			ask(0, 49_001) // in the queue before all others
		}
		l := ask(1, most)
		if l == nil {
			t.Fatalf("no lease of %d bytes out of a share", most)
		}
		if ask(1, most) != nil {
			t.Error("a lease beyond the share")
		}
		l.Done()
		if woken[0] != 0 || woken[1] != 1 {
			t.Errorf("woken %v, want the route whose share has room", woken)
		}
		for len(n.got) > 0 {
			b.Release(<-n.got)
		}
		if woken[0] == 0 {
			t.Error("nobody told of what is common again")
		}
		b.Close()
		<-done
		if b.used() != 0 {
			t.Errorf("%d bytes are held at the end", b.used())
		}
	})
}

// Free buffers count: they go when what is in hand needs their room.
func TestKeptBuffers(t *testing.T) {
	const size = 1 << 20
	b, n := start(t, Limits{MaxBytes: size, MaxWait: time.Hour}, 6*size)
	r := &reader{t: t, b: b, r: routeA, file: fileA}
	line := string(bytes.Repeat([]byte("x"), size-1))
	var held []*record.Payload
	for range 2 {
		r.append(line)
		held = append(held, <-n.got)
	}
	for _, p := range held {
		b.Release(p)
	}
	kept := func() int64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		sum := int64(0)
		for _, buf := range append(b.bodies[:len(b.bodies):len(b.bodies)], b.blocks...) {
			sum += int64(cap(buf))
		}
		if sum != b.memory.kept {
			t.Errorf("%d bytes are kept, %d counted", sum, b.memory.kept)
		}
		return sum
	}
	if kept() == 0 {
		t.Fatal("no buffer was kept")
	}
	for range 4 {
		if !b.Reserve(false) {
			break
		}
	}
	if got := kept() + b.used(); got > 6*size {
		t.Errorf("%d bytes in all, want at most %d", got, 6*size)
	}
	if b.Reserve(false) {
		t.Error("room beyond what is common")
	}
	if !b.Reserve(true) {
		t.Error("no room for the one that must be")
	}
	for b.used() > 0 {
		b.Unreserve()
	}
}

// What does not compress takes little more than itself.
func TestOutputSize(t *testing.T) {
	raw := make([]byte, 4_000_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(raw)
	b := New(Options{})
	for _, e := range []Encoder{Auto, Klauspost} {
		out, _, _ := b.deflater.deflate(make([]byte, 0, len(raw)/3+512), logzip.Tables{}, Limits{Level: 1, Encoder: e}, [][]byte{raw})
		if cap(out) > len(raw)+len(raw)/100 {
			t.Errorf("%s: a body of %d bytes in a buffer of %d", e, len(out), cap(out))
		}
	}
}

// A block of a route that has much to send has a buffer of full size from the start, unless memory is
// short; after a small payload it grows in steps again.
func TestBlockIsLargeFromTheStart(t *testing.T) {
	const size = 1 << 20
	for memory, want := range map[int64]bool{64 << 20: true, 4 << 20: false} {
		b, n := start(t, Limits{MaxBytes: size, MaxWait: time.Hour}, memory)
		r := &reader{t: t, b: b, r: routeA, file: fileA}
		pooled := func(bytes int) (is bool) {
			r.append(strings.Repeat("x", bytes))
			b.mu.Lock()
			for _, blk := range b.open {
				is = blk.pooled
			}
			b.mu.Unlock()
			b.Flush()
			b.Release(<-n.got)
			return is
		}
		for _, step := range []struct {
			bytes int
			want  bool
			why   string
		}{
			{100, false, "nothing is known of the route"},
			{size / 8, want, "much came at once"},
			{100, want, "much came last"},
			{100, false, "little came last"},
		} {
			if is := pooled(step.bytes); is != step.want {
				t.Errorf("%d bytes with %d of memory, where %s: a buffer of full size %t, want %t", step.bytes, memory, step.why, is, step.want)
			}
		}
	}
}

// Of buffers that come back as many are kept as may be asked for next: where many routes have open
// blocks, those, and few when they are gone.
func TestBuffersAreKeptForOpenBlocks(t *testing.T) {
	const routes, size = 40, 1 << 16
	b, _ := start(t, Limits{MaxBytes: size, MaxWait: time.Hour}, 64<<20)
	b.mu.Lock()
	defer b.mu.Unlock()
	give := func(n, want int, when string) {
		t.Helper()
		var out [][]byte
		for range n {
			out = append(out, b.takeBlock())
		}
		for _, buf := range out {
			b.giveBlock(buf)
		}
		if got := len(b.blocks); got != want || b.memory.kept != int64(want*(record.MarkLen+size+1)) {
			t.Errorf("%s: %d buffers are kept, %d bytes, want %d", when, got, b.memory.kept, want)
		}
	}
	for i := range routes {
		b.open[key{stamp: record.BatchID{byte(i)}}] = &block{}
	}
	give(routes, routes, "with as many open blocks")
	give(2*routes, b.mostRaw+1+routes, "with half as many open blocks")
	clear(b.open)
	give(1, b.mostRaw+2, "with none")
}

// TestInHandIsTold: when much comes into hand, and when most of it is gone; not each time that it changes.
func TestInHandIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int64
		n := &next{credit: 1000, served: true, got: make(chan *record.Payload, 1000)}
		route := record.Route{Database: "d", Table: "t", Format: record.JSON}
		b := New(Options{
			Routes: map[record.Route]Limits{route: {MaxBytes: 4 << 20, MaxWait: time.Hour}}, Memory: 1 << 30, Next: n,
			InHand: func(n int64) { told = append(told, n) },
		})
		done := make(chan struct{})
		go func() { // ended by Close, awaited below
			defer close(done)
			b.Run()
		}()
		r := &reader{t: t, b: b, r: route, file: fileA}
		line := string(bytes.Repeat([]byte("x"), 4<<20-1))
		for range 40 {
			r.append(line)
			synctest.Wait()
		}
		rising := len(told)
		if rising != 3 || told[rising-1] < 140<<20 {
			t.Errorf("told %v for 160 MiB", told)
		}
		for len(n.got) > 0 {
			b.Release(<-n.got)
			synctest.Wait()
		}
		if left := told[rising:]; len(left) == 0 || len(left) > 3 || left[len(left)-1] >= told[rising-1]/2 {
			t.Errorf("told %v when they are released, after %v", left, told[:rising])
		}
		b.Close()
		<-done
	})
}
