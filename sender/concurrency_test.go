package sender

import (
	"testing"
	"time"

	"kusto-agent/internal/kusto"
)

// A concurrency is read as it is written, and nothing else is taken for one.
func TestConcurrencyIsReadAsItIsWritten(t *testing.T) {
	for _, text := range []string{"auto", "1", "8", "1024"} {
		var c Concurrency
		if err := c.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got, _ := c.MarshalText(); string(got) != text {
			t.Errorf("%s is written as %s", text, got)
		}
		if c != Auto && c.Most() != int(c) || c.Most() < 1 {
			t.Errorf("%s is at most %d", text, c.Most())
		}
	}
	for _, text := range []string{"", "0", "-1", "1025", "8.5", "Auto", "8 "} {
		c := Concurrency(5)
		if err := c.UnmarshalText([]byte(text)); err == nil || c != 5 {
			t.Errorf("%q is taken for %d", text, c)
		}
	}
}

// Where the slots are in the way and the service takes its time, there are soon more of
// them, and status tells how many.
func TestConcurrencyIsFound(t *testing.T) {
	in(t, func(in *kusto.Ingest) kusto.Answer { time.Sleep(200 * time.Millisecond); return ok(in) }, func(w *world) {
		cfg := w.s.o.Config
		cfg.Concurrency = Auto
		w.s.Reload(cfg, []Cluster{w.s.clustersNow()})
		for range 1000 {
			w.s.Put(payload("T", "a"))
		}
		pass(5 * time.Second)
		if _, c := w.s.Status(); c[0].Concurrency <= 8 || c[0].Concurrency > Auto.Most() || w.most <= 8 {
			t.Errorf("concurrency is %d, %d requests at once", c[0].Concurrency, w.most)
		}
		w.wait()
	})
}
