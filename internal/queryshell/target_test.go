package queryshell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
)

func TestParseCluster(t *testing.T) {
	const url = "https://c.westeurope.kusto.windows.net"
	f := func(text, wantURL, database, client, tenant string) {
		t.Helper()
		c, isURL, err := parseCluster(text)
		if err != nil || isURL != (wantURL != "") || c.URL != wantURL || c.Database != database || c.Auth.ClientID != client || c.Auth.Tenant != tenant {
			t.Errorf("%q: %+v, %v, %v", text, c, isURL, err)
		}
	}
	f("", "", "", "", "")
	f("dr", "", "", "", "")
	f(url+"/", url, "", "", "")
	f(url+"/base", url+"/base", "", "", "")
	f("Data Source="+url+"/;Initial Catalog=Logs;Fed=True", url, "Logs", "", "")
	f("server = "+url+" ; Database = \"My Logs\";AAD Federated Security=true;AppClientId=a;Authority Id=t;", url, "My Logs", "a", "t")
	f(url+";Fed=True", url, "", "", "")
	bad := func(text, says string) {
		t.Helper()
		_, _, err := parseCluster(text)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
	bad("Data Source="+url+";Application Key=hunter2", "seen by everyone")
	bad("Data Source="+url+";pwd=hunter2", "seen by everyone")
	bad("Data Source="+url+";Fed=False", "Fed=False: want true")
	bad("Data Source="+url+";Colour=hunter2", `"colour"`)
	bad("Data Source="+url+";hunter2", "key=value")
	bad("Initial Catalog=https://x;Fed=true", "no Data Source")
}

// TestCAFile: a file of authorities that is of no use is told by the flag that names it.
func TestCAFile(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(none, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{none + ".missing": "no such file", none: "holds no certificate in PEM", filepath.Dir(none): "is a directory"} {
		to := Target{Cluster: "https://127.0.0.1:1", Auth: "none", CAFile: file, IsSet: func(string) bool { return false }}
		_, err := to.connect()
		var ended *exit.Error
		if !errors.As(err, &ended) || ended.Code != exit.Usage || !strings.HasPrefix(err.Error(), "--ca-file") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", file, err, says)
		}
	}
}

// TestPlainHints: without a configuration, what is to be done is done with flags.
func TestPlainHints(t *testing.T) {
	f := func(to Target, e kusto.Error, want string) {
		t.Helper()
		if err := to.hinted(&e); !errors.Is(err, &e) || e.Hint != want {
			t.Errorf("%+v: %q, want %q", to, e.Hint, want)
		}
	}
	here := Target{url: "http://127.0.0.1:8080"}
	f(here, kusto.Error{Code: "no_credentials", Hint: "x"}, "for an emulator that asks for no token: --auth none")
	f(here, kusto.Error{Hint: "name the authority's file in send.tls.ca_file"}, "name the authority's file with --ca-file")
	f(Target{url: "https://c.kusto.windows.net"}, kusto.Error{Code: "no_credentials", Hint: "x"}, "x")
	f(Target{}, kusto.Error{Hint: "set send.tls.ca_file"}, "set send.tls.ca_file")
}
