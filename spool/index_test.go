package spool

import (
	"bytes"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unique"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// mixedSpool returns a closed spool of one segment with an index: payloads for
// three routes, some with records of two inputs.
func mixedSpool(t testing.TB) (disk *faultfs.FS, name string) {
	disk = faultfs.New("/state")
	o := testOptions(disk)
	o.SegmentSize = 1 << 20
	s, _ := openWith(t, testConfig, o)
	for n := 1; n <= 150; n++ {
		p := payload(n, []string{here, dr, "https://third"}[n%3])
		if n%10 == 0 {
			second := p.Pieces[0]
			second.File.Input = "another"
			second.Records = 3
			p.Pieces = append(p.Pieces, second)
			p.Records += 3
		}
		must(t, s.Put(p))
	}
	must(t, s.Close())
	return disk, dir + "/" + segments(disk)[0]
}

// nobody are no ids.
func nobody(func(record.BatchID) bool) {}

// noted adds up the records of what Held passes and what it meets, and says how many
// payloads it meets.
func noted(t testing.TB, s *Spool, ids iter.Seq[record.BatchID]) (sums map[string]int, met int) {
	more := map[string]int{}
	sums, _, err := s.Held(ids, nil, func(p *record.Payload, sound bool) bool {
		met++
		p.Inputs(func(input string, n int) { more[input] += n })
		return true
	})
	must(t, err)
	for input, n := range more {
		sums[input] += n
	}
	maps.DeleteFunc(sums, func(_ string, n int) bool { return n == 0 })
	return sums, met
}

// everything takes everything of three routes, and says what was counted as lost.
func everything(t testing.TB, disk durable.FS) (ids []record.BatchID, missing int, rec *Recovery) {
	o := testOptions(disk)
	o.Rebuild = func(*record.Payload) error { missing++; return ErrGone }
	o.OnLost = func(ids []record.BatchID, _ *record.Payload) { missing += len(ids) }
	s, rec, err := Open(dir, testConfig, o)
	must(t, err)
	for _, ids := range []iter.Seq[record.BatchID]{nobody, slices.Values([]record.BatchID{batchID(7), batchID(50), batchID(1000)}), nil} {
		before := statsOf(s)
		if sums, _ := noted(t, s, ids); !rec.Lost && !maps.Equal(sums, before.Records) {
			t.Errorf("records %v, %v are counted", sums, before.Records)
		}
		if after := statsOf(s); !rec.Lost && (after.Frames != before.Frames || !after.Oldest.Equal(before.Oldest)) {
			t.Errorf("%+v, and %+v before", after, before)
		}
	}
	for _, c := range []string{here, dr, "https://third"} {
		for p := next(s, to(c)); p != nil; p = next(s, to(c)) {
			ids = append(ids, p.ID)
			s.Done(p.ID, record.Accepted)
		}
	}
	if st := statsOf(s); st.Frames != 0 || len(st.Records) > 0 {
		t.Errorf("emptied: %+v", st)
	}
	must(t, s.Close())
	return ids, missing + len(rec.Missing), rec
}

// What the index says is what the segment says: with it, without it, and with any
// bit of it flipped, the same payloads come back in the same order.
func TestIndexSaysWhatTheSegmentSays(t *testing.T) {
	disk, name := mixedSpool(t)
	whole := contents(disk)
	with := func(index []byte) *faultfs.FS {
		fs := faultfs.New("/state", dir)
		fs.SetContent(name, []byte(whole[strings.TrimPrefix(name, dir+"/")]))
		if index != nil {
			fs.SetContent(name+suffixOfIndex, index)
		}
		return fs
	}
	index := disk.Content(name + suffixOfIndex)
	want, missing, _ := everything(t, with(nil))
	if len(want) != 150 || missing > 0 || index == nil {
		t.Fatalf("%d payloads without the index, %d missing", len(want), missing)
	}
	check := func(what string, at int, b []byte) {
		t.Helper()
		if got, missing, rec := everything(t, with(b)); !slices.Equal(got, want) || missing > 0 || rec.Lost {
			t.Fatalf("%s at %d: %d payloads, %d missing", what, at, len(got), missing)
		}
	}
	check("whole", 0, index)
	if s, _ := open(t, with(index)); true {
		if sums, met := noted(t, s, nobody); met > 0 || len(sums) != 3 {
			t.Errorf("%d payloads are read that nobody asks for, %v", met, sums)
		}
		if _, met := noted(t, s, slices.Values([]record.BatchID{batchID(7), batchID(50), batchID(1000)})); met < 2 || met > 4 {
			t.Errorf("%d payloads are read, want two", met)
		}
	}
	for i := range index {
		if i > 400 && i < len(index)-400 && i%97 != 0 || testing.Short() && i%7 != 0 {
			continue
		}
		b := bytes.Clone(index)
		b[i] ^= 1 << (i % 8)
		check("flipped", i, b)
		if i%5 == 0 {
			check("cut", i, index[:i])
		}
	}
}

// A token that a write has left torn, or that has a bit flipped, is none.
func TestTornTokenIsNone(t *testing.T) {
	disk, name := mixedSpool(t)
	index := disk.Content(name + suffixOfIndex)
	asked := map[[24]byte]int{}
	start := func(index []byte) {
		fs := faultfs.New("/state", dir)
		fs.SetContent(name, disk.Content(name))
		fs.SetContent(name+suffixOfIndex, index)
		o := testOptions(fs)
		o.Vouches = func(token [24]byte) bool { asked[token]++; return false }
		s, _ := openWith(t, testConfig, o)
		_, _ = noted(t, s, nobody)
		must(t, s.Close())
	}
	start(index)
	if len(asked) != 1 {
		t.Fatalf("the journal is asked about %v", asked)
	}
	for bit := range 28 * 8 {
		b := bytes.Clone(index)
		b[indexToken+bit/8] ^= 1 << (bit % 8)
		start(b)
	}
	if delete(asked, [24]byte{}); len(asked) != 1 {
		t.Errorf("the journal is asked about %d tokens, want the one that is whole", len(asked))
	}
}

// A segment that somebody cut is shorter than its index knows: what is gone is missing,
// and told by its ids.
func TestIndexKnowsWhereItsSegmentEnds(t *testing.T) {
	disk, name, at := three(t, true)
	for _, cut := range []int64{at[0], at[1], at[2] + 10, at[3] - 1, at[3]} {
		sound := 0
		for sound < 3 && at[sound+1] <= cut {
			sound++
		}
		fs := faultfs.New("/state", dir)
		fs.SetContent(name, disk.Content(name)[:cut])
		fs.SetContent(name+suffixOfIndex, disk.Content(name+suffixOfIndex))
		s, rec := open(t, fs)
		if !rec.Lost || len(rec.Missing) != 3-sound {
			t.Errorf("cut to %d bytes: lost %v, %d missing, want %d", cut, rec.Lost, len(rec.Missing), 3-sound)
		}
		if got := drain(t, s, here); !slices.Equal(got, upTo(sound)) {
			t.Errorf("cut to %d bytes: %v come back", cut, got)
		}
		must(t, s.Close())
	}
}

// Damage that comes to an index while it is in use costs nothing either.
func TestIndexDamagedWhileOpen(t *testing.T) {
	disk, name := mixedSpool(t)
	o := testOptions(disk)
	o.OnLost = func(ids []record.BatchID, _ *record.Payload) { t.Errorf("%d are lost", len(ids)) }
	s, _ := openWith(t, testConfig, o)
	s.Done(next(s, to(here)).ID, record.Accepted) // the rest of this route is read ahead
	kept := next(s, to(here))
	s.mu.Lock()
	x := s.segments[0].index
	x.f = broken{x.f}
	s.mu.Unlock()
	got := len(drainIDs(s, here)) + len(drainIDs(s, dr)) + len(drainIDs(s, "https://third"))
	s.Return(kept.ID)
	if got += len(drainIDs(s, here)); got != 149 {
		t.Errorf("%d payloads came back, want 149", got)
	}
	must(t, s.Close())
	if disk.Content(name) != nil {
		t.Error("the segment is not gone")
	}
}

// broken is an index on a part of the disk that cannot be read any more.
type broken struct{ durable.File }

func (broken) ReadAt([]byte, int64) (int, error) { return 0, syscall.EIO }

func drainIDs(s *Spool, cluster string) (ids []record.BatchID) {
	for p := next(s, to(cluster)); p != nil; p = next(s, to(cluster)) {
		ids = append(ids, p.ID)
		s.Done(p.ID, record.Accepted)
	}
	return ids
}

// Where index and segment are gone at the same time the records are counted.
func TestIndexAndSegmentGone(t *testing.T) {
	disk, name := mixedSpool(t)
	o := testOptions(disk)
	lost := map[string]int{}
	o.OnLost = func(_ []record.BatchID, what *record.Payload) {
		what.Inputs(func(in string, n int) { lost[in] += n })
	}
	s, _ := openWith(t, testConfig, o)
	want := statsOf(s).Records
	done, kept, back := next(s, to(here)), next(s, to(here)), next(s, to(here))
	s.Done(done.ID, record.Accepted)
	s.Return(back.ID)
	done.Inputs(func(in string, n int) { want[in] -= n })
	kept.Inputs(func(in string, n int) { want[in] -= n })
	s.mu.Lock()
	x := s.segments[0].index
	x.f = broken{x.f}
	s.mu.Unlock()
	must(t, disk.Remove(name))
	if p := next(s, to(dr)); p != nil {
		t.Errorf("got %v of a segment that is gone", p.ID)
	}
	if !maps.Equal(lost, want) {
		t.Errorf("counted %v, want %v", lost, want)
	}
	if st := statsOf(s); st.Frames != 1 || st.Taken != 1 {
		t.Errorf("%+v, want the one in hand", st)
	}
	s.Return(kept.ID) // it cannot be read again
	if p := next(s, to(here)); p != nil {
		t.Errorf("got %v of a segment that is gone", p.ID)
	}
	if st := statsOf(s); st.Frames != 0 || len(st.Records) > 0 {
		t.Errorf("emptied: %+v", st)
	}
	must(t, s.Close())
}

// A segment vanishes while payloads of it are in hand, and returned later: nothing
// runs off an index.
func TestSegmentGoneWhileInHand(t *testing.T) {
	for _, eio := range []bool{false, true} {
		disk, name := mixedSpool(t)
		bad := false
		o := testOptions(failing{disk, func(n string) error {
			if bad && n == name {
				return syscall.EIO
			}
			return nil
		}})
		o.OnLost = func(ids []record.BatchID, what *record.Payload) {
			if len(ids) == 0 || what.Records == 0 {
				t.Errorf("lost %d payloads of %d records", len(ids), what.Records)
			}
		}
		gone := 0
		o.Rebuild = func(*record.Payload) error { gone++; return ErrGone }
		s, _ := openWith(t, testConfig, o)
		var in []record.BatchID
		for range 5 {
			in = append(in, next(s, to(here)).ID)
		}
		if bad = eio; !eio {
			must(t, disk.Remove(name))
		}
		if p := next(s, to(here)); p != nil {
			t.Errorf("got %v", p.ID)
		}
		for _, id := range in {
			s.Return(id)
		}
		for range 7 {
			if p := next(s, to(here)); p != nil {
				t.Errorf("got %v", p.ID)
			}
		}
		if st := statsOf(s); st.Frames != 0 || st.Taken != 0 {
			t.Errorf("%+v, want nothing", st)
		}
		must(t, s.Close())
	}
}

// What is missing of a segment that was cut, or of one that was taken away, is told
// to the payload; what is left comes back.
func TestMissingIsCounted(t *testing.T) {
	for cut := range 10 {
		if testing.Short() && cut%4 != 0 {
			continue
		}
		disk, name := mixedSpool(t)
		b := disk.Content(name)
		disk.SetContent(name, b[:len(b)*cut/10])
		if cut == 0 {
			must(t, disk.Remove(name))
		}
		got, missing, rec := everything(t, disk)
		if len(got)+missing != 150 || !rec.Lost || len(rec.Problems) == 0 || cut > 0 && len(got) == 0 {
			t.Errorf("cut to %d tenths: %d come back and %d are missing, want 150 together: %q", cut, len(got), missing, rec.Problems)
		}
		for _, p := range rec.Missing {
			if p.ID == (record.BatchID{}) || slices.Contains(got, p.ID) || p.Records == 0 || len(p.Cover) > 0 {
				t.Errorf("missing %+v", p)
			}
		}
		if names, _ := disk.List(dir + "/" + damagedDir); len(names) == 0 {
			t.Errorf("cut to %d tenths: nothing is kept for people", cut)
		}
		_, missing, rec = everything(t, disk)
		if missing > 0 || !rec.Lost {
			t.Errorf("cut to %d tenths: at the next start %d are missing, lost %v", cut, missing, rec.Lost)
		}
	}
}

// A segment that was being written at a kill, and was cut then, has nothing that
// knows what it held: that something is missing is told all the same.
func TestCutAfterAKill(t *testing.T) {
	disk := faultfs.New("/state")
	o := testOptions(disk)
	o.SegmentSize = 64 << 10
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, upTo(50)...)
	left := disk.Crash(faultfs.Kill, 0)
	must(t, s.Close())
	name := dir + "/" + segments(left)[0]
	b := left.Content(name)
	var ends []int64
	must(t, list(left, dir, func(e Entry) error { ends = append(ends, e.Offset+e.Size); return nil }))
	for _, cut := range []int64{ends[39], ends[39] + 100, int64(len(b))} {
		fs := faultfs.New("/state", dir)
		fs.SetContent(name, b[:cut])
		s, rec, err := Open(dir, testConfig, o.with(fs))
		must(t, err)
		whole := cut == int64(len(b))
		if got := len(drain(t, s, here)); rec.Lost == whole || whole && got != 50 || !whole && (got != 40 || len(rec.Problems) == 0) {
			t.Errorf("cut to %d bytes: %d come back, lost %v, %q", cut, got, rec.Lost, rec.Problems)
		}
		must(t, s.Close())
	}
}

func (o Options) with(fs durable.FS) Options {
	o.FS = fs
	return o
}

// A meta that was damaged while nobody looked is found by the start.
func TestHeldFindsWhatIsMissing(t *testing.T) {
	disk, name := mixedSpool(t)
	var hurt Entry
	must(t, list(disk, dir, func(e Entry) error {
		if e.Payload.ID == batchID(77) {
			hurt = e
		}
		return nil
	}))
	b := disk.Content(name)
	b[hurt.Offset+60] ^= 8
	disk.SetContent(name, b)
	got, missing, rec := everything(t, disk)
	if len(got) != 149 || missing != 1 || len(rec.Missing) != 1 || rec.Missing[0].ID != batchID(77) || rec.Missing[0].Records != hurt.Payload.Records {
		t.Errorf("%d come back, %d are missing: %+v", len(got), missing, rec.Missing)
	}
}

// An index that a disk refuses is no reason to refuse a payload.
func TestIndexCannotBeWritten(t *testing.T) {
	disk := faultfs.New("/state")
	disk.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		if strings.Contains(op.Name, suffixOfIndex) {
			v.Err = errors.New("input/output error")
		}
		return v
	}
	s, _ := open(t, disk)
	put(t, s, here, upTo(20)...)
	must(t, s.Health())
	must(t, s.Close())
	s, rec := open(t, disk)
	if got := drain(t, s, here); !slices.Equal(got, upTo(20)) || rec.Lost {
		t.Errorf("drained %v, want 20", got)
	}
	must(t, s.Close())
	if left := segments(disk); len(left) > 0 {
		t.Errorf("%v left", left)
	}
}

func FuzzIndex(f *testing.F) {
	disk, name := mixedSpool(f)
	f.Add(disk.Content(name + suffixOfIndex))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := faultfs.New("/state", dir)
		fs.SetContent(name+suffixOfIndex, b)
		g := newSegment("x", 1)
		x, err := openIndex(fs, name+suffixOfIndex, g)
		if err != nil {
			return
		}
		n := 0
		err = x.read(g, 0, x.n, func(e *slot) { n++; g.counts(e, func(string, int) {}) })
		if err == nil && n != x.n {
			t.Errorf("%d slots of %d", n, x.n)
		}
	})
}

// What a segment holds behind the end that its index knows is cut off at a start: it is of a
// write that failed, and must not come to light when the index is lost later.
func TestFramesBehindTheIndexAreCutOff(t *testing.T) {
	disk, name := mixedSpool(t)
	index := disk.Content(name + suffixOfIndex)
	s, _ := open(t, disk)
	must(t, s.Put(payload(1000, here)))
	more := disk.Content(dir + "/" + segments(disk)[1])
	must(t, s.Close())

	fs := faultfs.New("/state", dir)
	whole := disk.Content(name)
	fs.SetContent(name, append(bytes.Clone(whole), more...))
	fs.SetContent(name+suffixOfIndex, index)
	s, _ = open(t, fs)
	must(t, s.Close())
	if n := len(fs.Content(name)); n != len(whole) {
		t.Errorf("the segment has %d bytes after a start, its index knows %d", n, len(whole))
	}
}

// What a journal does not vouch for is read, until it does. What it does not know yet it
// is not asked about.
func TestVouch(t *testing.T) {
	disk := faultfs.New("/state")
	o := testOptions(disk)
	o.Vouch = func() (token [24]byte, err error) { return token, errors.New("journal cannot be written") }
	s, _ := openWith(t, testConfig, o)
	half := payload(8, here)
	half.Replaces = batchID(3)
	put(t, s, here, upTo(7)...)
	must(t, s.Put(half))
	must(t, s.Close())

	o = testOptions(disk)
	var asked atomic.Int32
	vouch := o.Vouch
	o.Vouch = func() ([24]byte, error) { asked.Add(1); return vouch() }
	s, _ = openWith(t, testConfig, o)
	must(t, s.Close())
	if asked.Load() != 0 {
		t.Error("the journal is asked to vouch for what it was not told of")
	}
	for i, want := range []int{8, 1, 1} {
		s, _ = openWith(t, testConfig, o)
		if _, met := noted(t, s, nobody); met != want {
			t.Errorf("start %d: %d are read, want %d", i, met, want)
		}
		over := func(id record.BatchID) bool { return id == batchID(2) || id == half.ID }
		_, _, err := s.Held(slices.Values([]record.BatchID{batchID(2)}), over, func(p *record.Payload, _ bool) bool {
			if p.ID == batchID(2) {
				t.Error("what is over is read")
			}
			return true
		})
		must(t, err)
		if st := s.Stats(); st.Frames != 7 {
			t.Errorf("start %d: %d payloads, want 7", i, st.Frames)
		}
		there := map[record.BatchID]bool{}
		must(t, s.Which(slices.Values([]record.BatchID{batchID(2), batchID(3), batchID(100)}), func(id record.BatchID) { there[id] = true }))
		if !there[batchID(3)] || there[batchID(2)] || there[batchID(100)] {
			t.Errorf("start %d: %v are there", i, there)
		}
		must(t, s.Close())
	}
	if n := asked.Load(); n < 1 || n > 3 {
		t.Errorf("the journal vouched %d times, want once for each of three segments at most", n)
	}
}

// A segment of which a frame cannot be found is read at the next start too: the payload may
// be known nowhere else, and reads by the index may find it.
func TestNoVouchForWhatIsMissing(t *testing.T) {
	disk := faultfs.New("/state")
	o := testOptions(disk)
	o.Vouch = func() (token [24]byte, err error) { return token, errors.New("journal cannot be written") }
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, 1, 2, 3)
	var second Entry
	must(t, list(disk, dir, func(e Entry) error {
		if e.Payload.ID == batchID(2) {
			second = e
		}
		return nil
	}))
	must(t, s.Close())
	disk.Damage(dir+"/"+second.Segment, func(b []byte) []byte { b[second.Offset+1] ^= 1; return b })
	for start := range 2 {
		s, _ = openWith(t, testConfig, testOptions(disk))
		_, lost, err := s.Held(slices.Values([]record.BatchID{}), nil, func(*record.Payload, bool) bool { return true })
		must(t, err)
		if len(lost) != 1 {
			t.Errorf("start %d: lost %v, want the records of one payload", start, lost)
		}
		must(t, s.Close())
	}
}

// TestLaneEmptiedMeanwhile has another reader send all of a route between the moment that a
// reader finds that slots are to be read and the moment that it reads them.
func TestLaneEmptiedMeanwhile(t *testing.T) {
	disk := faultfs.New("/state")
	s, _ := openWith(t, testConfig, testOptions(disk))
	put(t, s, here, 1, 2, 3)
	must(t, s.Close())
	s, _ = openWith(t, testConfig, testOptions(disk))
	route := unique.Make(to(here))
	s.mu.Lock()
	_, late := s.pick(route)
	if late.sh == nil {
		t.Fatal("nothing is to be read from the index")
	}
	s.mu.Unlock()
	for n := 1; n <= 3; n++ {
		p := next(s, to(here))
		if got := number(t, p); got != n {
			t.Fatalf("payload %d, want %d", got, n)
		}
		s.Done(p.ID, record.Accepted)
	}
	if len(s.Routes()) > 0 {
		t.Fatalf("%v wait, want none", s.Routes())
	}
	s.load(late)
	if p := next(s, to(here)); p != nil {
		t.Fatalf("payload %d is given again", number(t, p))
	}
	must(t, s.Close())
}
