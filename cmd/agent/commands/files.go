package commands

import (
	"github.com/spf13/cobra"

	"kusto-agent/internal/console"
	"kusto-agent/internal/telemetry"
)

// filesCommand returns the command files, with its help and its flags.
func filesCommand() *cobra.Command {
	var from asked
	var inputs []string
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "files",
		Short: "Show how far each file is, and why one is not being read",
		Long: "Show how far the running agent is in each file: its size, what was read, what is safe and how far that is\n" +
			"behind, in bytes and for how long at least; and of each file that matches and is not being read why.\n" +
			"It asks the agent over the socket in its state_dir, as root or as the agent's user.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := from.folder()
			if err != nil {
				return err
			}
			list, err := telemetry.FetchFiles(cmd.Context(), dir, inputs, all)
			if err != nil {
				return askError(err, dir)
			}
			return show(cmd, asJSON, list, func(out console.Output) error { return telemetry.RenderFiles(out, list, out.Color()) })
		},
	}
	from.flags(cmd)
	cmd.Flags().StringArrayVar(&inputs, "input", nil, "only files of this `input`; may be given more than once")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.Flags().BoolVar(&all, "all", false, "also what exclude leaves out, and what is remembered of files that are gone")
	return cmd
}
