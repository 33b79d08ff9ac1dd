package batcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
)

// However many routes have open blocks, these take a bounded amount of memory while readers wait or read much at
// once: those leave to which nothing came for longest. Where none does, they stay.
func TestOpenBlocksAreBounded(t *testing.T) {
	const routes, size = 40, 1 << 20
	b, n := start(t, Limits{MaxBytes: 4 << 20, MaxWait: time.Hour}, 1<<30)
	l := b.lanes[routeA].Limits
	all := make(map[record.Route]Limits)
	var readers []*reader
	for i := range routes {
		r := record.Route{Table: fmt.Sprint(i), Format: record.JSON}
		all[r] = l
		readers = append(readers, &reader{t: t, b: b, r: r, file: record.File{Input: "in", ID: record.FileID(i)}})
	}
	b.SetRoutes(all)
	for _, r := range readers {
		for range 8 {
			r.append(strings.Repeat("x", size/8))
		}
	}
	b.mu.Lock()
	if b.seals > 0 || len(b.open) != routes {
		t.Errorf("%d blocks have left though no reader waits or reads much at once", b.seals)
	}
	b.mu.Unlock()
	readers[0].append(strings.Repeat("x", size))
	b.mu.Lock()
	if _, stays := b.open[key{route: readers[0].r}]; !stays || b.seals == 0 || b.opened > b.mostOpen() {
		t.Errorf("open blocks have %d bytes, want at most %d, after much was read at once for one that stays: %v", b.opened, b.mostOpen(), stays)
	}
	b.mu.Unlock()
	b.Flush()
	for range readers {
		b.Release(<-n.got)
	}
	left := make(map[string]int) // payloads by table
	taken := routes
	for turn := range 2 {
		for i, r := range readers {
			b.mu.Lock()
			b.waited = b.seals - i%waitedLately // a reader had to wait a while ago
			b.mu.Unlock()
			r.append(strings.Repeat("x", size))
			readers[0].append("y") // something comes to it all the time
			b.mu.Lock()
			opened, seals := b.opened, b.seals
			actual := 0
			for _, blk := range b.open {
				actual += cap(blk.data)
			}
			_, first := b.open[key{route: readers[0].r}]
			b.mu.Unlock()
			if opened != actual || opened > b.mostOpen() {
				t.Fatalf("open blocks have %d bytes, counted as %d, want at most %d", actual, opened, b.mostOpen())
			}
			if !first {
				t.Errorf("turn %d, route %d: the block left to which records came last", turn, i)
			}
			for ; taken < seals; taken++ {
				p := <-n.got
				left[p.Route.Table]++
				b.Release(p)
			}
		}
	}
	b.Flush()
	for len(left) < routes {
		p := <-n.got
		left[p.Route.Table]++
		b.Release(p)
	}
	if left["0"] != 1 || left["1"] != 2 {
		t.Errorf("payloads by table: %v", left)
	}
}

// Of readers that wait, one that adds to a payload in the making gets room before others that asked
// earlier; these keep their order.
func TestAddersGoFirst(t *testing.T) {
	l := Limits{MaxBytes: 1 << 20, MaxWait: time.Hour}
	b := New(Options{Routes: map[record.Route]Limits{routeA: l, routeB: l}, Memory: 64 << 20, Next: &next{credit: 1000, served: true}})
	adder := &reader{t: t, b: b, r: routeA, file: fileA}
	adder.append(strings.Repeat("x", 1<<18))
	var woken []string
	b.mu.Lock()
	for _, w := range []struct {
		name string
		r    record.Route
	}{{"b1", routeB}, {"a1", routeA}, {"b2", routeB}, {"a2", routeA}} {
		b.waitForMemory(waiter{lane: b.lanes[w.r], cost: 100, wake: func() { woken = append(woken, w.name) }})
	}
	if b.waited != b.seals {
		t.Error("it is not noted that readers wait")
	}
	call(b.wakeFitting(3))
	b.mu.Unlock()
	b.Flush()
	b.mu.Lock()
	call(b.wakeFitting(3))
	b.mu.Unlock()
	if got := strings.Join(woken, " "); got != "a1 a2 b1 b2" {
		t.Errorf("woken: %s", got)
	}
}

// What is read next fills an open payload that is half full, which leaves then.
func TestMostFillsAnOpenBlock(t *testing.T) {
	const size = 1 << 20
	b, n := start(t, Limits{MaxBytes: size, MaxWait: time.Hour}, 64<<20)
	r := &reader{t: t, b: b, r: routeA, file: fileA}
	for _, step := range []struct{ bytes, want int }{
		{size / 4, size},                  // the block is not half full
		{size / 4, size/2 - size/32},      // what is left of it
		{size / 4, size/4 - size/32},      //
		{size/4 - size/32 - 1, size / 32}, // little is always asked for
		{1, size},                         // it has left
	} {
		r.append(strings.Repeat("x", step.bytes-1))
		if got := b.Most(routeA); got != step.want {
			t.Errorf("after %d more bytes the next read has %d, want %d", step.bytes, got, step.want)
		}
	}
	b.Flush()
	if p := <-n.got; p.RawBytes != size-size/32 {
		t.Errorf("a payload of %d bytes", p.RawBytes)
	}
}

// The output goes to the smallest free buffer that is likely to be enough, and to a new one where
// there is none.
func TestTakeBodyFits(t *testing.T) {
	b, _ := start(t, Limits{MaxBytes: 4 << 20, MaxWait: time.Hour}, 64<<20)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, kib := range []int{1300, 300, 700} {
		b.keepBody(make([]byte, kib<<10))
	}
	for _, step := range []struct{ raw, want int }{
		{1 << 20, 300 << 10}, {4 << 20, 1300 << 10}, {4 << 20, 4<<20/3 + 512}, {1 << 20, 700 << 10}, {1 << 20, 1<<20/3 + 512}, {100, 100/3 + 512},
	} {
		if got := b.takeBody(step.raw); len(got) != 0 || cap(got) != step.want {
			t.Errorf("for %d bytes a buffer of %d, want %d", step.raw, cap(got), step.want)
		}
	}
	if b.memory.kept != 0 {
		t.Errorf("%d bytes count as kept", b.memory.kept)
	}
}

// Buffers below full size are used again, and count as kept while they are free.
func TestStepsAreUsedAgain(t *testing.T) {
	b, _ := start(t, Limits{MaxBytes: 4 << 20, MaxWait: time.Hour}, 1<<30)
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := 0
	for range 2*keptSteps/(2<<20) + 1 {
		b.giveStep(make([]byte, 10, 2<<20))
	}
	b.giveStep(make([]byte, 10, 12345)) // no block asks for it
	if kept = len(b.steps[stepClasses-1]); kept != keptSteps/(2<<20) || b.memory.kept != keptSteps {
		t.Errorf("%d buffers of 2 MiB are kept, %d bytes", kept, b.memory.kept)
	}
	if got := b.takeStep(2 << 20); len(got) != 0 || cap(got) != 2<<20 || b.memory.kept != keptSteps-2<<20 {
		t.Errorf("a buffer of %d and %d bytes, %d bytes are kept", len(got), cap(got), b.memory.kept)
	}
	b.memory.limit = 1 // they are the first to go
	b.makeRoom()
	if b.memory.kept != 0 || len(slices.Concat(b.steps[:]...)) != 0 {
		t.Errorf("%d bytes are kept, buffers %v", b.memory.kept, b.steps)
	}
}
