package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/format"
	"kusto-agent/internal/kusto"
)

// printed is the effective configuration as the nodes of a file: every key
// with the value that holds, included inputs in their place, secrets masked.
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
	if err := c.printInputs(doc.Inputs); err != nil {
		return nil, fmt.Errorf("write inputs: %w", err)
	}
	n := new(yaml.Node)
	if err := n.Encode(doc); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	drop(n, "include") // what was included stands in its place
	if top.URL == "" {
		drop(n, "cluster", "database", "auth")
	}
	tidy(n)
	return n, nil
}

// printInputs makes nodes of the inputs. What cannot be written for a format is
// left out.
func (c *Config) printInputs(n *yaml.Node) error {
	inputs := slices.Clone(c.Inputs)
	for i := range inputs {
		inputs[i].Fields = maskFields(inputs[i].Fields)
	}
	if err := n.Encode(inputs); err != nil {
		return err
	}
	for i, item := range n.Content {
		if spec, _ := format.Of(inputs[i].Format); spec.Ends == format.InBlocks {
			drop(item, blockless...)
		}
	}
	return nil
}

// maskFields is a copy in which the value of what is named like a secret is
// not told.
func maskFields(fields map[string]string) map[string]string {
	out := maps.Clone(fields)
	for name, value := range out {
		if value != "" && namesSecret(name) {
			out[name] = kusto.Mask
		}
	}
	return out
}

// namesSecret says whether a key is called as if its value were a secret.
func namesSecret(key string) bool {
	_, found := findSecret(key + ": x")
	return found
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

// keep removes all keys but one from a mapping, and returns its value.
func keep(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = n.Content[i : i+2]
			return n.Content[1]
		}
	}
	return new(yaml.Node)
}

// tidy leaves out what has no value.
func tidy(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			if isNull(n.Content[i+1]) {
				n.Content = slices.Delete(n.Content, i, i+2)
			}
		}
	}
	for _, child := range n.Content {
		tidy(child)
	}
}

// escapeDollars doubles each $ of a value, so that nothing is replaced when the
// text is read again. In keys nothing is.
func escapeDollars(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		n.Value = strings.ReplaceAll(n.Value, "$", "$$")
	}
	for i, child := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			escapeDollars(child)
		}
	}
}

// quoteOdd has values and keys with characters that are not to reach a terminal
// written in quotes, where they can be escaped.
func quoteOdd(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && printable(n.Value) != n.Value {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quoteOdd(child)
	}
}

// escapeOdd escapes such characters in the text that was made of the values.
func escapeOdd(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
