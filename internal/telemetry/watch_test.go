package telemetry

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/ledger"
)

// TestWatchTellsWhatHasChanged, in its time or at once when it is asked to look.
func TestWatchTellsWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var state atomic.Value
		state.Store(Starting)
		s := New(Options{Ledger: ledger.New(), Logger: quiet(), Status: func() Status { return Status{State: state.Load().(string)} }})
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		done := make(chan struct{})
		go func() { // ended by cancel, waited for below
			defer close(done)
			s.Watch(ctx, func(headline string) { told = append(told, headline) })
		}()
		synctest.Wait()
		time.Sleep(10 * lookEvery) // nothing changes
		synctest.Wait()
		state.Store(Running)
		s.Look()
		s.Look()
		synctest.Wait()
		state.Store(Stopping)
		time.Sleep(lookEvery)
		synctest.Wait()
		cancel()
		<-done
		want := []string{"Starting.", "Waiting for records: there is nothing to deliver yet.", "Stopping: what is under way is being finished."}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
