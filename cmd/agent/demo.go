package main

import (
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func demoCommand() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole journey on this machine: endpoint, writer and agent, with no cluster and no configuration",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			d.out = cmd.OutOrStdout()
			return d.run(ctx)
		},
	}
	cmd.Flags().DurationVar(&d.length, "for", 10*time.Second, "how long the writer writes")
	cmd.Flags().BoolVar(&d.keep, "keep", false, "keep the endpoint serving afterwards, until Ctrl-C")
	return cmd
}
