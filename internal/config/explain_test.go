package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/units"
)

// Every key has a text and an example, and no text is for a key that is none.
func TestEveryKeyIsExplained(t *testing.T) {
	known := map[string]bool{}
	everything().all(func(k *key) {
		known[k.common()] = true
		if k.path == "" {
			return
		}
		if k.about == "" || !strings.HasSuffix(k.about, ".") {
			t.Errorf("%s is not explained: %q", k.path, k.about)
		}
		if len(k.keys) == 0 && k.standard() == "" && k.without == "" {
			t.Errorf("%s: it is not said what holds without it", k.path)
		}
		if k.example == "" {
			t.Errorf("%s has no example", k.path)
		}
	})
	for path := range maps.Keys(keyTexts) {
		if !known[path] {
			t.Errorf("%q is no key", path)
		}
	}
	for path := range maps.Keys(inputTexts) {
		if !known[path] {
			t.Errorf("%q is no key", path)
		}
	}
}

// Every example is taken, by the schema too, and so is every value that is
// listed; and the bounds that are told are those that hold.
func TestExplanationsHold(t *testing.T) {
	valid := validator(t)
	take := func(k *key, value string) {
		t.Helper()
		if value == "" {
			return
		}
		if said := toldOf(t, k.path, value); said != "" && !dependent.MatchString(said) {
			t.Errorf("%s: %s is told %s", k.path, value, said)
		}
		if err := valid(at(k.path, value)); err != nil {
			t.Errorf("%s: %s: %v", k.path, value, err)
		}
	}
	refuse := func(k *key, value string) {
		t.Helper()
		if value != "" && toldOf(t, k.path, value) == "" {
			t.Errorf("%s: %s is taken, beyond %s to %s", k.path, value, k.least, k.most)
		}
	}
	everything().all(func(k *key) {
		if k.path == "" {
			return
		}
		take(k, k.example)
		for _, value := range k.allowed {
			take(k, `"`+value+`"`)
		}
		take(k, k.least)
		take(k, k.most)
		refuse(k, beyond(t, k, k.least, -1))
		refuse(k, beyond(t, k, k.most, 1))
	})
}

// beyond is the next value below or above a bound; empty where there is none.
func beyond(t *testing.T, k *key, bound string, step int) string {
	t.Helper()
	if bound == "" {
		return ""
	}
	v := reflect.New(k.typ)
	if err := yaml.Unmarshal([]byte(bound), v.Interface()); err != nil {
		t.Errorf("%s: the bound %s: %v", k.path, bound, err)
		return ""
	}
	switch n := v.Elem().Int() + int64(step); k.typ {
	case reflect.TypeFor[units.Duration]():
		return fmt.Sprintf("%dns", n)
	default:
		return fmt.Sprint(n)
	}
}

func TestExplain(t *testing.T) {
	f := func(name, path, problem string) {
		t.Helper()
		topic, err := Explain(name)
		switch {
		case problem == "" && err != nil, problem == "" && topic.Key != path:
			t.Errorf("%q leads to %q, %v; want %q", name, topic.Key, err, path)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%q: %v; want %q", name, err, problem)
		}
	}
	f("", "", "")
	f("batch.max_size", "batch.max_size", "")
	f("inputs.batch.max_size", "batch.max_size", "")
	f("inputs[2].start_at", "inputs.start_at", "")
	f("start_at", "inputs.start_at", "")
	f("clusters.dr.auth.method", "auth.method", "")
	f("clusters.auth.method", "auth.method", "")
	f("clusters.dr.url", "clusters.url", "")
	f("clusters", "clusters", "")
	f("database", "database", "")
	f("retry.max", "send.retry.max", "")
	f("auth", "auth", "")
	f("max_size", "", "batch.max_size, spool.max_size, quarantine.max_size or journal.max_size")
	f("max_wait", "", "inputs.multiline.max_wait")
	f("batch.maxsize", "", "did you mean batch.max_size?")
	f("start-at", "", "did you mean inputs.start_at?")
	f("spool.max_wait", "", "did you mean")
	f("zzzzzzzz", "", "want one of cluster, database")

	topic, err := Explain("auth")
	if err != nil || len(topic.Keys) != 12 || topic.Places[1] != "clusters.NAME.auth, in a cluster under clusters" {
		t.Errorf("%+v, %v", topic, err)
	}
	if got := len(Keys()); !slices.Contains(Keys(), "batch.max_size") || slices.Contains(Keys(), "inputs.batch.max_size") {
		t.Errorf("%d keys: %q", got, Keys())
	}
	var out bytes.Buffer
	if topic, err = Explain("inputs.batch.gzip_level"); err != nil {
		t.Fatal(err)
	}
	if err := topic.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := `batch.gzip_level
  How hard requests are compressed: 1 is the fastest, 9 the smallest.

  type     a whole number
  range    1 to 9
  default  1
  stands   inputs[].batch.gzip_level, in an input
  or       batch.gzip_level, at the top level

  for example
    batch:
      gzip_level: 6
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
