package spool

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

var wideConfig = Config{MaxSize: 64 * units.GiB, WhenFull: "block"}

// fromEnv is a number of the environment.
func fromEnv(b *testing.B, name string, otherwise int) int {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	must(b, err)
	return n
}

// table is the route of the i'th table of a benchmark.
func table(i int) record.Route {
	r := to(here)
	r.Table = fmt.Sprint("t", i)
	return r
}

// skewed says which of several routes the n'th payload is for: each has half as
// many as the one before, and the last the rest, or of many routes each a share of
// the rest.
func skewed(n, routes int) int {
	h := uint64(n) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	for i := range min(routes, 10) {
		if h>>i&1 == 0 {
			return i
		}
	}
	return int(h>>10) % routes
}

// fillSkewed leaves kept payloads of 1 kB in dir, for routes of very different
// rates.
func fillSkewed(b *testing.B, dir string, kept, routes int) {
	s, _, err := Open(dir, wideConfig, Options{})
	must(b, err)
	var at atomic.Int64
	var wg sync.WaitGroup
	one := body(1, 1000)
	for range 64 {
		wg.Go(func() {
			for n := int(at.Add(1)); n <= kept; n = int(at.Add(1)) {
				p := payload(n, here)
				p.Route, p.Body, p.Lens = table(skewed(n, routes)), one, nil
				if err := s.Put(p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	must(b, s.Close())
}

// BenchmarkReplay is everything taken and ended, by turns of the routes, which have
// very different rates: SPOOL_PAYLOADS of 1 kB.
func BenchmarkReplay(b *testing.B) {
	kept := fromEnv(b, "SPOOL_PAYLOADS", 20_000)
	for _, routes := range []int{1, 10, 200} {
		b.Run(fmt.Sprintf("routes=%d", routes), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir := b.TempDir()
				fillSkewed(b, dir, kept, routes)
				s, _, err := Open(dir, wideConfig, Options{})
				must(b, err)
				b.StartTimer()
				left := kept
				for waiting := s.Routes(); len(waiting) > 0; {
					waiting = slices.DeleteFunc(waiting, func(r record.Route) bool {
						p := next(s, r)
						if p == nil {
							return true
						}
						s.Done(p.ID, record.Accepted)
						left--
						return false
					})
				}
				b.StopTimer()
				if left != 0 {
					b.Fatalf("%d payloads do not come back", left)
				}
				must(b, s.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(kept)*float64(b.N)/b.Elapsed().Seconds(), "payloads/s")
		})
	}
}

// BenchmarkOpenBig is a start on a spool of SPOOL_GIB of payloads of 1 kB in 200
// tables, kept in SPOOL_DIR for the next time.
func BenchmarkOpenBig(b *testing.B) {
	const each = 1200 // bytes, about
	kept := fromEnv(b, "SPOOL_GIB", 0) << 30 / each
	dir := os.Getenv("SPOOL_DIR")
	if kept == 0 {
		kept, dir = 50_000, b.TempDir()
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		fillSkewed(b, dir, kept, 200)
	}
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		s, rec, err := Open(dir, wideConfig, Options{})
		must(b, err)
		b.StopTimer()
		if rec.Frames < kept*9/10 || rec.Lost {
			b.Fatalf("%d payloads, want %d", rec.Frames, kept)
		}
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "peak-MiB")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "heap-MiB")
		b.ReportMetric(float64(rec.Frames), "payloads")
		must(b, s.Close())
		b.StartTimer()
	}
}
