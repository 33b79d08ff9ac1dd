package config

import (
	"encoding"
	"errors"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"kusto-agent/sender"
)

// word is one value with its variables replaced.
type word struct {
	text     string
	quoted   bool // in quotes or a block, so that it is text whatever it looks like
	expanded bool // typed by what was put in
	tag      string
}

// maxWord is the longest value taken, in bytes.
const maxWord = 16 << 10

// word returns the single value of the node n with its variables replaced. ok is false if n is not
// a usable single value, which is then reported. The place that is stored for path gets the value
// as it was written and, if variables were replaced, the value after that.
func (d *decoder) word(n *yaml.Node, path string) (w word, ok bool) {
	switch {
	case n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0:
		d.src.bad(path, "%s; want a single value, in quotes if it begins with a brace", kindName(n))
		return w, false
	case n.Kind != yaml.ScalarNode:
		d.src.bad(path, "%s; want a single value", kindName(n))
		return w, false
	case isNull(n):
		d.src.bad(path, "no value; %s", wantedAt(path))
		return w, false
	case len(n.Value) > maxWord:
		d.src.bad(path, "longer than %d KiB; want a shorter value", maxWord>>10)
		return w, false
	}
	text, err := expand(n.Value, d.env)
	if err != nil {
		d.src.bad(path, "%v", err)
		return w, false
	}
	if strings.ContainsRune(text, 0) {
		d.src.bad(path, "a NUL character in the value; remove it")
		return w, false
	}
	w = word{text: text, tag: n.ShortTag(), quoted: n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0}
	p := d.src.places[path]
	p.written = n.Value
	if w.expanded = text != n.Value; w.expanded {
		p.expanded = text
	}
	d.src.places[path] = p
	return w, true
}

// wantedAt returns what to write at a path that has no value: what its key takes, in words. "" is
// advised only where it is text, as other values cannot be empty.
func wantedAt(path string) string {
	k := keyAt(path)
	switch {
	case k != nil && k.allowed != nil:
		return "leave the key out, or write " + orList(k.allowed)
	case k != nil && (k.typ.Kind() == reflect.Slice || k.typ.Kind() == reflect.Map):
		return "give one, or leave it out"
	case k != nil && (k.typ.Kind() != reflect.String || readsItself(k.typ)):
		return "leave the key out, or write " + k.typeWords()
	}
	return "give one, write \"\" for none, or leave the key out"
}

// quote returns the value in quotes for a message about the key at path, or "this value" if it may
// be a secret: if a variable filled it in, or the key holds secrets.
func (w word) quote(path string) string {
	if w.expanded || isSecret(path) {
		return "this value"
	}
	return strconv.Quote(shortened(w.text))
}

// isSecret reports whether the value at a path must never be shown.
func isSecret(path string) bool {
	return strings.HasSuffix(path, "client_secret") || strings.HasSuffix(path, "proxy")
}

// scalar decodes the single value of node n into v, a string, bool or int, and reports at path a
// value of another type. A value in quotes counts as text, unless a variable was replaced in it.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	w, ok := d.word(n, path)
	if !ok {
		return
	}
	switch v.Kind() {
	case reflect.String:
		if w.tag == "!!bool" && !w.quoted && !w.expanded {
			d.src.bad(path, "%s is a boolean value; put it in quotes if the text is meant", w.quote(path))
			return
		}
		v.SetString(w.text)
	case reflect.Bool:
		if w.text != "true" && w.text != "false" || w.quoted && !w.expanded {
			d.src.bad(path, "%s is text; want true or false, without quotes", w.quote(path))
			return
		}
		v.SetBool(w.text == "true")
	case reflect.Int:
		i, err := strconv.Atoi(w.text)
		if errors.Is(err, strconv.ErrRange) {
			d.src.bad(path, "%s is out of range; want a whole number such as 8", w.quote(path))
			return
		}
		if err != nil || w.quoted && !w.expanded {
			d.src.bad(path, "%s is not a whole number; want one such as 8, without quotes", w.quote(path))
			return
		}
		v.SetInt(int64(i))
	default:
		panic("config: no key can be of type " + v.Type().String())
	}
}

// text decodes the single value of node n with the UnmarshalText method of v, such as a size or a
// duration, and reports its error at path.
func (d *decoder) text(n *yaml.Node, v encoding.TextUnmarshaler, path string) {
	w, ok := d.word(n, path)
	if !ok {
		return
	}
	if _, counts := v.(*sender.Concurrency); counts && w.quoted && !w.expanded && w.text != "auto" {
		d.src.bad(path, "%s is not a whole number; want one such as 8, without quotes, or auto", w.quote(path))
		return
	}
	if err := v.UnmarshalText([]byte(w.text)); err != nil {
		d.src.bad(path, "%s: %v", w.quote(path), err)
	}
}

// kindName returns the words for a node that is not a single value: a list or a section.
func kindName(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		return "a list"
	}
	return "a section of keys"
}

// shortened returns a value for a message, cut to 64 characters.
func shortened(s string) string {
	const most = 64
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
