package wire

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// trusted are the domains of the service in all clouds: what the official clients
// send a token to, as of August 2026. A leading dot means any host below it.
var trusted = []string{
	// public cloud, Synapse and Fabric
	".kusto.windows.net", ".kustomfa.windows.net", ".kustodev.windows.net",
	".kusto.azuresynapse.net", ".kustodev.azuresynapse-dogfood.net",
	".kusto.data.microsoft.com", ".kusto.fabric.microsoft.com",
	".dxp.aad.azure.com", ".dxp-dev.aad.azure.com",
	".arg.core.windows.net", ".arg-int.core.windows.net", ".arg-df.core.windows.net",
	".playfab.com", ".playfabapi.com", ".azureplayfab.com",
	".securitycenter.windows.com", ".api.securityplatform.microsoft.com", "api.securityplatform.microsoft.com",
	"kusto.aria.microsoft.com", "eu.kusto.aria.microsoft.com",
	// United States government
	".kusto.usgovcloudapi.net", ".kustomfa.usgovcloudapi.net", ".arg.core.usgovcloudapi.net",
	".kusto.core.eaglex.ic.gov", ".kustomfa.core.eaglex.ic.gov", ".arg.core.eaglex.ic.gov",
	".kusto.core.microsoft.scloud", ".kustomfa.core.microsoft.scloud", ".arg.core.microsoft.scloud",
	// China
	".kusto.chinacloudapi.cn", ".kustomfa.chinacloudapi.cn", ".kusto.azuresynapse.azure.cn",
	".playfab.cn", ".arg.core.chinacloudapi.cn",
	// France, Germany, Singapore
	".kusto.sovcloud-api.fr", ".kustomfa.sovcloud-api.fr",
	".kusto.sovcloud-api.de", ".kustomfa.sovcloud-api.de",
	".kusto.sovcloud-api.sg", ".kustomfa.sovcloud-api.sg",
}

// monitors are the proxies of Azure Monitor in all clouds, which answer queries as
// a cluster does: Application Insights and Log Analytics stand behind them.
var monitors = func() []string {
	all := []string{
		"ade.applicationinsights.io", "ade.loganalytics.io", "adx.aimon.applicationinsights.azure.com",
		"adx.int.applicationinsights.azure.com", "adx.int.loganalytics.azure.com", "adx.int.monitor.azure.com",
	}
	for _, cloud := range []string{"com", "us", "cn", "eaglex.ic.gov", "microsoft.scloud", "fr", "de", "sg"} {
		for _, what := range []string{"applicationinsights", "loganalytics", "monitor"} {
			all = append(all, "adx."+what+".azure."+cloud)
		}
	}
	return all
}()

// IsMonitor reports whether a host is one of the monitors.
func IsMonitor(host string) bool { return slices.Contains(monitors, host) }

// queryOnly are heads of hosts that answer queries over Azure Monitor and take no
// data, in clouds that may not be known here.
var queryOnly = []string{
	"ade.loganalytics.", "ade.applicationinsights.",
	"adx.loganalytics.", "adx.applicationinsights.", "adx.monitor.azure.", "adx.aimon.",
	"adx.int.",
}

// CheckEndpoint returns an error if a cluster URL must not be sent a token or cannot take data. It
// makes no request. A host outside the known domains of the service is refused unless allowUntrusted
// is set; plain http to another machine is always refused. The error says what URL to write instead;
// errors.Unwrap gives the same message without the URL.
func CheckEndpoint(rawURL string, allowUntrusted bool) error {
	_, err := CheckedURL(rawURL, allowUntrusted, false)
	return err
}

// CheckQueryEndpoint is CheckEndpoint for a cluster that is only queried. It also allows the proxies
// of Azure Monitor, which answer queries but take no data.
func CheckQueryEndpoint(rawURL string, allowUntrusted bool) error {
	_, err := CheckedURL(rawURL, allowUntrusted, true)
	return err
}

// CheckedURL parses a cluster URL after the checks of CheckEndpoint, or, if onlyAsked is set, of
// CheckQueryEndpoint. The error does not show a user or password in the URL.
func CheckedURL(rawURL string, allowUntrusted, onlyAsked bool) (*url.URL, error) {
	u, err := WebURL(rawURL)
	if better := meantURL(rawURL); better != nil {
		err = better
	}
	if err != nil {
		if i := strings.LastIndexByte(rawURL, '@'); i >= 0 {
			rawURL = "…" + rawURL[i:] // a password may stand before it
		}
		return nil, fmt.Errorf("cluster %q: %w", rawURL, err)
	}
	host := HostOf(u)
	switch {
	case strings.HasPrefix(host, "ingest-"):
		err = fmt.Errorf("this is the address of queued ingestion; use the query URI %s://%s", u.Scheme, strings.TrimPrefix(strings.ToLower(u.Host), "ingest-"))
	case onlyAsked && IsMonitor(host):
	case !onlyAsked && slices.ContainsFunc(queryOnly, func(head string) bool { return strings.HasPrefix(host, head) || strings.Contains(host, "."+head) }):
		err = errors.New("that is Azure Monitor, which answers queries and takes no data; use the query URI of a cluster")
	case !IsLoopback(host) && !isTrusted(host) && !allowUntrusted:
		err = fmt.Errorf("host %s is not a known Kusto domain, so it is sent no token; set allow_untrusted_endpoint: true if it is yours", host)
	case isCluster(host) && strings.Trim(u.Path, "/") != "":
		err = fmt.Errorf("the URL of a cluster has no path; use %s://%s, and name the database apart from it", u.Scheme, u.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %q: %w", rawURL, err)
	}
	return u, nil
}

// portals are the hosts of the web page of Azure Data Explorer, with the domain of the clusters that
// its addresses name in short.
var portals = map[string]string{
	"dataexplorer.azure.com": ".kusto.windows.net",
	"dataexplorer.azure.us":  ".kusto.usgovcloudapi.net",
	"dataexplorer.azure.cn":  ".kusto.chinacloudapi.cn",
}

// meantURL returns an error with the URL to write instead of the address of the web page of Azure Data
// Explorer, or of a URL without its scheme; nil for anything else. What is shown of the text is a host of
// the service or of this machine: another text may be a secret that was meant for another key.
func meantURL(raw string) error {
	bare := !strings.Contains(raw, "://")
	whole := raw
	if bare {
		whole = "https://" + raw
	}
	u, err := url.Parse(whole)
	if err == nil && portals[HostOf(u)] != "" {
		return errors.New("this is the address of the web page of Azure Data Explorer; use " + shownAt(u))
	}
	switch {
	case !bare && (err != nil || u.Scheme == "https" || u.Scheme == "http"):
		return nil
	case raw == "" || bare && err != nil:
		return nil // WebURL has words for it
	case bare && u.User == nil && IsLoopback(HostOf(u)) && isPort(u.Port()):
		return errors.New("the URL must begin with https://; use http://" + u.Host)
	case bare && u.User == nil && plainHost(HostOf(u)) && isTrusted(HostOf(u)):
		return errors.New("the URL must begin with https://; use https://" + strings.TrimPrefix(strings.ToLower(u.Host), "ingest-"))
	}
	return errors.New("the URL must begin with https://; write https://<cluster>.<region>.kusto.windows.net")
}

// shownAt returns the URL of the cluster that an address of the web page names, as in
// /clusters/mycluster.westeurope/databases/mydatabase; words for it if it names none.
func shownAt(u *url.URL) string {
	_, name, _ := strings.Cut(u.Path, "/clusters/")
	name, _, _ = strings.Cut(strings.TrimPrefix(strings.ToLower(name), "https://"), "/")
	if !isTrusted(name) {
		name += portals[HostOf(u)]
	}
	if !plainHost(name) || !isTrusted(name) {
		return "the query URI of the cluster, such as https://<cluster>.<region>.kusto.windows.net"
	}
	return "https://" + strings.TrimPrefix(name, "ingest-")
}

// WebURL parses a URL to which a secret may be sent: https, or http to this machine, with a plain
// ASCII host and without user, query and fragment. The error does not quote the URL.
func WebURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("not a URL; write https://<cluster>.<region>.kusto.windows.net")
	}
	host := HostOf(u)
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the URL must begin with https://")
	case !plainHost(host):
		return nil, errors.New("the URL has no usable host name")
	case u.User != nil:
		return nil, errors.New("the URL must hold no user name or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the URL must hold no query and no fragment")
	case !isPort(u.Port()):
		return nil, errors.New("the port must be one from 1 to 65535, or none")
	case u.Scheme == "http" && !IsLoopback(host):
		return nil, errors.New("plain http is only for this machine (localhost, 127.0.0.1); use https")
	}
	return u, nil
}

// isPort reports whether the port of a URL, which has digits alone, can be one. None is one.
func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// isCluster reports whether a trusted host is a cluster itself. Other hosts may be proxies, which can
// have clusters below a path.
func isCluster(host string) bool {
	return isTrusted(host) && (strings.Contains(host, ".kusto.") || strings.Contains(host, ".kustomfa."))
}

// HostOf returns the host of a URL in lower case, without the port and without a trailing dot.
func HostOf(u *url.URL) string {
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// plainHost reports whether a host is an IP address or a name of ASCII letters, digits, dots, dashes
// and underscores. Other names are refused, since they could look like another host.
func plainHost(host string) bool {
	if net.ParseIP(host) != nil {
		return true
	}
	return host != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" && !strings.Contains(host, "..")
}

// IsLoopback reports whether a host is localhost or a loopback address.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// IsLocal reports whether a URL leads to this machine.
func IsLocal(rawURL string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && IsLoopback(HostOf(u))
}

// isTrusted reports whether a host belongs to one of the known domains of the service.
func isTrusted(host string) bool {
	return slices.ContainsFunc(trusted, func(domain string) bool {
		if strings.HasPrefix(domain, ".") {
			return strings.HasSuffix(host, domain) && len(host) > len(domain)
		}
		return host == domain
	})
}
