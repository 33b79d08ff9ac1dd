package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// heldAll is Held with all that waits.
func (s *Spool) heldAll(fn func(p *record.Payload, sound bool) bool) error {
	_, _, err := s.Held(nil, nil, fn)
	return err
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	dir  = "/state/spool"
	here = "https://here"
	dr   = "https://dr"
)

var testConfig = Config{MaxSize: 64 * units.MiB, WhenFull: "block"}

// testOptions make segments of three payloads on a disk with room, beside a journal
// that never forgets.
func testOptions(fs durable.FS) Options {
	return Options{
		FS: fs, Stall: time.Hour, SegmentSize: 2500, Free: func(string) (int64, error) { return 1 << 40, nil },
		Vouch:   func() ([24]byte, error) { return [24]byte{1, 2, 23: 3}, nil },
		Vouches: func(token [24]byte) bool { return token == [24]byte{1, 2, 23: 3} },
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, fs durable.FS) (*Spool, *Recovery) {
	t.Helper()
	return openWith(t, testConfig, testOptions(fs))
}

func openWith(t testing.TB, cfg Config, o Options) (*Spool, *Recovery) {
	t.Helper()
	s, rec, err := Open(dir, cfg, o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s, rec
}

func batchID(n int) (id record.BatchID) {
	binary.BigEndian.PutUint64(id[:], uint64(n)*0x9e3779b97f4a7c15)
	id[15] = byte(n) | 1
	return id
}

// to is the route of a test to a cluster.
func to(cluster string) record.Route {
	return record.Route{Cluster: cluster, Database: "d", Table: "t", Format: record.JSON, Mapping: "m"}
}

// payload is the n'th of a test: about 500 bytes that no other has.
func payload(n int, cluster string) *record.Payload {
	f := record.File{Input: fmt.Sprint("in", n%2), ID: record.FileID(n % 3), Generation: 1}
	span := record.Span{Start: int64(n) * 1000, End: int64(n)*1000 + 1000}
	p := &record.Payload{
		ID: batchID(n), Attempt: n % 4, Records: n%7 + 1, RawBytes: 1000, CRC: uint32(n), Gzip: n%2 == 0, Shaping: uint64(n) << 40,
		Route:  to(cluster),
		Cover:  []record.Extent{{File: f, Span: span, Mark: record.Mark(n * 31)}},
		Pieces: []record.Piece{{File: f, Span: span, Records: n%7 + 1}},
		Body:   body(n, 500), ReadAt: time.Unix(int64(n), 7),
	}
	if n%3 == 0 {
		p.Lens = []byte{1, 2, byte(n)}
	}
	return p
}

func body(n, size int) []byte {
	b := make([]byte, size)
	r := rand.NewPCG(uint64(n), 1)
	for i := range b {
		b[i] = byte(r.Uint64())
	}
	return b
}

func put(t testing.TB, s *Spool, cluster string, ns ...int) {
	t.Helper()
	for _, n := range ns {
		must(t, s.Put(payload(n, cluster)))
	}
}

// number says which payload of the test p is, all of it.
func number(t testing.TB, p *record.Payload) int {
	t.Helper()
	n := int(p.ReadAt.Unix())
	if want := payload(n, p.Route.Cluster); !reflect.DeepEqual(p, want) {
		t.Fatalf("payload %d came back as %+v, want %+v", n, p, want)
	}
	return n
}

func next(s *Spool, r record.Route) *record.Payload {
	p, frame := s.Next(r)
	if p != nil && frame != p.ID {
		panic("a payload is known by another id than its own")
	}
	return p
}

// drain takes and ends everything of a cluster.
func drain(t testing.TB, s *Spool, cluster string) (ns []int) {
	t.Helper()
	for p := next(s, to(cluster)); p != nil; p = next(s, to(cluster)) {
		ns = append(ns, number(t, p))
		s.Done(p.ID, record.Accepted)
	}
	return ns
}

func segments(fs *faultfs.FS) (out []string) {
	names, _ := fs.List(dir)
	for _, n := range names {
		of, isIndex := strings.CutSuffix(n, suffixOfIndex)
		if strings.Contains(n, suffix) && !(isIndex && slices.Contains(names, of)) {
			out = append(out, n)
		}
	}
	return out
}

func contents(fs *faultfs.FS) map[string]string {
	out := map[string]string{}
	names, _ := fs.List(dir)
	for _, n := range names {
		out[n] = string(fs.Content(dir + "/" + n))
	}
	return out
}

func upTo(n int) (ns []int) {
	for i := range n {
		ns = append(ns, i+1)
	}
	return ns
}

func TestOldestComesBackFirst(t *testing.T) {
	fs := faultfs.New("/state")
	s, _ := open(t, fs)
	put(t, s, here, upTo(5)...)
	put(t, s, dr, 50, 51)
	put(t, s, here, 6, 7, 8)
	first, second := next(s, to(here)), next(s, to(here))
	if number(t, first) != 1 || number(t, second) != 2 {
		t.Errorf("got %d and %d, want 1 and 2", number(t, first), number(t, second))
	}
	s.Return(second.ID)
	s.Return(first.ID)
	if got := drain(t, s, here); !slices.Equal(got, upTo(8)) {
		t.Errorf("drained %v, want 1 to 8: what was returned keeps its place", got)
	}
	if got := drain(t, s, dr); !slices.Equal(got, []int{50, 51}) {
		t.Errorf("drained %v of the other cluster, want 50 and 51", got)
	}
	if p := next(s, to("https://nobody")); p != nil {
		t.Errorf("got %v for a cluster without payloads", p)
	}
}

func TestRestartKeepsAllAndItsOrder(t *testing.T) {
	fs := faultfs.New("/state")
	s, _ := open(t, fs)
	put(t, s, here, upTo(9)...)
	put(t, s, dr, 50)
	p := next(s, to(here))
	s.Done(p.ID, record.Accepted) // as the journal knows
	next(s, to(here))             // under way when the agent stops
	must(t, s.Close())

	s, rec := open(t, fs)
	if len(rec.Problems) > 0 || rec.Lost {
		t.Errorf("recovery %+v, want no problems", rec)
	}
	var held []int
	must(t, s.heldAll(func(q *record.Payload, sound bool) bool {
		held = append(held, int(q.ReadAt.Unix()))
		if !sound || q.Body != nil || len(q.Cover) != 1 || q.Cover[0].Mark == 0 {
			t.Errorf("described as %+v", q)
		}
		return q.ID != p.ID
	}))
	if want := append(upTo(9), 50); !slices.Equal(held, want) {
		t.Errorf("held %v, want %v", held, want)
	}
	s.Attempted(batchID(2), 9)
	if q := next(s, to(here)); q.ID != batchID(2) || q.Attempt != 9 {
		t.Errorf("next is %v, attempt %d, want 2 after its attempt 9", q.ID, q.Attempt)
	} else {
		q.Attempt = 11
		s.Return(q.ID)
		if q = next(s, to(here)); q.Attempt != 11 {
			t.Errorf("attempt %d after a return, want 11", q.Attempt)
		}
		s.Done(q.ID, record.Quarantined)
	}
	if got := drain(t, s, here); !slices.Equal(got, upTo(9)[2:]) {
		t.Errorf("drained %v, want 3 to 9", got)
	}
	drain(t, s, dr)
	must(t, s.Close())
	if left := segments(fs); len(left) > 0 {
		t.Errorf("%v left in an empty spool", left)
	}
}

// A payload is there until it has ended, and its id is told when its segment goes.
func TestHasUntilItEnds(t *testing.T) {
	o := testOptions(faultfs.New("/state"))
	removed := map[record.BatchID]bool{}
	o.OnRemove = func(ids []record.BatchID) {
		for _, id := range ids {
			removed[id] = true
		}
	}
	s, _ := openWith(t, testConfig, o)
	put(t, s, here, 1, 2, 3)
	s.Done(next(s, to(here)).ID, record.Quarantined)
	s.Done(batchID(3), record.Accepted)
	for n, want := range map[int]bool{1: false, 2: true, 3: false, 4: false} {
		if s.Has(batchID(n)) != want {
			t.Errorf("has payload %d: %v, want %v", n, !want, want)
		}
	}
	if s.Waiting(to(here)) != 1 || !slices.Equal(s.Routes(), []record.Route{to(here)}) {
		t.Errorf("%d wait for %v, want one", s.Waiting(to(here)), s.Routes())
	}
	next(s, to(here))
	if !s.Has(batchID(2)) || s.Waiting(to(here)) != 0 || len(s.Routes()) > 0 {
		t.Error("a payload that is given out is in the spool still, and does not wait")
	}
	s.Done(batchID(2), record.Split)
	must(t, s.Close())
	if len(removed) != 3 {
		t.Errorf("%d payloads were told to be gone, want 3", len(removed))
	}
}

// A payload that is held is durable and with whoever put it, until it is
// returned.
func TestHold(t *testing.T) {
	fs := faultfs.New("/state")
	s, _ := open(t, fs)
	p := payload(1, here)
	must(t, s.Hold(p))
	if !s.Has(p.ID) || s.Waiting(to(here)) != 0 || next(s, to(here)) != nil || statsOf(s).Taken != 1 {
		t.Errorf("held: %+v", s.Stats())
	}
	p.Attempt = 5
	s.Return(p.ID)
	if q := next(s, to(here)); q == nil || q.Attempt != 5 || !bytes.Equal(q.Body, p.Body) {
		t.Errorf("returned: %+v", q)
	}
	must(t, s.Close())
	s, _ = open(t, fs)
	if s.Waiting(to(here)) != 1 {
		t.Error("what was held does not wait after a restart")
	}
	s.Done(p.ID, record.Accepted)
	must(t, s.Close())
}

// What cannot be read and is made again is given out like any other, and its
// frame stays until it has ended.
func TestRebuilt(t *testing.T) {
	disk, name, at := three(t, true)
	b := disk.Content(name)
	b[at[2]-60] ^= 4 // body of 2
	disk.SetContent(name, b)
	o := testOptions(disk)
	busy := true
	o.Rebuild = func(p *record.Payload) error {
		if busy {
			return errors.New("not just now")
		}
		p.Body = body(int(p.ReadAt.Unix()), 500)
		return nil
	}
	var logs bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&logs, nil))
	s, _ := openWith(t, testConfig, o)
	first := next(s, to(here))
	for range 5 {
		if p := next(s, to(here)); p != nil || s.Waiting(to(here)) != 2 {
			t.Errorf("got %v while it cannot be made again", p)
		}
	}
	if n := strings.Count(logs.String(), "level="); n != 2 {
		t.Errorf("told %d times, want the damage and why it is not mended:\n%s", n, logs.String())
	}
	busy = false
	p := next(s, to(here))
	if p == nil || number(t, p) != 2 || !s.Has(p.ID) {
		t.Fatalf("made again: %+v", p)
	}
	s.Return(p.ID)
	s.Return(first.ID)
	if got := drain(t, s, here); !slices.Equal(got, upTo(3)) {
		t.Errorf("drained %v, want all", got)
	}
	must(t, s.Close())
}

func TestStats(t *testing.T) {
	fs := faultfs.New("/state")
	o := testOptions(fs)
	wall := handClock{at: time.Unix(1000, 0)}
	o.Now, o.Elapsed = wall.now, wall.elapsed
	s, _ := openWith(t, testConfig, o)
	if st := statsOf(s); st.Bytes != 0 || st.Frames != 0 || !st.Oldest.IsZero() {
		t.Errorf("empty spool: %+v", st)
	}
	for n := 1; n <= 8; n++ {
		put(t, s, here, n)
		wall.add(time.Second)
	}
	put(t, s, dr, 9)
	check := func(s *Spool, frames, taken int, oldest, oldestDR int64, in0, in1 int) {
		t.Helper()
		st := statsOf(s)
		if st.Frames != frames || st.Taken != taken || st.Oldest.Unix() != oldest || st.OldestOf[to(dr)].Unix() != oldestDR ||
			st.Records["in0"] != in0 || st.Records["in1"] != in1 || st.Routes[to(here)] != frames-1 {
			t.Errorf("%+v, want %d frames, %d taken, since %d and %d, %d and %d records", st, frames, taken, oldest, oldestDR, in0, in1)
		}
		var size int64
		for _, b := range contents(fs) {
			size += int64(len(b))
		}
		if st.Bytes > size { // what is allocated in advance is no content
			t.Errorf("%d bytes, the files have %d", st.Bytes, size)
		}
	}
	check(s, 9, 0, 1000, 1008, 3+5+7+2, 2+4+6+1+3)
	p := next(s, to(here))
	check(s, 9, 1, 1000, 1008, 3+5+7+2, 2+4+6+1+3)
	s.Done(p.ID, record.Accepted)
	check(s, 8, 0, 1001, 1008, 3+5+7+2, 4+6+1+3)
	must(t, s.Close())
	s, rec := openWith(t, testConfig, o)
	if s.Done(p.ID, record.Accepted); rec.Frames != 9 {
		t.Errorf("recovered %d frames, want 9", rec.Frames)
	}
	check(s, 8, 0, 1001, 1008, 3+5+7+2, 4+6+1+3)
}

// Puts that come together share a sync.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const puts = 50
		fs := faultfs.New("/state")
		gate := make(chan struct{})
		var syncs atomic.Int32
		var held atomic.Bool
		fs.Judge = func(op faultfs.Op) faultfs.Verdict {
			if op.Kind == "sync" {
				if syncs.Add(1); held.Load() {
					<-gate
				}
			}
			return faultfs.Verdict{}
		}
		o := testOptions(fs)
		o.SegmentSize = 1 << 20
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, 1)
		before := syncs.Load()
		held.Store(true)
		var wg sync.WaitGroup
		for n := range puts {
			wg.Go(func() { put(t, s, here, 100+n) }) // ends with its Put, awaited below
		}
		synctest.Wait()
		held.Store(false)
		close(gate)
		wg.Wait()
		if got := syncs.Load() - before; got > 2 {
			t.Errorf("%d syncs for %d puts at the same time, want 2", got, puts)
		}
		if got := drain(t, s, here); len(got) != puts+1 {
			t.Errorf("%d came back, want %d", len(got), puts+1)
		}
		must(t, s.Close())
	})
}

// Nothing is on disk before the first Put, and nothing is left on it a little
// after the last payload has ended.
func TestDiskIsUntouchedWhenTheServiceIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		s, _ := open(t, fs)
		synctest.Wait()
		if left := segments(fs); len(left) > 0 {
			t.Errorf("%v before the first put", left)
		}
		for n := range 3 { // comes and goes: one segment
			put(t, s, here, n)
			drain(t, s, here)
			synctest.Wait()
		}
		if got := segments(fs); len(got) != 1 {
			t.Errorf("%v, want the one being written", got)
		}
		waitFor(linger + time.Second)
		if left := segments(fs); len(left) > 0 || s.Stats().Bytes != 0 {
			t.Errorf("%v and %d bytes left in an empty spool", left, s.Stats().Bytes)
		}
		put(t, s, here, 7)
		must(t, s.Close())
		s, _ = open(t, fs)
		if got := drain(t, s, here); !slices.Equal(got, []int{7}) {
			t.Errorf("drained %v, want 7", got)
		}
		must(t, s.Close())
	})
}

// A segment goes after how its payloads ended is durable elsewhere, and not as
// long as that cannot be had, unless the disk is full.
func TestBeforeUnlink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		var mu sync.Mutex // guards the three below
		done, synced := 0, 0
		var refuse error
		set := func(err error) { mu.Lock(); defer mu.Unlock(); refuse = err }
		fs.Judge = func(op faultfs.Op) faultfs.Verdict {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind == "remove" && refuse == nil && strings.HasSuffix(op.Name, suffix) && synced != done {
				t.Errorf("%s removed with %d ends, %d of them synced", op.Name, done, synced)
			}
			return faultfs.Verdict{}
		}
		o := testOptions(fs)
		o.BeforeUnlink = func() error {
			mu.Lock()
			defer mu.Unlock()
			if refuse == nil {
				synced = done
			}
			return refuse
		}
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, upTo(20)...)
		before := len(segments(fs))
		end := func(n int) {
			for range n {
				p := next(s, to(here))
				mu.Lock()
				done++
				mu.Unlock()
				s.Done(p.ID, record.Accepted)
				synctest.Wait()
			}
		}
		end(6)
		if n := len(segments(fs)); n != before-2 {
			t.Errorf("%d segments of %d after six ends, want two less", n, before)
		}
		set(record.ErrStalled)
		end(6)
		if n := len(segments(fs)); n != before-2 {
			t.Errorf("%d segments of %d removed without a sync", n, before)
		}
		set(nil)
		waitFor(again + time.Second)
		if n := len(segments(fs)); n != before-4 {
			t.Errorf("%d segments of %d, want four less by itself", n, before)
		}
		set(faultfs.NoSpace)
		end(3)
		if n := len(segments(fs)); n != before-5 {
			t.Errorf("%d segments of %d on a full disk, want five less", n, before)
		}
		must(t, s.Close())
	})
}

// When others are told that payloads are removed, no power cut brings them back: nobody
// knows any more how they ended.
func TestRemovalIsDurableBeforeItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.New("/state")
		o := testOptions(fs)
		told := 0
		o.OnRemove = func(ids []record.BatchID) {
			told += len(ids)
			left, _ := openWith(t, testConfig, testOptions(fs.Crash(faultfs.Drop, 0)))
			must(t, left.heldAll(func(p *record.Payload, _ bool) bool {
				if slices.Contains(ids, p.ID) {
					t.Errorf("a power cut brings payload %d back", p.ReadAt.Unix())
				}
				return true
			}))
			must(t, left.Close())
		}
		s, _ := openWith(t, testConfig, o)
		put(t, s, here, upTo(9)...)
		drain(t, s, here)
		must(t, s.Close())
		if told != 9 {
			t.Errorf("%d payloads were told to be removed, want all", told)
		}
	})
}

func TestOffAndClosed(t *testing.T) {
	fs := faultfs.New("/state")
	s, _ := open(t, fs)
	put(t, s, here, 1, 2)
	if p := next(s, to(here)); s.Put(p) != nil || statsOf(s).Frames != 2 || statsOf(s).Taken != 0 {
		t.Errorf("a payload that was given out is not returned by Put: %+v", s.Stats())
	}
	must(t, s.Close())
	must(t, s.Close())
	if err := s.Put(payload(3, here)); !errors.Is(err, ErrClosed) {
		t.Errorf("put after close: %v", err)
	}
	off := testConfig
	off.MaxSize = 0
	s, _ = openWith(t, off, testOptions(fs))
	if err := s.Put(payload(3, here)); !errors.Is(err, ErrOff) {
		t.Errorf("put without a spool: %v", err)
	}
	if got := drain(t, s, here); !slices.Equal(got, upTo(2)) {
		t.Errorf("drained %v, want what is there still", got)
	}
	must(t, s.Close())
	if left := segments(fs); len(left) > 0 {
		t.Errorf("%v left", left)
	}
	none := faultfs.New("/state")
	openWith(t, off, testOptions(none))
	if none.Ops() > 0 {
		t.Errorf("%d operations of a spool that is off", none.Ops())
	}
	big := payload(1, here)
	big.Body = make([]byte, durable.MaxFrame+1)
	s, _ = open(t, fs)
	if err := s.Put(big); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("put of a huge payload: %v", err)
	}
}

// What is not this spool, or newer than it, is refused and left as it is.
func TestRefusesWhatItCannotJudge(t *testing.T) {
	f := func(want error, change func(h *durable.Header), frame durable.Frame) {
		t.Helper()
		fs := faultfs.New("/state", dir)
		h := durable.Header{Kind: kind, Major: major, Seq: 1, Agent: [16]byte{1}}
		own, err := durable.Create(fs, dir+"/0000000000000001.seg", h, 0, durable.Frame{Type: typePayload, Meta: encodeMeta(payload(1, here), time.Unix(1, 0))})
		must(t, err)
		must(t, own.Close())
		h.Seq = 2
		change(&h)
		other, err := durable.Create(fs, dir+"/0000000000000002.seg", h, 0, frame)
		must(t, err)
		must(t, other.Close())
		before := contents(fs)
		_, _, err = Open(dir, testConfig, testOptions(fs))
		if !errors.Is(err, want) && (want != nil || err == nil) {
			t.Errorf("open: %v, want %v", err, want)
		}
		if errors.Is(want, ErrForeign) && (err == nil || !strings.Contains(err.Error(), "; set spool.dir to a folder")) {
			t.Errorf("open: %v, which says nothing of what to do", err)
		}
		if got := contents(fs); !reflect.DeepEqual(got, before) {
			t.Errorf("a folder that is refused was changed: %d files, then %d", len(before), len(got))
		}
	}
	same := func(*durable.Header) {}
	f(durable.ErrVersion, func(h *durable.Header) { h.Major++ }, durable.Frame{Type: typePayload})
	f(ErrForeign, func(h *durable.Header) { h.Kind = [4]byte{'j', 'r', 'n', 'l'} }, durable.Frame{Type: 1})
	f(ErrForeign, func(h *durable.Header) { h.Agent[0]++ }, durable.Frame{Type: typePayload})
	f(durable.ErrVersion, same, durable.Frame{Type: 99})
	f(durable.ErrVersion, same, durable.Frame{Type: typePayload, Meta: []byte{metaVersion + 1}})
	f(nil, func(h *durable.Header) { h.Seq = 9 }, durable.Frame{Type: typePayload})
}

// What a later minor version adds is passed over.
func TestReadsLaterMinorVersion(t *testing.T) {
	fs := faultfs.New("/state", dir)
	h := durable.Header{Kind: kind, Major: major, Minor: 7, Seq: 1, Agent: [16]byte{1}}
	p := payload(1, here)
	seg, err := durable.Create(fs, dir+"/0000000000000001.seg", h, 0,
		durable.Frame{Type: 99, Flags: durable.Optional},
		durable.Frame{Type: typePayload, Records: 2, Meta: append(encodeMeta(p, time.Unix(1, 0)), "more"...), Body: p.Body})
	must(t, err)
	must(t, seg.Close())
	s, rec := open(t, fs)
	if got := drain(t, s, here); !slices.Equal(got, []int{1}) || len(rec.Problems) > 0 {
		t.Errorf("drained %v, problems %q", got, rec.Problems)
	}
}

func TestList(t *testing.T) {
	fs := faultfs.New("/state")
	s, _ := open(t, fs)
	must(t, list(fs, "/state/none", func(Entry) error { t.Error("an entry of no spool"); return nil }))
	put(t, s, here, upTo(9)...)
	f := func(name string) {
		t.Helper()
		var got []int
		must(t, list(fs, dir, func(e Entry) error {
			p, err := e.load(fs, dir)
			if must(t, err); e.Spooled.IsZero() || e.Payload.Body != nil {
				t.Errorf("%s: listed as %+v", name, e)
			}
			got = append(got, number(t, p))
			return nil
		}))
		if !slices.Equal(got, upTo(9)) {
			t.Errorf("%s: listed %v, want 1 to 9", name, got)
		}
	}
	f("beside an open spool")
	must(t, s.Close())
	f("when it is closed")
	stop := errors.New("enough")
	if err := list(fs, dir, func(Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("list: %v, want the error of its function", err)
	}
}

// An index that is read back, or asked for by several clusters in turn, is the
// same as one that was kept.
func TestManyClustersInManySegments(t *testing.T) {
	fs := faultfs.New("/state")
	s, _ := open(t, fs)
	names := []string{here, dr, "https://third"}
	want := map[string][]int{}
	for n := 1; n <= 60; n++ {
		c := names[n%len(names)]
		put(t, s, c, n)
		want[c] = append(want[c], n)
	}
	got := map[string][]int{}
	for i := range 60 {
		c := names[min(i/7, 5)*i%len(names)]
		if p := next(s, to(c)); p != nil && i%4 == 0 {
			s.Return(p.ID)
		} else if p != nil {
			got[c] = append(got[c], number(t, p))
			s.Done(p.ID, record.Accepted)
		}
	}
	for _, c := range names {
		if got[c] = append(got[c], drain(t, s, c)...); !slices.Equal(got[c], want[c]) {
			t.Errorf("%s: %v, want %v", c, got[c], want[c])
		}
	}
	if st := statsOf(s); st.Frames != 0 || len(st.Records) > 0 || len(st.Routes) > 0 {
		t.Errorf("emptied: %+v", st)
	}
}

// A payload put is not changed by what its caller does with the bytes later.
func TestBytesAreTheCallersAgain(t *testing.T) {
	s, _ := open(t, faultfs.New("/state"))
	p := payload(1, here)
	b := bytes.Clone(p.Body)
	must(t, s.Put(p))
	clear(p.Body)
	if got := next(s, to(here)); !bytes.Equal(got.Body, b) {
		t.Error("the body changed with the caller's")
	}
}

// Record ids go on from segment to segment and from run to run, so that a gap
// inside one is the number that was lost.
func TestRecordIDsGoOn(t *testing.T) {
	fs := faultfs.New("/state")
	want := uint64(0)
	for n := 1; n <= 12; n++ {
		if n%5 == 1 {
			s, _ := open(t, fs)
			put(t, s, here, n, n+1, n+2, n+3, n+4)
			must(t, s.Close())
		}
		want += uint64(payload(n, here).Records)
	}
	got := uint64(0)
	for _, name := range segments(fs) {
		rep, err := durable.ReadSegment(fs, dir+"/"+name, kind, major, true, func(f *durable.Found) error {
			if f.Record != got {
				t.Errorf("%s: record %d at offset %d, want %d", name, f.Record, f.Offset, got)
			}
			got += uint64(f.Records)
			return nil
		})
		if must(t, err); rep.Lost > 0 {
			t.Errorf("%s: %d lost", name, rep.Lost)
		}
	}
	if got < want {
		t.Errorf("%d records, want at least %d", got, want)
	}
}

// A folder that may not be made ends the start, and the error says what to do.
func TestFolderNotAllowed(t *testing.T) {
	t.Parallel()
	_, _, err := Open(filepath.Join(t.TempDir(), "spool"), Config{MaxSize: 1 << 20}, Options{FS: notAllowed{durable.OS}})
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "set another spool.dir") {
		t.Errorf("got %v", err)
	}
}

// notAllowed is a file system in which no folder may be made.
type notAllowed struct{ durable.FS }

func (notAllowed) Mkdir(string) error { return os.ErrPermission }
