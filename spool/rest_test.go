package spool

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// handClock is a clock that a test sets while the writer asks it.
type handClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *handClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *handClock) set(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = to
}

func (c *handClock) add(d time.Duration) { c.set(c.now().Add(d)) }

// elapsed is the same clock as one that counts.
func (c *handClock) elapsed() time.Duration { return c.now().Sub(time.Unix(0, 0)) }

// A payload that is returned until some time stands in no other's way, keeps its
// place, and comes back when it is due.
func TestReturnUntil(t *testing.T) { synctest.Test(t, testReturnUntil) }

func testReturnUntil(t *testing.T) {
	o := testOptions(faultfs.New("/state"))
	now := time.Now()
	wall := handClock{at: now}
	o.Now = wall.now
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, upTo(7)...) // three segments
	for _, n := range []int{1, 2} {
		if p := next(s, to(here)); number(t, p) != n {
			t.Fatalf("got %d, want %d", number(t, p), n)
		}
		s.ReturnUntil(batchID(n), now.Add(time.Duration(n)*time.Minute))
	}
	wall.set(now.Add(30 * 24 * time.Hour))
	if s.Waiting(to(here)) != 7 {
		t.Errorf("%d wait, want 7", s.Waiting(to(here)))
	}
	for n := 3; n <= 7; n++ {
		if ready, due := s.Ready(to(here), now); !ready || !due.IsZero() {
			t.Errorf("ready %v, due %v with payloads that wait", ready, due)
		}
		if p := next(s, to(here)); p == nil || number(t, p) != n {
			t.Fatalf("got %v, want %d", p, n)
		}
		if n != 4 {
			s.Done(batchID(n), record.Accepted)
		}
	}
	if p := next(s, to(here)); p != nil {
		t.Errorf("got %d before it is due", number(t, p))
	}
	if ready, due := s.Ready(to(here), now); ready || !due.Equal(now.Add(time.Minute)) {
		t.Errorf("ready %v, due %v, want in a minute", ready, due)
	}
	s.Done(batchID(1), record.Quarantined) // while it rests
	if ready, due := s.Ready(to(here), now); ready || !due.Equal(now.Add(2*time.Minute)) {
		t.Errorf("ready %v, due %v, want in two minutes", ready, due)
	}
	s.Return(batchID(4))
	wall.set(now.Add(-30 * 24 * time.Hour))
	time.Sleep(2 * time.Minute)
	now = time.Now()
	wall.set(now.Add(-30 * 24 * time.Hour))
	if got := drain(t, s, here); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("drained %v, want 2 and 4", got)
	}
	if ready, due := s.Ready(to(here), now); ready || !due.IsZero() || s.Waiting(to(here)) != 0 {
		t.Errorf("emptied: ready %v, due %v, %d wait", ready, due, s.Waiting(to(here)))
	}
	must(t, s.Close())
}

// Whoever goes another way with a payload that the disk may have after all is told
// so before, whether the disk failed or did not answer.
func TestUnwanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, hang, thaw := hangable()
		o := testOptions(fs)
		o.Stall = 5 * time.Second
		var unwanted []record.BatchID
		o.OnUnwanted = func(ids []record.BatchID) { unwanted = append(unwanted, ids...) }
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1)

		hang.Store(true)
		if err := s.Put(payload(2, here)); !errors.Is(err, record.ErrStalled) || !slices.Equal(unwanted, []record.BatchID{batchID(2)}) {
			t.Errorf("stalled: %v, told of %v", err, unwanted)
		}
		if err := s.Put(payload(3, here)); !errors.Is(err, record.ErrStalled) || len(unwanted) != 1 {
			t.Errorf("refused at once: %v, told of %v", err, unwanted)
		}
		hang.Store(false)
		close(thaw)
		synctest.Wait()

		bad := true
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if bad && op.Kind == "sync" {
				v.Err = errors.New("input/output error")
			}
			return v
		}
		if err := s.Put(payload(4, here)); err == nil || !slices.Equal(unwanted, []record.BatchID{batchID(2), batchID(4)}) {
			t.Errorf("sync failed: %v, told of %v", err, unwanted)
		}
		bad = false
		if got := drain(t, s, here); !slices.Equal(got, []int{1}) {
			t.Errorf("drained %v, want 1", got)
		}
		must(t, s.Close())
	})
}

// Trouble that began before the spool was off for a while ends by itself when it is on
// again: nobody puts anything into it meanwhile.
func TestTroubleEndsAfterOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		s, _ := open(t, fs)
		bad := true
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if bad && op.Kind == "create" {
				v.Err = faultfs.NoSpace
			}
			return v
		}
		if err := s.Put(payload(1, here)); !errors.Is(err, faultfs.NoSpace) {
			t.Fatalf("put on a full disk: %v", err)
		}
		off := testConfig
		off.MaxSize = 0
		s.SetConfig(off)
		bad = false
		time.Sleep(time.Minute)
		s.SetConfig(testConfig)
		time.Sleep(again)
		synctest.Wait()
		if err := s.Health(); err != nil {
			t.Errorf("health %v after the disk has room again", err)
		}
		must(t, s.Close())
	})
}

// A payload that one reader has made again is not told of as lost by another one, which
// finds that its segment is gone meanwhile.
func TestLostIsToldOnce(t *testing.T) {
	disk, name, at := three(t, true)
	content := disk.Content(name)
	content[at[1]-64] ^= 1 // the body of the first
	disk.SetContent(name, content)
	told := map[record.BatchID]int{}
	o := testOptions(disk)
	var s *Spool
	o.Rebuild = func(p *record.Payload) error {
		if told[p.ID]++; len(told) == 1 {
			disk.Vanish(name)
			if p := next(s, to(here)); p != nil {
				t.Errorf("got %v out of a segment that is gone", p.ID)
			}
		}
		return ErrGone
	}
	o.OnLost = func(ids []record.BatchID, _ *record.Payload) {
		for _, id := range ids {
			told[id]++
		}
	}
	s, _ = openWith(t, testConfig, o)
	if p := next(s, to(here)); p != nil {
		t.Errorf("got %v", p.ID)
	}
	for n := 1; n <= 3; n++ {
		if told[batchID(n)] != 1 {
			t.Errorf("payload %d was told of %d times, want once", n, told[batchID(n)])
		}
	}
	must(t, s.Close())
}

// What a failed sync was for is cut off its segment, so that a later start does not
// find a payload that went another way.
func TestUnsyncedIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		s, _ := open(t, fs)
		put(t, s, here, 1)
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if op.Kind == "sync" {
				v.Err = errors.New("input/output error")
			}
			return v
		}
		if s.Put(payload(2, here)) == nil {
			t.Fatal("put succeeds on a disk that cannot sync")
		}
		left := fs.Crash(faultfs.Kill, 0)
		s.Close()
		s, _ = open(t, left)
		if got := drain(t, s, here); !slices.Equal(got, []int{1}) {
			t.Errorf("after a kill %v are there, want 1", got)
		}
		must(t, s.Close())
	})
}
