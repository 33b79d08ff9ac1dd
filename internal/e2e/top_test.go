package e2e

import (
	"testing"

	"kusto-agent/emulator"
)

// TestTop: it shows a running agent in a terminal until q, and says where it cannot.
func TestTop(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/app.json", joined(jsonRecords(0, 5)))
	p := s.run(open + appLogs)
	p.awaitBooks("T", func(a account) bool { return a.accepted == 5 })
	address := p.await(1, "telemetry endpoint is listening").text("address")
	person := s.sit("top", "--address", address, "--interval", "100ms")
	person.sees("Logs.T")
	person.sees("quit")
	person.keys("q")
	person.ends(0)
	s.launch("top", "--address", address).want(64)
	s.launch("top", "--interval", "1ms").want(64)
	gone := s.sit("top", "--state-dir", s.path("nowhere"))
	gone.sees("no agent answers")
	gone.ends(69)
	p.stop()
}
