package telemetry

import (
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/ledger"
)

// TestBlockedRoutesAreMetrics: why, since when, and when the next attempt is, for a route
// that is held and for those of a cluster that is down; not for one that is retried.
func TestBlockedRoutesAreMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		down := &Hold{Since: now.Add(-90 * time.Second), Message: "connection refused", NextTry: now.Add(20 * time.Second)}
		shown := scrape(t, serverFor(Status{
			Clusters: []Cluster{{Name: "default", State: Down, Hold: down}, {Name: "dr", State: Up}},
			Routes: []Route{
				{Cluster: "default", Database: "Logs", Table: "A", State: Down},
				{Cluster: "default", Database: "Logs", Table: "B", State: Down, Hold: &Hold{Since: now, Code: "own"}},
				{Cluster: "dr", Database: "Logs", Table: "C", State: Held, Hold: &Hold{Since: now.Add(-time.Minute), Code: "Forbidden", NextTry: now.Add(-time.Second)}},
				{Cluster: "dr", Database: "Logs", Table: "C", State: Held, Hold: &Hold{Since: now.Add(-time.Hour), Code: "Forbidden", NextTry: now.Add(time.Hour)}},
				{Cluster: "dr", Database: "Logs", Table: "D", State: Retrying, Hold: &Hold{Since: now.Add(-time.Second)}},
			},
		}, ledger.New()))
		f := func(want float64, name string, labels ...string) {
			t.Helper()
			if got := value(shown, name, labels...); got != want {
				t.Errorf("%s %v is %v, want %v", name, labels, got, want)
			}
		}
		f(90, "route_blocked_seconds", "table=A", "code=none")
		f(90, "route_blocked_seconds", "table=B", "code=none")
		f(3600, "route_blocked_seconds", "table=C", "code=Forbidden")
		f(0, "route_blocked_seconds", "table=D")
		f(20, "route_next_try_seconds", "table=A")
		f(0, "route_next_try_seconds", "table=C")
		f(40, "route_next_try_seconds")
	})
}
