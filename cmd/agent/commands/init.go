package commands

import (
	"github.com/spf13/cobra"

	"kusto-agent/internal/console"
	"kusto-agent/internal/initconfig"
)

// initCommand returns the command init, with its help and its flags.
func initCommand() *cobra.Command {
	c := &initconfig.Answers{}
	cmd := &cobra.Command{
		Use:   "init [SAMPLEFILE]",
		Short: "Write a configuration from flags, questions and a sample file",
		Long: "Write a configuration with one input. On a terminal the command lists the logs of this machine if no sample is\n" +
			"named, asks for what no flag gives, and proposes answers: how to sign in from what this machine has, the rest\n" +
			"from the sample file: the format from its content, the table and the paths from its name.\n" +
			"Without a terminal it uses the proposals. An existing file is overwritten only with --force.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Ask = console.NewAsker(cmd.InOrStdin(), cmd.ErrOrStderr())
			if len(args) == 1 {
				c.Sample = args[0]
			}
			out := console.NewOutput(cmd.OutOrStdout())
			return out.End(c.Run(out))
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Cluster, "cluster", "", "the query `URL` of the cluster")
	f.BoolVar(&c.Trust, "allow-untrusted-endpoint", false, "let a token be sent to a cluster outside the known domains of the service")
	f.StringVar(&c.Database, "database", "", "the database")
	f.StringVar(&c.Path, "path", "", "the files to read, as a `pattern` such as /srv/app/*.json")
	f.StringVar(&c.Table, "table", "", "the table")
	f.StringVar(&c.Mapping, "mapping", "", "the `name` of the mapping; for formats that need one the default is that of the table and the kind")
	f.StringVar(&c.Format, "format", "", "the format of the files")
	f.StringVar(&c.Auth, "auth", "", "how to sign in: a `method`, such as client_secret, or none for an emulator on this machine")
	f.StringVar(&c.Tenant, "tenant", "", "the tenant, for methods that need it")
	f.StringVar(&c.ClientID, "client-id", "", "the client `id`, for methods that need it")
	f.StringVar(&c.ClientSecretFile, "client-secret-file", "", "the `file` that holds the client secret (default kusto-agent.client-secret)")
	f.StringVar(&c.CertificateFile, "certificate-file", "", "the `file` of method certificate")
	f.StringVar(&c.TokenFile, "token-file", "", "the `file` of method token_file")
	f.StringVar(&c.Output, "output", "agent.yaml", "the `file` to write; - prints it")
	f.BoolVar(&c.Force, "force", false, "overwrite the file")
	return cmd
}
