package kusto

import (
	"net/http"
	"regexp"
	"strings"
)

// hint says what a person can do about a refusal, with the command to paste.
// An empty hint means that the agent helps itself.
func hint(v Verdict, o *outcome, r *reply, in *Ingest) string {
	switch v {
	case NotSent:
		if r.page {
			return pageAgain
		}
		return netHint(o.err)
	case Auth:
		return "the service refused the token: check that auth.resource is the audience of this cluster and auth.tenant its tenant"
	case Hold:
		return holdHint(o.status, r, in)
	case Unknown:
		return unknownHint(o, r)
	}
	return ""
}

// unknownHint is for answers that are not the service's. One that is lost on
// the way needs nobody.
func unknownHint(o *outcome, r *reply) string {
	if r.page || o.sent && o.torn == nil && o.status >= 200 && o.status < 300 {
		return pageAgain
	}
	return ""
}

// holdHint is for what keeps a route waiting.
func holdHint(status int, r *reply, in *Ingest) string {
	table := EntityName(in.Table)
	switch {
	case r.about == policyOff:
		return "allow streaming into the table, then it takes up to 5 minutes: .alter table " + table + " policy streamingingestion enable"
	case r.about == clusterOff:
		return "streaming ingestion is off at the cluster: switch it on in the portal under Configurations, then run .alter table " + table + " policy streamingingestion enable"
	case r.about == missing:
		return missingHint(r, in)
	case r.about == denied, status == http.StatusForbidden && !r.page:
		return "let this identity ingest: .add table " + table + " ingestors (" + TextLiteral(principal(r)) + ")"
	case r.about == badMapping:
		return "the mapping or format cannot be used; look at .show table " + table + " ingestion mappings"
	case r.about == updatePolicy:
		return "the table's update policy refuses the data; look at .show table " + table + " policy update"
	}
	if r.page && status == http.StatusNotFound {
		return pageAgain + "; if it is the cluster's own: " + statusHint(status, table)
	}
	if r.page && status >= 400 && status != http.StatusProxyAuthRequired && status != http.StatusExpectationFailed {
		return pageAgain
	}
	return statusHint(status, table)
}

// statusHint is for refusals that have no words of the service.
func statusHint(status int, table string) string {
	switch status {
	case http.StatusNotFound:
		return "streaming ingestion is off at the cluster, or cluster is not its query URI: switch it on in the portal under Configurations, then run .alter table " + table + " policy streamingingestion enable"
	case http.StatusConflict, http.StatusPreconditionFailed:
		return "the cluster may be stopped or changing: look at its state in the portal, and at .show table " + table + " policy streamingingestion"
	case http.StatusProxyAuthRequired:
		return proxyHint
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

// missingHint tells how to create what was not found, and how to make it known
// where it exists: a new table or mapping takes up to 5 minutes to be found.
func missingHint(r *reply, in *Ingest) string {
	kind := r.code
	if m := entity.FindStringSubmatch(r.texts); m != nil {
		kind = m[1]
	}
	kind = strings.ToLower(kind)
	table := EntityName(in.Table)
	fresh := "; if it exists and is new: .clear table " + table + " cache streamingingestion schema"
	switch {
	case strings.Contains(kind, "mapping"):
		return "create the mapping, with your columns: .create-or-alter table " + table + " ingestion " + mappingKind(in.Format) +
			" mapping " + StringLiteral(in.Mapping) + " '[{\"column\":\"c\",\"Properties\":{}}]'" + fresh
	case strings.Contains(kind, "database"):
		return "database " + EntityName(in.Database) + " is not in this cluster: check the name with .show databases"
	}
	return "create the table, with your columns: .create table " + table + " (['c']: string)" + fresh
}

// mappingKind is the kind under which a format's mappings are kept.
func mappingKind(format string) string {
	switch strings.ToLower(format) {
	case "json", "multijson":
		return "json"
	case "avro":
		return "avro"
	}
	return "csv"
}
