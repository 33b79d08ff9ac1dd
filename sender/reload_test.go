package sender

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

// reached is a client that says who was asked.
type reached struct {
	w    *world
	name string
}

func (r *reached) Ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer {
	r.w.note("%s asked", r.name)
	return r.w.Ingest(ctx, in)
}

// client makes one that tells when it is closed.
func (w *world) client(url, name string) Cluster {
	return Cluster{Name: name, URL: url, Ingester: &reached{w, name}, Close: func() { w.note("%s closed", name) }}
}

func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = nil
}

// A client is replaced while it has a request under way: that ends as it would have,
// and then the client is closed.
func TestReplacedClient(t *testing.T) {
	in(t, func(in *kusto.Ingest) kusto.Answer { time.Sleep(time.Second); return ok(in) }, func(w *world) {
		cfg := w.s.o.Config
		first, second := w.client(here, "first"), w.client(here, "second")
		w.s.Reload(cfg, []Cluster{first})
		w.s.Put(payload("T", "a"))
		synctest.Wait()
		w.s.Reload(cfg, []Cluster{first}) // nothing is replaced
		w.s.Reload(cfg, []Cluster{second})
		w.s.Put(payload("T", "b"))
		synctest.Wait()
		if got, want := w.did(), "begin 1, first asked, begin 1, second asked"; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		w.forget()
		w.wait()
		if got := w.did(); strings.Count(got, "end accepted") != 2 || strings.Count(got, "closed") != 1 || !strings.Contains(got, "first closed") {
			t.Errorf("got %s", got)
		}
		w.s.Reload(cfg, []Cluster{w.client(here, "third")}) // second has nothing under way
		if got := w.did(); !strings.HasSuffix(got, "second closed") {
			t.Errorf("got %s", got)
		}
	})
}

// A cluster is added while the sender runs, and takes what waits for it in the
// spool; one that is taken away is asked until it has taken all.
func TestClustersComeAndGo(t *testing.T) {
	within(t, ok, spool.Config{MaxSize: 1 << 20}, func(w *world) {
		cfg := w.s.o.Config
		const there = "http://there"
		foreign := payload("T", "a")
		foreign.ID[0], foreign.Route.Cluster = 7, there
		if err := w.spool.Put(foreign); err != nil {
			t.Fatal(err)
		}
		if w.s.Serves(there) {
			t.Error("it serves a cluster it does not know")
		}
		w.s.Reload(cfg, []Cluster{w.client(here, "here"), w.client(there, "there")})
		pass(time.Second)
		if got, want := w.did(), "replay 1, there asked, replay ends accepted"; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer { return refusal(kusto.Retry, 503, "ServiceUnavailable") }
		w.mu.Unlock()
		late := payload("T", "b")
		late.Route.Cluster = there
		w.s.Put(late)
		pass(time.Second)
		w.s.Reload(cfg, []Cluster{w.client(here, "here")})
		if _, clusters := w.s.Status(); len(clusters) != 2 {
			t.Errorf("clusters are %+v, want that with a payload in hand too", clusters)
		}
		w.mu.Lock()
		w.answer = ok
		w.mu.Unlock()
		pass(time.Minute)
		if _, clusters := w.s.Status(); len(clusters) != 1 || w.s.Progress().Left > 0 {
			t.Errorf("clusters are %+v", clusters)
		}
		if !w.s.Serves(there) {
			t.Error("what comes late for it has nowhere to go")
		}
	})
}

// Settings hold at once: concurrency, also of who is throttled, rate and schedule.
func TestSettingsHoldAtOnce(t *testing.T) {
	in(t, ok, func(w *world) {
		w.s.Put(payload("T", "a"))
		w.wait()
		for _, n := range []Concurrency{16, 3, 8} {
			cfg := w.s.o.Config
			cfg.Concurrency = n
			w.s.Reload(cfg, []Cluster{w.s.clustersNow()})
			if _, c := w.s.Status(); c[0].Concurrency != int(n) {
				t.Errorf("concurrency is %d, want %d", c[0].Concurrency, n)
			}
		}
		cfg := w.s.o.Config
		cfg.RateLimit, cfg.Retry.Patience, cfg.Retry.Max = 1000, units.Duration(time.Second), units.Duration(time.Second)
		w.s.Reload(cfg, []Cluster{w.s.clustersNow()})
		if credit, served := w.s.Credit(route("T")); credit != 8+3 || !served {
			t.Errorf("credit %d %v", credit, served)
		}
		w.mu.Lock()
		w.answer = func(in *kusto.Ingest) kusto.Answer { return refusal(kusto.Retry, 503, "ServiceUnavailable") }
		w.mu.Unlock()
		w.s.Put(payload("T", "a"))
		pass(1500 * time.Millisecond)
		if _, served := w.s.Credit(route("T")); served {
			t.Error("it is not down after the new patience")
		}
	})
}

func (s *Sender) clustersNow() Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Cluster{Name: "default", URL: here, Ingester: s.clients[here].Ingester}
}

// Who is held is asked at once, and its readers with it.
func TestReloadAsksAgain(t *testing.T) {
	in(t, first(1, refusal(kusto.Hold, 400, "BadRequest_EntityNotFound")), func(w *world) {
		w.s.Put(payload("T", "a"))
		synctest.Wait()
		if routes, _ := w.s.Status(); routes[0].State != "held" {
			t.Fatalf("route is %+v", routes[0])
		}
		w.s.Reload(w.s.o.Config, []Cluster{w.s.clustersNow()})
		synctest.Wait()
		if routes, _ := w.s.Status(); routes[0].State != "up" || routes[0].Accepted != 1 {
			t.Errorf("route is %+v", routes[0])
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.woken) == 0 || w.woken[0] != (record.Route{Cluster: here, Database: "Db", Table: "T", Format: record.TXT}) {
			t.Errorf("woken are %v", w.woken)
		}
	})
}

// A cluster that is added while the sender starts takes what waits for it in the spool,
// whichever of the two comes first.
func TestClusterAddedAtTheStart(t *testing.T) {
	within(t, ok, spool.Config{MaxSize: 1 << 20}, func(w *world) {
		o := w.s.o
		o.Clusters = nil
		for n := range byte(200) {
			w.stop(func() {})
			w.s.Keep()
			p := payload("T", "a")
			p.ID[0] = n + 1
			if err := w.spool.Put(p); err != nil {
				t.Fatal(err)
			}
			w.s = New(o)
			go w.s.Reload(o.Config, []Cluster{w.client(here, "here")}) // awaited below
			w.start()
			time.Sleep(time.Second)
			synctest.Wait()
			if left := w.spool.Stats().Frames; left > 0 {
				t.Fatalf("the %dth time %d payloads wait", n, left)
			}
		}
	})
}

// TestOneThatRestsMakesRoom: in place of a payload that waits for its next attempt another one may be
// in hand, and the readers are told.
func TestOneThatRestsMakesRoom(t *testing.T) {
	in(t, func(*kusto.Ingest) kusto.Answer { return refusal(kusto.Retry, 503, "ServiceUnavailable") }, func(w *world) {
		for want := 8 + 3; want <= 2*8+1; want++ {
			if credit, served := w.s.Credit(route("T")); credit != min(want, 2*8) || !served {
				t.Errorf("with %d that rest the credit is %d, %v", w.s.Progress().Left, credit, served)
			}
			if n := len(w.woken); n != want-(8+3) {
				t.Errorf("with %d that rest the route was woken %d times", w.s.Progress().Left, n)
			}
			w.s.Put(numbered("T", "a"))
			synctest.Wait()
		}
	})
}
