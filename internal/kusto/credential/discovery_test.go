package credential

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/kusto/wire"
)

// oneCluster is a cluster and its authority on this machine, in one.
type oneCluster struct {
	metadata func(w http.ResponseWriter, login string)
	knows    string // the resource
	asked    []string
}

func (c *oneCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/auth/metadata") {
		c.asked = append(c.asked, "metadata"+r.Header.Get("Authorization"))
		c.metadata(w, "http://"+r.Host)
		return
	}
	c.asked = append(c.asked, r.FormValue("resource"))
	if c.knows != "" && r.FormValue("resource") != c.knows {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":"invalid_resource","error_description":"AADSTS500011: The resource principal was not found."}`)
		return
	}
	giveToken(w, "3600")
}

func says(text string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, login string) { io.WriteString(w, strings.ReplaceAll(text, "LOGIN", login)) }
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	f := func(c *oneCluster, wantErr string, want ...string) {
		t.Helper()
		s := httptest.NewServer(c)
		defer s.Close()
		tokens := tokensOf(t, Config{Method: "client_secret", Tenant: "t", ClientID: "c", ClientSecret: "hunter2"}, s.URL+"/a/path", Options{})
		if wantErr != "" {
			wantFailure(t, tokens, "", wantErr, "auth.authority")
		} else {
			for range 2 { // what was found is kept
				token, err := tokens.Token(t.Context())
				if err != nil || token != "T0KEN" {
					t.Errorf("got %q, %v", token, err)
				}
				tokens.Invalidate(token, errRefused)
			}
		}
		if got := strings.ReplaceAll(strings.Join(c.asked, " "), s.URL+"/a/path", "CLUSTER"); got != strings.Join(want, " ") {
			t.Errorf("asked for %s; want %s", got, want)
		}
	}
	f(&oneCluster{metadata: says(`{"AzureAD":{"LoginEndpoint":"LOGIN"}}`)}, "", "metadata", "CLUSTER", "CLUSTER")
	f(&oneCluster{metadata: says(`{"AzureAD":{"LoginEndpoint":"LOGIN/","KustoServiceResourceId":"https://r"}}`), knows: "https://r"}, "", "metadata", "CLUSTER", "https://r", "https://r")
	f(&oneCluster{metadata: says(`{"AzureAD":{"LoginEndpoint":"LOGIN","LoginMfaRequired":true,"KustoServiceResourceId":"https://kusto.kusto.windows.net"}}`), knows: "https://kusto.kustomfa.windows.net"},
		"", "metadata", "CLUSTER", "https://kusto.kustomfa.windows.net", "https://kusto.kustomfa.windows.net")
	for _, login := range []string{"https://login.evil.example", "https://login.microsoftonline.com.evil.example", "http://login.microsoftonline.com", "https://login.microsoftonline.com:444", "https://login.microsoftonline.com/x", "https://u:p@login.microsoftonline.com", "x"} {
		f(&oneCluster{metadata: says(`{"AzureAD":{"LoginEndpoint":"` + login + `"}}`)}, "none of the known clouds", "metadata")
	}
	f(&oneCluster{metadata: says(`<html>`)}, "what answered is not the service", "metadata")
	f(&oneCluster{metadata: func(w http.ResponseWriter, _ string) { w.WriteHeader(503) }}, "Service Unavailable", "metadata")
	f(&oneCluster{metadata: func(w http.ResponseWriter, _ string) { w.Header().Set("Location", "/x"); w.WriteHeader(302) }}, "Found", "metadata")
}

// What a cluster does not tell is as it is in the public cloud.
func TestDiscoveryDefaults(t *testing.T) {
	t.Parallel()
	f := func(status int, body string) {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}))
		defer s.Close()
		transports, err := newTransports(Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer transports.close()
		d, err := newDiscovery(s.URL, Options{}, transports)
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.get(t.Context())
		if err != nil || m.login != publicAuthority || m.audience() != publicAudience {
			t.Errorf("%d %q: got %+v, %v", status, body, m, err)
		}
		if login, err := m.authority(false); err != nil || login != publicAuthority {
			t.Errorf("%d %q: got %s, %v", status, body, login, err)
		}
	}
	f(404, "not here")
	f(200, "")
	f(200, " \n")
	f(200, "{}")
	f(200, `{"AzureAD":{"LoginEndpoint":""}}`)
}

// A way that has an authority of its own, or was told one, goes on without the
// metadata; what that cannot be had for is told where it would have helped.
func TestMetadataOutOfOrder(t *testing.T) {
	t.Parallel()
	s, _, o := cloudOf(t, emulator.Options{})
	c := &oneCluster{metadata: func(w http.ResponseWriter, _ string) { w.WriteHeader(500) }}
	cluster := httptest.NewServer(c)
	defer cluster.Close()
	wantToken(t, s, tokensOf(t, Config{Method: "managed_identity"}, cluster.URL, o))
	if len(c.asked) == 0 {
		t.Error("the cluster was not asked")
	}
	c.asked = nil
	cfg := Config{Method: "client_secret", Authority: cluster.URL, Tenant: "t", ClientID: "c", ClientSecret: "x"}
	if token, err := tokensOf(t, cfg, cluster.URL, Options{}).Token(t.Context()); token != "T0KEN" || err != nil {
		t.Errorf("got %q, %v", token, err)
	}
	c.knows = "https://r"
	wantFailure(t, tokensOf(t, cfg, cluster.URL, Options{}), "AADSTS500011", "what tokens for this cluster are called is not known", "auth.resource")
	if got := strings.ReplaceAll(strings.Join(c.asked, " "), cluster.URL, "CLUSTER"); got != "CLUSTER CLUSTER metadata" {
		t.Errorf("asked for %s", got)
	}
}

// The clock is read off the answers of the authority and of the service, and told
// once; a refusal of either says so.
func TestClockOfTheAnswers(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		if strings.HasSuffix(r.URL.Path, "/token") {
			giveToken(w, "3600")
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	log := slog.New(slog.NewTextHandler(&said, nil))
	tokens := tokensOf(t, Config{Method: "client_secret", Authority: s.URL, Tenant: "t", ClientID: "c", ClientSecret: "x"}, s.URL, Options{Logger: log})
	c, err := wire.New(wire.Options{URL: s.URL, Auth: tokens, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := c.Ingest(t.Context(), &kusto.Ingest{Database: "Logs", Table: "App", Format: "TXT", Body: []byte("x"), RequestID: "1"})
	if a.Verdict != kusto.Auth || !strings.Contains(a.Hint, "ahead, set it right first") || a.Hint != a.Err.Hint {
		t.Errorf("got %s, hint %q", a.Verdict, a.Hint)
	}
	err = (&query.Client{Client: c}).Query(t.Context(), &query.Query{Text: "T"}, &query.Collector{})
	if !strings.Contains(fixOf(err), "timedatectl") {
		t.Errorf("got %v, hint %q", err, fixOf(err))
	}
	if n := strings.Count(said.String(), "clock of this machine is wrong"); n != 1 {
		t.Errorf("told %d times:\n%s", n, said.String())
	}
}

// TestMonitorAudience: a proxy of Azure Monitor is no resource of a tenant; tokens
// for it are for the service that it says it is.
func TestMonitorAudience(t *testing.T) {
	const cluster = "https://ade.loganalytics.io/subscriptions/x"
	if _, err := newDiscovery(cluster, Options{}, nil); err == nil {
		t.Error("it is taken for more than queries")
	}
	f := func(way login, cfg Config, known *clusterMetadata, authority, resource string) {
		t.Helper()
		d, err := newDiscovery(cluster, Options{QueryOnly: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.known, d.err = known, errors.New("away"); known == nil {
			d.after = time.Now().Add(time.Hour)
		} else {
			d.err = nil
		}
		gotAuthority, gotResource, err := newLoginGrant(way, cfg, cluster, d).target(t.Context())
		if gotAuthority != authority || gotResource != resource || (err != nil) != (authority == "" && way.wantsAuthority()) {
			t.Errorf("asks %q for %q, %v", gotAuthority, gotResource, err)
		}
	}
	us := &clusterMetadata{login: "https://login.microsoftonline.us", resource: "https://kusto.kusto.usgovcloudapi.net"}
	f(&secretLogin{}, Config{}, us, us.login, us.resource)
	f(&secretLogin{}, Config{Authority: "https://a"}, us, "https://a", us.resource)
	f(&secretLogin{}, Config{Authority: "https://a", Resource: "https://r"}, us, "https://a", "https://r")
	f(&secretLogin{}, Config{Authority: "https://a"}, nil, "https://a", publicAudience)
	f(&secretLogin{}, Config{}, nil, "", publicAudience)
	f(&cliLogin{}, Config{}, us, "", us.resource)
	f(&cliLogin{}, Config{}, nil, "", publicAudience)
}
