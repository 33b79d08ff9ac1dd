package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kusto-agent/config"
	"kusto-agent/kusto"
)

func queryCommand() *cobra.Command {
	q := asking{q: kusto.Query{Call: kusto.QueryV2}}
	cmd := q.command("query KQL", "Run a query as the agent's identity",
		"Run a query as the agent's identity and print what it gives. KQL is the text; - reads it from stdin.\n"+
			"It is made read-only on the service with --read-only. Ctrl-C stops it there too.")
	cmd.Flags().BoolVar(&q.v1, "v1", false, "ask by the first version of the interface, not the second")
	cmd.Flags().BoolVar(&q.q.Get, "get", false, "ask by GET, not by POST")
	return cmd
}

func mgmtCommand() *cobra.Command {
	q := asking{q: kusto.Query{Call: kusto.Mgmt}}
	return q.command("mgmt COMMAND", "Run a management command as the agent's identity",
		"Run a management command, such as '.show tables', as the agent's identity and print what it gives.\n"+
			"- reads it from stdin. Whatever the identity may do is done, unless --read-only is given.")
}

// asking is one run of query or mgmt.
type asking struct {
	q       kusto.Query
	config  string
	cluster string
	format  string
	json    bool
	options []string
	params  []string
	v1      bool
}

func (a *asking) command(use, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.read(cmd, args[0]); err != nil {
				return err
			}
			return a.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.config, "config", config.DefaultPath, "the configuration `file`")
	f.StringVar(&a.cluster, "cluster", "", "the `name` of a cluster of the configuration (default: that of its top level)")
	f.StringVar(&a.q.Database, "database", "", "the database (default: that of the cluster)")
	f.StringVar(&a.format, "format", "", "how to print: table, csv or json, an object a line (default: table on a terminal, else csv)")
	f.BoolVar(&a.json, "json", false, "print an object a line, as --format json does")
	cmd.MarkFlagsMutuallyExclusive("format", "json")
	f.StringArrayVar(&a.params, "param", nil, "a value for a parameter, as `name:type=value`; may be repeated")
	f.StringArrayVar(&a.options, "option", nil, "a request option, as `name=value`, such as notruncation=true; may be repeated")
	f.DurationVar(&a.q.Timeout, "timeout", 0, "how long the service may work on it, at most 1h (default: what the service gives)")
	f.BoolVar(&a.q.ReadOnly, "read-only", false, "have the service refuse what would change something")
	f.BoolVar(&a.q.TextProperties, "text-properties", false, "send the properties as text, as older clients do")
	return cmd
}

// read takes the command line apart.
func (a *asking) read(cmd *cobra.Command, text string) error {
	if a.q.Text = text; text == "-" {
		raw, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return &exitError{exitFailed, fmt.Errorf("read stdin: %w", err)}
		}
		a.q.Text = string(raw)
	}
	if a.json {
		a.format = "json"
	}
	usage := func(format string, args ...any) error { return &exitError{exitUsage, fmt.Errorf(format, args...)} }
	isCommand := strings.HasPrefix(strings.TrimSpace(a.q.Text), ".")
	switch {
	case strings.TrimSpace(a.q.Text) == "":
		return usage("the text is empty")
	case a.q.Timeout < 0 || a.q.Timeout > kusto.MaxTimeout:
		return usage("--timeout %v: want at most %v, which is what the service allows", a.q.Timeout, kusto.MaxTimeout)
	case isCommand && a.q.Call != kusto.Mgmt:
		return usage("a text that begins with a dot is a management command; use: kusto-agent mgmt")
	case !isCommand && a.q.Call == kusto.Mgmt:
		return usage("a management command begins with a dot; for a query use: kusto-agent query")
	}
	if a.v1 {
		a.q.Call = kusto.QueryV1
	}
	for _, p := range a.params {
		parameter, err := kusto.ParseParameter(p)
		if err != nil {
			return usage("--param %w", err)
		}
		a.q.Parameters = append(a.q.Parameters, parameter)
	}
	a.q.Options = make(map[string]any)
	for _, o := range a.options {
		name, value, ok := strings.Cut(o, "=")
		if !ok || name == "" {
			return usage("--option %q: want name=value", o)
		}
		a.q.Options[name] = optionValue(value)
	}
	return nil
}

// optionValue is what JSON makes of a text, else the text.
func optionValue(text string) any {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) == nil && !dec.More() {
		return v
	}
	return text
}

func (a *asking) run(cmd *cobra.Command) error {
	cfg, err := loadConfig(a.config)
	if err != nil {
		return err
	}
	conn, err := connect(cfg, a.cluster)
	if err != nil {
		return err
	}
	defer conn.close()
	a.q.Database = cmp.Or(a.q.Database, conn.cluster.Database)
	out := newOutput(cmd)
	to, err := newPrinter(cmp.Or(a.format, map[bool]string{true: "table", false: "csv"}[out.terminal]), out)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	eyes := watch(to, out, cmd.OutOrStdout())
	if term.IsTerminal(int(os.Stderr.Fd())) {
		eyes.words = os.Stderr
	}
	end := eyes.begin()
	err = conn.Query(ctx, &a.q, eyes)
	end()
	if ferr := to.finish(); err == nil {
		err = ferr
	}
	if err != nil && ctx.Err() != nil {
		err = a.stopped(err)
	}
	return out.end(serviceError(err))
}

// stopped says what became of a request that somebody had enough of.
func (a *asking) stopped(err error) error {
	var unstopped *kusto.UnstoppedError
	if errors.As(err, &unstopped) {
		return &exitError{exitFailed, fmt.Errorf("stopped; the service could not be told to stop %s, and may still be at it: %w", a.q.RequestID, unstopped.Why)}
	}
	return &exitError{exitFailed, fmt.Errorf("stopped; the service was told to stop %s too", a.q.RequestID)}
}
