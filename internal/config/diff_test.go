package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// reloadable is a configuration with two inputs and two clusters.
const reloadable = top + `state_dir: /state
inputs:
  - {paths: /srv/a.json, table: A, mapping: m, fields: {host: "{host}"}}
  - {paths: /srv/b.csv, table: B, cluster: dr}
clusters:
  dr: {url: "https://dr.kusto.windows.net", auth: {method: token_file, token_file: /t}}
`

func TestReload(t *testing.T) {
	f := func(name, from, to string, want Diff) {
		t.Helper()
		text := strings.ReplaceAll(reloadable, from, to)
		if text == reloadable && from != "" {
			t.Fatalf("%s: %q is not there", name, from)
		}
		old, loaded := load(t, reloadable), load(t, text)
		next, got := Reload(old, loaded)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v; want %+v", name, got, want)
		}
		if got.IsEmpty() != reflect.DeepEqual(want, Diff{}) {
			t.Errorf("%s: empty is %v", name, got.IsEmpty())
		}
		if again, d := Reload(next, loaded); !reflect.DeepEqual(d, Diff{Restart: want.Restart}) || !reflect.DeepEqual(again, next) {
			t.Errorf("%s: a second time: %+v", name, d)
		}
		if !reflect.DeepEqual(old, load(t, reloadable)) || !reflect.DeepEqual(loaded, load(t, text)) {
			t.Errorf("%s: an argument was changed", name)
		}
	}
	add := func(line string) (string, string) { return "state_dir", line + "\nstate_dir" }
	f("nothing", "", "", Diff{})

	f("a table", "table: A", "table: C, name: A", Diff{Changed: []string{"A"}})
	f("a name", "table: A", "table: A, name: a", Diff{Added: []string{"a"}, Removed: []string{"A"}})
	f("a field", "{host}", "{file}", Diff{Changed: []string{"A"}})
	f("one more", "clusters:", "  - {paths: /srv/c.csv, table: C}\nclusters:", Diff{Added: []string{"C"}})
	f("one less", "  - {paths: /srv/b.csv, table: B, cluster: dr}\n", "", Diff{Removed: []string{"B"}})
	from, to := add("batch: {max_wait: 2s}")
	f("what inputs inherit", from, to, Diff{Changed: []string{"A", "B"}})
	from, to = add("batch: {gzip_level: 1}")
	f("a default that is written out", from, to, Diff{})

	f("the URL of a cluster", "dr.kusto", "dr2.kusto", Diff{Changed: []string{"B"}, Clusters: []string{"dr"}})
	f("a secret", "/f}", "/g}", Diff{Clusters: []string{"default"}})
	from, to = "B, cluster: dr}\nclusters:\n  dr:", "B, cluster: two}\nclusters:\n  two:"
	f("what a cluster is called", from, to, Diff{Clusters: []string{"dr", "two"}})

	from, to = add("send: {concurrency: 3, retry: {max: 20s}, tls: {min_version: '1.3'}}")
	f("settings", from, to, Diff{Settings: []string{"send.concurrency", "send.retry.max", "send.tls.min_version"}})
	from, to = add("app: x\nuser: y\nshutdown_timeout: 3s\nallow_untrusted_endpoint: true")
	f("settings of the top", from, to, Diff{Settings: []string{"allow_untrusted_endpoint", "app", "user", "shutdown_timeout"}})
	from, to = add("spool: {max_size: 1GiB}\nquarantine: {when_full: drop_oldest}\njournal: {max_age: 1d}\nlimits: {memory: 300MiB}")
	f("stores", from, to, Diff{Settings: []string{"spool.max_size", "quarantine.when_full", "journal.max_age", "limits.memory"}})

	f("state_dir, and the spool in it", "/state", "/other", Diff{Restart: []string{"state_dir"}})
	from, to = add("spool: {dir: /sp}\ntelemetry: {listen: '', log: {level: warn, format: json}}")
	secured, guarded := add("telemetry: {listen: ':1', token_file: /t, tls: {certificate_file: /c, key_file: /k}, allow_plaintext: true}")
	f("who is answered", secured, guarded, Diff{Restart: []string{"telemetry.listen", "telemetry.token_file", "telemetry.tls", "telemetry.allow_plaintext"}})
	f("what is fixed", from, to, Diff{
		Settings: []string{"telemetry.log.level"}, Restart: []string{"spool.dir", "telemetry.listen", "telemetry.log.format"},
	})
}

// What needs a restart stays as it is, and everything else is as loaded.
func TestReloadKeepsWhatIsFixed(t *testing.T) {
	old := load(t, reloadable)
	next, _ := Reload(old, load(t, strings.Replace(reloadable, "/state", "/other", 1)+"spool: {max_size: 1GiB}\n"))
	if next.StateDir != "/state" || next.Spool.Dir != filepath.Join("/state", "spool") || next.Spool.MaxSize != 1<<30 {
		t.Errorf("state in %s, spool %+v", next.StateDir, next.Spool)
	}
}

// A Diff has no values: it is logged.
func TestDiffHasNoSecrets(t *testing.T) {
	text := strings.Replace(reloadable, "client_secret_file: /f", `client_secret: "${S}"`, 1)
	_, d := Reload(load(t, text, "S", "zq-one"), load(t, text, "S", "zq-two"))
	if said := fmt.Sprintf("%+v", d); strings.Contains(said, "zq") || !reflect.DeepEqual(d.Clusters, []string{"default"}) {
		t.Errorf("it says %s", said)
	}
}
