package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/format"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/rules"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
	"kusto-agent/sender"
	"kusto-agent/tail"
)

// key is one key that a file can have. What there is of them follows from the
// structs that the decoder fills, and their values from the checks of the rooms.
type key struct {
	path    string // those of an input begin with inputs., those of a named cluster with clusters.
	name    string // the last word of path
	typ     reflect.Type
	preset  reflect.Value // what holds where no file says anything
	allowed []string      // all values there are; nil: they cannot be listed
	keyText
	keys []*key // of a section, or of each of a list of sections, in the order of the struct
}

// everything is the file as a whole, with all its keys.
var everything = sync.OnceValue(func() *key {
	k := &key{typ: reflect.TypeFor[document](), preset: reflect.ValueOf(defaultDocument())}
	k.keyText = textOf("")
	k.addKeys(k.typ, k.preset, allowedValues())
	return k
})

// addKeys adds the keys of the struct type t to the section k, and the keys of sections inside it.
// preset is a value of t with the defaults; allowed has the values of keys with a fixed list, by
// path.
func (k *key) addKeys(t reflect.Type, preset reflect.Value, allowed map[string][]string) {
	for _, f := range reflect.VisibleFields(t) {
		name, ok := keyOf(f)
		if !ok {
			continue
		}
		sub := &key{path: join(k.path, name), name: name, typ: f.Type, preset: preset.FieldByIndex(f.Index)}
		sub.keyText = textOf(sub.common())
		sub.allowed = allowed[sub.common()]
		if section, values := sectionOf(sub.typ, sub.preset); section != nil {
			sub.addKeys(section, values, allowed)
		}
		k.keys = append(k.keys, sub)
	}
}

// sectionOf returns the struct type into which the value of a key is decoded, and its defaults. t
// is the type of the key and preset its default. The type is nil if the key is not a section but a
// single value or a list of them.
func sectionOf(t reflect.Type, preset reflect.Value) (reflect.Type, reflect.Value) {
	switch {
	case t == reflect.TypeFor[*yaml.Node]():
		return reflect.TypeFor[Input](), reflect.ValueOf(defaultInput())
	case isSections(t):
		return t.Elem(), reflect.Zero(t.Elem())
	case t.Kind() == reflect.Map || t.Kind() == reflect.Pointer:
		if values, ok := fresh[t.Elem()]; ok {
			return t.Elem(), reflect.ValueOf(values)
		}
	case t.Kind() == reflect.Struct && !readsItself(t):
		return t, preset
	}
	return nil, reflect.Value{}
}

// isSections reports whether a type is a list of sections.
func isSections(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// readsItself reports whether values of a type have an UnmarshalText method, which decodes them.
func readsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// commonPaths are sections that stand in several places and mean the same there.
var commonPaths = map[string]string{"inputs.batch": "batch", "clusters.auth": "auth"}

// common returns the path under which a key is explained. A section that can be written in several
// places has one path for all of them: inputs.batch.max_size gives batch.max_size.
func (k *key) common() string {
	for place, path := range commonPaths {
		if rest, ok := strings.CutPrefix(k.path, place); ok && (rest == "" || rest[0] == '.') {
			return path + rest
		}
	}
	return k.path
}

// all calls f for the key and for every key below it.
func (k *key) all(f func(*key)) {
	f(k)
	for _, sub := range k.keys {
		sub.all(f)
	}
}

// standard returns the default of a key as it would be written in a file; "" for a section, and for
// a key whose default is empty or no single value.
func (k *key) standard() string {
	if len(k.keys) > 0 || !k.preset.IsValid() {
		return ""
	}
	if v, ok := k.preset.Interface().(encoding.TextMarshaler); ok {
		text, _ := v.MarshalText() // of sizes and durations, which cannot fail
		return string(text)
	}
	switch k.preset.Kind() {
	case reflect.String, reflect.Bool, reflect.Int:
		return fmt.Sprint(k.preset)
	}
	return ""
}

// allowedValues returns the values that a key may have, by its path, for keys with a fixed list. To
// find them it runs the checks of the settings on empty values: the errors name the values that are
// wanted.
func allowedValues() map[string][]string {
	allowed := map[string][]string{"inputs.format": formatNames(), "inputs.multiline.preset": format.Presets(), "inputs.redact.preset": rules.Presets()}
	note := func(section string, err error) {
		for _, err := range leaves(err) {
			if bad, ok := err.(*units.KeyError); ok && bad.Want != nil {
				allowed[join(section, bad.Key)] = bad.Want
			}
		}
	}
	c := Config{}
	note("auth", credential.Config{}.Validate())
	note("inputs", tail.InputConfig{}.Check())
	note("batch", c.Batch.Validate())
	note("send", sender.Config{}.Validate())
	note("spool", c.Spool.Validate())
	note("quarantine", c.Quarantine.Validate())
	note("journal", c.Journal.Validate())
	note("telemetry", telemetry.Config{}.Validate())
	return allowed
}
