package check

import (
	"os"
	"path/filepath"
	"slices"
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
}
