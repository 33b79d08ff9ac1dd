package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/exit"
)

// TestNamedFiles: a file with which run does not start, or cannot sign in, is an error of check also
// without the network, and only a name without a folder may be a credential of systemd.
func TestNamedFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("good.token", "0123456789abcdef\n", 0o600)
	write("open.token", "0123456789abcdef\n", 0o644)
	write("short.token", "0123\n", 0o600)
	write("junk", "junk\n", 0o600)
	write("empty", "", 0o600)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	const local, far = "cluster: http://127.0.0.1:1\nauth: {method: none}\n", "cluster: https://c.kusto.windows.net\n"
	check := func(text string, env ...string) []Finding {
		t.Helper()
		path := filepath.Join(dir, "agent.yaml")
		write("agent.yaml", text+"\ndatabase: D\nspool: {max_size: 1MiB, min_free: 0}\ninputs: [{paths: ["+dir+"/none/*.csv], table: T}]\n", 0o600)
		found, err := Run(t.Context(), Options{Path: path, Offline: true, Env: func(name string) (string, bool) {
			if i := slices.Index(env, name); i >= 0 {
				return env[i+1], true
			}
			return map[string]string{"STATE_DIRECTORY": dir + "/state"}[name], name == "STATE_DIRECTORY"
		}})
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(found, func(f Finding) bool { return f.Severity == OK || f.ID == "files.match" })
	}
	f := func(text string, severity Severity, code int, want ...string) {
		t.Helper()
		found := check(text, "CREDENTIALS_DIRECTORY", filepath.Join(dir, "credentials"))
		if len(found) == 0 {
			t.Errorf("%s: nothing found, want %s", text, want)
			return
		}
		for _, one := range found {
			if one.Severity == severity && one.Fix != "" && !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(one.What+"\n"+one.Where, w) }) {
				if got := ExitCode(found); got != code {
					t.Errorf("%s: exit code %d, want %d", text, got, code)
				}
				return
			}
		}
		t.Errorf("%s: found %+v, want %s %s", text, found, severity, want)
	}
	const telemetryOn = local + "telemetry: {listen: '127.0.0.1:1', "
	f(telemetryOn+"token_file: ./open.token}", Error, exit.Config, "telemetry.token_file", "mode 0644")
	f(telemetryOn+"token_file: ./short.token}", Error, exit.Config, "telemetry.token_file", "has 4 bytes")
	f(telemetryOn+"token_file: ./folder}", Error, exit.Config, "is no file")
	f(telemetryOn+"tls: {certificate_file: ./folder, key_file: ./folder}}", Error, exit.Config, "telemetry.tls", "is a directory")
	f(telemetryOn+"tls: {certificate_file: ./junk, key_file: ./junk}}", Error, exit.Config, "telemetry.tls", "PEM")
	f(telemetryOn+"tls: {certificate_file: ./junk, key_file: ./junk}, token_file: ./open.token}", Error, exit.Config, "mode 0644")
	const notThere = "is not there"
	f(telemetryOn+"token_file: ./none}", Error, exit.Failed, notThere, dir+"/none")
	f(telemetryOn+"token_file: "+dir+"/none}", Error, exit.Failed, notThere)
	f(telemetryOn+"tls: {certificate_file: ./none.crt, key_file: ./none.key}}", Error, exit.Failed, notThere, "none.key")
	f(telemetryOn+"token_file: none}", Warning, 0, notThere, "unless systemd provides it as a credential", dir+"/credentials/none")
	f(local+"send: {tls: {ca_file: ca.pem}}", Error, exit.Config, notThere, dir+"/ca.pem")
	f(local+"send: {tls: {ca_file: junk}}", Error, exit.Config, "send.tls.ca_file", "holds no certificate")
	f(far+"auth: {method: certificate, tenant: t, client_id: c, certificate_file: ./junk}", Error, exit.Failed, "auth.certificate_file", "PKCS#12")
	f(far+"auth: {tenant: t, client_id: c, client_secret_file: ./empty}", Error, exit.Failed, "auth.client_secret_file", "holds 0 bytes")
	f(far+"auth: {method: token_file, token_file: ./empty}", Error, exit.Failed, "auth.token_file", "holds 0 bytes")
	f(far+"auth: {method: workload_identity, tenant: t, client_id: c, federated_token_file: ./empty}", Error, exit.Failed, "auth.federated_token_file", "holds 0 bytes")
	f(far+"auth: {method: workload_identity, federated_token_file: ./good.token}", Error, exit.Config, "auth.tenant: missing")
	f(far+"auth: {method: token_file, token_file: ./none}", Error, exit.Failed, notThere)
	f(far+"auth: {method: token_file, token_file: none}", Warning, 0, notThere, "unless systemd provides it as a credential")
	const noFolder = "is no folder"
	f("state_dir: "+dir+"/junk\n"+local, Error, exit.Config, "state_dir "+noFolder, dir+"/junk")
	f("state_dir: "+dir+"/junk/state\n"+local, Error, exit.Config, "state_dir "+noFolder, dir+"/junk/state")
	well := func(text string) {
		t.Helper()
		if found := check(text); len(found) > 0 {
			t.Errorf("%s: found %+v", text, found)
		}
	}
	const openToAll = "can read it (mode 0644)"
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // that of t.TempDir is its user's alone
		t.Fatal(err)
	}
	f(far+"auth: {tenant: t, client_id: c, client_secret_file: ./open.token}", Warning, 0, openToAll, dir+"/open.token")
	f(far+"auth: {method: token_file, token_file: ./open.token}", Warning, 0, openToAll, dir+"/open.token")
	f(far+"auth: {method: workload_identity, tenant: t, client_id: c, federated_token_file: ./open.token}", Warning, 0, openToAll, dir+"/open.token")
	if found := check(far+"auth: {tenant: t, client_id: c, client_secret_file: open.token}", "CREDENTIALS_DIRECTORY", dir); len(found) > 0 {
		t.Errorf("a credential of systemd: found %+v", found)
	}
	well(telemetryOn + "token_file: ./good.token}")
	well(local + "telemetry: {listen: '', token_file: ./open.token}")
	well(local + "telemetry: {listen: '', token_file: ./none}")
	well(far + "auth: {method: token_file, token_file: good.token}")
	well(far + "auth: {tenant: t, client_id: c, client_secret_file: good.token}")
}

// Two inputs of one route of which the second reads what rotation makes of the files of the first are a
// warning, with what to do.
func TestInputOfCopies(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.yaml")
	for name, text := range map[string]string{
		"app.csv":    "1\n",
		"agent.yaml": "cluster: http://127.0.0.1:1\nauth: {method: none}\ndatabase: D\nstate_dir: " + dir + "/state\nspool: {max_size: 1MiB, min_free: 0}\ninputs:\n- {name: app, paths: [" + dir + "/*.csv], table: T}\n- {name: old, paths: [" + dir + "/*.csv.*], format: csv, table: T}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Run(t.Context(), Options{Path: path, Offline: true, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.ID != "files.copies" })
	if len(found) != 1 || found[0].Severity != Warning || found[0].Input != "old" || found[0].Where != dir+"/app.csv.1" || found[0].Fix == "" {
		t.Errorf("found %+v", found)
	}
}
