package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// spy is a service that remembers the secrets it is sent. When it is told to be hostile
// it refuses requests, and says them all in its answers.
type spy struct {
	next http.Handler

	mu      sync.Mutex
	secrets map[string]bool
	hostile int // status of its answers; 0: it is not
}

func (v *spy) be(status int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hostile = status
}

// seen are the secrets that came.
func (v *spy) seen() (all []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := range v.secrets {
		all = append(all, s)
	}
	return all
}

func (v *spy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var came []string
	if _, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		came = append(came, token)
	}
	if strings.HasSuffix(r.URL.Path, "/oauth2/token") || strings.HasSuffix(r.URL.Path, "/oauth2/v2.0/token") {
		text, _ := io.ReadAll(r.Body) // what is cut off is refused by the emulator
		r.Body = io.NopCloser(bytes.NewReader(text))
		form, _ := url.ParseQuery(string(text))
		for _, key := range []string{"client_secret", "client_assertion"} {
			if s := form.Get(key); s != "" {
				came = append(came, s)
			}
		}
	}
	v.mu.Lock()
	for _, s := range came {
		v.secrets[s] = true
	}
	status := v.hostile
	v.mu.Unlock()
	if status == 0 || len(came) == 0 {
		v.next.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Ms-Activity-Id", came[0])
	w.WriteHeader(status)
	said := strings.Join(came, " and ")
	fmt.Fprintf(w, `{"error":{"code":"BadRequest_%[1]s","message":"You sent Authorization: Bearer %[1]s","@message":"client_secret=%[1]s","@permanent":%[2]v}}`, said, status == http.StatusBadRequest)
}

// asksTelemetry is a client of a process that takes no other certificate than that of a
// file.
func (s *site) asksTelemetry(certificate string) *http.Client {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.read(certificate))) {
		s.t.Fatal("no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "agent.example"}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: deadline}
}

// ownCertificate writes a certificate for agent.example and its key, and returns a line
// from the middle of the key.
func (s *site) ownCertificate(certificate, key string) (line string) {
	s.t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"agent.example"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &pair.PublicKey, pair)
	s.must(err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(pair)
	s.must(err)
	s.write(certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	s.write(key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	return strings.Split(s.read(key), "\n")[2]
}

// notes are n records.
func notes(first, n int) (text string) {
	for i := first; i < first+n; i++ {
		text += fmt.Sprintf("{\"seq\":%d,\"note\":\"something %d\"}\n", i, i%7)
	}
	return text
}

const credentialed = `cluster: ${SPY}
database: Logs
state_dir: ${DIR}/state
auth: {method: client_secret, tenant: t, client_id: c, client_secret_file: secret}
send: {tls: {ca_file: ca.pem}, retry: {initial: 10ms, max: 50ms, patience: 200ms}}
batch: {max_wait: 10ms}
telemetry:
  listen: "0.0.0.0:0"
  token_file: telemetry.token
  tls: {certificate_file: telemetry.crt, key_file: telemetry.key}
clusters:
  inline: {url: "${INLINED}", auth: {method: client_secret, tenant: t, client_id: c, client_secret: "${INLINE}"}}
  certificate: {url: "${CERTIFIED}", auth: {method: certificate, tenant: t, client_id: c, certificate_file: agent.pem}}
  workload: {url: "${FEDERATED}", auth: {method: workload_identity, tenant: t, client_id: c, federated_token_file: federated}}
  file: {url: "${URL}", auth: {method: token_file, token_file: token}}
inputs:
  - {name: secret, paths: ["${DIR}/logs/*.log"], format: JSON, table: A, mapping: m, redact_key_file: hash.key, redact: [{member: note, with: hash}]}
  - {name: certificate, paths: ["${DIR}/logs/*.log"], format: JSON, cluster: certificate, table: C, mapping: m}
  - {name: workload, paths: ["${DIR}/logs/*.log"], format: JSON, cluster: workload, table: W, mapping: m}
  - {name: file, paths: ["${DIR}/logs/*.log"], format: JSON, cluster: file, table: F, mapping: m}
`

// TestNoCredentialGetsOut: with every kind of secret that the agent is given, and a service
// that tells it all it was sent, nothing that the agent writes, prints, logs or answers has
// one of them: not in state, spool, quarantine and journal, not on the page, in metrics,
// status and taps, and not in what the commands show.
func TestNoCredentialGetsOut(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{
		"secret": "zq-canary-of-the-client", "inline": "zq-canary-that-is-inline", "telemetry.token": "zq-canary-of-telemetry", "hash.key": "zq-canary-of-the-hashes",
		"proxy": "zq-canary-of-the-proxy",
	}
	s := newSite(t, emulator.Options{TokenSecret: secrets["secret"]})
	v := &spy{next: s.server, secrets: make(map[string]bool)}
	s.env = []string{"INLINE=" + secrets["inline"]}
	for _, name := range []string{"SPY", "INLINED", "CERTIFIED", "FEDERATED"} {
		front := httptest.NewUnstartedServer(v)
		front.Config.ErrorLog = log.New(io.Discard, "", 0)
		front.StartTLS()
		t.Cleanup(front.Close)
		s.env = append(s.env, name+"="+front.URL)
		s.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})))
	}
	for _, name := range []string{"secret", "telemetry.token", "hash.key"} {
		s.write(name, secrets[name]+"\n")
		s.must(os.Chmod(s.path(name), 0o600))
	}
	secrets["telemetry.key"] = s.ownCertificate("telemetry.crt", "telemetry.key")
	s.certificate("agent.pem")
	secrets["agent.pem"] = strings.Split(s.read("agent.pem"), "\n")[5]
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	secrets["federated"] = part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"iss":"i","sub":"s","aud":"api://AzureADTokenExchange","exp":%d}`, time.Now().Add(time.Hour).Unix())) + "." + part("zq-canary")
	s.write("federated", secrets["federated"])
	secrets["token"] = s.token(s.url, secrets["secret"])
	s.write("token", secrets["token"])

	// wantNone looks for all of them in all the forms they may have.
	wantNone := func(where, text string) {
		t.Helper()
		all := v.seen()
		for _, secret := range secrets {
			all = append(all, secret)
		}
		for _, secret := range all {
			for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
				if strings.Contains(text, form) {
					t.Errorf("%s has %q: %.300q", where, form, text[max(0, strings.Index(text, form)-100):])
				}
			}
		}
	}
	state := func() (files int) {
		s.must(filepath.WalkDir(s.path("state"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // gone by now, or no file
			}
			if text, err := os.ReadFile(path); err == nil {
				files++
				wantNone(path, string(text))
			}
			return nil
		}))
		return files
	}
	run := func() *process {
		s.write("agent.yaml", credentialed)
		s.agent = s.launch("run", "--config", s.path("agent.yaml"))
		return s.agent
	}
	until := func(what string, done func(*telemetry.Status) bool) {
		t.Helper()
		ctx, cancel := s.waiting()
		defer cancel()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if st, err := telemetry.FetchStatus(ctx, s.path("state")); err == nil && done(st) {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("waited in vain: %s", what)
			}
		}
	}

	s.write("logs/a.log", notes(0, 50))
	p := run()
	p.await(1, "agent is running")
	tap := s.tap("secret", "file")
	for _, table := range []string{"A", "C", "W", "F"} {
		s.awaitRows(table, 50)
	}
	v.be(http.StatusBadRequest) // what is refused goes to quarantine, with what was said
	s.append("logs/a.log", notes(50, 3))
	until("something in quarantine", func(st *telemetry.Status) bool { return st.Quarantine.Bytes > 0 })
	v.be(http.StatusServiceUnavailable)
	s.append("logs/a.log", notes(53, 50))
	until("something in the spool", func(st *telemetry.Status) bool { return st.Spool != nil && st.Spool.Payloads > 0 })
	tap.awaitLines(50)

	address := p.await(1, "telemetry endpoint is listening").text("address")
	web := s.asksTelemetry("telemetry.crt")
	for _, path := range []string{"/", "/metrics", "/api/v1/status", "/config", "/healthz", "/readyz", "/nothing"} {
		for _, token := range []string{"", secrets["telemetry.token"], secrets["secret"]} {
			r, err := http.NewRequest(http.MethodGet, "https://127.0.0.1"+address[strings.LastIndexByte(address, ':'):]+path, nil)
			s.must(err)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			answer, err := web.Do(r)
			s.must(err)
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			s.must(err)
			wantNone(path, fmt.Sprint(answer.Header)+string(text))
			open := token == secrets["telemetry.token"] || strings.HasSuffix(path, "z")
			if (answer.StatusCode == http.StatusUnauthorized) == open {
				t.Errorf("%s with %q: %s", path, token, answer.Status)
			}
		}
	}
	named := []string{"--config", s.path("agent.yaml")}
	for _, command := range [][]string{
		{"config", "show"}, {"check"}, {"check", "--offline", "--json"}, {"spool", "ls"}, {"spool", "ls", "--json"}, {"quarantine", "ls"},
		{"quarantine", "ls", "--json"}, {"preview", "secret"}, {"audit"}, {"setup", "--dry-run"}, {"query", "print 1"},
	} {
		if code := s.launch(append(command, named...)...).code(); code == exit.Usage {
			t.Errorf("%v is no command", command)
		}
	}
	for command, says := range map[string]string{"status": "Logs.A", "status --json": `"table":"A"`, "files": "a.log"} {
		one := s.launch(append(strings.Fields(command), "--state-dir", s.path("state"))...)
		if one.code(); !strings.Contains(one.out.text(), says) {
			t.Errorf("%s: %s%s", command, one.out.text(), one.log.text())
		}
	}
	// Whoever may read the token and the certificate is answered over TLS.
	s.write("asking.yaml", strings.Replace(credentialed, "0.0.0.0:0", "127.0.0.1"+address[strings.LastIndexByte(address, ':'):], 1))
	one := s.launch("status", "--config", s.path("asking.yaml"))
	if one.code(); !strings.Contains(one.log.text(), "runs with "+s.path("agent.yaml")) {
		t.Errorf("status over TLS: %s%s", one.out.text(), one.log.text())
	}
	p.kill()
	if n := state(); n < 4 {
		t.Errorf("the agent has written %d files", n)
	}
	v.be(0)
	p = run()
	until("everything is somewhere", func(st *telemetry.Status) bool {
		for _, in := range st.Inputs {
			if in.LagBytes > 0 || in.Books.Pending+in.Books.Spooled > 0 {
				return false
			}
		}
		return st.State == telemetry.Running
	})
	p.stop()
	state()

	// A proxy that is not there, by a user with a password; a secret that is refused.
	s.env = append(s.env, "PROXY=http://user:"+secrets["proxy"]+"@"+strings.TrimPrefix(s.deadURL(), "http://"))
	for _, change := range []struct{ from, to string }{
		{"send: {", `send: {proxy: "${PROXY}", `},
		{"cluster: workload", "cluster: inline"},
	} {
		s.append("logs/a.log", notes(200, 1))
		s.write("agent.yaml", strings.Replace(credentialed, change.from, change.to, 1))
		if code := s.launch(append([]string{"run", "--once"}, named...)...).code(); code != exit.Unreachable && code != exit.Refused {
			t.Errorf("%s: exit code %d", change.to, code)
		}
		s.launch(append([]string{"config", "show"}, named...)...).want(0)
		state()
	}
	for _, one := range s.processes {
		wantNone(fmt.Sprint(one.cmd.Args[1:]), one.log.text()+one.out.text())
	}
	if len(v.seen()) < 4 {
		t.Errorf("the service was sent %d secrets", len(v.seen()))
	}
}

// TestTelemetryBeyondLoopback: without a token and TLS, or word that TLS is not needed,
// the agent does not start where other machines would reach what it shows.
func TestTelemetryBeyondLoopback(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", notes(0, 10))
	s.write("short", "short\n")
	s.must(os.Chmod(s.path("short"), 0o600))
	f := func(telemetry, says string) {
		t.Helper()
		s.write("agent.yaml", strings.Replace(open, `telemetry: {listen: "127.0.0.1:0"}`, "telemetry: {"+telemetry+"}", 1)+oneJSON)
		p := s.launch("run", "--once", "--config", s.path("agent.yaml")).want(exit.Config)
		if !strings.Contains(p.log.text(), says) {
			t.Errorf("%s: says %s; want %s", telemetry, p.log.text(), says)
		}
	}
	f(`listen: "0.0.0.0:0"`, "so token_file is needed")
	f(`listen: ":0", token_file: short`, "or allow_plaintext: true where the network is trusted")
	f(`listen: ":0", token_file: nowhere, allow_plaintext: true`, "telemetry.token_file: there is no file")
	f(`listen: ":0", token_file: short, allow_plaintext: true`, "has 5 bytes; want 16 to 4096")
	f(`listen: "127.0.0.1:0", token_file: short`, "has 5 bytes")
	if _, err := os.Stat(s.path("state")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if n := s.server.Totals().Requests; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
