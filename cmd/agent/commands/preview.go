package commands

import (
	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/preview"
)

// previewCommand returns the command preview, with its help and its flags.
func previewCommand() *cobra.Command {
	v := preview.Preview{}
	var path string
	cmd := &cobra.Command{
		Use:   "preview INPUT",
		Short: "Print the next request an input would make, sending nothing",
		Long: "Print the next request an input would make with run --once from what its files hold now, behind what the\n" +
			"agent has dealt with already: its headers, with the token masked, and the beginning of its body before gzip.\n" +
			"Nothing is sent or written, and a running agent is not disturbed. Where there is nothing to send, the exit\n" +
			"code is 1, and the reason is printed.\n\n" +
			"With --before-after: what the input makes of the records of one file from its beginning, sent before or not:\n" +
			"how the first ones are and how they are sent, or which rule leaves them out; behind them the first of each\n" +
			"other fate; and counts of the whole file.",
		Args: oneOf("INPUT", "config show"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if v.File != "" && !v.Compare {
				return exit.Usagef("--file is for --before-after")
			}
			cfg, err := loadService(path)
			if err != nil {
				return err
			}
			v.Out, v.Words = console.NewOutput(cmd.OutOrStdout()), cmd.ErrOrStderr()
			return v.Out.End(v.Run(cmd.Context(), cfg, args[0]))
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "the configuration `file`")
	countVar(cmd.Flags(), &v.Records, "records", 10, "how many records to show")
	cmd.Flags().BoolVar(&v.Compare, "before-after", false, "show records before and after, which rule acts on them, and counts of a whole file")
	cmd.Flags().StringVar(&v.File, "file", "", "the `file` for --before-after, which the input need not match (default: the newest one of the input)")
	cmd.Flags().BoolVar(&v.JSON, "json", false, "print one JSON document")
	return cmd
}
