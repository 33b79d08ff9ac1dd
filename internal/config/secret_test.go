package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const secret = "hunter2"

// No error quotes a secret, whatever is wrong with it or near it.
func TestErrorsTellNoSecret(t *testing.T) {
	for _, auth := range []string{
		"{client_secret: hunter2, tenat: x}",
		"{tenat: x, client_secret: hunter2}",
		`{"client_secret": "hunter2", "tenat": x}`,
		"{client_secret: {hunter2: hunter2}}",
		"{client_secret: [hunter2]}",
		"{client_secret: [a, hunter2], tenat: x}",
		"{client_secret: hunter2${}",
		"{client_secret: 'hunter2${X}'}",
		"{client_secret: 'hunter2${1x}'}",
		"{client_secret: ${X:?unset}hunter2}",
		"{client_secret: &a hunter2}",
		"{client_secret: !hunter2 hunter2}",
		"{client_secret: *hunter2}",
		"{client_secret: true, client_secret: hunter2}",
		"{client_secret: \"hunter2\\0\"}",
		"{client_secret: \"hunter2\\q\"}",
		"{client-secret: hunter2}",
		"{clientSecret: hunter2}",
		"{clientsecret: hunter2}",
		"{secret: hunter2}",
		"{client_secert: x, secret: hunter2}",
		"{password: hunter2}",
		"{app_key: hunter2}",
		"\n  client_secret: hunter2: hunter2",
		"\n  client_secret: \"hunter2\n  tenant: hunter2",
		"\n  client_secret: |\n    hunter2\n   hunter2\n  tenant: hunter2: x: y"[:len("\n  client_secret: |\n    hunter2\n   hunter2\n")],
		"\n  client_secret: |\n\thunter2",
		"\n  client_secret:\n    hunter2\n    : hunter2",
		"\n  client_secret:\n    - hunter2",
		"\n  client_secret:\n    a: hunter2\n    b: &hunter2 hunter2",
		"\n  client_secret\n    : hunter2",
		"\n  client_secret hunter2",
		"\n  client_secret=hunter2",
		"\n  ? client_secret\n  : [hunter2]",
		"\n  client_secret: >\n    a\n\n    hunter2\n   x: y",
		"\n  client_secret: @hunter2",
		"\n  client_secret: %hunter2",
		"\n  client_secret: \x01hunter2",
		"\n  client_secret: hunter2\xff",
		"\n  client_secret: ${SECRET}\n  client_secret_file: x",
		"\n  method: ${SECRET}",
		"\n  tenant: [${SECRET}]",
		"\n  client_secret: \"${SECRET}\n",
		"hunter2",
		"[hunter2]",
		"{hunter2}",
		"\n  hunter2",
		"\n  - hunter2",
		"\n- hunter2",
		"\n  hunter2: x",
		"&hunter2 {method: none}",
		"{method: hunter2}",
		"{method: [hunter2]}",
		"{method: 'client_secret hunter2'}",
		"{clientt: hunter2}",
		"{tenat: hunter2, method: client_secret}",
		"{method: client_secret,\n  tenat: hunter2}",
		"\n  client_secrt: hunter2",
		"\n  client_secrt:\n    hunter2: x",
		"\n  clientsecrt: \"hunter2",
		"\n  key: hunter2",
		"\n  value: hunter2",
		"\n  tenat: a\n  authorty: https://x/?hunter2",
		"\n  method hunter2: x",
	} {
		text := "cluster: https://c.kusto.windows.net\ndatabase: d\nauth: " + auth + "\ninputs:\n  - {paths: /a.csv, table: A}\n"
		_, err := Parse("agent.yaml", []byte(text), environ("SECRET", secret), Options{})
		if err == nil {
			t.Errorf("auth: %s is taken", auth)
		} else if strings.Contains(strings.ReplaceAll(err.Error(), "${SECRET}", ""), secret) {
			t.Errorf("auth: %s tells the secret:\n%v", auth, err)
		}
	}
}

func TestErrorsTellNoSecretElsewhere(t *testing.T) {
	for _, text := range []string{
		"client_secret: hunter2",
		"auth: client_secret=hunter2",
		"cluster: https://u:hunter2@c.kusto.windows.net",
		"cluster: https://c.kusto.windows.net?sig=hunter2",
		"cluster: ['https://c.kusto.windows.net/?sv=1&sig=hunter2']",
		"send: {proxy: 'http://u:hunter2@x:1', tls: 3}",
		"send: {proxy: ['http://u:hunter2@x:1']}",
		"send: {proxy: 'u:${SECRET}'}",
		"cluster: '${SECRET}'",
		"cluster: u:hunter2@c.kusto.windows.net",
		"client_secrt: hunter2",
		"clientsecrt: hunter2",
		"pasword: hunter2",
		"tokn: hunter2",
		"secrets: {a: hunter2}",
		"auth = hunter2",
		"clusters: {dr: {url: 'https://c.kusto.windows.net', auth: hunter2}}",
		"clusters: {dr: {url: 'https://c.kusto.windows.net', auth: {method: hunter2}}}",
		"clusters:\n  dr:\n    url: https://c.kusto.windows.net\n    auth:\n      value: hunter2",
		"send: {proxy: 'u:hunter2@x:1'}",
		"send: {proxy: //u:hunter2@x:1}",
		"send: {proxy: 'http:// u:hunter2@x:1'}",
		"send: {proxy: 'http:/u:hunter2@x:1'}",
		"send: {proxy: 'http//u:hunter2@x:1'}",
		"send: {proxy: u%3Ahunter2%40x}",
		"send: {proxy: 'http://u:hunter2'}",
		"send: {proxy: 'http://u:hunter2#@x:1'}",
		"send: {proxy: hunter2}",
		"send: {proxy: [hunter2]}",
		"send: {proxy: {hunter2: 1}}",
		"send:\n  proxy: 'u:hunter2@x:1'\n  timeut: 3",
		"send:\n  proxy:\n    u:hunter2@x:1",
		"send:\n  proxy:\n    - hunter2",
		"send:\n  proxy: |\n    u:hunter2@x:1",
		"send:\n  prxy: u:hunter2@x:1",
		"database: '${SECRET}/'",
		"batch: {max_size: '${SECRET}', max_records: '${SECRET}'}",
		"telemetry: {listen: '${SECRET}'}",
		"allow_untrusted_endpoint: '${SECRET}'",
		"inputs: [{cluster: '${SECRET}', table: '${SECRET}/', format: '${SECRET}', paths: '${SECRET}', start_at: '${SECRET}'}]",
	} {
		_, err := Parse("agent.yaml", []byte(text), environ("SECRET", secret), Options{})
		if err == nil {
			t.Errorf("%s is taken", text)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s tells the secret:\n%v", text, err)
		}
	}
}

// What is not a secret is shown: an error without its line helps nobody.
func TestMaskKeepsTheRest(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := maskLine(in); got != want {
			t.Errorf("maskLine(%q) = %q; want %q", in, got, want)
		}
	}
	f("auth: {method: client_secret, tenat: x}", "auth: {method: client_secret, tenat: x}")
	f("  client_secret_file: a", "  client_secret_file: a")
	f("  federated_token_file: a", "  federated_token_file: a")
	f("  - paths: [/srv/secret/token.log]", "  - paths: [/srv/secret/token.log]")
	f("    table: tokens", "    table: tokens")
	f("  client_secret: x", "  client_secret: ****")
	f("proxy: http://u:p@h:1", "proxy: http://****@h:1")
	f("proxy: http://u:a-secret-1@h:1", "proxy: http://****@h:1")
	f("proxy: http://u:a/b@h:1", "proxy: http://****@h:1")
	f("send: {proxy: http://h:1, timeut: 3}", "send: {proxy: http://h:1, timeut: 3}")
	f("  proxy: 'socks5://[::1]:1' # ours", "  proxy: 'socks5://[::1]:1' # ours")
	f("  max_records: 3", "  max_records: 3")
	f("  taken: 3", "  taken: ****") // as near to token as a misspelt one
	f("    table: Secrte", "    table: Secrte")
	f("    format: json", "    format: json")
	g := func(in, want string) {
		t.Helper()
		if got := maskAuth(in); got != want {
			t.Errorf("maskAuth(%q) = %q; want %q", in, got, want)
		}
	}
	g("auth: {method: client_secret, tenat: x}", "auth: {method: client_secret, tenat: ****}")
	g("auth: {method: clientsecret, tenant: x, client_id: y}", "auth: {method: clientsecret, tenant: x, client_id: y}")
	g("dr: {url: 'https://c', auth: {method: none}, datbase: x}", "dr: {url: 'https://c', auth: {method: none}, datbase: x}")
	g("auth:", "auth:")
	g("auth: # who we are", "auth: # who we are")
	g("  # who we are", "  # who we are")
	g("  authority: https://login.microsoftonline.com # public", "  authority: https://login.microsoftonline.com # public")
	g("  client_secret_file: /etc/secret", "  client_secret_file: /etc/secret")
	g("  managed: true", "  managed: ****")
}

func TestPrintingTellsNoSecret(t *testing.T) {
	text := `
cluster: https://c.kusto.windows.net
database: d
auth: {tenant: t, client_id: c, client_secret: "${SECRET}"}
clusters:
  dr: {url: "https://dr.kusto.windows.net", auth: {tenant: t, client_id: c, client_secret: hunter2}}
inputs: [{paths: /a.json, table: A, mapping: m, fields: {api_token: "${SECRET}", password: hunter2}}]
send: {proxy: "http://u:hunter2@proxy:8080"}
`
	c := trace(t, text, "SECRET", secret)
	if got := c.Clusters[DefaultCluster].Auth.ClientSecret; got != secret {
		t.Errorf("the secret was lost: %q", got)
	}
	var out bytes.Buffer
	if err := c.Show(&out, ""); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "****"); n != 5 {
		t.Errorf("%d masks; want 5:\n%s", n, &out)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb, c.Clusters)
		fmt.Fprintf(&out, verb, c.Clusters[DefaultCluster].Auth)
	}
	shown, err := c.Shown("")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&out).Encode(shown); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "clusters", c.Clusters, "auth", c.Clusters["dr"].Auth)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "clusters", c.Clusters, "auth", c.Clusters["dr"].Auth)
	if err := json.NewEncoder(&out).Encode(c.Clusters); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), secret) || strings.Contains(out.String(), fmt.Sprintf("%x", secret)) {
		t.Errorf("the secret is told:\n%s", &out)
	}
}

func TestErrorsAs(t *testing.T) {
	_, err := Parse("agent.yaml", nil, environ(), Options{})
	var all *Errors
	if !errors.As(err, &all) || len(all.Problems) != 1 || all.Problems[0].Line != 1 {
		t.Errorf("got %v", err)
	}
}
