package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/cmd/agent/commands"
	"kusto-agent/emulator"
)

// TestConfigShow: what is shown is the configuration that holds, and the agent
// takes it as one.
func TestConfigShow(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("agent.yaml", open+"include: more.yaml\n"+oneJSON)
	s.write("more.yaml", "inputs:\n  - {paths: \"${DIR}/more/*.log\", table: U}\n")
	s.write("logs/a.json", "{\"n\":1}\n")
	s.write("more/b.log", "one\ntwo\n")
	out, words := s.show(0, "config", "show", "--config", s.path("agent.yaml"))
	for _, want := range []string{"# environment URL (DIR/agent.yaml:", "- name: U  ", "# resolved, by the extension of paths", "# environment DIR (DIR/more.yaml:2)", "app: kusto-agent  ", "# default"} {
		if !strings.Contains(out, want) || words != "" {
			t.Errorf("%q is not in\n%s\n%s", want, out, words)
		}
	}
	whole := strings.ReplaceAll(out, "DIR", s.dir)

	out, _ = s.show(0, "config", "show", "--json", "--input", "U", "--config", s.path("agent.yaml"))
	var doc struct {
		Config struct{ Inputs []map[string]any }
		From   map[string]struct {
			Kind, File string
			Line       int
		}
	}
	s.must(json.Unmarshal([]byte(out), &doc))
	if len(doc.Config.Inputs) != 1 || doc.Config.Inputs[0]["format"] != "TXT" || doc.From["inputs[0].table"].File != "DIR/more.yaml" {
		t.Errorf("as JSON: %s", out)
	}
	_, words = s.show(64, "config", "show", "--input", "UU", "--config", s.path("agent.yaml"))
	s.is(words, `there is no input "UU"; did you mean U?`)

	s.once(whole, 0)
	if n := len(s.server.Rows("Logs", "T")) + len(s.server.Rows("Logs", "U")); n != 3 {
		t.Errorf("%d rows arrived", n)
	}

	s.write("agent.yaml", "cluster: [\n")
	if out, words = s.show(78, "config", "show", "--config", s.path("agent.yaml")); out != "" || !strings.Contains(words, "agent.yaml:") {
		t.Errorf("printed %q, said %q", out, words)
	}
}

func TestConfigExplain(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	out, _ := s.show(0, "config", "explain", "inputs[0].start_at")
	s.is(out, `
		inputs.start_at
		  Where files are begun that exist when the input is first seen. Later files are read from their
		  beginning in any case.

		  type     one of the allowed words
		  allowed  beginning, end
		  default  beginning
		  stands   inputs[].start_at, in an input

		  for example
		    inputs:
		      - start_at: end`)
	if out, _ = s.show(0, "config", "explain"); !strings.Contains(out, "shutdown_timeout") || !strings.Contains(out, "  include ") {
		t.Errorf("without a key:\n%s", out)
	}
	out, _ = s.show(0, "config", "explain", "spool.when_full", "--json")
	var topic struct {
		Default string
		Allowed []string
	}
	s.must(json.Unmarshal([]byte(out), &topic))
	if topic.Default != "block" || strings.Join(topic.Allowed, " ") != "block drop_oldest" {
		t.Errorf("as JSON: %s", out)
	}
	_, words := s.show(64, "config", "explain", "batch.max_wiat")
	s.is(words, `there is no key "batch.max_wiat"; did you mean batch.max_wait?`)
	s.show(64, "config", "explain", "a", "b")
	if out, _ = s.show(0, "config"); !strings.Contains(out, "explain") {
		t.Errorf("config alone: %s", out)
	}

	out, _ = s.show(0, "config", "schema")
	var schema map[string]any
	s.must(json.Unmarshal([]byte(out), &schema))
	if schema["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("the schema is of %v", schema["$schema"])
	}
}

// TestManual: there is a page for every command, and troff has no complaint.
func TestManual(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	page, words := s.show(0, "man", "quarantine", "ls")
	if !strings.Contains(page, ".TH \"KUSTO-AGENT-QUARANTINE-LS\" \"1\"") || words != "" {
		t.Errorf("printed\n%s\nsaid %s", page, words)
	}
	if page, _ = s.show(0, "man"); !strings.Contains(page, ".SH EXIT STATUS") {
		t.Errorf("the page of the program:\n%s", page)
	}
	s.show(0, "man", "--dir", s.path("man"))
	pages, err := filepath.Glob(s.path("man/*.1"))
	s.must(err)
	root := commands.Root()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if _, err := os.Stat(s.path("man/kusto-agent-" + cmd.Name() + ".1")); err != nil && cmd.Name() != "help" {
			t.Error(err)
		}
	}
	_, words = s.show(64, "man", "no", "such")
	s.is(words, `there is no command "no such"; for a list: kusto-agent help`)
	s.show(64, "man", "run", "--dir", s.path("man"))
	s.write("file", "")
	s.show(1, "man", "--dir", s.path("file"))

	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is missing: install it to have the pages checked")
	}
	out, err := exec.Command(groff, append([]string{"-man", "-Kutf8", "-Tutf8", "-ww", "-z"}, pages...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff says %v:\n%s", err, out)
	}
}

// TestCompletion: the script is sound, and commands and keys are completed.
func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, _ := s.show(0, "completion", shell); !strings.Contains(out, "kusto-agent") {
			t.Errorf("%s: %s", shell, out)
		}
	}
	out, _ := s.show(0, "__complete", "config", "")
	if !strings.Contains(out, "explain\t") || !strings.Contains(out, "show\t") {
		t.Errorf("commands: %s", out)
	}
	if out, _ = s.show(0, "__complete", "config", "explain", "batch.max_s"); !strings.HasPrefix(out, "batch.max_size\n:") {
		t.Errorf("keys: %s", out)
	}
	script, _ := s.show(0, "completion", "bash")
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is missing: install it to have its script checked")
	}
	check := exec.Command(bash, "-n")
	check.Stdin = strings.NewReader(script)
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("bash: %v: %s", err, said)
	}
}
