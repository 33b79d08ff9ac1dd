package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// hint returns what a person can do about a verdict, with the command to paste; "" if nothing has
// to be done, since the agent retries by itself. config is the part of a command that names the
// configuration file.
func hint(v kusto.Verdict, o *outcome, r *reply.Reply, in *kusto.Ingest, config string) string {
	switch v {
	case kusto.NotSent:
		if r.Page {
			return reply.PageAgain
		}
		return NetHint(o.err)
	case kusto.Auth:
		return "the service refused the token: check that auth.resource is the audience of this cluster and auth.tenant its tenant"
	case kusto.Hold:
		return holdHint(o.Status, r, in, config)
	case kusto.Unknown:
		return unknownHint(o, r)
	}
	return ""
}

// unknownHint returns the hint for an unknown outcome. If something other than the service
// answered, it says so. If the answer was lost on the way it is "".
func unknownHint(o *outcome, r *reply.Reply) string {
	if r.Page || o.Sent && o.torn == nil && o.Status >= 200 && o.Status < 300 {
		return reply.PageAgain
	}
	return ""
}

// holdHint returns the hint for a refusal that stops sending to a table until a person fixes the
// cause. config is the part of a command that names the configuration file.
func holdHint(status int, r *reply.Reply, in *kusto.Ingest, config string) string {
	table := kusto.EntityName(in.Table)
	switch {
	case r.About == reply.PolicyOff:
		return "allow streaming into the table, then it takes up to 5 minutes: .alter table " + table + " policy streamingingestion enable"
	case r.About == reply.ClusterOff:
		return "streaming ingestion is off at the cluster: switch it on in the portal under Configurations, then run .alter table " + table + " policy streamingingestion enable"
	case r.About == reply.Missing:
		return missingHint(r, in, config)
	case r.About == reply.Denied, status == http.StatusForbidden && !r.Page:
		return "grant this identity the right to ingest: .add table " + table + " ingestors (" + kusto.TextLiteral(reply.Principal(r)) + ")"
	case r.About == reply.BadMapping:
		return "the mapping or format cannot be used; look at .show table " + table + " ingestion mappings"
	case r.About == reply.UpdatePolicy:
		return "the table's update policy refuses the data; look at .show table " + table + " policy update"
	}
	if r.Page && status == http.StatusNotFound {
		return reply.PageAgain + "; if it is the cluster's own: " + statusHint(status, table)
	}
	if r.Page && status >= 400 && status != http.StatusProxyAuthRequired && status != http.StatusExpectationFailed {
		return reply.PageAgain
	}
	return statusHint(status, table)
}

// statusHint returns the hint for a refusal by its status alone, where the body says nothing that the
// agent understands. table is quoted as EntityName does.
func statusHint(status int, table string) string {
	switch status {
	case http.StatusNotFound:
		return "streaming ingestion is off at the cluster, or cluster is not its query URI: switch it on in the portal under Configurations, then run .alter table " + table + " policy streamingingestion enable"
	case http.StatusConflict, http.StatusPreconditionFailed:
		return "the cluster may be stopped or changing: look at its state in the portal, and at .show table " + table + " policy streamingingestion"
	case http.StatusProxyAuthRequired:
		return ProxyHint
	case http.StatusExpectationFailed:
		return "something on the way does not know Expect: 100-continue; set send.expect_continue: false"
	}
	if status >= 300 && status < 400 {
		return "the address redirects elsewhere, and data is not sent there; set cluster to the query URI of the cluster"
	}
	return "the request was refused for an unknown reason; look at .show streamingingestion failures | where Table == " + strings.Trim(table, "[]")
}

// entity reads the kind out of "Entity ID 'X' of kind 'Table' was not found".
var entity = regexp.MustCompile(`of kind '([A-Za-z]+)'`)

// missingHint returns what to do when the service does not know a database, table or mapping: how
// to find a misspelt name and how to create what is missing. A new table or mapping takes up to 5
// minutes to be found, so the hint also says how to clear the schema cache. config is the part of a
// command that names the configuration file.
func missingHint(r *reply.Reply, in *kusto.Ingest, config string) string {
	kind := r.Code
	if m := entity.FindStringSubmatch(r.Texts); m != nil {
		kind = m[1]
	}
	kind = strings.ToLower(kind)
	table := kusto.EntityName(in.Table)
	fresh := "; if it exists and is new: .clear table " + table + " cache streamingingestion schema"
	switch {
	case strings.Contains(kind, "mapping"):
		return "check the name of mapping and its kind, which is " + mappingKind(in.Format) + ": .show table " + table + " ingestion mappings; if there is none, make it: kusto-agent setup" + config + fresh
	case strings.Contains(kind, "database"):
		return "database " + kusto.EntityName(in.Database) + " is not in this cluster: check the name with .show databases"
	}
	return "check the name of table, where letter case counts: .show tables; if there is none, make it: kusto-agent setup" + config + fresh
}

// mappingKind returns the kind under which the service keeps the mappings of a format.
func mappingKind(format string) string {
	switch strings.ToLower(format) {
	case "json", "multijson":
		return "json"
	case "avro":
		return "avro"
	}
	return "csv"
}

const ProxyHint = "the proxy asks for a login; put it into send.proxy as http://user:password@host:port"

// NetHint returns the hint for a request that was not sent completely, by the kind of err: proxy,
// DNS, certificate, TLS or connection.
func NetHint(err error) string {
	var (
		dns      *net.DNSError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		plain    tls.RecordHeaderError
		op       *net.OpError
	)
	switch {
	case err != nil && strings.Contains(err.Error(), "Proxy Authentication Required"):
		return ProxyHint
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy cannot be reached or does not connect: check send.proxy and HTTPS_PROXY"
	case errors.As(err, &dns):
		return "the name of the cluster was not resolved: check cluster, and DNS on this machine"
	case errors.As(err, &unknown):
		return "this machine does not know the authority that signed the certificate: name its file in send.tls.ca_file"
	case errors.As(err, &hostname):
		return "the certificate is for another host: check cluster, and what answers in its place"
	case errors.As(err, &invalid):
		return "the certificate is not valid now: check the clock of this machine, or renew the certificate of the server"
	case errors.As(err, &plain), op != nil && (op.Op == "remote error" || op.Op == "local error"): // as crypto/tls names its alerts
		return "no TLS connection: check the port in cluster and send.tls.min_version"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: check cluster, and whether it is running"
	}
	return "the request was not sent completely: check the network to the cluster, firewalls and proxies"
}
