package credential

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	numbers "math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"kusto-agent/emulator"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
	"kusto-agent/internal/kusto/wire"
)

// cloudOf is an emulator behind TLS, and the options to reach it, also as the
// address at which a machine in Azure asks for its identity.
func cloudOf(t *testing.T, o emulator.Options) (*emulator.Server, string, Options) {
	t.Helper()
	server := emulator.New(o)
	url, ca := kustotest.ServeTLS(t, server.ServeHTTP, nil)
	plain := httptest.NewServer(server)
	t.Cleanup(plain.Close)
	t.Cleanup(func() { server.Close() })
	return server, url, Options{CAFile: ca, dialMetadata: instead(plain)}
}

// instead dials a server in place of the address of Azure's metadata, and nothing
// in place of others.
func instead(s *httptest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != wire.MetadataHost+":80" {
			return nil, errors.New("dialed " + addr)
		}
		var d net.Dialer
		return d.DialContext(ctx, network, s.Listener.Addr().String())
	}
}

func tokensOf(t *testing.T, cfg Config, cluster string, o Options) *Tokens {
	t.Helper()
	tokens, err := New(cfg, cluster, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	return tokens
}

// accepts says that a server takes a token.
func accepts(s *emulator.Server, token string) bool {
	r := httptest.NewRequest("POST", "/v1/rest/ingest/d/t?streamFormat=TXT", strings.NewReader("x"))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code == 200
}

// wantToken asks, and has the server judge the token; after a refusal it wants
// another one.
func wantToken(t *testing.T, s *emulator.Server, tokens *Tokens) {
	t.Helper()
	first, err := tokens.Token(t.Context())
	if err != nil || !accepts(s, first) {
		t.Fatalf("got a token of %d bytes, %v %s", len(first), err, fixOf(err))
	}
	tokens.Invalidate(first, errRefused)
	if second, err := tokens.Token(t.Context()); err != nil || second == first || !accepts(s, second) {
		t.Errorf("after a refusal: %v, the same again: %v", err, second == first)
	}
}

// wantFailure asks, and compares the error.
func wantFailure(t *testing.T, tokens *Tokens, code, message, hint string) {
	t.Helper()
	_, err := tokens.Token(t.Context())
	var e *kusto.Error
	if !errors.As(err, &e) || code != "" && e.Code != code || !strings.Contains(e.Message, message) || !strings.Contains(e.Hint, hint) {
		t.Errorf("got %v\nhint %s\nwant code %q, %q, hint %q", err, fixOf(err), code, message, hint)
		return
	}
	kustotest.MustBePrintable(t, e.Error())
	kustotest.MustBePrintable(t, e.Hint)
}

// theKey is one for all tests: it takes long to make.
var theKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newCertificate(t *testing.T, ends time.Time) *x509.Certificate {
	t.Helper()
	serial, _ := rand.Int(rand.Reader, numbers.NewInt(1<<62))
	form := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "agent"}, NotBefore: ends.Add(-48 * time.Hour), NotAfter: ends}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &theKey().PublicKey, theKey())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// newAuthority is a certificate of another key.
func newAuthority(t *testing.T) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: numbers.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func pemOf(t *testing.T, c *x509.Certificate) []byte {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(theKey())
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
}

// replaceFile writes a file as who cares writes it: never half of it.
func replaceFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	tomorrow := time.Now().Add(24 * time.Hour)
	good, other := newCertificate(t, tomorrow), newCertificate(t, tomorrow)
	s, cluster, o := cloudOf(t, emulator.Options{TokenSecret: "s", TokenResource: "https://c.kusto.windows.net", ClientCertificates: []*x509.Certificate{good}})
	dir := t.TempDir()
	file, password := filepath.Join(dir, "agent.pem"), filepath.Join(dir, "password")
	cfg := Config{Method: "certificate", Authority: cluster, Tenant: "contoso.example", ClientID: "client-1", CertificateFile: file, Resource: "https://c.kusto.windows.net"}
	tokens := tokensOf(t, cfg, cluster, o)
	wantFailure(t, tokens, "", "no such file", "/dev/stdin "+file)
	replaceFile(t, file, pemOf(t, newCertificate(t, time.Now().Add(-time.Hour))))
	wantFailure(t, tokens, "", "ended at", "az ad app credential reset --id client-1")
	replaceFile(t, file, pemOf(t, other))
	wantFailure(t, tokens, "AADSTS700027", "", "az ad app credential reset --id client-1 --append --cert")
	replaceFile(t, file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Raw}))
	wantFailure(t, tokens, "", "private key", "as PEM or PKCS#12")
	replaceFile(t, file, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"))
	wantFailure(t, tokens, "", "encrypted", "openssl pkey")
	replaceFile(t, file, []byte("no certificate"))
	wantFailure(t, tokens, "", "it is neither PEM nor PKCS#12, or it is damaged", "as PEM or PKCS#12")
	replaceFile(t, file, pemOf(t, good))
	wantToken(t, s, tokens)

	sealed, err := pkcs12.Modern.Encode(theKey(), good, []*x509.Certificate{newAuthority(t)}, "pass word")
	if err != nil {
		t.Fatal(err)
	}
	cfg.CertificateFile, cfg.CertificatePasswordFile = filepath.Join(dir, "agent.pfx"), password
	replaceFile(t, cfg.CertificateFile, sealed)
	replaceFile(t, password, []byte("wrong\n"))
	tokens = tokensOf(t, cfg, cluster, o)
	wantFailure(t, tokens, "", "password", "auth.certificate_password_file")
	replaceFile(t, password, []byte("pass word\n"))
	wantToken(t, s, tokens)
}

// jwt is a token of somebody whom nobody asks for a signature.
func jwt(claims map[string]any) string {
	part := func(v any) string {
		raw, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(map[string]string{"alg": "RS256"}) + "." + part(claims) + "." + base64.RawURLEncoding.EncodeToString([]byte("sig"))
}

func TestWorkloadIdentity(t *testing.T) {
	claims := map[string]any{"iss": "https://oidc.example", "sub": "system:serviceaccount:a:b", "aud": "api://AzureADTokenExchange", "exp": time.Now().Add(time.Hour).Unix()}
	with := func(key string, v any) []byte {
		some := map[string]any{}
		for k, v := range claims {
			some[k] = v
		}
		some[key] = v
		return []byte(jwt(some))
	}
	s, cluster, o := cloudOf(t, emulator.Options{TokenSecret: "s", Federations: []emulator.Federation{{Issuer: "https://oidc.example", Subject: "system:serviceaccount:a:b"}}})
	file := filepath.Join(t.TempDir(), "token")
	t.Setenv(envFederatedTokenFile, file)
	t.Setenv(envClientID, "client-1")
	t.Setenv(envTenantID, "contoso.example")
	tokens := tokensOf(t, Config{Method: "workload_identity", Authority: cluster}, cluster, o)
	wantFailure(t, tokens, "", "auth.federated_token_file", "put it there: install")
	f := func(key string, v any, code, hint string) {
		t.Helper()
		replaceFile(t, file, with(key, v))
		wantFailure(t, tokens, code, "", hint)
	}
	f("exp", time.Now().Add(-time.Hour).Unix(), "", "the program that writes the file has to renew it")
	f("iss", "https://other", "AADSTS700211", "az ad app federated-credential list")
	f("sub", "other", "AADSTS700213", "subject")
	f("aud", []string{"other"}, "AADSTS700212", "api://AzureADTokenExchange")
	f("nbf", time.Now().Add(time.Hour).Unix(), "AADSTS700024", "timedatectl")
	replaceFile(t, file, with("aud", "api://AzureADTokenExchange"))
	wantToken(t, s, tokens)

	// What the configuration names goes before the environment.
	tokens = tokensOf(t, Config{Method: "workload_identity", Authority: cluster, FederatedTokenFile: "/nowhere/token"}, cluster, o)
	wantFailure(t, tokens, "", "/nowhere/token", "put it there: install")
}

func TestManagedIdentity(t *testing.T) {
	t.Parallel()
	const resource = "/subscriptions/1/resourcegroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i"
	s, cluster, o := cloudOf(t, emulator.Options{TokenSecret: "s", Identities: []string{"system-assigned", "client-1", resource}})
	o.Proxy = "http://127.0.0.1:1" // which would fail
	f := func(cfg Config) {
		t.Helper()
		cfg.Method, cfg.Resource = "managed_identity", "https://c.kusto.windows.net"
		wantToken(t, s, tokensOf(t, cfg, cluster, o))
	}
	f(Config{})
	f(Config{ClientID: "client-1"})
	f(Config{ResourceID: resource})
	bad := func(cfg Config, o Options, code, message, hint string) {
		t.Helper()
		cfg.Method, cfg.Resource = "managed_identity", "https://c.kusto.windows.net"
		wantFailure(t, tokensOf(t, cfg, cluster, o), code, message, hint)
	}
	bad(Config{ClientID: "other"}, o, "invalid_request", "Identity not found", "az vm identity assign --resource-group <group> --name <machine> --identities")
	_, _, none := cloudOf(t, emulator.Options{Identities: []string{"client-1"}})
	bad(Config{}, none, "invalid_request", "Identity not found", "no system-assigned identity")
	_, _, strict := cloudOf(t, emulator.Options{TokenResource: "https://elsewhere"})
	bad(Config{}, strict, "AADSTS500011", "not found in the tenant", "auth.resource")
	away := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to host") }
	bad(Config{}, Options{dialMetadata: away}, "", "no route to host", "may not be in Azure")

	s.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Times: 1, Status: 503, As: emulator.AsText})
	f(Config{})
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>login</html>") }))
	defer page.Close()
	bad(Config{}, Options{dialMetadata: instead(page)}, "", "what answered is not the authority", "")
	other := httptest.NewServer(http.NotFoundHandler()) // as another cloud has it
	defer other.Close()
	bad(Config{}, Options{dialMetadata: instead(other)}, "", "not Azure: Not Found: 404", "may not be in Azure")
}

// A managed identity is asked for at Azure's own address and on this machine, in
// plain http, and nowhere else.
func TestWhereIdentitiesAreAskedFor(t *testing.T) {
	f := func(raw string, want bool) {
		t.Helper()
		u, err := url.Parse(raw)
		if err != nil || mayAskIdentity(u) != want {
			t.Errorf("%s: want %v", raw, want)
		}
	}
	f("http://169.254.169.254/metadata/identity/oauth2/token", true)
	f("http://127.0.0.1:40342/metadata/identity/oauth2/token", true)
	f("http://169.254.169.253/", false)
	f("http://169.254.169.254:8080/", false)
	f("http://169.254.169.254.example/", false)
	f("http://10.0.0.1/", false)
	t.Setenv("IDENTITY_ENDPOINT", "http://10.0.0.1/token")
	t.Setenv("IDENTITY_HEADER", "x")
	o := Options{dialMetadata: func(_ context.Context, _, addr string) (net.Conn, error) {
		t.Errorf("dialed %s", addr)
		return nil, errors.New("no")
	}}
	tokens := tokensOf(t, Config{Method: "managed_identity", Resource: "https://r"}, "https://c.kusto.windows.net", o)
	wantFailure(t, tokens, "", "not asked for at http://10.0.0.1", "may not be in Azure")
}

// fakeCLI puts an az on the path that does what a script says.
func fakeCLI(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "az"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestAzureCLI(t *testing.T) {
	f := func(script, want, code, message, hint string) {
		t.Helper()
		fakeCLI(t, script)
		tokens := tokensOf(t, Config{Method: "azure_cli", Tenant: "contoso.example", Resource: "https://c.kusto.windows.net"}, "https://c.kusto.windows.net", Options{})
		if want == "" {
			wantFailure(t, tokens, code, message, hint)
		} else if got, err := tokens.Token(t.Context()); got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	f(`echo "{\"accessToken\":\"$*\",\"expires_on\":4102444800}" | tr ' ' _`, "account_get-access-token_-o_json_--resource_https://c.kusto.windows.net_--tenant_contoso.example", "", "", "")
	f(`echo "ERROR: Please run 'az login' to setup account." >&2; exit 1`, "", "", "Please run", "az login --tenant contoso.example")
	f(`echo "ERROR: AADSTS700082: The refresh token has expired due to inactivity." >&2; exit 1`, "", "AADSTS700082", "expired", "az login --tenant contoso.example")
	f(`exit 127`, "", "", "not found", "install the Azure CLI")
	f(`echo nonsense`, "", "", "invalid character", "az account get-access-token")
}

// All that can be had is tried in turn, and what gave a token is kept.
func TestAuto(t *testing.T) {
	fakeCLI(t, `echo '{"accessToken":"of-the-cli","expires_on":4102444800}'`)
	s, cluster, o := cloudOf(t, emulator.Options{TokenSecret: "s", Identities: []string{"client-1"}})
	cfg := Config{Method: "auto", Authority: cluster, Resource: "https://c.kusto.windows.net", Tenant: "contoso.example", ClientID: "client-1"}
	kept := func(tokens *Tokens) string {
		for _, way := range tokens.grant.(*autoGrant).ways {
			if way.loginGrant == tokens.grant.(*autoGrant).kept.Load() {
				return way.name
			}
		}
		return ""
	}
	tokens := tokensOf(t, cfg, cluster, o)
	wantToken(t, s, tokens)
	if got := kept(tokens); got != "managed identity" {
		t.Errorf("kept %q", got)
	}
	federated := cfg
	federated.FederatedTokenFile = filepath.Join(t.TempDir(), "token")
	replaceFile(t, federated.FederatedTokenFile, []byte(jwt(map[string]any{"iss": "i", "sub": "s", "aud": "api://AzureADTokenExchange", "exp": time.Now().Add(time.Hour).Unix()})))
	tokens = tokensOf(t, federated, cluster, o)
	if wantToken(t, s, tokens); kept(tokens) != "workload identity" {
		t.Errorf("kept %q", kept(tokens))
	}
	secret := cfg
	secret.ClientSecret = "s"
	tokens = tokensOf(t, secret, cluster, o)
	wantToken(t, s, tokens)

	// A machine that swallows what is sent to Azure's address is no machine in Azure.
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	away := Options{CAFile: o.CAFile, dialMetadata: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, deaf.Addr().String())
	}}
	tokens = tokensOf(t, cfg, cluster, away)
	if got, err := tokens.Token(t.Context()); got != "of-the-cli" || err != nil || kept(tokens) != "Azure CLI" {
		t.Errorf("got %q, %v, kept %q", got, err, kept(tokens))
	}
	fakeCLI(t, "exit 127")
	away.dialMetadata = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to host") }
	tokens = tokensOf(t, cfg, cluster, away)
	for _, words := range []string{"workload identity: federated_token_file: missing", "managed identity: nothing hands out managed identities here: no route to host", "Azure CLI: az: executable not found"} {
		wantFailure(t, tokens, "no_credentials", words, "set auth.tenant, auth.client_id and auth.client_secret_file")
	}
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "denied", http.StatusForbidden) }))
	defer denied.Close()
	away.dialMetadata = instead(denied)
	wantFailure(t, tokensOf(t, cfg, cluster, away), "no_credentials", "what answered is not Azure: Forbidden: denied", "set auth.tenant")
	cfg.ClientID = "other"
	wantFailure(t, tokensOf(t, cfg, cluster, o), "invalid_request", "Identity not found", "az vm identity assign")
}

// quiet is a log nobody reads.
var quiet = log.New(io.Discard, "", 0)

// A cluster that is not trusted is neither asked where to sign in nor sent a token.
func TestNothingGoesToAnUntrustedHost(t *testing.T) {
	t.Parallel()
	var asked bytes.Buffer
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.WriteString(r.Method + " " + r.Host + "\n")
		w.WriteHeader(http.StatusForbidden)
	}))
	proxy.Config.ErrorLog = quiet
	proxy.Start()
	defer proxy.Close()
	for _, method := range Methods {
		if method == "none" || method == "token_file" {
			continue
		}
		cfg := Config{Method: method, Tenant: "t", ClientID: "c"}
		switch method {
		case "auto", "client_secret":
			cfg.ClientSecret = "s"
		case "certificate":
			cfg.CertificateFile = "/f"
		case "workload_identity":
			cfg.FederatedTokenFile = "/f"
		}
		o := Options{Proxy: proxy.URL, dialMetadata: func(context.Context, string, string) (net.Conn, error) { panic("dialed") }}
		if _, err := New(cfg, "https://c.kusto.windows.net.evil.example", o); err == nil || !strings.Contains(err.Error(), "allow_untrusted_endpoint") {
			t.Errorf("%s: got %v", method, err)
		}
	}
	if asked.Len() != 0 {
		t.Errorf("asked: %s", asked.String())
	}
	// One that is trusted is asked: so the proxy would have seen it.
	tokens := tokensOf(t, Config{Method: "client_secret", Tenant: "t", ClientID: "c", ClientSecret: "s"}, "https://c.kusto.windows.net", Options{Proxy: proxy.URL})
	wantFailure(t, tokens, "", "where to sign in", "auth.authority")
	if got := asked.String(); got != "CONNECT c.kusto.windows.net:443\n" {
		t.Errorf("asked: %q", got)
	}
}

// Each code of the authority ends in what to do about it.
func TestHintOfEachCode(t *testing.T) {
	t.Parallel()
	s := emulator.New(emulator.Options{})
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for code, hint := range aadHints {
		s.Fail(emulator.Fault{
			Match: emulator.Match{Kind: emulator.KindToken}, Times: 1, Status: 400,
			Body: `{"error":"invalid_client","error_description":"` + code + `: It is wrong. Trace ID: x"}`,
		})
		cfg := Config{Method: "client_secret", Authority: url, Tenant: "contoso.example", ClientID: "client-1", ClientSecret: "hunter2", Resource: "https://r"}
		tokens := tokensOf(t, cfg, "https://c.kusto.windows.net", Options{})
		wantFailure(t, tokens, code, "It is wrong", strings.NewReplacer("<client id>", "client-1", "<tenant>", "contoso.example").Replace(hint))
	}
}
