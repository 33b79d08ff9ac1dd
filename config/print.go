package config

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"kusto-agent/kusto"
)

// Print writes the effective configuration as a file that loads to the same:
// every key with the value that holds, variables replaced, included inputs in
// their place, secrets masked.
func (c *Config) Print(w io.Writer) error {
	doc, err := c.printed()
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return enc.Close()
}

func (c *Config) printed() (*yaml.Node, error) {
	top := c.Clusters[DefaultCluster]
	doc := document{
		Cluster: top.URL, Database: top.Database, Auth: top.Auth.Masked(),
		AllowUntrustedEndpoint: c.AllowUntrustedEndpoint, StateDir: c.StateDir,
		App: c.App, User: c.User, ShutdownTimeout: c.ShutdownTimeout,
		Inputs: new(yaml.Node), Clusters: map[string]clusterDoc{},
		Batch: c.Batch, Send: c.Send, Spool: c.Spool, Quarantine: c.Quarantine,
		Journal: c.Journal, Limits: c.Limits, Telemetry: c.Telemetry,
	}
	doc.Send.Proxy = maskProxy(doc.Send.Proxy)
	for _, name := range slices.Sorted(maps.Keys(c.Clusters)) {
		if name != DefaultCluster {
			cluster := c.Clusters[name]
			auth := cluster.Auth.Masked()
			doc.Clusters[name] = clusterDoc{URL: cluster.URL, Database: cluster.Database, Auth: &auth}
		}
	}
	if err := doc.Inputs.Encode(c.Inputs); err != nil {
		return nil, err
	}
	n := new(yaml.Node)
	if err := n.Encode(doc); err != nil {
		return nil, err
	}
	if top.URL == "" {
		drop(n, "cluster", "database", "auth")
	}
	tidy(n)
	return n, nil
}

// proxyUser finds the user and password of a proxy, which may hold any sign.
var proxyUser = regexp.MustCompile(`//.*@`)

func maskProxy(url string) string { return proxyUser.ReplaceAllLiteralString(url, "//"+kusto.Mask+"@") }

// drop removes keys from a mapping.
func drop(n *yaml.Node, keys ...string) {
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if slices.Contains(keys, n.Content[i].Value) {
			n.Content = slices.Delete(n.Content, i, i+2)
		}
	}
}

// tidy leaves out what has no value, and doubles each $ so that nothing is
// replaced when the text is read again.
func tidy(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			if isNull(n.Content[i+1]) {
				n.Content = slices.Delete(n.Content, i, i+2)
			}
		}
	}
	if n.Kind == yaml.ScalarNode {
		n.Value = strings.ReplaceAll(n.Value, "$", "$$")
	}
	for _, child := range n.Content {
		tidy(child)
	}
}
