package spool

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// onDisk is what the files of the spool take.
func onDisk(fs *faultfs.FS) (n int64) {
	for _, b := range contents(fs) {
		n += int64(len(b))
	}
	return n
}

// The quota is a bound on what is on disk, and with block each payload is either
// kept or refused.
func TestFullBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		cfg := testConfig
		cfg.MaxSize = 8000
		s, _ := openWith(t, cfg, testOptions(fs))
		kept := []int{}
		for n := 1; n <= 30; n++ {
			switch err := s.Put(payload(n, here)); {
			case err == nil:
				kept = append(kept, n)
			case !errors.Is(err, ErrFull):
				t.Errorf("put %d: %v, want ErrFull", n, err)
			}
			if size := onDisk(fs); size > 8000 {
				t.Fatalf("%d bytes on disk, want at most 8000", size)
			}
		}
		if !slices.Equal(kept, upTo(len(kept))) || len(kept) < 7 || !errors.Is(s.Health(), ErrFull) {
			t.Errorf("kept %v, health %v, want the first ones and ErrFull", kept, s.Health())
		}
		for range 6 { // room for as many
			s.Done(next(s, to(here)).ID, record.Accepted)
		}
		synctest.Wait()
		must(t, s.Health())
		put(t, s, here, 50, 51, 52)
		if got := drain(t, s, here); !slices.Equal(got, append(kept[6:], 50, 51, 52)) {
			t.Errorf("drained %v, want all that was kept", got)
		}
		must(t, s.Close())
	})
}

// A full spool of one segment takes payloads again as soon as all in it has ended.
func TestFullIsOverWhenEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		cfg := testConfig
		cfg.MaxSize = 2400
		s, _ := openWith(t, cfg, testOptions(fs))
		n := 1
		for s.Put(payload(n, here)) == nil {
			n++
		}
		if !errors.Is(s.Health(), ErrFull) || len(segments(fs)) != 1 {
			t.Fatalf("health %v, segments %v", s.Health(), segments(fs))
		}
		drain(t, s, here)
		synctest.Wait()
		must(t, s.Health())
		if left := segments(fs); len(left) > 0 {
			t.Errorf("segments %v", left)
		}
		put(t, s, here, 50)
		must(t, s.Close())
	})
}

// drop_oldest keeps the newest and counts each payload it gives up, once.
func TestFullDropsOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		cfg := testConfig
		cfg.MaxSize, cfg.WhenFull = 8000, "drop_oldest"
		o := testOptions(fs)
		var dropped []int
		o.OnDrop = func(p *record.Payload, reason string) {
			if reason != ledger.SpoolFull || p.Body != nil || len(p.Cover) != 1 {
				t.Errorf("dropped %+v for %q", p, reason)
			}
			dropped = append(dropped, int(p.ReadAt.Unix()))
		}
		s, _ := openWith(t, cfg, o)
		for n := 1; n <= 40; n++ {
			put(t, s, here, n)
			if size := onDisk(fs); size > 8000 {
				t.Fatalf("%d bytes on disk, want at most 8000", size)
			}
		}
		if len(dropped) < 25 || len(dropped) > 35 || !slices.Equal(dropped, upTo(len(dropped))) {
			t.Errorf("dropped %v, want the oldest", dropped)
		}
		must(t, s.Health())
		first := next(s, to(here)) // its segment stays
		before := len(dropped)
		put(t, s, here, 41, 42, 43, 44, 45, 46)
		if slices.Contains(dropped, number(t, first)) || len(dropped) == before {
			t.Errorf("dropped %v, want others than %d, which is under way", dropped[before:], number(t, first))
		}
		s.Done(first.ID, record.Accepted)
		huge := payload(60, here)
		huge.Body = make([]byte, 9000)
		before = len(dropped)
		if err := s.Put(huge); !errors.Is(err, ErrFull) || len(dropped) > before {
			t.Errorf("put of more than the spool: %v, %d dropped in vain", err, len(dropped)-before)
		}
		seen := append(slices.Clone(dropped), number(t, first))
		seen = append(seen, drain(t, s, here)...)
		if slices.Sort(seen); !slices.Equal(seen, upTo(46)) {
			t.Errorf("dropped or drained %v, want each once", seen)
		}
		must(t, s.Close())
	})
}

// With drop_oldest a spool that could give up nothing, for all of it was under way,
// says that it is well as soon as it can, and gives up nothing before it has to.
func TestFullOfWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig
		cfg.MaxSize, cfg.WhenFull = 8000, "drop_oldest"
		o := testOptions(faultfs.New("/state"))
		dropped := 0
		o.OnDrop = func(*record.Payload, string) { dropped++ }
		s, _ := openWith(t, cfg, o)
		var out []record.BatchID
		n := 1
		for ; s.Put(payload(n, here)) == nil; n++ {
			out = append(out, next(s, to(here)).ID)
		}
		if !errors.Is(s.Health(), ErrFull) {
			t.Fatalf("health %v, want full", s.Health())
		}
		for _, id := range out {
			s.Return(id)
		}
		time.Sleep(time.Minute) // of the bubble
		if must(t, s.Health()); dropped > 0 {
			t.Errorf("%d dropped for nothing", dropped)
		}
		if put(t, s, here, n); dropped == 0 {
			t.Error("nothing dropped for the next one")
		}
		must(t, s.Close())
	})
}

// A group larger than the room that is left is kept as far as it fits.
func TestFullInsideAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		cfg := testConfig
		cfg.MaxSize = 8000
		s, _ := openWith(t, cfg, testOptions(fs))
		var mu sync.Mutex
		var kept, refused []int
		var wg sync.WaitGroup
		for n := 1; n <= 20; n++ {
			wg.Go(func() { // ends with its Put, awaited below
				err := s.Put(payload(n, here))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					kept = append(kept, n)
				} else {
					refused = append(refused, n)
				}
			})
		}
		wg.Wait()
		got := drain(t, s, here)
		slices.Sort(got)
		slices.Sort(kept)
		if !slices.Equal(got, kept) || len(kept)+len(refused) != 20 || len(kept) < 7 {
			t.Errorf("kept %v, refused %v, drained %v", kept, refused, got)
		}
		must(t, s.Close())
	})
}

// min_free is left of the disk, and the spool is well again when it is.
func TestMinFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		var disk atomic.Int64
		disk.Store(20000)
		cfg := testConfig
		cfg.MinFree = 10000
		o := testOptions(fs)
		o.Free = func(string) (int64, error) { return disk.Load() - onDisk(fs), nil }
		s, _ := openWith(t, cfg, o)
		kept := 0
		for n := 1; n <= 30; n++ {
			if err := s.Put(payload(n, here)); err == nil {
				kept++
			} else if !errors.Is(err, ErrFull) {
				t.Errorf("put %d: %v", n, err)
			}
			if free := disk.Load() - onDisk(fs); free < 10000 {
				t.Fatalf("%d bytes left free", free)
			}
		}
		if kept < 9 || !errors.Is(s.Health(), ErrFull) {
			t.Errorf("%d kept, health %v", kept, s.Health())
		}
		disk.Add(20000)
		waitFor(again + time.Second)
		must(t, s.Health())
		put(t, s, here, 31)
		disk.Store(0) // others took all of it
		if err := s.Put(payload(32, here)); err != nil && !errors.Is(err, ErrFull) {
			t.Errorf("put on a disk full of others: %v", err)
		}
		must(t, s.Close())
	})
}

// drop_oldest gives up a segment also where its index cannot be read any more: what the
// segment says itself is dropped, each payload once.
func TestFullDropsWithoutIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		cfg := testConfig
		cfg.MaxSize, cfg.WhenFull = 8000, "drop_oldest"
		o := testOptions(fs)
		var dropped []int
		o.OnDrop = func(p *record.Payload, _ string) { dropped = append(dropped, int(p.ReadAt.Unix())) }
		s, _ := openWith(t, cfg, o)
		last := 0
		for ; len(dropped) == 0; last++ {
			put(t, s, here, last+1)
		}
		s.mu.Lock()
		x := s.segments[0].index
		x.f = broken{x.f}
		s.mu.Unlock()
		for range 20 {
			if last++; s.Put(payload(last, here)) != nil {
				t.Fatalf("payload %d finds no room after %v were dropped", last, dropped)
			}
		}
		if got := append(slices.Clone(dropped), drain(t, s, here)...); !slices.Equal(got, upTo(last)) {
			t.Errorf("dropped and drained %v, want each once", got)
		}
		must(t, s.Close())
	})
}

// Where the disk is full of other things, giving up payloads would not help and
// is not done.
func TestDropsNothingInVain(t *testing.T) {
	fs := faultfs.New("/state")
	var disk atomic.Int64
	disk.Store(1 << 40)
	cfg := testConfig
	cfg.MinFree, cfg.WhenFull = 10000, "drop_oldest"
	o := testOptions(fs)
	o.Free = func(string) (int64, error) { return disk.Load() - onDisk(fs), nil }
	o.OnDrop = func(p *record.Payload, _ string) { t.Errorf("%v dropped", p.ID) }
	s, _ := openWith(t, cfg, o)
	put(t, s, here, upTo(6)...)
	disk.Store(0)
	for range 5 {
		if err := s.Put(payload(9, here)); err != nil && !errors.Is(err, ErrFull) {
			t.Errorf("put: %v", err)
		}
	}
}

// What waited longer than max_age is dropped when it is met.
func TestMaxAge(t *testing.T) {
	cfg := testConfig
	cfg.MaxAge = units.Duration(time.Hour)
	o := testOptions(faultfs.New("/state"))
	wall := handClock{at: time.Unix(5000, 0)}
	o.Now, o.Elapsed = wall.now, wall.elapsed
	var dropped []int
	var logs bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&logs, nil))
	o.OnDrop = func(p *record.Payload, reason string) {
		if reason != ledger.SpoolAge || p.Body != nil {
			t.Errorf("dropped %+v for %q", p, reason)
		}
		dropped = append(dropped, int(p.ReadAt.Unix()))
	}
	s, _ := openWith(t, cfg, o)
	put(t, s, here, 1, 2)
	wall.add(40 * time.Minute)
	put(t, s, here, 3, 4, 5)
	wall.add(40 * time.Minute)
	if got := drain(t, s, here); !slices.Equal(got, []int{3, 4, 5}) || !slices.Equal(dropped, []int{1, 2}) {
		t.Errorf("drained %v, dropped %v, want 3 to 5 and the others", got, dropped)
	}
	if text := logs.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "payloads=2 records=") {
		t.Errorf("told:\n%s want one line for both", text)
	}
}

// What has ended makes room at once, also in the segment being written.
func TestEndedMakesRoom(t *testing.T) {
	cfg := testConfig
	cfg.MaxSize = 1800
	s, _ := openWith(t, cfg, testOptions(faultfs.New("/state")))
	for range 5 {
		put(t, s, here, 1)
		if got := drain(t, s, here); !slices.Equal(got, upTo(1)) {
			t.Errorf("drained %v, want 1", got)
		}
	}
}

// A spool that is full is told once, though small payloads still fit now and then.
func TestFullIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		o := testOptions(faultfs.New("/state"))
		o.Logger, o.SegmentSize = slog.New(slog.NewTextHandler(&logs, nil)), 4<<10
		s, _ := openWith(t, Config{MaxSize: 4<<10 + 512, WhenFull: "block"}, o)
		large := func(n int) error {
			p := payload(n, here)
			p.Body = body(n, 2000)
			return s.Put(p)
		}
		must(t, large(1))
		for n := range 3 {
			if err := large(10 + n); !errors.Is(err, ErrFull) {
				t.Fatalf("put: %v, want full", err)
			}
			if n < 2 {
				put(t, s, here, 20+n)
			}
			if !errors.Is(s.Health(), ErrFull) {
				t.Errorf("health %v while the last large one does not fit", s.Health())
			}
		}
		s.Done(batchID(1), record.Accepted)
		s.Done(batchID(20), record.Accepted)
		s.Done(batchID(21), record.Accepted)
		time.Sleep(time.Minute) // of the bubble
		must(t, s.Health())
		if n := strings.Count(logs.String(), "level="); n != 2 {
			t.Errorf("told %d times, want that it is full and that it is not:\n%s", n, logs.String())
		}
		must(t, s.Close())
	})
}

// A wall clock that jumps makes no payload old, and one that was set and stays so
// does after an hour.
func TestWallClockJumps(t *testing.T) {
	cfg := testConfig
	cfg.MaxAge = units.Duration(time.Hour)
	disk := faultfs.New("/state")
	o := testOptions(disk)
	wall, elapsed, dropped := time.Unix(1e9, 0), time.Duration(0), 0
	pass := func(d time.Duration) { wall, elapsed = wall.Add(d), elapsed+d }
	o.Now, o.Elapsed = func() time.Time { return wall }, func() time.Duration { return elapsed }
	o.OnDrop = func(*record.Payload, string) { dropped++ }
	s, _ := openWith(t, cfg, o)
	put(t, s, here, 1, 2, 3, 4)
	peek := func(what string, want int) {
		t.Helper()
		p := next(s, to(here))
		if p == nil || number(t, p) != want {
			t.Fatalf("%s: got %v, want %d", what, p, want)
		}
		s.Return(p.ID)
	}
	const month = 30 * 24 * time.Hour
	for _, jump := range []time.Duration{month, -2 * month, month} {
		pass(time.Minute)
		wall = wall.Add(jump)
		peek("after a jump", 1)
		put(t, s, here, 10+int(jump/month))
		pass(time.Second)
		peek("a moment later", 1)
	}
	must(t, s.Close())
	s, _ = openWith(t, cfg, o)
	peek("at the next start", 1)
	wall = wall.Add(month)
	peek("ahead", 1)
	pass(50 * time.Minute)
	peek("ahead for 50 minutes", 1)
	pass(11 * time.Minute)
	if p := next(s, to(here)); p != nil || dropped == 0 {
		t.Errorf("got %v, %d dropped: it is older than an hour by any clock", p, dropped)
	}
	put(t, s, here, 50)
	peek("new by the new clock", 50)
	must(t, s.Close())
}

// What a group of payloads takes is estimated before it is written. A payload that would fit
// beside what the others really took is not refused: the spool would be full, and a moment
// later not.
func TestFullIsToldOnceInGroups(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			fs, slow := faultfs.New("/state"), false
			fs.Judge = func(faultfs.Op) faultfs.Verdict {
				if slow { // so that the payloads put meanwhile are written as a group
					time.Sleep(time.Millisecond)
				}
				return faultfs.Verdict{}
			}
			var logs bytes.Buffer
			o := testOptions(fs)
			o.Logger = slog.New(slog.NewTextHandler(&logs, nil))
			s, _ := openWith(t, Config{MaxSize: units.Size(20_000 + rnd.IntN(20_000)), WhenFull: "block"}, o)
			slow = true
			size := 200 + rnd.IntN(1000)
			var puts sync.WaitGroup
			for n := range 100 {
				p := payload(n, here)
				p.Body = body(n, size+rnd.IntN(60))
				puts.Go(func() {
					if err := s.Put(p); err != nil && !errors.Is(err, ErrFull) {
						t.Errorf("put %d: %v", n, err)
					}
				})
				if rnd.IntN(12) == 0 {
					puts.Wait()
				}
			}
			puts.Wait()
			if n := strings.Count(logs.String(), "level="); n != 1 {
				t.Errorf("seed %d: told %d times, want once:\n%s", seed, n, logs.String())
			}
			must(t, s.Close())
		})
	}
}

// What is kept of damage counts for max_size, until people take it away.
func TestDamagedCountsForMaxSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state", dir, dir+"/"+damagedDir)
		kept := dir + "/" + damagedDir + "/0000000000000001.seg"
		disk.SetContent(kept, make([]byte, 7000))
		cfg := testConfig
		cfg.MaxSize = 10_000
		s, _ := openWith(t, cfg, testOptions(disk))
		if n := s.Stats().Bytes; n != 7000 {
			t.Errorf("%d bytes counted, want 7000", n)
		}
		n := 0
		for ; n < 100 && s.Put(payload(n, here)) == nil; n++ {
		}
		if total := onDisk(disk) + 7000; n == 0 || n == 100 || total > 10_000 || !errors.Is(s.Health(), ErrFull) {
			t.Errorf("%d payloads put, %d bytes on disk, health %v", n, total, s.Health())
		}
		must(t, disk.Remove(kept))
		put(t, s, here, 200)
		must(t, s.Close())
	})
}
