package format

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkCheck scans logs with each record checked, and reports the speed of
// the median turn by the CPU time of the thread: the machine may have other work.
func BenchmarkCheck(b *testing.B) {
	for _, k := range corpora() {
		b.Run(k.name, func(b *testing.B) {
			s := newScanner(b, Options{Format: k.format, Validate: true})
			turns(b, len(k.text), func() {
				scanAll(b, s, k.text)
			})
		})
	}
}

func scanAll(b *testing.B, s *Scanner, text []byte) {
	var c Chunk
	for at := 0; at < len(text); at += c.Consumed {
		s.Scan(text[at:], 1, false, 0, &c)
		if c.Consumed == 0 || len(c.Rejected) > 0 {
			b.Fatalf("at %d of %d, rejected %v", at, len(text), c.Rejected)
		}
	}
}

func turns(b *testing.B, size int, turn func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []time.Duration
	for b.Loop() {
		began := cpu()
		turn()
		took = append(took, cpu()-began)
	}
	slices.Sort(took)
	b.ReportMetric(float64(size)/1e6/took[len(took)/2].Seconds(), "MB/s")
	b.ReportMetric(float64(size)/1e6/took[0].Seconds(), "best-MB/s")
	b.ReportMetric(0, "ns/op")
}

func cpu() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
