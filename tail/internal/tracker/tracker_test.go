package tracker

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// file is a file in the middle of its life.
func file(events ...Event) func() (*Tracker, *File) {
	return func() (*Tracker, *File) {
		t, f := &Tracker{}, Found(1, Present)
		for _, e := range append([]Event{Begun{}}, events...) {
			t.Apply(&f, e)
		}
		return t, &f
	}
}

var (
	turnWords   = [...]string{Resting: "resting", Queued: "queued", Running: "running", Again: "running, and queued after that", Closed: "closed"}
	actionWords = [...]string{
		Enqueue: "Enqueue", Read: "Read", CloseUnwanted: "CloseUnwanted", Close: "Close", Spare: "Spare", Plan: "Plan",
		Look: "Look", Rescan: "Rescan", Announce: "Announce", AllDrained: "AllDrained",
	}
)

// words are the names of actions, as docs/design.md has them.
func words(actions []Action) string {
	var all []string
	for _, a := range actions {
		all = append(all, actionWords[a])
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}

// documented are the lines of the table in docs/design.md.
func documented(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## When a file is read\n")
	if !found {
		t.Fatal("no section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines[1:]
}

// TestApply: what follows from each event, in each state that a file can be in, is what
// docs/design.md says.
func TestApply(t *testing.T) {
	var table []string
	queued := file()
	running := file(Taken{})
	again := file(Taken{}, Wanted{})
	resting := file(Taken{}, Ended{Outcome: Idle})
	heard := file(Taken{}, Heard{})
	parked := file(Taken{}, Ended{Outcome: AwaitSafe})
	closed := file(Taken{}, Ended{Outcome: Done})
	missed := file(Taken{}, Ended{Outcome: Idle}, Unseen{Left: true})
	gone := file(Taken{}, Ended{Outcome: Idle}, Unseen{Left: true}, Unseen{Left: true}, Taken{}, Ended{Outcome: Idle})
	once := file(Taken{}, Ended{Outcome: Finished})
	draining := func() (*Tracker, *File) {
		tr, f := resting()
		tr.Stop()
		tr.Apply(f, Drained{})
		tr.Apply(f, Taken{})
		return tr, f
	}
	stopped := func() (*Tracker, *File) {
		tr, f := resting()
		tr.Stop()
		return tr, f
	}
	dropped := func() (*Tracker, *File) {
		tr, f := resting()
		tr.Apply(f, Wished{Wish: Drop})
		tr.Apply(f, Wished{Wish: Keep})
		return tr, f
	}
	left := file(Wished{Wish: Leave})
	for _, c := range []struct {
		name  string
		in    func() (*Tracker, *File)
		event Event
		turn  Turn
		does  string
	}{
		{"it rests and is wanted", resting, Wanted{}, Queued, "Enqueue"},
		{"it is in the queue and wanted", queued, Wanted{}, Queued, "-"},
		{"it is read and wanted", running, Wanted{}, Again, "-"},
		{"it is read, wanted again and wanted", again, Wanted{}, Again, "-"},
		{"it is closed and wanted", closed, Wanted{}, Closed, "-"},
		{"the tailer stops, and it is wanted", stopped, Wanted{}, Resting, "-"},

		{"it rests, and a write is heard of", resting, Heard{}, Resting, "Look"},
		{"it is read, and a write is heard of", running, Heard{}, Running, "-"},
		{"it is in the queue, and a write is heard of", queued, Heard{}, Queued, "-"},
		{"the queue is cleared", queued, Unqueued{}, Resting, "-"},

		{"its turn begins", queued, Taken{}, Running, "Read"},
		{"its input does not read it any more", left, Taken{}, Running, "CloseUnwanted"},
		{"it was dropped, and that is not taken back", dropped, Taken{}, Running, "Close"},

		{"there is more", running, Ended{Outcome: More}, Queued, "Enqueue"},
		{"there is nothing more", running, Ended{Outcome: Idle}, Resting, "Spare, Plan"},
		{"there is nothing more, but a write was heard of", heard, Ended{Outcome: Idle}, Resting, "Spare, Plan, Look"},
		{"there is nothing more, but it is wanted", again, Ended{Outcome: Idle}, Queued, "Enqueue"},
		{"it waits for an event", running, Ended{Outcome: Parked}, Resting, "-"},
		{"it waits, but it is wanted", again, Ended{Outcome: Parked}, Queued, "Enqueue"},
		{"it waits until more is safe", running, Ended{Outcome: AwaitSafe}, Resting, "-"},
		{"it waits until more is safe, which it is", running, Ended{Outcome: AwaitSafe, Safe: true}, Queued, "Enqueue"},
		{"it is closed", running, Ended{Outcome: Done}, Closed, "Close"},
		{"it is closed, and a scan decides who reads it", running, Ended{Outcome: Yielded}, Closed, "Close, Rescan"},
		{"it is closed though it is wanted", again, Ended{Outcome: Done}, Closed, "Close"},
		{"a run that reads each once has read it", running, Ended{Outcome: Finished}, Resting, "Spare, Plan"},

		{"more is safe, and it waits for that", parked, Saved{}, Queued, "Enqueue"},
		{"more is safe, and it does not wait", resting, Saved{}, Resting, "-"},

		{"a scan finds it as it was", resting, Seen{Scan: 2}, Resting, "-"},
		{"a scan finds it changed", resting, Seen{Scan: 2, Changed: true}, Queued, "Enqueue"},
		{"a scan finds it renamed", resting, Seen{Scan: 2, Renamed: true}, Queued, "Enqueue"},
		{"a scan finds another of its names", resting, Seen{Scan: 1, Renamed: true}, Resting, "-"},
		{"a scan finds it when it is closed", closed, Seen{Scan: 2, Renamed: true}, Closed, "-"},

		{"a scan does not find it", resting, Unseen{Left: true}, Resting, "Rescan"},
		{"a scan does not find it, but it is there", resting, Unseen{}, Resting, "-"},
		{"two scans do not find it", missed, Unseen{Left: true}, Queued, "Announce, Enqueue"},
		{"it is gone, and is not found", gone, Unseen{Left: true}, Resting, "-"},
		{"it is closed, and is not found", closed, Unseen{Left: true}, Closed, "-"},

		{"it is to be drained before the stop", stopped, Drained{}, Queued, "Enqueue"},
		{"it is drained", draining, Ended{Outcome: Idle}, Resting, "Spare, Plan, AllDrained"},
		{"it is drained and closed", draining, Ended{Outcome: Done}, Closed, "Close, AllDrained"},
		{"it is drained, and there is more", draining, Ended{Outcome: More}, Queued, "Enqueue"},
		{"it is drained, and waits", draining, Ended{Outcome: Parked}, Resting, "-"},
		{"it begins anew after it was read once", once, Renewed{}, Resting, "-"},
		{"the journal does not know its name", resting, Moved{}, Resting, "-"},
	} {
		tr, f := c.in()
		if got := words(tr.Apply(f, c.event)); got != c.does || f.Turn() != c.turn {
			t.Errorf("%s: %s and actions %s, want %s and %s", c.name, turnWords[f.Turn()], got, turnWords[c.turn], c.does)
		}
		table = append(table, "| "+c.name+" | "+turnWords[c.turn]+" | "+c.does+" |")
	}
	if got := documented(t); !slices.Equal(got, table) {
		t.Errorf("the table is\n%s\nand docs/design.md has\n%s", strings.Join(table, "\n"), strings.Join(got, "\n"))
	}
}

// TestPlaces: a file is gone when two scans have not found it, and is back when one has.
func TestPlaces(t *testing.T) {
	tr, f := file()()
	want := func(when string, missing, gone, outside bool) {
		t.Helper()
		if got := []bool{f.IsMissing(), f.IsGone(), f.IsOutside()}; !slices.Equal(got, []bool{missing, gone, outside}) {
			t.Errorf("%s: missing, gone, outside are %v", when, got)
		}
	}
	want("it was found", false, false, false)
	tr.Apply(f, Unseen{Left: true})
	want("one scan has not found it", true, false, false)
	tr.Apply(f, Unseen{Left: true})
	want("two have not", true, true, false)
	tr.Apply(f, Seen{Scan: 5})
	want("it is back", false, false, false)
	*f = Found(6, Outside)
	want("no pattern matches it", true, true, true)
}

// TestMoved: that the journal does not know a name is told by a turn, or kept for the
// next.
func TestMoved(t *testing.T) {
	tr, f := file(Moved{})()
	told := f.HasMoved()
	tr.Apply(f, Taken{})
	if !told || f.HasMoved() {
		t.Error("a turn that begins has still to take it over, or does not")
	}
	tr.Apply(f, Ended{Outcome: Idle, Moved: true})
	if !f.HasMoved() {
		t.Error("a turn has not told the journal, and the next does not know")
	}
	tr.Apply(f, Taken{})
	tr.Apply(f, Ended{Outcome: Idle})
	if f.HasMoved() {
		t.Error("the journal was told")
	}
	if tr.Apply(f, Seen{Scan: 9, Renamed: true}); !f.HasMoved() {
		t.Error("it was renamed")
	}
}

// TestOnce: what was waited for is waited for once.
func TestOnce(t *testing.T) {
	tr, f := file(Taken{}, Ended{Outcome: AwaitSafe}, Saved{}, Taken{}, Wanted{})()
	if got := tr.Apply(f, Ended{Outcome: Parked}); words(got) != "Enqueue" {
		t.Error(got)
	}
	tr, f = file(Taken{}, Ended{Outcome: AwaitSafe}, Saved{}, Unqueued{})()
	if got := tr.Apply(f, Saved{}); len(got) > 0 {
		t.Error("it does not wait any more, and is told", got)
	}
	if _, f = file(Taken{}, Ended{Outcome: Done})(); f.Awaits(7) {
		t.Error("no scan is asked for a file that is closed")
	}
}

// TestNoEventIsLost: whatever happens in whatever order, a file that is wanted gets a
// turn, is closed once, and what is counted is what is there.
func TestNoEventIsLost(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var tr Tracker
		files := make([]File, 3)
		queue := make([]int, len(files)) // how often each is in the queue
		closed := make([]int, len(files))
		owed := make([]bool, len(files))  // a turn
		heard := make([]bool, len(files)) // of a write since the last turn began
		all := false
		apply := func(i int, e Event) {
			for _, a := range tr.Apply(&files[i], e) {
				switch a {
				case Enqueue:
					queue[i]++
				case Look:
					heard[i] = false
				case Close:
					closed[i]++
				case AllDrained:
					if all || tr.Left() > 0 {
						t.Fatalf("seed %d: all is drained twice, or too soon", seed)
					}
					all = true
				}
			}
		}
		for i := range files {
			files[i] = Found(0, []Place{Present, Gone, Outside}[rng.IntN(3)])
			apply(i, Begun{})
			owed[i] = true
		}
		outcomes := []Outcome{More, Idle, Finished, Parked, AwaitSafe, Done, Yielded}
		for step := range 1 + rng.IntN(60) {
			i := rng.IntN(len(files))
			f := &files[i]
			mute := tr.stopping && !f.IsDraining() || f.Turn() == Closed
			switch what := rng.IntN(10); {
			case what < 3 && f.Turn() == Queued:
				queue[i]--
				owed[i], heard[i] = false, false
				if got := tr.Apply(f, Taken{}); len(got) != 1 {
					t.Fatalf("seed %d: a turn has to do %v", seed, got)
				}
			case what < 3 && f.IsRunning():
				o := outcomes[rng.IntN(len(outcomes))]
				owed[i] = owed[i] || o == More && !mute
				apply(i, Ended{Outcome: o})
				if heard[i] && f.Turn() == Resting && o == Idle && !tr.stopping {
					t.Fatalf("seed %d: file %d was written to during its turn, and rests", seed, i)
				}
			case what == 3:
				apply(i, Wanted{})
				owed[i] = owed[i] || !mute
			case what == 4:
				heard[i] = true
				apply(i, Heard{})
			case what == 5:
				apply(i, Seen{Scan: uint64(step + 1), Changed: true})
				owed[i] = owed[i] || !mute
			case what == 6:
				apply(i, Unseen{Left: true, Deleted: rng.IntN(2) == 0})
			case what == 7:
				apply(i, Wished{Wish: Wish(rng.IntN(3))})
				owed[i] = owed[i] || !mute
			case what == 8 && step > 30 && !tr.stopping:
				for n := range files {
					if files[n].Turn() == Queued {
						queue[n]--
						apply(n, Unqueued{})
					}
					owed[n] = false
				}
				tr.Stop()
				for n := range i + 1 {
					if files[n].Turn() != Closed {
						apply(n, Drained{})
						owed[n] = true
					}
				}
			case what == 9:
				apply(i, Saved{})
			}
			left := 0
			for n, f := range files {
				if f.IsDraining() {
					left++
				}
				inQueue := 0
				if f.Turn() == Queued {
					inQueue = 1
				}
				switch {
				case queue[n] != inQueue:
					t.Fatalf("seed %d: file %d is in the queue %d times, and its turn is %d", seed, n, queue[n], f.Turn())
				case owed[n] && f.Turn() == Resting && !(tr.stopping && !f.IsDraining()):
					t.Fatalf("seed %d: file %d is wanted and rests", seed, n)
				case closed[n] > 1 || (closed[n] == 1) != (f.Turn() == Closed):
					t.Fatalf("seed %d: file %d was closed %d times, and its turn is %d", seed, n, closed[n], f.Turn())
				}
			}
			if left != tr.Left() || tr.Unread() < 0 || tr.Unread() > len(files) {
				t.Fatalf("seed %d: %d are drained, and %d counted; %d are unread", seed, left, tr.Left(), tr.Unread())
			}
		}
	}
}
