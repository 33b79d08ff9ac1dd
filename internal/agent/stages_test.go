package agent

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/units"
)

// TestStages: a stop ends in its time, whatever does not end.
func TestStages(t *testing.T) {
	f := func(name string, signals []time.Duration, stuck bool, runs, ends time.Duration) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &Agent{Options: Options{Log: slog.New(slog.DiscardHandler)}}
				a.inForce.Store(&config.Config{General: config.General{ShutdownTimeout: units.Duration(time.Minute)}})
				arrive := make(chan os.Signal, 2)
				for _, at := range signals {
					time.AfterFunc(at, func() { arrive <- syscall.SIGTERM })
				}
				stop := a.stages(context.Background(), arrive, func() int { return 1 })
				began := time.Now()
				work := make(chan struct{})
				if !stuck {
					time.AfterFunc(ends, func() { close(work) })
				}
				<-stop.running.Done()
				if got := time.Since(began); got != runs {
					t.Errorf("ran for %v, want %v", got, runs)
				}
				if ended := a.await(stop.ending, "work", work); ended == stuck {
					t.Errorf("the work has ended: %v", ended)
				}
				if got := time.Since(began); got != ends {
					t.Errorf("ended after %v, want %v", got, ends)
				}
				stop.leave()
			})
		})
	}
	const s = time.Second
	f("ends by itself", []time.Duration{10 * s}, false, 10*s, 15*s)
	f("never ends", []time.Duration{10 * s}, true, 10*s, 70*s+lastMoments)
	f("second signal", []time.Duration{10 * s, 13 * s}, true, 10*s, 13*s+lastMoments)
	f("both at once", []time.Duration{10 * s, 10 * s}, true, 10*s, 10*s+lastMoments)
	f("ends in the last moment", []time.Duration{10 * s, 13 * s}, false, 10*s, 14*s)
}

// TestStuckRoomHasOneGoroutine: however often it is asked.
func TestStuckRoomHasOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Agent{}
		var asked atomic.Int32
		release := make(chan struct{})
		stuck := room{"tail", func() error {
			asked.Add(1)
			<-release
			return nil
		}}
		for range 5 {
			began := time.Now()
			if err := a.answered(stuck); err == nil || time.Since(began) != patience {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(release)
		synctest.Wait()
		if err := a.answered(stuck); err != nil || asked.Load() != 2 {
			t.Errorf("afterwards: %v, asked %d times", err, asked.Load())
		}
	})
}
