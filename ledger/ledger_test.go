package ledger

import (
	"maps"
	"sync"
	"testing"

	"kusto-agent/record"
)

func TestEveryMoveKeepsTheBooksClosed(t *testing.T) {
	l := New()
	steps := []struct {
		name             string
		move             func()
		pending, spooled uint64
	}{
		{"open", func() { l.Read("app", 0, 0) }, 0, 0},
		{"read", func() { l.Read("app", 100, 5000) }, 100, 0},
		{"blank", func() { l.Filtered("app", Blank, 3) }, 100, 0},
		{"header", func() { l.Filtered("app", Header, 1) }, 100, 0},
		{"rejected", func() { l.Rejected("app", record.TooLong, 2) }, 100, 0},
		{"restored", func() { l.Restored("app", 10) }, 110, 0},
		{"accepted", func() { l.Accepted("app", 50) }, 60, 0},
		{"quarantined", func() { l.Quarantined("app", record.Refused, 1) }, 59, 0},
		{"spooled", func() { l.Spooled("app", 40) }, 19, 40},
		{"unspooled", func() { l.Unspooled("app", 15) }, 34, 25},
		{"dropped", func() { l.Dropped("app", SpoolFull, 15) }, 19, 25},
		{"nothing", func() { l.Dropped("app", SourceGone, 0) }, 19, 25},
		{"joined", func() { l.Joined("app", 4) }, 15, 25},
	}
	for _, s := range steps {
		s.move()
		b := l.Snapshot()["app"]
		if err := b.Check(); err != nil {
			t.Errorf("after %s: %v", s.name, err)
		}
		if b.Pending != s.pending || b.Spooled != s.spooled {
			t.Errorf("after %s: pending %d spooled %d, want %d and %d", s.name, b.Pending, b.Spooled, s.pending, s.spooled)
		}
	}
	b := l.Snapshot()["app"]
	if b.Read != 106 || b.Restored != 10 || b.Accepted != 50 || b.ReadBytes != 5000 {
		t.Errorf("got %+v", b)
	}
	same := func(name string, got, want map[string]uint64) {
		t.Helper()
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	same("quarantined", b.Quarantined, map[string]uint64{"too_long": 2, "refused": 1})
	same("dropped", b.Dropped, map[string]uint64{SpoolFull: 15})
	same("filtered", b.Filtered, map[string]uint64{Blank: 3, Header: 1, Joined: 4})
}

func TestCheckNoticesWhatDoesNotAddUp(t *testing.T) {
	f := func(name string, b Books) {
		t.Helper()
		if b.Check() == nil {
			t.Errorf("%s: %+v passed", name, b)
		}
	}
	f("a record forgotten", Books{Read: 10, Accepted: 9})
	f("a record from nowhere", Books{Read: 10, Accepted: 11})

	twice := New()
	twice.Read("app", 5, 0)
	twice.Accepted("app", 5)
	twice.Accepted("app", 5)
	f("a batch ended twice", twice.Snapshot()["app"])

	thin := New()
	thin.Unspooled("app", 1)
	f("more out of the spool than went in", thin.Snapshot()["app"])
}

func TestASnapshotIsTheCallersOwn(t *testing.T) {
	l := New()
	l.Rejected("app", record.Malformed, 1)
	l.Filtered("app", Blank, 1)
	b := l.Snapshot()["app"]
	b.Quarantined["malformed"] = 99
	clear(b.Filtered)
	if b := l.Snapshot()["app"]; b.Quarantined["malformed"] != 1 || b.Filtered[Blank] != 1 {
		t.Errorf("the ledger changed with the copy: %+v", b)
	}
}

func TestBooksCloseWhileEveryoneWrites(t *testing.T) {
	l := New()
	var writers sync.WaitGroup
	for _, input := range []string{"app", "web", "app", "web"} {
		writers.Go(func() {
			for range 2000 {
				l.Read(input, 7, 100)
				l.Rejected(input, record.Malformed, 1)
				l.Filtered(input, Blank, 2)
				l.Spooled(input, 4)
				l.Accepted(input, 3)
				l.Unspooled(input, 4)
				l.Quarantined(input, record.Refused, 1)
				l.Dropped(input, SpoolAge, 3)
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }() // ends with the writers, waited for by the loop below
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for input, b := range l.Snapshot() {
			if err := b.Check(); err != nil {
				t.Fatalf("%s: %v", input, err)
			}
		}
	}
	if b := l.Snapshot()["web"]; b.Pending != 0 || b.Spooled != 0 || b.Read != 2*2000*10 {
		t.Errorf("at the end: %+v", b)
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	l := New()
	step := func() {
		l.Read("app", 3, 10)
		l.Filtered("app", Blank, 1)
		l.Rejected("app", record.Malformed, 1)
		l.Spooled("app", 2)
		l.Unspooled("app", 2)
		l.Quarantined("app", record.Refused, 1)
		l.Dropped("app", SpoolFull, 1)
		l.Accepted("app", 1)
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

func BenchmarkReadAndAccept(b *testing.B) {
	l := New()
	b.ReportAllocs()
	for b.Loop() {
		l.Read("app", 1000, 1<<20)
		l.Accepted("app", 1000)
	}
}
