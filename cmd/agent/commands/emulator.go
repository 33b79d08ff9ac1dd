package commands

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// emulatorCommand returns the command emulator, with its help and its flags.
func emulatorCommand() *cobra.Command {
	var listen, schema, authority string
	var open bool
	var o emulator.Options
	cmd := &cobra.Command{
		Use:   "emulator",
		Short: "Serve a strict streaming-ingest endpoint on this machine, for trying a configuration and for tests",
		Long: "Serve an endpoint of streaming ingestion, commands and queries on this machine, for trying a configuration and\n" +
			"for tests. Every database exists, but as in the service no table does until a command makes it (kusto-agent\n" +
			"setup); --open has every name exist, and --schema only those of a file. It prints the endpoint, which is the\n" +
			"cluster of the configuration, and has a page there for a browser. All is in memory, and gone when it ends.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Before the endpoint is printed, so that no signal is missed.
			ctx, stop := untilSignal(cmd)
			defer stop()
			if o.TokenSecret == "" && cmd.Flags().Changed("token-secret") {
				return exit.Usagef("--token-secret is empty; give a secret, or leave the flag out to serve without a token")
			}
			if authority != "" && !o.TLS {
				return exit.Usagef("--tls-ca goes with --tls")
			}
			if _, _, err := net.SplitHostPort(listen); err != nil {
				return exit.Usagef("--listen %q: want a host:port such as 127.0.0.1:8080", listen)
			}
			if err := loadSchema(&o, schema, open); err != nil {
				return err
			}
			o.Logger = telemetry.NewLogger(telemetry.DefaultConfig().Log, os.Stderr)
			s := emulator.New(o)
			url, err := s.Listen(listen)
			if err != nil {
				return exit.With(exit.Failed, err)
			}
			defer s.Close()
			if o.TLS {
				remove, err := writeAuthority(s.Authority(), &authority)
				if err != nil {
					return exit.With(exit.Failed, err)
				}
				defer remove()
				fmt.Fprintf(cmd.OutOrStdout(), "authority %s\n", authority)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "endpoint  %s\nrows      %s/rows?db=DATABASE&table=TABLE\nindex     %s/\n", url, url, url)
			<-ctx.Done()
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "the `address` to serve on")
	f.StringVar(&schema, "schema", "", "a JSON `file` of databases, tables and mappings; all else is then unknown, see docs/emulator.md")
	f.BoolVar(&open, "open", false, "have every database, table and mapping exist")
	cmd.MarkFlagsMutuallyExclusive("schema", "open")
	f.StringVar(&o.TokenSecret, "token-secret", "", "demand a token, issued here for this client `secret`, for any tenant and client id; auth.authority is the endpoint")
	f.BoolVar(&o.TLS, "tls", false, "serve https, with a certificate for 127.0.0.1, ::1 and localhost that is made at start")
	f.StringVar(&authority, "tls-ca", "", "with --tls, the `file` to write the certificate of the authority to, for clients to trust; default: a new one in the temporary folder, removed at the end")
	f.BoolVar(&o.Discard, "discard", false, "check and count rows, keep none")
	countVar(f, &o.MaxConcurrent, "max-concurrent", 0, "answer 429 to more requests than this at a time; 0: no limit")
	return cmd
}

// writeAuthority writes pem, the certificate of the authority, to the file *path. If *path is
// empty, it makes a temporary file and stores its path there. The caller calls remove at the end,
// which deletes the temporary file, and leaves a named one.
func writeAuthority(pem []byte, path *string) (remove func(), err error) {
	remove = func() {}
	if *path == "" {
		dir, err := os.MkdirTemp("", "kusto-emulator-")
		if err != nil {
			return nil, fmt.Errorf("make a folder for the certificate of the authority: %w; name a file for it with --tls-ca", err)
		}
		*path = filepath.Join(dir, "ca.pem")
		remove = func() { _ = os.RemoveAll(dir) } // after an error it stays in the temporary folder
	}
	if err := os.WriteFile(*path, pem, 0o644); err != nil {
		remove()
		return nil, fmt.Errorf("write --tls-ca, the certificate of the authority: %w; name a file in a folder that exists and that you may write to", err)
	}
	return remove, nil
}

// loadSchema sets o.Schema, which says what databases and tables the emulator has: that of the file
// at path. Without a path every database exists, without tables; with open the schema stays nil,
// and every name exists.
func loadSchema(o *emulator.Options, path string, open bool) error {
	if path == "" && !open {
		o.Schema = &emulator.Schema{AnyDatabase: true}
	}
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return exit.With(exit.Usage, fmt.Errorf("--schema, the file of the schema: %w", err))
	}
	defer f.Close()
	if o.Schema, err = emulator.LoadSchema(f); err != nil {
		return exit.With(exit.Config, fmt.Errorf("%s: %w", path, err))
	}
	return nil
}
