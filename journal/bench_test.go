package journal

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/record"
)

// BenchmarkBeginEnd is one batch begun and ended, on a real disk, by as many
// senders as a cluster has.
func BenchmarkBeginEnd(b *testing.B) {
	for _, senders := range []int{1, 8} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			j, _, err := Open(b.TempDir(), testConfig, Options{})
			must(b, err)
			defer j.Close()
			var at atomic.Int64
			b.SetParallelism(senders)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := at.Add(1)
					p := payload(0, file1(1), n-1, n)
					p.ID[4], p.ID[5], p.ID[6] = byte(n>>16), byte(n>>8), byte(n)
					if err := j.Begin(p); err != nil {
						b.Error(err)
					}
					if err := j.End(p.ID, record.Accepted); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkFullDisk is one batch begun and ended while the disk takes nothing
// and the queue for it is full.
func BenchmarkFullDisk(b *testing.B) {
	fs := faultfs.New("/state")
	fs.Judge = func(faultfs.Op) faultfs.Verdict { return faultfs.Verdict{Err: faultfs.NoSpace} }
	j, _, err := Open("/state/journal", testConfig, Options{FS: fs, Stall: time.Hour})
	must(b, err)
	defer j.Close()
	one := func(n int64) {
		p := payload(0, file1(1), n, n+1)
		p.ID[4], p.ID[5], p.ID[6] = byte(n>>16), byte(n>>8), byte(n)
		_, _ = j.Begin(p), j.End(p.ID, record.Accepted) // the error is the disk's
	}
	n := int64(0)
	for ; n < 50_000; n++ {
		one(n)
	}
	for b.Loop() {
		one(n)
		n++
	}
}

// BenchmarkRecovery is a start on a segment of 100,000 entries.
func BenchmarkRecovery(b *testing.B) {
	dir := b.TempDir()
	o := Options{SegmentSize: 1 << 30}
	j, _, err := Open(dir, testConfig, o)
	must(b, err)
	for i := range 50_000 {
		f := file1(i % 1000)
		p := payload(i, f, int64(i), int64(i)+1)
		must(b, j.Begin(p))
		must(b, j.End(p.ID, record.Accepted))
	}
	must(b, j.Close())
	b.ResetTimer()
	for b.Loop() {
		rec, err := recoverState(j.o.FS, dir, "")
		must(b, err)
		if len(rec.state.files) != 1000 {
			b.Fatal("not all was read")
		}
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// wide is a payload of one record of each of many files.
func wide(n, files int) *record.Payload {
	p := payload(n, file1(0), 0, 1)
	p.Cover, p.Pieces = nil, nil
	for i := range files {
		f, span := file1(1+i), record.Span{Start: int64(n), End: int64(n) + 1}
		p.Cover = append(p.Cover, record.Extent{File: f, Span: span})
		p.Pieces = append(p.Pieces, record.Piece{File: f, Span: span, Records: 1})
	}
	return p
}

// BenchmarkState is the question for one file while batches of many are under way.
func BenchmarkState(b *testing.B) {
	for _, c := range []struct{ begun, files int }{{1, 1}, {16, 1000}, {64, 4096}} {
		b.Run(fmt.Sprintf("begun=%dx%d", c.begun, c.files), func(b *testing.B) {
			j, _, err := Open(b.TempDir(), testConfig, Options{})
			must(b, err)
			defer j.Close()
			for n := range c.begun {
				must(b, j.Begin(wide(1+n, c.files)))
			}
			for b.Loop() {
				if st, known := j.State(file1(1)); !known || len(st.Ahead) == 0 {
					b.Fatal("not known")
				}
			}
		})
	}
}

// BenchmarkBesideSnapshot is the longest that a question for a file, or a batch
// that is begun, waits while a segment with JOURNAL_FILES files is begun.
func BenchmarkBesideSnapshot(b *testing.B) {
	files := 2_000
	if v := os.Getenv("JOURNAL_FILES"); v != "" {
		n, err := strconv.Atoi(v)
		must(b, err)
		files = n
	}
	j, _, err := Open(b.TempDir(), testConfig, Options{SegmentSize: 64 << 20})
	must(b, err)
	defer j.Close()
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := g; i < files; i += 64 {
				if err := j.Register(file1(i), record.FileInfo{Path: fmt.Sprint("/var/log/some/application/", i, ".log")}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var asked, begun time.Duration
	for n := 0; b.Loop(); n++ {
		j.mu.Lock()
		j.overflow = true // a snapshot is due
		j.mu.Unlock()
		j.poke()
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- j.Begin(payload(n, file1(0), int64(n), int64(n)+1)) }() // ends with its Begin, awaited below
		for waits := true; waits; {
			before := time.Now()
			j.State(file1(1))
			asked = max(asked, time.Since(before))
			select {
			case err := <-done:
				must(b, err)
				waits = false
			default:
				runtime.Gosched()
			}
		}
		begun = max(begun, time.Since(start))
	}
	b.ReportMetric(float64(asked.Microseconds()), "us-state")
	b.ReportMetric(float64(begun.Microseconds()), "us-begin")
}
