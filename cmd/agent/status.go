package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

func statusCommand() *cobra.Command {
	var addr, path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the running agent is doing",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if addr == "" {
				addr = listenAddress(path)
			}
			ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
			defer cancel()
			s, err := telemetry.Fetch(ctx, addr)
			if err != nil {
				return exit.With(exit.Failed, fmt.Errorf("%w; is it running, and is telemetry.listen %q?", err, addr))
			}
			if asJSON {
				out := console.NewOutput(c.OutOrStdout())
				return out.End(out.JSON(s))
			}
			color := term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""
			return telemetry.Render(os.Stdout, s, color)
		},
	}
	cmd.Flags().StringVar(&addr, "address", "", "`host:port` of the agent (default: telemetry.listen of the configuration)")
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "the configuration `file`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the status document")
	return cmd
}

// listenAddress is where the agent of a configuration listens. A file that can
// not be read leaves the default: status must work for everyone.
func listenAddress(path string) string {
	cfg, err := config.Load(path, os.LookupEnv, config.Options{})
	if err != nil || cfg.Telemetry.Listen == "" {
		return telemetry.DefaultConfig().Listen
	}
	return cfg.Telemetry.Listen
}
