package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// step is one call, and what is true once it was made.
type step struct {
	name   string
	do     func(j *Journal) error
	safe   []record.Extent
	begins []int
	ends   []int
	sync   bool

	payload *record.Payload // that it begins, where somebody asks
}

func beginStep(n int, f record.File, start, end int64) step {
	return step{name: fmt.Sprintf("begin %d", n), begins: []int{n},
		do: func(j *Journal) error { return j.Begin(payload(n, f, start, end)) }}
}

func endStep(n int, f record.File, start, end int64) step {
	return step{name: fmt.Sprintf("end %d", n), ends: []int{n},
		safe: []record.Extent{{File: f, Span: record.Span{Start: start, End: end}}},
		do:   func(j *Journal) error { return j.End(batchID(n), record.Accepted) }}
}

func syncStep() step { return step{name: "sync", sync: true, do: (*Journal).Sync} }

// script is a small life of a journal: ends out of order, skips, splits,
// attempts, syncs, and enough of it for several segments.
func script() []step {
	f, g := file1(1), file1(2)
	s := []step{
		{name: "input", do: func(j *Journal) error { _, err := j.InputSeen("app"); return err }},
		{name: "register", do: func(j *Journal) error { return j.Register(f, record.FileInfo{Path: "/f"}.Facts()) }},
		beginStep(1, f, 0, 10), beginStep(2, f, 10, 20), beginStep(3, g, 0, 10),
		endStep(2, f, 10, 20), syncStep(),
		{name: "skip", do: func(j *Journal) error { return j.Skip(g, record.Span{Start: 10, End: 12}, markAt(12)) },
			safe: []record.Extent{{File: g, Span: record.Span{Start: 10, End: 12}}}},
		endStep(1, f, 0, 10), endStep(3, g, 0, 10),
		beginStep(4, f, 20, 40),
		{name: "split", begins: []int{5, 6}, ends: []int{4}, do: func(j *Journal) error {
			return j.Split(batchID(4), []*record.Payload{payload(5, f, 20, 30), payload(6, f, 30, 40)})
		}},
		endStep(6, f, 30, 40), syncStep(), endStep(5, f, 20, 30),
	}
	for i := range 12 {
		n, at := 10+2*i, int64(40+2*i)
		s = append(s, beginStep(n, f, at, at+1), beginStep(n+1, f, at+1, at+2), endStep(n+1, f, at+1, at+2))
		if i%5 == 4 {
			s = append(s, syncStep())
		}
		if i < 10 {
			s = append(s, endStep(n, f, at, at+1))
		}
	}
	return append(s, step{name: "close", sync: true, do: (*Journal).Close})
}

// truth is what a number of steps add up to, kept in the simplest way.
type truth struct {
	safe  map[record.File]*[128]bool
	begun map[int]bool
	ended map[int]bool
}

func after(steps []step) truth {
	tr := truth{map[record.File]*[128]bool{file1(1): {}, file1(2): {}}, map[int]bool{}, map[int]bool{}}
	for _, s := range steps {
		for _, e := range s.safe {
			for i := e.Start; i < e.End; i++ {
				tr.safe[e.File][i] = true
			}
		}
		for _, n := range s.begins {
			tr.begun[n] = true
		}
		for _, n := range s.ends {
			tr.ended[n] = true
		}
	}
	return tr
}

func (tr truth) position(f record.File) int64 {
	return int64(slices.Index(tr.safe[f][:], false))
}

// run makes the steps until one fails. It returns how many were made, how many
// of them were acknowledged, and how many were before the last sync.
func run(fs *faultfs.FS, steps []step) (told, acked, synced int) {
	j, _, err := Open("/state/journal", testConfig, testOptions(fs))
	if err != nil {
		return
	}
	defer j.Close()
	for i, s := range steps {
		told = i + 1
		if err := s.do(j); err != nil {
			return told, acked, synced
		}
		if acked = told; s.sync {
			synced = told
		}
	}
	return told, acked, synced
}

// checkRecovered says what is wrong with a journal that knows at least the
// steps before least and at most those before most.
func checkRecovered(j *Journal, rec *Recovery, steps []step, least, most int) error {
	low, high := after(steps[:least]), after(steps[:most])
	for _, f := range []record.File{file1(1), file1(2)} {
		pos, mark := j.Position(f)
		if pos < low.position(f) || pos > high.position(f) {
			return fmt.Errorf("position of %s is %d, want %d to %d", f, pos, low.position(f), high.position(f))
		}
		if pos > 0 && mark != markAt(pos) {
			return fmt.Errorf("mark of %s is not that of %d", f, pos)
		}
		st, _ := j.State(f)
		for _, a := range st.Ahead {
			if a.Start < pos {
				return fmt.Errorf("ahead %v of position %d", a, pos)
			}
		}
	}
	found := map[int]bool{}
	for _, b := range rec.Begun {
		n := int(b.ID[1])<<8 + int(b.ID[15])
		found[n] = true
		if !high.begun[n] || low.ended[n] {
			return fmt.Errorf("batch %d is begun, which it never was or is over", n)
		}
	}
	for n := range low.begun {
		if !high.ended[n] && !found[n] {
			return fmt.Errorf("batch %d was begun and is not known", n)
		}
	}
	return nil
}

func TestEveryCrashIsExplained(t *testing.T) {
	steps := script()
	for n := 1; ; n++ {
		for _, torn := range []bool{false, true} {
			fs := faultfs.New("/state")
			fs.Judge = faultfs.KillAt(n, torn)
			told, acked, synced := run(fs, steps)
			for seed, mode := range []faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random, faultfs.Random, faultfs.Random} {
				least := synced
				if mode == faultfs.Kill {
					least = acked
				}
				if err := reopen(fs.Crash(mode, uint64(seed+n)), steps, least, told, mode); err != nil {
					t.Fatalf("killed at operation %d (torn %v), step %d %q, mode %d: %v", n, torn, told, steps[max(told-1, 0)].name, mode, err)
				}
			}
			if acked == len(steps) && fs.Ops() < n {
				return
			}
		}
	}
}

// reopen opens what a crash left, checks it, goes on with it, and opens it
// once more.
func reopen(left *faultfs.FS, steps []step, least, most int, mode faultfs.Mode) error {
	for _, clean := range []bool{false, true} {
		j, rec, err := Open("/state/journal", testConfig, testOptions(left))
		if err != nil {
			return err
		}
		err = checkRecovered(j, rec, steps, least, most)
		if clean && !rec.Clean {
			err = errors.Join(err, fmt.Errorf("not clean after a close: %q", rec.Problems))
		}
		if len(left.Content("/state/journal/damaged")) > 0 {
			err = errors.Join(err, errors.New("a crash is taken for damage"))
		}
		known, _ := j.InputSeen("app")
		if least > 0 && !known {
			err = errors.Join(err, errors.New("the input is not known"))
		}
		if err = errors.Join(err, j.Health(), j.Skip(file1(7), record.Span{End: 3}, 1), j.Close()); err != nil {
			return fmt.Errorf("%w (%q)", err, rec.Problems)
		}
	}
	return nil
}

// A disk that fails once, at any operation and in any way, costs nothing: once
// a later sync succeeded all is durable.
func TestEverySingleFaultIsMended(t *testing.T) {
	steps := script()
	fs := faultfs.New("/state")
	run(fs, steps)
	for n := 1; n <= fs.Ops(); n++ {
		for _, short := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { faultAt(t, steps, n, short) })
		}
	}
}

func faultAt(t *testing.T, steps []step, n int, short bool) {
	fs := faultfs.New("/state")
	fs.Judge = faultfs.FailAt(n, faultfs.NoSpace, short)
	o := testOptions(fs)
	healed := make(chan struct{}, 100)
	o.Logger = slog.New(logHook(func(message string) {
		if message == "journal writes succeed again" {
			healed <- struct{}{}
		}
	}))
	j, _, err := Open("/state/journal", testConfig, o)
	if err != nil {
		t.Fatalf("fault at %d: %v", n, err)
	}
	for _, s := range steps[:len(steps)-1] {
		_ = s.do(j) // the error may be told; nothing may be lost for it
	}
	if j.Health() != nil {
		<-healed
	}
	must(t, j.Health())
	must(t, j.Sync())
	left := fs.Crash(faultfs.Drop, 0)
	j.Close()
	if err := reopen(left, steps, len(steps), len(steps), faultfs.Drop); err != nil {
		t.Fatalf("fault at %d (short %v): %v", n, short, err)
	}
}

// logHook is a log handler that only looks at messages.
type logHook func(message string)

func (h logHook) Enabled(context.Context, slog.Level) bool      { return true }
func (h logHook) Handle(_ context.Context, r slog.Record) error { h(r.Message); return nil }
func (h logHook) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h logHook) WithGroup(string) slog.Handler                 { return h }
