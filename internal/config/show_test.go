package config

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var comment = regexp.MustCompile(`(?m) +# .*$`)

// uncommented is what was shown without where it came from.
func uncommented(shown string) string { return comment.ReplaceAllString(shown, "") }

// shown is the lines of the configuration that show the given keys, in their
// order, their spaces drawn together.
func shown(t *testing.T, c Traced, input string) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Show(&b, input); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)([^ ]) +#`).ReplaceAllString(b.String(), "$1 #")
}

// Each value is shown with where it came from.
func TestShowTellsOrigins(t *testing.T) {
	c := trace(t, `cluster: https://C.kusto.windows.net/
database: Logs
auth: {tenant: "${TENANT:-common}", client_id: "${ID}", client_secret: "${SECRET}"}
user: $$me
batch: {max_wait: 3000ms, max_size: 500KiB}
inputs:
  - paths: /srv/a.json
    table: A
    mapping: m
    batch: {max_records: 7}
    fields: {env: "${ENV:-prod}-${ID}", user.name: "${UNSET:-x}"}
  - {name: dr, paths: [/b.log], table: B, cluster: dr, parse: logfmt, mapping: m, compression: auto}
  - {name: V, paths: [/c.avro], table: C, cluster: dr, mapping: m, max_pinned_deleted: 1024}
clusters:
  dr: {url: "https://dr.kusto.windows.net"}
send: {proxy: "http://u:${SECRET}@p:1"}
spool: {dir: ""}
`, "ID", "f80d", "SECRET", secret, "STATE_DIRECTORY", "/var/lib/x")
	text := shown(t, c, "")
	for _, want := range []string{
		"\ncluster: https://c.kusto.windows.net # agent.yaml:1, written as https://C.kusto.windows.net/\n",
		"\ndatabase: Logs # agent.yaml:2\n",
		"\nstate_dir: /var/lib/x # environment STATE_DIRECTORY\n",
		"\napp: kusto-agent # default\n",
		"\nuser: $$me # agent.yaml:4\n",
		"\n  method: client_secret # resolved, what auto finds in auth\n  authority: \"\" # default\n  tenant: common # agent.yaml:3, TENANT is empty or not set\n  client_id: f80d # environment ID (agent.yaml:3)\n  client_secret: '****' # environment SECRET (agent.yaml:3)\n",
		"\n  - name: A # resolved, the table\n    paths:\n      - /srv/a.json # agent.yaml:7\n    exclude: [] # default\n    cluster: default # default\n    database: Logs # agent.yaml:2, of the top level\n",
		"\n    format: JSON # resolved, by the extension of paths\n    compression: gzip # resolved, auto for this format\n",
		"\n    max_record_size: 500KiB # resolved, what batch.max_size has room for\n",
		"\n      env: prod-f80d # environment ID (agent.yaml:11), ENV is empty or not set\n      user.name: x # agent.yaml:11, UNSET is empty or not set\n",
		"\n    batch:\n      max_size: 500KiB # agent.yaml:5, of the top level\n      max_records: 7 # agent.yaml:10\n      max_wait: 3s # agent.yaml:5, of the top level, written as 3000ms\n      gzip_level: 1 # default\n      gzip_encoder: auto # default\n",
		"\n    cluster: dr # agent.yaml:12\n    database: Logs # agent.yaml:2, of the cluster, of the top level\n",
		"\n    format: JSON # resolved, parse makes JSON\n    compression: gzip # agent.yaml:12, written as auto\n",
		"\n    compression: none # resolved, the format is compressed inside\n",
		"\n    max_pinned_deleted: 1KiB # agent.yaml:13, written as 1024\n",
		"\n    database: Logs # agent.yaml:2, of the top level\n    auth:\n      method: client_secret # resolved, what auto finds in auth\n      authority: \"\" # default\n      tenant: common # agent.yaml:3, of the top level, TENANT is empty or not set\n",
		"\n  proxy: http://****@p:1 # environment SECRET (agent.yaml:16)\n",
		"\n  dir: /var/lib/x/spool # agent.yaml:17, written as \"\"\n",
	} {
		if !strings.Contains("\n"+text, want) {
			t.Errorf("missing:%s", want)
		}
	}
	if t.Failed() || strings.Contains(text, secret) {
		t.Errorf("shown:\n%s", text)
	}
}

// Included inputs are told by their own file, and one input by itself keeps its
// origins.
func TestShowIncluded(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.yaml": top + "include: i.yaml\nbatch: {max_wait: 9s}\ninputs: [{paths: /m.csv, table: M}]",
		"i.yaml":     "inputs:\n  - {paths: /b.csv, table: B}\n  - paths: /c.csv\n    table: C\n    batch: {max_records: 9}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := LoadTraced(filepath.Join(dir, "agent.yaml"), environ("CREDENTIALS_DIRECTORY", "/run/c"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(shown(t, c, "C"), dir, "DIR")
	for _, want := range []string{
		"inputs:\n  - name: C # resolved, the table\n    paths:\n      - /c.csv # DIR/i.yaml:3\n",
		"\n    table: C # DIR/i.yaml:4\n", "\n      max_records: 9 # DIR/i.yaml:5\n      max_wait: 9s # DIR/agent.yaml:5, of the top level\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s in\n%s", want, text)
		}
	}
	if strings.Count(text, " name:") != 1 || strings.Contains(text, "spool") {
		t.Errorf("shown:\n%s", text)
	}
	doc, err := c.Shown("C")
	if err != nil {
		t.Fatal(err)
	}
	if o := doc.From["inputs[0].table"]; o.Kind != byFile || o.Line != 4 || len(doc.Config) != 1 {
		t.Errorf("%+v in %+v", o, doc)
	}
	if err := c.HasInput("D"); err == nil || err.Error() != `there is no input "D"; did you mean M?` && err.Error() != `there is no input "D"; want M, B or C` {
		t.Errorf("got %v", err)
	}
}

// TestMasked is what the status page shows: a configuration that loads to the same, but
// for its secrets.
func TestMasked(t *testing.T) {
	const text = `cluster: https://c.kusto.windows.net
database: Logs
auth: {tenant: t, client_id: c, client_secret: "${SECRET}"}
send: {proxy: "http://u:${SECRET}@p:1"}
inputs: [{paths: /srv/a.json, table: A, mapping: m, fields: {price: "$$5", api_key: "${SECRET}"}}]
`
	c := load(t, text, "SECRET", secret)
	shown, err := c.Masked()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(shown, secret) || !strings.Contains(shown, "client_secret: '****'") || !strings.Contains(shown, "$$5") {
		t.Errorf("shown:\n%s", shown)
	}
	again, err := load(t, shown).Masked()
	if err != nil || again != shown {
		t.Errorf("%v, it loads to something else:\n%s", err, again)
	}
}
