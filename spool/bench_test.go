package spool

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

var benchConfig = Config{MaxSize: 10 * units.GiB, WhenFull: "block"}

func megabyte() *record.Payload {
	p := payload(1, here)
	p.Body = make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range p.Body {
		p.Body[i] = byte(r.Uint32())
	}
	return p
}

// BenchmarkPut is 1 MiB made durable on a real disk, by one caller and by as
// many as a cluster has.
func BenchmarkPut(b *testing.B) {
	for _, senders := range []int{1, 8} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			s, _, err := Open(b.TempDir(), benchConfig, Options{})
			must(b, err)
			defer s.Close()
			var at atomic.Int64
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			b.SetParallelism(senders)
			b.RunParallel(func(pb *testing.PB) {
				p := megabyte()
				for pb.Next() {
					p.ID = batchID(int(at.Add(1)))
					if err := s.Put(p); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkNext is 1 MiB read back, checked and ended.
func BenchmarkNext(b *testing.B) {
	s, _, err := Open(b.TempDir(), benchConfig, Options{})
	must(b, err)
	defer s.Close()
	const kept = 200
	p := megabyte()
	for n := range kept {
		p.ID = batchID(n)
		must(b, s.Put(p))
	}
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		q := next(s, to(here))
		if q == nil {
			b.Fatal("nothing there")
		}
		s.Return(q.ID)
	}
}

// BenchmarkOpen is a start on a full spool: 100,000 small payloads, or 1 GB of
// large ones, of which only headers and metas are read.
func BenchmarkOpen(b *testing.B) {
	f := func(name string, kept, size int) {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			fill(b, dir, kept, size)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				s, rec, err := Open(dir, benchConfig, Options{})
				must(b, err)
				if rec.Frames != kept {
					b.Fatalf("%d payloads, want %d", rec.Frames, kept)
				}
				must(b, s.Close())
			}
			b.ReportMetric(float64(kept)*float64(b.N)/b.Elapsed().Seconds(), "payloads/s")
		})
	}
	f("small", 100_000, 500)
	if !testing.Short() {
		f("large", 1_000, 1<<20)
	}
}

// fill leaves a spool with payloads of size bytes in dir.
func fill(b *testing.B, dir string, kept, size int) {
	s, _, err := Open(dir, benchConfig, Options{})
	must(b, err)
	var at atomic.Int64
	done := make(chan error)
	for range 64 { // each ends with its last Put, awaited below
		go func() {
			var err error
			for n := at.Add(1); n <= int64(kept) && err == nil; n = at.Add(1) {
				p := payload(int(n), here)
				if len(p.Body) < size {
					p.Body = body(int(n), size)
				}
				err = s.Put(p)
			}
			done <- err
		}()
	}
	for range 64 {
		must(b, <-done)
	}
	must(b, s.Close())
}
