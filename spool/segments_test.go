package spool

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// TestSegmentsAreTold: whoever asked once knows of a segment before a Put into it returns,
// and that one goes before it does; what is there of others is found at a start.
func TestSegmentsAreTold(t *testing.T) {
	disk := faultfs.New("/state")
	o := testOptions(disk)
	var s *Spool
	var known [][]uint64
	o.OnSegments = func() { known = append(known, s.Segments()) }
	removing := errors.New("not yet")
	var atUnlink [][]uint64
	o.BeforeUnlink = func() error {
		atUnlink = append(atUnlink, known[len(known)-1])
		return removing
	}
	s, _ = openWith(t, testConfig, o)
	put(t, s, here, 1)
	if len(known) > 0 {
		t.Fatalf("told %v, and nobody asked", known)
	}
	if got := s.Segments(); !slices.Equal(got, []uint64{1}) {
		t.Fatalf("segments %v, want the first", got)
	}
	for n := 2; len(known) == 0; n++ {
		put(t, s, here, n)
	}
	if want := []uint64{1, 2}; !slices.Equal(known[0], want) || len(segments(disk)) != 2 {
		t.Fatalf("told %v, want %v", known, want)
	}
	for range 3 {
		s.Done(next(s, to(here)).ID, record.Accepted)
	}
	must(t, s.Close()) // it would be removed, but the journal is not synced
	if len(atUnlink) == 0 || !slices.Equal(atUnlink[0], []uint64{2}) {
		t.Fatalf("before the removal of the first segment it was known of %v", atUnlink)
	}
	disk.Vanish(dir + "/" + segments(disk)[0])
	_, rec := open(t, disk)
	if want := []uint64{1, 2}; !slices.Equal(rec.Segments, want) {
		t.Fatalf("there is something of %v, want %v: the index of the first one", rec.Segments, want)
	}
}

// TestWalkBesideARemoval: going through the spool passes over a segment that is being removed, all of
// whose payloads have ended; so a start does not fail because of it.
func TestWalkBesideARemoval(t *testing.T) {
	fs := faultfs.New("/state")
	started, release, removed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		if op.Kind == "remove" && strings.HasSuffix(op.Name, "2"+suffix) {
			close(started)
			<-release
		}
		return v
	}
	o := testOptions(fs)
	o.OnRemove = func([]record.BatchID) { close(removed) }
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, 1, 2, 7)
	put(t, s, dr, 3, 4, 5)
	put(t, s, here, 6)
	for p := next(s, to(dr)); p != nil; p = next(s, to(dr)) {
		s.Done(p.ID, record.Accepted)
	}
	<-started
	met := 0
	_, _, err := s.Held(nil, nil, func(*record.Payload, bool) bool {
		if met++; met == 1 {
			close(release)
			<-removed
		}
		return true
	})
	if err != nil || met != 4 {
		t.Errorf("met %d payloads: %v", met, err)
	}
	must(t, s.Close())
}
