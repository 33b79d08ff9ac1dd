package commands

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestQueryFlags: what cannot be meant is refused before anything is sent.
func TestQueryFlags(t *testing.T) {
	f := func(says string, args ...string) {
		t.Helper()
		for _, cmd := range []*cobra.Command{queryCommand(), mgmtCommand()} {
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(args)
			cmd.SetIn(strings.NewReader(""))
			var out strings.Builder
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			err := cmd.Execute()
			if err == nil || !strings.Contains(err.Error(), says) || out.Len() > 0 {
				t.Errorf("%q: %v; %s; want %s", args, err, out.String(), says)
			}
		}
	}
	f("the text is empty")
	f("the text is empty", "// nothing")
	f("the text is empty", "-")
	f("a text and a file", "T", "-f", "x")
	f("no such file", "-f", "/none/x.kql")
	f("--render \"x\": want timechart", "T", "--render", "x")
	f("--render draws, and the form csv does not", "T", "--render", "piechart", "--format", "csv")
	f("--render draws, and the form csv does not", "T", "--render", "piechart", "-o", "x.csv")
	f("has no line of names", "T", "--json", "--no-header")
	f("has no line of names", "T", "--no-header", "-o", "x.json")
	f("is none without its names", "T", "--no-header", "-o", "x.md")
	f("a chart has no line of names", "T", "--types", "-o", "x.svg")
	f("a chart has all rows", "T", "--max-rows", "1", "--format", "chart")
	f("want a whole number, 0 or more", "T", "--max-rows", "-1")
	f("--request-id", "T", "--request-id", "a b")
	f("--app", "T", "--app", "a\nb")
	f("--user", "T", "--user", "日本")
	f("--option \"x\"", "T", "--option", "x")
	at := func(says string, flags ...string) {
		t.Helper()
		for text, call := range map[string]func() *cobra.Command{"T": queryCommand, ".show tables": mgmtCommand} {
			cmd := call()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{text}, flags...))
			if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: %v; want %s", flags, err, says)
			}
		}
	}
	at("other methods need a configuration", "--cluster", "https://c.kusto.windows.net", "--auth", "client_secret")
	at("is for a cluster on this machine", "--cluster", "https://c.kusto.windows.net", "--auth", "none")
	at("not a known Kusto domain, so it is sent no token; give --allow-untrusted-endpoint", "--cluster", "https://example.com")
	at("plain http is only for this machine", "--cluster", "http://c.kusto.windows.net")
	at("no configuration is read", "--cluster", "https://c.kusto.windows.net", "--config", "x.yaml")
	at("--auth is for --cluster with a URL", "--auth", "azure_cli")
	at("without a configuration: --cluster https://", "--config", "/none/agent.yaml")
	at("seen by everyone", "--cluster", "Data Source=https://c.kusto.windows.net;AppKey=x")
}
