package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kusto-agent/internal/units"
)

var size = 64 * units.MiB

func TestMain(m *testing.M) {
	Main()
	flag.TextVar(&size, "size", size, "bytes of input")
	flag.Parse()
	code := m.Run()
	os.RemoveAll(binaries)
	os.Exit(code)
}

// binaries is the folder of the agent, removed by TestMain.
var binaries string

// agent is the path of the binary, which is built for the first who asks.
var agent = sync.OnceValues(func() (path string, err error) {
	if binaries, err = os.MkdirTemp("", "kusto-agent-bench-"); err != nil {
		return "", err
	}
	path = filepath.Join(binaries, "kusto-agent")
	return path, build(path)
})

// newRig is a rig with that binary, closed at the end of the test.
func newRig(t testing.TB, dir string) *Rig {
	t.Helper()
	path, err := agent()
	if err != nil {
		t.Fatal(err)
	}
	rig, err := NewRig(dir, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rig.Close(); err != nil {
			t.Error(err)
		}
	})
	return rig
}

// BenchmarkWholeProcess runs limit and agent in turns, each in a process of
// its own. The time of an iteration is that of both and says little; the
// figures are medians of the agent's.
func BenchmarkWholeProcess(b *testing.B) {
	dir := b.TempDir()
	rig := newRig(b, dir)
	for _, s := range []Shape{
		{Name: "one", Files: 1, Size: int64(size)},
		{Name: "hundred", Files: 100, Size: int64(size) / 100},
		{Name: "thousand", Files: 1000, Size: int64(size) / 1000},
	} {
		in, err := s.Make(dir)
		if err != nil {
			b.Fatal(err)
		}
		all := rig.Contenders(nil)
		b.Run(s.Name+"/validate=none", func(b *testing.B) { report(b, in, "limit", all[0], all[1]) })
		b.Run(s.Name+"/validate=record", func(b *testing.B) { report(b, in, "limit", all[0], all[2]) })
	}
}

// BenchmarkRules runs an agent without rules and one with some in turns. Of the figures the
// CPU beside is what rules cost: below 1 they save more than they take.
func BenchmarkRules(b *testing.B) {
	dir := b.TempDir()
	rig := newRig(b, dir)
	in, err := Shape{Name: "rules", Files: 1, Size: int64(size), Traced: true}.Make(dir)
	if err != nil {
		b.Fatal(err)
	}
	all := rig.Shaped(nil)
	for _, shaped := range all[1:] {
		b.Run(shaped.Name, func(b *testing.B) { report(b, in, "bare", all[0], shaped) })
	}
}

// report sets an agent beside another contender.
func report(b *testing.B, in *Input, beside string, limit, agent Contender) {
	var results [2][]Result
	for b.Loop() {
		turn, err := Compare(in, []Contender{limit, agent}, 1, func(Contender, Result) {})
		if err != nil {
			b.Fatal(err)
		}
		for i := range results {
			results[i] = append(results[i], turn[i]...)
		}
	}
	limits, agents := results[0], results[1]
	f := func(unit string, figure func(i int) float64) {
		b.ReportMetric(SpreadOf(len(agents), figure).Median, unit)
	}
	f("MB/s", func(i int) float64 { return agents[i].MBps() })
	f("of-"+beside+"-MB/s", func(i int) float64 { return agents[i].MBps() / limits[i].MBps() })
	f("CPU-s/GB", func(i int) float64 { return agents[i].CPUPerGB() })
	f("times-"+beside+"-CPU", func(i int) float64 { return agents[i].CPUPerGB() / limits[i].CPUPerGB() })
	f("peak-MB", func(i int) float64 { return agents[i].PeakMB() })
}

// TestWholeProcess sees that the rig finds what was written, and that it would
// notice if it did not.
func TestWholeProcess(t *testing.T) {
	dir := t.TempDir()
	rig := newRig(t, dir)
	in, err := Shape{Name: "few", Files: 3, Size: 1 << 20}.Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compare(in, rig.WithTLS(nil), 1, func(c Contender, r Result) {
		posted := r.Sink.Requests > 0
		if posted == strings.HasSuffix(c.Name, "dropped") || posted && r.Sink.Protocol != "HTTP/1.1" {
			t.Errorf("%s: %d requests over %q", c.Name, r.Sink.Requests, r.Sink.Protocol)
		}
	}); err != nil {
		t.Error(err)
	}
	in.Sent.Records++
	if _, err := rig.Limit(in, 2, true); err == nil {
		t.Error("a record that was lost passed")
	}
}

// TestEcho: lines that come again have numbers of their own, and are else what they were.
func TestEcho(t *testing.T) {
	l := NewLines()
	l.echo = 10_000
	var rests []string
	for n := range 100 {
		line := string(l.Next())
		rest, found := strings.CutPrefix(line, fmt.Sprintf(`{"seq":%d,`, n))
		if rests = append(rests, rest); !found {
			t.Fatalf("line %d is %s", n, line)
		}
	}
	period := len(l.rests)
	if !slices.Equal(rests[:100-period], rests[period:]) || slices.Index(rests[1:], rests[0]) != period-1 {
		t.Errorf("lines do not come again after %d", period)
	}
}

// TestFed: what comes file by file arrives whole, and the files are removed.
func TestFed(t *testing.T) {
	dir := t.TempDir()
	rig := newRig(t, dir)
	res, err := rig.Fed(3_500_000, 1_000_000, "validate: none")
	if err != nil {
		t.Fatal(err)
	}
	if short := 3_500_000 - res.Bytes; short < 0 || short > 4*maxLine || res.CPU == 0 || res.Peak == 0 {
		t.Errorf("nothing was accounted for: %+v", res)
	}
}

// TestShaped: what rules leave out does not arrive, and all else does.
func TestShaped(t *testing.T) {
	dir := t.TempDir()
	rig := newRig(t, dir)
	in, err := Shape{Name: "few", Files: 2, Size: 1 << 20, Traced: true}.Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compare(in, rig.Shaped(nil), 1, func(Contender, Result) {}); err != nil {
		t.Error(err)
	}
	if part := in.Without("trace"); part.Sent.Records >= in.Records || part.Sent.Bytes >= in.Bytes {
		t.Errorf("without a level %+v of %d records are to be sent", part.Sent, in.Records)
	}
}

// TestLive: what files that grow got arrives whole, with the delays of its records.
func TestLive(t *testing.T) {
	rig := newRig(t, t.TempDir())
	got, err := rig.live(Live{Files: 20, Rate: 1_000_000, Write: 4 << 10, Length: time.Second, Keys: []string{"batch: {max_wait: 50ms}"}})
	if err != nil && !errors.Is(err, errPace) { // a busy machine is no fault
		t.Fatal(err)
	}
	if len(got.Delays) == 0 || got.Peak == 0 {
		t.Errorf("nothing was accounted for: %d delays, peak %d", len(got.Delays), got.Peak)
	}
}

// TestCrowds: small crowds, of every kind at once, arrive whole. What they cost is
// for the measure command to tell.
func TestCrowds(t *testing.T) {
	rig := newRig(t, t.TempDir())
	for _, watch := range []string{"auto", "poll"} {
		st, err := rig.Crowd(Crowd{Idle: 300, Active: 20, Others: 3000, Born: 5, Full: true, Watch: watch, Again: watch == "poll", Settle: 100 * time.Millisecond, Length: time.Second})
		if err != nil {
			t.Errorf("%s: %v", watch, err)
		}
		// FullRate may be anything: an agent that gets no CPU for a second sends nothing in it.
		if len(st.Delays) == 0 || st.Descriptors == 0 || st.Resident == 0 {
			t.Errorf("%s: nothing was accounted for: %+v", watch, st)
		}
	}
}
