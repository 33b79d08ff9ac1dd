package telemetry

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// expression returns the PromQL expression of an alert, with M replaced by the name of the metric.
func (a *alert) expression(m *metric) string {
	return place.ReplaceAllString(a.expr, namespace+"_"+m.name+"$1")
}

var place = regexp.MustCompile(`\bM(_bucket)?\b`)

// rule is an alert as Prometheus reads it.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

// Alerts returns the alert rules of all metrics in the catalog, as a YAML file for Prometheus.
func Alerts() ([]byte, error) {
	group := ruleGroup{Name: "kusto-agent"}
	for _, m := range catalog {
		for _, a := range m.alerts {
			group.Rules = append(group.Rules, rule{
				Alert: a.name, Expr: a.expression(m), For: a.wait, Labels: map[string]string{"severity": a.severity},
				Annotations: map[string]string{"summary": a.means, "description": a.do},
			})
		}
	}
	var out bytes.Buffer
	out.WriteString("# Alert rules for kusto-agent. Made by: kusto-agent metrics alerts\n")
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(map[string][]ruleGroup{"groups": {group}}); err != nil {
		return nil, fmt.Errorf("write alert rules: %w", err)
	}
	return out.Bytes(), nil
}

// What docs/metrics.md says before the table of metrics and before that of alerts.
var (
	//go:embed reference.md
	referenceHead string
	//go:embed reference_alerts.md
	referenceAlerts string
)

// sections are the rows in the order of the reference and the dashboard, and what the
// reference calls them.
var sections = []struct{ row, title string }{
	{rowFlow, "What becomes of records"},
	{rowHealth, "Health"},
	{rowService, "The service"},
	{rowBuffers, "Spool and quarantine"},
	{rowFiles, "Files"},
	{"", "What it is"},
}

// Reference returns docs/metrics.md: a Markdown page with a table of all metrics in the catalog, by
// section, and a table of all alerts.
func Reference() []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, referenceHead)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n### %s\n\n| metric | kind | labels | what it is |\n|---|---|---|---|\n", s.title)
		for _, m := range catalog {
			if m.panel.row == s.row {
				labels := ""
				if len(m.labels) > 0 {
					labels = "`" + strings.Join(m.labels, "`, `") + "`"
				}
				fmt.Fprintf(&b, "| `%s_%s` | %s | %s | %s |\n", namespace, m.name, m.kind, labels, cellText(m.fullHelp()))
			}
		}
	}
	fmt.Fprint(&b, referenceAlerts)
	for _, m := range catalog {
		for _, a := range m.alerts {
			when := "`" + a.expression(m) + "`"
			if a.wait != "" {
				when += " for " + a.wait
			}
			fmt.Fprintf(&b, "| %s (%s) | %s | %s | %s |\n", a.name, a.severity, cellText(when), cellText(plainText(a.means)), cellText(a.do))
		}
	}
	return b.Bytes()
}

// cellText is a text in a cell of a Markdown table.
func cellText(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

var placeholder = regexp.MustCompile(`\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}(B?)`)

// plainText returns the text of an alert for people: a template such as {{ $labels.input }} becomes
// INPUT, and one that is followed by the unit B becomes "N bytes".
func plainText(s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(t string) string {
		of := placeholder.FindStringSubmatch(t)
		if of[2] == "B" {
			return "N bytes"
		}
		return strings.ToUpper(of[1])
	})
}

// dashboardFrame is the dashboard without panels.
//
//go:embed dashboard.json
var dashboardFrame []byte

// Dashboard returns a dashboard for Grafana 9 and later, as JSON: a row for each section of the
// catalog, with three panels side by side.
func Dashboard() ([]byte, error) {
	const height, perRow = 8, 3
	var panels []map[string]any
	y := 0
	add := func(p map[string]any, x, w, h int) {
		p["id"] = len(panels) + 1
		p["gridPos"] = map[string]int{"x": x, "y": y, "w": w, "h": h}
		panels = append(panels, p)
	}
	for _, s := range sections {
		titles, shown := panelsOf(s.row)
		if len(titles) == 0 {
			continue
		}
		add(map[string]any{"type": "row", "title": s.row, "collapsed": false, "panels": []any{}}, 0, 24, 1)
		y++
		for i, title := range titles {
			add(grafanaPanel(title, shown[title]), i%perRow*8, 8, height)
			if i%perRow == perRow-1 || i == len(titles)-1 {
				y += height
			}
		}
	}
	var doc map[string]any
	if err := json.Unmarshal(dashboardFrame, &doc); err != nil {
		return nil, fmt.Errorf("write dashboard: %w", err)
	}
	doc["panels"] = panels
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("write dashboard: %w", err)
	}
	return out.Bytes(), nil
}

// panelsOf returns the panels in a row of the dashboard: their titles in the order of the catalog,
// and the metrics that the panel of each title shows.
func panelsOf(row string) (titles []string, shown map[string][]*metric) {
	shown = map[string][]*metric{}
	for _, m := range catalog {
		if m.panel.title == "" || m.panel.row != row {
			continue
		}
		if !slices.Contains(titles, m.panel.title) {
			titles = append(titles, m.panel.title)
		}
		shown[m.panel.title] = append(shown[m.panel.title], m)
	}
	return titles, shown
}

// source returns the reference to the dashboard's data source.
func source() map[string]string {
	return map[string]string{"type": "prometheus", "uid": "${datasource}"}
}

// grafanaPanel returns the Grafana JSON of a panel that shows metrics over time. All metrics have
// the unit of the first.
func grafanaPanel(title string, metrics []*metric) map[string]any {
	var targets []map[string]any
	var help []string
	for _, m := range metrics {
		help = append(help, namespace+"_"+m.name+": "+m.help)
		for _, q := range m.queries(len(metrics) > 1) {
			targets = append(targets, map[string]any{
				"refId": string(rune('A' + len(targets))), "datasource": source(), "expr": q.expr, "legendFormat": q.legend,
			})
		}
	}
	defaults := map[string]any{"unit": metrics[0].panel.unit, "min": 0}
	if metrics[0].panel.unit == "bool" {
		defaults = map[string]any{"unit": "none", "min": 0, "max": 1}
	}
	return map[string]any{
		"type": "timeseries", "title": title, "description": strings.Join(help, "\n\n"), "datasource": source(), "targets": targets,
		"fieldConfig": map[string]any{"defaults": defaults, "overrides": []any{}},
		"options": map[string]any{
			"legend": map[string]any{"calcs": []any{}, "displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": map[string]string{"mode": "multi", "sort": "desc"},
		},
	}
}

type query struct{ expr, legend string }

// queries returns the PromQL queries with which a panel shows a metric: the rate of a counter, or
// its increase if it counts rare events; quantiles of a histogram; the minimum of a health flag;
// otherwise the sum. named puts the metric's name into the legends.
func (m *metric) queries(named bool) []query {
	const chosen, interval = `{job=~"$job",instance=~"$instance"}`, "[$__rate_interval])"
	full := namespace + "_" + m.name
	var legend []string
	for _, l := range m.labels {
		legend = append(legend, "{{"+l+"}}")
	}
	if named || len(legend) == 0 {
		legend = append([]string{strings.TrimSuffix(m.name, "_total")}, legend...)
	}
	text := strings.Join(legend, " ")
	if m.kind == histogram {
		var out []query
		by := strings.Join(append([]string{"le"}, m.labels...), ", ")
		for _, q := range []string{"0.5", "0.99"} {
			out = append(out, query{"histogram_quantile(" + q + ", sum by (" + by + ") (rate(" + full + "_bucket" + chosen + interval + "))", q + " " + text})
		}
		return out
	}
	by := ""
	if len(m.labels) > 0 {
		by = "by (" + strings.Join(m.labels, ", ") + ") "
	}
	fold, of := "sum", full+chosen
	switch {
	case m.panel.unit == "bool", m.name == "token_expires_seconds":
		fold = "min"
	case m.name == "spool_oldest_seconds":
		fold = "max"
	case m.kind == counter && m.panel.unit == "short": // rare events: a number is easier to read than a rate
		of = "increase(" + of + interval
	case m.kind == counter:
		of = "rate(" + of + interval
	}
	return []query{{fold + " " + by + "(" + of + ")", text}}
}
