package tail

import (
	"cmp"
	"context"
	"math"
	"time"

	"kusto-agent/tail/internal/agenda"
	"kusto-agent/tail/internal/finder"
)

// looks are the planned turns of readers that rest. Guarded by Tailer.mu, but for the channel.
type looks struct {
	queue  agenda.Queue[reader]
	next   agenda.Moment // when pollLoop looks at the queue by itself
	tick   chan struct{} // the queue has a new first
	silent silence       // see unheard
}

// poll is when a reader is looked at next. Guarded by Tailer.mu.
type poll struct {
	agenda.Slot
	looked agenda.Moment // end of the last turn
}

// poll plans the next turn of an idle reader, if time alone may bring something, or no event or
// glance tells of a change. In a run --once only an error leads to another turn. The caller holds
// mu.
func (t *Tailer) poll(r *reader) {
	t.looks.queue.Cancel(r)
	if t.o.Once && r.failed == nil {
		return
	}
	now := agenda.Now()
	wait, planned := finder.LookWait(finder.LookState{
		For:      now.Since(r.shown.active),
		Told:     t.hears(r),
		Failed:   r.failed != nil,
		Pending:  r.life.IsGone() || (r.in.PartialLineWait > 0 || r.in.Joins() || r.path() != r.k.info.Info().First) && !r.atEnd,
		Reserved: r.reserved,
	})
	r.own().polled.looked = now
	if planned {
		t.lookAt(r, now.Add(max(wait, t.pace(r))))
	}
}

// pace is how long a reader that is written to all the time waits between two looks.
// The caller holds mu.
func (t *Tailer) pace(r *reader) time.Duration {
	return finder.LookPace(finder.LookEvery(r.in.MaxWait), t.looks.queue.Len())
}

// lookEvery is how long the files of all inputs that are written to all the time wait at
// least between two looks.
func lookEvery(inputs []*input) time.Duration {
	every := finder.LookEvery(math.MaxInt64)
	for _, in := range inputs {
		every = min(every, finder.LookEvery(in.MaxWait))
	}
	return every
}

// lookSoon gives a turn to a reader, because its file was written to; later if its last turn ended
// just now, so that a file that is written to all the time is read in larger pieces. The caller
// holds mu.
func (t *Tailer) lookSoon(r *reader) {
	pace := t.pace(r)
	next := r.polled.looked.Add(pace)
	switch left := next.Since(agenda.Now()); {
	case left <= pace/4: // events come at this pace too, but a turn ends some time after the event
		t.looks.queue.Cancel(r)
		t.readyLocked(r)
	case !r.polled.IsPlanned() || next < r.polled.At:
		t.looks.queue.Cancel(r)
		t.lookAt(r, next)
	}
}

// lookAt plans a turn of a reader, which must have none planned, and wakes pollLoop if it is the
// next one of all. The caller holds mu.
func (t *Tailer) lookAt(r *reader, at agenda.Moment) {
	r.own()
	if t.looks.queue.Plan(r, at) && at < t.looks.next {
		select {
		case t.looks.tick <- struct{}{}:
		default:
		}
	}
}

// pollLoop gives readers their planned turns, until ctx ends.
func (t *Tailer) pollLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due looking
	for {
		t.on(&due)
		timer.Reset(due.next)
		select {
		case <-timer.C:
		case <-t.looks.tick:
		case <-ctx.Done():
			return
		}
	}
}

// looking readies the readers whose planned time has come.
type looking struct {
	next time.Duration // how long it is to the next
}

func (e *looking) happen(t *Tailer) {
	now := agenda.Now()
	for {
		r, next := t.looks.queue.Due(now)
		if r == nil {
			t.looks.next = cmp.Or(next, now.Add(time.Hour))
			e.next = t.looks.next.Since(now)
			return
		}
		t.readyLocked(r)
	}
}
