package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kusto-agent/internal/exit"
	"kusto-agent/internal/script"
	"kusto-agent/kusto"
)

func queryCommand() *cobra.Command {
	q := asking{q: kusto.Query{Call: kusto.QueryV2}}
	cmd := q.command("query [KQL]", "Run queries, or open a session to type them in",
		"Run queries and print what they give. The text is the argument, or that of --file or stdin, in which several\n"+
			"queries are separated by semicolons or blank lines; a let statement goes before every query of its block.\n"+
			"On a terminal without a text it opens a session. With --cluster https://… no configuration is needed.\n"+
			"It is made read-only on the service with --read-only. Ctrl-C stops it there too.")
	cmd.Flags().BoolVar(&q.v1, "v1", false, "ask by the first version of the interface, not the second")
	cmd.Flags().BoolVar(&q.q.Get, "get", false, "ask by GET, not by POST")
	return cmd
}

func mgmtCommand() *cobra.Command {
	q := asking{q: kusto.Query{Call: kusto.Mgmt}}
	return q.command("mgmt [COMMAND]", "Run management commands, or open a session to type them in",
		"Run management commands, such as '.show tables', and print what they give. The text is the argument, or that\n"+
			"of --file or stdin, in which several commands are separated by semicolons or blank lines. On a terminal without\n"+
			"a text it opens a session. With --cluster https://… no configuration is needed.\n"+
			"Whatever the identity may do is done, unless --read-only is given.")
}

// asking is one run of query or mgmt.
type asking struct {
	q       kusto.Query // what all statements have in common
	target  target
	paper   paper
	file    string
	options []string
	params  []string
	v1      bool

	to   *connection
	sent int // requests so far
}

func (a *asking) command(use, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.read(cmd); err != nil {
				return err
			}
			all, err := a.statements(cmd, args)
			if err != nil {
				return err
			}
			return a.run(cmd, all)
		},
	}
	f := cmd.Flags()
	a.target.flags(f)
	a.paper.flags(cmd)
	f.StringVarP(&a.file, "file", "f", "", "read the text from this `file`; - is stdin")
	f.StringVar(&a.q.Database, "database", "", "the database (default: that of the cluster)")
	f.StringArrayVar(&a.params, "param", nil, "a value for a parameter, as `name:type=value`; may be repeated")
	f.BoolVar(&a.q.JSONParameters, "json-parameters", false, "send parameters as values of JSON, not as literals of KQL")
	f.StringArrayVar(&a.options, "option", nil, "a request option, as `name=value`, such as notruncation=true; may be repeated")
	f.DurationVar(&a.q.Timeout, "timeout", 0, "how long the service may work on it, at most 1h (default: what the service gives)")
	f.StringVar(&a.q.RequestID, "request-id", "", "the `id` of the request, for logs of the service (default: one is made)")
	f.StringVar(&a.q.App, "app", "", "the `name` of the application that the service notes (default: that of the configuration, or kusto-agent)")
	f.StringVar(&a.q.User, "user", "", "the `name` of the user that the service notes (default: that of the configuration)")
	f.BoolVar(&a.q.ReadOnly, "read-only", false, "have the service refuse what would change something")
	f.BoolVar(&a.q.TextProperties, "text-properties", false, "send the properties as text, as older clients do")
	return cmd
}

// read takes the flags apart.
func (a *asking) read(cmd *cobra.Command) error {
	if err := a.paper.check(cmd); err != nil {
		return err
	}
	for _, one := range []struct{ flag, value string }{{"--request-id", a.q.RequestID}, {"--app", a.q.App}, {"--user", a.q.User}} {
		least := ' ' // headers may hold spaces, ids may not
		if one.flag == "--request-id" {
			least = '!'
		}
		if strings.ContainsFunc(one.value, func(r rune) bool { return r < least || r > '~' }) {
			return exit.Usagef("%s %q: want ASCII letters, digits and signs", one.flag, one.value)
		}
	}
	if a.q.Timeout < 0 || a.q.Timeout > kusto.MaxTimeout {
		return exit.Usagef("--timeout %v: want at most %v, which is what the service allows", a.q.Timeout, kusto.MaxTimeout)
	}
	for _, p := range a.params {
		parameter, err := kusto.ParseParameter(p)
		if err != nil {
			return exit.Usagef("--param %w", err)
		}
		a.q.Parameters = append(a.q.Parameters, parameter)
	}
	a.q.Options = make(map[string]any)
	for _, o := range a.options {
		name, value, ok := strings.Cut(o, "=")
		if !ok || name == "" {
			return exit.Usagef("--option %q: want name=value", o)
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

// statements are what is to be run, checked before any is; nil: a person is to type
// them. An argument is one statement, as it is.
func (a *asking) statements(cmd *cobra.Command, args []string) ([]script.Statement, error) {
	var all []script.Statement
	switch in, isFile := cmd.InOrStdin().(*os.File); {
	case len(args) > 0 && a.file != "":
		return nil, exit.Usagef("there is a text and a file; want one of them")
	case len(args) > 0 && args[0] != "-":
		if all = script.Split(args[0]); len(all) > 0 {
			all = []script.Statement{{Text: args[0], Line: 1}}
		}
	case len(args) == 0 && a.file == "" && isFile && term.IsTerminal(int(in.Fd())):
		if out, ok := cmd.OutOrStdout().(*os.File); !ok || !term.IsTerminal(int(out.Fd())) || a.paper.output != "" {
			return nil, exit.Usagef("there is no text: give it as an argument, in a file with -f, or by stdin")
		}
		return nil, nil
	default:
		text, err := a.text(cmd)
		if err != nil {
			return nil, err
		}
		all = script.Split(text)
	}
	if len(all) == 0 {
		return nil, exit.Usagef("the text is empty")
	}
	if len(all) > 1 && a.paper.isPicture() {
		return nil, exit.Usagef("a picture is of one query, and the text has %d", len(all))
	}
	for _, s := range all {
		switch isCommand := kusto.IsCommand(s.Text); {
		case isCommand && a.q.Call != kusto.Mgmt:
			return nil, exit.Usagef("%sa text that begins with a dot is a management command; use: kusto-agent mgmt", at(s, all))
		case !isCommand && a.q.Call == kusto.Mgmt:
			return nil, exit.Usagef("%sa management command begins with a dot; for a query use: kusto-agent query", at(s, all))
		}
	}
	return all, nil
}

// at says where a statement is, if there are several.
func at(s script.Statement, all []script.Statement) string {
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf("line %d: ", s.Line)
}

// text is that of a file or of stdin.
func (a *asking) text(cmd *cobra.Command) (string, error) {
	if a.file != "" && a.file != "-" {
		raw, err := os.ReadFile(a.file)
		if err != nil {
			return "", exit.With(exit.Usage, err)
		}
		return strings.TrimPrefix(string(raw), "\ufeff"), nil
	}
	raw, err := io.ReadAll(cmd.InOrStdin())
	if err != nil {
		return "", exit.With(exit.Failed, fmt.Errorf("read stdin: %w", err))
	}
	return strings.TrimPrefix(string(raw), "\ufeff"), nil
}
