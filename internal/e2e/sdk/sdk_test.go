// Package sdk runs Microsoft's Node SDK, as npm has it, against the emulator: what
// passes here, programs that were written against the service can do with it.
package sdk

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/linkedin/goavro/v2"
)

const secret = "of-the-sdk-test"

// TestNodeSDK starts the emulator of this checkout with TLS and tokens, and runs
// sdk.test.mjs as its client.
func TestNodeSDK(t *testing.T) {
	if testing.Short() {
		t.Skip("the short form leaves out other programs")
	}
	if _, err := os.Stat("node_modules/azure-kusto-ingest/package.json"); err != nil {
		t.Skip("npm packages are not installed: npm ci --prefix e2e/sdk")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	authority := filepath.Join(dir, "ca.pem")
	schema := filepath.Join(dir, "schema.json")
	if err := os.WriteFile(schema, []byte(`{"databases": {"Sdk": {}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serve(t, dir, "--schema", schema, "--tls", "--tls-ca", authority, "--token-secret", secret)
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=tap", "sdk.test.mjs")
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+authority, "CLUSTER="+url, "TOKEN="+token(t, url, authority),
		"AVRO="+avroFile(t, dir), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("\n# fail 0\n")) || bytes.Contains(out, []byte("\n# pass 0\n")) || !bytes.Contains(out, []byte("\n# skipped 0\n")) {
		t.Fatalf("not all of it ran:\n%s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "# ") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// serve builds the command of this checkout, runs its emulator on a free port until
// the test ends and returns the URL, which it prints when it listens.
func serve(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	program := filepath.Join(dir, "kusto-agent")
	if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/agent").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	// Killed when the test is over in any case; ended politely by the cleanup.
	ctx, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, append([]string{"emulator", "--listen", "127.0.0.1:0"}, flags...)...)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait() // how it ends is not what is tested
		kill()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if at, found := strings.CutPrefix(lines.Text(), "endpoint "); found {
			return strings.TrimSpace(at)
		}
	}
	t.Fatal("the emulator ended before it listened")
	return ""
}

// token asks the emulator for a token, as an application with a secret does.
func token(t *testing.T, cluster, authority string) string {
	t.Helper()
	pem, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).PostForm(cluster+"/tenant/oauth2/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"app"}, "client_secret": {secret}, "resource": {cluster}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Token == "" {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return answer.Token
}

// avroFile writes an object container file of two records.
func avroFile(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "rows.avro")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := goavro.NewOCFWriter(goavro.OCFConfig{W: f, Schema: `{"type":"record","name":"row","fields":[{"name":"s","type":"string"},{"name":"n","type":"long"}]}`})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append([]any{map[string]any{"s": "a", "n": int64(1)}, map[string]any{"s": "b", "n": int64(2)}}); err != nil {
		t.Fatal(err)
	}
	return path
}
