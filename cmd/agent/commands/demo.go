package commands

import (
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/demo"
)

// demoCommand returns the command demo, with its help and its flags.
func demoCommand() *cobra.Command {
	var d demo.Demo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole journey on this machine: endpoint, writer and agent, with no cluster and no configuration",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd)
			defer stop()
			d.Out = cmd.OutOrStdout()
			return d.Run(ctx)
		},
	}
	cmd.Flags().DurationVar(&d.For, "for", 10*time.Second, "how long the writer writes")
	cmd.Flags().BoolVar(&d.Keep, "keep", false, "let agent and endpoint go on afterwards, to look at, until Ctrl-C")
	return cmd
}
