package spool

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/units"
)

// Bounds change while the spool is in use: it takes more, or nothing any more, and
// what is in it stays; an age counts from when a payload came.
func TestSetConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig
		cfg.MaxSize = 8000
		s, _ := openWith(t, cfg, testOptions(faultfs.New("/state")))
		kept := 0
		for s.Put(payload(kept+1, here)) == nil {
			kept++
		}
		cfg.MaxSize = 64 * units.MiB
		s.SetConfig(cfg)
		time.Sleep(time.Minute)
		synctest.Wait()
		must(t, s.Health())
		put(t, s, here, kept+1)

		off := cfg
		off.MaxSize = 0
		s.SetConfig(off)
		if err := s.Put(payload(99, here)); !errors.Is(err, ErrOff) || !errors.Is(s.Health(), ErrOff) {
			t.Errorf("put %v, health %v", err, s.Health())
		}
		if got := s.Waiting(to(here)); got != kept+1 {
			t.Errorf("%d wait, want %d", got, kept+1)
		}
		time.Sleep(time.Minute)
		cfg.MaxAge = units.Duration(time.Second)
		s.SetConfig(cfg)
		put(t, s, here, 100)
		if p, _ := s.Next(to(here)); p == nil || p.ID != batchID(100) {
			t.Errorf("next is %v, want the one that is young enough", p)
		}
	})
}
