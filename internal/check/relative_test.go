package check

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRelative: what depends on the folder in which the agent is started is told where another program starts
// it, since in the folder of whoever runs check all looks well.
func TestRelative(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	text := "cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\nstate_dir: state\nspool: {dir: sp}\n" +
		"inputs: [{paths: [logs/*.csv, /var/log/*.csv, '~/*.csv'], table: T}]\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f := func(unit, folder string, want map[string]string) {
		t.Helper()
		found, err := Run(t.Context(), Options{Path: path, Env: os.LookupEnv, Offline: true, Service: Service{Unit: unit, Folder: folder}})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, f := range found {
			if f.ID == "config.relative" {
				if f.Severity != Warning || f.Fix == "" || f.What == "" {
					t.Errorf("%+v", f)
				}
				got[f.Where] = f.Input
				if where := "systemd starts the service in " + cmp.Or(folder, "/"); !strings.HasSuffix(f.What, where) && f.Where != "~/*.csv" {
					t.Errorf("%q does not say %q", f.What, where)
				}
			}
		}
		if len(got) != len(want) {
			t.Errorf("unit %q: %v, want %v", unit, got, want)
		}
		for where, input := range want {
			if in, ok := got[where]; !ok || in != input {
				t.Errorf("unit %q: %v, want %v", unit, got, want)
			}
		}
	}
	f("", "", map[string]string{"~/*.csv": "T"})
	f("kusto-agent", "", map[string]string{"~/*.csv": "T", "logs/*.csv": "T", "state": "", "sp": ""})
	f("kusto-agent", "/srv/app", map[string]string{"~/*.csv": "T", "logs/*.csv": "T", "state": "", "sp": ""})
}
