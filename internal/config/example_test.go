package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const minimal = `
cluster: https://mycluster.westeurope.kusto.windows.net
database: Logs
state_dir: /var/lib/kusto-agent
auth: {tenant: contoso.onmicrosoft.com, client_id: f80da32c-108c-415c-a19e-643f461a677a, client_secret_file: kusto-agent.client-secret}
inputs:
  - {name: app, paths: [/srv/app/*.json], exclude: ["*.gz"], table: App, mapping: App_json}
`

// Every default the example tells is the one that holds.
func TestExampleTellsTheDefaults(t *testing.T) {
	const file = "../../agent.yaml.example"
	got, err := Load(file, environ(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := Parse(file, []byte(minimal), environ(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the example loads to\n%+v\nand without its defaults to\n%+v", got, want)
	}
	d := DefaultConfig()
	d.Clusters, d.Inputs, d.StateDir, d.Files, d.Spool.Dir = got.Clusters, got.Inputs, got.StateDir, got.Files, got.Spool.Dir
	if !reflect.DeepEqual(*got, d) {
		t.Errorf("the example loads to\n%+v\nand the defaults are\n%+v", *got, d)
	}
}

// The example has every key, at its default or commented out.
func TestExampleHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../agent.yaml.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range everyKey(reflect.TypeFor[document](), reflect.TypeFor[Input](), reflect.TypeFor[clusterDoc]()) {
		if !regexp.MustCompile(`(?m)(^[ #-]*|[{,] *)`+key+`:`).Match(text) && key != "preset" {
			t.Errorf("the example does not tell %s", key)
		}
	}
	if !strings.Contains(string(text), "preset") {
		t.Error("the example does not tell preset")
	}
}

func everyKey(types ...reflect.Type) (keys []string) {
	for _, t := range types {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t == reflect.TypeFor[yaml.Node]() {
			continue
		}
		for _, f := range reflect.VisibleFields(t) {
			if key, ok := keyOf(f); ok {
				keys = append(append(keys, key), everyKey(f.Type)...)
			}
		}
	}
	return keys
}
