package config

import (
	"cmp"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/kusto/wire"
)

// clusters checks the cluster of the top level and those under clusters, and adds them to the
// configuration with databases and credentials filled in.
func (l *loader) clusters() {
	l.cfg.Clusters = map[string]Cluster{}
	if l.main.given("cluster") || l.main.wrong["cluster"] {
		l.cfg.Clusters[DefaultCluster] = l.cluster(clusterDoc{URL: l.doc.Cluster, Database: l.doc.Database}, "")
	} else if len(l.doc.Clusters) == 0 && !l.main.wrong["clusters"] {
		l.clusterURL("", "cluster") // reports that it is missing
	}
	for _, name := range slices.Sorted(maps.Keys(l.doc.Clusters)) {
		at := join("clusters", name)
		if name == DefaultCluster && l.main.given("cluster") {
			l.main.bad(at, "the cluster of the top level is called %s; want another name", DefaultCluster)
			continue
		}
		l.cfg.Clusters[name] = l.cluster(l.doc.Clusters[name], at)
	}
}

// cluster returns a cluster; database and auth come from the top level if it does not set them. at is
// its path in the main file, for errors; "" is the top level.
func (l *loader) cluster(c clusterDoc, at string) Cluster {
	urlAt, authAt := join(at, "url"), join(at, "auth")
	if at == "" {
		urlAt = "cluster"
	}
	if c.Auth == nil {
		c.Auth, authAt = &l.doc.Auth, "auth"
	}
	l.checkName(l.main, join(at, "database"), "database", c.Database)
	return Cluster{URL: l.clusterURL(c.URL, urlAt), Database: cmp.Or(c.Database, l.doc.Database), Auth: l.auth(*c.Auth, authAt, c.URL)}
}

// clusterURL returns the URL of a cluster in one spelling, so that two ways to write it are one route.
// A URL that is missing or refused is reported at the path at, and the result is "".
func (l *loader) clusterURL(raw, at string) string {
	if raw == "" {
		l.main.bad(at, "missing; want the query URI of the cluster, such as https://mycluster.westeurope.kusto.windows.net")
		return ""
	}
	u, err := wire.CheckedURL(raw, l.doc.AllowUntrustedEndpoint, l.opts.ClustersOnly)
	if err != nil {
		l.main.bad(at, "%s", unnamed(err))
		return ""
	}
	return inOneSpelling(u)
}

// inOneSpelling returns the text of a URL of a cluster: host in lower case, no default port, no slash
// at the end.
func inOneSpelling(u *url.URL) string {
	u.Host = strings.ToLower(u.Host)
	if u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":443")
	}
	return strings.TrimRight(u.String(), "/")
}

// ClusterURL returns the URL of a cluster in the spelling in which Load gives it, to compare it with
// what the agent has stored. It checks nothing: what is no URL is returned unchanged.
func ClusterURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return inOneSpelling(u)
}

// auth returns the credentials of a cluster: files are full paths, and the method is client_secret
// where auto finds a secret. It reports what is wrong with them. at is the path of the section in
// the main file, cluster the URL.
func (l *loader) auth(a credential.Config, at, cluster string) credential.Config {
	for _, file := range a.Files() {
		*file = l.credential(*file)
	}
	known := a // what is checked
	if l.main.wrong[join(at, "client_secret")] && a.ClientSecretFile == "" {
		known.ClientSecret = kusto.Mask // its mistake was reported: it is not to be reported as missing
	}
	if a.Method == "auto" && known.ClientSecret+a.ClientSecretFile != "" {
		a.Method, known.Method = "client_secret", "client_secret"
	}
	if l.main.wrong[join(at, "method")] {
		known.Method = "" // which one was meant is not known, nor what it needs
	}
	if a.Method == "none" && cluster != "" && !wire.IsLocal(cluster) { // a URL that is missing or of no value was reported
		l.main.bad(join(at, "method"), "none is for a cluster on this machine (localhost, 127.0.0.1); want a way to sign in, such as client_secret")
	}
	if a.Method == "client_secret" && known.ClientSecret+a.ClientSecretFile == "" && l.main.emptied(join(at, "client_secret")) != nil {
		l.main.bad(join(at, "client_secret"), "missing; want the secret of the application in it")
		known.ClientSecret = kusto.Mask // or its file would be reported as missing, too
	}
	l.complain(l.main, at, known.Validate())
	return a
}

// SecretFiles returns the files with the secrets that the agent uses, each once: those to sign in with,
// and the key of the telemetry endpoint. Those that the agent refuses to use if everyone may read
// them, telemetry.token_file and redact_key_file, are not among them.
func (c *Config) SecretFiles() (files []string) {
	add := func(file string) {
		if file != "" && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Clusters)) {
		a := c.Clusters[name].Auth
		for _, file := range a.Files() {
			add(*file)
		}
	}
	if c.Telemetry.Listen != "" { // it is not read otherwise
		add(c.Telemetry.TLS.KeyFile)
	}
	return files
}

// credential returns the full path of a file with a secret; "" for "". A name without a folder is
// looked for in systemd's credentials folder, if there is one, otherwise beside the main file.
func (l *loader) credential(file string) string {
	if file == "" {
		return ""
	}
	if filepath.Base(file) != file {
		return l.inFolder(file)
	}
	path := l.inFolder(file)
	if dir, _ := l.env("CREDENTIALS_DIRECTORY"); dir != "" {
		path = filepath.Join(dir, file)
	}
	l.bare[path] = true
	return path
}
