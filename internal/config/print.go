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

// printed returns the effective configuration as YAML nodes: every key with its value, inputs of
// included files in their place, secrets masked.
func (c *Config) printed() (*yaml.Node, error) {
	top := c.Clusters[DefaultCluster]
	doc := document{
		Cluster: top.URL, Database: top.Database, Auth: top.Auth.Masked(), General: c.General,
		Inputs: new(yaml.Node), Clusters: map[string]clusterDoc{}, Batch: c.Batch, Sections: c.Sections,
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

// printInputs encodes the inputs into n, with masked secrets in their fields, and without keys that
// do not apply to formats read in blocks.
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

// maskFields returns a copy in which values of fields that are named like secrets are masked.
func maskFields(fields map[string]string) map[string]string {
	out := maps.Clone(fields)
	for name, value := range out {
		if value != "" && namesSecret(name) {
			out[name] = kusto.Mask
		}
	}
	return out
}

// namesSecret reports whether a key is named like that of a secret.
func namesSecret(key string) bool {
	_, found := findSecret(key + ": x")
	return found
}

// proxyUser finds the user and password of a proxy, which may hold any sign.
var proxyUser = regexp.MustCompile(`//.*@`)

func maskProxy(url string) string { return proxyUser.ReplaceAllLiteralString(url, "//"+kusto.Mask+"@") }

// drop removes the keys, with their values, from a YAML mapping; keys that it does not have are
// ignored.
func drop(n *yaml.Node, keys ...string) {
	dropPairs(n, func(key, _ *yaml.Node) bool { return slices.Contains(keys, key.Value) })
}

// dropPairs removes those keys from a YAML mapping, with their values, for which is returns true.
func dropPairs(n *yaml.Node, is func(key, value *yaml.Node) bool) {
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if is(n.Content[i], n.Content[i+1]) {
			n.Content = slices.Delete(n.Content, i, i+2)
		}
	}
}

// tidy removes keys whose value is null from a YAML node, at all levels.
func tidy(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		dropPairs(n, func(_, value *yaml.Node) bool { return isNull(value) })
	}
	for _, child := range n.Content {
		tidy(child)
	}
}

// escape prepares values for a text that is read again: each $ is doubled, so that no variable is
// replaced then, and what has unprintable characters is written in double quotes, since YAML allows
// escapes only there. Keys get the quotes alone, as they are not expanded.
func escape(n *yaml.Node, isKey bool) {
	if n.Kind == yaml.ScalarNode {
		if !isKey {
			n.Value = strings.ReplaceAll(n.Value, "$", "$$")
		}
		if printable(n.Value) != n.Value {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for i, child := range n.Content {
		escape(child, n.Kind == yaml.MappingNode && i%2 == 0)
	}
}

// escapeOdd replaces unprintable characters of a YAML text, other than line ends, by the escapes
// \uXXXX and \UXXXXXXXX. These stand in double quotes, into which escape has put every value that
// has such characters.
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
