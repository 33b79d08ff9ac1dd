package tail

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/tail/internal/finder"
)

// TestNewsDelayNoScan: a scan comes some time after the news that names have changed, and never later
// than without.
func TestNewsDelayNoScan(t *testing.T) {
	f := func(scan, news, want time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			tailer, err := New(Options{Logger: slog.New(newBox()), Rescan: time.Minute})
			must(t, err)
			tailer.scans.no = 10 * busyFor
			began := time.Now()
			time.AfterFunc(news, tailer.rescanSoon)
			tailer.find.untilNextScan(t.Context(), finder.Cost{CPU: scan})
			if got := time.Since(began); got != want {
				t.Errorf("after a scan of %v, with news after %v, the next one comes after %v, want %v", scan, news, got, want)
			}
		})
	}
	f(time.Second, time.Second, 11*time.Second)
	f(time.Second, 40*time.Second, 50*time.Second)
	f(time.Second, 55*time.Second, time.Minute)
	f(8*time.Second, time.Second, time.Minute)
	f(8*time.Second, 59*time.Second, time.Minute)
}
