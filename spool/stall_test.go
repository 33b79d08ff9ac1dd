package spool

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// waitFor lets the clock of the bubble go on, and all that follows happen.
func waitFor(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// hangable is a disk whose operations hang until thawed.
func hangable() (fs *faultfs.FS, hang *atomic.Bool, thaw chan struct{}) {
	fs, hang, thaw = faultfs.New("/state"), &atomic.Bool{}, make(chan struct{})
	fs.Judge = func(faultfs.Op) faultfs.Verdict {
		if hang.Load() {
			<-thaw
		}
		return faultfs.Verdict{}
	}
	return fs, hang, thaw
}

// A disk that hangs holds nobody longer than the bound, and the next one not at
// all. What was on its way may be on the disk later; it does not come back in
// this run, and its caller's bytes are free.
func TestStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hangable()
		o := testOptions(fs)
		o.Stall = 5 * time.Second
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1)
		hang.Store(true)
		start := time.Now()
		errs := make(chan error, 2)
		p, q := payload(2, here), payload(3, here)
		go func() { errs <- s.Put(p) }() // ends with its Put, awaited below
		synctest.Wait()
		go func() { errs <- s.Put(q) }() // waits behind the first
		for range 2 {
			if err := <-errs; !errors.Is(err, record.ErrStalled) || time.Since(start) != 5*time.Second {
				t.Errorf("put: %v after %v, want ErrStalled after 5s", err, time.Since(start))
			}
		}
		for _, err := range []error{s.Put(payload(4, here)), s.Health()} {
			if !errors.Is(err, record.ErrStalled) || time.Since(start) != 5*time.Second {
				t.Errorf("%v after %v, want ErrStalled at once", err, time.Since(start))
			}
		}
		clear(p.Body)
		clear(q.Body)
		hang.Store(false)
		close(thaw)
		synctest.Wait()
		must(t, s.Health())
		put(t, s, here, 5)
		if got := drain(t, s, here); !slices.Equal(got, []int{1, 5}) {
			t.Errorf("drained %v, want 1 and 5: the others went another way", got)
		}
		left := fs.Crash(faultfs.Kill, 0)
		must(t, s.Close())
		s, _ = openWith(t, testConfig, testOptions(left))
		if got := drain(t, s, here); !slices.Equal(got, []int{1, 2, 5}) {
			t.Errorf("after a kill %v are there, want 1, 2 with its own bytes, and 5", got)
		}
		must(t, s.Close())
	})
}

// A payload that was put again after a stall comes back once.
func TestPutAgainAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hangable()
		o := testOptions(fs)
		o.Stall = time.Second
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1)
		hang.Store(true)
		if err := s.Put(payload(2, here)); !errors.Is(err, record.ErrStalled) {
			t.Errorf("put: %v", err)
		}
		hang.Store(false)
		close(thaw)
		synctest.Wait()
		put(t, s, here, 2, 3, 4, 5)
		left := fs.Crash(faultfs.Drop, 0)
		if got := drain(t, s, here); !slices.Equal(got, upTo(5)) {
			t.Errorf("drained %v, want each once", got)
		}
		must(t, s.Close())
		s, _ = openWith(t, testConfig, testOptions(left))
		if got := drain(t, s, here); !slices.Equal(got, upTo(5)) || s.Stats().Frames != 0 {
			t.Errorf("after a cut %v, want each once", got)
		}
		must(t, s.Close())
	})
}

// A hung disk does not hold the end of the agent, nor reading what is there.
func TestCloseOfStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hangable()
		o := testOptions(fs)
		o.Stall = time.Second
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1)
		hang.Store(true)
		if err := s.Close(); !errors.Is(err, record.ErrStalled) {
			t.Errorf("close: %v, want ErrStalled", err)
		}
		hang.Store(false)
		close(thaw)
	})
}

// A write that fails after its caller has gone on is made anew from the spool's
// own copy, not from bytes that are the caller's again.
func TestFailureAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, thaw := faultfs.New("/state"), make(chan struct{})
		var hang atomic.Bool
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if op.Kind == "sync" && hang.Load() {
				<-thaw
				hang.Store(false)
				v.Err = errors.New("input/output error")
			}
			return v
		}
		o := testOptions(fs)
		o.Stall = time.Second
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1)
		hang.Store(true)
		p := payload(2, here)
		if err := s.Put(p); !errors.Is(err, record.ErrStalled) {
			t.Errorf("put: %v", err)
		}
		clear(p.Body)
		close(thaw)
		synctest.Wait()
		left := fs.Crash(faultfs.Drop, 0)
		must(t, s.Close())
		s, _ = openWith(t, testConfig, testOptions(left))
		if got := drain(t, s, here); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("drained %v, want 1, and 2 as it was", got)
		}
		must(t, s.Close())
	})
}
