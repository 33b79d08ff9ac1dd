package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLeft: a file of inputs that is not included is told, since nothing else shows that it is not read.
func TestLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	input := func(table string) string { return "inputs: [{paths: [/none/*.csv], table: " + table + "}]\n" }
	f := func(main string, want ...string) {
		t.Helper()
		put("agent.yaml", "cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\n"+main+input("T"))
		found, err := Run(t.Context(), Options{Path: filepath.Join(dir, "agent.yaml"), Env: os.LookupEnv, Offline: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			if f.Severity == Error && f.ID == "config" {
				t.Fatalf("%+v", f)
			}
			if f.ID == "config.left" {
				if f.Severity != Warning || f.Fix == "" {
					t.Errorf("%+v", f)
				}
				name, err := filepath.Rel(dir, f.Where)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, name)
				if folder := filepath.Dir(name); !strings.Contains(f.Fix, "["+folder+"/") {
					t.Errorf("%s: the advice names another folder: %s", name, f.Fix)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", main, got, want)
		}
	}
	f("")
	put("conf.d/a.yaml", input("A"))
	put("conf.d/old.yaml.off", input("Off"))
	put("conf.d/.b.yaml", input("Hidden"))
	put("other.yaml", input("Other"))
	f("", "conf.d/a.yaml")
	f("include: [conf.d/*.yaml]\n")
	put("conf.d/b.yml", input("B")) // the other extension that YAML has
	f("include: [conf.d/*.yaml]\n", "conf.d/b.yml")
	f("include: [conf.d/a.yaml, other.yaml]\n", "conf.d/b.yml")
	put("inputs/c.yaml", input("C"))
	put("inputs/d.yaml", input("D"))
	f("include: [inputs/c.yaml]\n", "conf.d/a.yaml", "conf.d/b.yml", "inputs/d.yaml")
	if err := os.Symlink("conf.d", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f("include: ['link/*']\n")

	// Files of others that lie beside an included one, and what has no inputs.
	put("conf.d/empty.yaml", "# inputs: [{paths: [/none/*.csv], table: E}]\n")
	put("app/kusto.yaml", input("K"))
	put("app/docker-compose.yml", "services: {}\n")
	put("app/values.yaml", "inputs: {{ .Values.inputs }}\n")
	put("app/agent.yaml", "cluster: http://127.0.0.1:1\ndatabase: D\n"+input("Another"))
	f("include: ['conf.d/[ab].*', app/kusto.yaml]\n")
	put("conf.d/whole.yml", "cluster: http://127.0.0.1:1\n"+input("Whole"))
	put("conf.d/wrong.yml", "inputs: [\n")
	f("include: ['conf.d/[ab].*', app/kusto.yaml]\n", "conf.d/whole.yml", "conf.d/wrong.yml")
}

// TestLeftInTheFolderOfTheMainFile: nothing is said of the folder of the main file, by whatever name it is
// given: others than its inputs lie there.
func TestLeftInTheFolderOfTheMainFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	input := "inputs: [{paths: [/none/*.csv], table: %s}]\n"
	for name, text := range map[string]string{
		"agent.yaml": "cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\ninclude: [" + dir + "/a.yaml]\n",
		"a.yaml":     fmt.Sprintf(input, "A"),
		"b.yaml":     fmt.Sprintf(input, "B"),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Run(t.Context(), Options{Path: "agent.yaml", Env: os.LookupEnv, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.ID == "config.left" || f.ID == "config" && f.Severity == Error {
			t.Errorf("%+v", f)
		}
	}
}
