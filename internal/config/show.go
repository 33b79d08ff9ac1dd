package config

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Show writes the effective configuration as a file that loads to the same settings: every key with
// its value, variables replaced, included inputs in place, secrets masked. A comment after each value
// says where it came from. With the name of an input only that input is written, as in an included
// file.
func (t Traced) Show(w io.Writer, input string) error {
	doc, first, err := t.document(input)
	if err != nil {
		return err
	}
	text, err := encoded(doc)
	if err != nil {
		return err
	}
	// The text is parsed again to learn on which line each value stands.
	var set yaml.Node
	if err := yaml.Unmarshal(text, &set); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	shown := escapeOdd(string(text))
	comments := map[int]string{}
	each(set.Content[0], "", func(path string, n *yaml.Node) {
		value := strings.ReplaceAll(n.Value, "$$", "$")
		comments[n.Line] = t.origin(renumbered(path, first), value).String()
	})
	_, err = io.WriteString(w, commented(shown, comments))
	return err
}

// Masked returns the text that Show writes, without comments: the present configuration without
// secrets.
func (c *Config) Masked() (string, error) {
	doc, err := c.printed()
	if err != nil {
		return "", err
	}
	text, err := encoded(doc)
	if err != nil {
		return "", err
	}
	return escapeOdd(string(text)), nil
}

// encoded returns the YAML text of doc. Before that it changes doc: dollar signs are doubled, and
// values with unprintable characters get double quotes.
func encoded(doc *yaml.Node) ([]byte, error) {
	escape(doc, false)
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return text.Bytes(), nil
}

// Shown returns what Show writes as data for JSON: the configuration, and the origin of each
// value by its path. input is the name of the only input to show; empty: all inputs. The paths
// name the inputs by their index in the whole configuration. Dollar signs are not doubled as in
// Show.
func (t Traced) Shown(input string) (Shown, error) {
	doc, first, err := t.document(input)
	if err != nil {
		return Shown{}, err
	}
	s := Shown{From: map[string]Origin{}}
	each(doc, "", func(path string, n *yaml.Node) {
		s.From[path] = t.origin(renumbered(path, first), n.Value)
	})
	err = doc.Decode(&s.Config)
	return s, err
}

// Shown is an effective configuration with the origins of its values.
type Shown struct {
	Config map[string]any    `json:"config"`
	From   map[string]Origin `json:"from"`
}

// document returns the YAML nodes of the configuration to show: all of it, or only the input with
// this name if input is not empty. first is the index, in the whole configuration, of the first
// input in doc.
func (t Traced) document(input string) (doc *yaml.Node, first int, err error) {
	if doc, err = t.printed(); err != nil || input == "" {
		return doc, 0, err
	}
	if err := t.HasInput(input); err != nil {
		return nil, 0, err
	}
	first = slices.IndexFunc(t.Inputs, func(in Input) bool { return in.Name == input })
	dropPairs(doc, func(key, _ *yaml.Node) bool { return key.Value != "inputs" })
	inputs := doc.Content[1] // there is one at least
	inputs.Content = inputs.Content[first : first+1]
	return doc, first, nil
}

// HasInput returns nil if there is an input with this name, or if name is ""; otherwise an error that
// names the existing ones.
func (c *Config) HasInput(name string) error {
	var names []string
	for _, in := range c.Inputs {
		names = append(names, in.Name)
	}
	if name == "" || slices.Contains(names, name) {
		return nil
	}
	if near, meant := Nearest(name, names); meant {
		return fmt.Errorf("there is no input %q; did you mean %s?", name, near)
	}
	return fmt.Errorf("there is no input %q; want %s", name, orList(names))
}

// renumbered returns a path with the index of its input raised by first. It turns a path of a
// document that shows one input only into a path of the whole configuration.
func renumbered(path string, first int) string {
	if i, rest, ok := inputAt(path); ok {
		return fmt.Sprintf("inputs[%d]%s", i+first, rest)
	}
	return path
}

// each calls f for every value below n that is no section or list with content, with its path; path
// is that of n itself.
func each(n *yaml.Node, path string, f func(path string, n *yaml.Node)) {
	switch {
	case len(n.Content) == 0:
		f(path, n)
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			each(n.Content[i+1], join(path, n.Content[i].Value), f)
		}
	default:
		for i, item := range n.Content {
			each(item, fmt.Sprintf("%s[%d]", path, i), f)
		}
	}
}

// commentColumn is where comments begin, but behind values that reach further.
const commentColumn = 48

// commented returns text with the comments, which are given by line number from 1, at the ends of
// its lines.
func commented(text string, comments map[int]string) string {
	var b strings.Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		b.WriteString(line)
		if comment := comments[number]; comment != "" {
			b.WriteString(strings.Repeat(" ", max(commentColumn-utf8.RuneCountInString(line), 2)) + "# " + comment)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
