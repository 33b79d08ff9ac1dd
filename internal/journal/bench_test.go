package journal

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
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
		if rec.state.files.len() != 1000 {
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

// BenchmarkBesideSnapshot is how long a Begin waits, and a question for a file, while
// segments are begun one after another with JOURNAL_FILES files, or JOURNAL_ENDED
// batches that ended in the spool, in their snapshots. Its first case has nothing in
// its snapshots: so long takes a Begin by itself.
func BenchmarkBesideSnapshot(b *testing.B) {
	for _, c := range []struct{ files, ended int }{{}, {files: fromEnv(b, "JOURNAL_FILES", 2_000)}, {ended: fromEnv(b, "JOURNAL_ENDED", 2_000)}} {
		b.Run(fmt.Sprintf("files=%d/ended=%d", c.files, c.ended), func(b *testing.B) { besideSnapshot(b, c.files, c.ended) })
	}
}

// BenchmarkSnapshotLock is a snapshot of as much, and for how long it holds the lock at
// most that a Begin needs: in CPU time of its thread, so that other work of the machine
// does not count. The time to encode what was read under the lock is in it.
func BenchmarkSnapshotLock(b *testing.B) {
	for _, c := range []struct{ files, ended int }{{files: fromEnv(b, "JOURNAL_FILES", 2_000)}, {ended: fromEnv(b, "JOURNAL_ENDED", 2_000)}} {
		b.Run(fmt.Sprintf("files=%d/ended=%d", c.files, c.ended), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			j := &Journal{state: newState(), o: Options{Now: time.Now}, lines: []line{newLine()}}
			for i := range c.files {
				j.state.apply(&Entry{Kind: FileSeen, File: file1(i), Info: record.FileInfo{Path: fmt.Sprint("/var/log/some/application/", i, ".log")}.Facts()})
			}
			for i := range c.ended {
				j.state.apply(&Entry{Kind: ReplayEnd, Batch: numbered(i), Outcome: record.Accepted})
			}
			for i := range 256 {
				j.state.apply(&Entry{Kind: Begin, Payload: wide(i+1, 4)})
			}
			most := time.Duration(0)
			for b.Loop() {
				last := threadTime(b)
				step := func() {
					now := threadTime(b)
					most, last = max(most, now-last), now
				}
				s := j.freeze()
				step()
				must(b, s.write(func([]durable.Frame) error { step(); return nil }))
				step()
				s.thaw()
				step()
			}
			b.ReportMetric(float64(most.Microseconds())/1000, "max-ms/lock")
		})
	}
}

func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	must(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

func fromEnv(b *testing.B, name string, otherwise int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	must(b, err)
	return n
}

func numbered(n int) record.BatchID {
	return record.BatchID{1, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

func besideSnapshot(b *testing.B, files, ended int) {
	j, _, err := Open(b.TempDir(), testConfig, Options{SegmentSize: 16 << 20})
	must(b, err)
	defer j.Close()
	told := func(n int, tell func(i int) error) {
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				for i := g; i < n; i += 64 {
					if err := tell(i); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	told(files, func(i int) error {
		return j.Register(file1(i), record.FileInfo{Path: fmt.Sprint("/var/log/some/application/", i, ".log")}.Facts())
	})
	told(ended, func(i int) error { return j.EndReplay(numbered(1<<30+i), record.Accepted) })
	var mu sync.Mutex
	var asked, begun []time.Duration
	at, long := 0, strings.Repeat("m", 2<<10)
	for b.Loop() {
		const each, senders = 2_000, 8 // two segments
		var wg sync.WaitGroup
		for g := range senders {
			wg.Go(func() {
				took, looked := make([]time.Duration, 0, each), make([]time.Duration, 0, each)
				for i := range each {
					n := at + g*each + i
					p := payload(0, file1(g), int64(n), int64(n)+1)
					p.ID, p.Route.Mapping = numbered(n), long
					start := time.Now()
					if err := j.Begin(p); err != nil {
						b.Error(err)
					}
					took = append(took, time.Since(start))
					if err := j.End(p.ID, record.Accepted); err != nil {
						b.Error(err)
					}
					start = time.Now()
					j.State(file1(g))
					looked = append(looked, time.Since(start))
					time.Sleep(time.Millisecond) // so that the cores are not what is waited for
				}
				mu.Lock()
				defer mu.Unlock()
				begun, asked = append(begun, took...), append(asked, looked...)
			})
		}
		wg.Wait()
		at += each * senders
	}
	for name, all := range map[string][]time.Duration{"begin": begun, "state": asked} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "us-"+name+"-p99")
		b.ReportMetric(float64(all[len(all)*999/1000].Microseconds()), "us-"+name+"-p99.9")
		b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "max-ms/"+name)
	}
	names, err := listSegments(j.o.FS, j.dir)
	must(b, err)
	b.ReportMetric(float64(names[len(names)-1].seq), "segments")
}
