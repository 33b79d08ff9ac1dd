package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
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
	for end := time.Now().Add(8 * nest.Deadline); len(missing) > 0 && time.Now().Before(end); <-tick.C {
		if _, err := log.WriteString(`{"seq":1}` + "\n"); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(missing, func(expr, _ string) bool { return hasValues(t, server, expr) })
	}
	for expr, panel := range missing {
		t.Errorf("%s shows nothing: %s", panel, expr)
	}
}

// hasValues asks Prometheus, with all that can be chosen above the dashboard.
func hasValues(t *testing.T, server, expr string) bool {
	t.Helper()
	expr = strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "1m").Replace(expr)
	var answer struct {
		Status string
		Error  string
		Data   struct {
			Result []struct{ Value [2]any }
		}
	}
	resp, err := http.Get(server + "/api/v1/query?" + url.Values{"query": {expr}}.Encode())
	if err != nil {
		return false // it does not listen yet, or is not ready
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return false
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", expr, answer.Error)
	}
	return slices.ContainsFunc(answer.Data.Result, func(s struct{ Value [2]any }) bool { return s.Value[1] != "NaN" })
}
