package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recipePath is the first file that an input of a recipe reads, and its table.
var (
	recipePath  = regexp.MustCompile(`paths: \[(/[^],]+)`)
	recipeTable = regexp.MustCompile(`(?m)^    table: (\S+)$`)
)

// TestRecipes: all inputs of the documentation are included by one configuration, set up
// and run. The page of each shows its configuration, the commands that make its table, and
// the rows that its sample becomes, as they are here.
func TestRecipes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/recipes/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recipes, %v", len(files), err)
	}
	index, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, strict(t))
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		names = append(names, name)
		s.recipe(name)
		if want := fmt.Sprintf("[%[1]s.md](recipes/%[1]s.md) | [%[1]s.yaml](recipes/%[1]s.yaml) | [%[1]s.log](recipes/%[1]s.log)", name); !strings.Contains(string(index), want) {
			t.Errorf("docs/recipes.md has no row with %s", want)
		}
	}
	commands, _ := s.show(0, "setup", "--config", s.path("agent.yaml"))
	s.agent = s.launch("run", "--once", "--config", s.path("agent.yaml")).want(0)
	for _, name := range names {
		yaml := s.source(name + ".yaml")
		table := recipeTable.FindStringSubmatch(yaml)
		if table == nil {
			t.Errorf("%s names no table", name)
			continue
		}
		var made string
		for line := range strings.Lines(commands + "\n") {
			if strings.Contains(line, "['"+table[1]+"']") {
				made += line
			}
		}
		rows := strings.ReplaceAll(s.tableText(table[1])+"\n", s.dir+"/log/", "/var/log/")
		if made == "" || rows == "\n" {
			t.Errorf("%s makes\n%s\nand the rows\n%s", name, made, rows)
		}
		s.isPage(name, "## The input\n\n```yaml\n"+yaml+"```\n\n## What setup prints\n\n```kql\n"+made+"```\n\n## What arrives\n\nOf its [sample]("+name+".log), a row a line, in the order of their text:\n\n```json\n"+rows+"```\n")
	}
}

// isPage compares what the page of a recipe shows. What a person wrote stands before it.
func (s *site) isPage(name, want string) {
	s.t.Helper()
	path := "../../docs/recipes/" + name + ".md"
	text := s.source(name + ".md")
	at := strings.Index(text, "## The input\n")
	if !strings.HasPrefix(text, "# ") || at < 0 {
		s.t.Errorf("%s is no page of a recipe", path)
		return
	}
	if os.Getenv("UPDATE") != "" {
		s.must(os.WriteFile(path, []byte(text[:at]+want), 0o644))
		return
	}
	if text[at:] != want {
		s.t.Errorf("%s shows\n%s\nand this is\n%s", path, text[at:], want)
	}
}

// source is a file of the documentation's recipes.
func (s *site) source(name string) string {
	s.t.Helper()
	text, err := os.ReadFile("../../docs/recipes/" + name)
	s.must(err)
	return string(text)
}

// recipe writes a configuration that includes inputs of the documentation, with the
// sample of each where it is read. This host has the name and the zone of another.
func (s *site) recipe(name string) {
	s.t.Helper()
	s.write("agent.yaml", open+"include: [conf.d/*.yaml]\n")
	here := strings.NewReplacer("/var/log", s.dir+"/log", "/srv/inetpub/logs", s.dir+"/log", "{host}", "web-1", "zone: local", "zone: utc")
	s.write("conf.d/"+name+".yaml", here.Replace(s.source(name+".yaml")))
	s.write(strings.TrimPrefix(s.recipeLog(name), s.dir+"/"), s.source(name+".log"))
}

func (s *site) recipeLog(name string) string {
	s.t.Helper()
	m := recipePath.FindStringSubmatch(s.read("conf.d/" + name + ".yaml"))
	if m == nil {
		s.t.Fatal("the recipe names no file")
	}
	return strings.NewReplacer("*_*_*", "shop_web-5d8f9_0b7c", "*", "a").Replace(m[1])
}
