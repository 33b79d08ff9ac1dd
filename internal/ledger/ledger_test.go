package ledger

import (
	"maps"
	"sync"
	"testing"

	"kusto-agent/internal/record"
)

func lot(input string, n int) record.Lot { return record.Lot{Input: input, Records: n} }

// TestTablesAddUpToTheInputs: one table gets records of two inputs, and one input has
// sent to two tables.
func TestTablesAddUpToTheInputs(t *testing.T) {
	l := New()
	to := func(input, table string, n int, bytes int64) record.Lot {
		return record.Lot{Input: input, Route: record.Route{Cluster: "https://c", Database: "Logs", Table: table}, Records: n, Bytes: bytes}
	}
	l.Accepted(to("app", "A", 0, 0))
	if _, tables := l.Report(); len(tables) != 1 || tables[Table{"Logs", "A"}] != (Ends{}) {
		t.Errorf("a count of zero opens %v", tables)
	}
	l.Read("app", 100, 9000)
	l.Read("web", 100, 9000)
	l.Accepted(to("app", "A", 50, 5000))
	l.Accepted(to("app", "B", 5, 500))
	l.Accepted(to("web", "A", 70, 700))
	l.Rejected(to("app", "A", 1, 40), record.TooLong)
	l.Quarantined(to("web", "A", 2, 20), record.Refused)
	other := to("web", "A", 3, 30)
	other.Route.Cluster, other.Route.Format = "https://d", record.CSV // the same table for all that
	l.Dropped(other, SpoolAge)
	inputs, tables := l.Report()
	want := map[Table]Ends{
		{"Logs", "A"}: {Accepted: Sum{120, 5700}, Quarantined: Sum{3, 60}, Dropped: Sum{3, 30}},
		{"Logs", "B"}: {Accepted: Sum{5, 500}},
	}
	if !maps.Equal(tables, want) {
		t.Errorf("got %v, want %v", tables, want)
	}
	var in, out [3]uint64
	for input, b := range inputs {
		if err := b.Check(); err != nil {
			t.Errorf("%s: %v", input, err)
		}
		in[0], in[1], in[2] = in[0]+b.Accepted, in[1]+Total(b.Quarantined), in[2]+Total(b.Dropped)
	}
	for _, e := range tables {
		out[0], out[1], out[2] = out[0]+e.Accepted.Records, out[1]+e.Quarantined.Records, out[2]+e.Dropped.Records
	}
	if in != out {
		t.Errorf("inputs ended %v, tables got %v", in, out)
	}
}

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
		{"rejected", func() { l.Rejected(lot("app", 2), record.TooLong) }, 100, 0},
		{"restored", func() { l.Restored("app", 10) }, 110, 0},
		{"accepted", func() { l.Accepted(lot("app", 50)) }, 60, 0},
		{"quarantined", func() { l.Quarantined(lot("app", 1), record.Refused) }, 59, 0},
		{"spooled", func() { l.Spooled("app", 40) }, 19, 40},
		{"unspooled", func() { l.Unspooled("app", 15) }, 34, 25},
		{"dropped", func() { l.Dropped(lot("app", 15), SpoolFull) }, 19, 25},
		{"nothing", func() { l.Dropped(lot("app", 0), SourceGone) }, 19, 25},
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
	twice.Accepted(lot("app", 5))
	twice.Accepted(lot("app", 5))
	f("a batch ended twice", twice.Snapshot()["app"])

	thin := New()
	thin.Unspooled("app", 1)
	f("more out of the spool than went in", thin.Snapshot()["app"])
}

func TestASnapshotIsTheCallersOwn(t *testing.T) {
	l := New()
	l.Rejected(lot("app", 1), record.Malformed)
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
				l.Rejected(lot(input, 1), record.Malformed)
				l.Filtered(input, Blank, 2)
				l.Spooled(input, 4)
				l.Accepted(lot(input, 3))
				l.Unspooled(input, 4)
				l.Quarantined(lot(input, 1), record.Refused)
				l.Dropped(lot(input, 3), SpoolAge)
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
		l.Rejected(lot("app", 1), record.Malformed)
		l.Spooled("app", 2)
		l.Unspooled("app", 2)
		l.Quarantined(lot("app", 1), record.Refused)
		l.Dropped(lot("app", 1), SpoolFull)
		l.Accepted(lot("app", 1))
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
		l.Accepted(lot("app", 1000))
	}
}
