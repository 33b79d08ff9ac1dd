package tail

import (
	"container/heap"
	"context"
	"math"
	"time"

	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/tracker"
)

// looks are the planned turns of readers that rest. Guarded by Tailer.mu, but for the channel.
type looks struct {
	queue  pollQueue
	next   moment        // when pollLoop looks at the queue by itself
	tick   chan struct{} // the queue has a new first
	silent silence       // see unheard
}

// poll is when a reader is looked at next. Guarded by Tailer.mu.
type poll struct {
	at     moment
	looked moment // end of the last turn
	index  int32  // in the heap, from 1; 0: not in it
}

// unpoll cancels the planned turn of a reader. The caller holds mu.
func (t *Tailer) unpoll(r *reader) {
	if r.polled.index > 0 {
		heap.Remove(&t.looks.queue, int(r.polled.index)-1)
	}
}

// poll plans the next turn of an idle reader, if time alone may bring something, or no event or
// glance tells of a change. In a run --once only an error leads to another turn. The caller holds
// mu.
func (t *Tailer) poll(r *reader) {
	t.unpoll(r)
	if t.o.Once && r.failed == nil {
		return
	}
	now := now()
	wait, planned := finder.LookWait(finder.LookState{
		For:      now.since(r.shown.active),
		Told:     t.hears(r),
		Failed:   r.failed != nil,
		Pending:  r.life.IsGone() || (r.in.PartialLineWait > 0 || r.in.Joins() || r.path() != r.k.info.Info().First) && !r.atEnd,
		Reserved: r.reserved,
	})
	r.own().polled.looked = now
	if planned {
		t.lookAt(r, now.add(max(wait, t.pace(r))))
	}
}

// pace is how long a reader that is written to all the time waits between two looks.
// The caller holds mu.
func (t *Tailer) pace(r *reader) time.Duration {
	return finder.LookPace(finder.LookEvery(r.in.MaxWait), len(t.looks.queue))
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

// touched looks at the readers of a path after the kernel has reported a write to it.
func (t *Tailer) touched(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.byPath.Get(path) {
		t.apply(r, tracker.Heard{})
	}
}

// lookSoon gives a turn to a reader, because its file was written to; later if its last turn ended
// just now, so that a file that is written to all the time is read in larger pieces. The caller
// holds mu.
func (t *Tailer) lookSoon(r *reader) {
	pace := t.pace(r)
	next := r.polled.looked.add(pace)
	switch left := next.since(now()); {
	case left <= pace/4: // events come at this pace too, but a turn ends some time after the event
		t.unpoll(r)
		t.readyLocked(r)
	case r.polled.index == 0 || next < r.polled.at:
		t.unpoll(r)
		t.lookAt(r, next)
	}
}

// lookAt plans a turn of a reader, which must have none planned, and wakes pollLoop if it is the
// next one of all. The caller holds mu.
func (t *Tailer) lookAt(r *reader, at moment) {
	r.own().polled.at = at
	heap.Push(&t.looks.queue, r)
	if r.polled.index == 1 && at < t.looks.next {
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
	for {
		timer.Reset(t.pollDue())
		select {
		case <-timer.C:
		case <-t.looks.tick:
		case <-ctx.Done():
			return
		}
	}
}

// pollDue readies the readers whose planned time has come, and returns how long it is to
// the next.
func (t *Tailer) pollDue() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := now()
	for len(t.looks.queue) > 0 {
		r := t.looks.queue[0]
		if left := r.polled.at.since(now); left > 0 {
			t.looks.next = r.polled.at
			return left
		}
		heap.Pop(&t.looks.queue)
		t.readyLocked(r)
	}
	t.looks.next = now.add(time.Hour)
	return time.Hour
}

// pollQueue is a heap of readers by the time of their next look.
type pollQueue []*reader

func (q pollQueue) Len() int           { return len(q) }
func (q pollQueue) Less(i, j int) bool { return q[i].polled.at < q[j].polled.at }
func (q pollQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].polled.index, q[j].polled.index = int32(i+1), int32(j+1)
}

func (q *pollQueue) Push(x any) {
	r := x.(*reader)
	*q = append(*q, r)
	r.polled.index = int32(len(*q))
}

// Pop removes the last element, as package heap asks for it.
func (q *pollQueue) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.polled.index = 0
	return r
}

// moment is a time of this process in 8 bytes, in ns, for what is kept of every file. The
// zero moment is none. It keeps to the monotonic clock, as time.Time does.
type moment int64

// epoch is before all moments.
var epoch = time.Now().Add(-time.Hour)

func now() moment { return momentOf(time.Now()) }

// momentOf returns the time t as a moment, never 0, which stands for no time.
func momentOf(t time.Time) moment {
	if m := moment(t.Sub(epoch)); m != 0 {
		return m
	}
	return 1
}

// time returns a moment as a time.Time; the zero time if there is none.
func (m moment) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(m))
}

func (m moment) add(d time.Duration) moment   { return m + moment(d) }
func (m moment) since(o moment) time.Duration { return time.Duration(m - o) }
func (m moment) ago() time.Duration           { return now().since(m) }
