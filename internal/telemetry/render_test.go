package telemetry

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/ledger"
)

func rendered(t *testing.T, s Status, l *ledger.Ledger, now time.Time, color bool) string {
	t.Helper()
	s.complete("", l, now)
	s.Host = "logbox"
	var b strings.Builder
	if err := Render(&b, &s, color); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTimesAfterASleep: the machine has slept for 8 h, in which the uptime does not grow. Times are
// told as on a machine that was awake.
func TestTimesAfterASleep(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s, l := busy(now)
	s.complete("", l, now)
	s.UptimeSeconds -= (8 * time.Hour).Seconds()
	var b strings.Builder
	if err := Render(&b, &s, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{", started 19h 14m ago\n", "since 12m 0s ago, next try in 18s\n", "         1s ago\n", "  in 42m 0s\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestTheScreenIsTheStatusInWords(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s, l := busy(now)
	want := `kusto-agent 0.1.0 on logbox, started 1d 3h ago
Not everything is delivered: 1 route is blocked.

held Sales.Orders: BadRequest_EntityNotFound, since 12m 0s ago, next try in 18s
  Entity ID 'Orders_csv' of kind 'MappingPersistent' was not found.
  what to do: create the mapping with: kusto-agent setup, or correct mapping: of input orders; after a change streaming nodes may need 5 minutes

INPUT   TO                 READ   ACCEPTED  PENDING  FILTERED  QUARANTINED  DROPPED  SPOOLED  BEHIND  FILES
app     Logs.App      8,412,793  8,401,120   11,656        14            3        0        0  3.1 MB  1 idle, 1 reading
nginx   Logs.Nginx    1,250,403  1,250,403        0         0            0        0        0     0 B  1 idle, 1 rotated
orders  Sales.Orders     48,151     40,002    8,118        31            0        0        0  6.6 MB  1 waiting

ROUTE         FORMAT             STATE   ACCEPTED  BATCHES QUEUED  BATCHES SPOOLED  BATCHES IN FLIGHT  LAST ACCEPTED
Logs.App      JSON by App_json   up     8,401,120               2                0                  3         1s ago
Logs.Nginx    TXT                up     1,250,403               0                0                  0         4s ago
Sales.Orders  CSV by Orders_csv  held      40,002               2                7                  0     13m 0s ago

CLUSTER  URL                                             STATE  REQUESTS IN FLIGHT  TOKEN EXPIRES
default  https://mycluster.westeurope.kusto.windows.net  up                 3 of 8      in 42m 0s
dr       https://dr.northeurope.kusto.windows.net        up                 0 of 8      in 51m 0s

FILE                                 INPUT   STATE      SIZE    SAFE  BEHIND
/data/exports/orders 2026-11-20.csv  orders  waiting   14 MB  7.6 MB  6.6 MB  its route is held
/srv/app/worker-1.json               app     reading  412 MB  409 MB  3.1 MB
/srv/app/worker-2.json               app     idle      98 kB   98 kB     0 B
/var/log/nginx/access.log            nginx   idle      11 MB   11 MB     0 B
/var/log/nginx/access.log.1          nginx   rotated   52 MB   52 MB     0 B
to list the files that are not read, with the reason: kusto-agent files
`
	if got := rendered(t, s, l, now, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(rendered(t, s, l, now, false), "\x1b") || !strings.Contains(rendered(t, s, l, now, true), "\x1b[31mheld\x1b[0m") {
		t.Error("colour where none was asked for, or none where it was")
	}
}

func TestNothingSteersTheTerminal(t *testing.T) {
	const bad = "\x1b]0;owned\x07\nforged line\u009b31m"
	s := Status{
		Version: bad, Problems: []string{bad}, Started: time.Now(),
		Inputs:   []Input{{Name: bad}},
		Routes:   []Route{{State: Held, Hold: &Hold{Code: bad, Message: bad, Fix: bad}}},
		Clusters: []Cluster{{Name: bad, URL: bad}},
	}
	for i := range 12 {
		s.Files = append(s.Files, File{Input: bad, Path: fmt.Sprint(i, bad), Why: bad})
	}
	got := rendered(t, s, ledger.New(), time.Now(), false)
	if strings.ContainsAny(got, "\x1b\x07\u009b") || strings.Contains(got, "\nforged line") {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(got, "and 2 more files") {
		t.Errorf("the rest of the files is not told: %s", got)
	}
}

func TestWords(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(CountText(0), "0")
	f(CountText(999), "999")
	f(CountText(1000), "1,000")
	f(CountText(1234567), "1,234,567")
	f(BytesText(0), "0 B")
	f(BytesText(999), "999 B")
	f(BytesText(1000), "1.0 kB")
	f(BytesText(9_960), "10 kB")
	f(BytesText(999_499), "999 kB")
	f(BytesText(999_600), "1.0 MB")
	f(BytesText(1<<62), "4.6 EB")
	f(spanText(-time.Second), "0s")
	f(spanText(59900*time.Millisecond), "1m 0s")
	f(spanText(3*time.Hour+61*time.Second), "3h 1m")
	f(spanText(50*time.Hour), "2d 2h")
	now := time.Now()
	f(AgoText(now, time.Time{}), "–")
	f(InText(now, now.Add(-time.Hour)), "now")
	f(InText(now, time.Time{}), "–")
	f(Lines("a\tb\n\x1b[31mc\n"), "a    b\n\"\\x1b[31mc\"")
}

// What quarantine holds, and why it keeps nothing, is on the screen and in the
// metrics.
func TestQuarantineIsShown(t *testing.T) {
	s := Status{State: Running, Quarantine: Quarantine{Bytes: 16_000, MaxBytes: 20_000, Dropped: 7, Error: "quarantine is full", Fix: "make room"}}
	got := rendered(t, s, ledger.New(), time.Now(), false)
	for _, want := range []string{
		"Nothing is delivered just now, with 1 problem and refused records in quarantine (see kusto-agent quarantine ls).", "quarantine holds 16 kB of 20 kB",
		"quarantine is full; what meets a bad record waits in its file. What to do: make room",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	families := scrape(t, serverFor(s, ledger.New()))
	for name, want := range map[string]float64{"quarantine_bytes": 16_000, "quarantine_healthy": 0, "quarantine_dropped_records_total": 7} {
		if got := value(families, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestTheVerdict(t *testing.T) {
	busy, idle, lossy := sums{Lag: 5}, sums{}, sums{Dropped: 1200}
	up := Route{State: Up, LastAccepted: time.Now()}
	f := func(s Status, t2 sums, tone, want string) {
		t.Helper()
		s.State = cmp.Or(s.State, Running)
		if gotTone, got := verdict(&s, t2); got != want || gotTone != tone {
			t.Errorf("got %s %q, want %s %q", gotTone, got, tone, want)
		}
	}
	routes := func(all ...Route) Status { return Status{Routes: all} }
	f(Status{State: Starting}, busy, "wait", "Starting.")
	f(Status{State: Stopping}, busy, "wait", "Stopping: what is under way is being finished.")
	f(Status{}, idle, "good", "Waiting for records: there is nothing to deliver yet.")
	f(routes(Route{State: Up}), busy, "wait", "Nothing is delivered yet: the first records are being read.")
	f(routes(up), idle, "good", "Up to date: all that was read was accepted.")
	f(routes(up), busy, "good", "Delivering.")
	f(routes(up), lossy, "wait", "Delivering, with 1,200 records dropped since the start.")
	f(routes(up), sums{Dropped: 1}, "wait", "Delivering, with 1 record dropped since the start.")
	f(Status{Problems: []string{"a", "b"}}, busy, "bad", "Nothing is delivered just now, with 2 problems.")
	f(Status{Problems: []string{"a", "b"}, Routes: []Route{up}}, idle, "bad", "Delivering, with 2 problems.")
	f(routes(Route{State: Retrying}, up), busy, "wait", "Delivering, with 1 route trying again.")
	f(routes(Route{State: Retrying}), busy, "wait", "Nothing is delivered just now, with 1 route trying again.")
	f(routes(Route{State: Down}, Route{State: Held}), busy, "bad", "Nothing is delivered: 2 routes are blocked.")
	f(routes(Route{State: Down}, up), busy, "bad", "Not everything is delivered: 1 route is blocked.")
}

// TestTheVerdictWhileQuarantineHoldsRecords: whatever else there is, the headline says
// that there are some, and not that all is well.
func TestTheVerdictWhileQuarantineHoldsRecords(t *testing.T) {
	up := Route{State: Up, LastAccepted: time.Now()}
	for _, all := range [][]Route{nil, {up}, {up, {State: Retrying}}, {{State: Retrying}}, {up, {State: Down}}, {{State: Held}}} {
		for _, problems := range [][]string{nil, {"a"}} {
			for _, t2 := range []sums{{}, {Lag: 5}, {Dropped: 1}} {
				s := Status{State: Running, Routes: all, Problems: problems, Quarantine: Quarantine{Bytes: 1}}
				tone, got := verdict(&s, t2)
				if tone == "good" || strings.Contains(got, "Delivering") || strings.Contains(got, "Up to date") || !strings.Contains(got, "quarantine ls") {
					t.Errorf("%s %q", tone, got)
				}
			}
		}
	}
}

// TestAClusterThatIsDownSaysWhy: once for all its routes, in text and on the page, as
// long as it is down; a route with a reason of its own says that besides.
func TestAClusterThatIsDownSaysWhy(t *testing.T) {
	now := time.Now()
	why := &Hold{
		Since: now.Add(-90 * time.Second), NextTry: now.Add(20 * time.Second),
		Message: "dial tcp 127.0.0.1:28280: connect: connection refused", Fix: "nothing listens there: check cluster",
	}
	s := Status{
		State:    Running,
		Clusters: []Cluster{{Name: "default", URL: "https://here", State: Down, Hold: why}, {Name: "dr", URL: "https://there", State: Retrying, Hold: why}},
		Routes: []Route{
			{Cluster: "default", Database: "Logs", Table: "A", State: Down, Hold: why}, {Cluster: "https://here", Database: "Logs", Table: "B", State: Down, Hold: why},
			{Cluster: "dr", Database: "Logs", Table: "C", State: Retrying, Hold: &Hold{Message: "busy"}}, {Cluster: "dr", Database: "Logs", Table: "D", State: Up},
		},
	}
	got := rendered(t, s, ledger.New(), now, false)
	for _, want := range []string{
		"down cluster default (https://here), since 1m 30s ago, next try in 20s\n  dial tcp 127.0.0.1:28280: connect: connection refused\n  what to do: nothing listens there: check cluster\n",
		"retrying Logs.C\n  busy\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	page := get(serverFor(s, ledger.New()), "/").Body.String()
	for _, want := range []string{"cluster default (https://here) is down", "connection refused", "What to do: nothing listens there", "Next try", "Logs.C is retrying"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if strings.Count(got, "connection refused") != 1 || strings.Count(page, "connection refused") != 1 {
		t.Errorf("the reason is told several times:\n%s", got)
	}
	if n := value(scrape(t, serverFor(s, ledger.New())), "routes_held"); n != 0 {
		t.Errorf("%v routes are held, they are down", n)
	}
}

func TestWhatNeedsAPerson(t *testing.T) {
	f := func(want Need, s Status) {
		t.Helper()
		if got := s.Need(); got != want {
			t.Errorf("%+v: %v, want %v", s, got, want)
		}
	}
	up := Route{State: Up, LastAccepted: time.Now()}
	f(NeedNothing, Status{State: Starting})
	f(NeedNothing, Status{Routes: []Route{up, {State: Retrying}}, Clusters: []Cluster{{State: Up}}})
	f(NeedPerson, Status{Routes: []Route{up, {State: Held}}})
	f(NeedPerson, Status{Clusters: []Cluster{{State: Held}}})
	f(NeedPerson, Status{Problems: []string{"a"}})
	f(NeedPerson, Status{Quarantine: Quarantine{Bytes: 1}})
	f(NeedPerson, Status{Inputs: []Input{{Books: ledger.Books{Dropped: map[string]uint64{ledger.SpoolFull: 1}}}}})
	f(NeedService, Status{Routes: []Route{up, {State: Down}, {State: Held}}})
	f(NeedService, Status{Clusters: []Cluster{{State: Down}, {State: Held}}, Problems: []string{"a"}})
	for _, sc := range scenes(time.Now()) { // the exit code and the headline agree
		s := sc.server().status()
		if bad := s.Headline.Tone == "bad"; bad != (s.Need() != NeedNothing) {
			t.Errorf("%s: the headline is %+v, and the need %v", sc.name, s.Headline, s.Need())
		}
	}
}
