package durable_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/durable/faultfs"
)

var kind = [4]byte{'t', 'e', 's', 't'}

func header(seq uint64) durable.Header {
	return durable.Header{Kind: kind, Major: 1, Minor: 0, Seq: seq, Agent: [16]byte{1, 2, 3}, FirstRecord: 10, Created: time.Unix(1, 5)}
}

func frame(typ uint8, meta, body string) durable.Frame {
	return durable.Frame{Type: typ, Records: uint32(typ), Meta: []byte(meta), Body: []byte(body)}
}

// read returns the sound frames of a segment as text, and the report.
func read(t testing.TB, b []byte) ([]string, *durable.Report, error) {
	t.Helper()
	var got []string
	rep, err := durable.Scan(bytes.NewReader(b), int64(len(b)), kind, 1, true, func(f *durable.Found) error {
		body := string(f.Body)
		if f.BodyBad {
			body = "BAD"
		}
		got = append(got, fmt.Sprintf("%d:%s/%s#%d", f.Type, f.Meta, body, f.Record))
		return nil
	})
	return got, rep, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// segment writes three frames, each synced but the last, and returns the
// segment's bytes and where each frame begins.
func segment(t testing.TB) (b []byte, offsets []int64) {
	fs := faultfs.New("/d")
	s, err := durable.Create(fs, "/d/a", header(7), 256, frame(1, "first", "one"))
	must(t, err)
	offsets = append(offsets, 64, s.Size())
	must(t, s.Append(frame(2, "second", "two-two")))
	must(t, s.Sync())
	offsets = append(offsets, s.Size())
	must(t, s.Append(frame(3, "third", "")))
	return fs.Content("/d/a"), append(offsets, s.Size())
}

var whole = []string{"1:first/one#10", "2:second/two-two#11", "3:third/#13"}

func TestRoundTrip(t *testing.T) {
	b, offsets := segment(t)
	got, rep, err := read(t, b)
	must(t, err)
	if !slices.Equal(got, whole) {
		t.Errorf("read %q, want %q", got, whole)
	}
	h := header(7)
	if rep.Header.Seq != h.Seq || rep.Header.Agent != h.Agent || !rep.Header.Created.Equal(h.Created) {
		t.Errorf("header %+v, want %+v", rep.Header, h)
	}
	if rep.End != offsets[3] || rep.Synced != offsets[2] || len(rep.Bad) > 0 || rep.Lost > 0 {
		t.Errorf("report %+v, want end %d, synced %d and nothing bad", rep, offsets[3], offsets[2])
	}
}

// A write cut short at any byte leaves the frames before it, and the rest is
// torn, not damaged, where it was never synced.
func TestTornAtEveryByte(t *testing.T) {
	b, offsets := segment(t)
	for cut := int64(64); cut < offsets[3]; cut++ {
		zeroed := append(bytes.Clone(b[:cut]), make([]byte, int64(len(b))-cut)...)
		for _, in := range [][]byte{zeroed, b[:cut]} {
			sound := 0
			for sound < 3 && int64(len(in)) >= offsets[sound+1] && bytes.Equal(in[:offsets[sound+1]], b[:offsets[sound+1]]) {
				sound++
			}
			got, rep, err := read(t, in)
			must(t, err)
			got = slices.DeleteFunc(got, func(g string) bool { return strings.Contains(g, "BAD") })
			if !slices.Equal(got, whole[:sound]) {
				t.Fatalf("cut at %d: read %q, want %q", cut, got, whole[:sound])
			}
			if damaged(rep) {
				t.Fatalf("cut at %d: %+v is damage, want torn", cut, rep.Bad)
			}
		}
	}
}

// One flipped bit costs the frame it is in and no other, is reported, and never
// gives a frame that was not written.
func TestOneFlippedBit(t *testing.T) {
	b, offsets := segment(t)
	for bit := range offsets[3] * 8 {
		at := bit / 8
		flipped := bytes.Clone(b)
		flipped[at] ^= 1 << (bit % 8)
		got, rep, err := read(t, flipped)
		if at < 64 {
			if !errors.Is(err, durable.ErrDamaged) {
				t.Fatalf("bit %d of the segment header: %v, want ErrDamaged", bit, err)
			}
			continue
		}
		must(t, err)
		hit := 0
		for offsets[hit+1] <= at {
			hit++
		}
		var rest []string
		for _, g := range got {
			if slices.Contains(whole, g) {
				rest = append(rest, g)
			} else if g[:4] != whole[hit][:4] || !strings.Contains(g, "BAD") {
				t.Fatalf("bit %d: read %q, which was never written", bit, g)
			}
		}
		want := slices.Delete(slices.Clone(whole), hit, hit+1)
		if len(rep.Bad) == 0 { // the zeros of the alignment mean nothing
			want = whole
			if at < offsets[hit+1]-7 {
				t.Fatalf("bit %d of frame %d: not reported", bit, hit)
			}
		} else if rep.Bad[0].Offset != offsets[hit] || len(rep.Bad) != 1 {
			t.Fatalf("bit %d: reported %+v, want frame %d at %d", bit, rep.Bad, hit, offsets[hit])
		} else if rep.Bad[0].Torn != (offsets[hit] >= rep.Synced) {
			t.Fatalf("bit %d: %+v with synced up to %d", bit, rep.Bad, rep.Synced)
		}
		if !slices.Equal(rest, want) {
			t.Fatalf("bit %d: read %q, want %q", bit, rest, want)
		}
	}
}

// What was overwritten with zeros, but for one byte, is reported up to that byte or
// the next frame, wherever the byte is and however long the zeros are.
func TestZeros(t *testing.T) {
	for size := 40; size < 900; size += 24 {
		fs := faultfs.New("/d")
		s, err := durable.Create(fs, "/d/a", header(7), 4096, frame(1, "first", "one"))
		must(t, err)
		from := s.Size()
		must(t, s.Append(frame(2, "second", strings.Repeat("x", size))))
		to := s.Size()
		must(t, s.Append(frame(3, "third", "")))
		end := s.Size()
		b := fs.Content("/d/a")
		clear(b[from:to])
		for at := int64(0); at < 1000; at += 13 {
			in := bytes.Clone(b)
			want := []durable.Bad{{Offset: from, Length: to - from, Torn: true}}
			if at < to-from {
				in[from+at] = 'y'
			} else {
				in[end+at] = 'y'
				want = append(want, durable.Bad{Offset: end, Length: at/8*8 + 8, Torn: true})
			}
			got, rep, err := read(t, in)
			must(t, err)
			if !slices.Equal(got, []string{whole[0], whole[2]}) || !slices.Equal(rep.Bad, want) {
				t.Fatalf("%d zeros, a byte at %d: read %q and %+v, want %+v", to-from, at, got, rep.Bad, want)
			}
		}
	}
}

func TestDamageBeforeSyncedIsTold(t *testing.T) {
	b, offsets := segment(t)
	clear(b[offsets[0]:offsets[1]])
	got, rep, err := read(t, b)
	must(t, err)
	if !slices.Equal(got, whole[1:]) || !damaged(rep) || rep.Lost != 1 {
		t.Errorf("read %q with %+v, want damage, one record lost and the other frames", got, rep)
	}
	clear(b[offsets[2]+3:])
	got, rep, err = read(t, b)
	must(t, err)
	if len(rep.Bad) != 2 || rep.Bad[0].Torn || !rep.Bad[1].Torn {
		t.Errorf("read %q with %+v, want damage and a torn end", got, rep)
	}
}

// A frame copied to another place, or taken from another segment, is none.
func TestMisplacedFrames(t *testing.T) {
	b, offsets := segment(t)
	first := b[offsets[0]:offsets[1]]
	copy(b[offsets[3]:], first)
	got, rep, err := read(t, b)
	must(t, err)
	if !slices.Equal(got, whole) || len(rep.Bad) != 1 {
		t.Errorf("read %q, bad %+v, want the copy refused", got, rep.Bad)
	}
	fs := faultfs.New("/d")
	s, err := durable.Create(fs, "/d/b", header(8), 0)
	must(t, err)
	must(t, s.Append(frame(9, "quotes", string(b[offsets[0]:offsets[3]]))))
	other := fs.Content("/d/b")
	other[70] ^= 1 // its own header is gone, what it quotes must not come to life
	got, _, err = read(t, other)
	must(t, err)
	if len(got) != 0 {
		t.Errorf("read %q from inside a damaged frame", got)
	}
}

func TestBodiesLeftOut(t *testing.T) {
	b, offsets := segment(t)
	b[offsets[2]-5] ^= 1 // in the body of the second, or its checksum
	n := 0
	_, err := durable.Scan(bytes.NewReader(b), int64(len(b)), kind, 1, false, func(f *durable.Found) error {
		if n++; f.Body != nil || f.BodyBad {
			t.Errorf("frame %d: body was read", n)
		}
		return nil
	})
	if must(t, err); n != 3 {
		t.Errorf("%d frames, want 3", n)
	}
}

func TestRefusals(t *testing.T) {
	fs := faultfs.New("/d")
	h := header(1)
	h.Major = 2
	_, err := durable.Create(fs, "/d/a", h, 0)
	must(t, err)
	if _, _, err := read(t, fs.Content("/d/a")); !errors.Is(err, durable.ErrVersion) {
		t.Errorf("a later major version: %v, want ErrVersion", err)
	}
	h = header(1)
	h.Kind = [4]byte{'e', 'l', 's', 'e'}
	_, err = durable.Create(fs, "/d/b", h, 0)
	must(t, err)
	if _, _, err := read(t, fs.Content("/d/b")); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("another kind: %v, want ErrDamaged", err)
	}
	s, err := durable.Create(fs, "/d/c", header(1), 0)
	must(t, err)
	if err := s.Append(durable.Frame{Body: make([]byte, durable.MaxFrame+1)}); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("a frame above the limit: %v, want ErrTooLarge", err)
	}
	must(t, s.Append(frame(1, "after", "")))
}

// A header that is sound and says that its frame is larger than any is none: nobody
// allocates what it asks for.
func TestFrameAboveTheLimitIsNoFrame(t *testing.T) {
	b, offsets := segment(t)
	h := b[offsets[0] : offsets[0]+40]
	binary.LittleEndian.PutUint32(h[12:], 2*durable.MaxFrame)
	where := binary.LittleEndian.AppendUint64(nil, 7) // the number of the segment
	where = binary.LittleEndian.AppendUint64(where, uint64(offsets[0]))
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(h[36:], crc32.Update(crc32.Checksum(where, table), table, h[:36]))
	r := &zerosBehind{b: b}
	got := 0
	rep, err := durable.Scan(r, 3*durable.MaxFrame, kind, 1, true, func(*durable.Found) error { got++; return nil })
	if must(t, err); got != 2 || len(rep.Bad) != 1 {
		t.Errorf("%d frames, bad %+v, want the two behind it", got, rep.Bad)
	}
	if r.most > durable.MaxFrame {
		t.Errorf("%d bytes were read at once", r.most)
	}
}

// zerosBehind is a file that ends with zeros without end.
type zerosBehind struct {
	b    []byte
	most int // the longest read
}

func (z *zerosBehind) ReadAt(p []byte, off int64) (int, error) {
	z.most = max(z.most, len(p))
	clear(p)
	if off < int64(len(z.b)) {
		copy(p, z.b[off:])
	}
	return len(p), nil
}

// halfway is a disk that writes half of what it is given and says no error.
type halfway struct{ durable.FS }

func (h halfway) Open(name string, flag int) (durable.File, error) {
	f, err := h.FS.Open(name, flag)
	return halfFile{f}, err
}

type halfFile struct{ durable.File }

func (f halfFile) WriteAt(b []byte, off int64) (int, error) { return f.File.WriteAt(b[:len(b)/2], off) }

// A write that was cut short is an error, also where the file does not say so.
func TestShortWriteIsAnError(t *testing.T) {
	if _, err := durable.Create(halfway{faultfs.New("/d")}, "/d/a", header(1), 0); err == nil {
		t.Error("a segment was made of half a header")
	}
}

// After a failed sync the file is never synced again, and what it was to keep
// is there to be written anew.
func TestFailedSyncAbandons(t *testing.T) {
	fs := faultfs.New("/d")
	syncs := 0
	fs.Judge = func(op faultfs.Op) (v faultfs.Verdict) {
		if op.Kind == "sync" && op.Name == "/d/a.tmp" {
			if syncs++; syncs == 3 {
				v.Err = io.ErrUnexpectedEOF
			}
		}
		return v
	}
	s, err := durable.Create(fs, "/d/a", header(1), 0)
	must(t, err)
	must(t, s.Append(frame(1, "kept", "")))
	must(t, s.Sync())
	must(t, s.Append(frame(1, "lost", "")))
	want := s.Sync()
	if !errors.Is(want, io.ErrUnexpectedEOF) {
		t.Fatalf("sync: %v", want)
	}
	for _, err := range []error{s.Sync(), s.Append(frame(1, "late", "")), s.Close()} {
		if err != want {
			t.Errorf("after the failure: %v, want %v", err, want)
		}
	}
	if syncs != 3 {
		t.Errorf("%d syncs, want 3", syncs)
	}
	if u := s.Unsynced(); len(u) != 1 || string(u[0].Meta) != "lost" {
		t.Errorf("unsynced %v, want the one frame", u)
	}
}

// What is kept in memory until a sync is bounded by syncing.
func TestUnsyncedIsBounded(t *testing.T) {
	fs := faultfs.New("/d")
	s, err := durable.Create(fs, "/d/a", header(1), 0)
	must(t, err)
	body := make([]byte, 9<<20)
	must(t, s.Append(durable.Frame{Body: body}))
	must(t, s.Append(durable.Frame{Body: body}))
	if n := len(s.Unsynced()); n != 0 {
		t.Errorf("%d frames unsynced, want none above the bound", n)
	}
}

func FuzzScan(f *testing.F) {
	b, offsets := segment(f)
	f.Add(b, uint16(70), byte(1))
	f.Add(b[:offsets[1]], uint16(0), byte(0))
	f.Add(bytes.Repeat([]byte("MRFk"), 64), uint16(3), byte(9))
	f.Fuzz(func(t *testing.T, in []byte, at uint16, x byte) {
		if int(at) < len(in) && at >= 64 {
			in = bytes.Clone(in)
			in[at] ^= x
		}
		var last int64
		rep, err := durable.Scan(bytes.NewReader(in), int64(len(in)), kind, 1, true, func(f *durable.Found) error {
			if f.Offset < last || f.Size < 48 {
				t.Fatalf("frame of %d bytes at %d, behind %d", f.Size, f.Offset, last)
			}
			last = f.Offset + f.Size
			return nil
		})
		if err == nil && (rep.End > int64(len(in)) && len(in) >= 64) {
			t.Fatalf("end %d of %d bytes", rep.End, len(in))
		}
	})
}

// A large body is not copied, and is read like any other.
func TestLargeBodies(t *testing.T) {
	fsys := faultfs.New("/d")
	s, err := durable.Create(fsys, "/d/a", header(1), 1<<20, frame(1, "first", strings.Repeat("f", 300_001)))
	must(t, err)
	var want []string
	for i, n := range []int{10, 256<<10 - 1, 256 << 10, 300_000, 0} {
		must(t, s.Append(frame(1, fmt.Sprint("meta ", i), strings.Repeat(fmt.Sprint(i), n)), frame(2, "small", "x")))
		want = append(want, fmt.Sprintf("%d %d", i, n))
	}
	must(t, s.Sync())
	must(t, s.Close())
	var got []string
	rep, err := durable.ReadSegment(fsys, "/d/a", kind, 1, true, func(f *durable.Found) error {
		if i, ok := strings.CutPrefix(string(f.Meta), "meta "); ok && string(f.Body) == strings.Repeat(i, len(f.Body)) {
			got = append(got, fmt.Sprintf("%s %d", i, len(f.Body)))
		}
		return nil
	})
	if err != nil || damaged(rep) || !slices.Equal(got, want) {
		t.Errorf("read %v, %+v, %v; want %v", got, rep, err, want)
	}
}

// shrunk is a file that others made shorter after its size was asked for.
type shrunk struct{ *bytes.Reader }

// A file that got shorter while it is read ends there, and the scan with it.
func TestFileGetsShorter(t *testing.T) {
	whole, _ := segment(t)
	for cut := 64; cut < len(whole); cut++ {
		for _, more := range []int64{8, 100, 300, 5000, 1 << 20} {
			done := make(chan *durable.Report, 1)
			go func() { // ends with its scan, awaited below
				rep, err := durable.Scan(shrunk{bytes.NewReader(whole[:cut])}, int64(cut)+more, kind, 1, true, func(*durable.Found) error { return nil })
				must(t, err)
				done <- rep
			}()
			if rep := <-done; rep.End > int64(cut) {
				t.Fatalf("cut at %d: the last frame ends at %d", cut, rep.End)
			}
		}
	}
}

// damaged says whether something is gone that was once known as durable.
func damaged(r *durable.Report) bool {
	for _, b := range r.Bad {
		if !b.Torn {
			return true
		}
	}
	return false
}
