package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/credential"
)

// unknown reports a key that its section does not have, with what may have been meant. k is the
// node of the key, section the struct type of the section and path its path. A key that was
// probably meant is then not reported as missing. If the file has too many problems already, this
// one is only counted.
func (d *decoder) unknown(key string, k *yaml.Node, section reflect.Type, path string) {
	if d.src.out.full(d.src.name) {
		d.src.out.more++
		return
	}
	keys := slices.Sorted(maps.Keys(fieldsOf(section)))
	near, meant := Nearest(key, keys)
	stray := ""
	if !meant {
		stray = strayed(key)
	}
	if meant && !d.src.given(join(path, near)) {
		d.src.wrong[join(path, near)] = true
	}
	elsewhere := homesOf(key, section)
	message := "unknown key"
	switch {
	case len(elsewhere) > 0 && section == reflect.TypeFor[includedDoc]():
		message += " here; an included file holds only inputs, so move it to the main file"
	case len(elsewhere) > 0:
		message += " here; it belongs to " + orList(elsewhere)
	case meant:
		message += "; did you mean " + near + "?"
	case stray != "":
		message += "; did you mean " + stray + "?"
	case len(keys) <= 12:
		message += "; want " + orList(keys)
	case section == reflect.TypeFor[Input]():
		message += "; for all there are: kusto-agent config explain inputs"
	default:
		message += "; for all there are: kusto-agent config explain"
	}
	if section == reflect.TypeFor[credential.Config]() && !isWord(key) { // it may be a secret
		key = kusto.Mask
	}
	d.src.badAt(k.Line, k.Column, join(path, shortened(key)), message)
}

// strayed returns the key of any section that is most similar to what was typed, with the sections
// that have it, in words; "" if none is similar.
func strayed(typed string) string {
	homes := sectionsOfKeys()
	near, meant := Nearest(typed, slices.Sorted(maps.Keys(homes)))
	if !meant {
		return ""
	}
	return near + ", which belongs to " + orList(homes[near])
}

// sectionsOfKeys returns, by key, the sections that have it, in words. Of sections within others it
// has those of the top level alone.
var sectionsOfKeys = sync.OnceValue(func() map[string][]string {
	homes := map[string][]string{}
	add := func(where string, t reflect.Type) {
		for key := range fieldsOf(t) {
			homes[key] = append(homes[key], where)
		}
	}
	for _, s := range sections {
		add(s.where, reflect.TypeOf(s.keys))
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[document]()) {
		if section, ok := keyOf(f); ok && f.Type.Kind() == reflect.Struct {
			add(section, f.Type)
		}
	}
	return homes
})

// homesOf returns the sections that have the key, in words. from is the type of the section in
// which the key was found. If sections inside that one have the key, only these are returned, as
// they are the likeliest.
func homesOf(key string, from reflect.Type) []string {
	if homes := homesWithin(key, from, ""); len(homes) > 0 {
		return homes
	}
	var homes []string
	for _, s := range sections {
		t := reflect.TypeOf(s.keys)
		if t == from {
			continue
		}
		if _, ok := fieldsOf(t)[key]; ok {
			homes = append(homes, s.where)
		}
		if t == reflect.TypeFor[document]() {
			homes = append(homes, homesWithin(key, t, "")...)
		}
	}
	return homes
}

// homesWithin returns the paths of the sections inside the struct type t, at any depth, that have
// the key. path is the path of t.
func homesWithin(key string, t reflect.Type, path string) (homes []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, ok := keyOf(f)
		if !ok || f.Type.Kind() != reflect.Struct {
			continue
		}
		if _, has := fieldsOf(f.Type)[key]; has {
			homes = append(homes, join(path, name))
		}
		homes = append(homes, homesWithin(key, f.Type, join(path, name))...)
	}
	return homes
}

// Nearest returns the one of words that a person most likely meant by typed; false if none is
// similar enough: one letter may differ, or up to a third of the letters.
func Nearest(typed string, words []string) (string, bool) {
	const most = 64 // no word is that long, and the cost grows with it
	if len(typed) > most {
		return "", false
	}
	best, bestDistance := "", len(typed)
	for _, w := range words {
		if diff := len(typed) - len(w); diff > len(typed)/2+1 || -diff > len(typed)/2+1 {
			continue
		}
		if d := distance(plainKey(typed), plainKey(w)); d < bestDistance {
			best, bestDistance = w, d
		}
	}
	return best, best != "" && bestDistance <= max(1, len(best)/3)
}

// plainKey takes away what differs between max-size, maxSize and max_size.
func plainKey(s string) string { return joiners.Replace(strings.ToLower(s)) }

var joiners = strings.NewReplacer("_", "", "-", "", " ", "")

// distance returns how many letters have to be added, removed, changed or swapped with their neighbour
// to get from a to b.
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// orList returns words as a list in a sentence: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return fmt.Sprintf("%s or %s", strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
}
