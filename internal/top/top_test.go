package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"kusto-agent/internal/ledger"
	"kusto-agent/internal/telemetry"
)

var update = flag.Bool("update", false, "write the screens down")

var started = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// answer is that of an agent with some of everything, a time after its start.
func answer(up time.Duration) *telemetry.Status {
	now := started.Add(up)
	n := uint64(up.Seconds())
	return &telemetry.Status{
		Version: "0.1.0", Host: "logbox", Started: started, UptimeSeconds: up.Seconds(), State: telemetry.Running,
		Headline: telemetry.Headline{Tone: "bad", Text: "Not everything is delivered: 1 route is blocked."},
		Rates:    telemetry.Rates{Read: 3780, Accepted: 3779.6, Bytes: 1_170_000, Delay: 1.1},
		Problems: []string{"the last reload changed nothing: agent.yaml:3:1: nonsense: unknown key\n  nonsense: true\n  ^"},
		Inputs: []telemetry.Input{
			{Name: "app", Database: "Logs", Table: "App", Format: "JSON", LagBytes: 3_099_888, Files: map[string]int{"reading": 1, "idle": 1},
				Books: ledger.Books{Read: 4000 * n, Accepted: 3900 * n, Pending: 100 * n, Quarantined: map[string]uint64{"malformed": 3}}},
			{Name: "orders", Database: "Sales", Table: "Orders", Format: "CSV", LagBytes: 6_623_714, Files: map[string]int{"waiting": 1}, Books: ledger.Books{Spooled: 7900}},
		},
		Routes: []telemetry.Route{
			{Cluster: "default", Database: "Logs", Table: "App", Format: "JSON", Mapping: "App_json", State: telemetry.Up, Queued: 2, InFlight: 3, Accepted: 3900 * n, LastAccepted: now.Add(-time.Second)},
			{Cluster: "default", Database: "Logs", Table: "Nginx", Format: "TXT", State: telemetry.Up, Accepted: 12 * n, LastAccepted: now.Add(-4 * time.Second)},
			{Cluster: "dr", Database: "Sales", Table: "Orders", Format: "CSV", Mapping: "Orders_csv", State: telemetry.Held, Queued: 2, Spooled: 7, Accepted: 40_002, LastAccepted: now.Add(-13 * time.Minute), Hold: &telemetry.Hold{
				Since: now.Add(-12 * time.Minute), NextTry: now.Add(18 * time.Second), Code: "BadRequest_EntityNotFound",
				Message: "Entity ID 'Orders_csv' of kind 'MappingPersistent' was not found.",
				Fix:     "sudo -u kusto-agent kusto-agent setup --input orders; after a change streaming nodes may need 5 minutes",
			}},
		},
		Clusters: []telemetry.Cluster{{Name: "default", State: telemetry.Up, Concurrency: 8, InFlight: 3}, {Name: "dr", State: telemetry.Up, Concurrency: 8}},
		Files: []telemetry.File{
			{Input: "orders", ID: "00000000000c0de0", Generation: 1, Path: "/data/exports/orders 2026-11-20.csv", Size: 14_204_118, Read: 9_120_000, Safe: 7_580_404, BehindBytes: 6_623_714, State: "waiting", Why: "its route is held"},
			{Input: "app", ID: "00000000000a11ce", Path: "/srv/app/worker-1.json", Size: 412_000_000, Read: int64(1_000_000 * n), Safe: 408_900_112, BehindBytes: 3_099_888, State: "reading"},
			{Input: "app", ID: "00000000000a11cf", Path: "/var/log/containers/a-pod-with-a-long-name_in-a-namespace_and-a-container-0123456789abcdef.log", Size: 98_112, Read: 98_112, Safe: 98_112, State: "idle"},
		},
		Quarantine: telemetry.Quarantine{Bytes: 4_120, MaxBytes: 1 << 30},
		Spool:      &telemetry.Spool{Bytes: 2_400_000, MaxBytes: 10 << 30, Payloads: 7},
	}
}

// watched is a screen of a size that has got two answers.
func watched(width, height int) *model {
	m := newModel(time.Second, nil)
	m.take(answer(100 * time.Second))
	send(m, tea.WindowSizeMsg{Width: width, Height: height}, answered{status: answer(102 * time.Second)})
	return m
}

func send(m *model, all ...tea.Msg) (last tea.Cmd) {
	for _, msg := range all {
		_, last = m.Update(msg)
	}
	return last
}

var named = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "backspace": tea.KeyBackspace, "tab": tea.KeyTab,
}

// press presses keys, by their names or as the text they make.
func press(m *model, keys ...string) (last tea.Cmd) {
	for _, k := range keys {
		code, known := named[k]
		if known {
			last = send(m, tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range k {
			last = send(m, tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return last
}

func TestScreens(t *testing.T) {
	f := func(name string, width, height int, keys ...string) {
		t.Helper()
		m := watched(width, height)
		press(m, keys...)
		got := m.screen()
		lines := strings.Split(got, "\n")
		if len(lines) != height {
			t.Errorf("%s: %d lines in a window of %d", name, len(lines), height)
		}
		for _, line := range lines {
			if ansi.StringWidth(line) > width {
				t.Errorf("%s: a line is wider than the window: %q", name, ansi.Strip(line))
			}
		}
		var plain strings.Builder
		for _, line := range lines {
			plain.WriteString(strings.TrimRight(ansi.Strip(line), " ") + "\n")
		}
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(plain.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if plain.String() != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, plain.String(), want)
		}
	}
	f("routes-80x24", 80, 24)
	f("routes-160x40", 160, 40)
	f("files-80x24", 80, 24, "2")
	f("files-160x40", 160, 40, "2")
	f("errors-80x24", 80, 24, "3")
	f("route-80x24", 80, 24, "enter")
	f("file-80x24", 80, 24, "2", "enter")
	f("error-80x24", 80, 24, "3", "enter")
	f("filter-80x24", 80, 24, "2", "/", "app")
	f("tiny-20x5", 20, 5)
}

// TestKeys: what each does, told by the rows and which of them is marked.
func TestKeys(t *testing.T) {
	f := func(want string, keys ...string) {
		t.Helper()
		m := watched(80, 24)
		press(m, keys...)
		rows := m.rows()
		var got []string
		for i, r := range rows {
			name := r.name[strings.LastIndexAny(r.name, "/.")+1:]
			if i == m.lists[m.list].cursor {
				name = "[" + name + "]"
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %s, want %s", keys, strings.Join(got, " "), want)
		}
	}
	f("[Orders] App Nginx")
	f("Orders [App] Nginx", "down")
	f("[Orders] App Nginx", "up")
	f("Orders App [Nginx]", "end")
	f("Orders App [Nginx]", "j", "j", "j", "j")
	f("[Orders] App Nginx", "end", "pgup")
	f("[App] Nginx Orders", "s")
	f("[Orders] App Nginx", "s", "s")
	f("[App] Nginx Orders", "s", "s", "s")
	f("[Orders] App Nginx", "s", "s", "s", "s")
	f("[App] Nginx Orders", "r")
	f("[Nginx]", "/", "NGI")
	f("[Orders]", "/", "held", "enter")
	f("[Orders] App Nginx", "/", "x", "backspace")
	f("[Orders] App Nginx", "/", "zzz", "esc")
	f("[Orders] App Nginx", "/", "app", "enter", "esc")
	f("", "/", "zzz", "enter")
	f("[Orders] App Nginx", "2", "/", "zzz", "enter", "1") // each list has a filter of its own
	f("", "/", "zzz", "enter", "enter", "down")
	f("Orders App [Nginx]", "end", "tab", "tab", "tab") // each list keeps its place
}

// TestRatesAreOfTenSeconds, and of one run of the agent.
func TestRatesAreOfTenSeconds(t *testing.T) {
	m := newModel(time.Second, nil)
	f := func(up time.Duration, accepted uint64, started time.Time, want string) {
		t.Helper()
		s := answer(up)
		s.Started, s.Routes = started, s.Routes[:1]
		s.Routes[0].Accepted = accepted
		m.take(s)
		if got := m.rows()[0].cells[2]; got != want {
			t.Errorf("%d records after %v: %s, want %s", accepted, up, got, want)
		}
	}
	f(100*time.Second, 1000, started, "0/s")
	f(102*time.Second, 1000, started, "0/s")
	f(104*time.Second, 1400, started, "100/s")
	f(109*time.Second, 1900, started, "100/s")
	f(112*time.Second, 2400, started, "140/s") // since 102 s
	f(200*time.Second, 2488, started, "1.0/s") // it did not answer for long
	f(2*time.Second, 50, started.Add(time.Hour), "0/s")
	f(4*time.Second, 70, started.Add(time.Hour), "10/s")
}

// TestTimesAfterASleep: the uptime does not grow while the machine sleeps, and the times of what
// happened are right all the same.
func TestTimesAfterASleep(t *testing.T) {
	awake, slept := answer(200*time.Second), answer(200*time.Second)
	slept.Time, slept.UptimeSeconds = slept.Clock(), 100
	for i, rows := range []func(*telemetry.Status) []row{func(s *telemetry.Status) []row { return routeRows(s, nil) }, troubleRows} {
		if got, want := fmt.Sprint(rows(slept)), fmt.Sprint(rows(awake)); got != want {
			t.Errorf("list %d: got\n%s\nwant\n%s", i, got, want)
		}
	}
}

// TestAPausedScreenStays, and asks nothing, until it is let go on.
func TestAPausedScreenStays(t *testing.T) {
	asked := 0
	m := watched(80, 24)
	m.every, m.ask = time.Nanosecond, func() tea.Msg { asked++; return answered{status: answer(200 * time.Second)} }
	was := m.now
	press(m, "p")
	send(m, answered{status: answer(150 * time.Second)}) // it was under way
	if cmd := send(m, due{}); m.now != was || cmd == nil || cmd() != (due{}) || asked != 0 {
		t.Errorf("paused: asked %d times", asked)
	}
	if !strings.Contains(ansi.Strip(m.screen()), "PAUSED") {
		t.Error("it does not say that it is paused")
	}
	press(m, "p")
	if cmd := send(m, due{}); cmd == nil || send(m, cmd()) == nil || asked != 1 || m.now.UptimeSeconds != 200 {
		t.Errorf("going on: asked %d times, shows %v", asked, m.now.UptimeSeconds)
	}
}

// TestAnAgentThatIsGone leaves what it said last, and the screen says so and asks on.
func TestAnAgentThatIsGone(t *testing.T) {
	m := watched(120, 24)
	cmd := send(m, answered{err: errors.New("connection refused \x1b[2J")})
	if got := ansi.Strip(m.screen()); cmd == nil || !strings.Contains(got, "no answer, this is old: ") || !strings.Contains(got, "Logs.App") || strings.Contains(m.screen(), "\x1b[2J") {
		t.Errorf("shows\n%s", got)
	}
	send(m, answered{status: answer(104 * time.Second)})
	if got := m.screen(); strings.Contains(got, "no answer") {
		t.Errorf("afterwards\n%s", got)
	}
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		if cmd := send(m, key); cmd == nil {
			t.Errorf("%s does not quit", key)
		} else if _, quits := cmd().(tea.QuitMsg); !quits {
			t.Errorf("%s does not quit", key)
		}
	}
}

// TestNothingSteersTheTerminal, and a list of 10,000 files is moved in.
func TestNothingSteersTheTerminal(t *testing.T) {
	const bad = "\x1b]0;owned\x07\nforged\u009b31m"
	s := answer(time.Minute)
	s.Host, s.Version, s.State, s.Headline.Text, s.Problems = bad, bad, bad, bad, []string{bad}
	s.Routes[2].Hold = &telemetry.Hold{Message: bad, Fix: bad, Code: bad, Activity: bad}
	s.Routes[0].Table, s.Routes[0].State, s.Routes[0].Cluster, s.Routes[0].Mapping = bad, bad, bad, bad
	for i := range 10_000 {
		s.Files = append(s.Files, telemetry.File{Input: bad, Path: fmt.Sprint("/", i, bad), State: bad, Why: bad, Fix: bad})
	}
	m := newModel(time.Second, nil)
	m.take(s)
	send(m, tea.WindowSizeMsg{Width: 200, Height: 50})
	for _, keys := range [][]string{{"1"}, {"enter"}, {"esc", "2"}, {"end"}, {"enter"}, {"3"}, {"enter"}, {"esc", "/", "\x1b"}} {
		press(m, keys...)
		got := m.screen()
		for _, seq := range []string{"\x1b]", "\x07", "\u009b", "\nforged"} {
			if strings.Contains(got, seq) {
				t.Fatalf("%q passes after %q:\n%q", seq, keys, got)
			}
		}
		if n := strings.Count(got, "\n"); n != 49 {
			t.Errorf("%d lines after %q", n+1, keys)
		}
	}
}
