package journal

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// vouched is a life of a journal of several segments that got a token after each step,
// and what is left of it.
type vouched struct {
	disk   *faultfs.FS // after a stop
	killed *faultfs.FS // after a kill instead
	tokens [][24]byte
	told   [][]*record.Payload // what was begun before each of them
}

func vouchOften(t *testing.T, steps []step, between func()) *vouched {
	v := &vouched{disk: faultfs.New("/state")}
	j, _ := open2(t, v.disk)
	var told []*record.Payload
	for _, s := range steps {
		between()
		must(t, s.do(j))
		if p := s.payload; p != nil {
			told = append(told, p)
		}
		token, err := j.Vouch()
		must(t, err)
		if j.Vouches(token) {
			t.Fatal("it vouches for what it was told in this run")
		}
		v.tokens, v.told = append(v.tokens, token), append(v.told, slices.Clone(told))
	}
	v.killed = v.disk.Crash(faultfs.Kill, 0)
	must(t, j.Close())
	return v
}

// check opens what is left, and says for how many tokens it vouches: all that was begun
// before these it knows.
func (v *vouched) check(t *testing.T, left *faultfs.FS) (n int) {
	t.Helper()
	j, rec := open2(t, left)
	defer j.Close()
	begun := map[record.BatchID]bool{}
	for _, b := range rec.Begun {
		begun[b.ID] = true
	}
	for i, token := range v.tokens {
		if !j.Vouches(token) {
			continue
		}
		n++
		for _, p := range v.told[i] {
			if !begun[p.ID] && !j.Covers(p) {
				t.Errorf("it vouches for token %d, and does not know batch %v", i, p.ID)
			}
		}
	}
	return n
}

// begins are payloads begun, and every second one ended, with nothing else.
func begins(n int) (s []step) {
	for i := range n {
		p := payload(1+i, file1(1+i%3), int64(10*i), int64(10*i+10))
		s = append(s, step{payload: p, do: func(j *Journal) error { return j.Begin(p) }})
		if i%2 == 0 {
			s = append(s, step{do: func(j *Journal) error { return j.End(p.ID, record.Spooled) }})
		}
	}
	return s
}

// A journal vouches for all it made durable, after a stop, a kill and a power cut.
func TestVouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := vouchOften(t, begins(30), synctest.Wait)
		for _, mode := range []faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random} {
			for _, disk := range []*faultfs.FS{v.disk, v.killed} {
				left := disk.Crash(mode, 1)
				for range 3 { // a start vouches for what the one before did
					if n := v.check(t, left); n != len(v.tokens) {
						t.Errorf("mode %d: it vouches for %d tokens, want %d", mode, n, len(v.tokens))
					}
				}
			}
		}
		if n := v.check(t, faultfs.New("/state")); n > 0 {
			t.Errorf("a new journal vouches for %d tokens", n)
		}
		other := vouchOften(t, begins(30), synctest.Wait)
		if n := v.check(t, other.disk); n > 0 {
			t.Errorf("another journal vouches for %d tokens", n)
		}
	})
}

// Where a journal was damaged it vouches for nothing it has forgotten, then or at any
// later start, whatever segment was being made when it gave a token.
func TestVouchAfterDamage(t *testing.T) {
	v := vouchOften(t, begins(30), func() {})
	v.check(t, v.killed)
	path := newest(t, v.disk)
	good := v.disk.Content(path)
	used := len(strings.TrimRight(string(good), "\x00"))
	for at := 0; at < used; at += 23 {
		flipped := bytes.Clone(good)
		flipped[at] ^= 1 << (at % 8)
		for i, b := range [][]byte{flipped, good[:at]} {
			left := v.disk.Crash(faultfs.Kill, 0)
			left.SetContent(path, b)
			n := v.check(t, left)
			if again := v.check(t, left.Crash(faultfs.Kill, 0)); again > n {
				t.Errorf("byte %d, %d: it vouches for %d tokens, and for %d at the start after that", at, i, n, again)
			}
		}
	}
}
