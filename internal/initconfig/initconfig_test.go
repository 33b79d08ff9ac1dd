package initconfig

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
)

// TestInitQuestions: a person agrees to what is suggested, or says another thing,
// and is asked again after a mistake.
func TestInitQuestions(t *testing.T) {
	t.Parallel()
	var asked bytes.Buffer
	c := &Answers{Output: "agent.yaml", Path: "/srv/app/*.json"}
	answers := "\nhttps://c.westeurope.kusto.windows.net\na/b\nLogs\n\n\nMine\nmagic\nnone\n\nt\nid\n\n"
	c.Ask = console.Asker{In: bufio.NewReader(strings.NewReader(answers)), Out: &asked, On: true}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Query URL of the cluster: ", "Format [JSON]: ", "Table [App]: ", "Mapping [App_json]: ", "How to sign in [client_secret]: ", "no way to sign in", "none is for a cluster on this machine", "File of the client secret [kusto-agent.client-secret]: "} {
		if !strings.Contains(asked.String(), want) {
			t.Errorf("it does not ask %q: %s", want, asked.String())
		}
	}
	cfg, err := config.Parse("agent.yaml", []byte(c.text()), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if in := cfg.Inputs[0]; in.Table != "App" || in.Mapping != "Mine" || in.Database != "Logs" {
		t.Errorf("it makes %+v", in)
	}
	c = &Answers{Cluster: "http://localhost:1", Database: "D", Path: "/x/[a", Format: "CSV", Table: "T"}
	c.Ask = console.Asker{In: bufio.NewReader(strings.NewReader("none\n\n")), Out: &asked, On: true}
	if err := c.complete(); err == nil || !strings.Contains(err.Error(), "pattern") {
		t.Errorf("a pattern that is none: %v", err)
	}
	if c.Path = "/x/*"; c.complete() != nil || c.Mapping != "" || c.Auth != "none" {
		t.Errorf("without a mapping it makes %+v", c)
	}
	c = &Answers{Ask: console.Asker{In: bufio.NewReader(strings.NewReader("")), Out: &asked, On: true}}
	if err := c.complete(); err == nil {
		t.Error("no answer is taken for one")
	}
}
