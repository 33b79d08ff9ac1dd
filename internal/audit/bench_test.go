package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"kusto-agent/internal/journal"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// BenchmarkRead judges a journal of AUDIT_ENTRIES entries of a thousand files, which it
// makes first, in AUDIT_DIR where that is set.
func BenchmarkRead(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("AUDIT_ENTRIES"))
	if err != nil {
		n = 50_000
	}
	dir := os.Getenv("AUDIT_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	if _, err := os.Stat(filepath.Join(dir, "journal")); err != nil {
		generate(b, filepath.Join(dir, "journal"), n/2)
	}
	var r *Report
	var m runtime.MemStats
	for b.Loop() {
		if r, err = Read(Options{State: dir, Spool: filepath.Join(dir, "spool")}); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	if s := r.Sum(); !r.OK || s.Accepted.Batches != int64(n/2) {
		b.Fatalf("%s %+v", r.Headline(), s.Accepted)
	}
	b.ReportMetric(float64(r.Entries)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(m.HeapAlloc)/1e6, "live-MB")
}

// generate makes a journal of so many batches, each accepted, out of order now and then.
func generate(b *testing.B, dir string, batches int) {
	cfg := journal.DefaultConfig()
	cfg.MaxSize = 1000 * units.GiB
	j, _, err := journal.Open(dir, cfg, journal.Options{SyncEvery: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	const writers = 1000
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			f := record.File{Input: "app", ID: record.FileID(g)}
			if err := j.Register(f, record.FileInfo{Path: fmt.Sprint("/var/log/some/application/", g, ".log"), Done: true}.Facts()); err != nil {
				b.Error(err)
			}
			at := int64(0)
			for i := g; i < batches; i += writers {
				p := &record.Payload{ID: record.BatchID{1, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}, Attempt: 1, Records: 1000, RawBytes: 4_000_000,
					Route: record.Route{Cluster: "https://mycluster.westeurope.kusto.windows.net", Database: "Logs", Table: "App", Format: record.JSON, Mapping: "App_json"}, ReadAt: time.Now()}
				s := record.Span{Start: at, End: at + 4_000_000}
				p.Cover = []record.Extent{{File: f, Span: s, Mark: 1}}
				p.Pieces = []record.Piece{{File: f, Span: s, Records: 1000}}
				at = s.End
				if err := j.Begin(p); err != nil {
					b.Error(err)
				}
				if err := j.End(p.ID, record.Accepted); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}
