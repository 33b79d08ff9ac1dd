package e2e

import (
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
)

// overhead is what a process may take beside limits.memory, in bytes: the
// program itself, buffers on their way, and what the collector has not seen yet.
const overhead = 64 << 20

const mebibyte = 1 << 20

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most resident memory a process that runs ever had, in bytes, as
// the kernel counts it: also what is mapped of its binary.
func (p *process) peak() int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	found := highWater.FindSubmatch(text)
	if found == nil {
		p.t.Fatalf("no VmHWM in %s", text)
	}
	n, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return n << 10
}

// wantMemory fails if the process ever took more than limits.memory, given in
// MiB, and overhead.
func (p *process) wantMemory(limit int64) {
	p.t.Helper()
	got := p.peak()
	p.t.Logf("peak %d MiB of %d", got/mebibyte, limit+overhead/mebibyte)
	if got > limit*mebibyte+overhead && !underRace {
		p.t.Errorf("peak of %d MiB, want at most %d", got/mebibyte, limit+overhead/mebibyte)
	}
}

// random are records of about size bytes each, all others of the same seed
// alike, which gzip makes a quarter smaller at best. They are bytes in all.
func random(seed uint64, bytes, size int) (text string, records int) {
	rng := rand.NewChaCha8([32]byte{byte(seed)})
	raw := make([]byte, size*3/4)
	var b strings.Builder
	for b.Len() < bytes {
		_, _ = rng.Read(raw)
		fmt.Fprintf(&b, "{\"note\":%q,\"x\":\"%s\"}\n", recordMark, base64.StdEncoding.EncodeToString(raw))
		records++
	}
	return b.String(), records
}

// tables are inputs that all read the same file, one for each of n tables.
func tables(n int, path string) string {
	var b strings.Builder
	b.WriteString("inputs:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: t%d, paths: [\"${DIR}/%s\"], table: T%d, mapping: m}\n", i, path, i)
	}
	return b.String()
}

// read is how many records the process has read of all inputs.
func (p *process) read() float64 { return p.metric("records_read_total") }

// awaitStandstill waits until the cluster is down and nothing more is read:
// memory is full, or all is in the spool.
func (p *process) awaitStandstill() {
	p.t.Helper()
	p.await(1, clusterDown)
	p.awaitStill(p.read)
}

// awaitStill waits until a number has stayed the same for many looks.
func (p *process) awaitStill(number func() float64) {
	p.t.Helper()
	ctx, cancel := p.site.waiting()
	defer cancel()
	const looks = 300
	last := number()
	for same := 0; same < looks && ctx.Err() == nil; same++ {
		if n := number(); n != last {
			last, same = n, 0
		}
	}
}

// long marks a memory in MiB for the long form of the tests alone.
func long(memory int64) int64 { return -memory }

// unlessLong is the memory of a test, which is skipped if that is for the long form
// and this is the other one, or if the race detector takes what it likes.
func unlessLong(t *testing.T, memory int64) int64 {
	if memory < 0 && !longForm {
		t.Skip("long form: set KUSTO_AGENT_LONG=1")
	}
	if testing.Short() {
		t.Skip("not with -short: takes long, and shows nothing with the race detector")
	}
	return max(memory, -memory)
}

// settings of the tests of memory: a fast clock, and a server that takes what
// they send.
const pressed = "send: {timeout: 5s, retry: {initial: 10ms, max: 200ms, patience: 1s}}\nlimits: {memory: %dMiB}\nspool: {max_size: %s, min_free: 1MiB}\nbatch: {max_size: %s, max_wait: 100ms}\n"

var roomy = emulator.Options{Discard: true, MaxDecoded: 16 << 20, MaxBody: 16 << 20}

// TestMemoryInAnOutage: nothing is accepted, for long enough that all that may
// be in hand is. Afterwards it all arrives.
func TestMemoryInAnOutage(t *testing.T) {
	f := func(name string, memory int64, spool, batch string, routes, bytes int) {
		t.Run(name, func(t *testing.T) {
			memory := unlessLong(t, memory)
			s := newSite(t, roomy)
			text, n := random(1, bytes, 2000)
			s.write("logs/a.json", text)
			down := s.server.Fail(emulator.Fault{Status: 503, When: emulator.OnArrival})
			p := s.run(open + fmt.Sprintf(pressed, memory, spool, batch) + tables(routes, "logs/a.json"))
			p.awaitStandstill()
			t.Logf("read %.0f of %d records; so far the peak is %d MiB", p.read(), n*routes, p.peak()/mebibyte)
			down.Remove()
			for i := range routes {
				s.awaitRows(fmt.Sprint("T", i), n)
			}
			p.wantMemory(memory)
			p.stop()
		})
	}
	f("with spool", 64, "4GiB", "4MB", 10, 12<<20)
	f("with spool, batches of 10 MB", 64, "4GiB", "10MB", 10, 24<<20)
	f("without spool", 64, "0", "4MB", 20, 12<<20)
	f("without spool, batches of 10 MB", 64, "0", "10MB", 10, 24<<20)
	f("spool is full", 64, "40MiB", "4MB", 20, 12<<20)
	f("200 tables without spool", 64, "0", "4MB", 200, 1<<20)
	f("200 tables without spool, 256 MiB", long(256), "0", "4MB", 200, 3<<20)
	f("200 tables with spool, 256 MiB", long(256), "4GiB", "4MB", 200, 3<<20)
}

// TestMemoryOfLostPayloads: all that was in the spool is gone, its sources are there, the
// service is not, and the spool takes nothing any more: what is read again waits for room
// like anything else.
func TestMemoryOfLostPayloads(t *testing.T) {
	const memory, routes = 16, 8
	bytes := 12 << 20
	if underRace { // which takes its time, and memory is not judged
		t.Parallel()
		bytes = 1 << 20
	}
	s := newSite(t, roomy)
	text, n := random(4, bytes, 2000)
	s.write("logs/a.json", text)
	down := s.server.Fail(emulator.Fault{Status: 503, When: emulator.OnArrival})
	p := s.run(open + fmt.Sprintf(pressed, memory, "4GiB", "1MB") + tables(routes, "logs/a.json"))
	for i := range routes {
		p.awaitBooks(fmt.Sprint("t", i), func(a account) bool { return int(a.spooled+a.pending) == n && int(a.spooled) > n*9/10 })
	}
	p.stop()
	s.must(os.RemoveAll(s.path("state/spool")))
	p = s.run(open + fmt.Sprintf(pressed, memory, "64KiB", "1MB") + tables(routes, "logs/a.json"))
	p.await(1, "spooled batch was lost and is read again from its files")
	p.await(1, clusterDown)
	p.awaitStill(func() float64 { return p.metric("records_spooled") })
	t.Logf("%.0f of %d records are still to be read again; so far the peak is %d MiB", p.metric("records_spooled"), routes*n, p.peak()/mebibyte)
	down.Remove()
	for i := range routes {
		s.awaitRows(fmt.Sprint("T", i), n)
	}
	p.wantMemory(memory)
	p.stop()
}

// TestMemoryOfAnswers: whatever the server answers, and however it does, costs
// next to nothing, and all arrives when it is itself again.
func TestMemoryOfAnswers(t *testing.T) {
	if underRace {
		t.Skip("memory is not judged under the race detector, and the answers are those of internal/kusto/wire")
	}
	f := func(name string, fault emulator.Fault) {
		t.Run(name, func(t *testing.T) {
			o := roomy
			bytes, payloads := 6<<20, 2
			config, every := head+"auth: {method: none}\n", 6*payloads // each once
			if fault.Match.Kind == emulator.KindToken {
				o.TokenSecret, every = "zq-secret", 1
				config = head + "auth: {authority: \"${URL}\", tenant: t, client_id: agent, client_secret: zq-secret}\n"
			}
			s := newSite(t, o)
			text, n := random(2, bytes, 500)
			s.write("logs/a.json", text)
			odd := s.server.Fail(fault)
			p := s.run(config + fmt.Sprintf(strings.Replace(pressed, "5s", "500ms", 1), 64, "0", "4MB") + tables(6, "logs/a.json"))
			s.awaitHits(odd, every)
			odd.Remove()
			for i := range 6 {
				s.awaitRows(fmt.Sprint("T", i), n)
			}
			p.wantMemory(64)
			p.stop()
		})
	}
	bomb := gzipBomb()
	f("hangs", emulator.Fault{Hang: true})
	f("hangs before it has read", emulator.Fault{Hang: true, When: emulator.OnArrival})
	f("trickles", emulator.Fault{Status: 200, Trickle: time.Second, Size: -1})
	f("1 GiB", emulator.Fault{Status: 503, Size: 1 << 30})
	f("1 GiB of acceptance", emulator.Fault{When: emulator.AfterCommit, Status: 200, Size: 1 << 30})
	f("no end", emulator.Fault{Status: 502, Size: -1})
	f("10 MiB of headers", emulator.Fault{Status: 503, Header: map[string]string{"X-Large": strings.Repeat("x", 10<<20)}})
	f("gzip bomb", emulator.Fault{Status: 503, Body: bomb, Header: map[string]string{"Content-Encoding": "gzip"}})
	f("gzip bomb of acceptance", emulator.Fault{When: emulator.AfterCommit, Status: 200, Body: bomb, Header: map[string]string{"Content-Encoding": "gzip"}})
	f("token of 1 GiB", emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 200, Size: 1 << 30})
	f("token without end", emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 400, Size: -1})
	f("token in 10 MiB of headers", emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 400, Header: map[string]string{"X-Large": strings.Repeat("x", 10<<20)}})
	f("token in a gzip bomb", emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 200, Body: bomb, Header: map[string]string{"Content-Encoding": "gzip"}})
}

// gzipBomb is 1 GiB of zeros, packed.
func gzipBomb() string {
	var b strings.Builder
	zw, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	for zeros, n := make([]byte, 1<<20), 0; n < 1<<10; n++ {
		_, _ = zw.Write(zeros)
	}
	_ = zw.Close()
	return b.String()
}

// TestMemoryOfManyFiles: records of a few bytes from a thousand files, in an
// outage: what is known of each of them is counted too.
func TestMemoryOfManyFiles(t *testing.T) {
	if underRace { // as above
		t.Parallel()
	}
	f := func(name, spool, format string, records int) {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, roomy)
			files := 1000
			if underRace {
				files = 100
			}
			var b strings.Builder
			for i := range records - 1 {
				b.WriteString(strconv.Itoa(i%10) + "\r\n")
			}
			for i := range files {
				s.write(fmt.Sprintf("logs/%d.log", i), fmt.Sprintf("file %d\r\n%s", i, b.String()))
			}
			down := s.server.Fail(emulator.Fault{Status: 503, When: emulator.OnArrival})
			p := s.run(open + fmt.Sprintf(pressed, 64, spool, "4MB") + fmt.Sprintf(`
inputs:
  - {name: t0, paths: ["${DIR}/logs/*.log"], table: T0, format: %[1]s}
  - {name: t1, paths: ["${DIR}/logs/*.log"], table: T1, format: %[1]s}
`, format))
			p.awaitStandstill()
			t.Logf("read %.0f of %d records; so far the peak is %d MiB", p.read(), 2*files*records, p.peak()/mebibyte)
			down.Remove()
			s.awaitRows("T0", files*records)
			s.awaitRows("T1", files*records)
			p.wantMemory(64)
			p.stop()
		})
	}
	f("one each", "0", "txt", 1)
	f("with spool", "1GiB", "txt", 2000)
	f("without spool", "0", "csv", 2000)
}

// TestMemoryOfManyTables: 200 tables are behind, with little memory between
// them; a quarter is refused and a quarter fails. The others get theirs before
// any of those is mended, and none of them waits for long behind the others.
func TestMemoryOfManyTables(t *testing.T) {
	f := func(name string, memory int64, spool string, bytes int) {
		t.Run(name, func(t *testing.T) {
			memory := unlessLong(t, memory)
			const all = 200
			o := roomy
			o.KeepRequests = 200_000
			s := newSite(t, o)
			text, n := random(3, bytes, 2000)
			s.write("logs/a.json", text)
			var bad []*emulator.Script
			for i := range all / 4 {
				refused := []emulator.Fault{{Status: 404, When: emulator.OnArrival}, {Status: 403}, {Status: 400, Code: "BadRequest_StreamingIngestionPolicyNotEnabled"}}[i%3]
				refused.Match.Table = fmt.Sprint("T", 4*i)
				failing := emulator.Fault{Match: emulator.Match{Table: fmt.Sprint("T", 4*i+1)}, Status: 503, When: emulator.OnArrival}
				bad = append(bad, s.server.Fail(refused), s.server.Fail(failing))
			}
			began := time.Now()
			p := s.run(open + fmt.Sprintf(pressed, memory, spool, "4MB") + tables(all, "logs/a.json"))
			for i := range all {
				if i%4 > 1 {
					s.awaitRows(fmt.Sprint("T", i), n)
				}
			}
			t.Logf("the good tables have theirs after %v, %d requests", time.Since(began), s.server.Totals().Requests)
			s.logTurns(began)
			for _, script := range bad {
				script.Remove()
			}
			for i := range all {
				s.awaitRows(fmt.Sprint("T", i), n)
			}
			t.Logf("all have theirs after %v", time.Since(began))
			p.wantMemory(memory)
			p.stop()
		})
	}
	f("least memory", 16, "0", 1<<19)
	f("64 MiB", long(64), "0", 1<<20)
	f("64 MiB and a spool", 64, "4GiB", 1<<19)
	f("256 MiB", long(256), "0", 3<<20)
}

// logTurns tells how long tables waited for their first and last acceptance.
func (s *site) logTurns(began time.Time) {
	first, last := map[string]time.Duration{}, map[string]time.Duration{}
	longest := map[string]time.Duration{}
	for _, r := range s.server.Requests() {
		if !r.Stored {
			continue
		}
		at := r.Time.Sub(began)
		if _, ok := first[r.Table]; !ok {
			first[r.Table], last[r.Table] = at, at
		}
		longest[r.Table] = max(longest[r.Table], at-last[r.Table])
		last[r.Table] = at
	}
	at := func(m map[string]time.Duration, q float64) time.Duration {
		all := slices.Sorted(maps.Values(m))
		return all[int(q*float64(len(all)-1))].Round(time.Millisecond)
	}
	s.t.Logf("of %d tables, median, p99 and most: first acceptance %v %v %v, last %v %v %v, longest pause %v %v %v", len(first),
		at(first, .5), at(first, .99), at(first, 1), at(last, .5), at(last, .99), at(last, 1), at(longest, .5), at(longest, .99), at(longest, 1))
}
