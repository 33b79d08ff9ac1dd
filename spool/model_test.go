package spool

import (
	"maps"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
)

// model is a spool as a map: what waits by cluster, oldest first, and what is
// given out.
type model struct {
	waiting map[string][]int
	taken   map[int]string
	next    int
}

func (m *model) put(cluster string) int {
	m.next++
	m.waiting[cluster] = append(m.waiting[cluster], m.next)
	return m.next
}

func (m *model) giveBack(n int) {
	c := m.taken[n]
	delete(m.taken, n)
	m.waiting[c] = append(m.waiting[c], n)
	slices.Sort(m.waiting[c])
}

func (m *model) records() map[string]int {
	out := map[string]int{}
	count := func(n int) { payload(n, here).Inputs(func(in string, r int) { out[in] += r }) }
	for _, ns := range m.waiting {
		for _, n := range ns {
			count(n)
		}
	}
	for n := range m.taken {
		count(n)
	}
	return out
}

// Any order of calls, restarts and kills included, does to the spool what it
// does to a map.
func TestModel(t *testing.T) {
	clusters := []string{here, dr, "https://third"}
	rapid.Check(t, func(rt *rapid.T) {
		fs := faultfs.New("/state")
		m := &model{waiting: map[string][]int{}, taken: map[int]string{}}
		ended := map[record.BatchID]bool{} // as the journal knows
		s, _, err := Open(dir, testConfig, testOptions(fs))
		must(t, err)
		defer func() { s.Close() }()
		reopen := func() {
			s, _, err = Open(dir, testConfig, testOptions(fs))
			must(t, err)
			must(t, s.heldAll(func(p *record.Payload, _ bool) bool { return !ended[p.ID] }))
			for n := range maps.Clone(m.taken) {
				m.giveBack(n)
			}
		}
		pick := func() (int, bool) {
			ns := slices.Sorted(maps.Keys(m.taken))
			if len(ns) == 0 {
				return 0, false
			}
			return rapid.SampledFrom(ns).Draw(rt, "taken"), true
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				c := rapid.SampledFrom(clusters).Draw(rt, "cluster")
				must(t, s.Put(payload(m.put(c), c)))
			},
			"next": func(rt *rapid.T) {
				c := rapid.SampledFrom(clusters).Draw(rt, "cluster")
				p := next(s, to(c))
				if len(m.waiting[c]) == 0 {
					if p != nil {
						rt.Fatalf("next of %s is %v, want none", c, p.ID)
					}
					return
				}
				want := m.waiting[c][0]
				if p == nil || p.ID != batchID(want) || string(p.Body) != string(body(want, 500)) {
					rt.Fatalf("next of %s is %v, want %d", c, p, want)
				}
				m.waiting[c] = m.waiting[c][1:]
				m.taken[want] = c
			},
			"return": func(rt *rapid.T) {
				if n, ok := pick(); ok {
					s.Return(batchID(n))
					m.giveBack(n)
				}
			},
			"done": func(rt *rapid.T) {
				if n, ok := pick(); ok {
					ended[batchID(n)] = true
					s.Done(batchID(n), record.Accepted)
					delete(m.taken, n)
				}
			},
			"drop": func(rt *rapid.T) {
				c := rapid.SampledFrom(clusters).Draw(rt, "cluster")
				if i := len(m.waiting[c]); i > 0 {
					i = rapid.IntRange(0, i-1).Draw(rt, "which")
					n := m.waiting[c][i]
					ended[batchID(n)] = true
					s.Done(batchID(n), record.Accepted)
					m.waiting[c] = slices.Delete(slices.Clone(m.waiting[c]), i, i+1)
				}
			},
			"restart": func(*rapid.T) {
				must(t, s.Close())
				reopen()
			},
			"crash": func(rt *rapid.T) {
				mode := rapid.SampledFrom([]faultfs.Mode{faultfs.Kill, faultfs.Drop, faultfs.Zero, faultfs.Random}).Draw(rt, "mode")
				left := fs.Crash(mode, rapid.Uint64().Draw(rt, "seed"))
				s.Close() // ends its goroutine; what it writes goes to the old disk
				fs = left
				reopen()
			},
			"": func(rt *rapid.T) {
				st := statsOf(s)
				frames := len(m.taken)
				for c, ns := range m.waiting {
					frames += len(ns)
					for _, n := range ns {
						if !s.Has(batchID(n)) {
							rt.Fatalf("%d of %s is not there", n, c)
						}
					}
				}
				if st.Frames != frames || st.Taken != len(m.taken) || !reflect.DeepEqual(st.Records, m.records()) {
					rt.Fatalf("%+v, want %d payloads, %d given out, %v", st, frames, len(m.taken), m.records())
				}
			},
		})
	})
}

// Many goroutines at once: each payload that was put ends once.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t, faultfs.New("/state"))
		const putters, each = 4, 50
		accepted := make(chan int, putters*each)
		quit := make(chan struct{})
		running := make(chan struct{}, 2*putters)
		for g := range putters {
			go func() { // ends with its last Put, awaited below
				defer func() { running <- struct{}{} }()
				for i := range each {
					put(t, s, here, g*each+i)
				}
			}()
			go func() { // ends with quit, awaited below
				defer func() { running <- struct{}{} }()
				for i := 0; ; i++ {
					p := next(s, to(here))
					switch {
					case p == nil:
						select {
						case <-quit:
							return
						default:
							runtime.Gosched()
						}
					case i%3 == 0:
						s.Return(p.ID)
					default:
						s.Done(p.ID, record.Accepted)
						accepted <- number(t, p)
					}
					_, _ = s.Stats(), s.Has(batchID(i))
				}
			}()
		}
		for range putters {
			<-running
		}
		seen := map[int]bool{}
		for range putters * each {
			n := <-accepted
			if seen[n] {
				t.Errorf("%d came back twice", n)
			}
			seen[n] = true
		}
		close(quit)
		for range putters {
			<-running
		}
		must(t, s.Close())
	})
}

// An entry reads back as it was written, and damage in a meta that slipped
// through its checksum is an error.
func TestMeta(t *testing.T) {
	for n := range 20 {
		p := payload(n, here)
		b := encodeMeta(p, p.ReadAt)
		got, spooled, err := decodeMeta(b)
		must(t, err)
		got.Body = p.Body
		if number(t, got) != n || !spooled.Equal(p.ReadAt) {
			t.Errorf("payload %d came back as %+v at %v", n, got, spooled)
		}
		for cut := range b {
			if _, _, err := decodeMeta(b[:cut]); err == nil {
				t.Errorf("payload %d: a meta of %d bytes of %d is taken", n, cut, len(b))
			}
		}
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(encodeMeta(payload(3, here), payload(3, here).ReadAt))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, _, err := decodeMeta(b); err == nil && p.ID == (record.BatchID{}) {
			t.Error("a payload without an id")
		}
		_, _, _ = cut(b)
	})
}
