package batcher

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"kusto-agent/internal/record"
)

var benchRoute = record.Route{Cluster: "http://127.0.0.1", Database: "D", Table: "T", Format: record.JSON, Mapping: "M"}

// giver ends every payload at once.
type giver struct {
	b   *Batcher
	raw chan int // bytes before gzip of each payload
}

func (g *giver) Credit(record.Route) (int, bool) { return 16, true }
func (g *giver) Largest(record.Route) int        { return 0 }

func (g *giver) Put(p *record.Payload) {
	n := p.RawBytes
	g.b.Release(p)
	g.raw <- n
}

func startBench(b *testing.B, maxWait time.Duration) (*Batcher, *giver) {
	g := &giver{raw: make(chan int, 64)}
	g.b = New(Options{
		Routes: map[record.Route]Limits{benchRoute: {MaxBytes: 4_000_000, MaxWait: maxWait, Gzip: true, Level: 1}},
		Memory: 256 << 20,
		Next:   g,
	})
	done := make(chan struct{})
	// Ended by Close, awaited in the cleanup.
	go func() {
		defer close(done)
		g.b.Run()
	}()
	b.Cleanup(func() {
		g.b.Close()
		<-done
	})
	return g.b, g
}

// benchLines is a run of log records of about n bytes.
func benchLines(n int) []byte {
	var buf bytes.Buffer
	for i := 0; buf.Len() < n; i++ {
		h := uint64(i+1) * 0x9E3779B97F4A7C15
		fmt.Fprintf(&buf, `{"time":"2026-03-01T06:%02d:%02d.%06dZ","level":"info","trace":"%016x%016x","user":"u-%06d","status":200,"ms":%d.%d,"msg":"request served, cache miss, asked the primary"}`+"\n",
			i/60%60, i%60, h%1_000_000, h, h*h, h%200_000, h%90, h%1000)
	}
	return buf.Bytes()
}

// chunkAt makes a chunk of a body that begins at offset at of the one file.
func chunkAt(body []byte, records int, at int64) *record.Chunk {
	f := record.File{Input: "bench", ID: 1}
	span := record.Span{Start: at, End: at + int64(len(body))}
	return &record.Chunk{
		Route: benchRoute, Body: body, Records: records, ReadAt: time.Now(),
		Cover:  record.Extent{File: f, Span: span, Mark: 1},
		Pieces: []record.Piece{{File: f, Span: span, Records: records}},
	}
}

// BenchmarkSeal is the backlog path: a block of 4 MB becomes a payload where
// it lies. Every core compresses.
func BenchmarkSeal(b *testing.B) {
	bat, g := startBench(b, time.Hour)
	lines := benchLines(4_000_000)
	lines = lines[:bytes.LastIndexByte(lines[:3_999_999], '\n')+1]
	records := bytes.Count(lines, []byte{'\n'})
	room := make(chan struct{}, 1)
	wake := func() {
		select {
		case room <- struct{}{}:
		default:
		}
	}
	b.SetBytes(int64(len(lines)))
	b.ReportAllocs()
	var at int64
	sealed, given := 0, 0
	for b.Loop() {
		l, err := bat.Lease(benchRoute, len(lines), wake)
		for l == nil && err == nil {
			select {
			case <-room:
			case <-g.raw:
				given++
			}
			l, err = bat.Lease(benchRoute, len(lines), wake)
		}
		if err != nil {
			b.Fatal(err)
		}
		body := l.Block()[record.MarkLen:]
		body = body[:copy(body, lines)]
		l.Seal(chunkAt(body, records, at))
		l.Done()
		at += int64(len(body))
		sealed++
	}
	for ; given < sealed; given++ {
		<-g.raw
	}
}

// BenchmarkAppend is the trickle path: runs of about 200 bytes, a record each,
// join the open block of their route. Compressing them is part of the cost.
func BenchmarkAppend(b *testing.B) {
	bat, g := startBench(b, time.Hour)
	lines := benchLines(4_000_000)
	rest := lines
	var at int64
	for b.Loop() {
		n := bytes.IndexByte(rest, '\n') + 1
		l, err := bat.Lease(benchRoute, n, func() {})
		for l == nil && err == nil {
			<-g.raw
			l, err = bat.Lease(benchRoute, n, func() {})
		}
		if err != nil {
			b.Fatal(err)
		}
		l.Append(chunkAt(rest[:n], 1, at))
		l.Done()
		at += int64(n)
		if rest = rest[n:]; len(rest) == 0 {
			rest = lines
		}
		for len(g.raw) > 0 {
			<-g.raw
		}
	}
	b.ReportMetric(float64(at)/1e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportAllocs()
}

// BenchmarkRestamp writes the id of a payload into 4 MB of records that have a
// place for it.
func BenchmarkRestamp(b *testing.B) {
	ids := []record.BatchID{{0: 0x5f, 15: 1}, {0: 0xc3, 15: 2}}
	var body []byte
	for line := range bytes.Lines(benchLines(3_200_000)) {
		body = append(append(append(body, line[:len(line)-2]...), `,"batch":"`+ids[0].String()...), "\"}\n"...)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		restamp(body, ids[n%2], ids[1-n%2])
	}
}
