package config

import (
	"cmp"
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
	case len(elsewhere) > 0 && section == reflect.TypeFor[includedDoc]() && (elsewhere[0] != "an input" || slices.Contains(elsewhere, "the top level")):
		message += " here; an included file holds only inputs, so move it to the main file"
	case len(elsewhere) > 0:
		message += " here; it belongs to " + homeList(elsewhere)
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
	return near + ", which belongs to " + homeList(homes[near])
}

// sectionsOfKeys returns, by key, the sections that have it, in words.
var sectionsOfKeys = sync.OnceValue(func() map[string][]string {
	homes := map[string][]string{}
	for _, home := range everything().sections() {
		for _, sub := range home.keys {
			homes[sub.name] = append(homes[sub.name], home.inWords(everything()))
		}
	}
	return homes
})

// homesOf returns the sections that have the key, in words. from is the type of the section in
// which the key was found. If sections inside that one have the key, only these are returned, as
// they are the likeliest.
func homesOf(name string, from reflect.Type) (homes []string) {
	all := everything().sections()
	in := everything() // an included file is not among the sections, and has words of its own
	if i := slices.IndexFunc(all, func(k *key) bool { return k.holds() == from }); i >= 0 {
		in = all[i]
	}
	for _, inside := range []*key{in, everything()} {
		for _, home := range inside.sections() {
			if home.holds() != from && slices.ContainsFunc(home.keys, func(sub *key) bool { return sub.name == name }) {
				homes = append(homes, home.inWords(inside))
			}
		}
		if len(homes) > 0 {
			break
		}
	}
	return homes
}

// sections returns k, if it is a section or a list of sections, and those below it. Inputs and what
// is in them come first. A section that can be written in several places, such as batch, comes once.
func (k *key) sections() (found []*key) {
	k.all(func(sub *key) {
		if len(sub.keys) > 0 && (sub.path == sub.common() || k.path != "") {
			found = append(found, sub)
		}
	})
	slices.SortStableFunc(found, func(a, b *key) int { return cmp.Compare(b.ofInputs(), a.ofInputs()) })
	return found
}

// ofInputs returns 1 for the section of an input and for those in it, otherwise 0.
func (k *key) ofInputs() int {
	if k.path == "inputs" || strings.HasPrefix(k.path, "inputs.") {
		return 1
	}
	return 0
}

// holds returns the struct type that a section, or each of a list of sections, is decoded into.
func (k *key) holds() reflect.Type {
	if k.path == "" {
		return k.typ
	}
	t, _ := sectionOf(k.typ, k.preset)
	return t
}

// inWords returns the words that tell people where a section is: its path below the section inside,
// or if that is the file as a whole, words for the path.
func (k *key) inWords(inside *key) string {
	if below, ok := strings.CutPrefix(k.path, inside.path+"."); ok {
		return below
	}
	switch below, ofInput := strings.CutPrefix(k.path, "inputs."); {
	case k.path == "":
		return "the top level"
	case k.path == "inputs":
		return "an input"
	case k.path == "clusters":
		return "a cluster under clusters"
	case ofInput:
		return below + " of an input"
	}
	return k.path
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

// homeList returns sections, in words, as a list in a sentence: keep, drop or redact of an input.
func homeList(homes []string) string {
	const ofInput = " of an input"
	homes = slices.Clone(homes)
	for i := range homes[:len(homes)-1] {
		if strings.HasSuffix(homes[i+1], ofInput) {
			homes[i] = strings.TrimSuffix(homes[i], ofInput)
		}
	}
	return orList(homes)
}

// orList returns words as a list in a sentence: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return fmt.Sprintf("%s or %s", strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
}
