package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestServiceEnv: a command finds the folders of the service whose configuration it reads, of no other
// agent, and only where the environment names none.
func TestServiceEnv(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f := func(path, name, want string, set ...string) {
		t.Helper()
		env := func(of string) (string, bool) {
			if len(set) == 2 && set[0] == of {
				return set[1], true
			}
			return "", false
		}
		if want != "" && filepath.IsLocal(want) {
			want = filepath.Join(root, want)
		}
		if got, ok := serviceEnv(path, env, root)(name); got != want || ok != (want != "") {
			t.Errorf("%s of %s: %q, %t, want %q", name, path, got, ok, want)
		}
	}
	make := func(names ...string) {
		t.Helper()
		for _, name := range names {
			name = filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const state, credentials, instance = "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY", "/etc/kusto-agent/instances/a.yaml"
	make("etc/credstore/other.secret", "etc/credstore/kusto-agent@a.client-secret")
	f(DefaultPath, state, "")
	f(DefaultPath, credentials, "") // a name without a folder is beside the configuration then
	make("var/lib/kusto-agent/LOCK", "var/lib/kusto-agent@a/LOCK", "etc/credstore/kusto-agent.client-secret")
	f(DefaultPath, state, "var/lib/kusto-agent")
	f(DefaultPath, credentials, "etc/credstore")
	f(instance, state, "var/lib/kusto-agent@a")
	f(instance, credentials, "")
	f("/etc/kusto-agent/instances/b.yaml", state, "")
	f("/etc/kusto-agent/conf.d/a.yaml", state, "")
	f("/etc/kusto-agent/./agent.yaml", state, "var/lib/kusto-agent")
	f("/etc/kusto-agent//instances/../instances/a.yaml", state, "var/lib/kusto-agent@a")
	f("agent.yaml", state, "")
	f("agent.yaml", credentials, "")
	make("run/credentials/kusto-agent.service/kusto-agent.client-secret", "run/credentials/kusto-agent@a.service/kusto-agent.client-secret")
	f(DefaultPath, credentials, "run/credentials/kusto-agent.service")
	f(instance, credentials, "run/credentials/kusto-agent@a.service")
	f(DefaultPath, state, "/elsewhere", state, "/elsewhere")
	f(DefaultPath, credentials, "/elsewhere", credentials, "/elsewhere")
	f(DefaultPath, "KUSTO_SECRET", "")
	if here, err := os.Getwd(); err != nil {
		t.Error(err)
	} else if up, err := filepath.Rel(here, DefaultPath); err != nil {
		t.Error(err)
	} else {
		f(up, state, "var/lib/kusto-agent")
	}
}
