package setup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/schema"
)

// TestSetupAsks: only yes is yes, and nobody is asked about what is new.
func TestSetupAsks(t *testing.T) {
	t.Parallel()
	f := func(answer string, person bool, code int, changes ...string) {
		t.Helper()
		var asked bytes.Buffer
		s := &Setup{plans: []*inputPlan{{Plan: &schema.Plan{Steps: []schema.Step{{Text: "x", Changes: changes}}}}}}
		s.Ask = console.Asker{In: bufio.NewReader(strings.NewReader(answer)), Out: &asked, On: person}
		got := 0
		var ended *exit.Error
		if errors.As(s.agreed(), &ended) {
			got = ended.Code
		}
		if got != code || (asked.Len() > 0) != (person && changes != nil) {
			t.Errorf("%q ends with %d, want %d, and asks %q", answer, got, code, asked.String())
		}
	}
	f("y\n", true, 0, "a change")
	f("Yes\n", true, 0, "a change")
	f("\n", true, exit.Failed, "a change")
	f("", true, exit.Failed, "a change")
	f("y\n", false, exit.Usage, "a change")
	f("", true, 0)
	f("", false, 0)
}

// TestSampleBehindRules: rules are asked of the rows of a sample and not of its header, by
// which they know columns, and the first record is as the agent sends it.
func TestSampleBehindRules(t *testing.T) {
	t.Parallel()
	f := func(rules, text, fields, first string) {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.csv"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		text = "cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\nstate_dir: " + dir + "/state\n" +
			"inputs: [{paths: [\"" + dir + "/*.csv\"], table: T, format: CSV, header: skip" + rules + "}]\n"
		cfg, err := config.Parse("agent.yaml", []byte(text), os.LookupEnv, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sample, err := takeSample(context.Background(), cfg, &cfg.Inputs[0])
		if err != nil {
			t.Errorf("%s: %v", rules, err)
			return
		}
		var all []string
		for _, one := range sample.Fields() {
			all = append(all, one.Name+":"+string(one.Type))
		}
		if got := strings.Join(all, " "); got != fields || string(sample.First) != first {
			t.Errorf("%s: columns %s, want %s; first %q, want %q", rules, got, fields, sample.First, first)
		}
	}
	const rows = "\"the\nuser\",n\na,1\nb,2\n"
	f("", rows, "the\nuser:string n:long", "a,1\n")
	f(", redact: [{column: n, with: 'x'}]", rows, "the\nuser:string n:string", "a,x\n")
	f(", redact: [{column: 1, with: 'x'}]", rows, "the\nuser:string n:long", "x,1\n")
	f(", drop: [{column: n, in: ['1']}]", rows, "the\nuser:string n:long", "b,2\n")
	f(", keep: [{match: '^nothing'}]", rows, "the\nuser:string n:string", "")
	f(", redact: [{column: n, with: 'x'}]", "user,n\n", "user:string n:string", "")
}
