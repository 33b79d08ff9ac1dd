package agenda

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

type event struct {
	name int
	slot Slot
}

// What is planned comes up in the order of its times, whatever else is planned and cancelled meanwhile.
func TestQueueComesUpInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	q := New(func(e *event) *Slot { return &e.slot })
	all := make([]event, 50)
	for i := range all {
		all[i].name = i
	}
	planned := func() (left []*event) {
		for i := range all {
			if all[i].slot.IsPlanned() {
				left = append(left, &all[i])
			}
		}
		slices.SortFunc(left, func(a, b *event) int { return int(a.slot.At - b.slot.At) })
		return left
	}
	for range 20_000 {
		e := &all[r.IntN(len(all))]
		switch before := planned(); {
		case r.IntN(3) == 0:
			q.Cancel(e)
			if e.slot.IsPlanned() {
				t.Fatalf("%d is planned after it was cancelled", e.name)
			}
		case r.IntN(2) == 0:
			now := Moment(r.IntN(1000))
			got, next := q.Due(now)
			switch {
			case got == nil && len(before) > 0 && (before[0].slot.At <= now || next != before[0].slot.At):
				t.Fatalf("nothing is due at %d, and the next at %d; the first is planned for %d", now, next, before[0].slot.At)
			case got != nil && (got.slot.At != before[0].slot.At || got.slot.At > now || got.slot.IsPlanned()):
				t.Fatalf("at %d %+v is due, the first is %+v", now, got, before[0])
			}
		case !e.slot.IsPlanned():
			at := Moment(r.IntN(1000))
			if first := q.Plan(e, at); first != (len(before) == 0 || at < before[0].slot.At) && at != before[0].slot.At {
				t.Fatalf("planned for %d it is first: %v; the first before is at %d", at, first, before[0].slot.At)
			}
		}
		if n := len(planned()); n != q.Len() {
			t.Fatalf("%d are planned, and the queue holds %d", n, q.Len())
		}
	}
}

func TestMoments(t *testing.T) {
	before := time.Now()
	m := Now()
	if at := m.Time(); at.Before(before) || at.After(time.Now()) {
		t.Errorf("now is %v, between %v and %v", at, before, time.Now())
	}
	if !Moment(0).Time().IsZero() || m.Add(time.Second).Since(m) != time.Second || m.Add(-time.Minute).Ago() < time.Minute {
		t.Error("moments do not count as times do")
	}
}
