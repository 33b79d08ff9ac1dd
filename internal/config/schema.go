package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/units"
	"kusto-agent/sender"
)

// Schema returns the JSON Schema (draft 2020-12) of the configuration and of included files, for
// marshalling. It accepts whatever Load accepts; Load also checks keys against each other and refuses
// more.
func Schema() map[string]any {
	root := everything()
	s := schemaOf(root, false)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "kusto-agent configuration"
	s["type"] = "object"
	s["anyOf"] = []any{
		schema{"required": []string{"cluster"}},
		schema{"required": []string{"clusters"}},
		schema{"required": []string{"inputs"}, "maxProperties": 1, "description": "a file to include"},
	}
	defs := words()
	root.all(func(k *key) {
		if k.path == k.common() && k.isShared() {
			defs[k.path] = schemaOf(k, false)
		}
	})
	s["$defs"] = defs
	return s
}

type schema = map[string]any

// isShared reports whether the key is a section that can be written in several places, such as batch:
// the schema defines it once and refers to it.
func (k *key) isShared() bool {
	return slices.Contains(slices.Collect(maps.Values(commonPaths)), k.common())
}

// Any value can be put together from variables, whatever it will be then.
const variablePattern = `\$\{[A-Za-z_][A-Za-z0-9_]*(:[-?][^}]*)?\}`

const (
	sizePattern     = `^[0-9]+(\.[0-9]+)? ?(([KkMmGgTt][Ii]?)?[Bb])?$`
	durationPattern = `^([0-9]+d)?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$|^[0-9]+d$`
)

// words returns the definitions of the schema for single values, such as size and duration, and for
// lists and maps of them. Where a value is not text, a text with variables such as ${NAME} is
// accepted too.
func words() schema {
	return schema{
		"variable": schema{"type": "string", "pattern": variablePattern},
		"text":     schema{"type": []string{"string", "number"}},
		"size":     orVariable(schema{"type": "integer", "minimum": 0}, schema{"type": "string", "pattern": sizePattern}),
		"duration": orVariable(schema{"const": 0}, schema{"type": "string", "pattern": durationPattern}),
		"truth":    orVariable(schema{"type": "boolean"}),
		"list":     schema{"anyOf": []any{ref("text"), schema{"type": []string{"array", "null"}, "items": ref("text")}}},
		"map":      schema{"type": []string{"object", "null"}, "additionalProperties": ref("text")},
	}
}

func ref(name string) schema { return schema{"$ref": "#/$defs/" + name} }

func orVariable(of ...any) schema { return schema{"anyOf": append(of, ref("variable"))} }

// schemaOf returns the schema of one key with description, default and example. If refer is set, a
// section that the schema defines once becomes a reference; without it the definition itself is
// returned.
func schemaOf(k *key, refer bool) schema {
	s := schemaOfValue(k, refer)
	s["description"] = k.description()
	switch standard := k.standard(); {
	case standard == "":
	case k.typ.Kind() == reflect.Bool, k.typ.Kind() == reflect.Int:
		s["default"] = fromYAML(standard)
	default:
		s["default"] = standard
	}
	if k.example != "" {
		s["examples"] = []any{fromYAML(k.example)}
	}
	return s
}

// schemaOfValue returns the schema of a key's value, without description. If refer is set, a
// section that the schema defines once becomes a reference.
func schemaOfValue(k *key, refer bool) schema {
	switch {
	case refer && k.isShared():
		return ref(k.common())
	case len(k.keys) > 0 && k.typ == reflect.TypeFor[*yaml.Node]():
		item := schemaOfKeys(k)
		item["type"] = "object"
		return schema{"type": []string{"array", "null"}, "items": item}
	case isSections(k.typ):
		item := schemaOfKeys(k)
		item["type"] = "object"
		return schema{"anyOf": []any{item, schema{"type": []string{"array", "null"}, "items": item}}}
	case len(k.keys) > 0 && k.typ.Kind() == reflect.Map:
		return schema{"type": []string{"object", "null"}, "additionalProperties": schemaOfKeys(k)}
	case len(k.keys) > 0:
		return schemaOfKeys(k)
	case k.allowed != nil && k.typ.Kind() == reflect.Slice:
		return schema{"anyOf": []any{schemaOfChoice(k), schema{"type": []string{"array", "null"}, "items": schemaOfChoice(k)}}}
	case k.allowed != nil:
		return schemaOfChoice(k)
	}
	switch k.typ {
	case reflect.TypeFor[units.Size]():
		return ref("size")
	case reflect.TypeFor[units.Duration]():
		return ref("duration")
	case reflect.TypeFor[sender.Concurrency]():
		s := schemaOfInt(k)
		s["anyOf"] = append(s["anyOf"].([]any), schema{"const": "auto"})
		return s
	}
	switch k.typ.Kind() {
	case reflect.Bool:
		return ref("truth")
	case reflect.Int:
		return schemaOfInt(k)
	case reflect.Slice:
		return ref("list")
	case reflect.Map:
		return ref("map")
	}
	return ref("text")
}

// needed are the keys without which their section is refused.
var needed = map[string][]string{"inputs": {"paths", "table"}, "clusters": {"url"}}

// schemaOfKeys returns the schema of a section with its keys. It allows null, which is the value of
// a section whose keys are all commented out.
func schemaOfKeys(k *key) schema {
	properties := schema{}
	for _, sub := range k.keys {
		properties[sub.name] = schemaOf(sub, true)
	}
	s := schema{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if need := needed[k.path]; need != nil {
		s["required"] = need
	}
	return s
}

// schemaOfInt returns the schema of a whole number within the key's range.
func schemaOfInt(k *key) schema {
	s := schema{"type": "integer"}
	if n, err := strconv.Atoi(k.least); err == nil {
		s["minimum"] = n
	}
	if n, err := strconv.Atoi(k.most); err == nil {
		s["maximum"] = n
	}
	return orVariable(s)
}

// schemaOfChoice returns the schema of a value out of the list k.allowed. Values that look like
// numbers are also accepted as numbers, and formats in any letter case.
func schemaOfChoice(k *key) schema {
	values := []any{}
	for _, word := range k.allowed {
		values = append(values, word)
		if n, err := strconv.ParseFloat(word, 64); err == nil {
			values = append(values, n)
		}
	}
	if k.path == "inputs.multiline.preset" {
		values = append(values, "") // as if it were not given
	}
	of := []any{schema{"enum": values}}
	if k.path == "inputs.format" {
		of = append(of, schema{"type": "string", "pattern": "^(" + strings.Join(inAnyCase(k.allowed), "|") + ")$"})
	}
	return orVariable(of...)
}

var letter = regexp.MustCompile(`[A-Za-z]`)

// inAnyCase returns patterns that match the words in any letter case; patterns of a JSON Schema have
// no flags for that.
func inAnyCase(words []string) (patterns []string) {
	for _, word := range words {
		patterns = append(patterns, letter.ReplaceAllStringFunc(word, func(l string) string {
			return "[" + strings.ToUpper(l) + strings.ToLower(l) + "]"
		}))
	}
	return patterns
}

// fromYAML returns the value that a YAML text stands for, for use in JSON. The text must be a
// constant of this program: if it is no YAML, fromYAML panics.
func fromYAML(text string) (v any) {
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		panic("config: an example is no YAML: " + err.Error())
	}
	return v
}
