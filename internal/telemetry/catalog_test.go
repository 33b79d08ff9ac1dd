package telemetry

import (
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"kusto-agent/internal/record"
)

// everything is a server that shows every metric there is.
func everything(t *testing.T) *Server {
	t.Helper()
	now := time.Now()
	status, l := busy(now)
	status.Spool = &Spool{Bytes: 4096, Oldest: now.Add(-time.Hour)}
	s := serverFor(status, l)
	l.Changed("app", "names", 1)
	s.Metrics().EndToEnd(record.Route{Database: "Logs", Table: "App"}, time.Second)
	s.Metrics().Input("app")
	return s
}

// TestTheCatalogIsWhatIsShown: no metric is missing from it and none is made up, and
// each has the kind, the labels and the help that it has there.
func TestTheCatalogIsWhatIsShown(t *testing.T) {
	kinds := map[dto.MetricType]kind{dto.MetricType_COUNTER: counter, dto.MetricType_GAUGE: gauge, dto.MetricType_HISTOGRAM: histogram}
	shown := scrape(t, everything(t))
	for name := range shown {
		short, own := strings.CutPrefix(name, namespace+"_")
		if own && !slices.ContainsFunc(catalog, func(m *metric) bool { return m.name == short }) {
			t.Errorf("%s is not in the catalog", name)
		}
	}
	for _, m := range catalog {
		family := shown[namespace+"_"+m.name]
		if family == nil {
			t.Errorf("%s is not shown", m.name)
			continue
		}
		if got := kinds[family.GetType()]; got != m.kind {
			t.Errorf("%s is a %s, the catalog says %s", m.name, got, m.kind)
		}
		if family.GetHelp() != m.fullHelp() {
			t.Errorf("%s: help %q", m.name, family.GetHelp())
		}
		var labels []string
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if want := slices.Sorted(slices.Values(m.labels)); !slices.Equal(labels, want) {
			t.Errorf("%s has the labels %v, the catalog says %v", m.name, labels, want)
		}
	}
}

// TestWhatIsAbsentSaysSo: a metric that a bare agent does not show says when it does.
func TestWhatIsAbsentSaysSo(t *testing.T) {
	status, l := busy(time.Now())
	status.Routes, status.Clusters, status.Files = nil, nil, nil
	s := serverFor(status, l)
	s.Metrics().Input("app")
	shown := scrape(t, s)
	for _, m := range catalog {
		if there := shown[namespace+"_"+m.name] != nil; there == (m.absent != "") {
			t.Errorf("%s: shown %v, the catalog says absent %q", m.name, there, m.absent)
		}
	}
}
