package telemetry

import (
	"strings"
	"testing"
	"time"
)

// TestRatesAreWhatPassedBetweenTheLooks.
func TestRatesAreWhatPassedBetweenTheLooks(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var h history
	rates := func() Rates { return ratesOf(h.points(now), now) }
	if got := rates(); got != (Rates{}) {
		t.Errorf("before the first look: %+v", got)
	}
	h.add(now, totals{read: 1000, accepted: 500, bytes: 50_000})
	if got := rates(); got != (Rates{}) {
		t.Errorf("after the first look: %+v", got)
	}
	look := func(after time.Duration, t totals) {
		now = now.Add(after)
		h.add(now, t)
	}
	look(5*time.Second, totals{read: 1500, accepted: 600, bytes: 60_000, delays: delays{2, 3 * time.Second}})
	if got, want := rates(), (Rates{Read: 100, Accepted: 20, Bytes: 2000, Delay: 1.5}); got != want {
		t.Errorf("after the second look: %+v, want %+v", got, want)
	}
	for range 20 { // nothing more comes
		look(5*time.Second, totals{read: 1500, accepted: 600, bytes: 60_000, delays: delays{2, 3 * time.Second}})
	}
	if got := rates(); got != (Rates{}) {
		t.Errorf("while nothing comes: %+v", got)
	}
	look(10*time.Minute, totals{read: 901_500}) // the machine slept: a rate of that time says nothing
	if got := rates(); got != (Rates{}) {
		t.Errorf("after a gap: %+v", got)
	}
	look(-time.Minute, totals{read: 999_999}) // the clock was set back
	if got := rates(); got != (Rates{}) {
		t.Errorf("after the clock was set back: %+v", got)
	}
	look(5*time.Second, totals{read: 1_000_004})
	if got := rates(); got.Read != 1 {
		t.Errorf("after the clock was set back, and a look: %+v", got)
	}
	look(historyBreak+time.Second, totals{read: 9_000_000}) // looks are missing
	look(5*time.Second, totals{read: 9_000_010})
	if got := rates(); got.Read != 2 {
		t.Errorf("after a gap that is shorter than what rates are the mean of, and a look: %+v", got)
	}
}

// TestLooksThatFollowAtOnce: a payload that is accepted between two looks of which the second follows
// at once makes no rate of its own, which would be far too high.
func TestLooksThatFollowAtOnce(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var h history
	h.add(start, totals{})
	for _, after := range []time.Duration{time.Microsecond, time.Millisecond} {
		h.add(start.Add(after), totals{accepted: 1000})
		if got := ratesOf(h.points(start.Add(after)), start.Add(after)); got != (Rates{}) {
			t.Errorf("%v after the first look: %+v", after, got)
		}
	}
	now := start.Add(5 * time.Second)
	h.add(now, totals{accepted: 1000})
	points := h.points(now)
	if got := ratesOf(points, now); got != (Rates{Accepted: 200}) {
		t.Errorf("after 5 s: %+v", got)
	}
	if got := plotOf(points, now, point.acceptedRate); got.Top != 200 || got.Last != 200 {
		t.Errorf("the plot of 5 s has %v at its top, and %v at its end", got.Top, got.Last)
	}
}

// TestHistoryIsOneHour, whatever the agent did before.
func TestHistoryIsOneHour(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var h history
	for i := range 3*historySize + 7 {
		now = now.Add(lookEvery)
		h.add(now, totals{lag: int64(i)})
	}
	points := h.points(now)
	if len(points) != historySize || points[historySize-1].now.lag != int64(3*historySize+6) || now.Sub(points[0].at) >= historySpan {
		t.Errorf("%d points from %v to %v", len(points), points[0].at, points[len(points)-1].at)
	}
	if got := h.points(now.Add(2 * historySpan)); len(got) != 0 {
		t.Errorf("%d points are older than an hour", len(got))
	}
}

func TestPlots(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(age time.Duration, lag int64) point {
		return point{at: now.Add(-age), now: totals{lag: lag}, visible: true}
	}
	f := func(name string, points []point, want plot) {
		t.Helper()
		if got := plotOf(points, now, point.lag); got != want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want)
		}
	}
	f("nothing", nil, plot{})
	f("nothing of the last hour", []point{at(time.Hour, 5)}, plot{})
	f("one value", []point{at(0, 5)}, plot{Line: "M358 0h1", Area: "M358 72L358 0L358 72Z", Top: 5, Last: 5, Known: true, Fresh: true})
	f("the mean of half a minute", []point{at(20*time.Second, 6), at(5*time.Second, 2)}, plot{Line: "M358 14.4h1", Area: "M358 72L358 14.4L358 72Z", Top: 5, Last: 2, Known: true, Fresh: true})
	f("a gap", []point{at(5*time.Minute, 100), at(270*time.Second, 50), at(time.Minute, 0)},
		plot{Line: "M328 0L331 36M352 72h1", Area: "M328 72L328 0L331 36L331 72ZM352 72L352 72L352 72Z", Top: 100, Known: true})
	for v, want := range map[float64]float64{0: 1, -1: 1, 1: 1, 1.1: 2, 3: 5, 5.5: 10, 99: 100, 123_456: 200_000, .03: .05} {
		if got := roundUp(v); got < want*.999 || got > want*1.001 {
			t.Errorf("%v is rounded up to %v, want %v", v, got, want)
		}
	}
}

func TestTheFlow(t *testing.T) {
	now := time.Now()
	tones := func(sc scene) string {
		s := sc.server()
		f := FlowOf(s.status())
		var out []string
		for _, st := range []Stage{f.Files, f.Batches, f.Requests, f.Service, f.Quarantine, f.Spool} {
			if st.Tone != "" {
				out = append(out, st.Name+" "+st.Tone)
			}
		}
		if f.Dropped != nil {
			out = append(out, "Dropped")
		}
		return strings.Join(out, ", ")
	}
	want := map[string]string{
		"normal": "Service good, Quarantine wait",
		"behind": "Requests wait, Service good, Quarantine wait",
		"held":   "Service bad, Quarantine wait, Spool wait",
		"full":   "Service bad, Quarantine bad, Spool bad",
		"many":   "Requests wait, Service good, Quarantine wait",
	}
	for _, sc := range scenes(now) {
		if got := tones(sc); got != want[sc.name] {
			t.Errorf("%s: %s, want %s", sc.name, got, want[sc.name])
		}
	}
	bare := FlowOf(&Status{Files: []File{{Fix: "chmod"}}})
	if bare.Files.Tone != "bad" || bare.Spool.Figure != "off" || bare.Requests.Fill >= 0 {
		t.Errorf("%+v", bare)
	}
	full := FlowOf(&Status{Clusters: []Cluster{{Concurrency: 8, InFlight: 8}}, Spool: &Spool{Bytes: 95, MaxBytes: 100, Payloads: 1}})
	if full.Requests.Fill != 1 || full.Spool.Tone != "bad" || full.Spool.Notes[0] != "95 B of 100 B" {
		t.Errorf("%+v", full)
	}
}
