package e2e

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kusto-agent/cmd/agent/commands"
	"kusto-agent/emulator"
	"kusto-agent/internal/config"
)

// pages are those of the documentation, by their path from the root of the checkout.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.TrimPrefix(path, "../../")] = string(text)
		}
	}
	return all
}

// block is a fenced block of a page.
type block struct {
	line     int
	language string
	above    string // the line above it
	text     string
}

func blocks(page string) (all []block) {
	inside, above := false, ""
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```") && !inside:
			inside = true
			all = append(all, block{line: i + 1, language: strings.TrimPrefix(trimmed, "```"), above: above})
		case strings.HasPrefix(trimmed, "```"):
			inside = false
		case inside:
			all[len(all)-1].text += line + "\n"
		}
		if trimmed != "" {
			above = trimmed
		}
	}
	return all
}

// theirs stands above a block that is a configuration of another program.
const theirs = "<!-- not a configuration of kusto-agent -->"

// notLoaded are how blocks begin that are not loaded, by their page.
var notLoaded = map[string]string{
	"docs/metrics.md":       "scrape_configs:",  // of Prometheus
	"docs/formats/rules.md": "redact_key_file:", // has rules of all formats, which no input takes together
}

// What a part of a configuration lacks to be one.
const (
	whole     = "cluster: http://127.0.0.1:8080\ndatabase: Logs\n"
	anInput   = "inputs: [{paths: [/srv/app/*.json], table: App, mapping: App_json}]\n"
	inputKeys = "inputs:\n  - paths: [/srv/app/*.json]\n    table: App\n    mapping: App_json\n"
)

// TestDocsConfigurations: every configuration of the pages, and every part of one, is one
// that the agent takes.
func TestDocsConfigurations(t *testing.T) {
	t.Parallel()
	n := 0
	for name, text := range pages(t) {
		for _, b := range blocks(text) {
			if _, except := notLoaded[name]; b.language != "yaml" || b.above == theirs || except && strings.HasPrefix(b.text, notLoaded[name]) {
				continue
			}
			n++
			if err := loads(b.text); err != nil {
				t.Errorf("%s:%d: %v\n%s", name, b.line, err, b.text)
			}
		}
	}
	t.Logf("%d configurations", n)
	if n < 25 {
		t.Errorf("%d configurations", n)
	}
}

// loads says whether a text is a configuration: as it stands, as a part of one, or each
// of its lines.
func loads(text string) error {
	set := map[string]string{"KUSTO_SECRET": "zq", "APP_ENV": "prod"}
	env := func(name string) (string, bool) { v, ok := set[name]; return v, ok }
	indented := "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
	var first error
	for _, as := range []string{text, whole + text, whole + anInput + text, whole + "inputs:\n" + text, whole + "inputs:\n" + strings.ReplaceAll(indented, "    - ", "  - "), inputKeys + indented + whole} {
		_, err := config.Parse("agent.yaml", []byte(as), env, config.Options{})
		if err == nil {
			return nil
		}
		if first == nil || len(err.Error()) < len(first.Error()) { // of what was nearly one there is least to say
			first = err
		}
	}
	if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) > 1 {
		for _, line := range lines {
			if loads(line+"\n") != nil {
				return first
			}
		}
		return nil
	}
	return first
}

// TestDocsCommands: every command line of the pages is one that the program takes.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	n := 0
	for name, text := range pages(t) {
		for _, b := range blocks(text) {
			if b.language != "sh" && b.language != "console" && b.language != "" || name == "docs/commands.md" {
				continue
			}
			for i, line := range strings.Split(b.text, "\n") {
				for _, args := range commandLines(line) {
					n++
					if err := understood(args); err != nil {
						t.Errorf("%s:%d: %q: %v", name, b.line+i+1, args, err)
					}
				}
			}
		}
	}
	t.Logf("%d commands", n)
	if n < 40 {
		t.Errorf("%d commands", n)
	}
}

var (
	aCommand = regexp.MustCompile(`(?:^|[;&|(]\s*|sudo (?:-u \S+ )?|[A-Z_]=\S+ )(?:/usr/bin/)?kusto-agent((?:\s+(?:'[^']*'|"[^"]*"|[^\s;&|<>#()'"]+))+)`)
	aWord    = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

// commandLines are the arguments of each call of the program in a line of a shell.
func commandLines(line string) (all [][]string) {
	line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "sudo ")
	if strings.HasPrefix(line, "#") {
		return nil
	}
	for _, m := range aCommand.FindAllStringSubmatch(line, -1) {
		words := aWord.FindAllString(m[1], -1)
		for i, w := range words {
			words[i] = strings.Trim(w, `'"`)
		}
		all = append(all, words)
	}
	return all
}

// understood says whether the program has such a command with such flags.
func understood(args []string) error {
	root := commands.Root()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root {
		return fmt.Errorf("there is no such command: %v", err)
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateFlagGroups(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestDocsCommandPage: the page of all commands is the one that is printed now.
func TestDocsCommandPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	printed, _ := s.show(0, "man", "--markdown")
	page, err := os.ReadFile("../../docs/commands.md")
	if err != nil || strings.TrimRight(string(page), "\n") != strings.TrimRight(printed, "\n") {
		t.Errorf("docs/commands.md is not what kusto-agent man --markdown prints; run go generate ./cmd/agent (%v)", err)
	}
	for _, c := range commands.Root().Commands() {
		if !bytes.Contains(page, []byte("\n## kusto-agent "+c.Name()+"\n")) {
			t.Errorf("docs/commands.md lacks %s", c.Name())
		}
	}
}

// sessions are pages whose console blocks are run, one after the other, in one folder.
var sessions = []string{"README.md", "docs/quickstart.md"}

// What differs between two runs, and how the pages show it.
var changing = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`time=\S+ `), "time=2026-03-01T12:00:03.000Z "},
	{regexp.MustCompile(`version=\S+`), "version=0.1.0"},
}

// listening is a line of a run that comes at any time, or not at all before the run is over; the pages
// show it first.
var listening = regexp.MustCompile(`(?m)^time=\S+ level=INFO msg="telemetry endpoint is listening".*\n`)

const listeningShown = `time=2026-03-01T12:00:03.000Z level=INFO msg="telemetry endpoint is listening" address=127.0.0.1:5878 tls=false token=false` + "\n"

// TestDocsSessions: what the pages show on a terminal is what the commands print, from a
// log and a strict endpoint to rows.
func TestDocsSessions(t *testing.T) {
	t.Parallel()
	for _, name := range sessions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile("../../" + name)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := consoleBlocks(string(raw), nil)
			if len(all) < 4 {
				t.Fatalf("%d commands", len(all))
			}
			url := newSite(t, emulator.Options{}).emulator()
			dir := t.TempDir()
			if err := os.MkdirAll(dir+"/srv/app", 0o755); err != nil {
				t.Fatal(err)
			}
			log := `{"time":"2026-03-01T12:00:00Z","level":"info","message":"listening","port":8443}` + "\n" +
				`{"time":"2026-03-01T12:00:02Z","level":"warn","message":"slow answer","took":1.7}` + "\n" +
				`{"time":"2026-03-01T12:00:05Z","level":"info","message":"paid","order":{"id":7,"sum":12.5}}` + "\n"
			if err := os.WriteFile(dir+"/srv/app/app.json", []byte(log), 0o644); err != nil {
				t.Fatal(err)
			}
			got := runPage(t, dir, url, "", all, true)
			for i := range got {
				got[i] = strings.NewReplacer(url, pageURL, dir+"/srv/", "/srv/").Replace(got[i])
				for _, c := range changing {
					got[i] = c.what.ReplaceAllString(got[i], c.as)
				}
				if strings.HasPrefix(all[i].command, "kusto-agent run ") {
					got[i] = listeningShown + listening.ReplaceAllString(got[i], "")
				}
			}
			if os.Getenv("UPDATE") != "" {
				_, now := consoleBlocks(string(raw), func(i int) string { return got[i] })
				if err := os.WriteFile("../../"+name, []byte(now), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for i, c := range all {
				if got[i] != c.prints {
					t.Errorf("%s:%d: %s prints\n%s\nthe page shows\n%s", name, c.line, c.command, got[i], c.prints)
				}
			}
		})
	}
}

// TestDocsTroubleshooting: every text that the page is to be searched for is one that the
// program prints.
func TestDocsTroubleshooting(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	printed := strings.Join(literals(t, "../.."), "\n")
	texts := regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllSubmatch(page, -1)
	if len(texts) < 30 {
		t.Errorf("%d texts", len(texts))
	}
	for _, m := range texts {
		for _, part := range strings.Split(string(m[1]), "…") {
			if part = strings.TrimSpace(part); !strings.Contains(printed, part) {
				t.Errorf("nothing prints %q of %s", part, m[1])
			}
		}
	}
}

// literals are the texts in the source of the program, but those of tests.
func literals(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{"bench", "testdata", "packaging", ".git"}, e.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					all = append(all, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	aLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	aHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor = regexp.MustCompile(`[^\pL\pN\-_ ]`)
)

// TestDocsLinks: every link from page to page leads to a file that is there, and to a
// heading of it.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	anchors := make(map[string]map[string]bool)
	for name, text := range all {
		anchors[name] = make(map[string]bool)
		for _, m := range aHeading.FindAllStringSubmatch(text, -1) {
			anchors[name][strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
		}
	}
	for name, text := range all {
		for _, m := range aLink.FindAllStringSubmatch(text, -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, ":") {
				continue
			}
			to := name
			if path != "" {
				to = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat("../../" + to); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			} else if anchor != "" && anchors[to] != nil && !anchors[to][anchor] {
				t.Errorf("%s: %s has no heading %s", name, to, anchor)
			}
		}
	}
}
