package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"kusto-agent/emulator"
	"kusto-agent/telemetry"
)

func emulatorCommand() *cobra.Command {
	var listen, schema string
	var o emulator.Options
	cmd := &cobra.Command{
		Use:   "emulator",
		Short: "Serve a strict streaming-ingest endpoint on this machine, for trying a configuration and for tests",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := loadSchema(&o, schema); err != nil {
				return err
			}
			o.Logger = telemetry.NewLogger(telemetry.DefaultConfig().Log, os.Stderr)
			s := emulator.New(o)
			url, err := s.Listen(listen)
			if err != nil {
				return &exitError{exitFailed, err}
			}
			defer s.Close()
			fmt.Fprintf(cmd.OutOrStdout(), "endpoint  %s\nrows      %s/rows?db=DATABASE&table=TABLE\nindex     %s/\n", url, url, url)
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			<-ctx.Done()
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "the `address` to serve on")
	f.StringVar(&schema, "schema", "", "a JSON `file` of databases, tables and mappings; all else is then unknown")
	f.StringVar(&o.TokenSecret, "token-secret", "", "demand a token, issued here for this client `secret`")
	f.BoolVar(&o.Discard, "discard", false, "check and count rows, keep none")
	f.IntVar(&o.MaxConcurrent, "max-concurrent", 0, "answer 429 to more requests than this at a time; 0: no limit")
	return cmd
}

func loadSchema(o *emulator.Options, path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	defer f.Close()
	if o.Schema, err = emulator.LoadSchema(f); err != nil {
		return &exitError{exitConfig, fmt.Errorf("%s: %w", path, err)}
	}
	return nil
}
