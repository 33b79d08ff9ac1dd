package tail

import (
	"container/heap"
	"context"
	"time"
)

// A file that grew lately is looked at often, and less often the longer it
// rests. One that rests for activeFor is left to events, where they can be
// had, and to those who look for files, see Tailer.discover.
const (
	pollFast  = 20 * time.Millisecond
	pollSlow  = 250 * time.Millisecond
	pollIdle  = time.Second
	activeFor = 10 * time.Second
	pollCost  = 100 * time.Microsecond // looks come no closer, all files together
)

// poll is when a reader is looked at next. Guarded by Tailer.mu.
type poll struct {
	at    time.Time
	index int  // in the heap, from 1; 0: not in it
	safe  bool // a turn is wanted when more is safe
}

// poll plans the next look at a reader. The caller holds mu.
func (t *Tailer) poll(r *reader) {
	if r.polled.index > 0 {
		heap.Remove(&t.polls, r.polled.index-1)
	}
	if r.run == ended || t.o.Once && r.shown.failed == "" {
		return
	}
	rested := time.Since(r.shown.active)
	wait := min(max(rested/4, pollFast), pollSlow)
	switch {
	case r.shown.failed != "":
		wait = pollIdle
	case r.gone || (r.in.PartialLineWait > 0 || r.in.joins()) && !r.shown.atEnd:
		wait = max(wait, pollSlow)
	case rested < activeFor:
	case r.shown.reserved:
		wait = pollIdle
	default:
		return
	}
	wait = max(wait, time.Duration(len(t.polls))*pollCost)
	r.polled.at = time.Now().Add(wait)
	heap.Push(&t.polls, r)
	if r.polled.index == 1 {
		select {
		case t.tick <- struct{}{}:
		default:
		}
	}
}

// pollLoop gives turns to readers whose time has come, until ctx ends.
func (t *Tailer) pollLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(t.pollDue())
		select {
		case <-timer.C:
		case <-t.tick:
		case <-ctx.Done():
			return
		}
	}
}

// pollDue readies what is due and returns how long the next one has.
func (t *Tailer) pollDue() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for len(t.polls) > 0 {
		r := t.polls[0]
		if left := r.polled.at.Sub(now); left > 0 {
			return left
		}
		heap.Pop(&t.polls)
		t.readyLocked(r)
	}
	return time.Hour
}

// pollQueue is a heap of readers by the time of their next look.
type pollQueue []*reader

func (q pollQueue) Len() int           { return len(q) }
func (q pollQueue) Less(i, j int) bool { return q[i].polled.at.Before(q[j].polled.at) }
func (q pollQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].polled.index, q[j].polled.index = i+1, j+1
}

func (q *pollQueue) Push(x any) {
	r := x.(*reader)
	*q = append(*q, r)
	r.polled.index = len(*q)
}

func (q *pollQueue) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.polled.index = 0
	return r
}
