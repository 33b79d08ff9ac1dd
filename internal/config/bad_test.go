package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the bad files are told into testdata")

// environ is an environment for tests.
func environ(pairs ...string) Env {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// Each testdata/bad/*.yaml is told exactly what stands in the .txt beside it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	env := environ("NOTHING", "", "WORD", "hunter2", "WORD_WITH_SLASH", "hunter2/x", "BRACES", "a{hunter2}b")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("agent.yaml", text, env, Options{})
			var all *Errors
			if !errors.As(err, &all) {
				t.Fatalf("got %v; want problems", err)
			}
			compare(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("a secret is told")
			}
			for _, p := range all.Problems {
				for _, word := range []string{"yaml:", "!!", "unmarshal", "struct", "units.", "config.", "mapping values are"} {
					if strings.Contains(p.Message, word) {
						t.Errorf("%q is no word for people: %s", word, p.Message)
					}
				}
			}
		})
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("told:\n%s\nwant:\n%s", got, want)
	}
}
