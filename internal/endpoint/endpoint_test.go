package endpoint

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/format"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/wire"
)

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("agent.yaml", []byte("auth: {method: none}\nstate_dir: "+t.TempDir()+"\ninputs: [{paths: [/nowhere/*.log], table: T, database: D}]\n"+text),
		os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestKey: keys are equal as long as a client would behave the same, also if the file of
// authorities has another content.
func TestKey(t *testing.T) {
	t.Parallel()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := func(text string) Key {
		t.Helper()
		cfg := parsed(t, "cluster: http://127.0.0.1:1\n"+text)
		return KeyOf(config.DefaultCluster, cfg.Clusters[config.DefaultCluster], cfg)
	}
	f := func(text string, sameClient, sameTokens bool) {
		t.Helper()
		a, b := key("send: {tls: {ca_file: "+ca+"}}\n"), key(text)
		if (a == b) != sameClient || (a.TokenKey == b.TokenKey) != sameTokens {
			t.Errorf("%s: the same client %v, the same tokens %v", text, a == b, a.TokenKey == b.TokenKey)
		}
	}
	write("one")
	same := "send: {tls: {ca_file: " + ca + "}}\n"
	f(same, true, true)
	f(same+"user: me\n", false, true)
	f(same+"allow_untrusted_endpoint: true\n", false, false)
	f("", false, false)
	a := key(same)
	write("two")
	if b := key(same); a == b || a.TokenKey == b.TokenKey {
		t.Error("other authorities make the same client")
	}
}

// TestConnect: which cluster an empty name is, and how a command ends that names none.
func TestConnect(t *testing.T) {
	t.Parallel()
	f := func(text, name, url string, code int) {
		t.Helper()
		c, err := Connect(parsed(t, text), name)
		var ended *exit.Error
		switch errors.As(err, &ended); {
		case code != 0 && (ended == nil || ended.Code != code):
			t.Errorf("%q: %v", name, err)
		case code == 0 && (err != nil || c.Cluster.URL != url):
			t.Errorf("%q: %+v, %v", name, c, err)
		case code == 0:
			c.Close()
		}
	}
	const one = "cluster: http://127.0.0.1:1\n"
	f(one, "", "http://127.0.0.1:1", 0)
	f(one, config.DefaultCluster, "http://127.0.0.1:1", 0)
	f(one, "x", "", exit.Usage)
	f(one+"send: {tls: {ca_file: /none/ca.pem}}\n", "", "", exit.Config)
}

// TestSharedTokens: a client can be made with the tokens of another.
func TestSharedTokens(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, "cluster: http://127.0.0.1:1\n")
	k := KeyOf(config.DefaultCluster, cfg.Clusters[config.DefaultCluster], cfg)
	log := slog.New(slog.DiscardHandler)
	a, err := New(k, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(k, a.Tokens, log)
	if err != nil {
		t.Fatal(err)
	}
	if a.Tokens != b.Tokens || a.Client == b.Client {
		t.Errorf("tokens %p and %p, clients %p and %p", a.Tokens, b.Tokens, a.Client, b.Client)
	}
	a.Client.Close()
	b.Client.Close()
	a.Tokens.Close()
}

// TestFailure: what the service said ends a command with a code of its own, and what to do
// stands on a line of its own.
func TestFailure(t *testing.T) {
	t.Parallel()
	f := func(err error, code int, text string) {
		t.Helper()
		var ended *exit.Error
		if got := Failure(err); !errors.As(got, &ended) || ended.Code != code || !strings.Contains(got.Error(), text) {
			t.Errorf("%v: %v, want %d", err, got, code)
		}
	}
	f(&kusto.Error{Status: 401, Code: "Unauthorized", Hint: "sign in"}, exit.Refused, "\nto fix it: sign in")
	f(&kusto.Error{Status: 400, Code: "Syntax", Partial: true}, exit.Failed, "the result is not whole: ")
	f(errors.New("other"), exit.Failed, "other")
	f(exit.With(exit.Config, errors.New("first")), exit.Config, "first")
	if Failure(nil) != nil {
		t.Error("nothing is an error")
	}
}

// TestEveryFormatGoesOut: the client of the service knows each format that records can have,
// in the same spelling.
func TestEveryFormatGoesOut(t *testing.T) {
	var sent []string
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.URL.Query().Get("streamFormat"))
	}))
	defer web.Close()
	client, err := wire.New(wire.Options{URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, spec := range format.All() {
		in := &kusto.Ingest{Database: "D", Table: "T", Format: string(spec.Format), Body: []byte("x"), RequestID: "r;" + string(spec.Format)}
		if a := client.Ingest(t.Context(), in); a.Status != http.StatusOK {
			t.Errorf("%s: %+v", spec.Format, a)
		}
		want = append(want, string(spec.Format))
	}
	if !slices.Equal(sent, want) {
		t.Errorf("sent as %v, want %v", sent, want)
	}
}
