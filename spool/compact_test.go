package spool

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// sparse puts ten payloads for one cluster for each one of another, whose numbers
// are those that ten divides.
func (l *life) sparse(s *Spool, upTo int) {
	for n := 1; n <= upTo; n++ {
		c := here
		if n%10 == 0 {
			c = dr
		}
		if l.tried[n] = true; s.Put(payload(n, c)) == nil {
			l.acked[n] = true
		}
		synctest.Wait()
	}
}

func (l *life) endHere(s *Spool) {
	for p := next(s, to(here)); p != nil; p = next(s, to(here)) {
		l.ended[int(p.ReadAt.Unix())] = true
		s.Done(p.ID, record.Accepted)
		synctest.Wait()
	}
}

func tens(from, upTo int) (ns []int) {
	for n := from; n <= upTo; n += 10 {
		ns = append(ns, n)
	}
	return ns
}

// What waits for one route costs the disk twice its bytes and a segment, whatever
// the others had beside it; it keeps its order, and what is in hand stays there.
func TestCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state")
		o := testOptions(disk)
		o.SegmentSize = 8 << 10
		removed := map[record.BatchID]int{}
		o.OnRemove = func(ids []record.BatchID) {
			for _, id := range ids {
				removed[id]++
			}
		}
		s, _ := openWith(t, testConfig, o)
		l := newLife()
		l.sparse(s, 300)
		given, back, rests := next(s, to(dr)), next(s, to(dr)), next(s, to(dr))
		s.Return(back.ID)
		s.ReturnUntil(rests.ID, time.Now().Add(time.Hour))
		full := onDisk(disk)
		l.endHere(s)
		waitFor(2 * settle)
		live := int64(30 * 700)
		if size := s.Stats().Bytes; onDisk(disk) > 2*live+o.SegmentSize || full < 5*live {
			t.Errorf("%d bytes on disk of %d, %d counted, for about %d that wait", onDisk(disk), full, size, live)
		}
		for n := 1; n <= 300; n++ {
			if gone := removed[batchID(n)]; n%10 == 0 && gone > 0 || gone > 1 {
				t.Errorf("payload %d was told to be gone %d times", n, gone)
			}
		}
		if st := statsOf(s); st.Frames != 30 || st.Taken != 1 || s.Waiting(to(dr)) != 29 {
			t.Errorf("%+v, %d wait", st, s.Waiting(to(dr)))
		}
		s.Done(given.ID, record.Accepted)
		put(t, s, dr, 310)
		want := slices.Concat([]int{20}, tens(40, 310))
		left := disk.Crash(faultfs.Kill, 0)
		if got := drain(t, s, dr); !slices.Equal(got, want) {
			t.Errorf("drained %v, want %v", got, want)
		}
		waitFor(time.Hour)
		if got := drain(t, s, dr); !slices.Equal(got, []int{30}) {
			t.Errorf("drained %v, want 30 when it is due", got)
		}
		must(t, s.Close())
		if files := segments(disk); len(files) > 0 {
			t.Errorf("%v left", files)
		}
		for n := 1; n <= 310; n++ {
			if removed[batchID(n)] != 1 && (n <= 300 || n == 310) {
				t.Errorf("payload %d was told to be gone %d times, want once", n, removed[batchID(n)])
			}
		}

		s, rec := openWith(t, testConfig, testOptions(left))
		must(t, s.heldAll(func(p *record.Payload, sound bool) bool { return sound && p.ID != given.ID && p.Route == to(dr) }))
		if got := drain(t, s, dr); !slices.Equal(got, tens(20, 310)) || rec.Lost || len(rec.Problems) > 1 {
			t.Errorf("after a kill drained %v (%q)", got, rec.Problems)
		}
		must(t, s.Close())
	})
}

// TestCompactionBesideWhich: payloads that are being copied to another segment when somebody
// asks which are there are there.
func TestCompactionBesideWhich(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state")
		var copying atomic.Bool
		thaw := make(chan struct{})
		disk.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if copying.Load() && op.Kind == "sync" && strings.HasSuffix(op.Name, suffix+durable.TempSuffix) {
				<-thaw
			}
			return v
		}
		s, _ := openWith(t, testConfig, testOptions(disk))
		l := newLife()
		l.sparse(s, 300)
		l.endHere(s)
		before := len(segments(disk))
		copying.Store(true)
		waitFor(2 * settle)
		var ids []record.BatchID
		for n := 10; n <= 300; n += 10 {
			ids = append(ids, batchID(n))
		}
		there := map[record.BatchID]bool{}
		must(t, s.Which(slices.Values(ids), func(id record.BatchID) {
			if copying.CompareAndSwap(true, false) {
				close(thaw)
				synctest.Wait()
			}
			there[id] = true
		}))
		for _, id := range ids {
			if !there[id] {
				t.Errorf("%v is not there", id)
			}
		}
		waitFor(time.Minute)
		if n := len(segments(disk)); n >= before {
			t.Errorf("%d segments, %d before: nothing is compacted", n, before)
		}
		must(t, s.Close())
	})
}

// What was given up while it was being copied stays so: it was counted, and is read again
// from its files.
func TestCompactionOfLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state")
		var syncs atomic.Int32 // of the copy: one of its header, one of all
		var copying atomic.Bool
		thaw := make(chan struct{})
		var made atomic.Value // the name of the copy
		disk.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if !copying.Load() {
				return v
			}
			if op.Kind == "create" && strings.HasSuffix(op.Name, suffix+durable.TempSuffix) {
				made.Store(op.Name)
			}
			if op.Kind == "sync" && op.Name == made.Load() && syncs.Add(1) == 2 {
				<-thaw
			}
			return v
		}
		o := testOptions(disk)
		o.SegmentSize = 8 << 10
		gone := 0
		o.OnLost = func(_ []record.BatchID, what *record.Payload) { gone += what.Records }
		o.OnDrop = func(p *record.Payload, _ string) { gone += p.Records }
		s, _ := openWith(t, testConfig, o)
		l := newLife()
		l.sparse(s, 60)
		must(t, s.Close())
		s, _ = openWith(t, testConfig, o) // so that the slots are in the indexes alone
		l.endHere(s)
		copying.Store(true)
		waitFor(2 * settle)
		if syncs.Load() < 2 {
			t.Fatal("nothing is copied")
		}
		for _, name := range segments(disk) {
			disk.Damage("/state/spool/"+name+suffixOfIndex, func(b []byte) []byte { return b[:len(b)/2] })
			if name := "/state/spool/" + name; name+durable.TempSuffix != made.Load() {
				disk.Vanish(name)
			}
		}
		had := statsOf(s)
		for next(s, to(dr)) != nil {
		}
		lost := gone
		if lost == 0 {
			t.Fatalf("nothing is lost of %+v", had)
		}
		close(thaw)
		waitFor(2 * settle)
		rest := 0
		for p := next(s, to(dr)); p != nil; p = next(s, to(dr)) {
			rest += p.Records
			s.Done(p.ID, record.Accepted)
		}
		if st := statsOf(s); gone+rest != had.Records["in0"] || st.Frames != 0 {
			t.Errorf("%d lost, %d more later, and %d given out of %v; %+v is left", lost, gone-lost, rest, had.Records, st)
		}
		must(t, s.Close())
	})
}

// After an outage of all routes and the long hold of one, the next outage finds as
// much room as the first.
func TestHeldRouteLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(faultfs.New("/state"))
		o.SegmentSize = 0 // an eighth of max_size
		cfg := testConfig
		cfg.MaxSize = 1 << 20
		s, _ := openWith(t, cfg, o)
		n := 0
		fill := func() (kept int) {
			for {
				n++
				c := here
				if n%100 == 0 {
					c = dr
				}
				if s.Put(payload(n, c)) != nil {
					return kept
				}
				kept++
			}
		}
		first := fill()
		for range 3 {
			for p := next(s, to(here)); p != nil; p = next(s, to(here)) {
				s.Done(p.ID, record.Accepted)
			}
			waitFor(time.Minute)
			if again := fill(); again < first*8/10 {
				t.Errorf("%d payloads in the next outage, %d in the first", again, first)
			}
		}
		must(t, s.Close())
	})
}

// Dying at any operation of a compaction loses nothing and brings nothing twice.
func TestCrashInCompaction(t *testing.T) {
	run := func(disk *faultfs.FS) *life {
		l := newLife()
		s, _, err := Open(dir, testConfig, testOptions(disk))
		must(t, err)
		l.sparse(s, 30)
		l.endHere(s)
		waitFor(3 * settle)
		l.acked[40], l.tried[40] = s.Put(payload(40, dr)) == nil, true
		synctest.Wait()
		s.Close()
		synctest.Wait()
		return l
	}
	check := func(l *life, left *faultfs.FS) error {
		s, rec, err := Open(dir, testConfig, testOptions(left))
		if err != nil {
			return err
		}
		defer s.Close()
		if rec.Lost {
			return fmt.Errorf("a crash is taken for loss: %q", rec.Problems)
		}
		must(t, s.heldAll(func(p *record.Payload, sound bool) bool { return sound && !l.ended[int(p.ReadAt.Unix())] }))
		var want, got []int
		for n := range 50 {
			if l.acked[n] && !l.ended[n] && n%10 == 0 {
				want = append(want, n)
			}
		}
		for p := next(s, to(dr)); p != nil; p = next(s, to(dr)) {
			n := int(p.ReadAt.Unix())
			if string(p.Body) != string(body(n, 500)) || slices.Contains(got, n) {
				return fmt.Errorf("payload %d came back twice, or not as it was", n)
			}
			if s.Done(p.ID, record.Accepted); l.acked[n] {
				got = append(got, n)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%v came back, want %v (%q)", got, want, rec.Problems)
		}
		return nil
	}
	first, last := 0, 0
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state")
		disk.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
			if op.Kind == "create" && first == 0 && strings.Contains(op.Name, "00b.seg") {
				first = op.N
			}
			return v
		}
		run(disk)
		last = disk.Ops()
	})
	if first == 0 {
		t.Fatal("nothing was compacted")
	}
	for n := first - 5; n <= last; n++ {
		for _, kill := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				disk := faultfs.New("/state")
				if disk.Judge = faultfs.FailAt(n, faultfs.NoSpace, n%2 == 0); kill {
					disk.Judge = faultfs.KillAt(n, n%2 == 0)
				}
				l := run(disk)
				for i, mode := range []faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random, faultfs.Random, faultfs.Random, faultfs.Random} {
					if err := check(l, disk.Crash(mode, uint64(n+1000*i))); err != nil {
						t.Fatalf("operation %d (kill %v), mode %d, seed %d: %v", n, kill, mode, n+1000*i, err)
					}
				}
			})
		}
	}
}

// A payload that cannot be read is no reason to go on trying, or to lose the rest.
func TestCompactionOfDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state")
		o := testOptions(disk)
		o.SegmentSize = 1 << 20
		s, _ := openWith(t, testConfig, o)
		newLife().sparse(s, 100)
		must(t, s.Close())
		var hurt int64
		must(t, list(disk, dir, func(e Entry) error {
			if e.Payload.ID == batchID(50) {
				hurt = e.Offset + e.Size - 30
			}
			return nil
		}))
		name := dir + "/" + segments(disk)[0]
		b := disk.Content(name)
		b[hurt] ^= 1
		disk.SetContent(name, b)
		var named []record.BatchID
		o.Rebuild = func(p *record.Payload) error { named = append(named, p.ID); return ErrGone }
		s, _ = openWith(t, testConfig, o)
		newLife().endHere(s)
		before := disk.Ops()
		waitFor(time.Hour)
		if n := disk.Ops() - before; n > 20 {
			t.Errorf("%d operations in an hour for a segment that cannot be copied", n)
		}
		want := slices.DeleteFunc(tens(10, 100), func(n int) bool { return n == 50 })
		if got := drain(t, s, dr); !slices.Equal(got, want) || !slices.Equal(named, []record.BatchID{batchID(50)}) {
			t.Errorf("drained %v, named %v", got, named)
		}
		must(t, s.Close())
		if disk.Content(dir+"/"+damagedDir+strings.TrimPrefix(name, dir)) == nil {
			t.Error("the damaged segment is not kept")
		}
	})
}

var _ durable.FS = (*faultfs.FS)(nil)

// copying is a spool of 100 payloads, each tenth of which waits, whose compaction has
// written its copy and goes on when goOn is closed.
func copying(t *testing.T, onRemove func([]record.BatchID)) (s *Spool, disk *faultfs.FS, goOn chan struct{}) {
	t.Helper()
	disk, goOn = faultfs.New("/state"), make(chan struct{})
	var hold atomic.Bool
	held := make(chan struct{})
	disk.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		if op.Kind == "truncate" && hold.CompareAndSwap(true, false) { // the copy is written
			close(held)
			<-goOn
		}
		return v
	}
	o := testOptions(disk)
	o.SegmentSize = 16 << 10
	o.OnRemove = onRemove
	s, _ = openWith(t, testConfig, o)
	newLife().sparse(s, 100)
	must(t, s.Close())
	s, _ = openWith(t, testConfig, o)
	newLife().endHere(s)
	hold.Store(true)
	<-held
	return s, disk, goOn
}

// What ends, is given out or returned while it is copied is so afterwards, and one
// that ended is told to be gone only when no copy of it is left.
func TestEndsWhileCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removed := map[record.BatchID]bool{}
		s, _, goOn := copying(t, func(ids []record.BatchID) {
			for _, id := range ids {
				removed[id] = true
			}
		})
		ended, given, back := next(s, to(dr)), next(s, to(dr)), next(s, to(dr))
		s.Done(ended.ID, record.Accepted)
		s.Return(back.ID)
		close(goOn)
		synctest.Wait()
		if st := statsOf(s); st.Frames != 9 || st.Taken != 1 || s.Waiting(to(dr)) != 8 {
			t.Errorf("%+v, %d wait; want 9, one of them given out", st, s.Waiting(to(dr)))
		}
		if removed[ended.ID] || !removed[batchID(1)] {
			t.Error("a payload is told to be gone while a copy of it is there, or others are not")
		}
		s.Done(given.ID, record.Accepted)
		if got := drain(t, s, dr); !slices.Equal(got, tens(30, 100)) {
			t.Errorf("drained %v, want 30 to 100", got)
		}
		if st := statsOf(s); st.Frames != 0 || len(st.Records) > 0 {
			t.Errorf("emptied: %+v", st)
		}
		must(t, s.Close())
		if !removed[ended.ID] {
			t.Error("a payload is never told to be gone")
		}
	})
}

// Held meets every payload though a compaction ends while it goes through them.
func TestHeldMeetsWhatIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk, goOn := copying(t, nil)
		met := 0
		must(t, s.heldAll(func(*record.Payload, bool) bool {
			if met++; met == 1 {
				close(goOn)
				synctest.Wait()
			}
			return true
		}))
		if met != 10 {
			t.Errorf("met %d payloads of 10", met)
		}
		before := onDisk(disk)
		waitFor(3 * settle)
		if got := drain(t, s, dr); !slices.Equal(got, tens(10, 100)) || before <= 2*10*700 {
			t.Errorf("drained %v from %d bytes", got, before)
		}
		must(t, s.Close())
	})
}

// Of a payload that lies in two segments, after a kill between a copy and the end of what
// it was copied from, nobody is told that it is removed before both are: as long as one is
// there a start has to know how it ended.
func TestRemovedWithItsLastCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		o := testOptions(fs)
		o.SegmentSize = 64 << 10
		for _, ns := range [][]int{{1}, {1, 2, 3}} {
			s, _ := openWith(t, testConfig, o)
			put(t, s, here, ns...)
			must(t, s.Close())
		}
		var removed []record.BatchID
		o.OnRemove = func(ids []record.BatchID) { removed = append(removed, ids...) }
		s, _ := openWith(t, testConfig, o)
		s.Done(next(s, to(here)).ID, record.Accepted)
		waitFor(2 * again)
		if n := len(segments(fs)); n != 1 || len(removed) > 0 {
			t.Errorf("one of three ended: %d segments are there, and %v are told as removed", n, removed)
		}
		s.Done(next(s, to(here)).ID, record.Accepted)
		s.Done(next(s, to(here)).ID, record.Accepted)
		waitFor(2 * again)
		if want := []record.BatchID{batchID(1), batchID(2), batchID(3)}; !slices.Equal(removed, want) {
			t.Errorf("all ended, and %v are told as removed, want %v", removed, want)
		}
		must(t, s.Close())
	})
}

// The same of one that was put again after the first Put was given up.
func TestRemovedWithWhatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		o := testOptions(fs)
		var stall atomic.Bool
		fs.Judge = func(op faultfs.Op) faultfs.Verdict {
			if op.Kind == "sync" && stall.Swap(false) {
				time.Sleep(2 * o.Stall)
			}
			return faultfs.Verdict{}
		}
		o.Stall = time.Second
		var removed []record.BatchID
		o.OnRemove = func(ids []record.BatchID) { removed = append(removed, ids...) }
		s, _ := openWith(t, testConfig, o)
		stall.Store(true)
		if err := s.Put(payload(1, here)); !errors.Is(err, record.ErrStalled) {
			t.Errorf("put: %v", err)
		}
		waitFor(2 * o.Stall)
		put(t, s, here, 1)
		p := next(s, to(here))
		s.Done(p.ID, record.Accepted)
		waitFor(2 * linger)
		if want := []record.BatchID{batchID(1)}; !slices.Equal(removed, want) || len(segments(fs)) > 0 {
			t.Errorf("told as removed %v, want %v; %v stay", removed, want, segments(fs))
		}
		must(t, s.Close())
	})
}

// The same of what was copied out of a segment that stays behind its copy, since it alone
// shows that something was lost and the disk is full: a start finds its frames again.
func TestCopiedOutOfWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state")
		o := testOptions(disk)
		o.SegmentSize = 64 << 10
		s, _ := openWith(t, testConfig, o)
		newLife().sparse(s, 40)
		disk = disk.Crash(faultfs.Kill, 0)
		_ = s.Close()
		name := path.Join(dir, segments(disk)[0])
		written := bytes.TrimRight(disk.Content(name), "\x00")
		disk.SetContent(name, written[:len(written)-100])

		var full atomic.Bool
		full.Store(true)
		removed := map[record.BatchID]int{}
		o.FS = disk
		o.BeforeUnlink = func() error {
			if full.Load() {
				return faultfs.NoSpace
			}
			return nil
		}
		o.OnRemove = func(ids []record.BatchID) {
			for _, id := range ids {
				removed[id]++
			}
		}
		s, _ = openWith(t, testConfig, o)
		newLife().endHere(s)
		waitFor(2 * settle)
		copied := len(segments(disk))
		for p := next(s, to(dr)); p != nil; p = next(s, to(dr)) {
			s.Done(p.ID, record.Accepted)
		}
		waitFor(2 * again)
		if left := segments(disk); copied != 2 || len(left) != 1 || len(removed) > 0 {
			t.Errorf("%d segments after compaction, then %v, and %d payloads are told as removed", copied, left, len(removed))
		}
		full.Store(false)
		waitFor(2 * again)
		if left := segments(disk); len(left) > 0 || removed[batchID(10)] != 1 || removed[batchID(1)] != 1 {
			t.Errorf("%v stay, payload 10 is told as removed %d times, payload 1 %d times", left, removed[batchID(10)], removed[batchID(1)])
		}
		must(t, s.Close())
	})
}

// The same of one that was made again since its frame could not be read: a start may read
// that frame.
func TestRemovedWithWhatWasUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state")
		o := testOptions(disk)
		o.SegmentSize = 64 << 10
		removed := map[record.BatchID]int{}
		o.OnRemove = func(ids []record.BatchID) {
			for _, id := range ids {
				removed[id]++
			}
		}
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1, 2, 3, 4)
		must(t, s.Close())
		s, _ = openWith(t, testConfig, o)
		name := path.Join(dir, segments(disk)[0])
		b := disk.Content(name)
		at := bytes.Index(b, payload(1, here).Body)
		b[at]++
		disk.SetContent(name, b)

		var wait []*record.Payload
		for p := next(s, to(here)); p != nil; p = next(s, to(here)) {
			wait = append(wait, p)
		}
		if len(wait) != 3 || wait[0].ID != batchID(2) {
			t.Fatalf("next gave %v, want three, since the first cannot be read", wait)
		}
		put(t, s, here, 1)
		s.Done(next(s, to(here)).ID, record.Accepted)
		waitFor(2 * linger)
		if left := segments(disk); len(left) != 1 || len(removed) > 0 {
			t.Errorf("%v stay, and %d payloads are told as removed, want one segment and none", left, len(removed))
		}
		for _, p := range wait {
			s.Done(p.ID, record.Accepted)
		}
		waitFor(2 * again)
		if removed[batchID(1)] != 1 || removed[batchID(2)] != 1 {
			t.Errorf("the first is told as removed %d times, the second %d times", removed[batchID(1)], removed[batchID(2)])
		}
		must(t, s.Close())
	})
}
