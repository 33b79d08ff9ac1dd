package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// made are the files that are made from the catalog.
var made = map[string]func() ([]byte, error){
	"metrics.md":     func() ([]byte, error) { return Reference(), nil },
	"alerts.yml":     Alerts,
	"dashboard.json": Dashboard,
}

func generated(t *testing.T, name string) []byte {
	t.Helper()
	text, err := made[name]()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheFilesInDocsAreWhatIsMade(t *testing.T) {
	for name := range made {
		have, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil || !bytes.Equal(have, generated(t, name)) {
			t.Errorf("docs/%s is stale (%v): go generate ./cmd/agent", name, err)
		}
	}
}

var named = regexp.MustCompile(`kusto_agent_[a-z0-9_]+`)

// TestNothingNamesAMetricThatIsNot: in rules, dashboard, reference and the other pages.
func TestNothingNamesAMetricThatIsNot(t *testing.T) {
	texts := map[string][]byte{}
	for name := range made {
		texts[name] = generated(t, name)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 3 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range append(pages, "../../README.md") {
		if texts[page], err = os.ReadFile(page); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range texts {
		for _, name := range named.FindAllString(string(text), -1) {
			short := strings.TrimSuffix(strings.TrimPrefix(name, namespace+"_"), "_bucket")
			if !slices.ContainsFunc(catalog, func(m *metric) bool { return m.name == short }) {
				t.Errorf("%s names %s", file, name)
			}
		}
	}
}

type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			RefID string `json:"refId"`
			Expr  string `json:"expr"`
		}
	}
}

func TestTheDashboardIsSound(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal(generated(t, "dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	ids, cells, all := map[int]bool{}, map[[2]int]string{}, ""
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: id %d twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W == 0 || g.H == 0 || g.X+g.W > 24 {
			t.Errorf("%s is at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] {
				t.Errorf("%s: %s twice", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			all += target.Expr + "\n"
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%s, a %s, asks for %d", p.Title, p.Type, len(p.Targets))
		}
	}
	titles := map[string]panel{}
	for _, m := range catalog {
		if m.panel.title == "" {
			continue
		}
		if !regexp.MustCompile(namespace + "_" + m.name + `(_bucket)?\{`).MatchString(all) {
			t.Errorf("%s is on no panel", m.name)
		}
		if first, known := titles[m.panel.title]; known && (first.unit != m.panel.unit || first.row != m.panel.row) {
			t.Errorf("%s shares %q, with another unit or row", m.name, m.panel.title)
		} else if !known {
			titles[m.panel.title] = m.panel
		}
	}
}

// promtool is that of Debian's package prometheus.
func promtool(t *testing.T) func(stdin []byte, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; it is in Debian's package prometheus")
	}
	return func(stdin []byte, args ...string) {
		t.Helper()
		cmd := exec.Command(path, args...)
		cmd.Stdin = bytes.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestPromtoolTakesWhatIsMade: the exposition, the rules, and each query of the
// dashboard as if it were a rule.
func TestPromtoolTakesWhatIsMade(t *testing.T) {
	tool := promtool(t)
	var own []string // the runtime's names are not ours to mend
	for line := range strings.Lines(get(everything(t), "/metrics").Body.String()) {
		if strings.Contains(line, namespace+"_") {
			own = append(own, line)
		}
	}
	tool([]byte(strings.Join(own, "")), "check", "metrics")
	rules := filepath.Join(t.TempDir(), "alerts.yml")
	if err := os.WriteFile(rules, generated(t, "alerts.yml"), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(nil, "check", "rules", rules)
	var d dashboard
	if err := json.Unmarshal(generated(t, "dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	var queries []map[string]string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries = append(queries, map[string]string{
				"record": fmt.Sprintf("q:%d", len(queries)), "expr": strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"),
			})
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": queries}}})
	if err != nil {
		t.Fatal(err)
	}
	asRules := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(asRules, text, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(nil, "check", "rules", asRules)
}

// trial is what an alert has to tell apart: series, a value a minute, with which it
// fires after two hours and with which it does not.
type trial struct{ fires, rests []string }

// counted are series of a counter that grows in the last minutes, and one that rests.
func counted(series string) trial {
	return trial{[]string{series + "=0x115 7+0x20"}, []string{series + "=7x140"}}
}

func level(series, bad, good string) trial {
	return trial{[]string{series + "=" + bad + "x140"}, []string{series + "=" + good + "x140"}}
}

const (
	in     = `{job="a",instance="b",input="app"}`
	plainS = `{job="a",instance="b"}`
)

var trials = map[string]trial{
	"KustoAgentNothingAccepted": {
		[]string{"kusto_agent_records_accepted_total" + in + "=5x140", "kusto_agent_records_pending" + in + "=3x140"},
		[]string{"kusto_agent_records_accepted_total" + in + "=5x140", "kusto_agent_records_pending" + in + "=0x140"}},
	"KustoAgentRecordsQuarantined": counted(`kusto_agent_records_quarantined_total{input="app",reason="refused"}`),
	"KustoAgentRecordsDropped":     counted(`kusto_agent_records_dropped_total{input="app",reason="spool_age"}`),
	"KustoAgentSlow": {
		[]string{`kusto_agent_end_to_end_seconds_bucket{le="60"}=0x140`, `kusto_agent_end_to_end_seconds_bucket{le="300"}=0+5x140`, `kusto_agent_end_to_end_seconds_bucket{le="+Inf"}=0+5x140`},
		[]string{`kusto_agent_end_to_end_seconds_bucket{le="60"}=0+5x140`, `kusto_agent_end_to_end_seconds_bucket{le="300"}=0+5x140`, `kusto_agent_end_to_end_seconds_bucket{le="+Inf"}=0+5x140`}},
	"KustoAgentRequestsRefused": {
		[]string{`kusto_agent_requests_total{outcome="refused",code="429"}=0+6x140`, `kusto_agent_requests_total{outcome="accepted",code="200"}=0+5x140`},
		[]string{`kusto_agent_requests_total{outcome="refused",code="429"}=0+1x140`, `kusto_agent_requests_total{outcome="accepted",code="200"}=0+5x140`}},
	"KustoAgentUnknownOutcomes":     counted("kusto_agent_unknown_outcomes_total"),
	"KustoAgentGzipFault":           counted("kusto_agent_gzip_encoder_faults_total"),
	"KustoAgentRouteDown":           {[]string{`kusto_agent_routes{state="down"}=2x140`}, []string{`kusto_agent_routes{state="down"}=0x140`, `kusto_agent_routes{state="up"}=2x140`}},
	"KustoAgentRouteHeld":           {[]string{`kusto_agent_routes_held{database="D",table="T",code="Forbidden"}=1x140`}, nil},
	"KustoAgentTokenExpires":        level("kusto_agent_token_expires_seconds"+plainS, "60", "2000"),
	"KustoAgentSpoolOld":            level("kusto_agent_spool_oldest_seconds"+plainS, "4000", "3000"),
	"KustoAgentSpoolUnhealthy":      level("kusto_agent_spool_healthy"+plainS, "0", "1"),
	"KustoAgentQuarantineUnhealthy": level("kusto_agent_quarantine_healthy"+plainS, "0", "1"),
	"KustoAgentQuarantineDropped":   counted("kusto_agent_quarantine_dropped_records_total"),
	"KustoAgentFallingBehind": {
		[]string{"kusto_agent_file_lag_bytes" + in + "=200000000+1000x140"},
		[]string{"kusto_agent_file_lag_bytes" + in + "=200000000-1000x140", `kusto_agent_file_lag_bytes{input="small"}=10+1000x140`}},
	"KustoAgentDeletedFilesHeld":   level("kusto_agent_pinned_deleted_bytes"+in, "600000000", "400000000"),
	"KustoAgentTruncatedUnread":    counted("kusto_agent_tail_truncated_unread_bytes_total" + in),
	"KustoAgentFilesAbandoned":     counted("kusto_agent_tail_abandoned_bytes_total" + in),
	"KustoAgentNULs":               counted("kusto_agent_tail_nul_bytes_total" + in),
	"KustoAgentFilesPolled":        level("kusto_agent_watch_healthy"+plainS, "0", "1"),
	"KustoAgentStateDiskUnhealthy": level("kusto_agent_state_disk_healthy"+plainS, "0", "1"),
	"KustoAgentReloadFailed":       level("kusto_agent_config_last_reload_successful"+plainS, "0", "1"),
	"KustoAgentLogLinesDropped":    counted("kusto_agent_log_lines_dropped_total"),
}

// TestEveryAlertHasATrial runs without promtool.
func TestEveryAlertHasATrial(t *testing.T) {
	var names []string
	for _, m := range catalog {
		for _, a := range m.alerts {
			names = append(names, a.name)
			if a.severity != critical && a.severity != warning || a.means == "" || a.do == "" || !strings.Contains(a.expression(m), m.name) {
				t.Errorf("%+v", a)
			}
		}
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(trials)); !slices.Equal(names, want) {
		t.Errorf("alerts %v\ntrials %v", names, want)
	}
}

// TestAlertsFireWhenTheyShould tries each rule with what it is for, and with what is well.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	tool := promtool(t)
	dir := t.TempDir()
	var tests []any
	for i, name := range []string{"what they are for", "what is well"} {
		input, asked := []any{}, []any{}
		for _, m := range catalog {
			for _, a := range m.alerts {
				for _, s := range [][]string{trials[a.name].fires, trials[a.name].rests}[i] {
					at := strings.LastIndexByte(s, '=')
					input = append(input, map[string]string{"series": s[:at], "values": s[at+1:]})
				}
				samples := []any{map[string]any{"labels": "{}", "value": 1}} // it fires, once
				if i > 0 {
					samples = []any{}
				}
				asked = append(asked, map[string]any{
					"expr": fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing"})`, a.name), "eval_time": "2h", "exp_samples": samples,
				})
			}
		}
		tests = append(tests, map[string]any{"name": name, "interval": "1m", "input_series": input, "promql_expr_test": asked})
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{"alerts.yml"}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	for name, doc := range map[string][]byte{"alerts.yml": generated(t, "alerts.yml"), "tests.yml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tool(nil, "test", "rules", filepath.Join(dir, "tests.yml"))
}
