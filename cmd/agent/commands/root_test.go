package commands

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kusto-agent/internal/exit"
)

// TestUsage: a command line that is wrong ends with the code of usage, and the message says what to
// do. Not parallel: it takes stderr.
func TestUsage(t *testing.T) {
	f := func(says string, args ...string) {
		t.Helper()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		stderr := os.Stderr
		os.Stderr = w
		code := Execute(args)
		os.Stderr = stderr
		w.Close()
		words, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if code != exit.Usage || !strings.Contains(string(words), says) {
			t.Errorf("%q: %d, %s; want %s", args, code, words, says)
		}
	}
	f(`unknown command "bogus" for "kusto-agent"; for help: kusto-agent --help`, "bogus")
	f(`kusto-agent run takes no argument, and got "extra"; for help: kusto-agent run --help`, "run", "extra")
	f(`unknown command "statsu" for "kusto-agent"; similar: status; for help: kusto-agent --help`, "statsu")
	f(`unknown command "lss" for "kusto-agent spool"; for help: kusto-agent spool --help`, "spool", "lss")
	f(`--once "maybe": want true or false; for help: kusto-agent run --help`, "run", "--once=maybe")
	f(`--config needs a value: file; for help: kusto-agent run --help`, "run", "--config")
	f(`--column "x": want name=value`, "audit", "--column", "x")
	f(`--address and --state-dir exclude each other: give one of them; for help`, "status", "--address", "x", "--state-dir", "y")
	f(`--cluster is missing; for help: kusto-agent spool replay --help`, "spool", "replay")
	f(`want at most 1 argument, and got 2; for help: kusto-agent init --help`, "init", "a", "b")
	f("unknown flag: --bogus; for help: kusto-agent spool ls --help", "spool", "ls", "--bogus")
	f(`there is no command "bogus"; for a list: kusto-agent help`, "help", "bogus")
	f(`there is no command "spool bogus"`, "help", "spool", "bogus")
	f("want one INPUT or more, and got none; kusto-agent status shows them", "tap")
	f("want one INPUT, and got 0; kusto-agent config show shows them", "preview")
	f("--repair needs --against-table, which", "audit", "--repair")
	f("--yes is for --repair", "audit", "--yes")
	f("give --yes too", "audit", "--against-table", "--repair", "--json")
	f(`--settled "-1s": negative; want a duration such as 500ms, 30s, 1h30m or 7d; for help:`, "audit", "--settled", "-1s")
	f(`--for "-1s": negative; want a duration`, "demo", "--for", "-1s")
	f("--for 0s: want more than 0", "demo", "--for", "0s")
	f("--settled is for --repair", "audit", "--against-table", "--settled", "1m")
	f("--column is for --against-table", "audit", "--column", "offset=at")
	f("--probe-record sends a record, and --dry-run sends nothing", "setup", "--dry-run", "--probe-record")
	f("--token-secret is empty; give a secret", "emulator", "--token-secret", "")
	f(`--max-concurrent "-1": want a whole number, 0 or more`, "emulator", "--max-concurrent", "-1")
	f(`--max-concurrent "many": want a whole number, 0 or more`, "emulator", "--max-concurrent", "many")
	f(`--records "-1": want a whole number`, "preview", "T", "--records", "-1")
	f(`--records "-1": want a whole number`, "spool", "inspect", "b", "--records", "-1")
	f(`--limit "-1": want a whole number`, "tap", "T", "--limit", "-1")
	f(`--max-rows "-1": want a whole number`, "query", "T", "--max-rows", "-1")
	f("want a host:port such as 127.0.0.1:8080", "emulator", "--listen", "bogus")
	f("want a host:port such as 127.0.0.1:8080", "emulator", "--listen", "8080")
	f("--schema, the file of the schema: open /none/s.json: no such file", "emulator", "--schema", "/none/s.json")
	f("want one text, and got 3 arguments; put it in single quotes", "query", "T", "|", "count")
}

// TestFullDisk: what cannot be printed is an error of the run, not of the command line, also for the
// commands of cobra. Not parallel: it takes stdout and stderr.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	f := func(args ...string) {
		t.Helper()
		words, err := os.Create(t.TempDir() + "/stderr")
		if err != nil {
			t.Fatal(err)
		}
		defer words.Close()
		stdout, stderr := os.Stdout, os.Stderr
		os.Stdout, os.Stderr = full, words
		code := Execute(args)
		os.Stdout, os.Stderr = stdout, stderr
		said, err := os.ReadFile(words.Name())
		if err != nil {
			t.Fatal(err)
		}
		if code != exit.Failed || string(said) != "write /dev/full: no space left on device\n" {
			t.Errorf("%q: %d, %s", args, code, said)
		}
	}
	f("version")
	f("config", "reference")
	f("completion", "bash")
	f("completion", "fish")
	f("completion", "zsh")
	f("completion", "powershell")
}

// TestHelpNamesValues: the help calls no value by its type in Go.
func TestHelpNamesValues(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			for _, typed := range []string{" stringTo", " stringArray ", " strings ", "(default [])"} {
				if strings.Contains(line, typed) {
					t.Errorf("%s: %s", cmd.CommandPath(), line)
				}
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(Root())
}

// TestCompletionsArePlain: what a shell shows beside a flag has no marks of the help. Not parallel: it
// takes stdout and stderr.
func TestCompletionsArePlain(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	code := Execute([]string{"__complete", "audit", "--st"})
	os.Stdout, os.Stderr = stdout, stderr
	w.Close()
	said, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if line := "--state-dir\tthe state_dir of the agent, a folder; no configuration is read then\n"; code != 0 || !strings.HasPrefix(string(said), line) {
		t.Errorf("%d, %s; want %s", code, said, line)
	}
}
