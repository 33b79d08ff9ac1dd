package spool

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// What is sent elsewhere leaves once, also when the agent is killed meanwhile.
func TestReroute(t *testing.T) {
	for _, killed := range []bool{false, true} {
		fs := faultfs.New("/state")
		s, _ := open(t, fs)
		put(t, s, here, upTo(9)...)
		put(t, s, dr, 50)
		if n, err := s.Reroute(to(here), dr, nil); n != 9 || err != nil {
			t.Fatalf("moved %d: %v", n, err)
		}
		if killed {
			left := fs.Crash(faultfs.Kill, 0)
			must(t, s.Close())
			s, _ = open(t, left)
		}
		if n := s.Waiting(to(here)); n != 0 {
			t.Errorf("%d wait for the old cluster", n)
		}
		var got []int
		for p := next(s, to(dr)); p != nil; p = next(s, to(dr)) {
			got = append(got, int(p.ReadAt.Unix()))
			s.Done(p.ID, record.Accepted)
		}
		if want := append([]int{50}, upTo(9)...); !slices.Equal(got, want) {
			t.Errorf("drained %v of the new cluster, want %v", got, want)
		}
		must(t, s.Close())
	}
}

// TestListHasWhatMovedOnce: a payload of which the copy from before it moved is still there is listed
// once, for where it goes now.
func TestListHasWhatMovedOnce(t *testing.T) {
	disk := faultfs.New("/state")
	o := testOptions(disk)
	o.SegmentSize = 1 << 10 // several segments
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, 1, 2, 3)
	put(t, s, dr, 4)
	if n, err := s.Reroute(to(here), "https://moved", func(p *record.Payload) bool { return p.ReadAt.Unix() != 2 }); n != 2 || err != nil {
		t.Fatalf("moved %d, %v", n, err)
	}
	var got []string
	must(t, list(disk, dir, func(e Entry) error {
		got = append(got, fmt.Sprint(e.Payload.ReadAt.Unix(), " ", e.Payload.Route.Cluster))
		return nil
	}))
	slices.Sort(got)
	if want := []string{"1 https://moved", "2 " + to(here).Cluster, "3 https://moved", "4 " + to(dr).Cluster}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// TestRerouteBesideASender: what somebody has in hand stays with him, what rests until
// some time and what is not wanted keep their places, and how a payload ended that moved
// is known as long as its old frame is there.
func TestRerouteBesideASender(t *testing.T) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	var removed []record.BatchID
	o.OnRemove = func(ids []record.BatchID) { removed = append(removed, ids...) }
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, upTo(9)...)
	inHand := next(s, to(here))
	resting := next(s, to(here))
	s.ReturnUntil(resting.ID, time.Now().Add(time.Hour))
	odd := func(p *record.Payload) bool { return p.ReadAt.Unix()%2 == 1 }
	if n, err := s.Reroute(to(here), dr, odd); n != 4 || err != nil {
		t.Fatalf("moved %d of 1 to 9 but for the first, which is in hand: %v", n, err)
	}
	var got []int
	for p := next(s, to(dr)); p != nil; p = next(s, to(dr)) {
		got = append(got, int(p.ReadAt.Unix()))
		s.Done(p.ID, record.Accepted)
	}
	slices.Sort(got)
	if !slices.Equal(got, []int{3, 5, 7, 9}) {
		t.Errorf("%v went to the other cluster", got)
	}
	s.Return(inHand.ID)
	if got := drainKeeping(s, to(here)); !slices.Equal(got, []int{1, 2, 4, 6, 8}) {
		t.Errorf("%v are left in this order, want 1 and the even ones", got)
	}
	must(t, s.Close())
	for _, id := range removed {
		if n := slices.Index(upTo(9), numberOf(id)); n < 0 {
			t.Errorf("an unknown payload was removed")
		}
	}
	_, rec := open(t, fs)
	if len(rec.Missing) > 0 {
		t.Errorf("%d are missing", len(rec.Missing))
	}
}

// TestRerouteTellsWhereAPayloadGoes: whoever keeps the journal hears of the new cluster before the
// payload can be had for it, and of the old one again where the disk does not take it.
func TestRerouteTellsWhereAPayloadGoes(t *testing.T) {
	fs := faultfs.New("/state")
	full := false
	fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		if full && (op.Kind == "write" || op.Kind == "create" || op.Kind == "allocate") {
			v.Err = faultfs.NoSpace
		}
		return v
	}
	o := testOptions(fs)
	var told []string
	var s *Spool
	o.OnMove = func(p *record.Payload) {
		told = append(told, p.Route.Cluster)
		if n := s.Waiting(to(dr)); !full && n != len(told)-1 {
			t.Errorf("%d wait for the new cluster when the journal hears of number %d", n, len(told))
		}
	}
	s, _ = openWith(t, testConfig, o)
	put(t, s, here, 1, 2)
	if n, err := s.Reroute(to(here), dr, nil); n != 2 || err != nil {
		t.Fatalf("moved %d: %v", n, err)
	}
	if !slices.Equal(told, []string{dr, dr}) {
		t.Errorf("told of %q", told)
	}
	told, full = nil, true
	if n, err := s.Reroute(to(dr), here, nil); n != 0 || err == nil {
		t.Fatalf("moved %d on a full disk: %v", n, err)
	}
	if !slices.Equal(told, []string{here, dr}) {
		t.Errorf("told of %q on a full disk", told)
	}
	must(t, s.Close())
}

// drainKeeping takes everything of a route, and leaves it given out.
func drainKeeping(s *Spool, r record.Route) (ns []int) {
	for p := next(s, r); p != nil; p = next(s, r) {
		ns = append(ns, int(p.ReadAt.Unix()))
	}
	return ns
}

func numberOf(id record.BatchID) int {
	for n := range 1000 {
		if batchID(n) == id {
			return n
		}
	}
	return -1
}

// TestWhatMovedIsKnownUntilItsOldFrameGoes: a payload that moved and was accepted is not
// forgotten while a segment still has its old frame, from which a start would send it.
func TestWhatMovedIsKnownUntilItsOldFrameGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		o := testOptions(fs)
		var removed []int
		o.OnRemove = func(ids []record.BatchID) {
			for _, id := range ids {
				removed = append(removed, numberOf(id))
			}
		}
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1, 2, 7) // 2 and 7 stay, and the segment of all three with them
		if n, err := s.Reroute(to(here), dr, func(p *record.Payload) bool { return p.ReadAt.Unix() == 1 }); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		put(t, s, dr, 3, 4, 5) // fills the segment of the new frame
		for p := next(s, to(dr)); p != nil; p = next(s, to(dr)) {
			s.Done(p.ID, record.Accepted)
		}
		synctest.Wait()
		if slices.Sort(removed); !slices.Equal(removed, []int{3, 4}) {
			t.Errorf("%v are not remembered any more; want 3 and 4, which were with the new frame of 1", removed)
		}
		must(t, s.Close())
	})
}

// TestRemove: payloads that a person gives up are told of one by one and are gone for
// good; what is in hand, has ended or was never there is not touched.
func TestRemove(t *testing.T) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	dropped := map[int]string{}
	o.OnDrop = func(p *record.Payload, reason string) {
		if p.Body != nil || len(p.Cover) != 1 {
			t.Errorf("told of %+v", p)
		}
		dropped[int(p.ReadAt.Unix())] += reason
	}
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, upTo(9)...)
	inHand, resting, done := next(s, to(here)), next(s, to(here)), next(s, to(here))
	s.ReturnUntil(resting.ID, time.Now().Add(time.Hour))
	s.Done(done.ID, record.Accepted)
	ids := []record.BatchID{inHand.ID, resting.ID, done.ID, batchID(5), batchID(8), batchID(500)}
	n, records, busy, err := s.Remove(ids)
	if want := payload(2, here).Records + payload(5, here).Records + payload(8, here).Records; err != nil || n != 3 || records != want {
		t.Errorf("%d payloads, %d records, %v; want 3 and %d", n, records, err, want)
	}
	if !slices.Equal(busy, []record.BatchID{inHand.ID}) {
		t.Errorf("in hand: %v", busy)
	}
	if len(dropped) != 3 || dropped[2] != "removed" || dropped[5] != "removed" || dropped[8] != "removed" {
		t.Errorf("told of %v", dropped)
	}
	if n, _, _, err := s.Remove(ids[1:]); n != 0 || err != nil {
		t.Errorf("%d more were there: %v", n, err)
	}
	s.Return(inHand.ID)
	if got := drainKeeping(s, to(here)); !slices.Equal(got, []int{1, 4, 6, 7, 9}) {
		t.Errorf("left are %v", got)
	}
	if st := s.Stats(); st.Frames != 5 {
		t.Errorf("%d payloads are counted", st.Frames)
	}
}

// TestRemoveLooksAgain: a payload that was in hand when it was looked for, and came back
// before the end, is given up like the others.
func TestRemoveLooksAgain(t *testing.T) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	var s *Spool
	o.OnDrop = func(p *record.Payload, _ string) {
		if p.ID == batchID(2) {
			s.Return(batchID(1))
		}
	}
	s, _ = openWith(t, testConfig, o)
	put(t, s, here, 1, 2)
	if p := next(s, to(here)); p.ID != batchID(1) {
		t.Fatal("another one is first")
	}
	if n, _, busy, err := s.Remove([]record.BatchID{batchID(1), batchID(2)}); n != 2 || len(busy) > 0 || err != nil {
		t.Errorf("%d given up, %v busy: %v", n, busy, err)
	}
}
