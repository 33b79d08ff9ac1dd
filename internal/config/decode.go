package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/rules"
	"kusto-agent/tail"
)

// decoder fills structs from the nodes of one file. The library could do it,
// but it stops at the first mistake and tells no column.
type decoder struct {
	src *source
	env Env
}

// fresh are the values that a section begins with which is not there unless
// the file gives it.
var fresh = map[reflect.Type]any{
	reflect.TypeFor[tail.Multiline]():    tail.DefaultMultiline(),
	reflect.TypeFor[tail.Time]():         tail.DefaultTime(),
	reflect.TypeFor[rules.Sample]():      rules.Sample{},
	reflect.TypeFor[credential.Config](): credential.DefaultConfig(),
	reflect.TypeFor[clusterDoc]():        clusterDoc{},
}

// value decodes the node n into v, which holds the default. Mistakes are reported at path, the path
// of the key in the file, and v then keeps its default.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		d.src.wrong[path] = true // reported by inspect
		return
	}
	if keep, ok := v.Addr().Interface().(**yaml.Node); ok {
		*keep = n
		return
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, text, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !isNull(n) {
			v.Set(reflect.New(v.Type().Elem()))
			v.Elem().Set(reflect.ValueOf(fresh[v.Type().Elem()]))
			d.value(n, v.Elem(), path)
		}
	case reflect.Struct:
		d.section(n, v, path)
	case reflect.Map:
		d.table(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// section decodes a mapping into a struct and reports keys that the struct does not have.
func (d *decoder) section(n *yaml.Node, v reflect.Value, path string) {
	if !d.isMapping(n, path) {
		return
	}
	keys := fieldsOf(v.Type())
	d.pairs(n, path, func(key string, k, val *yaml.Node) {
		i, known := keys[key]
		if !known {
			d.unknown(key, k, v.Type(), path)
			return
		}
		d.value(val, v.FieldByIndex(i), join(path, key))
	})
}

// table decodes a mapping whose keys the user chooses, such as clusters, into the map v. An empty
// mapping leaves v unchanged.
func (d *decoder) table(n *yaml.Node, v reflect.Value, path string) {
	if !d.isMapping(n, path) || len(n.Content) == 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, path, func(key string, _, val *yaml.Node) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(val, elem, join(path, key))
		v.SetMapIndex(reflect.ValueOf(key), elem)
	})
}

// list decodes a sequence into the slice v. A single value counts as a list of one; an empty list
// leaves v unchanged.
func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	items := []*yaml.Node{n}
	switch {
	case isNull(n), n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return
	case n.Kind == yaml.SequenceNode:
		items = n.Content
	case n.Kind == yaml.MappingNode && v.Type().Elem().Kind() != reflect.Struct:
		d.src.bad(path, "a section; want a list, such as [a, b]")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.src.mark(at, item)
		d.value(item, out.Index(i), at)
	}
	v.Set(out)
}

// isMapping reports whether n is a section with keys, to be decoded. It is false for a section
// without a value, whose keys may all be commented out, and for anything else, which is reported as
// a mistake.
func (d *decoder) isMapping(n *yaml.Node, path string) bool {
	switch {
	case n.Kind == yaml.MappingNode:
		return true
	case isNull(n):
	case n.Kind == yaml.SequenceNode:
		d.src.bad(path, "a list; want a section of keys, without the dash")
	default:
		d.src.bad(path, "a single value; want a section of keys, each as key: value")
	}
	return false
}

// pairs calls f for each key of the mapping n, with the key as text and the nodes of key and value.
// A key that comes twice is reported, and f is called for the first only; keys that are no plain
// words are left out.
func (d *decoder) pairs(n *yaml.Node, path string, f func(key string, k, v *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch line, doubled := first[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Tag == "!!merge":
			// reported by inspect
		case k.Value == "":
			d.src.badAt(k.Line, k.Column, path, "a key without a name; want key: value")
		case doubled:
			d.src.badAt(k.Line, k.Column, join(path, shortened(k.Value)), fmt.Sprintf("given twice; it is also on line %d", line))
		default:
			first[k.Value] = k.Line
			d.markPair(join(path, k.Value), k, v)
			f(k.Value, k, v)
		}
	}
}

// markPair stores the place to which errors about a key point: its value, if that is on the same line,
// otherwise the key.
func (d *decoder) markPair(path string, k, v *yaml.Node) {
	if v.Kind == yaml.ScalarNode && !isNull(v) && v.Line == k.Line {
		d.src.mark(path, v)
		return
	}
	d.src.mark(path, k)
}

// inspect reports YAML features that a configuration must not use, in n and below: aliases,
// anchors, tags, merge keys, keys that are no words, and too deep nesting. depth is the depth of n,
// 1 for the root.
func inspect(n *yaml.Node, src *source, depth int) {
	complain := func(message string) { src.badAt(n.Line, n.Column, "", message) }
	switch {
	case depth > maxDepth:
		complain(fmt.Sprintf("nested too deep; want no more than %d levels", maxDepth))
		return
	case n.Kind == yaml.AliasNode:
		complain("an alias (*name); write its value out here, or put a value that begins with * in quotes")
	case n.Anchor != "":
		complain("an anchor (&name), which is not taken; remove it, or put a value that begins with & in quotes")
	case n.Style&yaml.TaggedStyle != 0:
		complain("a tag, which is not taken; remove it, or put a value that begins with ! in quotes")
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch {
			case child.Tag == "!!merge":
				src.badAt(child.Line, child.Column, "", "a merge key (<<); write the keys out here")
			case child.Kind == yaml.MappingNode || child.Kind == yaml.SequenceNode:
				src.badAt(child.Line, child.Column, "", "brackets where a key is wanted; put a value that begins with { or [ in quotes")
				continue
			}
		}
		inspect(child, src, depth+1)
	}
}

// fieldsOf returns the index of each field of the struct type t, as reflect.FieldByIndex takes it,
// by its YAML key. Fields of embedded structs are included.
func fieldsOf(t reflect.Type) map[string][]int {
	keys := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name, ok := keyOf(f); ok {
			keys[name] = f.Index
		}
	}
	return keys
}

// keyOf returns the YAML key of a field; false if the field is not read from files.
func keyOf(f reflect.StructField) (string, bool) {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name, name != "" && name != "-"
}

// join returns the path of a key below a path, with a dot between; the key alone if path is empty.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
