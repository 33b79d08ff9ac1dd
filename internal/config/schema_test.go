package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"kusto-agent/internal/units"
)

// validator checks text in YAML against the schema.
func validator(t *testing.T) func(text string) error {
	t.Helper()
	raw, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		t.Helper()
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
}

func TestSchemaTakesConfigurations(t *testing.T) {
	valid := validator(t)
	example, err := os.ReadFile("../../agent.yaml.example")
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	if err := trace(t, string(example)).Show(&shown, ""); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(example), shown.String(), minimal, top + "inputs: {}"[:8] + "\ninclude: a.yaml",
		"inputs: [{paths: /a.csv, table: A}]", "inputs: []",
		top + "batch:\nsend: {tls: {min_version: 1.3}}\ninputs: [{paths: [/a.x], table: 7, format: csv, batch: {max_wait: '${W}'}, watch: '${X:-auto}', multiline: {preset: java}}]",
	} {
		if err := valid(text); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
	for _, text := range []string{
		top, "inputs: [{paths: /a.csv, table: A}]\nbatch: {}", top + "inputs: [{table: A}]", top + "inputs: [null]", top + "include: []\ninputs: [a]",
		"clusters: {dr: {database: d}}", "clusters: {dr: {url: u, urll: d}}", top + "batchs: {}", "[]",
	} {
		err := valid(text)
		if _, told := Parse("agent.yaml", []byte(text), environ(), Options{}); err == nil && (told == nil || text != top) {
			t.Errorf("the schema takes\n%s", text)
		}
	}
}

// at is a configuration with a value at the path of a key, and nothing else
// that a section needs missing.
func at(path, value string) string {
	sections := strings.Split(path, ".")
	text := sections[len(sections)-1] + ": " + value
	for i := len(sections) - 2; i >= 0; i-- {
		with := ""
		switch strings.Join(sections[:i+1], ".") {
		case "inputs":
			for _, need := range []string{"paths: /none.json", "table: T", "mapping: m"} {
				if key, _, _ := strings.Cut(need, ":"); !strings.HasPrefix(text, key+":") {
					with += ", " + need
				}
			}
			text = "inputs: [{" + text + with + "}]"
			continue
		case "clusters":
			if !strings.HasPrefix(text, "url:") {
				with = ", url: 'https://dr.kusto.windows.net'"
			}
			text = "clusters: {dr: {" + text + with + "}}"
			continue
		}
		text = sections[i] + ": {" + text + "}"
	}
	for _, need := range []string{"cluster: https://c.kusto.windows.net", "database: d", "auth: {tenant: t, client_id: c, client_secret_file: /f}", "inputs: [{paths: /none.csv, table: N}]"} {
		if key, _, _ := strings.Cut(need, ":"); !strings.HasPrefix(text, key+":") {
			text += "\n" + need
		}
	}
	return text
}

// toldOf is what is said of the value at the path of a key.
func toldOf(t *testing.T, path, value string) string {
	t.Helper()
	say := told(t, "agent.yaml", at(path, value), "WORD", "word", "KUSTO_SECRET", secret)
	place := regexp.QuoteMeta(path)
	place = strings.Replace(place, `inputs\.`, `inputs\[0\]\.`, 1)
	place = strings.Replace(place, `clusters\.`, `clusters\.dr\.`, 1)
	for _, list := range ruleLists {
		place = strings.Replace(place, `\.`+list+`\.`, `\.`+list+`\[0\]\.`, 1)
	}
	return strings.Join(regexp.MustCompile(`(?m)^`+place+`[^:]*: .*$`).FindAllString(say, -1), "\n")
}

// What the decoder takes as the value of a key the schema takes, and what the
// schema refuses the decoder refuses. The other way round it holds where a
// value is not just any text.
func TestSchemaAgreesWithTheDecoder(t *testing.T) {
	valid := validator(t)
	values := []string{
		"x", "''", "1", "0", "-1", "1.5", "100000", "true", "'true'", "null", "[]", "[a]", "[a, 1]", "[[a]]", "[null]", "{}", "{a: b}", "{a: {b: c}}", "{a: 1}",
		"1s", "1h30m", "7d", "1d12h", "7 d", "1.5h", "'0'", "4MB", "'4 mb'", "1.5GiB", "4M", "auto", "none", "file", "JSON", "jSoN", "java", "1.2", "'1.2'",
		"'${WORD}'", "'${WORD:-1s}'", "'$WORD'", "2020-01-01", "yes",
	}
	everything().all(func(k *key) {
		if k.path == "" {
			return
		}
		for i, value := range values {
			if testing.Short() && i%4 > 0 {
				continue
			}
			said, err := toldOf(t, k.path, value), valid(at(k.path, value))
			isNeeded := value == "null" || value == "[]" || value == "{}" || value == "''" // told as missing, not as wrong
			free := k.typ.Kind() == reflect.String && k.allowed == nil || isNeeded || strings.Contains(value, "${WORD")
			switch {
			case said == "" && err != nil:
				t.Errorf("%s: %s is taken, and refused by the schema: %v", k.path, value, err)
			case said != "" && err == nil && !free && !refusedFor(k, said):
				t.Errorf("%s: %s is told %q, and taken by the schema", k.path, value, said)
			}
		}
	})
}

// dependent finds what is said of a value for what other keys say, or the
// files of the machine.
var dependent = regexp.MustCompile(`not available yet|missing; method|no rule of redact uses it|method auto does not use it|is given too|only with parse|parse: \w+ makes|has no header|none of clusters|` +
	`none is for a cluster|no such file|needs the name|needs a spool|names of the files|have no columns`)

// refusedFor says whether a value is refused for more than a schema can say: for
// the bounds of a size or a duration, or as what it means and not what it is.
func refusedFor(k *key, said string) bool {
	if regexp.MustCompile(`out of range|want at least|is more than|is less than`).MatchString(said) {
		return k.typ != reflect.TypeFor[int]()
	}
	return dependent.MatchString(said) || regexp.MustCompile(`not a pattern|not a whole number of bytes|either|not a URL|no place|begins with`).MatchString(said)
}

// The pattern for durations is what the parser takes.
func TestDurationPattern(t *testing.T) {
	pattern := regexp.MustCompile(durationPattern)
	for _, text := range []string{"1", "0", "00", "1s", "1.s", ".5s", ".s", "1.5h", "1d", "1d1h", "1h1d", "1d0", "0d", "-1s", "+1s", "1µs", "1μs", "1us", "1 s", "1S", "s", "d", "1m30s500ms", "1d1d", "1x"} {
		_, err := units.ParseDuration(text)
		if got := pattern.MatchString(text); got != (err == nil) {
			t.Errorf("%q: pattern %v, parser %v", text, got, err)
		}
	}
}

func TestSizePattern(t *testing.T) {
	pattern := regexp.MustCompile(sizePattern)
	for _, text := range []string{"", "1", "1.", ".5MB", "1B", "1b", "1k", "1kB", "1 KiB", "1  KiB", "1Kib", "1.5GiB", "1iB", "-1", "1e3", "1_0", "1TB", "1PB"} {
		_, err := units.ParseSize(text)
		if got := pattern.MatchString(text); got != (err == nil) {
			t.Errorf("%q: pattern %v, parser %v", text, got, err)
		}
	}
}

// Every key of the structs is in the schema, with words for people.
func TestSchemaHasEveryKey(t *testing.T) {
	raw, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range everyKey(reflect.TypeFor[document](), reflect.TypeFor[Input](), reflect.TypeFor[clusterDoc]()) {
		if !strings.Contains(string(raw), fmt.Sprintf("%q:{", key)) {
			t.Errorf("the schema does not have %s", key)
		}
	}
	if again, _ := json.Marshal(Schema()); !slices.Equal(raw, again) {
		t.Error("it is not the same each time")
	}
}
