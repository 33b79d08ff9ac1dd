package kusto

import (
	"strings"
	"testing"
)

func TestCheckEndpoint(t *testing.T) {
	ok := func(url string, untrusted bool) {
		t.Helper()
		if err := CheckEndpoint(url, untrusted); err != nil {
			t.Errorf("%s (untrusted %v): %v", url, untrusted, err)
		}
	}
	bad := func(url string, untrusted bool, want string) {
		t.Helper()
		if err := CheckEndpoint(url, untrusted); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s (untrusted %v): got %v, want an error with %q", url, untrusted, err, want)
		}
	}
	for _, url := range []string{
		"https://c.westeurope.kusto.windows.net", "https://c.westeurope.kusto.windows.net/", "https://C.WestEurope.Kusto.Windows.Net:443", "https://c.kusto.windows.net.",
		"https://c.kustomfa.windows.net", "https://c.kusto.azuresynapse.net", "https://c.kusto.data.microsoft.com", "https://abc.z9.kusto.fabric.microsoft.com",
		"https://c.kusto.usgovcloudapi.net", "https://c.kusto.chinacloudapi.cn", "https://c.kusto.core.eaglex.ic.gov", "https://c.kusto.core.microsoft.scloud",
		"https://c.kusto.sovcloud-api.fr", "https://c.kusto.sovcloud-api.de", "https://c.kusto.sovcloud-api.sg",
		"https://x.api.securityplatform.microsoft.com", "https://api.securityplatform.microsoft.com", "https://x.securitycenter.windows.com", "https://x.arg-int.core.windows.net", "https://x.arg-df.core.windows.net",
		"http://localhost:8080", "http://127.0.0.1", "http://[::1]:8080", "https://127.9.9.9", "http://LOCALHOST/base/path",
	} {
		ok(url, false)
	}
	for _, url := range []string{
		"https://example.com", "https://kusto.windows.net", "https://.kusto.windows.net", "https://c.kusto.windows.net.evil.com", "https://evilkusto.windows.net",
		"https://10.0.0.1", "https://localhost.evil.com", "https://2130706433",
	} {
		bad(url, false, "allow_untrusted_endpoint")
	}
	ok("https://example.com/deep/path", true)
	ok("https://10.0.0.1:8443", true)
	for _, url := range []string{"http://example.com", "http://c.kusto.windows.net", "http://10.0.0.1", "http://0.0.0.0", "http://localhost.evil.com", "http://2130706433"} {
		bad(url, true, "plain http")
	}
	if err := CheckEndpoint("https://user:hunter2@c.kusto.windows.net", false); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password is in %v", err)
	}
	bad("https://ingest-c.westeurope.kusto.windows.net", false, "use the query URI https://c.westeurope.kusto.windows.net")
	bad("https://ingest-c.example.com", true, "query URI")
	for _, host := range []string{"ade.loganalytics.io", "ade.applicationinsights.io", "adx.monitor.azure.com", "adx.loganalytics.azure.us", "adx.applicationinsights.azure.cn", "x.adx.loganalytics.azure.com"} {
		bad("https://"+host+"/subscriptions/x", true, "takes no data")
	}
	for _, host := range []string{"ade.loganalytics.io", "ade.applicationinsights.io", "adx.monitor.azure.com", "ADX.loganalytics.azure.us", "adx.applicationinsights.azure.cn", "adx.int.monitor.azure.com", "adx.monitor.azure.microsoft.scloud", "c.kusto.windows.net"} {
		if err := CheckQueryEndpoint("https://"+host+"/subscriptions/x", false); err != nil {
			t.Error(err)
		}
	}
	for _, host := range []string{"x.ade.loganalytics.io", "ade.loganalytics.io.evil.com", "evil-ade.loganalytics.io", "adx.monitor.azure.evil.com", "ingest-c.kusto.windows.net", "example.com"} {
		if err := CheckQueryEndpoint("https://"+host, false); err == nil {
			t.Errorf("%s is sent a token", host)
		}
	}
	for _, url := range []string{
		"", "c.kusto.windows.net", "ftp://c.kusto.windows.net", "https://", "https:///path", "https:c.kusto.windows.net", "https://c.kusto.windows.net@evil.com",
		"https://user:pw@c.kusto.windows.net", "https://evil.com?.kusto.windows.net", "https://evil.com#.kusto.windows.net", "https://evil.com\\.kusto.windows.net",
		"https://evil.com%2f.kusto.windows.net", "https://c\u0430.kusto.windows.net", "https://a..kusto.windows.net", "https://a b.kusto.windows.net", "https://a\r\n.kusto.windows.net",
	} {
		bad(url, true, "cluster")
	}
}

func TestValidName(t *testing.T) {
	f := func(name string, want bool) {
		t.Helper()
		if err := ValidName("table", name); (err == nil) != want {
			t.Errorf("%q: got %v, want valid %v", name, err, want)
		} else if err != nil {
			mustBePrintable(t, err.Error())
		}
	}
	for _, name := range []string{"T", "my table", "a.b-c_d 9", "...", "Größe", "表", strings.Repeat("x", 1024)} {
		f(name, true)
	}
	for _, name := range []string{
		"", ".", "..", " ", "   ", "a/b", `a\b`, "../mgmt", "a%2fb", "a?b", "a#b", "a\x00b", "a\r\nb", "a\u202eb", "a\u200fb", "a'b", `a"b`, "a\tb", "a;b", "a:b", "\xff",
		strings.Repeat("x", 1025), strings.Repeat("x", 2048),
	} {
		f(name, false)
	}
}

func TestKQLQuoting(t *testing.T) {
	if got, want := kqlName(`a'b\c`+"\n"), `['a\'b\\c\n']`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := kqlString(`a"b'c`, '"'), `"a\"b'c"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHints(t *testing.T) {
	f := func(status int, body, want string) {
		t.Helper()
		in := sample("x")
		in.Table, in.Mapping = "my table", "my map"
		a := judge(&outcome{sent: true, status: status, header: map[string][]string{}, body: []byte(body)}, in, "")
		if !strings.Contains(a.Hint, want) || a.Err.Hint != a.Hint {
			t.Errorf("%d %s\n got %q\nwant %q in it", status, body, a.Hint, want)
		}
	}
	f(400, oneError("BadRequest_StreamingIngestionPolicyNotEnabled", "", true), ".alter table ['my table'] policy streamingingestion enable")
	f(403, oneError("Forbidden", "Caller is not authorized to perform this action: Principal 'aadapp=1-2;tenant' is not authorized to perform operation 'o' on 'x'", true), ".add table ['my table'] ingestors ('aadapp=1-2;tenant')")
	f(403, "", ".add table ['my table'] ingestors ('aadapp=<client id>;<tenant>')")
	f(404, "", ".alter table ['my table'] policy streamingingestion enable")
	f(400, oneError("BadRequest_EntityNotFound", "Entity ID 'my table' of kind 'Table' was not found.", true), ".create table ['my table']")
	f(400, oneError("BadRequest_EntityNotFound", "Entity ID 'my table' of kind 'Table' was not found.", true), ".clear table ['my table'] cache streamingingestion schema")
	f(400, oneError("BadRequest_EntityNotFound", "Entity ID 'my map' of kind 'MappingPersistent' was not found.", true), `.create-or-alter table ['my table'] ingestion json mapping "my map" `)
	f(400, oneError("BadRequest_DatabaseNotExist", "", true), ".show databases")
	f(400, oneError("BadRequest_InvalidMapping", "", true), ".show table ['my table'] ingestion mappings")
	f(400, oneError("UpdatePolicy_BadRequest", "", true), "policy update")
	f(400, oneError("BadRequest_MappingReferenceWasNotFound", "", true), `ingestion json mapping "my map"`)
	f(302, "", "query URI")
	f(417, "", "expect_continue: false")
	f(407, "", "send.proxy")
	f(401, "", "auth.resource")
}
