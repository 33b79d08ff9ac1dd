package commands

import (
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/demo"
	"kusto-agent/internal/exit"
)

// demoCommand returns the command demo, with its help and its flags.
func demoCommand() *cobra.Command {
	var d demo.Demo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole journey on this machine: endpoint, writer and agent, with no cluster and no configuration",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.For <= 0 {
				return exit.Usagef("--for %s: want more than 0, such as 10s", d.For)
			}
			ctx, stop := untilSignal(cmd)
			defer stop()
			d.Out = cmd.OutOrStdout()
			return d.Run(ctx)
		},
	}
	durationVar(cmd.Flags(), &d.For, "for", 10*time.Second, "how long the writer writes")
	cmd.Flags().BoolVar(&d.Keep, "keep", false, "let agent and endpoint go on afterwards, to look at, until Ctrl-C")
	return cmd
}
