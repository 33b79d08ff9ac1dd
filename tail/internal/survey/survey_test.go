package survey

import (
	"testing"
	"time"

	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/identity"
)

const quiet = time.Second

var (
	run      = Run{RotateQuiet: quiet, Complete: true}
	once     = Run{RotateQuiet: quiet, Complete: true, Once: true}
	scanning = Run{RotateQuiet: quiet}
)

// TestNext has a line for every step that follows from a file alone.
func TestNext(t *testing.T) {
	f := func(what string, x File, r Run, want Step, wait time.Duration) {
		t.Helper()
		if step, w := x.Next(r); step != want || w != wait {
			t.Errorf("%s: step %d in %v, want %d in %v", what, step, w, want, wait)
		}
	}
	f("just written", File{Quiet: quiet / 4}, run, Await, 3*quiet/4)
	f("just written, in a run --once", File{Quiet: quiet / 4}, once, Inspect, 0)
	f("quiet", File{Quiet: quiet}, run, Inspect, 0)
	f("quiet, in the first scan", File{Quiet: quiet}, scanning, Inspect, 0)
	f("could not be read just now", File{Quiet: quiet, Failed: time.Second}, run, Await, retryAfter-time.Second)
	f("could not be read just now, in a run --once", File{Quiet: quiet, Failed: time.Second}, once, Await, retryAfter-time.Second)
	f("could not be read a while ago", File{Quiet: quiet, Failed: retryAfter}, run, Inspect, 0)
	f("to be inspected", File{Stage: Queued, Quiet: quiet}, run, Leave, 0)
	f("inspected in an earlier run", File{Past: Unchanged}, scanning, Resume, 0)
	f("read in an earlier run", File{Past: Ended}, run, Resume, 0)
	f("read in an earlier run, and no pattern matches it now", File{Past: Ended, Claim: Stray}, run, Leave, 0)
	f("read in an earlier run, when a pattern matched", File{Past: Ended, Claim: Wanted}, run, Leave, 0)
	f("begun in an earlier run, and no pattern matches it now", File{Past: Unchanged, Claim: Stray}, run, Resume, 0)
	f("begun in an earlier run, and left out now", File{Past: Unchanged, Claim: Stray, Barred: true, Quiet: quiet}, run, Inspect, 0)
	f("inspected", File{Stage: Inspected}, run, Compare, 0)
	f("inspected in the first scan", File{Stage: Inspected}, scanning, Leave, 0)
	f("breaks off", File{Stage: Inspected, Cut: true, Quiet: quiet}, run, Await, 9*quiet)
	f("breaks off, in a run --once", File{Stage: Inspected, Cut: true, Quiet: quiet}, once, Await, 9*quiet)
	f("breaks off, and nobody goes on", File{Stage: Inspected, Cut: true, Quiet: 10 * quiet}, run, Compare, 0)
}

// TestAfter has a line for every step that follows from a comparison.
func TestAfter(t *testing.T) {
	f := func(what string, x File, is identity.Verdict, of Original, want Step, wait time.Duration) {
		t.Helper()
		x.Stage, x.Quiet = Inspected, quiet
		if step, w := x.After(is, of, run); step != want || w != wait {
			t.Errorf("%s: step %d in %v, want %d in %v", what, step, w, want, wait)
		}
	}
	stray, wanted, barred := File{Claim: Stray}, File{Claim: Wanted}, File{Claim: Wanted, Barred: true}
	for _, of := range []Original{NoOriginal, AtRest, BeingRead} {
		f("own", File{}, identity.Own, of, Read, 0)
		f("own, wanted", wanted, identity.Own, of, Read, 0)
		f("own, matched by no pattern", stray, identity.Own, of, Leave, 0)
		f("own, barred", barred, identity.Own, of, Leave, 0)
		f("not compared", File{}, identity.Undecided, of, Inspect, 0)
	}
	f("a copy of what is not known yet", File{}, identity.Copy, NoOriginal, Hold, finder.LookIdle)
	f("a copy of what is read", stray, identity.Copy, BeingRead, Hold, 0)
	f("a copy of what was read", stray, identity.Copy, AtRest, Read, 0)
	f("goes on after what is read", stray, identity.Continuation, BeingRead, Hold, 0)
	f("goes on after what was read", stray, identity.Continuation, AtRest, Read, 0)
	f("goes on after what was read, barred", barred, identity.Continuation, AtRest, Lose, 0)
	f("goes on after what is read, barred", barred, identity.Continuation, BeingRead, Hold, 0)
	f("a copy, barred", barred, identity.Copy, AtRest, Lose, 0)
	f("a rest", stray, identity.Rest, AtRest, Read, 0)
	f("rewritten", stray, identity.Rewritten, AtRest, Read, 0)
	f("rewritten, barred", barred, identity.Rewritten, AtRest, Leave, 0)
	f("the same", stray, identity.Same, AtRest, Read, 0)
	if step, wait := (File{Stage: Inspected, Quiet: quiet / 4}).After(identity.Undecided, AtRest, run); step != Await || wait != 3*quiet/4 {
		t.Errorf("not compared, and written meanwhile: step %d in %v", step, wait)
	}
}

// TestEveryFileGoesOn: whatever is known, a file that is pending has a step to be done, a time to wait
// for, or an inspection under way.
func TestEveryFileGoesOn(t *testing.T) {
	for n := range 3 * 3 * 3 * 2 * 2 * 3 * 2 * 3 {
		pick := func(of int) (i int) {
			i, n = n%of, n/of
			return i
		}
		x := File{
			Stage: Stage(pick(3)), Past: Past(pick(3)), Claim: Claim(pick(3)), Barred: pick(2) > 0, Cut: pick(2) > 0,
			Quiet: []time.Duration{0, quiet, 10 * quiet}[pick(3)], Failed: []time.Duration{0, time.Second}[pick(2)],
		}
		r := []Run{run, once, scanning}[pick(3)]
		step, wait := x.Next(r)
		if x.IsPending() && x.Stage != Queued && step == Leave {
			t.Errorf("%+v is pending, and nothing is done", x)
		}
		if (step == Await) != (wait > 0) {
			t.Errorf("%+v: step %d in %v", x, step, wait)
		}
		if r.Once && step == Await && x.IsPending() && x.Failed == 0 { // nothing comes after that
			t.Errorf("%+v is pending in a run --once, and waits", x)
		}
	}
}
