package kusto

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
)

const proxyHint = "the proxy asks for a login; put it into send.proxy as http://user:password@host:port"

// netHint is for requests that did not leave whole.
func netHint(err error) string {
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
		return proxyHint
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy cannot be reached or does not connect: check send.proxy and HTTPS_PROXY"
	case errors.As(err, &dns):
		return "the name of the cluster was not resolved: check cluster, and DNS on this machine"
	case errors.As(err, &unknown):
		return "the certificate is signed by nobody this machine knows: name the authority's file in send.tls.ca_file"
	case errors.As(err, &hostname):
		return "the certificate is for another host: check cluster, and what answers in its place"
	case errors.As(err, &invalid):
		return "the certificate is not valid now: check the clock of this machine, else tell its owner"
	case errors.As(err, &plain), op != nil && (op.Op == "remote error" || op.Op == "local error"): // as crypto/tls names its alerts
		return "no TLS connection: check the port in cluster and send.tls.min_version"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: check cluster, and whether it is running"
	}
	return "the request did not leave whole: check the network to the cluster, firewalls and proxies"
}
