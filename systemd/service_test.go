package systemd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kusto-agent/internal/nest"
)

func TestMain(m *testing.M) { nest.Main(m) }

// TestUnderSystemd runs the service under a systemd of its own, installed from
// the manual as a user would. Its parts build on each other: each leaves the
// service running well.
func TestUnderSystemd(t *testing.T) {
	parts := []struct {
		name string
		run  func(*host)
	}{
		{"Install", install},
		{"Commands", commands},
		{"ActiveWhenReady", activeWhenReady},
		{"Stop", cleanStop},
		{"Kill", killed},
		{"Reload", reloaded},
		{"StatusText", statusText},
		{"Priorities", priorities},
		{"Watchdog", watched},
		{"BadConfiguration", unusable},
		{"Sandbox", sandboxed},
		{"Rotation", rotated},
		{"UnreadableFile", unreadable},
		{"ReadsAll", readsAll},
		{"NoSecret", noSecret},
		{"SecretInFile", secretInFile},
		{"SecretEncrypted", secretEncrypted},
		{"Instances", instances},
	}
	if nest.Inside() {
		for _, p := range parts {
			t.Run(p.name, func(t *testing.T) {
				h := &host{t}
				p.run(h)
				h.systemctl("reset-failed", service) // or the starts of quick parts add up to the limit of systemd
			})
		}
		return
	}
	n := newServiceNest(t)
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) { n.Test(t, t.Name()) })
	}
}

// newServiceNest boots a systemd beside an endpoint that demands a token, with
// what the manual needs in /nest/checkout.
func newServiceNest(t *testing.T) *nest.Nest {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short: boots a systemd")
	}
	if os.Geteuid() != 0 {
		t.Skip("the kernel refuses namespaces to a user who is not root")
	}
	need(t, "nsenter")
	need(t, nest.Manager)
	needStore(t)
	brought := t.TempDir()
	checkout := filepath.Join(brought, "checkout")
	copyFile(t, nest.Binary(t), filepath.Join(brought, "test"))
	copyFile(t, build(t), filepath.Join(checkout, "kusto-agent"))
	for _, name := range []string{"systemd/kusto-agent.service", "systemd/kusto-agent@.service", "systemd/sysusers.d/kusto-agent.conf", "docs/operations.md"} {
		copyFile(t, filepath.Join("..", name), filepath.Join(checkout, name))
	}
	putFile(t, filepath.Join(checkout, "agent.yaml"), serviceConfig)
	putFile(t, filepath.Join(brought, "units/nest.target"), nestTarget)
	putFile(t, filepath.Join(brought, "units/emulator.service"), emulatorUnit)
	return nest.New(t, brought)
}

// needStore skips the test where systemd is too old to look for credentials
// where the manual puts them.
func needStore(t *testing.T) {
	t.Helper()
	need(t, "systemctl")
	out, err := exec.Command("systemctl", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var version int
	if _, err := fmt.Sscanf(string(out), "systemd %d", &version); err != nil {
		t.Fatalf("version of systemd in %q: %v", out, err)
	}
	if version < 252 {
		t.Skipf("needs systemd 252, this is %d", version)
	}
}

// nestTarget is all that is started with systemd.
const nestTarget = `[Unit]
DefaultDependencies=no
Wants=systemd-journald.service emulator.service
`

const emulatorUnit = `[Unit]
DefaultDependencies=no
[Service]
ExecStart=/nest/checkout/kusto-agent emulator --open --listen 127.0.0.1:8080 --token-secret ` + secret + `
`

const secret = "nest-client-secret"

const serviceConfig = `cluster: http://127.0.0.1:8080
database: Logs
auth:
  method: client_secret
  authority: http://127.0.0.1:8080
  tenant: contoso.onmicrosoft.com
  client_id: f80da32c-108c-415c-a19e-643f461a677a
  client_secret_file: kusto-agent.client-secret
inputs:
  - paths: [/var/log/app/*.json, /tmp/app/*.json]
    table: App
    mapping: App_json
batch: {max_wait: 50ms}
`

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, to, string(text))
	info, err := os.Stat(from)
	if err == nil {
		err = os.Chmod(to, info.Mode().Perm())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
