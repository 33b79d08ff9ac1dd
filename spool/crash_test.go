package spool

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// life is what a small life of a spool was told, as its callers know it.
type life struct {
	acked map[int]bool // Put returned nil
	tried map[int]bool // Put was called
	ended map[int]bool // as the journal knows
}

func newLife() *life {
	return &life{acked: map[int]bool{}, tried: map[int]bool{}, ended: map[int]bool{}}
}

func (l *life) put(s *Spool, ns ...int) {
	for _, n := range ns {
		l.tried[n] = true
		if s.Put(payload(n, here)) == nil {
			l.acked[n] = true
		}
		synctest.Wait()
	}
}

func (l *life) end(s *Spool, puts int) {
	for range puts {
		p := next(s, to(here))
		if p == nil {
			return
		}
		l.ended[int(p.ReadAt.Unix())] = true
		s.Done(p.ID, record.Accepted)
		synctest.Wait()
	}
}

// run is several segments, payloads that end in and out of order, and a restart.
func (l *life) run(t *testing.T, fs *faultfs.FS) {
	s, _, err := Open(dir, testConfig, testOptions(fs))
	must(t, err)
	l.put(s, 1, 2, 3, 4, 5)
	l.end(s, 2)
	kept := next(s, to(here))
	l.end(s, 2)
	l.put(s, 6, 7, 8)
	if kept != nil {
		s.Return(kept.ID)
	}
	l.end(s, 1)
	s.Close()
	synctest.Wait()
	if s, _, err = Open(dir, testConfig, testOptions(fs)); err != nil {
		t.Fatalf("reopen on the failing disk: %v", err)
	}
	must(t, s.heldAll(func(p *record.Payload, _ bool) bool { return !l.ended[int(p.ReadAt.Unix())] }))
	l.put(s, 9, 10)
	l.end(s, 3)
	s.Close()
	synctest.Wait()
}

// check opens what a crash left: all that was put and has not ended comes back,
// in order, once, with its own bytes; then goes on with it.
func (l *life) check(fs *faultfs.FS) error {
	o := testOptions(fs)
	var late error // Open has seen to what a crash can leave
	o.Rebuild = func(p *record.Payload) error {
		late = fmt.Errorf("payload %v is found damaged after Open", p.ID)
		return ErrGone
	}
	s, rec, err := Open(dir, testConfig, o)
	if err != nil {
		return err
	}
	defer s.Close()
	synctest.Wait() // the writer removes what has ended
	if size := onDisk(fs); size != s.Stats().Bytes {
		return fmt.Errorf("%d bytes on disk, %d are counted", size, s.Stats().Bytes)
	}
	if len(fs.Content(dir+"/"+damagedDir)) > 0 {
		return errors.New("a crash is taken for damage")
	}
	if rec.Lost {
		return errors.New("a crash is taken for loss")
	}
	torn := map[record.BatchID]bool{}
	err = s.heldAll(func(p *record.Payload, sound bool) bool {
		n := int(p.ReadAt.Unix())
		if torn[p.ID] = !sound; !sound && (l.acked[n] || p.ID != batchID(n) || len(p.Cover) != 1) {
			late = fmt.Errorf("payload %d is reported damaged", n)
		}
		return sound && !l.ended[n]
	})
	if err != nil {
		return err
	}
	want := []int{}
	for n := range 100 {
		if l.acked[n] && !l.ended[n] {
			want = append(want, n)
		}
	}
	got := []int{}
	for p := next(s, to(here)); p != nil; p = next(s, to(here)) {
		n := int(p.ReadAt.Unix())
		if string(p.Body) != string(body(n, 500)) || !l.tried[n] || l.ended[n] || torn[p.ID] || slices.Contains(got, n) {
			return fmt.Errorf("payload %d came back, or not as it was", n)
		}
		if l.acked[n] {
			got = append(got, n)
		}
		s.Done(p.ID, record.Accepted)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%v came back, want %v (%q)", got, want, rec.Problems)
	}
	return errors.Join(late, l.goOn(s, fs))
}

// goOn uses a spool that was recovered, and empties it.
func (l *life) goOn(s *Spool, fs *faultfs.FS) error {
	if err := s.Put(payload(70, here)); err != nil {
		return err
	}
	if p := next(s, to(here)); p == nil || p.ID != batchID(70) {
		return errors.New("what is put after a crash does not come back")
	} else {
		s.Done(p.ID, record.Accepted)
	}
	if err := errors.Join(s.Health(), s.Close()); err != nil {
		return err
	}
	if left := segments(fs); len(left) > 0 {
		return fmt.Errorf("%v left in an empty spool", left)
	}
	return nil
}

// Dying at any operation, with any of what was not synced gone, zeroed or
// garbled, loses nothing whose Put returned and invents nothing.
func TestCrashAnywhere(t *testing.T) {
	for n, last := 1, false; !last; n++ {
		for _, torn := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				fs, l := faultfs.New("/state"), newLife()
				fs.Judge = faultfs.KillAt(n, torn)
				if n == 1 {
					fs.Judge = nil
					l.run(t, fs)
					fs.Judge = faultfs.KillAt(fs.Ops()+1, false)
				} else {
					l.run(t, fs)
				}
				last = n > 1 && fs.Ops() < n
				for seed := range uint64(6) {
					for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random} {
						if mode != faultfs.Random && seed > 0 {
							continue
						}
						if err := l.check(fs.Crash(mode, seed)); err != nil {
							t.Fatalf("killed at operation %d (torn %v), mode %d, seed %d: %v", n, torn, mode, seed, err)
						}
					}
				}
			})
		}
	}
}

// A disk that fails once, at any operation and in any way, costs no payload
// whose Put returned, and the spool is well again with the next one.
func TestEverySingleFaultIsMended(t *testing.T) {
	whole := faultfs.New("/state")
	synctest.Test(t, func(t *testing.T) { newLife().run(t, whole) })
	for n := 1; n <= whole.Ops(); n++ {
		for _, short := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				fs, l := faultfs.New("/state"), newLife()
				fs.Judge = faultfs.FailAt(n, faultfs.NoSpace, short)
				l.run(t, fs)
				if len(l.acked) < len(l.tried)-1 {
					t.Errorf("fault at %d: %d of %d puts taken, want at most one refused", n, len(l.acked), len(l.tried))
				}
				for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.Drop} {
					if err := l.check(fs.Crash(mode, 0)); err != nil {
						t.Fatalf("fault at %d (short %v), mode %d: %v", n, short, mode, err)
					}
				}
			})
		}
	}
}

// After a sync that failed nothing depends on the file it was for: what was in
// it since the last good one is written anew to another.
func TestFailedSyncIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		s, _ := open(t, fs)
		put(t, s, here, 1)
		var failed atomic.Bool
		fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if op.Kind == "sync" && !failed.Swap(true) {
				v.Err = errors.New("input/output error")
			}
			return v
		}
		put(t, s, here, 2)
		if got := segments(fs); len(got) != 2 {
			t.Errorf("segments %v, want a second one", got)
		}
		left := fs.Crash(faultfs.Kill, 0) // 2 is in both segments
		if err := (&life{acked: map[int]bool{1: true, 2: true}, tried: map[int]bool{1: true, 2: true}, ended: map[int]bool{}}).check(left); err != nil {
			t.Errorf("after a kill: %v", err)
		}
		if got := drain(t, s, here); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("drained %v, want 1 and 2", got)
		}
		must(t, s.Close())
	})
}

// A disk that goes on failing is told, and is well again by itself.
func TestFailingDiskIsToldAndRecovers(t *testing.T) {
	for _, kind := range []string{"write", "sync", "allocate", "create", "rename", "syncdir", "mkdir"} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.New("/state")
			var bad atomic.Bool
			fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
				if bad.Load() && op.Kind == kind {
					v.Err = faultfs.NoSpace
				}
				return v
			}
			bad.Store(kind == "mkdir")
			s, _ := open(t, fs)
			bad.Store(true)
			for n := range 3 {
				if err := s.Put(payload(n, here)); !errors.Is(err, faultfs.NoSpace) {
					t.Errorf("%s: put %d: %v, want the error of the disk", kind, n, err)
				}
			}
			if err := s.Health(); !errors.Is(err, faultfs.NoSpace) {
				t.Errorf("%s: health %v", kind, err)
			}
			bad.Store(false)
			waitFor(2 * again)
			if err := s.Health(); err != nil {
				t.Errorf("%s: health %v of a disk that is well again", kind, err)
			}
			put(t, s, here, 5)
			must(t, s.Close())
			s, rec := open(t, fs)
			must(t, s.heldAll(func(p *record.Payload, _ bool) bool { return p.ID == batchID(5) })) // the others went another way
			if got := drain(t, s, here); !slices.Equal(got, []int{5}) {
				t.Errorf("%s: drained %v, want 5 (%q)", kind, got, rec.Problems)
			}
			must(t, s.Close())
			if left := segments(fs); len(left) > 0 {
				t.Errorf("%s: %v left", kind, left)
			}
		})
	}
}

// What was allocated in advance is given back at the next start.
func TestAllocatedSpaceIsGivenBack(t *testing.T) {
	left, name, at := three(t, false)
	before := onDisk(left)
	s, _ := open(t, left)
	if got := int64(len(left.Content(name))); got != at[3] || before <= at[3] || s.Stats().Bytes != onDisk(left) {
		t.Errorf("%d bytes in the segment, %d before, %d counted, want %d", got, before, s.Stats().Bytes, at[3])
	}
}
