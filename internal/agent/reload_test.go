package agent

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/ledger"
)

// reload has the agent read its configuration again, and waits for what it says.
func (r *running) reload(text, says string) {
	r.Helper()
	was := strings.Count(r.log.text(), says)
	r.configure(text)
	r.hangups <- syscall.SIGHUP
	r.told(was+1, says)
}

const (
	inForce   = "configuration reloaded"
	unchanged = "configuration reloaded without changes"
	refused   = "reload rejected: the configuration has errors, the current one stays in force"
)

// TestReload: a reader goes on where it was, by the settings of now, and an input comes and
// goes without a record lost or doubled.
func TestReload(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("logs/a.log", "one\n")
	s.write("more/b.log", "b1\n")
	s.configure(textInput)
	r := s.start(false)
	s.rows("T", "one")
	r.reload(textInput, unchanged)
	r.reload(otherTable, inForce)
	s.append("logs/a.log", "two\n")
	s.rows("U", "two")
	const second = "inputs: [{name: in, paths: [\"$DIR/logs/*.log\"], table: U}, {name: more, paths: [\"$DIR/more/*.log\"], table: V}]\n"
	r.reload(second, inForce)
	s.rows("V", "b1")
	r.reload(otherTable, inForce)
	s.append("more/b.log", "b2\n") // while nobody reads it
	s.append("logs/a.log", "three\n")
	s.rows("U", "two", "three")
	r.reload(second, inForce)
	s.rows("V", "b1", "b2")
	r.stop()
	for input, b := range r.agent.Books() {
		if err := b.Check(); err != nil {
			t.Errorf("books of %s: %v", input, err)
		}
	}
	s.once(0)
	s.rows("T", "one")
	s.rows("U", "two", "three")
	s.rows("V", "b1", "b2")
}

// TestReloadIsRefused: a configuration with a mistake changes nothing, whichever room finds
// it, and status says so until a sound one is read.
func TestReloadIsRefused(t *testing.T) {
	t.Parallel()
	s, r := started(t)
	for _, bad := range []string{
		"inputs: [", // no YAML
		"inputs: [{name: in, paths: [\"$DIR/logs/*.log\"], table: W, colour: blue}]\n",
		"inputs: [{name: in, paths: [\"$DIR/logs/[\"], table: W}]\n",
		otherTable + "send: {tls: {ca_file: $DIR/none.pem}}\n", // no client can be made
	} {
		r.reload(bad, refused)
		if got := r.agent.status().Config.Error; got == "" {
			t.Errorf("status says nothing of %s", bad)
		}
	}
	s.must(os.Remove(s.path("agent.yaml")))
	r.hangups <- syscall.SIGHUP
	r.told(5, refused)
	s.append("logs/a.log", "two\n")
	s.rows("T", "one", "two")
	r.reload(otherTable, inForce)
	if got := r.agent.status().Config.Error; got != "" {
		t.Errorf("status says %s", got)
	}
	s.append("logs/a.log", "three\n")
	s.rows("U", "three")
	r.stop()
}

// TestReloadAfterTheEnd: a reload whose files could be read only after the agent has stopped changes
// nothing of what is closed.
func TestReloadAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.configure(textInput)
	r := s.start(false)
	r.stop()
	was := r.agent.config()
	s.configure(otherTable)
	next := s.configuration()
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := r.agent.change(ended, next); !errors.Is(err, context.Canceled) || r.agent.config() != was {
		t.Errorf("the reload returns %v; the configuration in force is the one from before: %v", err, r.agent.config() == was)
	}
}

// TestReloadOfRestartKeys: what only a restart puts in force is named.
func TestReloadOfRestartKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("logs/a.log", "one\n")
	s.configure(textInput)
	r := s.start(false)
	r.reload(textInput+"spool: {dir: $DIR/elsewhere}\n", "configuration reloaded, except for keys that need a restart")
	if got := r.agent.status().Config.Restart; len(got) != 1 || got[0] != "spool.dir" {
		t.Errorf("status names %q", got)
	}
	r.stop()
}

// TestExposedSecret: a secret that everyone can read is logged at the start, and used.
func TestExposedSecret(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	s := newSite(t)
	s.must(os.Chmod(filepath.Dir(s.dir), 0o711)) // that of t.TempDir is its user's alone
	s.write("logs/a.log", "one\n")
	s.write("secret", "hunter2")
	s.write("shut", "hunter2")
	s.must(os.Chmod(s.path("secret"), 0o644))
	s.must(os.Chmod(s.path("shut"), 0o640))
	const signedIn = "{url: \"https://c.kusto.windows.net\", auth: {tenant: t, client_id: c, client_secret_file: $DIR/"
	s.configure(textInput + "clusters:\n  open: " + signedIn + "secret}}\n  shut: " + signedIn + "shut}}\n")
	r := s.start(false)
	s.rows("T", "one")
	r.stop()
	const exposed = "level=WARN msg=\"everyone on this machine can use a secret"
	if all := r.log.text(); strings.Count(all, exposed) != 1 || !strings.Contains(all, "file="+s.path("secret")+" ") || !strings.Contains(all, "chmod 640 "+s.path("secret")) {
		t.Errorf("the log says %s", all)
	}
}

// TestReloadOfCertificates: authorities that are others in the same file are a change, and are told by
// the key that names the file; the same ones are none.
func TestReloadOfCertificates(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	s := newSite(t)
	s.write("logs/a.log", "one\n")
	s.write("ca.pem", authority)
	const text = textInput + "send: {tls: {ca_file: $DIR/ca.pem}}\n"
	s.configure(text)
	r := s.start(false)
	s.rows("T", "one")
	r.reload(text, unchanged)
	s.append("ca.pem", authority)
	r.reload(text, "read_again=send.tls.ca_file")
	r.reload(text, unchanged)
	r.told(2, unchanged)
	r.stop()
}

// TestReloadKeepsConnections: a client stays as long as what it is made of does, and so do
// its tokens.
func TestReloadKeepsConnections(t *testing.T) {
	t.Parallel()
	s, r := started(t)
	now := func() (client, tokens any) {
		r.agent.mu.Lock()
		defer r.agent.mu.Unlock()
		e := r.agent.services[s.url]
		return e.Client, e.Tokens
	}
	client, tokens := now()
	r.reload(otherTable, inForce)
	if c, to := now(); c != client || to != tokens {
		t.Error("another table makes another client")
	}
	r.reload(otherTable+"user: me\n", inForce)
	s.append("logs/a.log", "two\n")
	s.rows("U", "two") // so the client of before has ended its requests
	if c, to := now(); c == client || to != tokens {
		t.Errorf("another user: the same client %v, the same tokens %v", c == client, to == tokens)
	}
	r.reload(otherTable+"user: me\nallow_untrusted_endpoint: true\n", inForce)
	s.append("logs/a.log", "three\n")
	s.rows("U", "two", "three")
	if _, to := now(); to == tokens {
		t.Error("tokens that are sent to anyone are those of before")
	}
	r.stop()
	if n := len(r.agent.tokenUsers); n > 0 {
		t.Errorf("%d tokens are not given back", n)
	}
}

// TestOnce: a run to the end ends with the exit code of what became of its records.
func TestOnce(t *testing.T) {
	t.Parallel()
	f := func(name, config string, fault *emulator.Fault, code int, is func(ledger.Books) bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.write("logs/a.log", "one\ntwo\n")
			s.write("logs/b.json", "{\"a\":1}\n{\"a\":\n")
			if fault != nil {
				s.server.Fail(*fault)
			}
			s.configure(config)
			r := s.once(code)
			if b := r.agent.Books()["in"]; !is(b) || b.Check() != nil {
				t.Errorf("the books are %+v, %v", b, b.Check())
			}
		})
	}
	const malformed = "inputs: [{name: in, paths: [\"$DIR/logs/*.json\"], table: T, mapping: m}]\n"
	f("stored", textInput, nil, 0, func(b ledger.Books) bool { return b.Accepted == 2 })
	f("out of reach", brief+hasty+textInput, &emulator.Fault{Status: 503}, exit.Unreachable, func(b ledger.Books) bool { return b.Spooled == 2 })
	f("refused", textInput, &emulator.Fault{Status: 403, Code: "Forbidden"}, exit.Refused, func(b ledger.Books) bool { return b.Accepted == 0 })
	f("quarantined", malformed, nil, exit.Failed, func(b ledger.Books) bool { return b.Accepted == 1 })
}
