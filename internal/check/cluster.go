package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/wire"
)

// cluster is one that inputs send to, and how far it was reached.
type cluster struct {
	name string
	config.Cluster
	conn   *endpoint.Connection
	closed string // why its tables cannot be looked at; empty: they can
}

// each calls f for every cluster that inputs send to, in the order of their names. The cluster is
// made at the first call and kept in r.clusters for later steps.
func (r *run) each(f func(c *cluster)) {
	used := make(map[string]bool)
	for i := range r.cfg.Inputs {
		used[r.cfg.Inputs[i].Cluster] = true
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if r.clusters[name] == nil {
			r.clusters[name] = &cluster{name: name, Cluster: r.cfg.Clusters[name]}
		}
		f(r.clusters[name])
	}
}

// ways checks the network way to each cluster: whether it answers, its certificate, and its clock.
// Offline it only makes the client, which reads the file of the authorities. If a cluster cannot be
// reached, c.closed notes the reason for later steps.
func (r *run) ways(ctx context.Context) {
	r.each(func(c *cluster) {
		conn, err := endpoint.Connect(r.cfg, c.name)
		if err != nil {
			c.closed = "there is no client for the cluster"
			r.add(Finding{ID: "network", Severity: Error, Where: c.URL, What: err.Error(), Fix: "look at cluster, auth and send of the configuration", Exit: exit.Config})
			return
		}
		c.conn = conn
		if r.Offline {
			return
		}
		w, err := conn.Client.Probe(ctx)
		if err != nil {
			c.closed = "the cluster was not reached"
			r.add(failed(Finding{ID: "network", Where: c.URL}, err))
		} else {
			r.reached(c, w)
		}
		r.certificate(c, w)
		r.clock(c, w)
	})
}

// reached adds the finding that a cluster answers, directly or through a proxy. w is what the
// request saw on the way.
func (r *run) reached(c *cluster, w wire.Way) {
	by := "answers from " + w.Remote
	if w.Proxy != "" {
		by = "answers through the proxy " + w.Proxy
	}
	r.add(Finding{ID: "network", Severity: OK, Where: c.URL, What: by, Detail: strings.Join(w.Addresses, " ")})
}

// expiresSoon is how long before its end a certificate is told.
const expiresSoon = 14 * 24 * time.Hour

// certificate adds a finding on how long the TLS certificate of the cluster is valid; a warning if
// it expires soon. w is what the request to the cluster saw on the way.
func (r *run) certificate(c *cluster, w wire.Way) {
	if w.Leaf == nil {
		return // no TLS, or the connection failed, which has a finding of its own
	}
	left := time.Until(w.Leaf.NotAfter)
	f := Finding{ID: "network.tls", Where: c.URL, Severity: OK, What: fmt.Sprintf("%s, certificate good until %s", w.TLS, w.Leaf.NotAfter.UTC().Format(time.DateOnly)), Detail: "issued by " + w.Leaf.Issuer.String()}
	if left < expiresSoon {
		f.Severity = Warning
		f.Fix = "tell its owner: " + w.Leaf.Subject.String()
	}
	r.add(f)
}

// The clock may differ by a little before anybody minds, and by five minutes
// before tokens are refused.
const (
	clockNoted   = 30 * time.Second
	clockRefused = 5 * time.Minute
)

// clock adds a finding on the difference between the clock of this machine and that of the service,
// if its answer had a date (w.Dated). A difference of clockNoted is a warning, one of clockRefused
// an error.
func (r *run) clock(c *cluster, w wire.Way) {
	if !w.Dated {
		return
	}
	f := Finding{ID: "clock", Where: c.URL, Severity: OK, What: "the clock of this machine agrees"}
	if off := w.Ahead.Abs(); off >= clockNoted { // w.Ahead is how far the service is ahead
		which := "behind"
		if w.Ahead < 0 {
			which = "ahead"
		}
		f.Severity, f.What = Warning, fmt.Sprintf("the clock of this machine is %v %s", off.Round(time.Second), which)
		f.Fix = "set it by the network\ntimedatectl set-ntp true"
		if off >= clockRefused {
			f.Severity, f.What = Error, f.What+": tokens are refused like this"
		}
	}
	r.add(f)
}

// identity gets a token for each cluster that has a client, and adds a finding with the identity or
// the failure. Offline, and where no secret is needed yet because the cluster does not answer, it only
// reads the files of the secrets. After a failure c.closed notes the reason for later steps.
func (r *run) identity(ctx context.Context) {
	r.each(func(c *cluster) {
		if r.Offline || c.conn == nil {
			r.secrets(c)
			return
		}
		if c.Auth.Method == "none" {
			r.ok("token", "", c.URL, "no token is asked for")
			return
		}
		_, err := c.conn.Tokens.Token(ctx)
		if err == nil {
			r.ok("token", "", c.URL, "a token was given to %s", c.principal())
			return
		}
		c.closed = cmp.Or(c.closed, "there is no token")
		f := failed(Finding{ID: "token", Where: c.URL}, err)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // the file of a secret
			f.Fix = c.credentialFix(credentialStore, f.Fix, r.Path)
		}
		r.add(f)
		if f.Exit == exit.Unreachable {
			r.secrets(c)
		}
	})
}

// secrets adds a finding if a file that the secret of a cluster is in cannot be used, such as a
// certificate that does not parse. What is missing or may not be read has a finding of the files step.
func (r *run) secrets(c *cluster) {
	err := c.Auth.ReadFiles()
	if err != nil && !gone(err) && !errors.Is(err, fs.ErrPermission) {
		r.add(failed(Finding{ID: "token", Where: c.URL}, err))
	}
}

// credentialStore is where systemd finds what it hands over.
const credentialStore = "/etc/credstore"

// credentialFix returns the fix for a secret file that cannot be read. If only systemd has a secret
// of that name, in its folder store, it is a command that runs check with that folder; otherwise it is
// fix. path is the path of the configuration.
func (c *cluster) credentialFix(store, fix, path string) string {
	for _, file := range c.Auth.Files() {
		_, err := os.Stat(*file)
		_, there := os.Stat(filepath.Join(store, filepath.Base(*file)))
		if *file != "" && err != nil && there == nil {
			return "systemd hands it to the service; let this find it\nsudo CREDENTIALS_DIRECTORY=" + store + " kusto-agent check --config " + config.Quoted(path)
		}
	}
	return fix
}

// unknownPrincipal stands in hints where the service did not name who was refused.
const unknownPrincipal = "aadapp=<client id>;<tenant>"

// principal returns the identity of the agent, as far as the configuration says it: the application
// id and tenant, else the method of signing in.
func (c *cluster) principal() string {
	if c.Auth.ClientID == "" {
		return "the identity of auth.method " + c.Auth.Method
	}
	return "aadapp=" + c.Auth.ClientID + ";" + c.Auth.Tenant
}

// failed returns the finding f with severity Error and filled in from err. For an error of the
// service it shows the code, message and activity id, its hint as the fix, and its exit code.
func failed(f Finding, err error) Finding {
	f.Severity, f.What, f.Exit = Error, err.Error(), endpoint.CodeOf(err)
	var e *kusto.Error
	if !errors.As(err, &e) {
		f.Fix = "ask again; if it stays so, look at the log of the agent"
		return f
	}
	f.Fix = pasted(e.Hint)
	return f
}

// pasted puts each Kusto command in a hint on a line of its own. A command begins with a dot after
// ": " and ends at "; if " or at the end of the hint.
func pasted(hint string) string {
	var b strings.Builder
	for {
		i := strings.Index(hint, ": .")
		if i < 0 || i+3 >= len(hint) || hint[i+3] < 'a' || hint[i+3] > 'z' {
			return b.String() + hint
		}
		b.WriteString(hint[:i] + "\n")
		command, more, is := strings.Cut(hint[i+2:], "; if ")
		b.WriteString(command)
		if !is {
			return b.String()
		}
		b.WriteString("\n")
		hint = "if " + more
	}
}
