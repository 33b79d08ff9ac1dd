package spool

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// three returns a spool of one segment with payloads 1 to 3, closed in peace or
// killed, the segment's name, and where each frame begins and the last ends.
func three(t *testing.T, closed bool) (left *faultfs.FS, name string, offsets []int64) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	o.SegmentSize = 4 << 10
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, 1, 2, 3)
	must(t, list(fs, dir, func(e Entry) error {
		name = s.path(e.Segment)
		offsets = append(offsets, e.Offset)
		if len(offsets) == 3 {
			offsets = append(offsets, e.Offset+e.Size)
		}
		return nil
	}))
	left = fs.Crash(faultfs.Kill, 0)
	if must(t, s.Close()); closed {
		left = fs
	}
	return left, name, offsets
}

// found is what came of a spool with damage in it.
type found struct {
	drained []int
	named   []int // damaged, its ranges known
	told    bool  // there is a problem, or a payload of which not even ranges are known
}

func recovered(t *testing.T, disk durable.FS) (f found, s *Spool, err error) {
	o := testOptions(disk)
	name := func(p *record.Payload) {
		if p.Body != nil {
			t.Error("a damaged body is given out")
		}
		if n := int(p.ReadAt.Unix()); len(p.Cover) > 0 && p.ID == batchID(n) {
			f.named = append(f.named, n)
		} else {
			f.told = true
		}
	}
	o.Rebuild = func(p *record.Payload) error { name(p); return ErrGone }
	o.OnLost = func([]record.BatchID, *record.Payload) { f.told = true }
	s, rec, err := Open(dir, testConfig, o)
	if err != nil {
		return f, nil, err
	}
	must(t, s.heldAll(func(p *record.Payload, sound bool) bool {
		if !sound {
			name(p)
		}
		return sound
	}))
	f.told = f.told || len(rec.Problems) > 0
	f.drained = drain(t, s, here)
	return f, s, s.Close()
}

// One flipped bit costs the payload it is in and no other, is told, and never
// gives a payload that was not put. Where only the body is hurt its ranges are
// named. The segment is kept.
func TestOneFlippedBit(t *testing.T) {
	for _, closed := range []bool{true, false} {
		disk, name, at := three(t, closed)
		whole := disk.Content(name)
		step := int64(1)
		if testing.Short() {
			step = 7 // of another bit of each byte
		}
		for bit := int64(0); bit < at[3]*8; bit += step {
			i := bit / 8
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1 << (bit % 8)
			left := faultfs.New("/state", dir)
			left.SetContent(name, flipped)
			f, _, err := recovered(t, left)
			must(t, err)
			hurt := 0
			for hurt < 3 && i >= at[hurt] {
				hurt++
			}
			want := slices.DeleteFunc(upTo(3), func(n int) bool { return n == hurt })
			sound := slices.Equal(f.drained, upTo(3)) && len(f.named) == 0 // padding
			switch {
			case hurt == 0 && (len(f.drained) > 0 || !f.told):
				t.Fatalf("bit %d of the segment header: %+v", bit, f)
			case hurt > 0 && !sound && (!slices.Equal(f.drained, want) || !f.told && !slices.Equal(f.named, []int{hurt})):
				t.Fatalf("bit %d, in payload %d: %+v", bit, hurt, f)
			}
			names, _ := left.List(dir + "/" + damagedDir)
			if kept := len(names) == 1; !kept && !sound && closed && hurt > 0 || hurt == 0 && !kept {
				t.Fatalf("bit %d, in payload %d: %v is kept for people", bit, hurt, names)
			}
		}
	}
}

// A frame that is sound and is not of the payload that is asked for is not given for it.
func TestFrameOfAnotherPayload(t *testing.T) {
	disk, name, at := three(t, true)
	r := bytes.NewReader(disk.Content(name))
	if p, err := readFrame(r, at[0], at[1]-at[0], batchID(1), true); err != nil || p.ID != batchID(1) {
		t.Fatalf("the first: %+v, %v", p, err)
	}
	if p, err := readFrame(r, at[0], at[1]-at[0], batchID(2), true); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("asked for the second, the frame of the first gives %+v, %v", p, err)
	}
}

// A frame that has gone bad since the start gives an error, or the body that was put.
func TestOneFlippedBitWhileOpen(t *testing.T) {
	disk, name, at := three(t, true)
	whole := disk.Content(name)[at[0]:at[1]]
	for bit := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		p, err := readFrame(bytes.NewReader(b), 0, int64(len(b)), batchID(1), true)
		if err == nil && !bytes.Equal(p.Body, payload(1, here).Body) || err != nil && p != nil && p.Body != nil {
			t.Fatalf("bit %d: another body, %v", bit, err)
		}
	}
}

// A file that ends anywhere gives the payloads before that place.
func TestTornAtEveryByte(t *testing.T) {
	disk, name, at := three(t, false)
	whole := disk.Content(name)
	for cut := at[0]; cut < at[3]; cut++ {
		zeroed := append(bytes.Clone(whole[:cut]), make([]byte, int64(len(whole))-cut)...)
		for _, content := range [][]byte{whole[:cut], zeroed} {
			left := faultfs.New("/state", dir)
			left.SetContent(name, content)
			f, _, err := recovered(t, left)
			must(t, err)
			sound := 0
			for sound < 3 && int64(len(content)) >= at[sound+1] && bytes.Equal(content[:at[sound+1]], whole[:at[sound+1]]) {
				sound++
			}
			if !slices.Equal(f.drained, upTo(sound)) {
				t.Fatalf("cut at %d: %+v, want the first %d", cut, f, sound)
			}
			if len(segments(left)) > 0 || len(left.Content(dir+"/"+damagedDir)) > 0 {
				t.Fatalf("cut at %d: a torn segment is not gone when it is empty", cut)
			}
		}
	}
}

// A body that goes bad while the spool is open costs itself, with its ranges
// named; what is wholly gone is counted.
func TestDamageWhileOpen(t *testing.T) {
	f := func(hurt func(disk *faultfs.FS, name string, at []int64), wantDrained []int, wantNamed []int, wantGone int) {
		t.Helper()
		disk := faultfs.New("/state")
		o := testOptions(disk)
		var named []int
		gone := 0
		count := func(p *record.Payload) { p.Inputs(func(_ string, n int) { gone += n }) }
		o.Rebuild = func(p *record.Payload) error {
			if len(p.Cover) == 0 {
				count(p)
			} else {
				named = append(named, int(p.ReadAt.Unix()))
			}
			return ErrGone
		}
		o.OnLost = func(ids []record.BatchID, p *record.Payload) {
			for _, id := range ids {
				if id == (record.BatchID{}) {
					t.Error("a lost payload has no id")
				}
			}
			count(p)
		}
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, upTo(9)...) // three segments
		var names []string
		var at []int64
		must(t, list(disk, dir, func(e Entry) error {
			names, at = append(names, s.path(e.Segment)), append(at, e.Offset)
			return nil
		}))
		hurt(disk, names[3], at[3:6])
		if got := drain(t, s, here); !slices.Equal(got, wantDrained) {
			t.Errorf("drained %v, want %v", got, wantDrained)
		}
		if !slices.Equal(named, wantNamed) || gone != wantGone {
			t.Errorf("named %v and counted %d, want %v and %d", named, gone, wantNamed, wantGone)
		}
		if st := statsOf(s); st.Frames != 0 || len(st.Records) > 0 || len(st.Routes) > 0 {
			t.Errorf("emptied: %+v", st)
		}
		must(t, s.Close())
		if kept, _ := disk.List(dir + "/" + damagedDir); len(kept) == 0 && (len(wantNamed) > 0 || wantGone > 0 && wantGone < 18) {
			t.Error("the segment is not kept for people")
		}
	}
	flip := func(disk *faultfs.FS, name string, off int64) {
		b := disk.Content(name)
		b[off] ^= 4
		disk.SetContent(name, b)
	}
	all := upTo(9)
	f(func(*faultfs.FS, string, []int64) {}, all, nil, 0)
	f(func(d *faultfs.FS, name string, at []int64) { flip(d, name, at[2]-60) }, slices.Delete(upTo(9), 4, 5), []int{5}, 0) // body of 5
	f(func(d *faultfs.FS, name string, at []int64) { flip(d, name, at[1]+60) }, slices.Delete(upTo(9), 4, 5), nil, 6)      // meta of 5
	f(func(d *faultfs.FS, name string, at []int64) { flip(d, name, at[1]) }, all, nil, 0)                                  // header of 5: the index knows where it is
	f(func(d *faultfs.FS, name string, _ []int64) { flip(d, name, 3) }, all, nil, 0)
	f(func(d *faultfs.FS, name string, _ []int64) { must(t, d.Remove(name)) }, slices.Delete(upTo(9), 3, 6), nil, 5+6+7)
}

// failing is a disk on which some files cannot be read.
type failing struct {
	durable.FS
	err func(name string) error
}

func (f failing) Open(name string, flag int) (durable.File, error) {
	if err := f.err(name); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f.FS.Open(name, flag)
}

// A segment that cannot be read just now waits; one the medium has lost is told
// of and kept.
func TestUnreadableSegment(t *testing.T) {
	disk, name, _ := three(t, true)
	s, _ := open(t, disk)
	put(t, s, here, 4)
	must(t, s.Close())

	var err error
	o := testOptions(failing{disk, func(n string) error {
		if n == name {
			return err
		}
		return nil
	}})
	s, _ = openWith(t, testConfig, o)
	err = syscall.EMFILE
	if p := next(s, to(here)); p != nil || s.Stats().Frames != 4 {
		t.Errorf("got %v of a segment that cannot be read now, %+v", p, s.Stats())
	}
	err = nil
	if p := next(s, to(here)); p == nil || number(t, p) != 1 {
		t.Error("it does not come back when it can be read")
	}
	must(t, s.Close())

	err = syscall.EMFILE
	if _, _, got := Open(dir, testConfig, o); !errors.Is(got, syscall.EMFILE) {
		t.Errorf("open: %v, want the reason", got)
	}
	err = syscall.EIO
	f, _, got := recovered(t, o.FS)
	if must(t, got); !slices.Equal(f.drained, []int{4}) || !f.told {
		t.Errorf("%+v, want 4 and a problem", f)
	}
	if disk.Content(dir+"/"+damagedDir+strings.TrimPrefix(name, dir)) == nil {
		t.Error("the segment is not kept")
	}
}

// The folder may vanish while the spool is open: what was in it is counted, and
// a new one is made.
func TestFolderVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New("/state")
		o := testOptions(disk)
		gone := 0
		o.Rebuild = func(p *record.Payload) error { gone += p.Records; return ErrGone }
		o.OnLost = func(_ []record.BatchID, p *record.Payload) { gone += p.Records }
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1, 2, 3, 4)
		for _, n := range segments(disk) {
			must(t, disk.Remove(dir+"/"+n))
		}
		must(t, disk.Remove(dir))
		put(t, s, here, 5, 6, 7, 8)
		if got := drain(t, s, here); gone != 14 || !slices.Equal(got, []int{5, 6, 7, 8}) {
			t.Errorf("drained %v and %d records gone, want 5 to 8, and those of 1 to 4 counted", got, gone)
		}
		if st := s.Stats(); st.Frames != 0 {
			t.Errorf("emptied: %+v", st)
		}
		must(t, s.Close())
	})
}

// Segments in the folder damaged/ are never replaced by later ones.
func TestDamagedAreNeverReplaced(t *testing.T) {
	disk, name, at := three(t, true)
	for range 3 {
		b := disk.Content(name)
		b[at[3]-20] ^= 1
		disk.SetContent(name, b)
		_, _, err := recovered(t, disk)
		must(t, err)
		s, _ := open(t, disk)
		put(t, s, here, 1, 2, 3)
		must(t, s.Close())
		name = s.path(segments(disk)[0])
		at = at[:0]
		must(t, list(disk, dir, func(e Entry) error { at = append(at, e.Offset); return nil }))
		at = append(at, at[2]+(at[2]-at[1]))
	}
	if names, _ := disk.List(dir + "/" + damagedDir); len(names) != 3 {
		t.Errorf("%v are kept, want three", names)
	}
}

// Damage to the last frame of a segment that was not closed looks like a write under way:
// Recovery says that there was something.
func TestDamageThatLooksTorn(t *testing.T) {
	disk, name, at := three(t, false)
	whole := disk.Content(name)
	for _, hurt := range []bool{false, true} {
		left := faultfs.New("/state", dir)
		content := bytes.Clone(whole)
		if hurt {
			content[at[2]+8] ^= 1
		}
		left.SetContent(name, content)
		var s *Spool
		for start := range 3 { // the first two end before anybody has used the spool
			var rec *Recovery
			s, rec = open(t, left)
			if rec.Torn != hurt || rec.Lost {
				t.Errorf("start %d, hurt %v: torn %v, lost %v", start, hurt, rec.Torn, rec.Lost)
			}
			if start < 2 {
				must(t, s.Close())
			}
		}
		if next(s, to(here)) == nil {
			t.Error("nothing is given out")
		}
		must(t, s.Close())
		s, rec := open(t, left)
		if rec.Torn || rec.Lost {
			t.Errorf("hurt %v, and used since: torn %v, lost %v", hurt, rec.Torn, rec.Lost)
		}
		must(t, s.Close())
	}
}

// A segment that was cut after a kill shows by itself alone that something is missing: it
// stays until that is durable elsewhere, though nothing in it waits, the disk is full, or
// nobody has looked. Of a full disk it takes no more than what was written.
func TestCutSegmentStaysUntilItsLossIsKnown(t *testing.T) {
	disk, name, at := three(t, false)
	whole := disk.Content(name)
	for _, cut := range []int64{at[0] + 20, at[1], at[1] + 20} {
		synctest.Test(t, func(t *testing.T) {
			left := faultfs.New("/state", dir)
			left.SetContent(name, append(bytes.Clone(whole[:cut]), make([]byte, 100)...))
			var refuse atomic.Pointer[error]
			o := testOptions(left)
			o.BeforeUnlink = func() error {
				if err := refuse.Load(); err != nil {
					return *err
				}
				return nil
			}
			start := func() *Spool {
				s, rec := openWith(t, testConfig, o)
				if !rec.Lost && !rec.Torn {
					t.Errorf("cut to %d bytes: nothing seems to be missing", cut)
				}
				synctest.Wait()
				return s
			}
			s := start() // unused
			must(t, s.Close())
			full := error(faultfs.NoSpace)
			refuse.Store(&full)
			for range 2 {
				s = start()
				for p := next(s, to(here)); p != nil; p = next(s, to(here)) {
					s.Done(p.ID, record.Accepted)
				}
				waitFor(2 * again)
				must(t, s.Close())
				if got := int64(len(left.Content(name))); got > cut+unit {
					t.Errorf("cut to %d bytes: it takes %d of a full disk", cut, got)
				}
			}
			refuse.Store(nil)
			s = start()
			for p := next(s, to(here)); p != nil; p = next(s, to(here)) {
				s.Done(p.ID, record.Accepted)
			}
			waitFor(2 * again)
			if names := segments(left); len(names) > 0 {
				t.Errorf("cut to %d bytes: %v stay", cut, names)
			}
			must(t, s.Close())
		})
	}
}

// The index of a segment that is gone stays on a full disk until it is durable elsewhere
// what was lost.
func TestIndexStaysUntilItsLossIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, name := mixedSpool(t)
		var refuse atomic.Pointer[error]
		full := error(faultfs.NoSpace)
		refuse.Store(&full)
		o := testOptions(disk)
		o.BeforeUnlink = func() error {
			if err := refuse.Load(); err != nil {
				return *err
			}
			return nil
		}
		lost := 0
		o.OnLost = func(ids []record.BatchID, _ *record.Payload) { lost += len(ids) }
		o.Rebuild = func(p *record.Payload) error { lost++; return ErrGone }
		s, _ := openWith(t, testConfig, o)
		disk.Vanish(name)
		for _, r := range s.Routes() {
			if p := next(s, r); p != nil {
				t.Errorf("%v is given out", p.ID)
			}
		}
		waitFor(2 * again)
		must(t, s.Close())
		left := disk.Crash(faultfs.Kill, 0)
		if lost != 150 || left.Content(name+suffixOfIndex) == nil {
			t.Errorf("%d are lost, and the index is gone: %v", lost, left.Content(name+suffixOfIndex) == nil)
		}
		_, missing, _ := everything(t, left)
		if missing != 150 {
			t.Errorf("the next start misses %d", missing)
		}
	})
}

// A payload that is made again has as many attempts behind it as were made.
func TestRebuiltKnowsItsAttempts(t *testing.T) {
	disk, name, at := three(t, true)
	o := testOptions(disk)
	attempts := 0
	o.Rebuild = func(p *record.Payload) error {
		attempts = p.Attempt
		return ErrGone
	}
	s, _ := openWith(t, testConfig, o)
	p := next(s, to(here))
	p.Attempt += 3
	want := p.Attempt
	s.Return(p.ID)
	disk.Damage(name, func(b []byte) []byte { b[at[1]-8] ^= 1; return b })
	next(s, to(here))
	if attempts != want {
		t.Errorf("made again it has %d attempts, want %d", attempts, want)
	}
	must(t, s.Close())
}

// What is made again may be back before the frame that could not be read has ended.
func TestPutWhileItIsMadeAgain(t *testing.T) {
	disk, name, at := three(t, true)
	b := disk.Content(name)
	b[at[2]-60] ^= 4 // body of 2
	disk.SetContent(name, b)
	o := testOptions(disk)
	var s *Spool
	o.Rebuild = func(p *record.Payload) error {
		own := *p
		own.Body = body(int(p.ReadAt.Unix()), 500)
		must(t, s.Put(&own))
		return ErrGone
	}
	s, _ = openWith(t, testConfig, o)
	if got := drain(t, s, here); len(got) != 3 || !slices.Contains(got, 2) {
		t.Errorf("drained %v, want all", got)
	}
	must(t, s.Close())
}
