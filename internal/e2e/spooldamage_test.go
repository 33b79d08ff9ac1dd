package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

// inSpool is what spool ls --json tells of a payload.
type inSpool struct {
	Batch, Segment string
	Offset, Bytes  int64
	Records        int
	Ranges         []struct{ Start, End int64 }
	Unreadable     bool
}

func (s *site) spooled() (all []inSpool) {
	s.t.Helper()
	out, _ := s.show(0, "spool", "ls", "--config", s.path("agent.yaml"), "--json")
	for line := range strings.Lines(out) {
		var e inSpool
		s.must(json.Unmarshal([]byte(line), &e))
		all = append(all, e)
	}
	return all
}

// flip turns a bit of a file over.
func (s *site) flip(name string, at int64) {
	s.t.Helper()
	f, err := os.OpenFile(s.path(name), os.O_RDWR, 0)
	s.must(err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	s.must(err)
	b[0] ^= 4
	_, err = f.WriteAt(b, at)
	s.must(err)
}

// TestDamagedSpool: what a damaged spool held is read again from its files; where
// they are gone too just that is counted as lost, by file and range. What was found
// damaged is left to people. Of a frame with a damaged header the rest is still sent:
// the index knows where it is.
func TestDamagedSpool(t *testing.T) {
	t.Parallel()
	const segments = "state/spool/"
	f := func(name string, hurt func(s *site, e inSpool), cost damage, kept bool) {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, source gone %v", name, gone), func(t *testing.T) {
				t.Parallel()
				testDamagedSpool(t, hurt, cost, kept, gone)
			})
		}
	}
	f("body", func(s *site, e inSpool) { s.flip(segments+e.Segment, e.Offset+e.Bytes-100) }, onePayload, true)
	f("meta", func(s *site, e inSpool) {
		head := []byte(s.read(segments + e.Segment))[e.Offset:]
		s.flip(segments+e.Segment, e.Offset+int64(binary.LittleEndian.Uint16(head[6:]))+20)
	}, onePayload, true)
	f("frame", func(s *site, e inSpool) { s.flip(segments+e.Segment, e.Offset+1) }, noPayload, false)
	f("header", func(s *site, e inSpool) { s.flip(segments+e.Segment, 9) }, allPayloads, true)
	f("no segment", func(s *site, e inSpool) { s.must(os.Remove(s.path(segments + e.Segment))) }, allPayloads, false)
	f("no folder", func(s *site, _ inSpool) { s.must(os.RemoveAll(s.path(segments))) }, allPayloads, false)
}

// damage is what the spool cannot give any more.
type damage uint8

const (
	noPayload damage = iota
	onePayload
	allPayloads
)

func testDamagedSpool(t *testing.T, hurt func(*site, inSpool), cost damage, kept, gone bool) {
	const n = 2_000
	s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
	away := s.server.Fail(emulator.Fault{Status: 503})
	config := open + hasty + "batch: {max_size: 64KiB, max_wait: 20ms}\n" + appLogs
	w := &flow{site: s, perFile: n}
	var b strings.Builder
	for seq := range n {
		b.WriteString(crashLine(seq))
	}
	s.write("logs/app.json", b.String())
	p := s.run(config)
	p.awaitBooks("T", func(a account) bool { return a.spooled == n })
	s.awaitHits(away, away.Hits()+3) // one of them was tried from there
	p.stop()
	held := s.spooled()
	victim := held[len(held)/2]
	hurt(s, victim)
	lost := func(seq int) bool {
		at := int64(seq) * crashRecord
		return gone && (cost == allPayloads || cost == onePayload && at >= victim.Ranges[0].Start && at < victim.Ranges[0].End)
	}
	nLost := 0
	for seq := range n {
		if lost(seq) {
			nLost++
		}
	}
	if gone {
		s.must(os.Remove(s.path("logs/app.json")))
	}
	away.Remove()
	again := s.run(config)
	again.awaitBooks("T", func(a account) bool {
		return int(a.accepted) == n-nLost && int(a.dropped) == nLost && a.pending+a.spooled == 0
	})
	if got := int(again.metric("records_dropped_total", `reason="source_gone"`)); got != nLost {
		t.Errorf("%d records are counted as lost, want %d", got, nLost)
	}
	again.stop()
	w.wantStored(n, lost, 0)
	named := map[string]bool{}
	for _, e := range again.complaints() {
		if e.text("level") == "ERROR" {
			for _, text := range strings.Fields(e.text("ranges")) {
				_, text, _ = strings.Cut(text, "[")
				named["["+text] = true
			}
		}
	}
	for _, e := range held {
		is := fmt.Sprintf("[%d,%d)", e.Ranges[0].Start, e.Ranges[0].End)
		if gone && (cost == allPayloads || cost == onePayload && e.Batch == victim.Batch) && !named[is] {
			t.Errorf("%s is lost and not named", is)
		}
	}
	found, _ := filepath.Glob(s.path("state/spool/damaged/*.seg"))
	if kept != (len(found) == 1) {
		t.Errorf("left to people: %v", found)
	}
	// A third run finds nothing to tell of, but that the damage is still there.
	last := s.run(config)
	last.await(1, "agent is running")
	s.append("logs/new/app.json", "")
	last.stop()
	if a := last.complaints(); len(a) > 0 && !gone {
		t.Errorf("the next run complains of %v", a)
	}
	w.wantStored(n, lost, 0)
}

// TestLostSpoolOfAnUnreadableFile: what the spool held of a file that cannot be read
// for now is not given up, also not over a kill.
func TestLostSpoolOfAnUnreadableFile(t *testing.T) {
	t.Parallel()
	const n = 500
	s := newSite(t, emulator.Options{})
	s.refusable()
	away := s.server.Fail(emulator.Fault{Status: 503})
	config := open + hasty + appLogs
	w := &flow{site: s, perFile: n}
	var b strings.Builder
	for seq := range n {
		b.WriteString(crashLine(seq))
	}
	s.write("logs/app.json", b.String())
	p := s.run(config)
	p.awaitBooks("T", func(a account) bool { return a.spooled == n })
	p.stop()
	s.must(os.RemoveAll(s.path("state/spool")))
	s.must(os.Chmod(s.path("logs/app.json"), 0))
	p = s.run(config)
	p.await(1, "spooled batch was lost and cannot be read again now, will retry")
	p.awaitBooks("T", func(a account) bool { return a.spooled == n })
	p.kill()
	s.must(os.Chmod(s.path("logs/app.json"), 0o644))
	away.Remove()
	p = s.run(config)
	p.awaitBooks("T", func(a account) bool { return a.accepted == n && a.dropped+a.pending+a.spooled == 0 })
	p.stop()
	w.wantStored(n, nil, 0)
}

// TestMissingIsCounted: what is not in the spool any more though nobody ever tried it
// from there is read again, or where its source is gone counted to the record.
func TestMissingIsCounted(t *testing.T) {
	t.Parallel()
	const n = 1_000
	f := func(name string, hurt func(s *site, segment string, size int64) (left int64)) {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, source gone %v", name, gone), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, emulator.Options{KeepRequests: 1 << 20})
				away := s.server.Fail(emulator.Fault{Status: 503})
				w := &flow{site: s, perFile: n}
				var b strings.Builder
				for seq := range n {
					b.WriteString(crashLine(seq))
				}
				s.write("logs/app.json", b.String())
				batches := "batch: {max_size: 16KiB, max_wait: 20ms}\n" + appLogs
				p := s.run(open + "send: {retry: {initial: 1h, max: 1h, patience: 10ms}}\n" + batches)
				p.awaitBooks("T", func(a account) bool { return a.spooled > n-100 && a.spooled+a.pending == n })
				p.stop()
				held := s.spooled()
				name := "state/spool/" + held[0].Segment
				info, err := os.Stat(s.path(name))
				s.must(err)
				left := hurt(s, s.path(name), info.Size())
				lost := map[int]bool{}
				for seq := range n {
					at := int64(seq) * crashRecord
					for _, e := range held {
						if gone && e.Segment == held[0].Segment && e.Offset+e.Bytes > left && at >= e.Ranges[0].Start && at < e.Ranges[0].End {
							lost[seq] = true
						}
					}
				}
				if gone {
					s.must(os.Remove(s.path("logs/app.json")))
				}
				away.Remove()
				p = s.run(open + hasty + batches)
				p.awaitBooks("T", func(a account) bool {
					return int(a.accepted) == n-len(lost) && int(a.dropped) == len(lost) && a.pending+a.spooled == 0
				})
				p.stop()
				if gone == (len(lost) == 0) {
					t.Errorf("%d records are lost", len(lost))
				}
				w.wantStored(n, func(seq int) bool { return lost[seq] }, 0)
			})
		}
	}
	f("cut by a fifth", func(s *site, segment string, size int64) int64 {
		s.must(os.Truncate(segment, size*4/5))
		return size * 4 / 5
	})
	f("removed", func(s *site, segment string, _ int64) int64 {
		s.must(os.Remove(segment))
		return 0
	})
}
