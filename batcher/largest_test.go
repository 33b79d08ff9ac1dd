package batcher

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLargest: payloads are no larger than the service takes, also where that changes,
// and than batch.max_size.
func TestLargest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := start(t, Limits{MaxBytes: 1000, MaxWait: time.Hour}, 1<<20)
		r := &reader{t: t, b: b, r: routeA, file: fileA}
		sizes := func() string {
			for range 20 {
				r.append(strings.Repeat("x", 99))
				synctest.Wait() // a compressor may have it
			}
			b.Flush()
			synctest.Wait()
			var all []int
			for len(n.got) > 0 {
				p := <-n.got
				all = append(all, p.RawBytes)
				b.Release(p)
			}
			return fmt.Sprint(all)
		}
		for _, c := range []struct {
			largest int
			want    string
		}{{0, "[1000 1000]"}, {450, "[400 400 400 400 400]"}, {700, "[700 700 600]"}, {5000, "[1000 1000]"}, {0, "[1000 1000]"}} {
			n.mu.Lock()
			n.most = c.largest
			n.mu.Unlock()
			if got := sizes(); got != c.want {
				t.Errorf("with at most %d: %s, want %s", c.largest, got, c.want)
			}
			want := 1000
			if c.largest > 0 {
				want = min(want, c.largest)
			}
			if got := b.Most(routeA); got != want {
				t.Errorf("it makes sense to want %d with at most %d", got, c.largest)
			}
		}
	})
}
