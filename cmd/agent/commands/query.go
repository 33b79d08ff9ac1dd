package commands

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/queryshell"
	"kusto-agent/internal/rows"
)

// queryCommand returns the command query, with its help and its flags.
func queryCommand() *cobra.Command {
	q := &queryshell.Shell{Query: query.Query{Call: query.QueryV2}}
	cmd := askingCommand(q, "query [KQL]", "Run queries, or open a session to type them in",
		"Run queries and print what they give. The text is the argument, or that of --file or stdin, in which several\n"+
			"queries are separated by semicolons or blank lines; a let statement goes before every query of its block.\n"+
			"On a terminal without a text it opens a session. With --cluster https://… no configuration is needed.\n"+
			"With --read-only the service rejects changes. Ctrl-C stops the query there too.")
	cmd.Flags().BoolVar(&q.V1, "v1", false, "ask by the first version of the interface, not the second")
	cmd.Flags().BoolVar(&q.Query.Get, "get", false, "ask by GET, not by POST")
	return cmd
}

// mgmtCommand returns the command mgmt, with its help and its flags.
func mgmtCommand() *cobra.Command {
	return askingCommand(&queryshell.Shell{Query: query.Query{Call: query.Mgmt}}, "mgmt [COMMAND]", "Run management commands, or open a session to type them in",
		"Run management commands, such as '.show tables', and print what they give. The text is the argument, or that\n"+
			"of --file or stdin, in which several commands are separated by semicolons or blank lines. On a terminal without\n"+
			"a text it opens a session. With --cluster https://… no configuration is needed.\n"+
			"Commands run with all rights of the identity. With --read-only the service rejects changes.")
}

// askingCommand returns a command that runs the shell a, with the flags that query and mgmt have in
// common. use, short and long are its texts, as cobra has them.
func askingCommand(a *queryshell.Shell, use, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("want one text, and got %d arguments; put it in single quotes", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.In, a.Out, a.Words = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return a.Run(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	targetFlags(f, &a.Target)
	paperFlags(cmd, &a.Paper)
	f.StringVarP(&a.File, "file", "f", "", "read the text from this `file`; - is stdin")
	f.StringVar(&a.Query.Database, "database", "", "the database (default: that of the cluster)")
	f.StringArrayVar(&a.Parameters, "param", nil, "a value for a parameter, as `name:type=value`; may be repeated")
	f.BoolVar(&a.Query.JSONParameters, "json-parameters", false, "send parameters as values of JSON, not as literals of KQL")
	f.StringArrayVar(&a.Options, "option", nil, "a request option, as `name=value`, such as notruncation=true; may be repeated")
	durationVar(f, &a.Query.Timeout, "timeout", 0, "how long the service may work on it, at most 1h (default: what the service gives)")
	f.StringVar(&a.Query.RequestID, "request-id", "", "the `id` of the request, for logs of the service (default: one is made)")
	f.StringVar(&a.Query.App, "app", "", "the `name` of the application that the service notes (default: that of the configuration, or kusto-agent)")
	f.StringVar(&a.Query.User, "user", "", "the `name` of the user that the service notes (default: that of the configuration)")
	f.BoolVar(&a.Query.ReadOnly, "read-only", false, "have the service reject changes")
	f.BoolVar(&a.Query.TextProperties, "text-properties", false, "send the properties as text, as older clients do")
	return cmd
}

// targetFlags adds to f the flags that say which cluster is asked and how to sign in; their values
// are stored in t.
func targetFlags(f *pflag.FlagSet, t *queryshell.Target) {
	f.StringVar(&t.Config, "config", config.DefaultPath, "the configuration `file`")
	f.StringVar(&t.Cluster, "cluster", "", "the `URL` of a cluster, or a connection string, and no configuration is read; or the name of a cluster of the configuration (default: that of its top level)")
	f.StringVar(&t.Auth, "auth", "auto", "how to sign in without a configuration: "+strings.Join(queryshell.PlainMethods, ", "))
	f.StringVar(&t.CAFile, "ca-file", "", "a PEM `file` of authorities to trust, without a configuration")
	f.BoolVar(&t.Untrusted, "allow-untrusted-endpoint", false, "send a token to a host outside the known domains of the service")
	t.IsSet = f.Changed
}

// paperFlags adds to cmd the flags that say how results are printed; their values are stored in p.
func paperFlags(cmd *cobra.Command, p *queryshell.Paper) {
	f := cmd.Flags()
	var names []string
	for _, form := range append(slices.Clone(rows.Forms), queryshell.FormChart, queryshell.FormSVG) {
		names = append(names, string(form))
	}
	f.StringVar(&p.Format, "format", "", "how to print: "+strings.Join(names, ", ")+" (default: by the name of --output; on a terminal table, or the chart that the query renders; else csv)")
	f.BoolVar(&p.JSON, "json", false, "print an object a line, as --format json does")
	cmd.MarkFlagsMutuallyExclusive("format", "json")
	f.BoolVar(&p.Rows.NoHeader, "no-header", false, "leave out the names of the columns")
	f.BoolVar(&p.Rows.Types, "types", false, "print the names of the columns with their types")
	countVar(f, &p.Rows.MaxRows, "max-rows", 0, "print so many rows of a table, and say how many there were (default: all)")
	f.BoolVar(&p.Wide, "wide", false, "do not cut the lines of a table to the terminal")
	f.StringVar(&p.Render, "render", "", "draw this `chart`, whatever the query renders: timechart, linechart, barchart, columnchart or piechart")
	f.StringVarP(&p.Output, "output", "o", "", "print to this `file`, which its owner alone can read, and which is replaced when all is printed")
	f.BoolVar(&p.Stats, "stats", false, "say on stderr what each query took: time, CPU and rows scanned")
}
