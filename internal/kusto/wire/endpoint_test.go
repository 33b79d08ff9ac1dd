package wire

import (
	"errors"
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
	for _, port := range []string{"0", "65536", "99999", "123456789012345678901"} {
		bad("https://c.kusto.windows.net:"+port, false, "the port must be one from 1 to 65535, or none")
		bad("http://localhost:"+port+"/", false, "the port must be one from 1 to 65535, or none")
	}
	ok("https://c.kusto.windows.net:65535", false)
	ok("https://c.kusto.windows.net:1/", false)
	const noPath = "the URL of a cluster has no path; use https://"
	bad("https://c.kusto.windows.net/Logs", false, noPath+"c.kusto.windows.net, and")
	bad("https://C.kusto.windows.net:443/Logs/", true, noPath+"C.kusto.windows.net:443, and")
	bad("https://abc.z9.kusto.fabric.microsoft.com/v1/rest", false, noPath)
	ok("https://c.kusto.windows.net//", false)
	ok("https://x.arg.core.windows.net/a/path", false)
	if err := CheckQueryEndpoint("https://c.kusto.windows.net/Samples", false); err == nil || !strings.Contains(err.Error(), noPath) {
		t.Errorf("got %v", err)
	}
	if err := CheckEndpoint("https://user:hunter2@c.kusto.windows.net", false); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password is in %v", err)
	}
	bad("https://ingest-c.westeurope.kusto.windows.net", false, "use the query URI https://c.westeurope.kusto.windows.net")
	bad("https://ingest-c.example.com", true, "query URI")
	for _, host := range []string{"ade.loganalytics.io", "ade.applicationinsights.io", "adx.monitor.azure.com", "adx.loganalytics.azure.us", "adx.applicationinsights.azure.cn", "x.adx.loganalytics.azure.com"} {
		bad("https://"+host+"/subscriptions/x", true, "takes no data")
	}
	for _, host := range []string{"ade.loganalytics.io", "ade.applicationinsights.io", "adx.monitor.azure.com", "ADX.loganalytics.azure.us", "adx.applicationinsights.azure.cn", "adx.int.monitor.azure.com", "adx.monitor.azure.microsoft.scloud", "x.arg.core.windows.net"} {
		if err := CheckQueryEndpoint("https://"+host+"/subscriptions/x", false); err != nil {
			t.Error(err)
		}
	}
	for _, host := range []string{"x.ade.loganalytics.io", "ade.loganalytics.io.evil.com", "evil-ade.loganalytics.io", "adx.monitor.azure.evil.com", "ingest-c.kusto.windows.net", "example.com"} {
		if err := CheckQueryEndpoint("https://"+host, false); err == nil {
			t.Errorf("%s is sent a token", host)
		}
	}
	const begin = "the URL must begin with https://; "
	bad("c.westeurope.kusto.windows.net", false, begin+"use https://c.westeurope.kusto.windows.net")
	bad("C.westeurope.kusto.windows.net:443/Logs", false, begin+"use https://c.westeurope.kusto.windows.net:443")
	bad("ingest-c.westeurope.kusto.windows.net/", true, begin+"use https://c.westeurope.kusto.windows.net")
	bad("localhost:8080", false, begin+"use http://localhost:8080")
	bad("127.0.0.1:8080", false, "use http://127.0.0.1:8080")
	bad("::1", false, "not a URL")
	bad("mycluster.westeurope", false, begin+"write https://<cluster>.<region>")
	bad("ftp://c.kusto.windows.net", false, begin+"write https://<cluster>.<region>")
	for _, secret := range []string{"hunter2.hunter2.hunter2", "hunter2:hunter2@c.kusto.windows.net", "hunter2"} { // written into the wrong key
		if err := errors.Unwrap(CheckEndpoint(secret, false)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the secret is in %v", err)
		}
	}
	portal := func(url, want string) {
		t.Helper()
		bad(url, false, "the address of the web page of Azure Data Explorer; use "+want)
		bad(url, true, "the address of the web page of Azure Data Explorer; use "+want)
	}
	portal("https://dataexplorer.azure.com/clusters/c.westeurope/databases/Logs", "https://c.westeurope.kusto.windows.net")
	portal("https://dataexplorer.azure.com/clusters/c.westeurope/databases/Logs?query=H4sIAAAA", "https://c.westeurope.kusto.windows.net")
	portal("https://DataExplorer.azure.com/clusters/Help/", "https://help.kusto.windows.net")
	portal("https://dataexplorer.azure.com/clusters/abc.z9.kusto.fabric.microsoft.com/databases/x", "https://abc.z9.kusto.fabric.microsoft.com")
	portal("https://dataexplorer.azure.com/clusters/https%3A%2F%2Fc.kusto.windows.net/databases/x", "https://c.kusto.windows.net")
	portal("https://dataexplorer.azure.us/clusters/c.usgovvirginia", "https://c.usgovvirginia.kusto.usgovcloudapi.net")
	portal("https://dataexplorer.azure.cn/clusters/c.chinaeast2", "https://c.chinaeast2.kusto.chinacloudapi.cn")
	portal("https://dataexplorer.azure.com/connections", "the query URI of the cluster")
	portal("https://dataexplorer.azure.com/clusters/%D0%B0", "the query URI of the cluster")
	portal("dataexplorer.azure.com/clusters/c.westeurope", "https://c.westeurope.kusto.windows.net")
	for _, url := range []string{
		"", "c.kusto.windows.net", "ftp://c.kusto.windows.net", "https://", "https:///path", "https:c.kusto.windows.net", "https://c.kusto.windows.net@evil.com",
		"https://user:pw@c.kusto.windows.net", "https://evil.com?.kusto.windows.net", "https://evil.com#.kusto.windows.net", "https://evil.com\\.kusto.windows.net",
		"https://evil.com%2f.kusto.windows.net", "https://c\u0430.kusto.windows.net", "https://a..kusto.windows.net", "https://a b.kusto.windows.net", "https://a\r\n.kusto.windows.net",
	} {
		bad(url, true, "cluster")
	}
}
