package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// TestARealAgentHasEveryMetric: each metric of the reference is in a scrape of an agent
// that has a token, a spool, a route that is held and one that delivers, and changes records.
func TestARealAgentHasEveryMetric(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{TokenSecret: "zq-secret"})
	s.server.Fail(emulator.Fault{Match: emulator.Match{Table: "Bad"}, Status: 403})
	s.write("secret", "zq-secret")
	s.write("logs/a.json", joined(jsonRecords(0, 5)))
	s.write("logs/b.json", joined(jsonRecords(0, 5)))
	p := s.run(head + `auth: {authority: "${URL}", tenant: t, client_id: c, client_secret_file: "${DIR}/secret"}` + "\n" + strings.Replace(twoInputs, "name: good,", "name: good, add: {a: b},", 1))
	p.await(1, routeHeld, `"table":"Bad"`)
	p.awaitBooks("good", func(a account) bool { return a.accepted == 5 })
	_, scrape := p.mustGet("/metrics")
	named := regexp.MustCompile("(?m)^\\| `(kusto_agent_[a-z0-9_]+)`").FindAllStringSubmatch(string(telemetry.Reference()), -1)
	if len(named) < 40 {
		t.Fatalf("the reference has %d metrics", len(named))
	}
	for _, m := range named {
		if !strings.Contains(scrape, "# TYPE "+m[1]+" ") || !strings.Contains(scrape, "\n"+m[1]) {
			t.Errorf("%s is in no scrape", m[1])
		}
	}
}

// TestMetricsCommand prints what is in docs.
func TestMetricsCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	for name, file := range map[string]string{"reference": "metrics.md", "alerts": "alerts.yml", "dashboard": "dashboard.json"} {
		want, err := os.ReadFile("../../docs/" + file)
		s.must(err)
		if got, _ := s.show(0, "metrics", name); got != strings.TrimRight(string(want), "\n") {
			t.Errorf("metrics %s prints something else than docs/%s: %.200s", name, file, got)
		}
	}
	s.show(exit.Usage, "metrics")
}
