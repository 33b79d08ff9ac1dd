package telemetry

import (
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/ledger"
)

// scene is an agent in one of the states that a person may find it in, with the hour
// before.
type scene struct {
	name   string
	status Status
	ledger *ledger.Ledger
	looks  []look
	tone   string
	first  string // what is told first, below the headline; empty: nothing is wrong
}

type look struct {
	at     time.Time
	totals totals
}

// hour makes looks of the last hour: a rate of records a second, the bytes that are not
// read yet, and the delay of a payload a second, by the minute.
func hour(now time.Time, rate, lag, delay func(minute float64) float64) (all []look) {
	var t totals
	for i := range historySize {
		minute := float64(i) * lookEvery.Minutes()
		n := uint64(rate(minute) * lookEvery.Seconds())
		t.read, t.accepted, t.bytes, t.lag = t.read+n, t.accepted+n, t.bytes+n*310, int64(lag(minute))
		if n > 0 {
			t.delays.payloads += uint64(lookEvery.Seconds())
			t.delays.sum += time.Duration(delay(minute) * lookEvery.Seconds() * float64(time.Second))
		}
		all = append(all, look{now.Add(-historySpan + time.Duration(i+1)*lookEvery), t})
	}
	return all
}

func wave(middle, swing float64) func(float64) float64 {
	return func(minute float64) float64 {
		return middle + swing*(math.Sin(minute/4)+math.Sin(minute*1.7)/3)
	}
}

// untilMinute is one thing before a minute and another from it on.
func untilMinute(end float64, before, after func(float64) float64) func(float64) float64 {
	return func(minute float64) float64 {
		if minute < end {
			return before(minute)
		}
		return after(minute - end)
	}
}

func always(v float64) func(float64) float64  { return func(float64) float64 { return v } }
func growing(v float64) func(float64) float64 { return func(m float64) float64 { return v * m } }

func scenes(now time.Time) []scene {
	spool := func(payloads int, bytes int64) *Spool {
		s := &Spool{Bytes: bytes, MaxBytes: 10 << 30, Payloads: payloads}
		if payloads > 0 {
			s.Oldest = now.Add(-17 * time.Minute)
		}
		return s
	}
	base := func(state string) (Status, *ledger.Ledger) {
		s, l := busy(now)
		s.Problems, s.Config.Error = nil, ""
		s.Quarantine = Quarantine{MaxBytes: 1 << 30}
		s.Spool = spool(0, 0)
		for i := range s.Routes {
			s.Routes[i].State, s.Routes[i].Hold, s.Routes[i].LastAccepted, s.Routes[i].Spooled = state, nil, now.Add(-time.Second), 0
		}
		return s, l
	}
	normal, normalBooks := base(Up)
	for i := range normal.Files {
		f := &normal.Files[i]
		f.Safe, f.BehindBytes, f.State, f.Why = f.Size, 0, "idle", ""
	}
	behind, behindBooks := base(Up)
	behind.Files[0].BehindBytes, behind.Files[0].Safe = 310_000_000, 102_000_000
	for i := range behind.Clusters {
		behind.Clusters[i].InFlight = behind.Clusters[i].Concurrency
	}
	behind.Routes[0].State, behind.Routes[0].Hold = Retrying, &Hold{
		Since: now.Add(-40 * time.Second), NextTry: now.Add(3 * time.Second), Code: "429",
		Message: "the cluster answers Too Many Requests", Fix: "scale the cluster up, or lower send.rate_limit",
	}
	held, heldBooks := base(Up)
	held.Routes[2].State, held.Routes[2].Spooled, held.Routes[2].Queued = Held, 7, 2
	held.Routes[2].Hold = &Hold{
		Since: now.Add(-12 * time.Minute), NextTry: now.Add(18 * time.Second), Code: "BadRequest_EntityNotFound",
		Message: "Entity ID 'Orders_csv' of kind 'MappingPersistent' was not found.",
		Fix:     "sudo -u kusto-agent kusto-agent setup --input orders",
	}
	held.Quarantine.Bytes = 4_120
	heldBooks.Spooled("orders", 7_900)
	held.Spool = spool(7, 2_400_000)
	full, fullBooks := base(Down)
	fullBooks.Spooled("app", 6_000)
	full.Clusters[0].State, full.Clusters[0].Hold = Down, &Hold{
		Since: now.Add(-34 * time.Minute), NextTry: now.Add(21 * time.Second),
		Message: "dial tcp 20.50.2.9:443: connect: connection refused", Fix: "nothing listens there: check cluster, and whether it is running",
	}
	full.Spool = spool(2_560, 10<<30)
	full.Spool.Error = "spool is full"
	full.Quarantine = Quarantine{Bytes: 1 << 30, MaxBytes: 1 << 30, Error: "quarantine is full", Fix: "kusto-agent quarantine ls shows what is in it; kusto-agent quarantine rm makes room"}
	many, manyBooks := base(Up)
	for i := range 200 {
		many.Routes = append(many.Routes, Route{Cluster: "default", Database: "Logs", Table: fmt.Sprintf("Table%03d", i), Format: "JSON", State: Up, LastAccepted: now})
		many.Inputs = append(many.Inputs, Input{Name: fmt.Sprintf("input%03d", i), Cluster: "default", Database: "Logs", Table: fmt.Sprintf("Table%03d", i), Format: "JSON"})
	}
	many.Routes[150].State, many.Routes[150].Hold = Retrying, &Hold{Since: now, Code: "503", Message: "the cluster is busy"}
	for i := range 10_000 {
		many.Files = append(many.Files, File{Input: fmt.Sprintf("input%03d", i%200), Path: fmt.Sprintf("/var/log/pods/namespace_pod-%05d_0a1b2c3d-4e5f/container/0.log", i), Size: 1000, Read: 1000, Safe: 1000, State: "idle"})
	}
	return []scene{
		{"normal", normal, normalBooks, hour(now, wave(4200, 900), always(0), wave(.9, .2)), "good", ""},
		{"behind", behind, behindBooks, hour(now, untilMinute(48, wave(4200, 900), wave(2500, 200)), untilMinute(48, always(0), growing(26e6)), untilMinute(48, wave(.9, .2), growing(.4))), "wait", "Logs.App is retrying"},
		{"held", held, heldBooks, hour(now, wave(3100, 700), untilMinute(48, always(0), growing(.8e6)), wave(.9, .2)), "bad", "Sales.Orders is held"},
		{"full", full, fullBooks, hour(now, untilMinute(26, wave(4200, 900), always(0)), untilMinute(40, always(0), growing(40e6)), wave(.9, .2)), "bad", "spool is full"},
		{"many", many, manyBooks, nil, "wait", "Logs.Table147 is retrying"},
	}
}

func (sc scene) server() *Server {
	s := serverFor(sc.status, sc.ledger)
	s.opts.Configuration = func() (string, error) { return "cluster: https://mycluster.westeurope.kusto.windows.net\n", nil }
	if os.Getenv("KUSTO_AGENT_PICTURES") == "" {
		s.renewed = time.Hour // not while a test looks at it
	}
	for _, l := range sc.looks {
		s.history.add(l.at, l.totals)
	}
	return s
}

// TestThePageInABrowser: in each state the headline and the first trouble are seen
// without scrolling, nothing is wider than the window, on a phone either, all words
// stand out from what is behind them in light and in dark, and nothing breaks the policy.
func TestThePageInABrowser(t *testing.T) {
	b := newBrowser(t)
	for _, sc := range scenes(time.Now()) {
		server := httptest.NewServer(sc.server().Handler())
		defer server.Close()
		for _, window := range []struct {
			width, height int
			scheme        string
		}{{1280, 900, "light"}, {1280, 900, "dark"}, {390, 844, "light"}, {390, 844, "dark"}} {
			name := fmt.Sprintf("%s-%d-%s", sc.name, window.width, window.scheme)
			b.open(server.URL+"/", window.width, window.height, window.scheme)
			b.picture(name)
			var seen struct {
				Width     int
				Tone      string
				Trouble   string
				TroubleAt float64
				Stages    int
				Dark      bool
			}
			b.evaluate(`({Width: document.documentElement.scrollWidth, Tone: document.querySelector(".verdict").className,
				Trouble: document.querySelector(".note")?.innerText ?? "", TroubleAt: document.querySelector(".note")?.getBoundingClientRect().bottom ?? 0,
				Stages: [...document.querySelectorAll(".flow li")].filter(e => e.getBoundingClientRect().height > 40).length,
				Dark: getComputedStyle(document.body).backgroundColor === "rgb(17, 20, 24)"})`, &seen)
			if seen.Width > window.width {
				t.Errorf("%s: the page is %d wide", name, seen.Width)
			}
			if !strings.HasSuffix(seen.Tone, sc.tone) || !strings.Contains(seen.Trouble, sc.first) || sc.first == "" && seen.Trouble != "" {
				t.Errorf("%s: the tone is %q, and told first is %q", name, seen.Tone, seen.Trouble)
			}
			if seen.TroubleAt > float64(window.height) || seen.Stages < 6 || seen.Dark != (window.scheme == "dark") {
				t.Errorf("%s: %+v", name, seen)
			}
			var pale []string
			b.evaluate(paleText, &pale)
			if len(pale) > 0 {
				t.Errorf("%s: hard to read: %q", name, pale)
			}
			if said := b.complaints(); len(said) > 0 {
				t.Errorf("%s: %s", name, said)
			}
		}
	}
}

// paleText finds words whose contrast to what is behind them is below 4.5 to 1, as
// WCAG 2 has it for level AA.
const paleText = `(() => {
	const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return {c: m.slice(0, 3), a: m[3] ?? 1} };
	const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
	const behind = e => { for (; e; e = e.parentElement) { const b = rgb(getComputedStyle(e).backgroundColor); if (b.a === 1) return b.c } return [255, 255, 255] };
	const out = new Set();
	for (const e of document.body.querySelectorAll("*")) {
		const own = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent.trim()).join(" ").trim();
		if (!own || e.closest("svg") || e.getBoundingClientRect().height === 0) continue;
		const [a, b] = [light(rgb(getComputedStyle(e).color).c), light(behind(e))].sort((x, y) => y - x);
		if ((a + .05) / (b + .05) < 4.5) out.add(own.slice(0, 40) + " " + ((a + .05) / (b + .05)).toFixed(2));
	}
	return [...out];
})()`

// TestThePageByKeyboard: it is paused, filtered and let go on without a pointer.
func TestThePageByKeyboard(t *testing.T) {
	b := newBrowser(t)
	all := scenes(time.Now())
	server := httptest.NewServer(all[len(all)-1].server().Handler())
	defer server.Close()
	b.open(server.URL+"/", 1280, 900, "light")
	focusOn := func(want string) { // which may be given after the page is loaded
		b.t.Helper()
		b.evaluate(`new Promise(found => {
			const look = () => [...document.querySelectorAll("a, input")].some(e => e === document.activeElement && (e.name || e.innerText) === "`+want+`") ? found(true) : requestAnimationFrame(look);
			look();
		})`, new(bool))
	}
	load := func() {
		b.t.Helper()
		for _, m := range b.events {
			if m.Method == "Page.loadEventFired" {
				b.events = nil
				return
			}
		}
		for b.next().Method != "Page.loadEventFired" {
		}
		b.events = nil
	}
	b.press("Tab", 9)
	focusOn("Pause or filter")
	b.events = nil
	b.press("Enter", 13)
	load()
	var refresh, rows int
	b.evaluate(`document.querySelectorAll("meta[http-equiv]").length`, &refresh)
	if refresh != 0 {
		t.Errorf("the paused page has %d refreshes", refresh)
	}
	focusOn("q")
	b.call("Input.insertText", map[string]any{"text": "TABLE01"}, nil)
	b.press("Enter", 13)
	load()
	b.evaluate(`document.querySelectorAll("[aria-label=Routes] tbody tr").length`, &rows)
	b.evaluate(`document.querySelectorAll("meta[http-equiv]").length`, &refresh)
	if rows != 10 || refresh != 1 {
		t.Errorf("%d routes are found, %d refreshes", rows, refresh)
	}
}
