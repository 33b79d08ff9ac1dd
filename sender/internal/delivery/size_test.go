package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// sized is the machine with a service that takes payloads of a table up to a limit.
type sized struct {
	*bench
	limit          int
	asked, refused int
	learned        int // notices
}

// settle has the service answer and payloads be halved until nothing is under way.
func (s *sized) settle() {
	for todo := s.actions; len(todo) > 0; {
		a := todo[0]
		todo = append([]Action(nil), todo[1:]...)
		switch a := a.(type) {
		case Request:
			s.asked++
			a.P.Data.Attempt++
			todo = append(todo, s.do(Asked(a))...)
			if a.P.Data.RawBytes > s.limit {
				s.refused++
				todo = append(todo, s.do(Answered{a.P, said(kusto.TooLarge, 413)})...)
				break
			}
			todo = append(todo, s.do(Answered{a.P, good})...)
		case Divide:
			var halves []*record.Payload
			for range 2 {
				h := s.data("T", a.P.Data.Records/2)
				h.RawBytes = a.P.Data.RawBytes / 2
				halves = append(halves, h)
			}
			todo = append(todo, s.do(Divided{a.P, halves})...)
		case End:
			todo = append(todo, s.do(Ended{a.P})...)
		case Notice:
			if a.What == SizeLearned {
				s.learned++
			}
		}
	}
}

// put hands over a payload of so many bytes and returns how many requests it took.
func (s *sized) put(bytes int) (asked, refused int) {
	s.asked, s.refused = 0, 0
	d := s.data("T", 1024)
	d.RawBytes = bytes
	s.do(Take{Data: d})
	s.settle()
	return s.asked, s.refused
}

// TestASizeIsRefusedOnce: what one payload has shown, the next ones need not show again,
// until the limit may be another.
func TestASizeIsRefusedOnce(t *testing.T) {
	s := &sized{bench: newBench(t), limit: 1_200_000}
	now := func() int { return s.m.Largest(record.Route{Cluster: "http://c", Table: "T"}, s.now) }
	want := func(what string, bytes, asked, refused, largest int) {
		t.Helper()
		gotAsked, gotRefused := s.put(bytes)
		if got := fmt.Sprint(gotAsked, gotRefused, now()); got != fmt.Sprint(asked, refused, largest) {
			t.Errorf("%s: requests, refused and the largest are %s, want %d %d %d", what, got, asked, refused, largest)
		}
	}
	want("no limit is known", 1_000_000, 1, 0, 0)
	want("the first", 4_000_000, 7, 3, 1_000_000) // of 4 MB, twice 2, four times 1
	for range 10 {
		want("the next ones", 4_000_000, 4, 0, 1_000_000)
	}
	want("between", 1_150_000, 1, 0, 1_150_000)
	want("refused between", 1_500_000, 3, 1, 1_150_000)
	if s.learned != 3 {
		t.Errorf("told %d times, want at 4, 2 and 1.5 MB", s.learned)
	}
	s.wait(sizeFor)
	if now() != 0 {
		t.Error("it is known for ever")
	}
	want("forgotten", 4_000_000, 7, 3, 1_000_000)
	s.limit = 4_000_000
	s.do(Configure{s.m.settings, []Target{{"c", "http://c"}}})
	if now() != 0 {
		t.Error("a reload does not have it forgotten")
	}
	want("raised", 4_000_000, 1, 0, 0)

	s.limit = leastSize
	want("too small a limit to be one", leastSize-1, 1, 0, 0)
	s.limit = 100
	want("refused below any limit", leastSize-1, 511, 255, 0)
}

// TestASizeIsNoMoreThanTheAnswersTell: an acceptance of what was refused before ends the
// limit, and a payload of which a request was made is asked for again as it is.
func TestASizeIsNoMoreThanTheAnswersTell(t *testing.T) {
	b := newBench(t)
	r := record.Route{Cluster: "http://c", Table: "T"}
	b.do(Take{Data: b.large("T")})
	other := find[Request](b).P
	b.ask(other)
	b.do(Take{Data: b.large("T")})
	unknown := find[Request](b).P
	b.ask(unknown)
	b.do(Answered{unknown, said(kusto.Unknown, 0)})
	b.limited("T")
	if got := b.m.Largest(r, b.now); got != 2_000_000 {
		t.Fatalf("the largest is %d", got)
	}
	b.wait(time.Second)
	if p := find[Request](b).P; p != unknown {
		t.Error("the payload of unknown outcome is not asked for again as it is")
	}
	b.do(Take{Data: b.large("T")})
	find[Divide](b)
	b.do(Answered{other, good})
	if got := b.m.Largest(r, b.now); got != 0 {
		t.Errorf("the largest is %d after one of 4 MB was accepted", got)
	}
}

// TestWhatIsAskedForAsItIs: a single record, which only the service can refuse, and the
// probe of a route that is held, whose answer is what it is made for.
func TestWhatIsAskedForAsItIs(t *testing.T) {
	b := newBench(t)
	b.limited("T")
	one := b.large("T")
	one.Records = 1
	b.do(Take{Data: one})
	p := find[Request](b).P
	b.ask(p)
	b.do(Answered{p, said(kusto.Hold, 400)})
	b.do(Take{Data: b.large("T")})
	for todo := b.actions; ; todo = append(todo, b.do(Tick{})...) {
		for len(todo) > 0 {
			a := todo[0]
			todo = append([]Action(nil), todo[1:]...)
			switch a := a.(type) {
			case Divide:
				t.Fatal("a route that is held has a payload divided")
			case Spill:
				todo = append(todo, b.do(Spilled{a.P, NoRoom})...)
			case Request:
				if a.P.Data.Records > 1 {
					return
				}
				b.ask(a.P)
				todo = append(todo, b.do(Answered{a.P, said(kusto.Hold, 400)})...)
			}
		}
		if b.now = b.now.Add(time.Second); b.now.After(time.Unix(2000, 0)) {
			t.Fatal("the route is not probed with it")
		}
	}
}

// TestWhatWasNotAskedForTellsNothing: a payload that is halved before it is asked for does
// not end the bad time of its route.
func TestWhatWasNotAskedForTellsNothing(t *testing.T) {
	b := newBench(t)
	b.limited("T")
	failing := b.sending("T", 1)
	b.do(Answered{failing, said(kusto.Retry, 500)})
	b.do(Take{Data: b.large("T")})
	b.do(Divided{find[Divide](b).P, []*record.Payload{b.data("T", 2), b.data("T", 2)}})
	if got := actionsOf(b.actions); got != "Request, Request" {
		t.Errorf("it leads to %s", got)
	}
}

// TestASizeOfRequestsUnderWay: requests that are under way together may each be refused, and
// that is all: what waits behind them is halved before it is asked for.
func TestASizeOfRequestsUnderWay(t *testing.T) {
	s := &sized{bench: newBench(t), limit: 1_200_000}
	var under []*Payload
	collect := func(actions []Action) {
		for todo := slices.Clone(actions); len(todo) > 0; todo = todo[1:] {
			if r, ok := todo[0].(Request); ok {
				under = append(under, r.P)
				r.P.Data.Attempt++
				todo = append(todo, s.do(Asked(r))...)
			}
		}
	}
	for range 12 {
		d := s.data("T", 1024)
		d.RawBytes = 4_000_000
		collect(s.do(Take{Data: d}))
	}
	if len(under) < 2 || len(under) == 12 {
		t.Fatalf("%d requests are under way, want some of 12", len(under))
	}
	var then []Action
	for _, p := range under {
		then = append(then, s.do(Answered{p, said(kusto.TooLarge, 413)})...)
	}
	s.actions = then
	if s.settle(); s.refused > len(under)+1 || s.asked != 12*4+s.refused {
		t.Errorf("%d requests more, %d of them refused; want four for each of 12, and beside them those of 2 MB that %d slots have room for", s.asked, s.refused, len(under))
	}
	if asked, refused := s.put(4_000_000); asked != 4 || refused != 0 {
		t.Errorf("the next one: %d requests, %d refused", asked, refused)
	}
}
