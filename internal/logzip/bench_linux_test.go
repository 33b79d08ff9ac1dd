package logzip

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	kgzip "github.com/klauspost/compress/gzip"

	"kusto-agent/internal/logzip/corpus"
)

// BenchmarkAgainstKlauspost compresses streams of payloads by turns with this
// encoder and with klauspost's level 1, and reports both speeds by the turn with
// the least CPU time, their ratio, and how much larger the output is, in percent.
func BenchmarkAgainstKlauspost(b *testing.B) {
	for _, size := range []int{4_000_000, 256 << 10} {
		for _, k := range corpus.Kinds() {
			b.Run(fmt.Sprintf("%s/%dK", k.Name, size>>10), func(b *testing.B) {
				against(b, k.Payloads(size, max(2, 8_000_000/size), 1))
			})
		}
	}
}

// BenchmarkRealLogs does the same with logs that this machine has, over and over.
func BenchmarkRealLogs(b *testing.B) {
	for _, path := range []string{"/var/log/dpkg.log", "/var/log/apt/term.log", "/var/log/syslog", "/var/log/messages"} {
		b.Run(filepath.Base(path), func(b *testing.B) {
			text, err := os.ReadFile(path)
			if err != nil || len(text) < 64<<10 {
				b.Skip("there is no such log of 64 KiB or more")
			}
			stream := slices.Collect(slices.Chunk(text, 4_000_000))
			against(b, slices.Repeat(stream, 8))
		})
	}
}

// cpu is the CPU time of this thread: the machine may have other work.
func cpu() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

func against(b *testing.B, payloads [][]byte) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	raw := 0
	for _, p := range payloads {
		raw += len(p)
	}
	var e Encoder
	out := make([]byte, 0, MaxLen(len(payloads[0]))+4096)
	ours := func() (size int) {
		var t Tables
		for _, p := range payloads {
			size += len(e.Append(out, &t, p))
		}
		return size
	}
	var buf bytes.Buffer
	zw, err := kgzip.NewWriterLevel(&buf, 1)
	if err != nil {
		b.Fatal(err)
	}
	theirs := func() (size int) {
		for _, p := range payloads {
			buf.Reset()
			zw.Reset(&buf)
			zw.Write(p)
			zw.Close()
			size += buf.Len()
		}
		return size
	}
	var fastest [2]time.Duration
	var sizes [2]int
	for b.Loop() {
		for i, f := range []func() int{ours, theirs} {
			began := cpu()
			sizes[i] = f()
			if took := cpu() - began; fastest[i] == 0 || took < fastest[i] {
				fastest[i] = took
			}
		}
	}
	speed := func(d time.Duration) float64 { return float64(raw) / 1e6 / d.Seconds() }
	b.ReportMetric(speed(fastest[0]), "MB/s")
	b.ReportMetric(speed(fastest[1]), "kp-MB/s")
	b.ReportMetric(speed(fastest[0])/speed(fastest[1]), "times")
	b.ReportMetric(100*(float64(sizes[0])/float64(sizes[1])-1), "%larger")
	b.ReportMetric(float64(raw)/float64(sizes[0]), "ratio")
	b.ReportMetric(0, "ns/op")
}
