package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recipePath is the first file that an input of a recipe reads.
var recipePath = regexp.MustCompile(`paths: \[(/[^],]+)`)

// TestRecipes: an input of the documentation is included, set up, and reads its
// sample; every line has become a row with typed columns, and none was unlike what
// the recipe says.
func TestRecipes(t *testing.T) {
	t.Parallel()
	recipes, err := filepath.Glob("../../docs/recipes/*.yaml")
	if err != nil || len(recipes) == 0 {
		t.Fatalf("%d recipes, %v", len(recipes), err)
	}
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range recipes {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(string(page), fmt.Sprintf("[%[1]s.yaml](recipes/%[1]s.yaml) | [%[1]s.log](recipes/%[1]s.log)", name)) {
				t.Errorf("docs/recipes.md does not tell of %s", name)
			}
			s := newSite(t, strict(t))
			s.recipe(name)
			s.show(0, "setup", "--config", s.path("agent.yaml"))
			s.agent = s.launch("run", "--once", "--config", s.path("agent.yaml")).want(0)
			table := strings.ToUpper(name[:1]) + name[1:]
			want, err := os.ReadFile(filepath.Join("testdata", "recipes", name+".txt"))
			if got := s.tableText(table) + "\n"; err != nil || got != string(want) {
				t.Errorf("%v, rows\n%s\nwant\n%s", err, got, want)
			}
			lines := strings.Count(s.read(strings.TrimPrefix(s.recipeLog(name), s.dir+"/")), "\n")
			if rows := s.server.RowCount("Logs", table); rows != lines {
				t.Errorf("%d rows of %d lines", rows, lines)
			}
		})
	}
}

// recipe writes a configuration that includes one of the documentation, with its
// sample where it is read. The name of this host is that of none.
func (s *site) recipe(name string) {
	s.t.Helper()
	s.write("agent.yaml", open+"include: [conf.d/*.yaml]\n")
	text, err := os.ReadFile("../../docs/recipes/" + name + ".yaml")
	s.must(err)
	s.write("conf.d/"+name+".yaml", strings.NewReplacer("/var/log", s.dir+"/log", "{host}", "web-1").Replace(string(text)))
	sample, err := os.ReadFile("../../docs/recipes/" + name + ".log")
	s.must(err)
	s.write(strings.TrimPrefix(s.recipeLog(name), s.dir+"/"), string(sample))
}

func (s *site) recipeLog(name string) string {
	s.t.Helper()
	m := recipePath.FindStringSubmatch(s.read("conf.d/" + name + ".yaml"))
	if m == nil {
		s.t.Fatal("the recipe names no file")
	}
	return strings.ReplaceAll(m[1], "*", "a")
}
