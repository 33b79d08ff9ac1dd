package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kusto-agent/config"
	"kusto-agent/internal/rows"
	"kusto-agent/kusto"
)

func queryCommand() *cobra.Command {
	q := &asking{q: kusto.Query{Call: kusto.QueryV2}}
	cmd := askingCommand(q, "query [KQL]", "Run queries, or open a session to type them in",
		"Run queries and print what they give. The text is the argument, or that of --file or stdin, in which several\n"+
			"queries are separated by semicolons or blank lines; a let statement goes before every query of its block.\n"+
			"On a terminal without a text it opens a session. With --cluster https://… no configuration is needed.\n"+
			"It is made read-only on the service with --read-only. Ctrl-C stops it there too.")
	cmd.Flags().BoolVar(&q.v1, "v1", false, "ask by the first version of the interface, not the second")
	cmd.Flags().BoolVar(&q.q.Get, "get", false, "ask by GET, not by POST")
	return cmd
}

func mgmtCommand() *cobra.Command {
	return askingCommand(&asking{q: kusto.Query{Call: kusto.Mgmt}}, "mgmt [COMMAND]", "Run management commands, or open a session to type them in",
		"Run management commands, such as '.show tables', and print what they give. The text is the argument, or that\n"+
			"of --file or stdin, in which several commands are separated by semicolons or blank lines. On a terminal without\n"+
			"a text it opens a session. With --cluster https://… no configuration is needed.\n"+
			"Whatever the identity may do is done, unless --read-only is given.")
}

// askingCommand is what query and mgmt have in common.
func askingCommand(a *asking, use, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.in, a.out, a.words = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return a.run(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	targetFlags(f, &a.target)
	paperFlags(cmd, &a.paper)
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

func targetFlags(f *pflag.FlagSet, t *target) {
	f.StringVar(&t.config, "config", config.DefaultPath, "the configuration `file`")
	f.StringVar(&t.cluster, "cluster", "", "the `URL` of a cluster, or a connection string, and no configuration is read; or the name of a cluster of the configuration (default: that of its top level)")
	f.StringVar(&t.auth, "auth", "auto", "how to sign in without a configuration: "+strings.Join(plainMethods, ", "))
	f.StringVar(&t.ca, "ca-file", "", "a PEM `file` of authorities to trust, without a configuration")
	f.BoolVar(&t.untrusted, "allow-untrusted-endpoint", false, "send a token to a host outside the known domains of the service")
	t.set = f.Changed
}

func paperFlags(cmd *cobra.Command, p *paper) {
	f := cmd.Flags()
	var names []string
	for _, form := range append(slices.Clone(rows.Forms), formChart, formSVG) {
		names = append(names, string(form))
	}
	f.StringVar(&p.format, "format", "", "how to print: "+strings.Join(names, ", ")+" (default: by the name of --output; on a terminal table, or the chart that the query renders; else csv)")
	f.BoolVar(&p.json, "json", false, "print an object a line, as --format json does")
	cmd.MarkFlagsMutuallyExclusive("format", "json")
	f.BoolVar(&p.o.NoHeader, "no-header", false, "leave out the names of the columns")
	f.BoolVar(&p.o.Types, "types", false, "print the names of the columns with their types")
	f.IntVar(&p.o.MaxRows, "max-rows", 0, "print so many rows of a table, and say how many there were (default: all)")
	f.BoolVar(&p.wide, "wide", false, "do not cut the lines of a table to the terminal")
	f.StringVar(&p.render, "render", "", "draw this `chart`, whatever the query renders: timechart, linechart, barchart, columnchart or piechart")
	f.StringVarP(&p.output, "output", "o", "", "print to this `file`, which its owner alone can read, and which is replaced when all is printed")
	f.BoolVar(&p.stats, "stats", false, "say on stderr what each query took: time, CPU and rows scanned")
}
