package delivery

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// bench is a machine under the hands of a test.
type bench struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	actions []Action // of the last event
	ids     byte
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: time.Unix(1000, 0)}
	b.m = New(Settings{Concurrency: 8, Initial: 500 * time.Millisecond, Max: 30 * time.Second, Patience: 10 * time.Second},
		[]Target{{"c", "http://c"}}, 1)
	b.do(Start{})
	return b
}

func (b *bench) do(e Event) []Action {
	b.actions = append([]Action(nil), b.m.Apply(b.now, e)...)
	return b.actions
}

func (b *bench) wait(d time.Duration) { b.now = b.now.Add(d); b.do(Tick{}) }

func (b *bench) data(table string, records int) *record.Payload {
	b.ids++
	return &record.Payload{ID: record.BatchID{b.ids}, Route: record.Route{Cluster: "http://c", Table: table}, Records: records}
}

// find returns the payload of the last event's action of type T.
func find[T Action](b *bench) T {
	b.t.Helper()
	for _, a := range b.actions {
		if a, ok := a.(T); ok {
			return a
		}
	}
	b.t.Fatalf("no %T in %+v", *new(T), b.actions)
	panic("unreachable")
}

// sending is a payload of a table that has its request.
func (b *bench) sending(table string, records int) *Payload {
	b.t.Helper()
	b.do(Take{Data: b.data(table, records)})
	p := find[Request](b).P
	b.ask(p)
	return p
}

func (b *bench) ask(p *Payload) {
	p.Data.Attempt++
	b.do(Asked{p})
}

// replayed is a payload out of the spool that has its request.
func (b *bench) replayed(table string, records int) *Payload {
	b.t.Helper()
	return b.fetched(b.data(table, records))
}

// fetched is a payload that the spool gives.
func (b *bench) fetched(d *record.Payload) *Payload {
	b.t.Helper()
	b.do(Restock{d.Route, Stock{Ready: 1}})
	b.do(Fetched{Ticket: find[Fetch](b).Ticket, Data: d, Frame: d.ID})
	p := find[Request](b).P
	b.ask(p)
	return p
}

func said(v kusto.Verdict, status int) kusto.Answer {
	return kusto.Answer{Verdict: v, Status: status, Wrote: true, Err: &kusto.Error{Status: status, Code: fmt.Sprint(status)}}
}

var good = kusto.Answer{Verdict: kusto.Accepted, Status: 200}

// large is a payload of 4 MB, and limited has the service refuse one for its size.
func (b *bench) large(table string) *record.Payload {
	d := b.data(table, 4)
	d.RawBytes = 4e6
	return d
}

func (b *bench) limited(table string) {
	b.t.Helper()
	b.do(Take{Data: b.large(table)})
	p := find[Request](b).P
	b.ask(p)
	b.do(Answered{p, said(kusto.TooLarge, 413)})
	b.do(Divided{p, []*record.Payload{b.data(table, 2), b.data(table, 2)}})
	for _, a := range slices.Clone(b.actions) {
		if a, is := a.(Request); is {
			b.ask(a.P)
			b.do(Answered{a.P, good})
			b.do(Ended(a))
		}
	}
}

// accepts has the route accept another payload.
func (b *bench) accepts(table string) {
	p := b.sending(table, 1)
	b.do(Answered{p, good})
	b.do(Ended{p})
}

// outage has the service be out of reach until the cluster is down, and returns a
// payload that was sent and taken by the spool.
func (b *bench) outage(table string) *Payload {
	p := b.sending(table, 1)
	b.now = b.now.Add(11 * time.Second)
	b.do(Answered{p, said(kusto.NotSent, 0)})
	return p
}

// row is a row of the table: in a stage, on an event, a payload comes to the next
// stage, and the shell gets actions. The payload run returns is looked at; its
// stage before the last event is the first column.
type row struct {
	stage, event, next, actions string
	run                         func(b *bench) (p *Payload, last Event)
}

var rows = []row{
	{"new", "Take", "sending", "Request", func(b *bench) (*Payload, Event) {
		return nil, Take{Data: b.data("T", 1)}
	}},
	{"new", "Take, durable", "holding", "Spill (stay)", func(b *bench) (*Payload, Event) {
		return nil, Take{Data: b.data("T", 1), Durable: true}
	}},
	{"new", "Take, larger than the service takes", "bisecting", "Divide", func(b *bench) (*Payload, Event) {
		b.limited("T")
		return nil, Take{Data: b.large("T")}
	}},
	{"new", "Fetched, larger than the service takes", "bisecting", "Divide", func(b *bench) (*Payload, Event) {
		b.limited("T")
		d := b.large("T")
		b.do(Restock{d.Route, Stock{Ready: 1}})
		return nil, Fetched{Ticket: find[Fetch](b).Ticket, Data: d, Frame: d.ID}
	}},
	{"new", "Fetched", "sending", "Request", func(b *bench) (*Payload, Event) {
		b.do(Restock{record.Route{Cluster: "http://c", Table: "T"}, Stock{Ready: 1}})
		d := b.data("T", 1)
		return nil, Fetched{Ticket: find[Fetch](b).Ticket, Data: d, Frame: d.ID}
	}},
	{"new", "Fetched, a probe of this round before, others wait", "returning", "Return, Fetch", func(b *bench) (*Payload, Event) {
		p := b.replayed("T", 1)
		b.now = b.now.Add(11 * time.Second)
		b.do(Answered{p, said(kusto.NotSent, 0)})
		b.do(Returned{p})
		b.wait(time.Minute)
		return nil, Fetched{Ticket: find[Fetch](b).Ticket, Data: p.Data, Frame: p.Frame, Stock: Stock{Ready: 1}}
	}},
	{"sending", "Answered: accepted", "ending", "End accepted", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		return p, Answered{p, good}
	}},
	{"sending", "Answered: retry, not sent, unknown", "queued, at its own time", "-", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.accepts("T")
		return p, Answered{p, said(kusto.Retry, 500)}
	}},
	{"sending", "the same, in the spool", "returning", "Return", func(b *bench) (*Payload, Event) {
		p := b.replayed("T", 1)
		b.accepts("T")
		return p, Answered{p, said(kusto.Retry, 500)}
	}},
	{"sending", "the same, in memory, third attempt after patience", "spilling", "FailingAlone, Spill", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		for range 2 {
			b.accepts("T")
			b.do(Answered{p, said(kusto.Unknown, 0)})
			b.wait(6 * time.Second)
			b.ask(find[Request](b).P)
		}
		b.accepts("T")
		return p, Answered{p, said(kusto.Unknown, 0)}
	}},
	{"sending", "Answered: throttled", "queued, its route paused", "Retrying", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		ans := said(kusto.Throttled, 429)
		ans.RetryAfter = time.Minute
		return p, Answered{p, ans}
	}},
	{"sending", "Answered: auth, 401", "sending", "Request", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		return p, Answered{p, said(kusto.Auth, 401)}
	}},
	{"sending", "the same with a fresh token", "queued, its cluster held", "ClusterHeld", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.do(Answered{p, said(kusto.Auth, 401)})
		b.ask(p)
		return p, Answered{p, said(kusto.Auth, 401)}
	}},
	{"sending", "Answered: auth, no token now", "queued, at its own time", "Retrying", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		return p, Answered{p, kusto.Answer{Verdict: kusto.Auth, Err: &kusto.Error{NoToken: true, Status: 503}}}
	}},
	{"sending", "Answered: hold", "queued, its route held", "RouteHeld", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		return p, Answered{p, said(kusto.Hold, 403)}
	}},
	{"sending", "Answered: hold, while others are accepted", "queued, at its own time", "-", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.accepts("T")
		return p, Answered{p, said(kusto.Hold, 403)}
	}},
	{"sending", "Answered: bad data, one record", "quarantining", "Quarantine", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		return p, Answered{p, said(kusto.BadData, 400)}
	}},
	{"sending", "Answered: bad data, too large", "bisecting", "Divide", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 4)
		return p, Answered{p, said(kusto.TooLarge, 413)}
	}},
	{"sending", "BrokenOff", "queued", "-", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		return p, BrokenOff{p, true}
	}},
	{"bisecting", "Divided, before it was asked for", "gone; its halves sending", "Request, Request", func(b *bench) (*Payload, Event) {
		b.limited("T")
		b.do(Take{Data: b.large("T")})
		return find[Divide](b).P, Divided{find[Divide](b).P, []*record.Payload{b.data("T", 2), b.data("T", 2)}}
	}},
	{"bisecting", "NotDivided, before it was asked for", "sending", "Request", func(b *bench) (*Payload, Event) {
		b.limited("T")
		b.do(Take{Data: b.large("T")})
		return find[Divide](b).P, NotDivided{P: find[Divide](b).P, Why: IsWhole}
	}},
	{"bisecting", "Divided", "gone; its halves sending", "Searching, Request, Request", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 4)
		b.do(Answered{p, said(kusto.BadData, 400)})
		return p, Divided{p, []*record.Payload{b.data("T", 2), b.data("T", 2)}}
	}},
	{"bisecting", "the same, an outcome unknown before", "gone; its halves sending", "Searching, UnknownReplaced, RouteRecovered, Request, Request", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 4)
		b.do(Answered{p, said(kusto.Unknown, 0)})
		b.wait(time.Second)
		b.ask(p)
		b.do(Answered{p, said(kusto.BadData, 400)})
		return p, Divided{p, []*record.Payload{b.data("T", 2), b.data("T", 2)}}
	}},
	{"bisecting", "the same, tried by an earlier run", "gone; its halves sending", "Searching, UnknownReplaced, Request, Request", func(b *bench) (*Payload, Event) {
		d := b.data("T", 4)
		d.Attempt = 5
		p := b.fetched(d)
		b.do(Answered{p, said(kusto.BadData, 400)})
		return p, Divided{p, []*record.Payload{b.data("T", 2), b.data("T", 2)}}
	}},
	{"bisecting", "NotDivided: whole", "quarantining", "Quarantine", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 4)
		b.do(Answered{p, said(kusto.BadData, 400)})
		return p, NotDivided{P: p, Why: IsWhole}
	}},
	{"bisecting", "NotDivided: the spool is full", "returning", "Return", func(b *bench) (*Payload, Event) {
		p := b.replayed("T", 4)
		b.do(Answered{p, said(kusto.BadData, 400)})
		return p, NotDivided{P: p, Why: SpoolFull}
	}},
	{"bisecting", "NotDivided: failed", "queued, its route held", "RouteHeld", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 4)
		b.do(Answered{p, said(kusto.BadData, 400)})
		return p, NotDivided{P: p, Why: Failed, Err: errors.New("no")}
	}},
	{"quarantining", "Quarantined", "ending", "End quarantined", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.do(Answered{p, said(kusto.BadData, 400)})
		return p, Quarantined{p}
	}},
	{"quarantining", "NotQuarantined, several records", "bisecting", "Divide", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.do(Answered{p, said(kusto.BadData, 400)})
		p.Data.Records = 4 // as of a body without any record, which is not divided at first
		return p, NotQuarantined{p, errors.New("full")}
	}},
	{"quarantining", "NotQuarantined, one record", "refused, its route held", "RouteHeld", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.do(Answered{p, said(kusto.BadData, 400)})
		return p, NotQuarantined{p, errors.New("full")}
	}},
	{"refused", "its turn", "quarantining", "Quarantine", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.do(Answered{p, said(kusto.BadData, 400)})
		b.do(NotQuarantined{p, errors.New("full")})
		b.wait(5 * time.Second)
		return p, Configure{b.m.settings, []Target{{"c", "http://c"}}} // asks what is held
	}},
	{"queued", "its route or cluster goes down", "spilling", "ClusterDown, Spill", func(b *bench) (*Payload, Event) {
		b.sending("T", 1) // has no answer yet
		p := b.sending("T", 1)
		b.wait(9900 * time.Millisecond)
		b.do(Answered{p, said(kusto.NotSent, 0)})
		b.now = b.now.Add(100 * time.Millisecond)
		return p, Tick{}
	}},
	{"spilling", "Spilled: kept", "gone, it rests in the spool", "-", func(b *bench) (*Payload, Event) {
		p := b.outage("T")
		return p, Spilled{p, Kept}
	}},
	{"spilling", "Spilled: no room", "queued, in memory", "-", func(b *bench) (*Payload, Event) {
		p := b.outage("T")
		return p, Spilled{p, NoRoom}
	}},
	{"spilling", "Spilled: too large", "queued, oversized", "-", func(b *bench) (*Payload, Event) {
		p := b.outage("T")
		return p, Spilled{p, TooLarge}
	}},
	{"spilling", "Spilled: doubtful", "queued, perhaps in the spool", "-", func(b *bench) (*Payload, Event) {
		p := b.outage("T")
		return p, Spilled{p, Doubtful}
	}},
	{"holding", "Spilled: kept", "sending, spooled", "Request", func(b *bench) (*Payload, Event) {
		b.do(Take{Data: b.data("T", 1), Durable: true})
		p := find[Spill](b).P
		return p, Spilled{p, Kept}
	}},
	{"holding", "the same, its route is down", "queued, spooled: the next probe", "-", func(b *bench) (*Payload, Event) {
		p := b.outage("T")
		b.do(Spilled{p, Kept})
		b.do(Take{Data: b.data("T", 1)})
		q := find[Spill](b).P
		return q, Spilled{q, Kept}
	}},
	{"holding", "Spilled: no room, doubtful", "sending, from memory", "Request", func(b *bench) (*Payload, Event) {
		b.do(Take{Data: b.data("T", 1), Durable: true})
		p := find[Spill](b).P
		return p, Spilled{p, Doubtful}
	}},
	{"returning", "Returned", "gone, it rests in the spool", "-", func(b *bench) (*Payload, Event) {
		p := b.replayed("T", 1)
		b.do(Answered{p, said(kusto.Retry, 500)})
		return p, Returned{p}
	}},
	{"queued", "Keep, in memory", "spilling", "UnknownAtStop, Spill", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.do(Halt{})
		b.do(BrokenOff{p, true})
		return p, Keep{}
	}},
	{"queued", "Keep, in the spool", "returning", "UnknownAtStop, Return", func(b *bench) (*Payload, Event) {
		p := b.replayed("T", 1)
		b.do(Halt{})
		b.do(BrokenOff{p, true})
		b.do(SpoolIs{Sick})
		return p, Keep{}
	}},
	{"ending", "Ended", "gone", "-", func(b *bench) (*Payload, Event) {
		p := b.sending("T", 1)
		b.do(Answered{p, good})
		return p, Ended{p}
	}},
}

// names of the notices, as the table has them.
var whats = map[What]string{
	Retrying: "Retrying", FailingAlone: "FailingAlone", ClusterDown: "ClusterDown", RouteDown: "RouteDown",
	RouteHeld: "RouteHeld", ClusterHeld: "ClusterHeld", LongRetryAfter: "LongRetryAfter", Searching: "Searching", SizeLearned: "SizeLearned",
	UnknownAtStop: "UnknownAtStop", UnknownReplaced: "UnknownReplaced", RouteRecovered: "RouteRecovered",
}

func actionsOf(all []Action) string {
	var names []string
	for _, a := range all {
		switch a := a.(type) {
		case Notice:
			names = append(names, whats[a.What])
		case Spill:
			name := "Spill"
			if a.Stay {
				name += " (stay)"
			}
			names = append(names, name)
		case End:
			names = append(names, "End "+a.How.String())
		case Wake:
		default:
			names = append(names, strings.TrimPrefix(fmt.Sprintf("%T", a), "delivery."))
		}
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}

// TestTable: the machine does what each row says.
func TestTable(t *testing.T) {
	for _, r := range rows {
		t.Run(r.stage+", "+r.event, func(t *testing.T) {
			b := newBench(t)
			p, last := r.run(b)
			if p != nil && p.stage.String() != r.stage {
				t.Errorf("it is %v before, want %s", p.stage, r.stage)
			}
			left, _ := b.m.Left()
			actions := b.do(last)
			if got := actionsOf(actions); got != r.actions {
				t.Errorf("actions %s, want %s", got, r.actions)
			}
			if strings.HasPrefix(r.next, "gone") {
				if now, _ := b.m.Left(); now != left-1 && !strings.Contains(r.next, "halves") {
					t.Errorf("%d payloads in hand after %d", now, left)
				}
				return
			}
			if p == nil {
				p = payloadOf(actions)
			}
			want, _, _ := strings.Cut(r.next, ",")
			if p.stage.String() != want {
				t.Errorf("it is %v, want %s", p.stage, r.next)
			}
			for what, is := range map[string]bool{
				"route held":      p.route.hold != nil,
				"cluster held":    p.route.cluster.hold != nil,
				"route paused":    b.now.Before(p.route.paused),
				"at its own time": b.now.Before(p.notBefore) && !p.route.blocked(),
				"oversized":       p.Place == Oversized,
				"perhaps":         p.Place == Perhaps,
				", spooled":       p.Place == Spooled,
				"next probe":      p.route.candidate == p,
			} {
				if strings.Contains(r.next, what) && !is {
					t.Errorf("not so: %s", what)
				}
			}
		})
	}
}

func payloadOf(actions []Action) *Payload {
	for _, a := range actions {
		switch a := a.(type) {
		case Request:
			return a.P
		case Spill:
			return a.P
		case Divide:
			return a.P
		case Return:
			return a.P
		}
	}
	return nil
}

// TestTableIsDocumented: the table stands in the package comment and in the
// design, row by row.
func TestTableIsDocumented(t *testing.T) {
	var md, doc strings.Builder
	md.WriteString("| stage | event | next | actions |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&md, "| %s | %s | %s | %s |\n", r.stage, r.event, r.next, r.actions)
		fmt.Fprintf(&doc, "//\t%s | %s | %s | %s\n", r.stage, r.event, r.next, r.actions)
	}
	for file, want := range map[string]string{"../../../docs/design.md": md.String(), "doc.go": doc.String()} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks the table, or has another:\n%s", file, want)
		}
	}
}

var stages = [...]string{"none", "queued", "refused", "sending", "bisecting", "quarantining", "spilling", "holding", "returning", "ending"}

// String is the word of the table in the package comment.
func (s Stage) String() string { return stages[s] }
