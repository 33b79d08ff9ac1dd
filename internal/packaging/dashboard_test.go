package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/nest"
)

// TestDashboardFitsGrafana holds the dashboard against the types that Grafana publishes.
// Grafana itself is in no registry that a test may use.
func TestDashboardFitsGrafana(t *testing.T) {
	modules, err := filepath.Abs("grafana/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	tsc := filepath.Join(modules, "typescript/bin/tsc")
	if _, err := os.Stat(tsc); err != nil {
		t.Skip("npm packages are not installed: npm ci --prefix internal/packaging/grafana")
	}
	types, err := os.ReadFile("grafana/dashboard.ts")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "dashboard.ts"), bytes.Join([][]byte{types, []byte("export const ours: Board = "), packaged(t, "dashboard.json")}, nil), 0o600)
	cmd := exec.Command("node", tsc, "--noEmit", "--strict", "--skipLibCheck", "--target", "esnext", "--module", "esnext", "--moduleResolution", "bundler", "dashboard.ts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// packaged is a file of /usr/share/kusto-agent.
func packaged(t *testing.T, name string) []byte {
	t.Helper()
	for _, f := range theBuild(t).tree {
		if f.path == "/usr/share/kusto-agent/"+name {
			return f.text
		}
	}
	t.Fatalf("no %s in the packages", name)
	return nil
}

const observed = `cluster: URL
database: Logs
auth: {authority: URL, tenant: t, client_id: c, client_secret_file: DIR/secret}
state_dir: DIR/state
telemetry: {listen: "127.0.0.1:0"}
batch: {max_wait: 100ms}
inputs:
  - {name: app, paths: [DIR/app.json], table: App, mapping: App_json, add: {host: a}}
  - {name: lost, paths: [DIR/lost.json], table: Missing, mapping: Missing_json}
`

// TestDashboardShowsSomething: Prometheus scrapes an agent that delivers, changes and
// retries records, and answers each query of the dashboard with values.
func TestDashboardShowsSomething(t *testing.T) {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs prometheus, which is not installed")
	}
	m := theBuild(t)
	dir := t.TempDir()
	program := filepath.Join(m.work, "kusto-agent-"+m.arch)
	put(t, filepath.Join(dir, "schema.json"), []byte(`{"databases": {"Logs": {"tables": {"App": {"columns": "seq:long, host:string", "mappings": [{"name": "App_json", "kind": "Json"}]}}}}}`), 0o600)
	cluster := start(t, `http://127\.0\.0\.1:[0-9]+`, program, "emulator", "--schema", filepath.Join(dir, "schema.json"), "--token-secret", "s3cret", "--listen", "127.0.0.1:0")
	put(t, filepath.Join(dir, "secret"), []byte("s3cret"), 0o600)
	put(t, filepath.Join(dir, "agent.yaml"), []byte(strings.NewReplacer("URL", cluster, "DIR", dir).Replace(observed)), 0o600)
	for _, name := range []string{"app.json", "lost.json"} {
		put(t, filepath.Join(dir, name), []byte(`{"seq":0}`+"\n"), 0o600)
	}
	agent := start(t, `127\.0\.0\.1:[1-9][0-9]*`, program, "run", "--config", filepath.Join(dir, "agent.yaml"))
	scrapes := "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs: [{job_name: kusto-agent, static_configs: [{targets: ['" + agent + "']}]}]\n"
	put(t, filepath.Join(dir, "prometheus.yml"), []byte(scrapes), 0o600)
	server := "http://" + start(t, `127\.0\.0\.1:[1-9][0-9]*`, prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address=127.0.0.1:0")

	var board board
	if err := json.Unmarshal(packaged(t, "dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	missing := make(map[string]string) // expressions, with the panel they are of
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			missing[q.Expr] = p.Title
		}
	}
	if len(missing) < 40 {
		t.Fatalf("%d queries", len(missing))
	}
	// A quantile has a value only while something is observed, so records go on coming.
	log, err := os.OpenFile(filepath.Join(dir, "app.json"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	tick := time.NewTicker(nest.Look)
	defer tick.Stop()
	for end := time.Now().Add(2 * nest.Deadline); len(missing) > 0 && time.Now().Before(end); <-tick.C {
		if _, err := log.WriteString(`{"seq":1}` + "\n"); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(missing, func(expr, _ string) bool { return hasValues(t, server, expr) })
	}
	for expr, panel := range missing {
		t.Errorf("%s shows nothing: %s", panel, expr)
	}
	if page := os.Getenv("KUSTO_AGENT_DRAW"); page != "" {
		for n := range 6000 { // two minutes, in waves
			<-tick.C
			line := `{"seq":1}` + "\n"
			if _, err := log.WriteString(strings.Repeat(line, n/500%4*n%7)); err != nil {
				t.Fatal(err)
			}
		}
		put(t, page, board.draw(t, server), 0o644)
	}
}

// board is what Prometheus is asked for a dashboard.
type board struct {
	Panels []struct {
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct{ Expr, LegendFormat string }
	}
}

// hasValues asks Prometheus, with all that can be chosen above the dashboard.
func hasValues(t *testing.T, server, expr string) bool {
	t.Helper()
	return slices.ContainsFunc(ask(t, server+"/api/v1/query?", expr, "1m", nil), func(s series) bool { return s.Value[1] != "NaN" })
}

// series is a part of an answer of Prometheus. A value is a time and a text.
type series struct {
	Metric map[string]string
	Value  [2]any   // of a query for now
	Values [][2]any // of one for a range
}

// ask sends a query of the dashboard; nothing: Prometheus is not ready yet.
func ask(t *testing.T, address, expr, interval string, more url.Values) []series {
	t.Helper()
	expr = strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", interval).Replace(expr)
	var answer struct {
		Status string
		Error  string
		Data   struct{ Result []series }
	}
	values := url.Values{"query": {expr}}
	maps.Copy(values, more)
	resp, err := http.Get(address + values.Encode())
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result
}

// draw makes a page of the last two minutes of all panels, laid out as Grafana does, for
// a person to look at: KUSTO_AGENT_DRAW names the file.
func (b *board) draw(t *testing.T, server string) []byte {
	t.Helper()
	const cell, row = 56, 30
	colors := []string{"#3274d9", "#e0752d", "#37872d", "#c4162a", "#8f3bb8", "#1f9e9e", "#8a6d00", "#555"}
	now := time.Now()
	span := url.Values{"start": {fmt.Sprint(now.Add(-2 * time.Minute).Unix())}, "end": {fmt.Sprint(now.Unix())}, "step": {"2"}}
	var out bytes.Buffer
	out.WriteString("<!doctype html><meta charset=utf-8><style>body{margin:0;font:11px sans-serif;background:#f4f5f5}div{position:absolute;box-sizing:border-box}p{margin:4px 6px;font-weight:bold}.p{background:#fff;border:4px solid #f4f5f5}span{margin:0 6px}</style>\n")
	for _, p := range b.Panels {
		g := p.GridPos
		at := fmt.Sprintf("left:%dpx;top:%dpx;width:%dpx;height:%dpx", g.X*cell, g.Y*row, g.W*cell, g.H*row)
		if p.Type == "row" {
			fmt.Fprintf(&out, "<div style=%q><p>%s</p></div>\n", at, html.EscapeString(p.Title))
			continue
		}
		var all []series
		var legends []string
		most := 0.0
		for _, q := range p.Targets {
			for _, s := range ask(t, server+"/api/v1/query_range?", q.Expr, "10s", span) {
				all = append(all, s)
				legends = append(legends, braces.ReplaceAllStringFunc(q.LegendFormat, func(l string) string { return s.Metric[strings.Trim(l, "{}")] }))
				for _, v := range s.Values {
					if y := number(v[1]); y > most {
						most = y
					}
				}
			}
		}
		w, h := float64(g.W*cell-70), float64(g.H*row-80)
		fmt.Fprintf(&out, "<div class=p style=%q><p>%s <small>%s, to %.4g</small></p><svg width=%d height=%d style='background:#fafafa;margin:0 20px'>", at, html.EscapeString(p.Title), p.FieldConfig.Defaults.Unit, most, int(w), int(h))
		for i, s := range all {
			var points strings.Builder
			for _, v := range s.Values {
				if y := number(v[1]); !math.IsNaN(y) {
					fmt.Fprintf(&points, "%.1f,%.1f ", w*(1-float64(now.Unix()-int64(number(v[0])))/120), (h-4)*(1-y/max(most, 1e-9))+2)
				}
			}
			fmt.Fprintf(&out, "<polyline points=%q fill=none stroke=%q stroke-width=1.5 />", points.String(), colors[i%len(colors)])
		}
		out.WriteString("</svg><br>")
		for i, l := range legends {
			fmt.Fprintf(&out, "<span style='color:%s'>— %s</span>", colors[i%len(colors)], html.EscapeString(l))
		}
		out.WriteString("</div>\n")
	}
	return out.Bytes()
}

var braces = regexp.MustCompile(`\{\{\w+\}\}`)

// number reads a number of Prometheus, which has values as text and times as numbers.
func number(v any) float64 {
	if text, is := v.(string); is {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	n, _ := v.(float64)
	return n
}
