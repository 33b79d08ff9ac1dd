package main

import (
	"github.com/spf13/cobra"

	"kusto-agent/internal/console"
)

func initCommand() *cobra.Command {
	c := &initial{}
	cmd := &cobra.Command{
		Use:   "init [SAMPLEFILE]",
		Short: "Write a configuration from flags, questions and a sample file",
		Long: "Write a configuration with one input. What no flag says is asked on a terminal, with an answer to agree to\n" +
			"where the sample file tells one: what format it has, and from its name the table and the paths.\n" +
			"Without a terminal those answers are taken. A file that is there is overwritten only with --force.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ask = console.NewAsker(cmd.InOrStdin(), cmd.ErrOrStderr())
			if len(args) == 1 {
				c.sample = args[0]
			}
			out := console.NewOutput(cmd.OutOrStdout())
			return out.End(c.run(out))
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.cluster, "cluster", "", "the query `URL` of the cluster")
	f.BoolVar(&c.trust, "allow-untrusted-endpoint", false, "let a token be sent to a cluster outside the known domains of the service")
	f.StringVar(&c.database, "database", "", "the database")
	f.StringVar(&c.path, "path", "", "the files to read, as a `pattern` such as /srv/app/*.json")
	f.StringVar(&c.table, "table", "", "the table")
	f.StringVar(&c.mapping, "mapping", "", "the `name` of the mapping; for formats that need one the default is that of the table and the kind")
	f.StringVar(&c.format, "format", "", "the format of the files")
	f.StringVar(&c.method, "auth", "", "how to sign in: a `method`, such as client_secret, or none for an emulator on this machine")
	f.StringVar(&c.tenant, "tenant", "", "the tenant, for methods that need it")
	f.StringVar(&c.clientID, "client-id", "", "the client `id`, for methods that need it")
	f.StringVar(&c.secretFile, "client-secret-file", "", "the `file` that holds the client secret (default kusto-agent.client-secret)")
	f.StringVar(&c.certificateFile, "certificate-file", "", "the `file` of method certificate")
	f.StringVar(&c.tokenFile, "token-file", "", "the `file` of method token_file")
	f.StringVar(&c.output, "output", "agent.yaml", "the `file` to write; - prints it")
	f.BoolVar(&c.force, "force", false, "overwrite the file")
	return cmd
}
