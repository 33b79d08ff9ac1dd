package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

// secure serves a site's endpoint over TLS too, and writes who vouches for it.
func (s *site) secure() (url string) {
	s.t.Helper()
	front := httptest.NewUnstartedServer(s.server)
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.StartTLS()
	s.t.Cleanup(front.Close)
	s.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})))
	return front.URL
}

// certificate writes a certificate with its key.
func (s *site) certificate(name string) *x509.Certificate {
	s.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	s.must(err)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agent"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	s.must(err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	s.must(err)
	s.write(name, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))+string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	cert, err := x509.ParseCertificate(der)
	s.must(err)
	return cert
}

// TestAuthMethods: each way to sign in, over the real wire. The cluster itself says
// where tokens are asked for.
func TestAuthMethods(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{TokenSecret: "zq-secret", Identities: []string{"system-assigned", "id-1"}})
	url := s.secure()
	s.certificate("agent.pem")
	jwt := func(sub string, ends time.Time) string {
		part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"iss":"i","sub":%q,"aud":"api://AzureADTokenExchange","exp":%d}`, sub, ends.Unix())) + "." + part("x")
	}
	s.write("token", jwt("s", time.Now().Add(time.Hour)))
	s.write("late", jwt("s", time.Now().Add(-time.Hour)))
	s.write("secret", "zq-secret\n")
	s.write("bin/az", "#!/bin/sh\necho \"ERROR: Please run 'az login' to setup account.\" >&2\nexit 1\n")
	s.must(os.Chmod(s.path("bin/az"), 0o755))
	f := func(code int, auth, out, words string, env ...string) {
		t.Helper()
		s.env = append([]string{"PATH=" + s.path("bin") + ":/usr/bin:/bin", "IDENTITY_ENDPOINT=", "IDENTITY_HEADER=", "AZURE_FEDERATED_TOKEN_FILE="}, env...)
		text := strings.Replace(head, "${URL}", url, 1) + "send: {tls: {ca_file: \"${DIR}/ca.pem\"}}\n" + oneJSON
		if auth != "" {
			text += "auth: {" + auth + "}\n"
		}
		s.write("agent.yaml", text)
		got, err := s.show(code, "query", "print 1", "--config", s.path("agent.yaml"))
		if got != out || !strings.Contains(err, words) {
			t.Errorf("%s: prints %q, says %q; want %q, %q", auth, got, err, out, words)
		}
	}
	const one = "print_0\n1"
	machine := []string{"IDENTITY_ENDPOINT=" + s.url + "/metadata/identity/oauth2/token", "IDENTITY_HEADER=x"}
	f(0, `method: client_secret, tenant: t, client_id: c, client_secret_file: "${DIR}/secret"`, one, "")
	f(0, `method: certificate, tenant: t, client_id: c, certificate_file: "${DIR}/agent.pem"`, one, "")
	f(0, `method: workload_identity, tenant: t, client_id: c, federated_token_file: "${DIR}/token"`, one, "")
	f(0, `method: workload_identity`, one, "", "AZURE_FEDERATED_TOKEN_FILE="+s.path("token"), "AZURE_CLIENT_ID=c", "AZURE_TENANT_ID=t")
	f(0, `method: managed_identity`, one, "", machine...)
	f(0, `method: managed_identity, client_id: id-1`, one, "", machine...)
	f(0, "", one, "", machine...)

	f(77, `method: managed_identity, client_id: id-2`, "", "az vm identity assign", machine...)
	f(78, `method: workload_identity`, "", "auth.federated_token_file: missing; method workload_identity needs it, or AZURE_FEDERATED_TOKEN_FILE in the environment")
	f(77, `method: workload_identity, tenant: t, client_id: c, federated_token_file: "${DIR}/late"`, "", "to fix it: the program that writes the file")
	f(77, `method: azure_cli`, "", "to fix it: as the user the agent runs as: az login")
	f(77, `method: auto, client_id: id-2`, "", "workload identity: federated_token_file: missing", machine...)
}

// TestNoToken: where there is no token, every command ends by the same code.
func TestNoToken(t *testing.T) {
	t.Parallel()
	f := func(code int, auth string, faults ...emulator.Fault) {
		t.Helper()
		s := newSite(t, emulator.Options{TokenSecret: "zq-secret", Schema: schemaOf(t, inLogs(soundTable))})
		s.write("secret", "zq-secret")
		s.write("logs/a.json", "{\"n\":1,\"s\":\"x\"}\n")
		s.write("bin/az", "#!/bin/sh\necho \"ERROR: Please run 'az login' to setup account.\" >&2\nexit 1\n")
		s.must(os.Chmod(s.path("bin/az"), 0o755))
		s.env = []string{"DEAD=" + s.deadURL(), "PATH=" + s.path("bin") + ":/usr/bin:/bin"}
		for _, fault := range faults {
			fault.Match.Kind = emulator.KindToken
			s.server.Fail(fault)
		}
		retry := impatient
		if code != exit.Unreachable {
			retry = patient(retry)
		}
		s.write("agent.yaml", head+retry+"auth: {"+auth+"}\n"+oneJSON)
		for _, command := range [][]string{{"query", "print 1"}, {"setup"}, {"check"}, {"run", "--once"}} {
			s.show(code, append(command, "--config", s.path("agent.yaml"))...)
		}
	}
	const signedIn = `method: client_secret, authority: "${URL}", tenant: t, client_id: c, client_secret_file: "${DIR}/`
	says := func(status int, code string) emulator.Fault {
		return emulator.Fault{Status: status, Body: `{"error":"x","error_description":"` + code + `: so it is."}`, Type: "application/json"}
	}
	f(0, signedIn+`secret"`)
	f(77, signedIn+`secret"`, says(400, "AADSTS90002"))
	f(77, signedIn+`secret"`, says(400, "AADSTS700016"))
	f(77, signedIn+`secret"`, says(401, "AADSTS7000215"))
	f(69, signedIn+`secret"`, says(503, "AADSTS90033"))
	f(77, signedIn+`nowhere"`)
	f(77, `method: certificate, authority: "https://localhost:1", tenant: t, client_id: c, certificate_file: "${DIR}/secret"`)
	f(77, `method: azure_cli`)
	f(69, strings.Replace(signedIn, "${URL}", "${DEAD}", 1)+`secret"`)
}
