package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/units"
	"kusto-agent/sender"
)

// Topic is what there is to say of one key, or of a section.
type Topic struct {
	Key     string   `json:"key"`            // as in batch.max_size; empty: the file as a whole
	About   string   `json:"about"`          // in sentences
	Type    string   `json:"type"`           // in words
	Default string   `json:"default"`        // a value, or what holds instead; empty: that of a section is in its keys
	Allowed []string `json:"allowed"`        // all values there are; nil: they cannot be listed
	Range   string   `json:"range"`          // in words; empty: none
	Places  []string `json:"places"`         // where it may stand, each as a path and in words
	Example string   `json:"example"`        // lines of a file
	Keys    []Topic  `json:"keys,omitempty"` // of a section
}

// Keys returns the paths of all keys that can be explained. A section that can be written in
// several places, such as batch, is listed once.
func Keys() (paths []string) {
	everything().all(func(k *key) {
		if k.path != "" && k.path == k.common() {
			paths = append(paths, k.path)
		}
	})
	return paths
}

// Explain returns the explanation of a key. name is its path (batch.max_size, inputs.start_at), a path
// from an error (inputs[2].start_at), or the end of a path if only one key has it; "" is the file as a
// whole. The error suggests what may have been meant.
func Explain(name string) (Topic, error) {
	path, err := findKey(name)
	if err != nil {
		return Topic{}, err
	}
	var topic Topic
	everything().all(func(k *key) {
		if k.path == path {
			topic = k.explained()
		}
	})
	return topic, nil
}

// keyAt returns the key whose value is at a path such as inputs[2].start_at, also of one item of a
// list; nil if there is none, as for a name that the user chose.
func keyAt(path string) (found *key) {
	path = withoutNames(path)
	everything().all(func(k *key) {
		if k.path == path {
			found = k
		}
	})
	return found
}

// withoutNames returns a path without the indexes of lists and the names of clusters:
// clusters.NAME.url becomes clusters.url.
func withoutNames(path string) string {
	path = strings.Trim(index.ReplaceAllString(strings.TrimSpace(path), ""), ".")
	if inCluster := strings.SplitN(path, ".", 3); len(inCluster) == 3 && inCluster[0] == "clusters" && inCluster[1] != "auth" {
		path = "clusters." + inCluster[2]
	}
	return path
}

var index = regexp.MustCompile(`\[[^]]*\]`)

// findKey returns the path of the key that a person means by name: the whole path, with or without
// the indexes of lists and names of clusters, or its end if only one key ends so. "" stands for the
// file as a whole. The error for an unknown or ambiguous name proposes others.
func findKey(name string) (string, error) {
	name = withoutNames(name)
	var paths, names []string
	var ends []string // of which the name is the end
	exact := ""
	everything().all(func(k *key) {
		common := k.common()
		switch {
		case k.path == name:
			exact = common
			fallthrough
		case k.path != common || k.path == "":
			return
		case strings.HasSuffix(k.path, "."+name):
			ends = append(ends, k.path)
		}
		paths, names = append(paths, k.path), append(names, k.name)
	})
	switch near, meant := Nearest(name, paths); {
	case exact != "" || name == "":
		return exact, nil
	case len(ends) == 1:
		return ends[0], nil
	case len(ends) > 1:
		return "", fmt.Errorf("%q is a key of several sections; want %s", name, orList(ends))
	case meant:
		return "", fmt.Errorf("there is no key %q; did you mean %s?", shortened(name), near)
	}
	if near, meant := Nearest(name[strings.LastIndex(name, ".")+1:], names); meant {
		for _, path := range paths {
			if path == near || strings.HasSuffix(path, "."+near) {
				ends = append(ends, path)
			}
		}
		return "", fmt.Errorf("there is no key %q; did you mean %s?", shortened(name), orList(ends))
	}
	return "", fmt.Errorf("there is no key %q; want one of %s", shortened(name), orList(topKeys()))
}

// topKeys returns the keys of the top level.
func topKeys() (names []string) {
	for _, k := range everything().keys {
		names = append(names, k.name)
	}
	return names
}

// explained returns the explanation of a key, with those of the keys of a section.
func (k *key) explained() Topic {
	t := k.topic()
	for _, sub := range k.keys {
		t.Keys = append(t.Keys, sub.topic())
	}
	return t
}

// topic returns the explanation of a key: its type, default, range, an example and the places where
// it can be written. The keys of a section are not in it; the caller adds them.
func (k *key) topic() Topic {
	t := Topic{
		Key: k.path, About: k.about, Type: k.typeWords(), Default: cmp.Or(k.standard(), k.without), Allowed: k.allowed,
		Range: k.rangeWords(), Example: k.exampleLines(),
	}
	everything().all(func(other *key) {
		if k.path != "" && other.common() == k.common() {
			t.Places = append(t.Places, other.place())
		}
	})
	return t
}

// place returns where a key can be written, as a path and in words.
func (k *key) place() string {
	path := k.path
	switch rest, isInput := strings.CutPrefix(path, "inputs."); {
	case isInput:
		return "inputs[]." + rest + ", in an input"
	case strings.HasPrefix(path, "clusters."):
		return "clusters.NAME." + strings.TrimPrefix(path, "clusters.") + ", in a cluster under clusters"
	}
	return path + ", at the top level"
}

// typeWords describes the type of the key's value for people, such as "a whole number".
func (k *key) typeWords() string {
	switch {
	case len(k.keys) > 0 && k.typ == reflect.TypeFor[*yaml.Node]():
		return "a list of sections of keys"
	case isSections(k.typ):
		return "a list of sections of keys, or one"
	case len(k.keys) > 0 && k.typ.Kind() == reflect.Map:
		return "sections of keys, by names of your choice"
	case len(k.keys) > 0:
		return "a section of keys"
	case k.typ == reflect.TypeFor[units.Size]():
		return "a size, such as 512KiB, 4MB or 1GiB; a plain number is bytes"
	case k.typ == reflect.TypeFor[units.Duration]():
		return "a duration, such as 500ms, 30s, 1h30m or 7d"
	case k.typ == reflect.TypeFor[sender.Concurrency]():
		return "auto, or a whole number"
	case k.allowed != nil && k.typ.Kind() == reflect.Slice:
		return "one of the allowed words, or a list of them"
	case k.allowed != nil:
		return "one of the allowed words"
	}
	switch k.typ.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Slice:
		return "a list of texts, or one"
	case reflect.Map:
		return "texts, by names of your choice"
	}
	return "a text"
}

// rangeWords returns the range of a key's value in words, from its bounds least and most; "" if
// there is none worth mentioning. 1ns is the bound of durations that must not be 0.
func (k *key) rangeWords() string {
	switch {
	case k.least == "1ns":
		return "more than 0"
	case k.least == "" || strings.Trim(k.least, "0s") == "" && k.most == "":
		return "" // no size or duration is negative
	case k.most == "":
		return k.least + " or more"
	}
	return k.least + " to " + k.most
}

// description returns the explanation of a key in sentences. If no value is the default, it ends
// with what holds without the key, in words.
func (k *key) description() string {
	if k.without == "" || k.standard() != "" {
		return k.about
	}
	return k.about + " Default: " + k.without + "."
}

// exampleLines returns the example of a key as lines of a configuration file, with the sections
// around it; "" if the key has no example. A named cluster is called dr there.
func (k *key) exampleLines() string {
	if k.example == "" {
		return ""
	}
	var b strings.Builder
	indent := ""
	section := func(name, below string) {
		b.WriteString(indent + name + ":\n")
		indent = strings.Repeat(" ", len(indent)) + below
	}
	sections := strings.Split(k.path, ".")
	for i, name := range sections[:len(sections)-1] {
		switch {
		case i == 0 && name == "inputs", i == 1 && sections[0] == "inputs" && slices.Contains(ruleLists, name):
			section(name, "  - ")
		case i == 0 && name == "clusters":
			section(name, "  ")
			section("dr", "  ")
		default:
			section(name, "  ")
		}
	}
	return b.String() + indent + k.name + ": " + k.example
}
